//! Sockets to the log daemon and from services.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, sendmsg, socket_with, socketpair, sockopt,
};

use super::RealPlatform;
use crate::notify::MAX_MESSAGE;
use crate::platform::{Platform as _, Token};

/// Room for what waits to be read by the log daemon.
const FEED_ROOM: usize = 1 << 20;

type Kept = BTreeMap<String, OwnedFd>;
type Keep = Vec<(String, OwnedFd)>;

/// Core's and the log daemon's end of the feed.
pub(super) fn feed(kept: &mut Kept, keep: &mut Keep) -> io::Result<(OwnedFd, OwnedFd)> {
    if let (Some(own), Some(end)) = (kept.remove("feed"), kept.remove("feed-logd")) {
        return Ok((own, end));
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // More room is better; the usual room does.
    let _ = sockopt::set_socket_send_buffer_size(&own, FEED_ROOM);
    keep.push(("feed".to_owned(), own.try_clone()?));
    keep.push(("feed-logd".to_owned(), end.try_clone()?));
    Ok((own, end))
}

/// The socket that services notify.
pub(super) fn notify(kept: &mut Kept, keep: &mut Keep, path: &Path) -> io::Result<OwnedFd> {
    if let Some(fd) = kept.remove("notify") {
        return Ok(fd);
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // One that a former machine left behind.
    let _ = std::fs::remove_file(path);
    bind(&fd, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o666))?;
    sockopt::set_socket_passcred(&fd, true)?;
    let _ = sockopt::set_socket_recv_buffer_size(&fd, 8 << 20);
    keep.push(("notify".to_owned(), fd.try_clone()?));
    Ok(fd)
}

/// A stream to the log: reading end, writing end. The writing end blocks, as a program expects of its output.
pub(super) fn stream() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // From the first byte on, also of what is written before anybody reads: who wrote it.
    sockopt::set_socket_passcred(&read, true)?;
    rustix::net::shutdown(&write, rustix::net::Shutdown::Read)?;
    Ok((read, write))
}

/// The next notification, left in its socket.
pub(super) fn peek(notify: &OwnedFd, bytes: &mut Vec<u8>) -> Option<(u32, Vec<OwnedFd>)> {
    bytes.clear();
    bytes.resize(MAX_MESSAGE, 0);
    let received = muster_datagram::receive(notify.as_fd(), bytes, true).ok()?;
    bytes.truncate(received.length);
    let sender = received.sender.map_or(0, |sender| sender.pid);
    Some((u32::try_from(sender).unwrap_or(0), received.descriptors))
}

/// Takes it.
pub(super) fn take(notify: &OwnedFd) {
    // It was there a moment ago, and nobody else reads this socket.
    let _ = muster_datagram::receive(notify.as_fd(), &mut [], false);
}

impl RealPlatform {
    pub(super) fn send_feed(
        &mut self,
        message: &[u8],
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let rights = descriptor.map(|fd| [fd]);
        if let Some(rights) = &rights {
            control.push(SendAncillaryMessage::ScmRights(rights));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match sendmsg(&self.feed, &[IoSlice::new(message)], &mut control, flags) {
            Ok(_) => {
                if std::mem::take(&mut self.feed_is_full) {
                    let feed = self.feed.try_clone()?;
                    self.unwatch(feed.as_fd());
                }
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => {
                if !std::mem::replace(&mut self.feed_is_full, true) {
                    let feed = self.feed.try_clone()?;
                    self.watch(feed.as_fd(), Token::Feed, true)?;
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}
