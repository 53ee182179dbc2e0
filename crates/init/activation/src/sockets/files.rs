//! Sockets that have a place in the file system, and the other things that `Listen...=` opens there.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};

use muster_unit_file::config::SocketConfig;
use muster_unit_file::value::network::{Listen, ListenAddress, ListenKind};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use thiserror::Error;

use super::address::Endpoint;
use super::options::SetSocketOptionError;
use super::{Failure, OpenStep, Owner};
use crate::folders::make_parents;
use crate::sys::{self, QueueSize};

/// A file of a stopped socket that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot remove {path}")]
pub struct RemoveFileError {
    /// The file, link or message queue.
    pub path: Box<str>,
    /// Why.
    #[source]
    pub source: Errno,
}

/// Removes what a unit with `RemoveOnStop=` has in the file system. What is gone already is no error.
pub fn remove_files(config: &SocketConfig) -> Vec<RemoveFileError> {
    if !config.remove_on_stop {
        return Vec::new();
    }
    let files = config.listen.iter().filter_map(|listen| {
        let ListenAddress::Path(path) = &listen.address else {
            return None;
        };
        let result = match listen.kind {
            ListenKind::MessageQueue => c_string(path).and_then(|name| sys::remove_queue(&name)),
            ListenKind::Special | ListenKind::UsbFunction => Ok(()),
            _ => rustix::fs::unlink(&**path),
        };
        Some((&**path, result))
    });
    let links = config.symlinks.0.iter().map(|link| {
        let is_link = file_type(link) == Some(FileType::Symlink);
        let result = if is_link {
            rustix::fs::unlink(link)
        } else {
            Ok(())
        };
        (link, result)
    });
    let failed = |(path, result): (&str, Result<(), Errno>)| match result {
        Ok(()) | Err(Errno::NOENT) => None,
        Err(source) => Some(RemoveFileError {
            path: path.into(),
            source,
        }),
    };
    files.chain(links).filter_map(failed).collect()
}

pub(super) fn bind_unix(
    path: &str,
    endpoint: &Endpoint,
    fd: BorrowedFd<'_>,
    config: &SocketConfig,
) -> Result<(), Failure> {
    let mode = Mode::from_raw_mode(config.socket_mode.0.into());
    make_parents(path, config.directory_mode.0).map_err(|e| (OpenStep::MakeFolders, e))?;
    // The file is made with the mode of the socket, less what the process's mask takes away: it is never more open than
    // asked for, not even for a moment.
    rustix::fs::fchmod(fd, mode).map_err(|e| (OpenStep::SetMode, e))?;
    match rustix::net::bind(fd, &endpoint.address) {
        // A file that nobody removed when its socket was closed. Whoever still has that socket loses new callers to us.
        Err(Errno::ADDRINUSE) if rustix::fs::unlink(path).is_ok() => {
            rustix::net::bind(fd, &endpoint.address)
        }
        result => result,
    }
    .map_err(|e| (OpenStep::Bind, e))?;
    rustix::fs::chmod(path, mode).map_err(|e| (OpenStep::SetMode, e))
}

pub(super) fn open_fifo(path: &str, config: &SocketConfig) -> Result<OwnedFd, Failure> {
    let mode = Mode::from_raw_mode(config.socket_mode.0.into());
    make_parents(path, config.directory_mode.0).map_err(|e| (OpenStep::MakeFolders, e))?;
    let made = match rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err((OpenStep::Open, error)),
    };
    let flags = OFlags::RDWR | OPEN_FLAGS;
    let fd =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| (OpenStep::Open, error))?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| (OpenStep::Open, error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Fifo {
        return Err((OpenStep::Open, Errno::EXIST));
    }
    if made || mode_of(&stat) != mode {
        rustix::fs::fchmod(&fd, mode).map_err(|error| (OpenStep::SetMode, error))?;
    }
    Ok(fd)
}

