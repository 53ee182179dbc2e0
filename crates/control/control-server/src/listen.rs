//! Where the service is reached: a socket for its owner, and, where wanted, a port for operators.

use std::fs;
use std::path::PathBuf;

use muster_rpc::BindSocketError;
use muster_rpc::server::{RunningServer, StartServerError};

/// Why the service is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeControlError {
    /// The socket cannot be listened on.
    #[error(transparent)]
    Bind(BindSocketError),
    /// The server cannot be started.
    #[error("cannot serve operators at {address}")]
    Start {
        /// Where.
        address: String,
        /// What is wrong.
        source: StartServerError,
    },
}

/// A served socket; its file goes with [`shutdown`](Self::shutdown). One that is left by a killed daemon is replaced.
#[derive(Debug)]
pub struct ControlSocket {
    server: RunningServer<PathBuf>,
}

impl ControlSocket {
    pub(crate) fn new(server: RunningServer<PathBuf>) -> Self {
        Self { server }
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.server.address()
    }

    /// Ends calls and removes the socket.
    pub async fn shutdown(self) {
        let path = self.path();
        // Nobody new finds it while calls end. One that is gone already is as good.
        let _ = fs::remove_file(path);
        self.server.shutdown().await;
    }
}
