//! Where operators are served: a socket of this machine, and, where the configuration says so, a port.

use std::sync::Arc;

use muster_control_server::{
    Access, ControlServer, ControlSocket, Limits, Operations, Parts, ServeControlError, UnitView,
};
use muster_rpc::ListenAddress;
use muster_telemetry::{ErrorChain, Shutdown};
use muster_tls::{
    IdentityPolicy, ParseSpiffeError, ServerOptions, ServerTls, SystemId, TlsSetupError,
};

use crate::config::{Config, Trust};
use crate::identity::{Identity, LateIdentity, arrival};

/// Why operators of other machines are not served.
#[derive(Debug, thiserror::Error)]
enum ServeOperatorsError {
    /// The certificate is of no use.
    #[error("cannot set up TLS for operators")]
    Tls(#[source] TlsSetupError),
    /// The system has no name that certificates could carry.
    #[error("the system is called {system:?}, which certificates of operators cannot name")]
    System {
        /// What the identity manager says.
        system: String,
        /// What is wrong with it.
        source: ParseSpiffeError,
    },
    /// The port.
    #[error("cannot serve operators of other machines")]
    Port(#[source] ServeControlError),
}

/// The socket is open.
#[derive(Debug)]
pub(crate) struct Operators {
    parts: Parts,
    socket: ControlSocket,
    port: Option<ListenAddress>,
}

impl Operators {
    /// Opens the socket.
    pub(crate) async fn open(
        config: &Config,
        view: UnitView,
        operations: Arc<dyn Operations>,
    ) -> Result<Self, ServeControlError> {
        let parts = Parts {
            view,
            operations,
            access: Access::local_only(),
        };
        let server = ControlServer::new(parts.clone(), Limits::default());
        let socket = server.serve_unix(&config.control_socket).await?;
        let path = socket.path();
        tracing::info!(socket = %path.display(), "operators are served");
        let port = match &config.trust {
            Trust::Iam(_) => config.control_listen,
            Trust::Insecure(_) => {
                if let Some(port) = config.control_listen {
                    let port = port.0;
                    // Nobody can be told apart without certificates.
                    tracing::warn!(%port, "operators of other machines are not served without TLS");
                }
                None
            }
        };
        Ok(Self {
            parts,
            socket,
            port,
        })
    }

    /// Until the shutdown. The port opens when there is a certificate; without it the socket goes on.
    pub(crate) async fn serve(
        self,
        identity: LateIdentity,
        shutdown: Shutdown,
    ) -> Result<(), std::convert::Infallible> {
        let Self {
            parts,
            socket,
            port,
        } = self;
        let stop = shutdown.token();
        let port = async {
            let port = port?;
            let identity = stop.run_until_cancelled(arrival(identity)).await?;
            match serve_port(port, parts, &identity).await {
                Ok(server) => Some(server),
                Err(error) => {
                    tracing::error!(error = %ErrorChain(&error), "operators of other machines are not served");
                    None
                }
            }
        };
        let port = port.await;
        stop.cancelled().await;
        if let Some(port) = port {
            port.shutdown().await;
        }
        socket.shutdown().await;
        Ok(())
    }
}

async fn serve_port(
    port: ListenAddress,
    mut parts: Parts,
    identity: &Identity,
) -> Result<muster_rpc::server::RunningServer, ServeOperatorsError> {
    let system = SystemId::new(&identity.system).map_err(|source| ServeOperatorsError::System {
        system: identity.system.clone(),
        source,
    })?;
    parts.access = Access::local_only().operators_of(system, Vec::new());
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&identity.certificates, policy, ServerOptions::default());
    let tls = tls.map_err(ServeOperatorsError::Tls)?;
    let server = ControlServer::new(parts, Limits::default());
    let served = server
        .serve_tcp(port, &tls)
        .await
        .map_err(ServeOperatorsError::Port)?;
    tracing::info!(address = %served.address(), "operators of other machines are served");
    Ok(served)
}
