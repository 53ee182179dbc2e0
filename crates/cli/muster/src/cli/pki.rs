//! `muster pki`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use muster_config::Duration;
use muster_pki::{NodeId, Role, SystemId};

/// The certificate authority.
#[derive(Debug, Subcommand)]
pub(crate) enum Pki {
    /// Make a certificate authority: a root, an intermediate and empty revocation lists
    ///
    /// Doing it again changes nothing. Give ROOT (root.crt.pem in the folder) to every node as its caCert. The root's
    /// private key is needed only every few weeks and can be kept elsewhere: without it everything but the root's own list and
    /// a new intermediate can still be signed.
    Init(Init),
    /// Issue a certificate, for a request or with a new key
    ///
    /// The certificate says what the options say. Of a request only the public key is used, after its signature was checked.
    Issue(Issue),
    /// Issue certificates in files anew, before they end
    ///
    /// Each FILE.crt.pem gets a new certificate with the same names, and FILE.key.pem a new key. For certificates of
    /// nodes there is `muster node renew`.
    Renew(Renew),
    /// End certificates before their time
    Revoke(Revoke),
    /// List the certificates that were issued
    List(List),
    /// Sign the revocation lists anew if they are due, and show them
    Crl(Crl),
    /// Show what is in a file: certificates, requests, revocation lists
    Show(Show),
}

/// Where the authority is.
#[derive(Debug, Clone, Args)]
pub(crate) struct Authority {
    /// The authority's folder [default: /var/lib/muster/pki for root, else muster/pki below $XDG_DATA_HOME]
    #[arg(long = "dir", value_name = "FOLDER", env = "MUSTER_PKI_DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// DNS and IP names.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Names {
    /// A host name to certify, for clients that compare it; can be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) dns: Vec<String>,
    /// An address to certify; can be repeated.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) ip: Vec<IpAddr>,
}

/// `muster pki init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// The id of the system that is certified: a-z 0-9 . - _ [default: a random one]
    #[arg(long, value_name = "ID")]
    pub(crate) system_id: Option<SystemId>,
}

/// `muster pki issue`
#[derive(Debug, Args)]
pub(crate) struct Issue {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// The node it is for; for an operator the name of the person or desk.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: NodeId,
    /// What it is for: iam, cm, sm, mp, nodemgr, operator, or a role of your own.
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Role,
    #[command(flatten)]
    pub(crate) names: Names,
    /// A request (PKCS#10, PEM) whose key is certified, - for standard input; without it a key is made.
    #[arg(long, value_name = "FILE")]
    pub(crate) csr: Option<PathBuf>,
    /// The folder for NODE-ROLE.crt.pem, NODE-ROLE.key.pem and ca.pem.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) out: PathBuf,
    /// Overwrite files that are there.
    #[arg(long)]
    pub(crate) force: bool,
}

/// `muster pki renew`
#[derive(Debug, Args)]
pub(crate) struct Renew {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// Only what ends within this time, e.g. 30d.
    #[arg(long, value_name = "TIME")]
    pub(crate) due: Option<Duration>,
    /// Certify the same key again, and leave its file alone: it may be somewhere else.
    #[arg(long)]
    pub(crate) same_key: bool,
    /// Certificate files.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `muster pki revoke`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["certs", "node", "intermediate"])))]
pub(crate) struct Revoke {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// Why.
    #[arg(long, value_enum, default_value = "unspecified")]
    pub(crate) reason: Reason,
    /// Every valid certificate of this node.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
    /// Replace the intermediate: everything it has signed ends. Needs the root's key.
    #[arg(long, conflicts_with_all = ["node", "certs"])]
    pub(crate) intermediate: bool,
    /// Serial numbers or certificate files.
    #[arg(value_name = "SERIAL|FILE")]
    pub(crate) certs: Vec<String>,
}

/// A reason, in the words of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reason(pub(crate) muster_pki::Reason);

impl ValueEnum for Reason {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Reason; 5] = {
            let all = muster_pki::Reason::ALL;
            [
                Reason(all[0]),
                Reason(all[1]),
                Reason(all[2]),
                Reason(all[3]),
                Reason(all[4]),
            ]
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

/// `muster pki list`
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// Also what is expired, revoked or replaced by a newer certificate.
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Only what ends within this time, e.g. 30d.
    #[arg(long, value_name = "TIME", conflicts_with = "all")]
    pub(crate) due: Option<Duration>,
    /// Only those of this node.
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
}

/// `muster pki crl`
#[derive(Debug, Args)]
pub(crate) struct Crl {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// Sign them anew even if they are not due.
    #[arg(long)]
    pub(crate) refresh: bool,
    /// Copy them to this file, for servers and clients.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `muster pki show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// The file.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}
