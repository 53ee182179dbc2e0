//! The way to the identity manager: this daemon's certificate, and a client for the rest.
//!
//! Nothing waits for it but what needs it: servers with TLS, and pausing of nodes. It is tried for ever.

use std::time::Duration;

use muster_api::domain::NodeId;
use muster_iamclient::{IamCallError, IamCertStore, IamClient, IamTarget, OpenCertStoreError};
use muster_rpc::{Target, TargetError};
use muster_telemetry::ErrorChain;
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, LoadCertError, Role,
    ServerName, TlsSetupError,
};
use tokio::sync::watch;

use crate::config::IamConfig;

/// The pause after a failure; it doubles up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Why the identity manager is of no use yet.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("cannot load the trusted authorities")]
    Roots(#[source] LoadCertError),
    #[error("cannot get the certificate of this daemon")]
    Certificate(#[source] OpenCertStoreError),
    #[error("cannot set up TLS")]
    Tls(#[source] TlsSetupError),
    #[error("cannot use an address of the configuration")]
    Address(#[source] TargetError),
    #[error("cannot ask the identity manager about this system")]
    System(#[source] IamCallError),
}

/// What the identity manager gave.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// Certificate and trusted authorities, kept current.
    pub(crate) certificates: CertStore,
    /// Both ports.
    pub(crate) iam: IamClient,
    /// Which system this is.
    pub(crate) system: String,
    /// The node that this daemon is on.
    pub(crate) main_node: NodeId,
}

/// An identity that may come later; `None` until then, and for ever without TLS.
pub(crate) type LateIdentity = watch::Receiver<Option<Identity>>;

/// The one task that reaches the identity manager, and keeps the certificate current from then on.
#[derive(Debug)]
pub(crate) struct IamLink {
    config: IamConfig,
    found: watch::Sender<Option<Identity>>,
}

impl IamLink {
    pub(crate) fn new(config: IamConfig, found: watch::Sender<Option<Identity>>) -> Self {
        Self { config, found }
    }

    /// Until it is dropped.
    pub(crate) async fn run(self) {
        let mut pause = AGAIN.0;
        let _renewed = loop {
            match self.connect().await {
                Ok((certificate, identity)) => {
                    let (system, node) = (&identity.system, &identity.main_node);
                    tracing::info!(%system, %node, "the identity manager is reached");
                    self.found.send_replace(Some(identity));
                    break certificate;
                }
                Err(error) => {
                    let error = ErrorChain(&error);
                    tracing::warn!(%error, again_in = ?pause, "the identity manager is of no use yet");
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        };
        // The certificate is renewed for as long as it is held.
        std::future::pending().await
    }

    async fn connect(&self) -> Result<(IamCertStore, Identity), ConnectError> {
        let client = self.public().await?;
        let system = client.system_info().await.map_err(ConnectError::System)?;
        let node = client.current_node().await.map_err(ConnectError::System)?;
        let roots = vec![self.config.ca_cert.clone()];
        let (cert_type, crls) = (self.config.cert_type.clone(), self.config.crls.clone());
        let certificate = IamCertStore::open(&client, cert_type, roots, crls).await;
        let certificate = certificate.map_err(ConnectError::Certificate)?;
        let tls = ClientTls::mutual(certificate.store(), iam(), ClientOptions::default());
        let tls = tls.map_err(ConnectError::Tls)?;
        let protected = target(tls, &self.config.protected)?;
        let identity = Identity {
            certificates: certificate.store().clone(),
            iam: client.with_protected(IamTarget::Tcp(protected)),
            system: system.system_id,
            main_node: node.node_id,
        };
        Ok((certificate, identity))
    }

    async fn public(&self) -> Result<IamClient, ConnectError> {
        let mut source = FileCertSource::trust_only(&self.config.ca_cert);
        for crl in &self.config.crls {
            source = source.with_crl(crl);
        }
        let trust = CertStore::open(source).await.map_err(ConnectError::Roots)?;
        let tls = ClientTls::without_certificate(&trust, iam(), ClientOptions::default());
        let target = target(tls.map_err(ConnectError::Tls)?, &self.config.public)?;
        Ok(IamClient::new(IamTarget::Tcp(target)))
    }
}

fn iam() -> ServerName {
    ServerName::Spiffe(ExpectedServer::role(Role::Iam))
}

fn target(tls: ClientTls, address: &str) -> Result<Target, ConnectError> {
    Target::new(tls, address).map_err(ConnectError::Address)
}

/// Waits for the identity; for ever, if nobody is left who could bring it.
pub(crate) async fn arrival(mut identity: LateIdentity) -> Identity {
    loop {
        if let Some(identity) = identity.borrow_and_update().clone() {
            return identity;
        }
        if identity.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
