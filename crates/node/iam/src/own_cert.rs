//! The node's own certificate, as its servers and its stream to the Main Node use it.
//!
//! One task follows what the key stores have of the node's own type and keeps a
//! [`CertStore`] of it: made when the first certificate is applied, told of every renewal at once, and
//! given up when the certificate is gone. Connections made before a renewal go on.

use std::path::PathBuf;
use std::time::Duration;

use muster_api::domain::{AosCode, AosError};
use muster_keys::{CertInfo, ParseUrlError, UrlCertSource};
use muster_telemetry::ErrorChain;
use muster_tls::{CertMaterial, CertSource, CertStore, LoadCertError};
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::current_node::CurrentNode;

/// How long until a certificate that could not be loaded is tried again: a token may be late, a CA
/// file on its way.
const RETRY: Duration = Duration::from_secs(5);

/// Whom to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustFiles {
    /// The authorities.
    pub(crate) ca: PathBuf,
    /// Their revocation lists.
    pub(crate) crls: Vec<PathBuf>,
}

/// A certificate in use. Two are the same only if one was never given up.
#[derive(Debug, Clone)]
pub(crate) struct InUse {
    /// Counts how often there was none before.
    pub(crate) number: u64,
    /// The certificate, renewed in place.
    pub(crate) store: CertStore,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
enum UseCertError {
    #[error("the certificate's place cannot be understood")]
    Url(#[source] ParseUrlError),
    #[error("the node's own certificate cannot be used")]
    Load(#[source] LoadCertError),
}

/// The certificate's source, without looks at the files that nothing asked for: renewals come from the
/// key stores, authorities and lists are watched, and SIGHUP reads everything again.
#[derive(Debug)]
struct Quiet(UrlCertSource);

impl CertSource for Quiet {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        self.0.load()
    }

    fn files(&self) -> Vec<PathBuf> {
        self.0.files()
    }

    fn rescans(&self) -> bool {
        false
    }
}

/// Follows the certificate.
#[derive(Debug)]
pub(crate) struct OwnCert {
    newest: watch::Receiver<Option<CertInfo>>,
    trust: TrustFiles,
    node: CurrentNode,
    publish: watch::Sender<Option<InUse>>,
    source: Option<UrlCertSource>,
    given_up: u64,
}

impl OwnCert {
    /// Loads the certificate if there is one. `newest` is the key store's newest of the type.
    pub(crate) async fn open(
        newest: watch::Receiver<Option<CertInfo>>,
        trust: TrustFiles,
        node: CurrentNode,
    ) -> Self {
        let (publish, _) = watch::channel(None);
        let mut own = Self {
            newest,
            trust,
            node,
            publish,
            source: None,
            given_up: 0,
        };
        own.follow().await;
        own
    }

    /// The certificate in use, to read and to follow.
    pub(crate) fn in_use(&self) -> watch::Receiver<Option<InUse>> {
        self.publish.subscribe()
    }

    /// The task; it ends when the key stores are gone.
    pub(crate) async fn run(mut self) {
        loop {
            let failing = self.newest.borrow().is_some() && self.publish.borrow().is_none();
            tokio::select! {
                changed = self.newest.changed() => if changed.is_err() {
                    return;
                },
                () = sleep(RETRY), if failing => {}
            }
            self.follow().await;
        }
    }

    async fn follow(&mut self) {
        let newest = self.newest.borrow_and_update().clone();
        let Some(info) = newest else {
            if self.publish.borrow().is_some() {
                info!("the node's own certificate is gone");
                self.given_up += 1;
            }
            self.source = None;
            self.publish.send_replace(None);
            self.node.certificate(Some(AosError::new(
                AosCode::NotFound,
                "the node has no certificate of its own",
            )));
            return;
        };
        // Until it is known to be bad, a certificate that was just applied is as good as any.
        self.node.certificate(None);
        match self.take(&info).await {
            Ok(()) => {}
            Err(failed) => {
                let message = ErrorChain(&failed).to_string();
                error!(
                    error = message,
                    cert_url = info.cert_url,
                    "cannot serve with TLS"
                );
                self.node
                    .certificate(Some(AosError::new(AosCode::Failed, message)));
            }
        }
    }

    /// Makes `info` the certificate for new connections.
    async fn take(&mut self, info: &CertInfo) -> Result<(), UseCertError> {
        let in_use = self.publish.borrow().clone();
        if let (Some(source), Some(in_use)) = (&self.source, in_use) {
            source
                .set_urls(&info.cert_url, &info.key_url)
                .map_err(UseCertError::Url)?;
            if let Err(failed) = in_use.store.reload().await {
                // The one before stays in use and may still be good for a while.
                warn!(error = %ErrorChain(&failed), "the renewed certificate is not used");
            }
            return Ok(());
        }
        let roots = vec![self.trust.ca.clone()];
        let source = UrlCertSource::new(
            &info.cert_url,
            &info.key_url,
            roots,
            self.trust.crls.clone(),
        )
        .map_err(UseCertError::Url)?;
        let store = CertStore::open(Quiet(source.clone()))
            .await
            .map_err(UseCertError::Load)?;
        self.source = Some(source);
        self.publish.send_replace(Some(InUse {
            number: self.given_up,
            store,
        }));
        Ok(())
    }
}
