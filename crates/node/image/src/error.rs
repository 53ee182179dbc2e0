//! Why images cannot be had or kept.

use muster_api::domain::Digest;
use muster_item::{MediaType, Platform, ReadDocumentError, SelectManifestError};
use muster_layer::UnpackError;
use muster_store::StoreError;

use crate::fetch::FetchBlobError;
use crate::folders::DiskError;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenImagesError {
    /// Its folder cannot be used.
    #[error("cannot use the folder of the image store")]
    Disk(#[source] DiskError),
    /// Another process has it.
    #[error("the image store {} is in use by another process", .0.display())]
    InUse(std::path::PathBuf),
    /// Its tables cannot be used.
    #[error("cannot use the database of the image store")]
    Database(#[source] StoreError),
    /// The program is ending.
    #[error("opening the image store was stopped")]
    Stopped,
}

/// Why an item is not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// A blob cannot be had.
    #[error("cannot get blob {digest}")]
    Fetch {
        /// Which blob.
        digest: Digest,
        /// Why.
        #[source]
        source: FetchBlobError,
    },
    /// A document was there, and is damaged or gone. It is got anew when it is asked for again.
    #[error("document {digest} is damaged on the disk")]
    Damaged {
        /// Which document.
        digest: Digest,
    },
    /// A document of the item makes no sense.
    #[error("cannot use document {digest}")]
    Document {
        /// Which document.
        digest: Digest,
        /// What is wrong.
        #[source]
        source: Box<ReadDocumentError>,
    },
    /// Nothing in an index is for this node.
    #[error("cannot choose from index {digest}")]
    Select {
        /// Which index.
        digest: Digest,
        /// What there is.
        #[source]
        source: SelectManifestError,
    },
    /// Indexes lead to indexes.
    #[error("index {digest} leads to no manifest within {limit} steps")]
    TooManyIndexes {
        /// The first index.
        digest: Digest,
        /// How many are followed.
        limit: usize,
    },
    /// It leads to no image at all.
    #[error("index {digest} leads to no image")]
    NoImage {
        /// What it was asked for with.
        digest: Digest,
    },
    /// It refers to more than any item has.
    #[error("{digest} leads to more than {limit} documents and blobs")]
    TooMuch {
        /// What it was asked for with.
        digest: Digest,
        /// How many are followed.
        limit: usize,
    },
    /// The image is for other machines.
    #[error("image {digest} is for {found}, and this node is {wanted}")]
    WrongPlatform {
        /// The image's manifest.
        digest: Digest,
        /// What it is for.
        found: Box<Platform>,
        /// What the node is.
        wanted: Box<Platform>,
    },
    /// Manifest and image configuration disagree.
    #[error("image {digest} has {layers} layers and {diff_ids} diff ids")]
    LayerCount {
        /// The image's manifest.
        digest: Digest,
        /// In the manifest.
        layers: usize,
        /// In the image configuration.
        diff_ids: usize,
    },
    /// A layer is of no kind that can be unpacked.
    #[error("layer {digest} has type {media_type}, which is not known")]
    LayerType {
        /// Which layer.
        digest: Digest,
        /// Its kind.
        media_type: MediaType,
    },
    /// A layer's content is not what the image configuration says.
    #[error("layer {digest} has diff id {found}, and the image configuration says {expected}")]
    WrongDiffId {
        /// Which layer.
        digest: Digest,
        /// From the image configuration.
        expected: Box<Digest>,
        /// Of what is there.
        found: Box<Digest>,
    },
    /// A layer has the bytes that it should have, and is refused or cannot be written.
    #[error("cannot unpack layer {digest}")]
    Unpack {
        /// Which layer.
        digest: Digest,
        /// Why.
        #[source]
        source: Box<UnpackError>,
    },
    /// There is not enough space, also after everything was removed that may be.
    #[error("{needed} bytes are needed for {digest}, and {missing} of them are missing ({limit})")]
    NoSpace {
        /// What is to be stored.
        digest: Digest,
        /// How much it needs.
        needed: u64,
        /// How much too little there is.
        missing: u64,
        /// What the limit is.
        limit: SpaceLimit,
    },
    /// The store's folder cannot be used.
    #[error("cannot store {digest}")]
    Disk {
        /// What was to be stored.
        digest: Digest,
        /// Why not.
        #[source]
        source: DiskError,
    },
    /// The store's tables cannot be used.
    #[error("cannot record {digest}")]
    Database {
        /// What was to be recorded.
        digest: Digest,
        /// Why not.
        #[source]
        source: StoreError,
    },
    /// The program is ending.
    #[error("the installation of {digest} was stopped")]
    Stopped {
        /// What was being stored.
        digest: Digest,
    },
}

/// What bounds the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpaceLimit {
    /// The setting.
    #[error("the store may hold {0} bytes")]
    Setting(u64),
    /// The file system.
    #[error("the file system has {0} bytes left for images")]
    FileSystem(u64),
}

/// Why something could not be removed or looked at.
#[derive(Debug, thiserror::Error)]
pub enum MaintainError {
    /// The store's folder cannot be used.
    #[error("cannot maintain the image store")]
    Disk(#[source] DiskError),
    /// The store's tables cannot be used.
    #[error("cannot maintain the tables of the image store")]
    Database(#[source] StoreError),
    /// The program is ending.
    #[error("maintenance of the image store was stopped")]
    Stopped,
}
