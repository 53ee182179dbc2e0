//! The way to the identity manager, and through its certificate to the controller.
//!
//! Nothing on the node waits for it but what really needs it: downloads, the stream to the controller, and instances with
//! permissions.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{Digest, NodeInfo};
use muster_iamclient::{IamCallError, IamCertStore, IamClient, IamTarget, OpenCertStoreError};
use muster_image::{BlobPlace, BlobSource, BoxError, HttpSetupError};
use muster_rpc::{
    ChannelConfig, Dial, DialError, StreamConfig, Target, TargetError, Transport, channel,
};
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use muster_tls::{
    CertStore, ClientOptions, ClientTls, FileCertSource, LoadCertError, ServerName, TlsSetupError,
};
use tokio::sync::oneshot;
use tonic::transport::Uri;

use crate::blobs::ControllerBlobs;
use crate::config::IamConfig;
use crate::images::ControllerUrls;
use crate::late::{Late, Supply, late};
use crate::node;

/// The pause after a failure; it doubles up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// One attempt to reach the controller.
const DIAL_TIME: Duration = Duration::from_secs(10);

/// Why the identity manager is of no use yet.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("cannot load the trusted authorities")]
    Roots(#[source] LoadCertError),
    #[error("cannot get the node's certificate")]
    Certificate(#[source] OpenCertStoreError),
    #[error("cannot set up TLS")]
    Tls(#[source] TlsSetupError),
    #[error("cannot use an address of the configuration")]
    Address(#[source] TargetError),
    #[error("cannot ask the identity manager about this node")]
    Node(#[source] IamCallError),
    #[error("cannot download images")]
    Http(#[source] HttpSetupError),
    #[error("cannot remember who this node is")]
    Remember(#[source] StoreError),
    #[error("the node is another one")]
    Changed,
}

/// The identity manager says that this node is another one than it was. Everything begins anew, which leaves what runs alone.
#[derive(Debug, thiserror::Error)]
#[error("the identity manager describes this node in another way than before: starting anew")]
pub(crate) struct NodeChanged;

/// What others of the daemon get from here, each as soon as it is there.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    pub(crate) controller: Late<Target>,
    pub(crate) blobs: Late<Arc<dyn BlobSource>>,
    pub(crate) iam: Late<IamClient>,
}

impl Ways {
    /// Without an identity manager: the controller over this TLS.
    pub(crate) fn at_once(tls: ClientTls, controller: Target) -> Result<Self, HttpSetupError> {
        Ok(Self {
            blobs: Late::ready(blobs(&controller, tls)?),
            controller: Late::ready(controller),
            // Nobody registers permissions then.
            iam: late().1,
        })
    }
}

fn blobs(controller: &Target, tls: ClientTls) -> Result<Arc<dyn BlobSource>, HttpSetupError> {
    let urls = ControllerUrls::new(channel(controller, ChannelConfig::default()));
    Ok(Arc::new(ControllerBlobs::new(Arc::new(urls), tls)?))
}

/// The one task that reaches the identity manager, and keeps the certificate current from then on.
#[derive(Debug)]
pub(crate) struct IamLink {
    config: IamConfig,
    address: String,
    store: Store,
    /// Who this node was last time.
    before: Option<NodeInfo>,
    first: Option<oneshot::Sender<NodeInfo>>,
    controller: Supply<Target>,
    blobs: Supply<Arc<dyn BlobSource>>,
    iam: Supply<IamClient>,
}

impl IamLink {
    /// To this identity manager and, through it, to the controller at `address`. The receiver hears who this node is, at the
    /// first answer.
    pub(crate) fn new(
        config: IamConfig,
        address: String,
        store: Store,
        before: Option<NodeInfo>,
    ) -> (Self, Ways, oneshot::Receiver<NodeInfo>) {
        let (controller, for_controller) = late();
        let (blobs, for_blobs) = late();
        let (iam, for_iam) = late();
        let (first, answer) = oneshot::channel();
        let link = Self {
            config,
            address,
            store,
            before,
            first: Some(first),
            controller,
            blobs,
            iam,
        };
        let ways = Ways {
            controller: for_controller,
            blobs: for_blobs,
            iam: for_iam,
        };
        (link, ways, answer)
    }

    /// Until it is dropped, or the node turns out to be another one.
    pub(crate) async fn run(mut self) -> Result<(), NodeChanged> {
        let mut pause = AGAIN.0;
        let _certificate = loop {
            match self.connect().await {
                Ok(certificate) => break certificate,
                Err(ConnectError::Changed) => return Err(NodeChanged),
                Err(error) => {
                    let error = ErrorChain(&error);
                    tracing::warn!(%error, again_in = ?pause, "the identity manager is of no use yet");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        };
        let certificate = &self.config.cert_type;
        tracing::info!(%certificate, "the identity manager is reached");
        // The certificate is renewed for as long as it is held.
        std::future::pending().await
    }

    /// From nothing to everything. What was reached in an attempt that failed is reached again in the next.
    async fn connect(&mut self) -> Result<IamCertStore, ConnectError> {
        let client = self.public().await?;
        let node = client.current_node().await.map_err(ConnectError::Node)?;
        self.take(node).await?;
        let roots = vec![self.config.ca_cert.clone()];
        let (cert_type, crls) = (self.config.cert_type.clone(), self.config.crls.clone());
        let certificate = IamCertStore::open(&client, cert_type, roots, crls).await;
        let certificate = certificate.map_err(ConnectError::Certificate)?;
        let mutual = |name: &ServerName| {
            let options = ClientOptions::default();
            let tls = ClientTls::mutual(certificate.store(), name.clone(), options);
            tls.map_err(ConnectError::Tls)
        };
        let protected = target(mutual(&self.config.iam_name)?, &self.config.protected)?;
        self.iam
            .set(client.with_protected(IamTarget::Tcp(protected)));
        let tls = mutual(&self.config.cm_name)?;
        let controller = target(tls.clone(), &self.address)?;
        let blobs = blobs(&controller, tls).map_err(ConnectError::Http)?;
        self.blobs.set(blobs);
        self.controller.set(controller);
        Ok(certificate)
    }

    async fn public(&self) -> Result<IamClient, ConnectError> {
        let mut source = FileCertSource::trust_only(&self.config.ca_cert);
        for crl in &self.config.crls {
            source = source.with_crl(crl);
        }
        let trust = CertStore::open(source).await.map_err(ConnectError::Roots)?;
        let name = self.config.iam_name.clone();
        let tls = ClientTls::without_certificate(&trust, name, ClientOptions::default())
            .map_err(ConnectError::Tls)?;
        let target = target(tls, &self.config.public)?;
        Ok(IamClient::new(IamTarget::Tcp(target)))
    }

    /// Remembers an answer before anybody acts on it.
    async fn take(&mut self, node: NodeInfo) -> Result<(), ConnectError> {
        if self.before.as_ref() != Some(&node) {
            let remembered = node::remember(&self.store, node.clone()).await;
            remembered.map_err(ConnectError::Remember)?;
        }
        if let Some(before) = &self.before
            && !node::runs_the_same(before, &node)
        {
            return Err(ConnectError::Changed);
        }
        if let Some(first) = self.first.take() {
            // Nobody waits for it if it was known from before.
            let _ = first.send(node.clone());
        }
        self.before = Some(node);
        Ok(())
    }
}

fn target(tls: ClientTls, address: &str) -> Result<Target, ConnectError> {
    Target::new(tls, address).map_err(ConnectError::Address)
}

/// Reaches the controller as soon as there is a way.
#[derive(Debug)]
pub(crate) struct LateDial {
    way: Late<Target>,
    origin: Uri,
}

impl LateDial {
    /// `origin` is the controller's, whoever it is reached as.
    pub(crate) fn new(way: Late<Target>, origin: Uri) -> Self {
        Self { way, origin }
    }

    /// For streams over this: waiting for the way is no failed attempt, and each attempt has its own limit.
    pub(crate) fn stream_config() -> StreamConfig {
        let mut config = StreamConfig::default();
        config.limits.dial_timeout = Duration::from_secs(24 * 60 * 60);
        config
    }
}

impl Dial for LateDial {
    fn dial(&self) -> muster_rpc::BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let way = self.way.clone();
        Box::pin(async move {
            let target = way.get().await;
            let connected = tokio::time::timeout(DIAL_TIME, target.dial()).await;
            connected.unwrap_or_else(|_| Err(DialError::Transport(io::ErrorKind::TimedOut.into())))
        })
    }

    fn origin(&self) -> Uri {
        self.origin.clone()
    }
}

/// The node has no certificate to download with.
#[derive(Debug, thiserror::Error)]
#[error("the identity manager has not given this node a certificate yet")]
pub(crate) struct NoCertificateYet;

/// Blobs of the controller, which cannot be had before there is a way to it.
#[derive(Debug)]
pub(crate) struct LateBlobs(pub(crate) Late<Arc<dyn BlobSource>>);

impl BlobSource for LateBlobs {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move {
            let source = self.0.now().ok_or(NoCertificateYet)?;
            source.places(digest).await
        })
    }
}
