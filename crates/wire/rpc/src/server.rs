//! The assembly of a gRPC server: every server of the product is built here, so every one has
//! health, reflection, keepalive, bounds and an end.

mod severable;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use std::{fmt, io};

use futures_util::Stream;
use muster_tls::ServerTls;
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower_service::Service;
use tracing::{error, info, warn};

use crate::connection::Keepalive;
use crate::listen::ListenAddress;
use severable::{Connection, SeverableIncoming, unix_connections};

/// Health and reflection take tiny requests.
const SMALL_REQUEST: usize = 16 * 1024;

/// Everything that can be set about a server. Message lengths are bounded per service: tonic decodes
/// at most 4 MiB unless a service says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// HTTP/2 keepalive towards clients. Clients may ping as they like, also without calls.
    pub keepalive: Keepalive,
    /// Calls under way per connection; further ones wait.
    pub calls_per_connection: u32,
    /// Connections; further ones are closed at once.
    pub connections: usize,
    /// What one stream of a flooding client can make the server hold.
    pub stream_window: u32,
    /// What one connection of a flooding client can make the server hold.
    pub connection_window: u32,
    /// Request headers of a call.
    pub header_bytes: u32,
    /// How long a shutdown waits for calls to end by themselves.
    pub shutdown_grace: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            keepalive: Keepalive::default(),
            calls_per_connection: 128,
            connections: 16 * 1024,
            stream_window: 256 * 1024,
            connection_window: 512 * 1024,
            header_bytes: 16 * 1024,
            shutdown_grace: Duration::from_secs(3),
        }
    }
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartServerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The descriptor set cannot be read.
    #[error("the descriptor set for reflection cannot be read")]
    Descriptors {
        /// What is wrong with it.
        source: tonic_reflection::server::Error,
    },
}

/// A server about to be started.
pub struct ServerBuilder {
    config: ServerConfig,
    routes: RoutesBuilder,
    names: Vec<&'static str>,
    descriptors: &'static [u8],
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("config", &self.config)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// `descriptors` is the encoded descriptor set of the services, for reflection.
    pub fn new(config: ServerConfig, descriptors: &'static [u8]) -> Self {
        Self {
            config,
            routes: Routes::builder(),
            names: Vec::new(),
            descriptors,
        }
    }

