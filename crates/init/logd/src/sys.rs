//! The system calls that rustix does not offer in the form needed here.
//!
//! It has neither `SO_PEEK_OFF` nor time stamps nor signal descriptors.

#![expect(unsafe_code, reason = "system calls that no safe library offers")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use muster_datagram::{Received, Sender, receive};

/// The size of an option that is a number.
const INT_SIZE: libc::socklen_t = 4;
const _: () = assert!(size_of::<libc::c_int>() == 4);

/// The socket's peek offset: what the kernel lowers by each byte that is read, without going below 0.
pub fn peek_offset(socket: BorrowedFd<'_>) -> io::Result<i32> {
    let mut value: libc::c_int = 0;
    let mut length = INT_SIZE;
    // SAFETY: value and length live through the call, and length is value's size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    check(result).map(|()| value)
}

/// Sets the socket's peek offset; -1 turns it off.
pub fn set_peek_offset(socket: BorrowedFd<'_>, offset: i32) -> io::Result<()> {
    set_option(socket, libc::SO_PEEK_OFF, offset)
}

/// Asks for the sender's credentials and the time with every message.
pub fn want_sender_and_time(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_PASSCRED, 1)?;
    set_option(socket, libc::SO_TIMESTAMP, 1)
}

/// Asks for the sender's credentials with every message.
pub fn want_sender(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_PASSCRED, 1)
}

fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the value lives through the call and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            INT_SIZE,
        )
    };
    check(result)
}

/// Blocks the signals and gives a descriptor that reports them.
pub fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set; the other calls take a pointer to an initialised set.
    let number = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        if blocked != 0 {
            return Err(io::Error::from_raw_os_error(blocked));
        }
        libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    check(number)?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The next signal that a descriptor of [`signal_descriptor`] reports.
pub fn next_signal(descriptor: BorrowedFd<'_>) -> io::Result<i32> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(descriptor, &mut bytes)?;
    if read != bytes.len() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    // SAFETY: both are of the same size and do not overlap; every bit pattern is a valid siginfo.
    let info = unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), info.as_mut_ptr().cast(), bytes.len());
        info.assume_init()
    };
    Ok(i32::try_from(info.ssi_signo).unwrap_or(0))
}

/// Takes a descriptor over that the process was started with.
///
/// # Errors
/// If there is no such descriptor.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: F_SETFD takes an integer and no pointer; on a number that is not open it only fails.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and by the protocol of LISTEN_FDS it is this process's to close.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair")
    }

    #[test]
    fn a_message_comes_with_its_sender_and_time() {
        let (writer, reader) = pair(SocketType::DGRAM);
        want_sender_and_time(reader.as_fd()).expect("set");
        rustix::io::write(&writer, b"hello").expect("sent");
        let mut buffer = [0u8; 3];
        let received = receive(reader.as_fd(), &mut buffer, true).expect("a message");
        assert_eq!((received.length, received.truncated), (5, true));
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert_eq!(received.sender.map(|sender| sender.pid), Some(own));
        assert!(
            received
                .sent_us
                .is_some_and(|time| time > 1_600_000_000_000_000)
        );
        assert_eq!(
            receive(reader.as_fd(), &mut [0; 5], false)
                .expect("still there")
                .length,
            5
        );
        let error = receive(reader.as_fd(), &mut buffer, false).expect_err("empty");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    /// What logd's exactly-once rests on: the kernel counts what is read, in the socket.
    #[test]
    fn the_kernel_lowers_the_peek_offset_by_what_is_read() {
        let (writer, reader) = pair(SocketType::STREAM);
        set_peek_offset(reader.as_fd(), 1000).expect("set");
        rustix::io::write(&writer, b"0123456789").expect("sent");
        receive(reader.as_fd(), &mut [0; 4], false).expect("read");
        assert_eq!(peek_offset(reader.as_fd()).expect("an offset"), 996);
        let (writer, reader) = pair(SocketType::DGRAM);
        rustix::io::write(&writer, b"0123456789").expect("sent");
        set_peek_offset(reader.as_fd(), 1).expect("set");
        receive(reader.as_fd(), &mut [], false).expect("dropped");
        assert_eq!(peek_offset(reader.as_fd()).expect("an offset"), 0);
    }
}
