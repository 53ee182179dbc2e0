//! The contract's service.

mod actions;
mod explain;
mod follow;
mod lists;
mod update;
mod watch;

use std::path::Path;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use muster_control_api::v1;
use muster_control_api::v1::control_service_server::{
    ControlService as Contract, ControlServiceServer,
};
use muster_rpc::server::{RunningServer, ServerBuilder};
use muster_rpc::{ListenAddress, bind_socket};
use muster_tls::ServerTls;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Response, Status, async_trait};

use crate::access::{Access, Call};
use crate::limits::Limits;
use crate::listen::{ControlSocket, ServeControlError};
use crate::operations::Operations;
use crate::view::UnitView;

/// Others may look into the folder of the socket: it is everybody's.
const FOLDER_MODE: u32 = 0o755;

/// What a call streams.
type Answers<T> = BoxStream<'static, Result<T, Status>>;

/// What the server is made of.
#[derive(Debug, Clone)]
pub struct Parts {
    /// What is shown.
    pub view: UnitView,
    /// What is done.
    pub operations: Arc<dyn Operations>,
    /// Who may.
    pub access: Access,
}

/// The service, for any number of listeners. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ControlServer {
    parts: Parts,
    limits: Limits,
    streams: Arc<Semaphore>,
}

impl ControlServer {
    /// A server that listens nowhere yet.
    pub fn new(parts: Parts, limits: Limits) -> Self {
        Self {
            parts,
            limits,
            streams: Arc::new(Semaphore::new(limits.streams)),
        }
    }

    /// Serves a socket that only its owner can open. Its folder is made if there is none; what a killed daemon left behind is
    /// replaced. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The socket cannot be made, or another process serves it.
    pub async fn serve_unix(&self, path: &Path) -> Result<ControlSocket, ServeControlError> {
        let listener = bind_socket(path, FOLDER_MODE).await;
        let listener = listener.map_err(ServeControlError::Bind)?;
        let started = self.builder().start_unix(listener, path.to_owned()).await;
        let server = started.map_err(|source| ServeControlError::Start {
            address: path.display().to_string(),
            source,
        })?;
        Ok(ControlSocket::new(server))
    }

    /// Serves a port, with mutual TLS: whoever has no identity may call nothing. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The port cannot be listened on.
    pub async fn serve_tcp(
        &self,
        address: ListenAddress,
        tls: &ServerTls,
    ) -> Result<RunningServer, ServeControlError> {
        let started = self.builder().start(address, tls).await;
        started.map_err(|source| ServeControlError::Start {
            address: address.0.to_string(),
            source,
        })
    }

    fn builder(&self) -> ServerBuilder {
        let service = ControlServiceServer::new(self.clone())
            .max_decoding_message_size(self.limits.message_bytes)
            .max_encoding_message_size(self.limits.message_bytes);
        ServerBuilder::new(
            self.limits.server(),
            muster_control_api::FILE_DESCRIPTOR_SET,
        )
        .service(service)
    }

    fn admit<T>(&self, request: Request<T>, call: Call) -> Result<T, Status> {
        self.parts.access.admit(&request, call)?;
        Ok(request.into_inner())
    }

    /// A place for a stream that may last.
    fn stream_permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permit = Arc::clone(&self.streams).try_acquire_owned();
        permit.map_err(|_| {
            let streams = self.limits.streams;
            Status::resource_exhausted(format!(
                "{streams} watchers and followers are there already; end some"
            ))
        })
    }
}

#[async_trait]
impl Contract for ControlServer {
    async fn get_overview(
        &self,
        request: Request<v1::GetOverviewRequest>,
    ) -> Result<Response<v1::Overview>, Status> {
        self.admit(request, Call::GetOverview)?;
        Ok(Response::new(self.parts.view.overview()))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let request = self.admit(request, Call::ListNodes)?;
        self.nodes(&request).map(Response::new)
    }

    async fn list_instances(
        &self,
        request: Request<v1::ListInstancesRequest>,
    ) -> Result<Response<v1::ListInstancesResponse>, Status> {
        let request = self.admit(request, Call::ListInstances)?;
        self.instances(request).map(Response::new)
    }

