//! Sockets of this machine that only their owner can open.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// A listener that does not even take a connection for so long is there all the same.
const LISTENER_ANSWERS: Duration = Duration::from_secs(1);

/// Why a socket is not listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindSocketError {
    /// Its folder cannot be made.
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
}

/// A socket that only its owner can open. Its folder is made if there is none, with this mode; what a killed daemon left behind
/// is replaced.
///
/// # Errors
/// The socket cannot be made, or another process serves it.
pub async fn bind_socket(path: &Path, folder_mode: u32) -> Result<UnixListener, BindSocketError> {
    let failed = |source| BindSocketError::Socket {
        path: path.to_owned(),
        source,
    };
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(folder_mode).create(folder);
        made.map_err(|source| BindSocketError::Folder {
            path: folder.to_owned(),
            source,
        })?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(BindSocketError::NoSocket {
                path: path.to_owned(),
            });
        }
        Ok(_) if is_served(path).await => {
            return Err(BindSocketError::InUse {
                path: path.to_owned(),
            });
        }
        Ok(_) => fs::remove_file(path).map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Whoever connects before this line must be refused by his user id all the same.
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
