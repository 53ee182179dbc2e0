//! The way to an identity manager, and what its failures mean for a command.

use std::error::Error as _;
use std::path::PathBuf;

use muster_api::domain::{AosCode, Cause};
use muster_iamclient::{IamCallError, IamClient, IamTarget};
use muster_rpc::{Target, TargetError};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, Insecure, LoadCertError,
    NoReasonError, Role, ServerName, TlsSetupError,
};
use tonic::Code;

use crate::cli::node::{Connection, ServerCheck};
use crate::console::Exit;

/// Why there is no way to the identity manager.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(
        "to reach {address} over the network, name --ca, --cert and --key (or --insecure for a node that allows it)"
    )]
    NoTls { address: String },
    #[error("cannot use the certificates for {address}")]
    Certificates {
        address: String,
        #[source]
        source: LoadCertError,
    },
    #[error("cannot use TLS for {address}")]
    Tls {
        address: String,
        #[source]
        source: TlsSetupError,
    },
    #[error("cannot go without TLS")]
    Insecure(#[source] NoReasonError),
    #[error(transparent)]
    Address(TargetError),
    #[error("cannot reach the identity manager at {} (is muster-iam running, and may you use its socket?)", path.display())]
    Socket {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl ConnectError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Socket { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Exit::Refused
            }
            Self::Socket { .. } => Exit::Unreachable,
            Self::NoTls { .. } | Self::Address(_) => Exit::Usage,
            Self::Certificates { .. } | Self::Tls { .. } | Self::Insecure(_) => Exit::Failed,
        }
    }
}

/// Prepares the way. A unix socket is tried at once, so that a daemon that is not there is told from one that fails.
pub(super) async fn connect(connection: &Connection) -> Result<IamClient, ConnectError> {
    let address = connection.iam.as_str();
    let path = address.strip_prefix("unix:").unwrap_or(address);
    if path.contains('/') {
        let path = PathBuf::from(path);
        return match tokio::net::UnixStream::connect(&path).await {
            Ok(_) => Ok(IamClient::local(path)),
            Err(source) => Err(ConnectError::Socket { path, source }),
        };
    }
    let target = Target::new(tls(connection).await?, address).map_err(ConnectError::Address)?;
    // Whoever may call the protected port may look there too.
    let target = IamTarget::Tcp(target);
    Ok(IamClient::new(target.clone()).with_protected(target))
}

async fn tls(connection: &Connection) -> Result<ClientTls, ConnectError> {
    let options = ClientOptions::default();
    if connection.insecure {
        let permission = Insecure::because("muster was called with --insecure")
            .map_err(ConnectError::Insecure)?;
        return Ok(ClientTls::insecure(&permission, options));
    }
    let address = || connection.iam.clone();
    let (Some(ca), Some(cert), Some(key)) = (&connection.ca, &connection.cert, &connection.key)
    else {
        return Err(ConnectError::NoTls { address: address() });
    };
    let mut source = FileCertSource::mutual(cert, key, ca);
    if let Some(crl) = &connection.crl {
        source = source.with_crl(crl);
    }
    let store = CertStore::open(source)
        .await
        .map_err(|source| ConnectError::Certificates {
            address: address(),
            source,
        })?;
    let name = match connection.server {
        ServerCheck::Role => ServerName::Spiffe(ExpectedServer::role(Role::Iam)),
        ServerCheck::Name => ServerName::Dns,
        ServerCheck::Any => ServerName::AnyOfCa,
    };
    ClientTls::mutual(&store, name, options).map_err(|source| ConnectError::Tls {
        address: address(),
        source,
    })
}

/// How a command ends whose call failed.
pub(super) fn exit_of(error: &IamCallError) -> Exit {
    if error.is_unreachable() {
        return Exit::Unreachable;
    }
    match error {
        // A status that a peer has sent has no cause of its own: this one is about the connection.
        IamCallError::Call { source, .. } if source.source().is_some() => Exit::Unreachable,
        IamCallError::NotCarriedOut { source, .. } => match source.cause {
            Cause::Code { code, .. } => match code {
                AosCode::NotFound => Exit::NotFound,
                AosCode::WrongState | AosCode::NotSupported => Exit::Refused,
                AosCode::Timeout => Exit::Unreachable,
                _ => Exit::Failed,
            },
            Cause::Errno(_) => Exit::Failed,
        },
        _ => match error.code() {
            Some(Code::NotFound) => Exit::NotFound,
            Some(
                Code::PermissionDenied
                | Code::Unauthenticated
                | Code::FailedPrecondition
                | Code::Unimplemented,
            ) => Exit::Refused,
            _ => Exit::Failed,
        },
    }
}
