//! What is needed to reach a machine by SSH.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use russh::keys::{HashAlg, PrivateKey, PublicKey};

use crate::error::BoxError;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Endpoint {
    /// A server.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        Self { host, port }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A text that is no key of the kind that was expected. It does not say what the text was.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be read")]
pub struct InvalidKey {
    what: &'static str,
    #[source]
    source: BoxError,
}

impl InvalidKey {
    fn new(what: &'static str, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        Self { what, source }
    }
}

/// The fingerprint of a key, as `ssh-keygen -l` prints it.
#[must_use]
pub fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// Which host keys a machine may show.
#[derive(Debug, Clone)]
pub enum HostKeys {
    /// These, and no other.
    Pinned(Vec<PublicKey>),
    /// Whichever it shows first, and no other after that, as long as this value lives. Whoever is asked first may be anybody:
    /// this is for callers that have no way to know the key.
    TrustFirst(Arc<TrustedOnFirstUse>),
}

/// A host key that is not known before the first connection.
#[derive(Debug, Default)]
pub struct TrustedOnFirstUse(Mutex<Option<PublicKey>>);

impl TrustedOnFirstUse {
    /// The key that was shown, once there was a connection.
    #[must_use]
    pub fn key(&self) -> Option<PublicKey> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Nothing, if the key is the one; otherwise the fingerprint of the one.
    fn check(&self, shown: &PublicKey) -> Result<(), String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_or_insert_with(|| shown.clone()) {
            known if known.key_data() == shown.key_data() => Ok(()),
            known => Err(fingerprint(known)),
        }
    }
}

impl HostKeys {
    /// Pins keys that are given as OpenSSH writes them: `ssh-ed25519 AAAA...`.
    ///
    /// # Errors
    /// When one of them is no public key, or all are of RSA: what checks such signatures here would be code with known flaws,
    /// and servers that have an RSA key have others.
    pub fn pinned<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidKey> {
        let keys = lines.into_iter().map(|line| {
            let key = PublicKey::from_openssh(line.trim());
            key.map_err(|source| InvalidKey::new("a host key", source))
        });
        let keys: Vec<PublicKey> = keys.collect::<Result<_, _>>()?;
        if !keys.is_empty() && keys.iter().all(|key| key.algorithm().is_rsa()) {
            let why = "it is an RSA key: pin the machine's ed25519 or ecdsa key instead";
            return Err(InvalidKey::new("a host key", why));
        }
        Ok(Self::Pinned(keys))
    }

    /// Trusts whichever key is shown first.
    #[must_use]
    pub fn trust_first() -> Self {
        Self::TrustFirst(Arc::default())
    }

    /// Nothing, if the key may be shown; otherwise the fingerprints of those that may.
    pub(super) fn check(&self, shown: &PublicKey) -> Result<(), Vec<String>> {
        match self {
            Self::Pinned(keys) if keys.iter().any(|key| key.key_data() == shown.key_data()) => {
                Ok(())
            }
            Self::Pinned(keys) => Err(keys.iter().map(fingerprint).collect()),
            Self::TrustFirst(known) => known.check(shown).map_err(|known| vec![known]),
        }
    }
}

/// How this side shows who it is.
#[derive(Clone)]
pub enum SshIdentity {
    /// By a private key.
    Key(Arc<PrivateKey>),
    /// By the keys of the agent that listens on this socket.
    Agent(PathBuf),
}

impl SshIdentity {
    /// A private key as OpenSSH writes it, not encrypted.
    ///
    /// # Errors
    /// When it is none, or is one of RSA: what would sign with it here tells too much about it by the time that takes. An agent
    /// can.
    pub fn from_openssh(pem: &str) -> Result<Self, InvalidKey> {
        let rsa = || {
            let why = "it is an RSA key: add it to an agent, or use one of ed25519 or ecdsa";
            InvalidKey::new("a private key", why)
        };
        if pem.contains("-----BEGIN RSA PRIVATE KEY-----") {
            return Err(rsa());
        }
        let key = PrivateKey::from_openssh(pem);
        let key = key.map_err(|source| InvalidKey::new("a private key", source))?;
        if key.is_encrypted() {
            let why = "it is encrypted: add it to an agent";
            return Err(InvalidKey::new("a private key", why));
        }
        if key.algorithm().is_rsa() {
            return Err(rsa());
        }
        Ok(Self::Key(Arc::new(key)))
    }
}

impl fmt::Debug for SshIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "Key({})", fingerprint(key.public_key())),
            Self::Agent(socket) => f.debug_tuple("Agent").field(socket).finish(),
        }
    }
}

/// A machine that is reached by SSH.
#[derive(Debug, Clone)]
pub struct SshAccess {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Whom to log in as.
    pub user: String,
    /// Which host keys it may show.
    pub host_keys: HostKeys,
    /// How to show who is there, tried in this order.
    pub identities: Vec<SshIdentity>,
    /// The machine through which it is reached, if it is not reached directly.
    pub jump: Option<Box<SshAccess>>,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// After how much silence the machine is asked whether it is there. Three questions without an answer, and the
    /// connection is lost.
    pub keepalive: Duration,
}

impl SshAccess {
    /// A machine that is reached directly, with the usual times.
    pub fn new(
        endpoint: Endpoint,
        user: impl Into<String>,
        host_keys: HostKeys,
        identities: Vec<SshIdentity>,
    ) -> Self {
        Self {
            endpoint,
            user: user.into(),
            host_keys,
            identities,
            jump: None,
            connect_timeout: Duration::from_secs(20),
            keepalive: Duration::from_secs(15),
        }
    }

    /// Through another machine.
    #[must_use]
    pub fn through(mut self, jump: Self) -> Self {
        self.jump = Some(Box::new(jump));
        self
    }
}