    async fn list_items(
        &self,
        request: Request<v1::ListItemsRequest>,
    ) -> Result<Response<v1::ListItemsResponse>, Status> {
        let request = self.admit(request, Call::ListItems)?;
        self.items(&request).map(Response::new)
    }

    async fn list_alerts(
        &self,
        request: Request<v1::ListAlertsRequest>,
    ) -> Result<Response<v1::ListAlertsResponse>, Status> {
        let request = self.admit(request, Call::ListAlerts)?;
        self.alerts(request).await.map(Response::new)
    }

    async fn list_networks(
        &self,
        request: Request<v1::ListNetworksRequest>,
    ) -> Result<Response<v1::ListNetworksResponse>, Status> {
        let request = self.admit(request, Call::ListNetworks)?;
        self.networks(&request).map(Response::new)
    }

    type WatchStream = Answers<v1::WatchEvent>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = self.admit(request, Call::Watch)?;
        self.watch_changes(&request).map(Response::new)
    }

    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let request = self.admit(request, Call::Apply)?;
        self.apply_document(request).await.map(Response::new)
    }

    async fn rollback(
        &self,
        request: Request<v1::RollbackRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let request = self.admit(request, Call::Rollback)?;
        self.go_back(&request).await.map(Response::new)
    }

    async fn get_desired(
        &self,
        request: Request<v1::GetDesiredRequest>,
    ) -> Result<Response<v1::GetDesiredResponse>, Status> {
        self.admit(request, Call::GetDesired)?;
        self.desired().await.map(Response::new)
    }

    type FollowUpdateStream = Answers<v1::UpdateProgress>;

    async fn follow_update(
        &self,
        request: Request<v1::FollowUpdateRequest>,
    ) -> Result<Response<Self::FollowUpdateStream>, Status> {
        let request = self.admit(request, Call::FollowUpdate)?;
        self.follow_progress(&request).map(Response::new)
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let request = self.admit(request, Call::Explain)?;
        self.explain_place(request).await.map(Response::new)
    }

    type ReadLogsStream = Answers<v1::LogChunk>;

    async fn read_logs(
        &self,
        request: Request<v1::ReadLogsRequest>,
    ) -> Result<Response<Self::ReadLogsStream>, Status> {
        let request = self.admit(request, Call::ReadLogs)?;
        self.logs(request).await.map(Response::new)
    }

    type FollowUsageStream = Answers<v1::UsageSnapshot>;

    async fn follow_usage(
        &self,
        request: Request<v1::FollowUsageRequest>,
    ) -> Result<Response<Self::FollowUsageStream>, Status> {
        self.admit(request, Call::FollowUsage)?;
        self.usage().map(Response::new)
    }

    type ReadEventsStream = Answers<v1::Event>;

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<Self::ReadEventsStream>, Status> {
        let request = self.admit(request, Call::ReadEvents)?;
        self.events(request).map(Response::new)
    }

    async fn set_node_paused(
        &self,
        request: Request<v1::SetNodePausedRequest>,
    ) -> Result<Response<v1::SetNodePausedResponse>, Status> {
        let request = self.admit(request, Call::SetNodePaused)?;
        self.pause(&request).await.map(Response::new)
    }

    async fn drain_node(
        &self,
        request: Request<v1::DrainNodeRequest>,
    ) -> Result<Response<v1::DrainNodeResponse>, Status> {
        let request = self.admit(request, Call::DrainNode)?;
        self.drain(&request).await.map(Response::new)
    }
}

/// What a request says is not what it may say.
fn invalid(problem: impl std::fmt::Display) -> Status {
    Status::invalid_argument(problem.to_string())
}

/// A point in time of a request.
fn time(
    field: &str,
    stamp: Option<prost_types::Timestamp>,
) -> Result<Option<muster_api::domain::Timestamp>, Status> {
    let read = stamp.map(muster_api::domain::Timestamp::try_from);
    read.transpose()
        .map_err(|problem| invalid(format!("{field}: {problem}")))
}
