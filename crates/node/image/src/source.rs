//! Where blobs come from.

mod file;
mod layout;
#[cfg(feature = "registry")]
mod registry;
mod url;

use std::fmt;
use std::io;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use muster_api::domain::Digest;

pub use self::layout::{LayoutError, LayoutSource};
#[cfg(feature = "registry")]
pub use self::registry::{Login, RegistryError, RegistryImage, RegistrySource};
pub use self::url::{BlobUrls, HttpSettings, HttpSetupError, UrlClient, UrlSource};

/// Any error, where nobody but a reader of logs will look into it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Something that knows where blobs are.
pub trait BlobSource: fmt::Debug + Send + Sync + 'static {
    /// The places where a blob can be had, the best first. Asked again when all of them have failed or are no longer valid.
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>>;

    /// The same for a blob that is no document: sources that keep documents apart need not look among them.
    fn content_places(
        &self,
        digest: Digest,
    ) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        self.places(digest)
    }
}

/// A place where one blob can be had.
pub trait BlobPlace: Send + Sync {
    /// For logs and for telling places apart; without anything secret.
    fn name(&self) -> &str;

    /// Begins to read, from this position on if the place can do that.
    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>>;
}

/// A blob on its way.
pub struct BlobStream {
    /// The position of its first byte: what was asked for, or 0 from a place that cannot start elsewhere.
    pub from: u64,
    /// The bytes.
    pub bytes: BoxStream<'static, io::Result<Bytes>>,
}

impl fmt::Debug for BlobStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobStream")
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// Why a place gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum OpenBlobError {
    /// The place may be asked no longer: the others come first, then new ones are asked for.
    #[error("{place} is no longer valid")]
    Stale {
        /// Which place.
        place: String,
    },
    /// The blob is not there.
    #[error("{place} does not have the blob")]
    Missing {
        /// Which place.
        place: String,
    },
    /// Anything else, which may pass.
    #[error("cannot read from {place}")]
    Failed {
        /// Which place.
        place: String,
        /// Why.
        #[source]
        source: BoxError,
    },
}
