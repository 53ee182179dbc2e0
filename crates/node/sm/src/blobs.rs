//! Downloads with the certificate of now.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{
    BlobPlace, BlobSource, BlobUrls, BoxError, HttpSettings, HttpSetupError, UrlSource,
};
use muster_tls::ClientTls;
use muster_tls::rustls::ClientConfig;

/// Until a server of blobs answers, and between two pieces of its answer.
const HTTP_TIMEOUT: Duration = Duration::from_secs(30);

type Current = (Option<Arc<ClientConfig>>, Arc<UrlSource>);

/// Blobs at the addresses that the controller gives. A renewed certificate is used from the next download on.
#[derive(Debug)]
pub(crate) struct ControllerBlobs {
    urls: Arc<dyn BlobUrls>,
    tls: ClientTls,
    current: Mutex<Current>,
}

fn source(
    urls: &Arc<dyn BlobUrls>,
    tls: Option<&ClientConfig>,
) -> Result<Arc<UrlSource>, HttpSetupError> {
    let settings = HttpSettings {
        connect_timeout: HTTP_TIMEOUT,
        read_timeout: HTTP_TIMEOUT,
        tls: tls.map(|config| {
            let mut config = config.clone();
            // That of the controller's port; the download's client chooses its own.
            config.alpn_protocols.clear();
            config
        }),
    };
    UrlSource::new(Arc::clone(urls), settings).map(Arc::new)
}

impl ControllerBlobs {
    pub(crate) fn new(urls: Arc<dyn BlobUrls>, tls: ClientTls) -> Result<Self, HttpSetupError> {
        let config = tls.configuration();
        let first = source(&urls, config.as_deref())?;
        Ok(Self {
            urls,
            tls,
            current: Mutex::new((config, first)),
        })
    }

    fn current(&self) -> Result<Arc<UrlSource>, HttpSetupError> {
        let config = self.tls.configuration();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let same = match (&current.0, &config) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            let renewed = source(&self.urls, config.as_deref())?;
            *current = (config, renewed);
        }
        Ok(Arc::clone(&current.1))
    }
}

impl BlobSource for ControllerBlobs {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move { self.current()?.places(digest).await })
    }
}
