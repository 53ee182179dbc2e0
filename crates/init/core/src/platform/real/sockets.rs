//! Sockets that a unit's filters are to hold for.
//!
//! The kernel judges what goes through a socket, and what it is bound to, by the group of whoever made it, as long as it lives. So
//! those of units with filters are opened by a copy of this process that is in the unit's group. It hands the descriptors over
//! and ends.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use muster_activation::sockets::Owner;
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
use crate::platform::{NotOpened, Opened, open_here};

/// How long opening may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than any message about a socket.
const MAX_TEXT: usize = 8 << 10;
const SOCKET: u8 = b's';
const WARNING: u8 = b'w';
const FAILURE: u8 = b'f';
const DONE: u8 = b'd';

impl RealPlatform {
    pub(super) fn open_in_group(
        &self,
        group: &str,
        config: &SocketConfig,
        owner: Owner,
        kept: Vec<OwnedFd>,
    ) -> Result<Opened, NotOpened> {
        let failed = |what: &str, error: io::Error| NotOpened {
            index: 0,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            message: format!("Cannot {what} its sockets in its group: {error}"),
        };
        let path = cgroups::path(group).map_err(|error| failed("open", error))?;
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|error| failed("be told of", error.into()))?;
        let Some(child) = fork().map_err(|error| failed("make a process for", error))? else {
            drop(ours);
            let work = || {
                let moved = self.tree.attach(&path, getpid());
                let opened = match moved {
                    Ok(()) => open_here(config, owner, kept),
                    Err(error) => Err(failed("open", io::Error::other(error))),
                };
                tell(theirs.as_fd(), &opened)
            };
            // Nobody above must go on with a copy of the manager.
            let done = catch_unwind(AssertUnwindSafe(work));
            leave(matches!(done, Ok(Ok(()))));
        };
        drop(theirs);
        let heard = hear(ours.as_fd(), PATIENCE);
        end(child);
        heard.unwrap_or_else(|error| Err(failed("open", error)))
    }
}

/// Makes a copy of this process; `None` in the copy.
#[expect(unsafe_code, reason = "no safe function copies a process")]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this program has one thread, so nobody holds a lock or is in the middle of something in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends the copy without any of what the manager does at its end.
#[expect(unsafe_code, reason = "no safe function ends a process at once")]
fn leave(is_done: bool) -> ! {
    // SAFETY: nothing of this process is used any more.
    unsafe { libc::_exit(i32::from(!is_done)) }
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
