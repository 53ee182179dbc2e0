//! A certificate store whose certificate is IAM's.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::domain::CertType;
use muster_keys::{ParseUrlError, UrlCertSource};
use muster_telemetry::ErrorChain;
use muster_tls::{CertStore, LoadCertError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::client::IamClient;
use crate::follow::{Follow, Followed};
use crate::types::CertInfo;

/// The pause after a renewed certificate could not be loaded; it doubles up to the second.
const LOAD_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Why there is no certificate store.
#[derive(Debug, thiserror::Error)]
pub enum OpenCertStoreError {
    /// IAM names a place that is none.
    #[error("IAM names a place of the {cert_type} certificate that cannot be used")]
    Url {
        /// The certificate.
        cert_type: CertType,
        /// What is wrong.
        source: ParseUrlError,
    },
    /// What is there cannot be loaded.
    #[error("cannot load the {cert_type} certificate from where IAM says it is")]
    Load {
        /// The certificate.
        cert_type: CertType,
        /// What is wrong.
        source: Box<LoadCertError>,
    },
}

/// A [`CertStore`] with the newest certificate of a type that IAM has, reloaded whenever IAM has
/// another. Servers and clients made of it use the new one from their next connection on.
///
/// When this is dropped, the store stays as it is then.
#[derive(Debug)]
pub struct IamCertStore {
    store: CertStore,
    certificate: Follow<CertInfo>,
    renewal: JoinHandle<()>,
}

impl IamCertStore {
    /// Waits until IAM has a certificate of the type, however long that takes, and loads it. Peers
    /// are checked by `roots` and revocation lists `crls`, PEM files which are watched as well.
    ///
    /// # Errors
    /// When IAM names a certificate that cannot be loaded.
    pub async fn open(
        client: &IamClient,
        cert_type: CertType,
        roots: Vec<PathBuf>,
        crls: Vec<PathBuf>,
    ) -> Result<Self, OpenCertStoreError> {
        let certificate = client.follow_cert(cert_type.clone());
        let first = certificate.first().await;
        let source = UrlCertSource::new(&first.cert_url, &first.key_url, roots, crls);
        let source = source.map_err(|source| OpenCertStoreError::Url {
            cert_type: cert_type.clone(),
            source,
        })?;
        let opened = CertStore::open(source.clone()).await;
        let store = opened.map_err(|source| OpenCertStoreError::Load {
            cert_type: cert_type.clone(),
            source: Box::new(source),
        })?;
        let renewal = Renewal {
            cert_type,
            loaded: first,
            source,
            store: store.clone(),
        };
        let renewal = tokio::spawn(renewal.run(certificate.subscribe()));
        Ok(Self {
            store,
            certificate,
            renewal,
        })
    }

    /// The store, for `ServerTls` and `ClientTls`.
    #[must_use]
    pub fn store(&self) -> &CertStore {
        &self.store
    }

    /// What IAM says about the certificate, which a store that just could not load it may be behind.
    #[must_use]
    pub fn certificate(&self) -> watch::Receiver<Followed<CertInfo>> {
        self.certificate.subscribe()
    }
}

impl Drop for IamCertStore {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Brings the store what IAM has.
struct Renewal {
    cert_type: CertType,
    loaded: CertInfo,
    source: UrlCertSource,
    store: CertStore,
}

impl Renewal {
    async fn run(mut self, mut newest: watch::Receiver<Followed<CertInfo>>) {
        let mut pause = LOAD_AGAIN.0;
        loop {
            let wanted = newest.borrow_and_update().value.clone();
            let up_to_date = match wanted {
                Some(wanted) if wanted != self.loaded => self.load(wanted).await,
                _ => true,
            };
            let changed = if up_to_date {
                pause = LOAD_AGAIN.0;
                newest.changed().await
            } else {
                // Tried again after a while, or at once when IAM has yet another.
                let again = timeout(pause, newest.changed()).await.unwrap_or(Ok(()));
                pause = (pause * 2).min(LOAD_AGAIN.1);
                again
            };
            if changed.is_err() {
                return;
            }
        }
    }

    async fn load(&mut self, wanted: CertInfo) -> bool {
        let what = &self.cert_type;
        if let Err(error) = self.source.set_urls(&wanted.cert_url, &wanted.key_url) {
            let reason = ErrorChain(&error).to_string();
            warn!(certificate = %what, %reason, "IAM names a place of a certificate that cannot be used");
            return false;
        }
        match self.store.reload().await {
            Ok(generation) => {
                let generation = generation.number();
                info!(certificate = %what, generation, "renewed the certificate");
                self.loaded = wanted;
                true
            }
            Err(error) => {
                let reason = ErrorChain(&error).to_string();
                warn!(certificate = %what, %reason, "the renewed certificate cannot be loaded, the old one stays");
                false
            }
        }
    }
}
