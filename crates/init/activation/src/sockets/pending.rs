//! What waits at a listening descriptor.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

/// How much is thrown away at one descriptor before its senders are taken to be faster than us.
const FLUSHED_AT_MOST: usize = 1024;

/// The first descriptor at which something waits, without waiting for it.
///
/// # Errors
/// The kernel cannot be asked.
pub fn incoming<Fd: AsFd>(sockets: &[Fd]) -> Result<Option<usize>, Errno> {
    let mut asked: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    retry(|| poll(&mut asked, Some(&Timespec::default())))?;
    let waits = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
    Ok(asked
        .iter()
        .position(|answer| answer.revents().intersects(waits)))
}

/// Throws away connections, datagrams and bytes that wait at the descriptors, at most about a thousand at each.
pub fn flush<Fd: AsFd>(sockets: &[Fd]) {
    for socket in sockets {
        flush_one(socket.as_fd());
    }
}

fn flush_one(socket: BorrowedFd<'_>) {
    let listens = sockopt::socket_acceptconn(socket).unwrap_or(false);
    for _ in 0..FLUSHED_AT_MOST {
        // A regular file behind ListenSpecial= has always something to read and is not emptied by it.
        if !matches!(incoming(&[socket]), Ok(Some(_))) {
            return;
        }
        let result = if listens {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            retry(|| rustix::net::accept_with(socket, flags)).map(|_closed| 1)
        } else {
            let mut rest = [MaybeUninit::<u8>::uninit(); 2048];
            retry(|| rustix::io::read(socket, &mut rest).map(|(read, _)| read.len()))
        };
        match result {
            Ok(1..) | Err(Errno::CONNABORTED | Errno::MSGSIZE) => {}
            Ok(0) if is_datagram(socket) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// An empty datagram is one, an empty read of anything else is its end.
fn is_datagram(socket: BorrowedFd<'_>) -> bool {
    let kind = sockopt::socket_type(socket);
    kind.is_ok_and(|kind| kind == rustix::net::SocketType::DGRAM)
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}
