//! Why something was not done, and what that means for whoever asked.

use std::io;
use std::path::PathBuf;

use muster_provider::{BoxError, FailureClass, InvalidName};

use crate::helper::CallError;
use crate::image::ImageError;
use crate::iso::DiscError;
use crate::plan::RefusedOrder;
use crate::protocol::FailureKind;
use crate::tool::ToolError;

/// The provider cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenLibvirtError {
    /// Machines of other hosts cannot be made: their disks would have to be there.
    #[error(
        "{uri}: hypervisors of other hosts are not supported, because disks are made on this one"
    )]
    RemoteUri {
        /// The URI.
        uri: String,
    },
    /// A folder cannot be made.
    #[error("cannot make the folder {path}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A folder has a path that a domain's description cannot hold, or that is not absolute.
    #[error("the folder {path:?} must have an absolute path without control characters")]
    Path {
        /// Which.
        path: PathBuf,
    },
    /// Downloads cannot be set up.
    #[error("cannot set downloads up")]
    Http(#[source] BoxError),
}

/// Why a call of the provider failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the machine bears another mark")]
    Foreign,
    #[error("there is no such machine")]
    Missing,
    #[error("its order has been carried out, and the machine destroyed since")]
    Used,
    #[error("the order cannot be carried out")]
    Order(#[source] RefusedOrder),
    #[error("a path or name of libvirt's is no machine's")]
    Name(#[source] InvalidName),
    #[error("the state does not allow it")]
    State(#[source] muster_lifecycle::RefusedVerb),
    #[error("libvirt has no network {wanted}; it has: {known}")]
    NoNetwork { wanted: String, known: String },
    #[error("the network {0} is not active")]
    InactiveNetwork(String),
    #[error("the image cannot be used")]
    Image(#[source] ImageError),
    #[error("the disk cannot be made")]
    Disk(#[source] ToolError),
    #[error("the seed disc cannot be made")]
    Seed(#[source] DiscError),
    #[error("libvirt did not do it")]
    Libvirt(#[source] CallError),
    #[error("cannot {action} {path}")]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} is not the order of a machine")]
    Record { path: PathBuf, reason: String },
    #[error("no port of this host is free")]
    Port(#[source] io::Error),
}

impl Trouble {
    /// What it means for whoever asked.
    pub(crate) fn class(&self) -> FailureClass {
        match self {
            Self::Missing => FailureClass::NotFound,
            Self::Order(RefusedOrder::Spot) => FailureClass::Capacity,
            Self::Foreign
            | Self::Used
            | Self::Order(_)
            | Self::Name(_)
            | Self::NoNetwork { .. }
            | Self::Seed(_)
            | Self::Record { .. } => FailureClass::Refused,
            Self::State(muster_lifecycle::RefusedVerb::Unsupported { .. }) => {
                FailureClass::Unsupported
            }
            Self::State(
                muster_lifecycle::RefusedVerb::Illegal { .. }
                | muster_lifecycle::RefusedVerb::NotThisOne { .. },
            ) => FailureClass::Refused,
            Self::Image(error) => error.class(),
            Self::Libvirt(CallError::Refused(failure)) => match failure.kind {
                FailureKind::NoDomain => FailureClass::NotFound,
                FailureKind::Foreign | FailureKind::Description => FailureClass::Refused,
                FailureKind::State | FailureKind::Unreachable | FailureKind::Other => {
                    FailureClass::Retryable
                }
            },
            Self::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                FailureClass::Capacity
            }
            Self::InactiveNetwork(_)
            | Self::Disk(_)
            | Self::Libvirt(_)
            | Self::File { .. }
            | Self::Port(_) => FailureClass::Retryable,
        }
    }
}
