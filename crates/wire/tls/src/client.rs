//! The client's side: how a server is checked, and a connector for tonic and hyper.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::sign::SingleCertAndKey;
use rustls_pki_types::ServerName as TlsName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::facts::{CertFacts, CertSummary};
use crate::identity::{IdentityOrigin, PeerIdentity, spiffe_id};
use crate::material::{CertMaterial, provider};
use crate::peer::{Peer, TlsConnectInfo, TlsIo};
use crate::refusal::{Failure, explain};
use crate::setup::{Alpn, Insecure, PerGeneration, TlsSetupError};
use crate::spiffe::{NodeId, Role, SpiffeId, SystemId};
use crate::store::CertStore;
use crate::verify::{ServerVerifier, with_note};

const WHAT: &str = "a TLS client";

/// What makes a server the right one, beyond a certificate of a trusted CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerName {
    /// Its certificate has the DNS name or IP address that was asked for.
    Dns,
    /// Its certificate has the SPIFFE id that is expected; the host name does not matter.
    Spiffe(ExpectedServer),
    /// Nothing else: any certificate of the CA that is for servers will do. For AosCore, whose
    /// certificates name neither hosts nor roles; every node can then pose as the server.
    AnyOfCa,
}

/// Which server is expected, where [`ServerName::Spiffe`] decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedServer {
    /// Its role.
    pub role: Role,
    /// Its system, if only one will do.
    pub system: Option<SystemId>,
    /// Its node, if only one will do.
    pub node: Option<NodeId>,
}

impl ExpectedServer {
    /// A server with this role, in any system that the CA certifies, on any node.
    pub fn role(role: Role) -> Self {
        Self {
            role,
            system: None,
            node: None,
        }
    }

    /// Whether this is the one.
    pub fn is(&self, found: &SpiffeId) -> bool {
        self.role == found.role
            && self
                .system
                .as_ref()
                .is_none_or(|system| *system == found.system)
            && self.node.as_ref().is_none_or(|node| *node == found.node)
    }
}

impl fmt::Display for ExpectedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = self.system.as_ref().map_or("*", SystemId::as_str);
        let node = self.node.as_ref().map_or("*", NodeId::as_str);
        write!(f, "spiffe://{system}/node/{node}/{}", self.role)
    }
}

/// What can be set about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// Application protocols.
    pub alpn: Alpn,
    /// How long resolving, connecting and the handshake may take together.
    pub connect_deadline: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            alpn: Alpn::H2,
            connect_deadline: Duration::from_secs(10),
        }
    }
}

/// Why there is no connection to a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectTlsError {
    /// The address has no host.
    #[error("the address {uri} names no host")]
    NoHost {
        /// The address.
        uri: Uri,
    },
    /// The host cannot be resolved or reached.
    #[error("cannot reach {host}:{port}")]
    Reach {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody answered in time.
    #[error("{host}:{port} did not finish connecting within {after:?}")]
    Late {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The deadline.
        after: Duration,
    },
    /// The host's name cannot stand in a certificate.
    #[error("{host} is neither a DNS name nor an IP address")]
    Name {
        /// The host.
        host: String,
    },
    /// The server is not the right one, or refused this client.
    #[error("no TLS connection to {host}:{port}: {reason}")]
    Handshake {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// What is wrong, in words; "it" is the server.
        reason: String,
        /// The server's certificate, if that is what was refused.
        certificate: Option<Box<CertSummary>>,
        /// What the TLS library said.
        source: io::Error,
    },
}

/// How a client protects its connections and which servers it takes. Each new connection uses the
/// store's current certificates. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientTls(Arc<Client>);

#[derive(Debug)]
struct Client {
    mode: Mode,
    options: ClientOptions,
}

#[derive(Debug)]
enum Mode {
    Tls {
        configs: PerGeneration<ClientConfig>,
        name: ServerName,
    },
    Insecure,
}

impl ClientTls {
    /// Shows the store's own certificate.
    pub fn mutual(
        store: &CertStore,
        name: ServerName,
        options: ClientOptions,
    ) -> Result<Self, TlsSetupError> {
        Self::tls(store, name, options, true)
    }

    /// Shows no certificate, even if the store has one.
    pub fn without_certificate(
        store: &CertStore,
        name: ServerName,
        options: ClientOptions,
    ) -> Result<Self, TlsSetupError> {
        Self::tls(store, name, options, false)
    }

    /// No TLS at all. Logs a warning.
    pub fn insecure(permission: &Insecure, options: ClientOptions) -> Self {
        permission.warn("a client");
        Self(Arc::new(Client {
            mode: Mode::Insecure,
            options,
        }))
    }

    fn tls(
        store: &CertStore,
        name: ServerName,
        options: ClientOptions,
        show: bool,
    ) -> Result<Self, TlsSetupError> {
        let for_verifier = name.clone();
        let configs = PerGeneration::new(store, move |material| {
            client_config(material, &for_verifier, options.alpn, show)
        })?;
        Ok(Self(Arc::new(Client {
            mode: Mode::Tls { configs, name },
            options,
        })))
    }

    /// What a new connection would be made with now, for HTTP clients that make their own; `None` without TLS. After a
    /// renewal it is another one.
    pub fn configuration(&self) -> Option<Arc<ClientConfig>> {
        match &self.0.mode {
            Mode::Tls { configs, .. } => Some(configs.current()),
            Mode::Insecure => None,
        }
    }

