//! The socket for root on this node: it is there before there are certificates.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_rpc::server::{RunningServer, ServerConfig, StartServerError};
use tokio::net::UnixListener;

use crate::caller::Door;
use crate::services::Services;

/// Why the local socket is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocalSocketError {
    /// The socket cannot be made.
    #[error("cannot make the local socket {}", path.display())]
    Make {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The server cannot be started.
    #[error("cannot serve the local socket {}", path.display())]
    Start {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        source: StartServerError,
    },
}

/// A served socket; its file goes with it.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    server: RunningServer<PathBuf>,
}

impl LocalSocket {
    /// Serves `path`. What is left there of a daemon that was killed is replaced: the caller holds the
    /// daemon's database, so no other daemon uses it.
    ///
    /// # Errors
    /// The socket cannot be made or served.
    pub(crate) async fn start(
        path: PathBuf,
        services: &Services,
    ) -> Result<Self, LocalSocketError> {
        let listener = make(&path).map_err(|source| LocalSocketError::Make {
            path: path.clone(),
            source,
        })?;
        let server = services.server(Door::Local, ServerConfig::default());
        let server = server.start_unix(listener, path.clone()).await;
        let server = server.map_err(|source| LocalSocketError::Start { path, source })?;
        Ok(Self { server })
    }

    /// Lets calls end and removes the socket.
    pub(crate) async fn shutdown(self) {
        let path = self.server.address();
        self.server.shutdown().await;
        // One that is gone already is as good.
        let _ = fs::remove_file(path);
    }
}

fn make(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // Whoever connects before this line is refused by his user id all the same.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}
