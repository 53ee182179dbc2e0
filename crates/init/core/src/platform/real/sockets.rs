//! Sockets that are made where a unit's processes are.
//!
//! The kernel judges what goes through a socket, and what it is bound to, by the group of whoever made it, as long as it lives; and
//! a socket is in the network that its maker was in. So those of units with filters, or with a network of their own, are opened by
//! a copy of this process that has gone there. It hands the descriptors over and ends.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use muster_activation::sockets::Owner;
use muster_cgroup::CgroupPath;
use muster_exec::{Network, enter_network, in_a_copy};
use muster_unit_file::config::SocketConfig;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid,
};

use super::{RealPlatform, cgroups};
use crate::platform::{NotOpened, Opened, SocketPlace, open_here};

/// How long opening may take before it is given up: less than the manager itself is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// More than any message about a socket.
const MAX_TEXT: usize = 8 << 10;
const SOCKET: u8 = b's';
const WARNING: u8 = b'w';
const FAILURE: u8 = b'f';
const DONE: u8 = b'd';

impl RealPlatform {
    pub(super) fn open_elsewhere(
        &self,
        place: SocketPlace<'_>,
        config: &SocketConfig,
        owner: Owner,
        kept: Vec<OwnedFd>,
    ) -> Result<Opened, NotOpened> {
        let path = place.cgroup.map(cgroups::path).transpose();
        let path = path.map_err(|error| refused("open its sockets in its group", &error))?;
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| refused("be told of its sockets", &error.into()))?;
        let copy = in_a_copy(|| {
            let opened = self
                .move_to(path.as_ref(), place.network)
                .and_then(|()| open_here(config, owner, kept));
            tell(theirs.as_fd(), &opened).is_ok()
        });
        let copy = copy.map_err(|error| refused("make a process for its sockets", &error))?;
        drop(theirs);
        let heard = hear(ours.as_fd(), PATIENCE);
        end(copy);
        heard.unwrap_or_else(|error| Err(refused("open its sockets", &error)))
    }

    /// Moves this process to where sockets are to be. The network comes last: what it is kept in may be known here only.
    fn move_to(
        &self,
        group: Option<&CgroupPath>,
        network: Option<Network<'_>>,
    ) -> Result<(), NotOpened> {
        if let Some(path) = group {
            let moved = self.tree.attach(path, getpid());
            moved.map_err(|error| {
                let error = io::Error::other(error);
                refused("open its sockets in its group", &error)
            })?;
        }
        let Some(network) = network else {
            return Ok(());
        };
        enter_network(network).map_err(|error| {
            let what = format!("open its sockets in its network ({error})");
            refused(&what, &error.source)
        })
    }
}

fn refused(what: &str, error: &io::Error) -> NotOpened {
    NotOpened {
        index: 0,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        message: format!("Cannot {what}: {error}"),
    }
}

/// Ends the copy, which has nothing more to say, and takes its status.
fn end(child: Pid) {
    let killed = pidfd_open(child, PidfdFlags::empty())
        .and_then(|pidfd| pidfd_send_signal(&pidfd, Signal::KILL));
    // It is this process's own child, so it is there until it is waited for; where there are no pidfds, it ends by itself.
    let _ = killed;
    let wait = || waitid(WaitId::Pid(child), WaitIdOptions::EXITED);
    while matches!(wait(), Err(Errno::INTR)) {}
}

fn tell(to: BorrowedFd<'_>, opened: &Result<Opened, NotOpened>) -> io::Result<()> {
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => {
            let mut bytes = error.index.to_ne_bytes().to_vec();
            bytes.extend(error.errno.to_ne_bytes());
            bytes.extend(error.message.bytes());
            return send(to, FAILURE, &bytes, None);
        }
    };
    for socket in &opened.sockets {
        send(to, SOCKET, &[], Some(socket.as_fd()))?;
    }
    for warning in &opened.warnings {
        send(to, WARNING, warning.as_bytes(), None)?;
    }
    send(to, DONE, &[], None)
}

fn send(
    to: BorrowedFd<'_>,
    kind: u8,
    bytes: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let kind = [kind];
    let bytes = bytes.get(..MAX_TEXT).unwrap_or(bytes);
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let parts = [IoSlice::new(&kind), IoSlice::new(bytes)];
    sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What the copy has to say. An error is that it never came to say it.
fn hear(from: BorrowedFd<'_>, patience: Duration) -> io::Result<Result<Opened, NotOpened>> {
    let begun = Instant::now();
    let mut opened = Opened::default();
    let mut buffer = vec![0; 1 + MAX_TEXT];
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::TimedOut)?;
        let mut watched = [PollFd::new(&from, PollFlags::IN)];
        match poll(&mut watched, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let received = muster_datagram::receive(from, &mut buffer, false)?;
        let said = buffer.get(..received.length).unwrap_or(&buffer);
        let Some((kind, rest)) = said.split_first() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        match *kind {
            SOCKET => opened.sockets.extend(received.descriptors),
            WARNING => opened
                .warnings
                .push(String::from_utf8_lossy(rest).into_owned()),
            FAILURE => return failure(rest).map(Err),
            DONE => return Ok(Ok(opened)),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn failure(bytes: &[u8]) -> io::Result<NotOpened> {
    let read = || {
        let (index, rest) = bytes.split_first_chunk()?;
        let (errno, text) = rest.split_first_chunk()?;
        Some(NotOpened {
            index: u16::from_ne_bytes(*index),
            errno: i32::from_ne_bytes(*errno),
            message: String::from_utf8_lossy(text).into_owned(),
        })
    };
    read().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    fn said(opened: &Result<Opened, NotOpened>) -> Result<Opened, NotOpened> {
        let (ours, theirs) = pair();
        tell(theirs.as_fd(), opened).unwrap();
        hear(ours.as_fd(), PATIENCE).unwrap()
    }

    #[test]
    fn what_was_opened_arrives_in_its_order() {
        let (first, second) = pair();
        let inode = |fd: &OwnedFd| rustix::fs::fstat(fd).unwrap().st_ino;
        let expected = [inode(&first), inode(&second)];
        let opened = said(&Ok(Opened {
            sockets: vec![first, second],
            warnings: vec!["one".to_owned(), String::new()],
        }));
        let opened = opened.unwrap();
        let found: Vec<u64> = opened.sockets.iter().map(inode).collect();
        assert_eq!(found, expected);
        assert_eq!(opened.warnings, ["one", ""]);
        let error = NotOpened {
            index: 3,
            errno: libc::EADDRINUSE,
            message: "m".repeat(2 * MAX_TEXT),
        };
        let found = said(&Err(error)).unwrap_err();
        assert_eq!((found.index, found.errno), (3, libc::EADDRINUSE));
        assert!(found.message.starts_with("mmm"));
    }

    #[test]
    fn whoever_says_nothing_is_not_waited_for() {
        let (ours, theirs) = pair();
        let silent = hear(ours.as_fd(), Duration::ZERO).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
        let gone = hear(ours.as_fd(), PATIENCE).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
    }
}
