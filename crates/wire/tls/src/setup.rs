//! What servers and clients are set up from: options, and a rustls configuration per generation.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::VerifierBuilderError;
use tracing::warn;

use crate::material::CertMaterial;
use crate::store::{CertStore, chain_words};

/// Which application protocols are offered in the handshake (ALPN), best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Alpn {
    /// HTTP/2 only: gRPC.
    #[default]
    H2,
    /// HTTP/1.1 only: WebSocket.
    Http1,
    /// HTTP/2 or HTTP/1.1: HTTPS.
    H2OrHttp1,
}

impl Alpn {
    pub(crate) fn protocols(self) -> Vec<Vec<u8>> {
        let names: &[&[u8]] = match self {
            Self::H2 => &[b"h2"],
            Self::Http1 => &[b"http/1.1"],
            Self::H2OrHttp1 => &[b"h2", b"http/1.1"],
        };
        names.iter().map(|name| name.to_vec()).collect()
    }
}

/// Why a server or client cannot be set up from a store's certificates.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsSetupError {
    /// There is no own certificate.
    #[error("{what} needs a certificate and a private key, and the source has none")]
    NoCertificate {
        /// What was to be set up.
        what: &'static str,
    },
    /// There are no CA certificates.
    #[error("{what} needs CA certificates, and the source has none")]
    NoTrust {
        /// What was to be set up.
        what: &'static str,
    },
    /// The verifier refused the CA certificates or revocation lists.
    #[error("cannot set the certificate verifier of {what} up")]
    Verifier {
        /// What was to be set up.
        what: &'static str,
        /// What is wrong.
        source: VerifierBuilderError,
    },
    /// rustls refused the configuration.
    #[error("cannot configure TLS for {what}")]
    Config {
        /// What was to be set up.
        what: &'static str,
        /// What is wrong.
        source: rustls::Error,
    },
}

type Build<C> = dyn Fn(&CertMaterial) -> Result<C, TlsSetupError> + Send + Sync;

/// A configuration made anew for each generation of certificates.
pub(crate) struct PerGeneration<C> {
    store: CertStore,
    build: Box<Build<C>>,
    latest: Mutex<(u64, Arc<C>)>,
}

impl<C> PerGeneration<C> {
    pub(crate) fn new(
        store: &CertStore,
        build: impl Fn(&CertMaterial) -> Result<C, TlsSetupError> + Send + Sync + 'static,
    ) -> Result<Self, TlsSetupError> {
        let generation = store.current();
        let first = Arc::new(build(generation.material())?);
        Ok(Self {
            store: store.clone(),
            build: Box::new(build),
            latest: Mutex::new((generation.number(), first)),
        })
    }

    /// The configuration for a new connection.
    pub(crate) fn current(&self) -> Arc<C> {
        let generation = self.store.current();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.0 < generation.number() {
            latest.0 = generation.number();
            match (self.build)(generation.material()) {
                Ok(config) => latest.1 = Arc::new(config),
                Err(error) => warn!(
                    generation = generation.number(),
                    reason = %chain_words(&error),
                    "new certificates do not suffice, new connections go on with the old ones"
                ),
            }
        }
        Arc::clone(&latest.1)
    }
}

impl<C> fmt::Debug for PerGeneration<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerGeneration")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

/// Permission to go without TLS. There is no other way to get a server or client that does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insecure {
    reason: String,
}

/// An insecure mode without a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("insecure mode needs a reason, which is logged")]
pub struct NoReasonError;

impl Insecure {
    /// Takes the reason, which every start logs.
    pub fn because(reason: impl Into<String>) -> Result<Self, NoReasonError> {
        let reason = reason.into();
        if reason.trim().is_empty() {
            return Err(NoReasonError);
        }
        Ok(Self { reason })
    }

    pub(crate) fn warn(&self, what: &'static str) {
        warn!(
            reason = %self.reason,
            "INSECURE: {what} runs without TLS, peers are neither identified nor protected"
        );
    }
}
