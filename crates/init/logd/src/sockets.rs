//! The descriptors that the daemon is started with, or opens by itself.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use muster_control::feed::FEED_NAME;
use thiserror::Error;

use crate::sys;

/// The first descriptor that is passed by the protocol of `LISTEN_FDS`.
const FIRST: i32 = 3;

/// Why a descriptor is not there.
#[derive(Debug, Error)]
pub enum OpenSocketError {
    /// One that was announced is not open.
    #[error("descriptor {number} ({name}) was announced and is not there")]
    Missing {
        /// Its number.
        number: i32,
        /// Its name.
        name: Box<str>,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// A name that the daemon does not know.
    #[error(
        "descriptor {number} has the unknown name {name:?} (known: feed, syslog, native, stdout, varlink)"
    )]
    UnknownName {
        /// Its number.
        number: i32,
        /// Its name.
        name: Box<str>,
    },
    /// Two descriptors where only one can be used.
    #[error("there are two descriptors named {name:?}")]
    Twice {
        /// The name.
        name: Box<str>,
    },
    /// A socket of the daemon's own.
    #[error("cannot {operation} the socket {}", path.display())]
    Own {
        /// What was to be done.
        operation: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
}

/// All that the daemon listens to.
#[derive(Debug, Default)]
pub struct Sockets {
    /// The manager's feed.
    pub feed: Option<OwnedFd>,
    /// Syslog datagrams.
    pub syslog: Option<OwnedFd>,
    /// Datagrams of `sd_journal_send(3)`.
    pub native: Option<OwnedFd>,
    /// Connections of `sd_journal_stream_fd(3)`.
    pub stdout: Option<OwnedFd>,
    /// Connections of clients that control the daemon.
    pub varlink: Vec<OwnedFd>,
}

impl Sockets {
    /// Takes over what the process was started with.
    ///
    /// # Errors
    /// If what was announced is not there or not known.
    pub fn inherited() -> Result<Self, OpenSocketError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let mut sockets = Self::default();
        if variable("LISTEN_PID") != std::process::id().to_string() {
            return Ok(sockets);
        }
        let count = variable("LISTEN_FDS").parse::<i32>().unwrap_or(0);
        let names = variable("LISTEN_FDNAMES");
        let mut names = names.split(':');
        for number in FIRST..FIRST.saturating_add(count) {
            let name: Box<str> = names.next().unwrap_or("unknown").into();
            let descriptor = sys::inherited(number).map_err(|source| OpenSocketError::Missing {
                number,
                name: name.clone(),
                source,
            })?;
            sockets.put(number, name, descriptor)?;
        }
        Ok(sockets)
    }

    fn put(
        &mut self,
        number: i32,
        name: Box<str>,
        descriptor: OwnedFd,
    ) -> Result<(), OpenSocketError> {
        let place = match &*name {
            FEED_NAME => &mut self.feed,
            "syslog" => &mut self.syslog,
            "native" => &mut self.native,
            "stdout" => &mut self.stdout,
            "varlink" => {
                self.varlink.push(descriptor);
                return Ok(());
            }
            _ => return Err(OpenSocketError::UnknownName { number, name }),
        };
        if place.is_some() {
            return Err(OpenSocketError::Twice { name });
        }
        *place = Some(descriptor);
        Ok(())
    }
}

/// Opens a datagram socket that everybody may write to.
///
/// # Errors
/// If it cannot be made there.
pub fn open_datagram(path: &Path) -> Result<OwnedFd, OpenSocketError> {
    make_way(path)?;
    let socket = UnixDatagram::bind(path).map_err(failed("make", path))?;
    allow(path, 0o666)?;
    Ok(socket.into())
}

/// Opens a listening socket for those that `mode` lets in.
///
/// # Errors
/// If it cannot be made there.
pub fn open_listener(path: &Path, mode: u32) -> Result<OwnedFd, OpenSocketError> {
    make_way(path)?;
    let socket = UnixListener::bind(path).map_err(failed("make", path))?;
    socket
        .set_nonblocking(true)
        .map_err(failed("set up", path))?;
    allow(path, mode)?;
    Ok(socket.into())
}

/// Removes a socket that an earlier process has left, and nothing else.
fn make_way(path: &Path) -> Result<(), OpenSocketError> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket {
        std::fs::remove_file(path).map_err(failed("replace", path))?;
    }
    Ok(())
}

fn allow(path: &Path, mode: u32) -> Result<(), OpenSocketError> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .map_err(failed("set the mode of", path))
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenSocketError {
    move |source| OpenSocketError::Own {
        operation,
        path: path.to_owned(),
        source,
    }
}
