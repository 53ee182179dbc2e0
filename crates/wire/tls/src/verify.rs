//! Certificate verifiers: the standard chain check of rustls, plus the identity, plus a note on what
//! was refused.
//!
//! rustls reports a refused certificate by its reason alone. Which certificate it was is known only
//! inside the verifier, which all connections share; the note therefore travels in a task-local that
//! the handshake sets up around itself. The alert the peer gets stays the precise one.

use std::cell::RefCell;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName as TlsName, UnixTime};

use crate::client::{ExpectedServer, ServerName};
use crate::facts::{CertFacts, CertSummary, ReadCertError};
use crate::identity::{IdentifyError, IdentityPolicy, spiffe_id};
use crate::store::chain_words;

/// What a verifier has to say about the certificate it refused.
#[derive(Debug, Default)]
pub(crate) struct RefusalNote {
    pub(crate) certificate: Option<CertSummary>,
    /// The reason, where it is the identity and not the chain.
    pub(crate) reason: Option<String>,
}

tokio::task_local! {
    static NOTE: RefCell<RefusalNote>;
}

/// Runs a handshake and gives, beside its result, the note of the verifier that it used.
pub(crate) async fn with_note<T>(handshake: impl Future<Output = T>) -> (T, RefusalNote) {
    NOTE.scope(RefCell::default(), async {
        let result = handshake.await;
        (result, NOTE.with(RefCell::take))
    })
    .await
}

fn note(leaf: &CertificateDer<'_>, reason: Option<String>) {
    // Without a scope nobody wants the note.
    let _ = NOTE.try_with(|slot| {
        *slot.borrow_mut() = RefusalNote {
            certificate: CertSummary::from_der(leaf),
            reason,
        };
    });
}

/// Why a peer whose chain is good is not who it has to be.
#[derive(Debug, thiserror::Error)]
enum PeerCheckError {
    #[error("its certificate is unreadable")]
    Read(#[source] ReadCertError),
    #[error("it has no acceptable identity")]
    Identify(#[source] IdentifyError),
    #[error("it is {found}, expected was {expected}")]
    OtherServer {
        found: String,
        expected: ExpectedServer,
    },
}

fn refuse(leaf: &CertificateDer<'_>, error: &PeerCheckError) -> rustls::Error {
    note(leaf, Some(chain_words(error)));
    CertificateError::ApplicationVerificationFailure.into()
}

/// Checks client certificates: chain, validity, revocation, purpose, then identity.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    pub(crate) chain: Arc<dyn ClientCertVerifier>,
    pub(crate) policy: Arc<IdentityPolicy>,
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .chain
            .verify_client_cert(leaf, intermediates, now)
            .inspect_err(|_| note(leaf, None))?;
        let facts = CertFacts::from_der(leaf).map_err(PeerCheckError::Read);
        facts
            .and_then(|facts| {
                self.policy
                    .identify(&facts.names)
                    .map_err(PeerCheckError::Identify)
            })
            .map_err(|error| refuse(leaf, &error))?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// Checks server certificates: chain, validity, revocation, purpose, then the name as agreed.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) chain: Arc<WebPkiServerVerifier>,
    pub(crate) name: ServerName,
}

impl ServerVerifier {
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        chain: Result<ServerCertVerified, rustls::Error>,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let expected = match &self.name {
            ServerName::Dns => return chain.inspect_err(|_| note(leaf, None)),
            ServerName::AnyOfCa => None,
            ServerName::Spiffe(expected) => Some(expected),
        };
        // The chain verifier looks at the host name last, when everything else was good. The tests of
        // other CAs, expiry and revocation under each kind of name guard that order.
        match chain {
            Ok(_) => {}
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => {}
            Err(error) => {
                note(leaf, None);
                return Err(error);
            }
        }
        if let Some(expected) = expected {
            check_server_identity(leaf, expected).map_err(|error| refuse(leaf, &error))?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

fn check_server_identity(
    leaf: &CertificateDer<'_>,
    expected: &ExpectedServer,
) -> Result<(), PeerCheckError> {
    let facts = CertFacts::from_der(leaf).map_err(PeerCheckError::Read)?;
    let found = spiffe_id(&facts.names).map_err(PeerCheckError::Identify)?;
    match found {
        Some(found) if expected.is(&found) => Ok(()),
        found => Err(PeerCheckError::OtherServer {
            found: found.map_or_else(|| "without a SPIFFE id".to_owned(), |id| id.to_string()),
            expected: expected.clone(),
        }),
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &TlsName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(
            leaf,
            self.chain
                .verify_server_cert(leaf, intermediates, name, ocsp, now),
        )
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
