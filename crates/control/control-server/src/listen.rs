//! Where the service is reached: a socket for its owner, and, where wanted, a port for operators.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_rpc::server::{RunningServer, StartServerError};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// A listener that does not even take a connection for so long is there all the same.
const LISTENER_ANSWERS: Duration = Duration::from_secs(1);

/// Why the service is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeControlError {
    /// The folder of the socket cannot be made.
    #[error("cannot make the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else has that name.
    #[error("{} is there and is no socket; remove it, or set another path", path.display())]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// Another daemon answers there.
    #[error("another process serves {}", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot make the socket {}", path.display())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
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

/// A socket that only its owner can open. Its folder is made if there is none.
pub(crate) async fn bind(path: &Path) -> Result<UnixListener, ServeControlError> {
    let failed = |source| ServeControlError::Socket {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(folder);
        made.map_err(|source| ServeControlError::Folder {
            path: folder.to_owned(),
            source,
        })?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServeControlError::NoSocket {
                path: path.to_owned(),
            });
        }
        Ok(_) if is_served(path).await => {
            return Err(ServeControlError::InUse {
                path: path.to_owned(),
            });
        }
        Ok(_) => fs::remove_file(path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Whoever connects before this line is refused by his user id all the same.
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Nobody listens on what a killed daemon left behind, so connecting fails at once there.
async fn is_served(path: &Path) -> bool {
    !matches!(
        timeout(LISTENER_ANSWERS, UnixStream::connect(path)).await,
        Ok(Err(_))
    )
}
