//! `muster node`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use muster_api::domain::NodeId;
use muster_config::Duration;

use super::pki::{Authority, Names};
use super::unit;

/// Nodes, through the identity manager of the Main Node or of the node itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// List the nodes that the identity manager knows
    List(List),
    /// Show one node
    Show(Show),
    /// Make nodes members of the system: keys are made on them, certified here, and applied
    ///
    /// Without NODE it is the node whose identity manager is called. A node that is provisioned is left alone; what was
    /// interrupted is begun again.
    Provision(Provision),
    /// Give provisioned nodes new keys and certificates, before the old ones end
    Renew(Renew),
    /// Take a node out of the system: its keys and certificates are deleted
    Deprovision(Deprovision),
    /// Let nodes keep what they run and take no new work for now
    ///
    /// With --unit the Communication Manager is asked, else the identity manager.
    Pause(Change),
    /// Let paused nodes take work again, and bring them up to date
    ///
    /// With --unit the Communication Manager is asked, else the identity manager.
    Resume(Change),
    /// Move away from a node what can be moved, and pause it
    Drain(Drain),
}

/// How to reach the identity manager.
#[derive(Debug, Clone, Args)]
pub(crate) struct Connection {
    /// The identity manager: a unix socket, or HOST:PORT of its protected port.
    #[arg(
        long,
        alias = "address",
        value_name = "ADDRESS",
        env = "MUSTER_IAM",
        default_value = "/run/muster/iam.sock"
    )]
    pub(crate) iam: String,
    /// For HOST:PORT: the root certificate.
    #[arg(long, value_name = "FILE", env = "MUSTER_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// For HOST:PORT: your certificate.
    #[arg(long, value_name = "FILE", env = "MUSTER_CERT", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// For HOST:PORT: its key.
    #[arg(long, value_name = "FILE", env = "MUSTER_KEY", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// For HOST:PORT: revocation lists.
    #[arg(long, value_name = "FILE", env = "MUSTER_CRL", requires = "ca")]
    pub(crate) crl: Option<PathBuf>,
    /// For HOST:PORT: what makes the server the right one.
    #[arg(long, value_enum, value_name = "CHECK", default_value_t)]
    pub(crate) server: ServerCheck,
    /// For HOST:PORT: no TLS, for a node that is not provisioned and says that it may be reached so.
    #[arg(long, conflicts_with_all = ["ca", "cert", "key", "crl"])]
    pub(crate) insecure: bool,
}

/// What makes a server the right one, beyond a certificate of the root.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerCheck {
    /// Its certificate has the role iam.
    #[default]
    Role,
    /// Its certificate has the host's name or address.
    Name,
    /// Nothing else, for identity managers whose certificates have neither.
    Any,
}

/// `muster node list`
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// `muster node show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The node; the one whose identity manager is called if there is none.
    #[arg(value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
}

/// Which nodes.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Every node to which this applies.
    #[arg(long, conflicts_with = "nodes")]
    pub(crate) all: bool,
    /// Nodes; the one whose identity manager is called if there is none.
    #[arg(value_name = "NODE")]
    pub(crate) nodes: Vec<NodeId>,
}

/// The owner's password of the nodes' key stores.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Password {
    /// A file with the password of the node's key stores, readable by its owner only.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
}

/// How certificates are made for a node.
#[derive(Debug, Clone, Args)]
pub(crate) struct Signing {
    /// The authority's folder [default: /var/lib/muster/pki for root, else muster/pki below $XDG_DATA_HOME]
    #[arg(
        long = "pki",
        visible_alias = "dir",
        value_name = "FOLDER",
        env = "MUSTER_PKI_DIR"
    )]
    pub(crate) folder: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) names: Names,
    /// Also certify the host names and addresses that the node asks for.
    #[arg(long)]
    pub(crate) asked_names: bool,
}

impl Signing {
    pub(crate) fn authority(&self) -> Authority {
        Authority {
            folder: self.folder.clone(),
        }
    }
}

/// `muster node provision`
#[derive(Debug, Args)]
pub(crate) struct Provision {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) password: Password,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// `muster node renew`
#[derive(Debug, Args)]
pub(crate) struct Renew {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) signing: Signing,
    #[command(flatten)]
    pub(crate) password: Password,
    /// Only certificates that end within this time, e.g. 30d, and those that the authority does not know.
    #[arg(long, value_name = "TIME")]
    pub(crate) due: Option<Duration>,
    #[command(flatten)]
    pub(crate) which: Which,
}

/// `muster node deprovision`
#[derive(Debug, Args)]
pub(crate) struct Deprovision {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(flatten)]
    pub(crate) password: Password,
    /// Also revoke its certificates, with the authority in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) revoke: Option<PathBuf>,
    /// The node; it has to be named.
    #[arg(value_name = "NODE")]
    pub(crate) node: NodeId,
}

/// `muster node pause` and `resume`
#[derive(Debug, Args)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The Unit: the socket of its Communication Manager, or https://HOST:PORT.
    #[arg(
        long,
        value_name = "SOCKET|URL",
        env = "MUSTER_UNIT",
        conflicts_with = "insecure"
    )]
    pub(crate) unit: Option<String>,
    /// Nodes.
    #[arg(required = true, value_name = "NODE")]
    pub(crate) nodes: Vec<NodeId>,
}

/// `muster node drain`
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// The node.
    #[arg(value_name = "NODE")]
    pub(crate) node: NodeId,
    /// Only show what would move, and where to.
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) connection: unit::Connection,
}
