//! The verbs of a Unit: what runs, what shall run, and why.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use muster_config::Duration;

/// What `apply` takes.
pub(crate) const DOCUMENT: &str = "\
The document (YAML or JSON):
  items:
  - id: web                       # its name
    version: 1.2.0
    image:                        # one of these:
      layout: web.tar             #   an OCI image layout on the Main Node, folder or tar; name: which of its images
      registry: host/web:1.2      #   a registry; also user, passwordFile, ca, insecure
    owner: acme                   # whose it is
    type: service                 # or component
  instances:
  - item: web
    count: 2                      # [default: 1]
    subject: local                # whom it runs for [default: local]
    priority: 10                  # higher ones are placed and started first [default: 0]
    labels: [gpu]                 # a node must have all of them
    node: node-2                  # the only node that may run it
    distribution: spread          # as few as possible on the same node [default: best]
  env:
  - {item: web, variables: {COLOUR: red}}
  nodes:
  - {id: node-3, paused: true}    # keeps what it runs and gets nothing new
Paths are relative to the document. `muster get desired` prints the one in force.

Exit codes:
  0  done: with --wait everything came up
  1  failed: with --wait something did not come up, or a newer update took over
  2  the command line or the document makes no sense
  3  refused: not allowed, or not possible in this state
  4  there is no such file
  5  the Unit cannot be reached
  6  with --wait: it took longer than --timeout";

/// Which Unit, and how to reach it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which Unit")]
pub(crate) struct Connection {
    /// The Unit: the socket of its Communication Manager, or https://HOST:PORT [default: /run/muster/cm.sock, then
    /// $XDG_RUNTIME_DIR/muster/cm.sock]
    #[arg(long, value_name = "SOCKET|URL", env = "MUSTER_UNIT")]
    pub(crate) unit: Option<String>,
    /// For https: the root certificate.
    #[arg(long, value_name = "FILE", env = "MUSTER_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// For https: your certificate.
    #[arg(long, value_name = "FILE", env = "MUSTER_CERT", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// For https: its key.
    #[arg(long, value_name = "FILE", env = "MUSTER_KEY", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// For https: revocation lists.
    #[arg(long, value_name = "FILE", env = "MUSTER_CRL", requires = "ca")]
    pub(crate) crl: Option<PathBuf>,
}

/// `muster status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// How long a command waits for an update.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Waiting {
    /// Wait until everything is up or has failed, and show how far it is.
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// With --wait: how long at most. The update goes on after that.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) timeout: Duration,
}

