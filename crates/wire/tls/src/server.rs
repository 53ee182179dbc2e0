//! The server's side: modes, and a handshake with one client.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::facts::{CertFacts, CertSummary};
use crate::identity::IdentityPolicy;
use crate::incoming::Incoming;
use crate::material::{CertMaterial, provider};
use crate::peer::{Peer, TlsConnectInfo, TlsIo};
use crate::refusal::{Failure, LineBudget, explain};
use crate::setup::{Alpn, Insecure, PerGeneration, TlsSetupError};
use crate::store::{CertStore, chain_words};
use crate::verify::{ClientVerifier, RefusalNote, with_note};

const WHAT: &str = "a TLS server";

/// How long a refused client gets to read why.
const FAREWELL: Duration = Duration::from_millis(500);
/// How much of what a refused client still sends is read, so that the reason is not lost to a reset.
const FAREWELL_BYTES: usize = 64 * 1024;

/// What can be set about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerOptions {
    /// Application protocols.
    pub alpn: Alpn,
    /// How long a handshake may take.
    pub handshake_deadline: Duration,
    /// How many handshakes may be under way. When more than half are, newcomers get a quarter of the
    /// deadline, so that silent clients do not hold every place for long.
    pub handshakes: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            alpn: Alpn::H2,
            handshake_deadline: Duration::from_secs(10),
            handshakes: 256,
        }
    }
}

/// How a server protects its connections and whom it lets in. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServerTls(Arc<Server>);

#[derive(Debug)]
struct Server {
    mode: Mode,
    options: ServerOptions,
    budget: Mutex<LineBudget>,
}

#[derive(Debug)]
enum Mode {
    Mutual {
        configs: PerGeneration<ServerConfig>,
        policy: Arc<IdentityPolicy>,
    },
    ServerOnly {
        configs: PerGeneration<ServerConfig>,
    },
    Insecure(Insecure),
}

impl ServerTls {
    /// Clients have to show a certificate of a trusted CA that gives them an identity under `policy`.
    pub fn mutual(
        store: &CertStore,
        policy: IdentityPolicy,
        options: ServerOptions,
    ) -> Result<Self, TlsSetupError> {
        let policy = Arc::new(policy);
        let for_verifier = Arc::clone(&policy);
        let configs = PerGeneration::new(store, move |material| {
            server_config(material, Some(&for_verifier), options.alpn)
        })?;
        Ok(Self::new(Mode::Mutual { configs, policy }, options))
    }

    /// Clients are not asked for a certificate and have no identity.
    pub fn server_only(store: &CertStore, options: ServerOptions) -> Result<Self, TlsSetupError> {
        let configs = PerGeneration::new(store, move |material| {
            server_config(material, None, options.alpn)
        })?;
        Ok(Self::new(Mode::ServerOnly { configs }, options))
    }

    /// No TLS at all. Each [`incoming`](Self::incoming) logs a warning.
    pub fn insecure(permission: Insecure, options: ServerOptions) -> Self {
        Self::new(Mode::Insecure(permission), options)
    }

    /// Whether connections go without TLS, so that a URL can say so.
    pub fn is_insecure(&self) -> bool {
        matches!(self.0.mode, Mode::Insecure(_))
    }

    fn new(mode: Mode, options: ServerOptions) -> Self {
        let budget = Mutex::new(LineBudget::new(Instant::now()));
        Self(Arc::new(Server {
            mode,
            options,
            budget,
        }))
    }

    /// Accepts connections from `listener`, as a stream for tonic's `serve_with_incoming` or for any
    /// other use. It never ends and never fails; dropping it closes the listener.
    ///
    /// Must be called inside a tokio runtime.
    pub fn incoming(&self, listener: TcpListener) -> Incoming {
        if let Mode::Insecure(permission) = &self.0.mode {
            permission.warn("a server");
        }
        Incoming::spawn(listener, self.clone())
    }

    pub(crate) fn options(&self) -> ServerOptions {
        self.0.options
    }

    /// Makes one accepted connection ready for use; `None` if the client was refused, which is logged.
    pub(crate) async fn handshake(
        &self,
        tcp: TcpStream,
        address: SocketAddr,
        deadline: Duration,
    ) -> Option<TlsIo> {
        // Small messages go out at once; where the system refuses, they are merely slower.
        let _ = tcp.set_nodelay(true);
        let (configs, policy) = match &self.0.mode {
            Mode::Mutual { configs, policy } => (configs, Some(policy)),
            Mode::ServerOnly { configs } => (configs, None),
            Mode::Insecure(_) => {
                return Some(TlsIo::plain(
                    tcp,
                    TlsConnectInfo::new(address, Peer::Insecure),
                ));
            }
        };
        let accept = TlsAcceptor::from(configs.current())
            .accept(tcp)
            .into_fallible();
        let (result, note) = match timeout(deadline, with_note(accept)).await {
            Ok(done) => done,
            Err(_) => {
                let reason = format!("it did not finish the TLS handshake within {deadline:?}");
                self.refused(address, &reason, None);
                return None;
            }
        };
        match result {
            Ok(stream) => {
                let leaf = stream
                    .get_ref()
                    .1
                    .peer_certificates()
                    .and_then(<[_]>::first);
                match identify(policy, leaf.map(AsRef::as_ref)) {
                    Ok(peer) => Some(TlsIo::tls(
                        stream.into(),
                        TlsConnectInfo::new(address, peer),
                    )),
                    Err(reason) => {
                        self.refused(
                            address,
                            &reason,
                            leaf.and_then(|der| CertSummary::from_der(der)).as_ref(),
                        );
                        None
                    }
                }
            }
            Err((error, tcp)) => {
                self.failed(address, &error, note);
                farewell(tcp).await;
                None
            }
        }
    }

