//! Where nodes fetch blobs of items.

use std::path::PathBuf;
use std::sync::OnceLock;

use futures_util::future::BoxFuture;
use muster_api::domain::{Digest, NodeId};
use muster_file_server::Urls;
use muster_smcontroller::{BlobUrls, ResolveBlobError};

/// Blobs are not served yet.
#[derive(Debug, thiserror::Error)]
#[error("blobs are not served yet")]
struct NotServed;

/// Signed URLs of blobs that are here.
#[derive(Debug)]
pub(crate) struct BlobPlaces {
    folder: PathBuf,
    urls: OnceLock<Urls>,
}

impl BlobPlaces {
    /// For blobs in `folder`, which has `sha256` in it.
    pub(crate) fn new(folder: PathBuf) -> Self {
        let urls = OnceLock::new();
        Self { folder, urls }
    }

    /// From now on blobs are served there. A later call changes nothing.
    pub(crate) fn served_at(&self, urls: Urls) {
        // The server is started once in the life of the daemon.
        let _ = self.urls.set(urls);
    }
}

impl BlobUrls for BlobPlaces {
    fn url(
        &self,
        _: Option<&NodeId>,
        digest: Digest,
    ) -> BoxFuture<'_, Result<String, ResolveBlobError>> {
        let name = format!("{}/{}", digest.algorithm().as_str(), digest.to_hex());
        let path = self.folder.join(name);
        Box::pin(async move {
            let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
                ResolveBlobError::Failed { digest, source }
            };
            let urls = self.urls.get().ok_or_else(|| failed(NotServed.into()))?;
            let found = tokio::task::spawn_blocking(move || path.try_exists()).await;
            let found = found.map_err(|broken| failed(broken.into()))?;
            match found.map_err(|error| failed(error.into()))? {
                true => Ok(urls.of(&digest)),
                false => Err(ResolveBlobError::Unknown { digest }),
            }
        })
    }
}
