//! Images of this node, for the launcher.

mod needed;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, Digest};
use muster_api::servicemanager::v5 as wire;
use muster_image::{BlobSource, BlobUrls, BoxError, ImageStore};
use muster_launcher::seams::{Images, InstalledImage, SeamError};
use muster_runtime::ImagePaths;
use tokio::sync::watch;
use tonic::transport::Channel;
use wire::sm_service_client::SmServiceClient;

use self::needed::Notes;

/// The image store with the one source that a node has.
pub struct NodeImages {
    store: ImageStore,
    source: Arc<dyn BlobSource>,
    /// What is needed now; nobody has said it yet, at first.
    needed: watch::Sender<Option<BTreeSet<Digest>>>,
    notes: Arc<Notes>,
}

impl std::fmt::Debug for NodeImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeImages")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl NodeImages {
    /// Images come into `store` from `source`. Spawns the task that notes what is needed and, then and every so often, removes
    /// what nobody has needed for long; it ends with this.
    pub fn new(
        store: ImageStore,
        source: Arc<dyn BlobSource>,
        collect_every: Option<Duration>,
    ) -> Self {
        let (needed, said) = watch::channel(None);
        let notes = Arc::new(Notes::new(store.clone()));
        tokio::spawn(needed::look_after(Arc::clone(&notes), said, collect_every));
        Self {
            store,
            source,
            needed,
            notes,
        }
    }
}

impl Images for NodeImages {
    fn install(&self, manifest: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>> {
        Box::pin(async move {
            // What is needed beside it must not go to make room for it.
            self.notes.take(&self.needed.subscribe()).await;
            let installed = match self.store.want(manifest).await {
                Ok(Some(installed)) => installed,
                _ => self
                    .store
                    .install(manifest, Arc::clone(&self.source), None)
                    .await
                    .map_err(|error| SeamError::new(code(&error), error))?,
            };
            Ok(to_installed(installed))
        })
    }

    fn installed(&self, manifest: Digest) -> BoxFuture<'_, Option<InstalledImage>> {
        Box::pin(async move {
            let installed = self.store.installed(manifest).await.ok()??;
            Some(to_installed(installed))
        })
    }

    fn keep(&self, manifests: BTreeSet<Digest>) {
        self.needed.send_replace(Some(manifests));
    }
}

fn to_installed(installed: muster_image::InstalledImage) -> InstalledImage {
    InstalledImage {
        paths: ImagePaths {
            layers: installed.layers,
        },
        image_config: installed.image_config,
        item_config: installed.item_config,
    }
}

fn code(error: &muster_image::InstallError) -> AosCode {
    use muster_image::{FetchBlobError, InstallError};
    match error {
        InstallError::NoSpace { .. } => AosCode::NoMemory,
        InstallError::WrongDiffId { .. }
        | InstallError::Fetch {
            source: FetchBlobError::WrongContent { .. },
            ..
        } => AosCode::InvalidChecksum,
        _ => AosCode::Failed,
    }
}

/// Asks the controller where blobs are.
#[derive(Debug, Clone)]
pub struct ControllerUrls {
    client: SmServiceClient<Channel>,
}

impl ControllerUrls {
    /// Over this channel.
    pub fn new(channel: Channel) -> Self {
        Self {
            client: SmServiceClient::new(channel),
        }
    }
}

/// The controller's answer does not fit the question.
#[derive(Debug, thiserror::Error)]
#[error("the controller gave {got} addresses for one blob")]
struct WrongCount {
    got: usize,
}

impl BlobUrls for ControllerUrls {
    fn urls(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<String>, BoxError>> {
        Box::pin(async move {
            let request = wire::BlobsInfosRequest {
                digests: vec![digest.to_string()],
            };
            let answer = self.client.clone().get_blobs_infos(request).await?;
            let urls = answer.into_inner().urls;
            match urls.len() {
                1 => Ok(urls),
                got => Err(WrongCount { got }.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_image::{FetchBlobError, InstallError};

    use super::*;

    #[test]
    fn what_came_wrong_is_reported_as_that() {
        let digest = Digest::from_sha256([1; 32]);
        let fetch = |source| InstallError::Fetch { digest, source };
        let wrong = fetch(FetchBlobError::WrongContent {
            found: Box::new(Digest::from_sha256([2; 32])),
            bytes: 1,
            places: BTreeSet::new(),
        });
        assert_eq!(code(&wrong), AosCode::InvalidChecksum);
        assert_eq!(code(&fetch(FetchBlobError::NoPlaces)), AosCode::Failed);
    }
}
