//! The way to a Unit's Communication Manager.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_control_api::v1::control_service_client::ControlServiceClient;
use muster_rpc::{ChannelConfig, Target, TargetError, channel};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, LoadCertError, Role,
    ServerName, TlsSetupError,
};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::call::{CallError, Peer};
use crate::cli::unit::Connection;
use crate::console::Exit;

/// Where a Communication Manager listens if nobody says otherwise.
const SYSTEM_SOCKET: &str = "/run/muster/cm.sock";
/// The same for one that runs for a user, below `$XDG_RUNTIME_DIR`.
const USER_SOCKET: &str = "muster/cm.sock";
/// How long a call may take, streams excepted.
const CALL: Duration = Duration::from_secs(60);
/// How long a stream may live.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);
/// A list of 100,000 instances has some 30 MiB.
const LARGEST_ANSWER: usize = 256 << 20;

/// Why there is no way to the Unit.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectUnitError {
    #[error(
        "no Unit answers; tried {}; is muster-cm running? start it with `muster up`, or name it with --unit",
        tried(.0)
    )]
    Nobody(Vec<(PathBuf, io::Error)>),
    #[error(
        "you may not use {}; run this as its owner, usually root, or name another Unit with --unit", .0.display()
    )]
    NotAllowed(PathBuf),
    #[error("to reach {0} over the network, name --ca, --cert and --key")]
    NoTls(String),
    #[error("{0} is neither a socket nor https://HOST:PORT")]
    NoUnit(String),
    #[error("{0} would be reached without protection; use https://")]
    Unprotected(String),
    #[error("the socket {} has a name that cannot be used", .0.display())]
    SocketName(PathBuf, #[source] tonic::transport::Error),
    #[error("cannot use the certificates for {unit}")]
    Certificates {
        unit: String,
        #[source]
        source: LoadCertError,
    },
    #[error("cannot use TLS for {unit}")]
    Tls {
        unit: String,
        #[source]
        source: TlsSetupError,
    },
    #[error(transparent)]
    Address(TargetError),
}

fn tried(places: &[(PathBuf, io::Error)]) -> String {
    let place = |(path, error): &(PathBuf, io::Error)| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "there is no such socket".to_owned(),
            io::ErrorKind::ConnectionRefused => "nobody listens".to_owned(),
            _ => error.to_string(),
        };
        format!("{} ({why})", path.display())
    };
    let places: Vec<String> = places.iter().map(place).collect();
    places.join(" and ")
}

impl ConnectUnitError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Nobody(_) => Exit::Unreachable,
            Self::NotAllowed(_) => Exit::Refused,
            Self::NoTls(_) | Self::NoUnit(_) | Self::Unprotected(_) | Self::Address(_) => {
                Exit::Usage
            }
            Self::SocketName(..) | Self::Certificates { .. } | Self::Tls { .. } => Exit::Failed,
        }
    }
}

/// Calls to one Unit.
#[derive(Debug, Clone)]
pub(crate) struct UnitClient(ControlServiceClient<Channel>);

impl UnitClient {
    /// Finds the Unit. Sockets are tried at once, so that a Unit that is not there is told from one that fails.
    pub(crate) async fn connect(connection: &Connection) -> Result<Self, ConnectUnitError> {
        match &connection.unit {
            Some(unit) => match place_of(unit)? {
                Place::Socket(path) => Self::first_of(vec![path]).await,
                Place::Address(address) => Self::over_tls(connection, unit, &address).await,
            },
            None => Self::first_of(default_sockets()).await,
        }
    }

