//! What can go wrong with networks.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use muster_api::domain::{AosCode, NetworkId};
use muster_cni::{AddError, CacheError, DelError, InvalidAttachment};
use muster_firewall::{FirewallError, InvalidName, PolicyError};
use muster_launcher::seams::SeamError;
use muster_store::StoreError;
use muster_telemetry::ErrorChain;

use crate::directory::DirectoryError;
use crate::instance::PlanError;
use crate::links::LinkConflict;
use crate::namespace::NamespaceError;
use crate::netlink::LinkError;
use crate::node_network::{InvalidNetwork, NoUplink};
use crate::plan::NetworkConflict;

/// The task that works on networks is not running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the networks of this node are not looked after any more")]
pub struct NetworksGone;

/// Why networks cannot be looked after at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenNetworksError {
    /// What was made earlier cannot be read.
    #[error("cannot read which networks this node has")]
    Store(#[source] StoreError),
    /// There are no rules without a packet filter.
    #[error("cannot use this node's packet filter")]
    Firewall(#[source] FirewallError),
    /// The folder cannot be used.
    #[error("cannot use the folder {} for namespaces and results of plugins", folder.display())]
    Folder {
        /// Which folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why one network could not be made or removed. It is tried again at the next list and for its next instance.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} network {network}")]
pub struct NetworkError {
    /// What was to be done.
    pub operation: &'static str,
    /// Which network.
    pub network: NetworkId,
    /// Why it was not.
    #[source]
    pub fault: NetworkFault,
}

/// What of a network could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum NetworkFault {
    /// There is no way to other nodes.
    #[error("it has no uplink")]
    Uplink(#[source] NoUplink),
    /// Something is in the way.
    #[error("its links cannot be made")]
    Conflict(#[source] LinkConflict),
    /// The kernel refused.
    #[error("its links cannot be made")]
    Link(#[source] LinkError),
    /// A setting of the kernel.
    #[error("cannot set {} to {value}", path.display())]
    Setting {
        /// Which one.
        path: PathBuf,
        /// The value.
        value: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Its bridge's name cannot stand in a rule.
    #[error("its bridge cannot be named in a rule")]
    Name(#[source] InvalidName),
    /// It cannot have rules.
    #[error("it cannot have rules")]
    Policy(#[source] PolicyError),
    /// The packet filter refused.
    #[error("its rules cannot be changed")]
    Firewall(#[source] FirewallError),
    /// Its name server.
    #[error("its name server cannot be started")]
    Names(#[source] DirectoryError),
    /// It cannot be written down.
    #[error("it cannot be written down")]
    Store(#[source] StoreError),
}

/// Why not all networks of the controller's list are there.
#[derive(Debug, thiserror::Error)]
pub enum UpdateNetworksError {
    /// The task is not running.
    #[error("{NetworksGone}")]
    Gone,
    /// The list could not be written down, and nothing was done.
    #[error("the controller's networks cannot be written down")]
    Store(#[source] StoreError),
    /// These failed; all others are there.
    #[error("{} of the controller's networks: {}", failures.len(), listed(failures))]
    Some {
        /// One for each network.
        failures: Vec<ListFailure>,
    },
}

/// What is wrong with one network of the list.
#[derive(Debug, thiserror::Error)]
pub enum ListFailure {
    /// It makes no sense.
    #[error(transparent)]
    Invalid(InvalidNetwork),
    /// It cannot be beside another one.
    #[error(transparent)]
    Conflict(NetworkConflict),
    /// It could not be made or removed.
    #[error(transparent)]
    Failed(NetworkError),
}

fn listed(failures: &[ListFailure]) -> String {
    let texts: Vec<String> = failures
        .iter()
        .map(|it| ErrorChain(it).to_string())
        .collect();
    texts.join("; ")
}

/// Why an instance was not put into its network. Whatever was begun is undone, or will be.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The controller has not named the network.
    #[error("network {network} of {instance} is none of this node's")]
    UnknownNetwork {
        /// Whose.
        instance: String,
        /// Which network.
        network: NetworkId,
    },
    /// Another one has the address.
    #[error("the address {address} of {instance} is still that of {other}")]
    AddressTaken {
        /// Whose.
        instance: String,
        /// The address.
        address: IpAddr,
        /// Who has it.
        other: String,
    },
    /// What the controller says cannot be.
    #[error("{instance} cannot be in network {network}")]
    Plan {
        /// Whose.
        instance: String,
        /// Which network.
        network: NetworkId,
        /// Why not.
        #[source]
        source: Box<PlanError>,
    },
    /// The network is not there.
    #[error("the network of {instance} is not there")]
    Network {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: Box<NetworkError>,
    },
    /// What is begun must be written down first.
    #[error("the network of {instance} cannot be written down")]
    Store {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: StoreError,
    },
    /// An earlier attempt could not be undone.
    #[error("what is left of an earlier network of {instance} cannot be removed")]
    Leftover {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: Box<DetachError>,
    },
    /// Its namespace.
    #[error("{instance} has no network namespace")]
    Namespace {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: NamespaceError,
    },
    /// A plugin.
    #[error("{instance} is not in its network")]
    Plugins {
        /// Whose.
        instance: String,
        /// Which plugin, and why.
        #[source]
        source: Box<AddError>,
    },
}

/// Why an instance's network is not wholly removed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// It cannot be told to plugins.
    #[error("plugins cannot be told about {instance}")]
    Attachment {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: InvalidAttachment,
    },
    /// Plugins failed.
    #[error("the network of {instance} is not wholly removed")]
    Plugins {
        /// Whose.
        instance: String,
        /// Which ones, and why.
        #[source]
        source: DelError,
    },
    /// Its namespace stays.
    #[error("the network namespace of {instance} is not removed")]
    Namespace {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: NamespaceError,
    },
    /// It cannot be written down.
    #[error("the end of the network of {instance} cannot be written down")]
    Store {
        /// Whose.
        instance: String,
        /// Why not.
        #[source]
        source: StoreError,
    },
}

/// Why leftovers could not be looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    #[error("cannot find out which namespaces are there")]
    Namespaces(#[source] NamespaceError),
    #[error("cannot find out what plugins have done")]
    Plugins(#[source] CacheError),
    #[error("cannot find out which rules are there")]
    Firewall(#[source] FirewallError),
}

impl From<NetworksGone> for SeamError {
    fn from(error: NetworksGone) -> Self {
        Self::new(AosCode::Failed, error)
    }
}

impl From<AttachError> for SeamError {
    fn from(error: AttachError) -> Self {
        let (code, will_pass) = match &error {
            // The controller's list of networks may be on its way.
            AttachError::UnknownNetwork { .. } => (AosCode::NotFound, true),
            AttachError::AddressTaken { .. } => (AosCode::AlreadyExists, true),
            AttachError::Plan { .. } => (AosCode::InvalidArgument, false),
            AttachError::Network { .. }
            | AttachError::Store { .. }
            | AttachError::Leftover { .. }
            | AttachError::Namespace { .. }
            | AttachError::Plugins { .. } => (AosCode::Failed, false),
        };
        Self {
            will_pass,
            ..Self::new(code, error)
        }
    }
}

impl From<DetachError> for SeamError {
    fn from(error: DetachError) -> Self {
        Self::new(AosCode::Failed, error)
    }
}