    /// For `Endpoint::connect_with_connector` of tonic, and for hyper. The scheme of the address is
    /// not looked at: whether TLS is spoken was decided when this client was made.
    pub fn connector(&self) -> Connector {
        Connector { tls: self.clone() }
    }

    /// Connects to a host, for protocols other than HTTP/2.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TlsIo, ConnectTlsError> {
        let after = self.0.options.connect_deadline;
        match timeout(after, self.connect_patiently(host, port)).await {
            Ok(result) => result,
            Err(_) => Err(ConnectTlsError::Late {
                host: host.to_owned(),
                port,
                after,
            }),
        }
    }

    async fn connect_patiently(&self, host: &str, port: u16) -> Result<TlsIo, ConnectTlsError> {
        let reach = |source| ConnectTlsError::Reach {
            host: host.to_owned(),
            port,
            source,
        };
        let tcp = TcpStream::connect((host, port)).await.map_err(reach)?;
        let address = tcp.peer_addr().map_err(reach)?;
        // Small messages go out at once; where the system refuses, they are merely slower.
        let _ = tcp.set_nodelay(true);
        let Mode::Tls { configs, name } = &self.0.mode else {
            return Ok(TlsIo::plain(
                tcp,
                TlsConnectInfo::new(address, Peer::Insecure),
            ));
        };
        let tls_name = tls_name(host, address, name)?;
        let handshake = TlsConnector::from(configs.current()).connect(tls_name, tcp);
        let (result, note) = with_note(handshake).await;
        match result {
            Ok(stream) => {
                let peer = server_peer(stream.get_ref().1.peer_certificates());
                Ok(TlsIo::tls(
                    stream.into(),
                    TlsConnectInfo::new(address, peer),
                ))
            }
            Err(source) => Err(ConnectTlsError::Handshake {
                host: host.to_owned(),
                port,
                reason: note.reason.unwrap_or_else(|| match explain(&source) {
                    Failure::Refused(reason) => reason,
                    Failure::Gone => "it closed the connection during the handshake".to_owned(),
                }),
                certificate: note.certificate.map(Box::new),
                source,
            }),
        }
    }
}

/// The name to ask for. Where it is not checked, an odd host name does not stand in the way.
fn tls_name(
    host: &str,
    address: SocketAddr,
    name: &ServerName,
) -> Result<TlsName<'static>, ConnectTlsError> {
    match (TlsName::try_from(host.to_owned()), name) {
        (Ok(found), _) => Ok(found),
        (Err(_), ServerName::Dns) => Err(ConnectTlsError::Name {
            host: host.to_owned(),
        }),
        (Err(_), ServerName::Spiffe(_) | ServerName::AnyOfCa) => {
            Ok(TlsName::IpAddress(address.ip().into()))
        }
    }
}

/// Who a verified server is. It may well have no SPIFFE id, where its name or CA was enough.
fn server_peer(chain: Option<&[rustls_pki_types::CertificateDer<'static>]>) -> Peer {
    let facts = chain
        .and_then(<[_]>::first)
        .and_then(|leaf| CertFacts::from_der(leaf).ok());
    let Some(CertFacts {
        names,
        summary: certificate,
    }) = facts
    else {
        return Peer::WithoutCertificate;
    };
    match spiffe_id(&names) {
        Ok(Some(id)) => Peer::Identified {
            identity: PeerIdentity {
                id,
                origin: IdentityOrigin::Spiffe,
            },
            certificate,
        },
        Ok(None) | Err(_) => Peer::Unidentified { certificate },
    }
}

fn client_config(
    material: &CertMaterial,
    name: &ServerName,
    alpn: Alpn,
    show: bool,
) -> Result<ClientConfig, TlsSetupError> {
    let trust = material
        .trust
        .as_ref()
        .ok_or(TlsSetupError::NoTrust { what: WHAT })?;
    let chain = trust
        .server_verifier()
        .map_err(|source| TlsSetupError::Verifier { what: WHAT, source })?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|source| TlsSetupError::Config { what: WHAT, source })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ServerVerifier {
            chain,
            name: name.clone(),
        }));
    let mut config = if show {
        let own = material
            .own
            .as_ref()
            .ok_or(TlsSetupError::NoCertificate { what: WHAT })?;
        let resolver = SingleCertAndKey::from(Arc::clone(own.certified()));
        builder.with_client_cert_resolver(Arc::new(resolver))
    } else {
        builder.with_no_client_auth()
    };
    config.alpn_protocols = alpn.protocols();
    // A resumed session would keep the identity of an older certificate.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Connects for tonic and hyper; see [`ClientTls::connector`].
#[derive(Debug, Clone)]
pub struct Connector {
    tls: ClientTls,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsIo>;
    type Error = ConnectTlsError;
    type Future =
        Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send + 'static>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let Some(host) = uri.host() else {
                return Err(ConnectTlsError::NoHost { uri });
            };
            // An IPv6 address stands in brackets in an address, and without them everywhere else.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let default = if matches!(tls.0.mode, Mode::Insecure) {
                80
            } else {
                443
            };
            let port = uri.port_u16().unwrap_or(default);
            tls.connect(host, port).await.map(TokioIo::new)
        })
    }
}
