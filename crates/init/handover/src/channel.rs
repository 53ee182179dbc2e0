//! One datagram with descriptors, sent or received.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::bytes::Payload;
use crate::{MAX_DESCRIPTORS, MAX_MESSAGE};

/// A control message with as many descriptors as a message may have.
const CONTROL_SIZE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// Room for one message that is received, so that receiving allocates nothing.
pub struct Inbox {
    bytes: [u8; MAX_MESSAGE],
    length: usize,
    truncated: bool,
    descriptors: [Option<OwnedFd>; MAX_DESCRIPTORS],
    count: usize,
}

impl Inbox {
    /// An empty one; it is large, so keep it in a box.
    pub fn new() -> Self {
        Self {
            bytes: [0; MAX_MESSAGE],
            length: 0,
            truncated: false,
            descriptors: [const { None }; MAX_DESCRIPTORS],
            count: 0,
        }
    }

    /// The message and its descriptors; those that are not taken are closed with the next message.
    pub(crate) fn open(&mut self) -> (&[u8], Descriptors<'_>) {
        (
            &self.bytes[..self.length],
            Descriptors(self.descriptors[..self.count].iter_mut()),
        )
    }

    /// Whether the message was longer than the room.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }

    fn clear(&mut self) {
        self.length = 0;
        self.truncated = false;
        for descriptor in &mut self.descriptors[..self.count] {
            *descriptor = None;
        }
        self.count = 0;
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Inbox")
            .field("length", &self.length)
            .field("descriptors", &self.count)
            .finish_non_exhaustive()
    }
}

/// The descriptors that came with a message, in the order in which they were sent.
#[derive(Debug)]
pub struct Descriptors<'a>(std::slice::IterMut<'a, Option<OwnedFd>>);

impl Iterator for Descriptors<'_> {
    type Item = OwnedFd;

    fn next(&mut self) -> Option<OwnedFd> {
        self.0.find_map(Option::take)
    }
}

/// Receives a message; `false` when the other end is closed and nothing is left.
pub(crate) fn receive(socket: BorrowedFd<'_>, inbox: &mut Inbox, flags: RecvFlags) -> Result<bool> {
    inbox.clear();
    let mut space = [MaybeUninit::<u8>::uninit(); CONTROL_SIZE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut inbox.bytes)];
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(socket, &mut parts, &mut control, flags) {
            // Core died with unread messages. That is said once, before what it had sent itself.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            received => break received?,
        }
    };
    inbox.length = received.bytes.min(MAX_MESSAGE);
    inbox.truncated = received.flags.contains(ReturnFlags::TRUNC);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for descriptor in descriptors {
                // The kernel was given room for no more than this.
                if let Some(place) = inbox.descriptors.get_mut(inbox.count) {
                    *place = Some(descriptor);
                    inbox.count += 1;
                }
            }
        }
    }
    Ok(received.bytes > 0 || inbox.count > 0)
}

/// Sends a message with descriptors.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    payload: &Payload,
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<()> {
    let mut space = [MaybeUninit::<u8>::uninit(); CONTROL_SIZE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOMANYREFS);
    }
    let parts = [IoSlice::new(payload.as_bytes())];
    rustix::io::retry_on_intr(|| {
        sendmsg(socket, &parts, &mut control, flags | SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Sends as many of the named descriptors as one message can hold; says how many these were.
///
/// `payload` is the beginning of the message, up to the list. Names must have been checked.
pub(crate) fn send_named<'f, 'n>(
    socket: BorrowedFd<'f>,
    mut payload: Payload,
    named: impl Iterator<Item = (&'n str, BorrowedFd<'f>)>,
    flags: SendFlags,
) -> Result<usize> {
    // Any descriptor fills the places that are not used.
    let mut descriptors = [socket.as_fd(); MAX_DESCRIPTORS];
    let mut taken = 0;
    let mut count = payload.list();
    for (place, (name, descriptor)) in descriptors.iter_mut().zip(named) {
        if !payload.text(name) {
            break;
        }
        *place = descriptor;
        payload.count(&mut count);
        taken += 1;
    }
    if taken > 0 {
        send(socket, &payload, &descriptors[..taken], flags)?;
    }
    Ok(taken)
}
