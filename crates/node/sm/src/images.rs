//! Images of this node, for the launcher.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, Digest};
use muster_api::servicemanager::v5 as wire;
use muster_image::{BlobSource, BlobUrls, BoxError, ImageStore};
use muster_launcher::seams::{Images, InstalledImage, SeamError};
use muster_runtime::ImagePaths;
use muster_telemetry::ErrorChain;
use tonic::transport::Channel;
use wire::sm_service_client::SmServiceClient;

/// The image store with the one source that a node has.
#[derive(Clone)]
pub struct NodeImages {
    store: ImageStore,
    source: Arc<dyn BlobSource>,
}

impl std::fmt::Debug for NodeImages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeImages")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl NodeImages {
    /// Images come into `store` from `source`.
    pub fn new(store: ImageStore, source: Arc<dyn BlobSource>) -> Self {
        Self { store, source }
    }
}

impl Images for NodeImages {
    fn install(&self, manifest: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>> {
        Box::pin(async move {
            let installed = match self.store.installed(manifest).await {
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
        let store = self.store.clone();
        tokio::spawn(async move {
            let kept = store.keep(&manifests, SystemTime::now()).await;
            if let Err(error) = kept {
                tracing::warn!(error = %ErrorChain(&error), "cannot note which images are needed");
                return;
            }
            match store.collect(SystemTime::now()).await {
                Ok(plan) if plan.is_empty() => {}
                Ok(_) => tracing::info!("removed images that nobody needs"),
                Err(error) => {
                    tracing::warn!(error = %ErrorChain(&error), "cannot remove old images");
                }
            }
        });
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
    use muster_image::InstallError;
    match error {
        InstallError::NoSpace { .. } => AosCode::NoMemory,
        InstallError::WrongDiffId { .. } => AosCode::InvalidChecksum,
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
