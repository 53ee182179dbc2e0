//! Datagrams with everything that the kernel says beside them: who sent them, when, and descriptors.
//!
//! [`receive`] is `recvmsg` without waiting, also only to look. rustix's credentials cannot express a sender without a pid, and
//! the kernel gives 0 for one from another pid namespace; so this asks the C library.
//!
//! # Invariants
//! - What the sender wrote into the message cannot be mistaken for what the kernel says.
//! - Every descriptor that came along is closed on execution, and closed at once if nobody takes it.

#![expect(
    unsafe_code,
    reason = "a system call that no safe library offers in this form"
)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The most descriptors that one message may bring: the kernel's own limit.
const DESCRIPTORS_MAX: usize = 253;
/// Room for them, for credentials and for a time stamp, in words so that it is aligned.
const CONTROL_WORDS: usize = 160;

/// Who sent a message, by the kernel's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The process; 0 if it is in a pid namespace that cannot be seen from here.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// A message that was received or looked at.
#[derive(Debug)]
pub struct Received {
    /// How many bytes; more than the buffer holds if the message was cut.
    pub length: usize,
    /// The message did not fit.
    pub truncated: bool,
    /// Who sent it.
    pub sender: Option<Sender>,
    /// When it was sent, in microseconds since 1970.
    pub sent_us: Option<u64>,
    /// What came along.
    pub descriptors: Vec<OwnedFd>,
}

/// `recvmsg` without waiting; `peek` leaves the message in the queue.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], peek: bool) -> io::Result<Received> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid msghdr: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
    let mut flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | libc::MSG_TRUNC;
    if peek {
        flags |= libc::MSG_PEEK;
    }
    // SAFETY: the header points to one buffer and one control area that live through the call, with
    // their true lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut received = Received {
        length,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
        sender: None,
        sent_us: None,
        descriptors: Vec::new(),
    };
    take_control(&header, &mut received);
    Ok(received)
}

/// Reads what the kernel put beside the message.
fn take_control(header: &libc::msghdr, received: &mut Received) {
    // SAFETY: the kernel has set msg_controllen to what it wrote into the control area.
    let mut item = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !item.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give aligned pointers to whole headers in the area.
        let (level, kind, length) = unsafe {
            let item = &*item;
            (item.cmsg_level, item.cmsg_type, item.cmsg_len as usize)
        };
        // SAFETY: CMSG_LEN only computes.
        let payload = length.saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
        // SAFETY: the data follows the header, within the area.
        let data = unsafe { libc::CMSG_DATA(item) };
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if payload >= size_of::<libc::ucred>() => {
                // SAFETY: the kernel wrote a ucred of this size here; it may be unaligned.
                let ucred = unsafe { data.cast::<libc::ucred>().read_unaligned() };
                received.sender = Some(Sender {
                    pid: ucred.pid,
                    uid: ucred.uid,
                    gid: ucred.gid,
                });
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMP) if payload >= size_of::<libc::timeval>() => {
                // SAFETY: the kernel wrote a timeval of this size here; it may be unaligned.
                let time = unsafe { data.cast::<libc::timeval>().read_unaligned() };
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                let micros = u64::try_from(time.tv_usec).unwrap_or(0);
                received.sent_us = Some(seconds.saturating_mul(1_000_000).saturating_add(micros));
            }
            (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                for index in 0..payload / size_of::<libc::c_int>() {
                    // SAFETY: the kernel wrote that many descriptor numbers here.
                    let number = unsafe { data.cast::<libc::c_int>().add(index).read_unaligned() };
                    // SAFETY: the descriptor was made by this recvmsg and belongs to nobody else.
                    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
                    if received.descriptors.len() < DESCRIPTORS_MAX {
                        received.descriptors.push(descriptor);
                    }
                }
            }
            _ => {}
        }
        // SAFETY: as for CMSG_FIRSTHDR; null ends the list.
        item = unsafe { libc::CMSG_NXTHDR(header, item) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn looking_leaves_the_message_and_names_its_sender() {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        rustix::net::sockopt::set_socket_passcred(&receiver, true).unwrap();
        sender.send(b"hello").unwrap();
        let mut buffer = [0; 3];
        for peek in [true, true, false] {
            let received = receive(receiver.as_fd(), &mut buffer, peek).unwrap();
            assert_eq!((received.length, received.truncated), (5, true));
            let who = received.sender.unwrap();
            assert_eq!(who.pid, i32::try_from(std::process::id()).unwrap());
            assert_eq!(&buffer, b"hel");
        }
        let nothing = receive(receiver.as_fd(), &mut buffer, true).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }
}
