//! What carries rules into the kernel.

use std::fmt;

use crate::bridge::SeparatePortsError;
use crate::model::{Change, Counters, Installed};
use crate::names::LinkName;
use crate::subnet::Ipv4Subnet;
use crate::tool::ToolError;

/// Why rules could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FirewallError {
    /// Neither nft nor iptables works here.
    #[error(
        "this node has no packet filter that can be used: nft and iptables are missing or refuse"
    )]
    NoBackend(#[source] ToolError),
    /// The rules could not be read.
    #[error("cannot read the rules of the {backend} packet filter")]
    Read {
        /// Which backend.
        backend: &'static str,
        /// The program that failed.
        #[source]
        source: ToolError,
    },
    /// The kernel did not say what rules there are.
    #[error("cannot ask the kernel for the rules of the {backend} packet filter")]
    Ask {
        /// Which backend.
        backend: &'static str,
        /// What the system reported.
        #[source]
        source: std::io::Error,
    },
    /// What was read is not what Muster writes.
    #[error(
        "the {backend} packet filter has rules under Muster's name that Muster did not write: {what}"
    )]
    Foreign {
        /// Which backend.
        backend: &'static str,
        /// What was not expected.
        what: String,
    },
    /// The rules are as they were before.
    #[error("cannot change the rules of the {backend} packet filter")]
    Change {
        /// Which backend.
        backend: &'static str,
        /// The program that failed.
        #[source]
        source: ToolError,
    },
    /// Two networks would have the same addresses.
    #[error(
        "the network of {bridge}, {subnet}, shares addresses with that of {other}, {other_subnet}"
    )]
    Overlap {
        /// The new network.
        bridge: LinkName,
        /// Its addresses.
        subnet: Ipv4Subnet,
        /// The network that is there.
        other: LinkName,
        /// Its addresses.
        other_subnet: Ipv4Subnet,
    },
    /// The lock that keeps changes apart.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The lock file.
        path: std::path::PathBuf,
        /// What the system reported.
        #[source]
        source: std::io::Error,
    },
    /// The bridge would forward between its ports, past the rules.
    #[error("cannot keep the ports of the bridge {bridge} apart")]
    Bridge {
        /// The bridge.
        bridge: LinkName,
        /// What failed.
        #[source]
        source: SeparatePortsError,
    },
}

/// A packet filter of the kernel, by way of its tool.
///
/// Callers of [`commit`](Self::commit) hold the firewall's lock from the reading on.
pub trait Backend: fmt::Debug + Send + Sync {
    /// `nft` or `iptables`, for logs.
    fn name(&self) -> &'static str;

    /// Reads what there is.
    fn installed(&self) -> Result<Installed, FirewallError>;

    /// Makes all changes, or none.
    fn commit(&self, installed: &Installed, changes: &[Change]) -> Result<(), FirewallError>;

    /// Reads all meters.
    fn counters(&self) -> Result<Counters, FirewallError>;

    /// Removes everything of Muster's, and nothing else.
    fn clear(&self) -> Result<(), FirewallError>;
}