    fn failed(&self, address: SocketAddr, error: &io::Error, note: RefusalNote) {
        match (note.reason, explain(error)) {
            (Some(reason), _) | (None, Failure::Refused(reason)) => {
                self.refused(address, &reason, note.certificate.as_ref());
            }
            (None, Failure::Gone) => debug!(
                peer = %address,
                error = error as &dyn StdError,
                "peer left during the TLS handshake"
            ),
        }
    }

    fn refused(&self, address: SocketAddr, reason: &str, certificate: Option<&CertSummary>) {
        let allowed = self.budget(|budget| budget.take(Instant::now()));
        let Some(suppressed) = allowed else {
            return;
        };
        match certificate {
            Some(certificate) => warn!(
                peer = %address,
                reason,
                subject = certificate.subject,
                issuer = certificate.issuer,
                serial = certificate.serial,
                valid = %certificate.validity(),
                suppressed,
                "TLS peer refused"
            ),
            None => warn!(peer = %address, reason, suppressed, "TLS peer refused"),
        }
    }

    /// Reports refusals that went without a line, if a line may be written now.
    pub(crate) fn report_suppressed(&self) {
        if let Some(suppressed) = self.budget(|budget| budget.settle(Instant::now())) {
            warn!(suppressed, "more TLS peers refused than lines written");
        }
    }

    /// Whether there are refusals that went without a line.
    pub(crate) fn has_suppressed(&self) -> bool {
        self.budget(|budget| budget.has_suppressed())
    }

    fn budget<T>(&self, use_it: impl FnOnce(&mut LineBudget) -> T) -> T {
        use_it(&mut self.0.budget.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Who a client is whose handshake succeeded.
fn identify(policy: Option<&Arc<IdentityPolicy>>, leaf: Option<&[u8]>) -> Result<Peer, String> {
    let Some(policy) = policy else {
        return Ok(Peer::WithoutCertificate);
    };
    let leaf = leaf.ok_or_else(|| "it presented no certificate".to_owned())?;
    let facts = CertFacts::from_der(leaf).map_err(|error| chain_words(&error))?;
    let certificate = facts.summary;
    match policy
        .identify(&facts.names)
        .map_err(|error| chain_words(&error))?
    {
        Some(identity) => Ok(Peer::Identified {
            identity,
            certificate,
        }),
        None => Ok(Peer::Unidentified { certificate }),
    }
}

/// Ends a refused connection so that the alert with the reason arrives: closing a socket with unread
/// bytes resets it, and a reset overtakes what was sent.
async fn farewell(mut tcp: TcpStream) {
    let drain = async {
        tcp.shutdown().await?;
        let mut sink = [0; 4096];
        let mut total = 0;
        while total < FAREWELL_BYTES {
            match tcp.read(&mut sink).await? {
                0 => break,
                read => total += read,
            }
        }
        io::Result::Ok(())
    };
    // Nothing depends on how it ends.
    let _ = timeout(FAREWELL, drain).await;
}

fn server_config(
    material: &CertMaterial,
    policy: Option<&Arc<IdentityPolicy>>,
    alpn: Alpn,
) -> Result<ServerConfig, TlsSetupError> {
    let own = material
        .own
        .as_ref()
        .ok_or(TlsSetupError::NoCertificate { what: WHAT })?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|source| TlsSetupError::Config { what: WHAT, source })?;
    let builder = match policy {
        Some(policy) => {
            let trust = material
                .trust
                .as_ref()
                .ok_or(TlsSetupError::NoTrust { what: WHAT })?;
            let chain =
                WebPkiClientVerifier::builder_with_provider(Arc::clone(trust.roots()), provider())
                    .with_crls(trust.crls().iter().cloned())
                    .build()
                    .map_err(|source| TlsSetupError::Verifier { what: WHAT, source })?;
            builder.with_client_cert_verifier(Arc::new(ClientVerifier {
                chain,
                policy: Arc::clone(policy),
            }))
        }
        None => builder.with_no_client_auth(),
    };
    let resolver = SingleCertAndKey::from(Arc::clone(own.certified()));
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = alpn.protocols();
    // A resumed session skips the certificate: it would outlive a swap and a revocation.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}
