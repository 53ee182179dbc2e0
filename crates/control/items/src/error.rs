//! Why items cannot be had or kept.

use std::path::PathBuf;

use muster_api::domain::{AosCode, AosError, ItemId};
use muster_image::{
    FetchBlobError, HttpSetupError, InstallError, LayoutError, MaintainError, OpenImagesError,
    RegistryError,
};
use muster_store::StoreError;
use muster_telemetry::ErrorChain;

use crate::cloud_source::BlobInfoError;

/// Why the keeper of items cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenItemsError {
    /// The store of blobs cannot be opened.
    #[error("cannot open the store of items")]
    Blobs(#[source] OpenImagesError),
    /// The table of items cannot be read.
    #[error("cannot read the table of items")]
    Database(#[source] StoreError),
    /// The client for the cloud's URLs could not be made.
    #[error("cannot prepare downloads from the cloud")]
    Http(#[source] HttpSetupError),
}

/// Why an item's source cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenSourceError {
    /// It is of the cloud, and this Unit has none.
    #[error("it comes from the cloud, and this Unit has no cloud")]
    NoCloud,
    /// The image layout cannot be used.
    #[error("cannot use its image layout")]
    Layout(#[source] LayoutError),
    /// The registry cannot be used.
    #[error("cannot use its registry")]
    Registry(#[source] RegistryError),
    /// A file that the registry is reached with, or one with revocation lists, cannot be used.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The program is ending.
    #[error("opening it was stopped")]
    Stopped,
}

/// Why an item is not there.
#[derive(Debug, thiserror::Error)]
pub enum DownloadItemError {
    /// Its source cannot be used.
    #[error("cannot open the source of item {id} {version}")]
    Source {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
        /// Why.
        #[source]
        source: OpenSourceError,
    },
    /// Something of it cannot be had or makes no sense.
    #[error("cannot get item {id} {version}")]
    Content {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
        /// What and why.
        #[source]
        source: InstallError,
    },
    /// It is there and cannot be recorded.
    #[error("cannot record item {id} {version}")]
    Database {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
        /// Why.
        #[source]
        source: StoreError,
    },
}

/// Why nothing can be said about an item.
#[derive(Debug, thiserror::Error)]
pub enum DescribeItemError {
    /// It has not been downloaded, or was removed or damaged since.
    #[error("item {id} {version} is not here")]
    Absent {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
    },
    /// Its documents cannot be read.
    #[error("cannot read the documents of item {id} {version}")]
    Documents {
        /// Which item.
        id: ItemId,
        /// In which version.
        version: String,
        /// Why.
        #[source]
        source: InstallError,
    },
}

/// Why what is needed could not be recorded, or what is not could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum MaintainItemsError {
    /// The store of blobs.
    #[error("cannot maintain the store of items")]
    Blobs(#[source] MaintainError),
    /// The table of items.
    #[error("cannot maintain the table of items")]
    Database(#[source] StoreError),
}

impl DownloadItemError {
    /// What clouds and operators are told.
    pub fn fault(&self) -> AosError {
        let code = match self {
            Self::Source { source, .. } => match source {
                OpenSourceError::NoCloud => AosCode::NotSupported,
                OpenSourceError::Stopped => AosCode::Cancelled,
                OpenSourceError::Layout(_)
                | OpenSourceError::Registry(_)
                | OpenSourceError::File { .. } => AosCode::NotFound,
            },
            Self::Content { source, .. } => content_code(source),
            Self::Database { .. } => AosCode::Failed,
        };
        AosError::new(code, ErrorChain(self).to_string())
    }
}

fn content_code(error: &InstallError) -> AosCode {
    match error {
        InstallError::Fetch { source, .. } => match source {
            FetchBlobError::WrongContent { .. } => AosCode::InvalidChecksum,
            FetchBlobError::NoPlaces => AosCode::NotFound,
            FetchBlobError::TooLarge { .. } => AosCode::OutOfRange,
            FetchBlobError::GivenUp { source, .. } => match source.downcast_ref() {
                Some(BlobInfoError::Signature { .. } | BlobInfoError::Contradiction { .. }) => {
                    AosCode::InvalidChecksum
                }
                Some(BlobInfoError::Decrypt { .. } | BlobInfoError::Urls { .. }) => {
                    AosCode::InvalidArgument
                }
                Some(BlobInfoError::Timeout { .. }) => AosCode::Timeout,
                Some(BlobInfoError::Ask { .. }) | None => AosCode::Failed,
            },
        },
        InstallError::NoSpace { .. } => AosCode::NoMemory,
        InstallError::Document { .. }
        | InstallError::LayerCount { .. }
        | InstallError::NoImage { .. } => AosCode::InvalidArgument,
        InstallError::TooMuch { .. } => AosCode::OutOfRange,
        InstallError::Stopped { .. } => AosCode::Cancelled,
        _ => AosCode::Failed,
    }
}

impl MaintainItemsError {
    /// What clouds and operators are told.
    pub fn fault(&self) -> AosError {
        AosError::new(AosCode::Failed, ErrorChain(self).to_string())
    }
}