/// `muster apply`
#[derive(Debug, Args)]
pub(crate) struct Apply {
    /// The document that says what shall run, YAML or JSON; - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only show what would change, and where instances would run.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster diff`
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The document that says what shall run, YAML or JSON; - for standard input.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster rollback`
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The update to go back to, as --list shows it [default: the one before]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<u64>,
    /// Show what was wanted so far, the newest first, and change nothing.
    #[arg(long, conflicts_with_all = ["id", "dry_run", "wait"])]
    pub(crate) list: bool,
    /// Only show what would change, and where instances would run.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster get`
#[derive(Debug, Subcommand)]
pub(crate) enum Get {
    /// Nodes: state, connection, load
    #[command(visible_alias = "node")]
    Nodes(GetNodes),
    /// Instances: where they run and how they are
    #[command(visible_alias = "instance")]
    Instances(GetInstances),
    /// Items: what is deployed, in which version
    #[command(visible_alias = "item")]
    Items(GetItems),
    /// Alerts, the newest last
    #[command(visible_alias = "alert")]
    Alerts(GetAlerts),
    /// Networks between instances
    #[command(visible_alias = "network")]
    Networks(GetNetworks),
    /// What is wanted, as the document that `apply` takes
    Desired(GetDesired),
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Watching {
    /// Show every change as it happens, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// `muster get nodes`
#[derive(Debug, Args)]
pub(crate) struct GetNodes {
    /// Only this node.
    #[arg(value_name = "NODE")]
    pub(crate) name: Option<String>,
    /// Only nodes with all of these labels.
    #[arg(short = 'l', long = "label", value_name = "LABEL")]
    pub(crate) labels: Vec<String>,
    /// Only nodes in this state.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster get instances`
#[derive(Debug, Args)]
pub(crate) struct GetInstances {
    /// Only these: an item, ITEM/SUBJECT, ITEM/SUBJECT/NUMBER, or an instance id.
    #[arg(value_name = "INSTANCE")]
    pub(crate) name: Option<String>,
    /// Only instances on this node.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Only instances in this state.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster get items`
#[derive(Debug, Args)]
pub(crate) struct GetItems {
    /// Only this item.
    #[arg(value_name = "ITEM")]
    pub(crate) name: Option<String>,
    /// Only items in this state.
    #[arg(long, value_name = "STATE")]
    pub(crate) state: Option<String>,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster get alerts`
#[derive(Debug, Args)]
pub(crate) struct GetAlerts {
    /// Only alerts of this node.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Only alerts since then: 10m ago, or a time such as 2026-05-01T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// At most so many, the newest.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: u64,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster get networks`
#[derive(Debug, Args)]
pub(crate) struct GetNetworks {
    /// Only this network.
    #[arg(value_name = "NETWORK")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) watching: Watching,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster get desired`
#[derive(Debug, Args)]
pub(crate) struct GetDesired {
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// What can be described.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A node, and what runs on it.
    #[value(alias = "nodes")]
    Node,
    /// An instance, and what happened to it.
    #[value(alias = "instances")]
    Instance,
    /// An item, and its instances.
    #[value(alias = "items")]
    Item,
    /// A network, and who is in it.
    #[value(alias = "networks")]
    Network,
}

/// `muster describe`
#[derive(Debug, Args)]
pub(crate) struct Describe {
    /// What kind of thing.
    #[arg(value_enum)]
    pub(crate) kind: Kind,
    /// Which one.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster explain`
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// ITEM/SUBJECT/NUMBER, an instance id, or the item if it has one instance.
    #[arg(value_name = "INSTANCE")]
    pub(crate) instance: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster logs`
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// ITEM/SUBJECT/NUMBER, an instance id, or the item if it has one instance.
    #[arg(value_name = "INSTANCE", required_unless_present = "nodes")]
    pub(crate) instance: Option<String>,
    /// The log of this node itself or, with INSTANCE, what the instance wrote there.
    #[arg(long = "node", value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Go on with what is written from now on, until Ctrl-C.
    #[arg(short, long, conflicts_with_all = ["until", "crash"])]
    pub(crate) follow: bool,
    /// Only from then on: 10m ago, or a time such as 2026-05-01T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only up to then.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Since>,
    /// What was written before each failed end.
    #[arg(long)]
    pub(crate) crash: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on with what happens from now on, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only from then on: 10m ago, or a time such as 2026-05-01T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only what went wrong.
    #[arg(long)]
    pub(crate) warnings: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster top`
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print a table once. This is also what happens where nobody looks: with another output, or without a terminal.
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A point in time, said directly or by how long ago it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(Timestamp),
}

/// A text is no point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("say how long ago (10m, 2h, 1d) or when (2026-05-01T10:00:00Z)")]
pub(crate) struct ParseSinceError;

impl FromStr for Since {
    type Err = ParseSinceError;

    fn from_str(text: &str) -> Result<Self, ParseSinceError> {
        let text = text.trim().trim_end_matches(" ago");
        match text.parse() {
            Ok(ago) => Ok(Self::Ago(ago)),
            Err(_) => text.parse().map(Self::At).map_err(|_| ParseSinceError),
        }
    }
}

impl Since {
    /// When that is, seen from `now`.
    pub(crate) fn time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            // Before the beginning of time there is nothing.
            Self::Ago(ago) => now.checked_sub(ago.get()).unwrap_or(Timestamp::MIN),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_absolute() {
        let now: Timestamp = "2026-05-01T10:00:00Z".parse().unwrap();
        for (text, time) in [
            ("10m", "2026-05-01T09:50:00Z"),
            ("1d ago", "2026-04-30T10:00:00Z"),
            ("2026-05-01T12:00:00+02:00", "2026-05-01T10:00:00Z"),
        ] {
            assert_eq!(
                text.parse::<Since>().unwrap().time(now).to_string(),
                time,
                "{text}"
            );
        }
        for text in ["", "soon", "10", "2026-05-01"] {
            assert_eq!(text.parse::<Since>(), Err(ParseSinceError), "{text}");
        }
    }
}