    async fn first_of(sockets: Vec<PathBuf>) -> Result<Self, ConnectUnitError> {
        let mut tried = Vec::new();
        for path in sockets {
            match UnixStream::connect(&path).await {
                Ok(_) => return Self::on_socket(&path),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(ConnectUnitError::NotAllowed(path));
                }
                Err(error) => tried.push((path, error)),
            }
        }
        Err(ConnectUnitError::Nobody(tried))
    }

    fn on_socket(path: &Path) -> Result<Self, ConnectUnitError> {
        let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()))
            .map_err(|source| ConnectUnitError::SocketName(path.to_owned(), source))?;
        Ok(Self::new(endpoint.connect_lazy()))
    }

    async fn over_tls(
        connection: &Connection,
        unit: &str,
        address: &str,
    ) -> Result<Self, ConnectUnitError> {
        let unit = || unit.to_owned();
        let (Some(ca), Some(cert), Some(key)) = (&connection.ca, &connection.cert, &connection.key)
        else {
            return Err(ConnectUnitError::NoTls(unit()));
        };
        let mut source = FileCertSource::mutual(cert, key, ca);
        if let Some(crl) = &connection.crl {
            source = source.with_crl(crl);
        }
        let store =
            CertStore::open(source)
                .await
                .map_err(|source| ConnectUnitError::Certificates {
                    unit: unit(),
                    source,
                })?;
        let server = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
        let tls =
            ClientTls::mutual(&store, server, ClientOptions::default()).map_err(|source| {
                ConnectUnitError::Tls {
                    unit: unit(),
                    source,
                }
            })?;
        let target = Target::new(tls, address).map_err(ConnectUnitError::Address)?;
        let config = ChannelConfig {
            // Unary calls have their own limit; streams have none.
            call_timeout: NO_LIMIT,
            ..ChannelConfig::default()
        };
        Ok(Self::new(channel(&target, config)))
    }

    fn new(channel: Channel) -> Self {
        Self(ControlServiceClient::new(channel).max_decoding_message_size(LARGEST_ANSWER))
    }

    /// Makes one call, within its time.
    pub(crate) async fn ask<T>(
        &self,
        call: &'static str,
        make: impl AsyncFnOnce(ControlServiceClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(CALL, make(self.0.clone())).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(Peer::Unit.failed(call, status)),
            Err(_) => Err(CallError::Late { call, within: CALL }),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Socket(PathBuf),
    /// `host:port`
    Address(String),
}

fn place_of(unit: &str) -> Result<Place, ConnectUnitError> {
    if let Some(address) = unit.strip_prefix("https://") {
        return Ok(Place::Address(address.trim_end_matches('/').to_owned()));
    }
    if unit.starts_with("http://") {
        return Err(ConnectUnitError::Unprotected(unit.to_owned()));
    }
    let path = unit.strip_prefix("unix:").unwrap_or(unit);
    if path.contains('/') {
        // Both unix:/path and unix:///path are written.
        let path = path.strip_prefix("//").unwrap_or(path);
        return Ok(Place::Socket(PathBuf::from(path)));
    }
    match unit.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => Ok(Place::Address(unit.to_owned())),
        _ => Err(ConnectUnitError::NoUnit(unit.to_owned())),
    }
}

/// The system's, and the user's.
pub(crate) fn default_sockets() -> Vec<PathBuf> {
    let mut sockets = vec![PathBuf::from(SYSTEM_SOCKET)];
    if let Some(folder) = env::var_os("XDG_RUNTIME_DIR").filter(|it| !it.is_empty()) {
        sockets.push(Path::new(&folder).join(USER_SOCKET));
    }
    sockets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_a_socket_or_an_address() {
        let socket = |path: &str| Some(Place::Socket(path.into()));
        let address = |address: &str| Some(Place::Address(address.into()));
        for (unit, place) in [
            ("/run/cm.sock", socket("/run/cm.sock")),
            ("./cm.sock", socket("./cm.sock")),
            ("unix:/run/cm.sock", socket("/run/cm.sock")),
            ("unix:///run/cm.sock", socket("/run/cm.sock")),
            ("https://main:8094", address("main:8094")),
            ("https://[::1]:8094/", address("[::1]:8094")),
            ("main:8094", address("main:8094")),
            ("http://main:8094", None),
            ("main", None),
            ("", None),
        ] {
            assert_eq!(place_of(unit).ok(), place, "{unit}");
        }
    }
}
