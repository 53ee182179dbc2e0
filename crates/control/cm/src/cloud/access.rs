//! Who speaks to the cloud: known when the identity manager has said so.

use std::time::Duration;

use muster_api::domain::CertType;
use muster_cloud::Access;
use muster_iamclient::{IamCertStore, OpenCertStoreError};
use muster_telemetry::ErrorChain;
use muster_tls::{Alpn, ClientOptions, ClientTls, Insecure, ServerName, TlsSetupError};

use crate::config::cloud::CloudConfig;
use crate::config::{IamConfig, Trust};
use crate::identity::{Identity, LateIdentity, arrival};

/// The pause after a failure; it doubles up to the second.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(15));

/// Why there is no certificate to show to the cloud.
#[derive(Debug, thiserror::Error)]
enum AccessError {
    #[error("cannot get the certificate for the cloud")]
    Certificate(#[source] OpenCertStoreError),
    #[error("cannot set up TLS for the cloud")]
    Tls(#[source] TlsSetupError),
}

/// Waits until it is known. Never fails: it is tried for ever.
pub(super) async fn access(trust: Trust, cloud: CloudConfig, identity: LateIdentity) -> Access {
    let options = ClientOptions {
        alpn: Alpn::Http1,
        ..ClientOptions::default()
    };
    let iam = match trust {
        Trust::Insecure(reason) => {
            let permission = Insecure::because(reason).expect("a configured reason is not empty");
            return Access {
                system_id: cloud.system_id.clone(),
                node: cloud.system_id,
                tls: ClientTls::insecure(&permission, options),
            };
        }
        Trust::Iam(iam) => iam,
    };
    let identity = arrival(identity).await;
    let mut pause = AGAIN.0;
    loop {
        match protected(&iam, &identity, options).await {
            Ok(tls) => {
                return Access {
                    system_id: identity.system,
                    node: identity.main_node.to_string(),
                    tls,
                };
            }
            Err(error) => {
                let error = ErrorChain(&error);
                tracing::warn!(%error, again_in = ?pause, "the cloud cannot be spoken to yet");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN.1);
    }
}

async fn protected(
    iam: &IamConfig,
    identity: &Identity,
    options: ClientOptions,
) -> Result<ClientTls, AccessError> {
    let roots = vec![iam.ca_cert.clone()];
    let certificate =
        IamCertStore::open(&identity.iam, CertType::Online, roots, iam.crls.clone()).await;
    let certificate = certificate.map_err(AccessError::Certificate)?;
    let tls = ClientTls::mutual(certificate.store(), ServerName::Dns, options);
    let tls = tls.map_err(AccessError::Tls)?;
    // The certificate is renewed for as long as it is held, which is as long as this daemon lives.
    tokio::spawn(async move {
        let _renewed = certificate;
        std::future::pending::<()>().await;
    });
    Ok(tls)
}
