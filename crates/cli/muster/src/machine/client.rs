//! The way to a node manager.

use std::io;
use std::path::{Path, PathBuf};

use muster_machine_api::v1::machine_service_client::MachineServiceClient;
use muster_machine_api::v1::run_service_client::RunServiceClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::call::{CallError, Peer};
use crate::console::Exit;

/// Lists of many machines are long.
const LARGEST_ANSWER: usize = 256 << 20;

/// Why there is no way to the manager.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectManagerError {
    #[error(
        "no node manager answers at {}; is muster-nodemgr running? Without --no-start and --manager one is started for you",
        path.display()
    )]
    Nobody { path: PathBuf, source: io::Error },
    #[error(
        "you may not use {}; run this as its owner, or name another manager with --manager", .0.display()
    )]
    NotAllowed(PathBuf),
    #[error("the socket {} has a name that cannot be used", .0.display())]
    SocketName(PathBuf, #[source] tonic::transport::Error),
}

impl ConnectManagerError {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Nobody { .. } => Exit::Unreachable,
            Self::NotAllowed(_) => Exit::Refused,
            Self::SocketName(..) => Exit::Usage,
        }
    }
}

/// Calls to one node manager.
#[derive(Debug, Clone)]
pub(crate) struct Manager {
    machines: MachineServiceClient<Channel>,
    runs: RunServiceClient<Channel>,
}

impl Manager {
    /// Connects at once, so that a manager that is not there is told from one that fails.
    pub(crate) async fn connect(path: &Path) -> Result<Self, ConnectManagerError> {
        match UnixStream::connect(path).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(ConnectManagerError::NotAllowed(path.to_owned()));
            }
            Err(source) => {
                return Err(ConnectManagerError::Nobody {
                    path: path.to_owned(),
                    source,
                });
            }
        }
        let endpoint = Endpoint::from_shared(format!("unix:{}", path.display()))
            .map_err(|source| ConnectManagerError::SocketName(path.to_owned(), source))?;
        let channel = endpoint.connect_lazy();
        Ok(Self {
            machines: MachineServiceClient::new(channel.clone())
                .max_decoding_message_size(LARGEST_ANSWER),
            runs: RunServiceClient::new(channel).max_decoding_message_size(LARGEST_ANSWER),
        })
    }

    /// Makes one call about machines.
    pub(crate) async fn ask<T>(
        &self,
        call: &'static str,
        make: impl AsyncFnOnce(MachineServiceClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        let answer = make(self.machines.clone()).await;
        let answer = answer.map_err(|status| Peer::NodeManager.failed(call, status))?;
        Ok(answer.into_inner())
    }

    /// Makes one call about runs.
    pub(crate) async fn ask_runs<T>(
        &self,
        call: &'static str,
        make: impl AsyncFnOnce(RunServiceClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, CallError> {
        let answer = make(self.runs.clone()).await;
        let answer = answer.map_err(|status| Peer::NodeManager.failed(call, status))?;
        Ok(answer.into_inner())
    }
}