    /// Adds a generated service.
    pub fn service<S>(mut self, service: S) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        self.names.push(S::NAME);
        self.routes.add_service(service);
        self
    }

    /// Listens and serves until [`RunningServer::shutdown`]. Must be called inside a tokio runtime.
    pub async fn start(
        self,
        listen: ListenAddress,
        tls: &ServerTls,
    ) -> Result<RunningServer, StartServerError> {
        let failed = |source| StartServerError::Listen {
            address: listen.0,
            source,
        };
        let listener = TcpListener::bind(listen.0).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        self.start_on(listener, address, tls).await
    }

    /// The same on a listener that is there already, at `address`. A duplicate of its descriptor keeps
    /// the port, and whoever is about to connect, from one server to the next.
    pub async fn start_on(
        self,
        listener: TcpListener,
        address: SocketAddr,
        tls: &ServerTls,
    ) -> Result<RunningServer, StartServerError> {
        let running = self.serve(tls.incoming(listener), address).await?;
        info!(%address, "serving");
        Ok(running)
    }

    /// Serves a unix socket. Handlers find who is at the other end as
    /// [`UdsConnectInfo`](tonic::transport::server::UdsConnectInfo) among a request's extensions; who
    /// may connect is up to the owner of the socket's folder and file.
    pub async fn start_unix(
        self,
        listener: UnixListener,
        path: PathBuf,
    ) -> Result<RunningServer<PathBuf>, StartServerError> {
        let incoming = Box::pin(unix_connections(listener));
        let running = self.serve(incoming, path.clone()).await?;
        info!(path = %path.display(), "serving");
        Ok(running)
    }

    async fn serve<Address, Io>(
        self,
        incoming: impl Stream<Item = io::Result<Io>> + Send + Unpin + 'static,
        address: Address,
    ) -> Result<RunningServer<Address>, StartServerError>
    where
        Io: Connection,
        Io::ConnectInfo: Clone + Send + Sync,
    {
        let health = HealthReporter::new();
        for name in &self.names {
            health
                .set_service_status(*name, ServingStatus::Serving)
                .await;
        }
        let config = self.config;
        let routes = self.routes(&health)?;
        let stop = CancellationToken::new();
        let sever = CancellationToken::new();
        let incoming = SeverableIncoming::new(incoming, sever.clone(), config.connections);
        let serve = Server::builder()
            .http2_keepalive_interval(Some(config.keepalive.interval))
            .http2_keepalive_timeout(Some(config.keepalive.timeout))
            .max_concurrent_streams(config.calls_per_connection)
            .initial_stream_window_size(config.stream_window)
            .initial_connection_window_size(config.connection_window)
            .http2_max_header_list_size(config.header_bytes)
            .add_routes(routes)
            .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
        let task = tokio::spawn(run(
            serve,
            stop.clone(),
            sever.clone(),
            config.shutdown_grace,
        ));
        Ok(RunningServer {
            address,
            health,
            stop,
            sever,
            task: Some(task),
        })
    }

    fn routes(mut self, health: &HealthReporter) -> Result<Routes, StartServerError> {
        let reflection = || {
            let own = [
                <HealthServer<HealthService> as NamedService>::NAME,
                "grpc.reflection.v1.ServerReflection",
            ];
            let builder = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(self.descriptors)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
            own.iter()
                .chain(&self.names)
                .fold(builder, |builder, name| builder.with_service_name(*name))
        };
        let refused = |source| StartServerError::Descriptors { source };
        let v1 = reflection().build_v1().map_err(refused)?;
        // Older tools know only this one.
        let v1alpha = reflection().build_v1alpha().map_err(refused)?;
        let health = HealthServer::new(HealthService::from_health_reporter(health.clone()));
        self.routes
            .add_service(health.max_decoding_message_size(SMALL_REQUEST))
            .add_service(v1.max_decoding_message_size(SMALL_REQUEST))
            .add_service(v1alpha.max_decoding_message_size(SMALL_REQUEST));
        Ok(self.routes.routes())
    }
}

async fn run(
    serve: impl Future<Output = Result<(), tonic::transport::Error>>,
    stop: CancellationToken,
    sever: CancellationToken,
    grace: Duration,
) {
    let mut serve = pin!(serve);
    let result = tokio::select! {
        result = &mut serve => result,
        () = stop.cancelled() => match timeout(grace, &mut serve).await {
            Ok(result) => result,
            Err(_) => {
                warn!(?grace, "calls did not end in time, closing their connections");
                sever.cancel();
                serve.await
            }
        },
    };
    if let Err(failed) = result {
        error!(error = &failed as &dyn StdError, "the server failed");
    }
}

/// A server at work. Dropping it closes everything at once.
#[derive(Debug)]
pub struct RunningServer<Address = SocketAddr> {
    address: Address,
    health: HealthReporter,
    stop: CancellationToken,
    sever: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl<Address: Clone> RunningServer<Address> {
    /// The address that is listened on.
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// For services that are not always able to serve.
    pub fn health(&self) -> &HealthReporter {
        &self.health
    }

    /// Takes no further connections, lets calls end for [`ServerConfig::shutdown_grace`], then closes
    /// what is left.
    pub async fn shutdown(mut self) {
        self.health
            .set_service_status("", ServingStatus::NotServing)
            .await;
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A panic has been reported by the runtime, and the server is gone either way.
            let _ = task.await;
        }
    }
}

impl<Address> Drop for RunningServer<Address> {
    fn drop(&mut self) {
        self.stop.cancel();
        self.sever.cancel();
    }
}