pub(super) fn open_special(path: &str, config: &SocketConfig) -> Result<OwnedFd, Failure> {
    let access = if config.writable {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    let opened = rustix::fs::open(path, access | OPEN_FLAGS, Mode::empty());
    let fd = opened.map_err(|error| (OpenStep::Open, error))?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| (OpenStep::Open, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::CharacterDevice => Ok(fd),
        _ => Err((OpenStep::Open, Errno::EXIST)),
    }
}

pub(super) fn open_queue(name: &str, config: &SocketConfig) -> Result<OwnedFd, Failure> {
    let mode = Mode::from_raw_mode(config.socket_mode.0.into());
    let size = QueueSize {
        messages: config.options.message_queue_max_messages,
        message_size: config.options.message_queue_message_size,
    };
    let size = (size.messages > 0 && size.message_size > 0).then_some(size);
    let name = c_string(name).map_err(|error| (OpenStep::Open, error))?;
    let fd = sys::open_queue(&name, Some((mode.as_raw_mode(), size)))
        .map_err(|error| (OpenStep::Open, error))?;
    let stat = rustix::fs::fstat(&fd).map_err(|error| (OpenStep::Open, error))?;
    if mode_of(&stat) != mode {
        rustix::fs::fchmod(&fd, mode).map_err(|error| (OpenStep::SetMode, error))?;
    }
    Ok(fd)
}

/// Symbolic links are not followed: whoever may write to the folder must not choose what is opened.
const OPEN_FLAGS: OFlags = OFlags::CLOEXEC
    .union(OFlags::NOCTTY)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOFOLLOW);

/// Gives the file of a socket or pipe to its owner.
pub(super) fn set_owner(listen: &Listen, owner: Owner, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let (uid, gid) = (owner.uid.map(Uid::from_raw), owner.gid.map(Gid::from_raw));
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    match (listen.kind, &listen.address) {
        (ListenKind::Fifo | ListenKind::MessageQueue, _) => rustix::fs::fchown(fd, uid, gid),
        (
            ListenKind::Stream | ListenKind::Datagram | ListenKind::SequentialPacket,
            ListenAddress::Path(path),
        ) => rustix::fs::chownat(CWD, &**path, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        _ => Ok(()),
    }
}

/// Makes the links of `Symlinks=`. They need one file that they can point to.
pub(super) fn make_links(config: &SocketConfig, warnings: &mut Vec<SetSocketOptionError>) {
    let Some(target) = link_target(config) else {
        return;
    };
    for link in config.symlinks.0.iter() {
        if let Err(source) = make_link(target, link, config.directory_mode.0) {
            warnings.push(SetSocketOptionError {
                option: "Symlinks",
                address: link.into(),
                source,
            });
        }
    }
}

fn link_target(config: &SocketConfig) -> Option<&str> {
    let mut places =
        config
            .listen
            .iter()
            .filter_map(|listen| match (listen.kind, &listen.address) {
                (
                    ListenKind::Stream
                    | ListenKind::Datagram
                    | ListenKind::SequentialPacket
                    | ListenKind::Fifo,
                    ListenAddress::Path(path),
                ) => Some(&**path),
                _ => None,
            });
    let first = places.next()?;
    places.next().is_none().then_some(first)
}

fn make_link(target: &str, link: &str, directory_mode: u16) -> Result<(), Errno> {
    make_parents(link, directory_mode)?;
    match rustix::fs::symlink(target, link) {
        Err(Errno::EXIST) if file_type(link) == Some(FileType::Symlink) => {
            let points_there = rustix::fs::readlink(link, Vec::new())
                .is_ok_and(|found| found.as_bytes() == target.as_bytes());
            if points_there {
                return Ok(());
            }
            rustix::fs::unlink(link)?;
            rustix::fs::symlink(target, link)
        }
        result => result,
    }
}

/// Whether a descriptor is the file that is now at this path.
pub(super) fn is_same_file(path: &str, fd: BorrowedFd<'_>) -> bool {
    let (Ok(there), Ok(here)) = (rustix::fs::lstat(path), rustix::fs::fstat(fd)) else {
        return false;
    };
    is_same(&there, &here)
}

/// Whether a descriptor is the message queue of this name.
pub(super) fn is_same_queue(name: &str, fd: BorrowedFd<'_>) -> bool {
    let Ok(there) = c_string(name).and_then(|name| sys::open_queue(&name, None)) else {
        return false;
    };
    let (Ok(there), Ok(here)) = (rustix::fs::fstat(there), rustix::fs::fstat(fd)) else {
        return false;
    };
    is_same(&there, &here)
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino, one.st_rdev) == (other.st_dev, other.st_ino, other.st_rdev)
}

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode)
}

fn file_type(path: &str) -> Option<FileType> {
    let stat = rustix::fs::lstat(path).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode))
}

fn c_string(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::INVAL)
}
