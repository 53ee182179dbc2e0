//! Bytes and descriptors through a unix stream socket.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The most descriptors that one message may carry, whatever the limits say.
pub(crate) const MAX_FDS: usize = 64;

/// What one read gave.
pub(crate) struct Received {
    /// 0 at the end of the stream.
    pub(crate) bytes: usize,
    pub(crate) fds: Vec<OwnedFd>,
    /// More descriptors came than fit; the kernel closed them.
    pub(crate) fds_lost: bool,
}

pub(crate) fn receive(
    socket: impl AsFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<Received, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut slices = [IoSliceMut::new(buffer)];
        match recvmsg(
            &socket,
            &mut slices,
            &mut control,
            flags | RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok(Received {
        bytes: got.bytes,
        fds,
        fds_lost: got.flags.contains(ReturnFlags::CTRUNC),
    })
}

/// Sends what fits; the descriptors go with the first byte.
pub(crate) fn send(
    socket: impl AsFd,
    slices: &[IoSlice<'_>],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    loop {
        match sendmsg(&socket, slices, &mut control, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
