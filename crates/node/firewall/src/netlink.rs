//! Requests to the kernel for which starting a program would cost too much.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

pub(crate) const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;

const REQUEST: u16 = 1;
/// What was listed has changed in between.
const INTERRUPTED: u16 = 0x10;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Below are messages about messages.
const FIRST_DATA: u16 = 16;
const NESTED: u16 = 0x8000;
const TYPE_MASK: u16 = 0x3fff;
const HEADER: usize = 16;
/// The kernel fills at most this much at once.
const BUFFER: usize = 64 * 1024;
/// Somebody changes what is listed while it is read: how often that may happen in a row.
const TRIES: usize = 50;
/// More messages than this are no answer.
const MAX_MESSAGES: usize = 1_000_000;

/// A connection to a part of the kernel, in the network namespace of the thread that made it.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    sequence: u32,
}

impl Connection {
    /// `None` is the part that keeps links, addresses and routes.
    pub(crate) fn open(part: Option<Protocol>) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            part,
        )?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Lists something, again from nothing when it changed meanwhile. `each` gets what follows the head of every message.
    pub(crate) fn list<T: Default>(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(&mut T, &[u8]),
    ) -> io::Result<T> {
        for _ in 0..TRIES {
            let mut listed = T::default();
            match self.exchange(kind, DUMP, body, |message| each(&mut listed, message)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome.map(|()| listed),
            }
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    /// Sends a request, and reads until its end or its acknowledgement; one of them must be asked for in `flags`. Of
    /// every message with data, `each` gets what follows the head.
    pub(crate) fn exchange(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence += 1;
        let length = u32::try_from(HEADER + body.len()).map_err(|_| malformed())?;
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend(length.to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((flags | REQUEST).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(body);
        send(&self.socket, &request, SendFlags::empty())?;

        let mut buffer = vec![0; BUFFER];
        let mut messages = 0;
        let mut interrupted = false;
        loop {
            let (_, length) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            let mut rest = buffer.get(..length).ok_or_else(malformed)?;
            while !rest.is_empty() {
                messages += 1;
                let message = Message::split(&mut rest).ok_or_else(malformed)?;
                if messages > MAX_MESSAGES {
                    return Err(malformed());
                }
                if message.sequence != self.sequence {
                    continue;
                }
                interrupted |= message.flags & INTERRUPTED != 0;
                match message.kind {
                    DONE if interrupted => return Err(io::ErrorKind::Interrupted.into()),
                    DONE => return message.outcome(),
                    ERROR => return message.outcome(),
                    FIRST_DATA.. => each(message.body),
                    _ => {}
                }
            }
        }
    }
}

struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Takes one message off the front.
    fn split(rest: &mut &'a [u8]) -> Option<Self> {
        let length = usize::try_from(u32::from_ne_bytes(rest.get(..4)?.try_into().ok()?)).ok()?;
        let message = rest.get(..length)?;
        let found = Self {
            kind: u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?),
            flags: u16::from_ne_bytes(message.get(6..8)?.try_into().ok()?),
            sequence: u32::from_ne_bytes(message.get(8..12)?.try_into().ok()?),
            body: message.get(HEADER..)?,
        };
        *rest = rest.get(aligned(length)..).unwrap_or_default();
        Some(found)
    }

    fn outcome(&self) -> io::Result<()> {
        let code = self.body.get(..4).and_then(|bytes| bytes.try_into().ok());
        match i32::from_ne_bytes(code.ok_or_else(malformed)?) {
            code @ ..0 => Err(io::Error::from_raw_os_error(-code)),
            _ => Ok(()),
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer is malformed",
    )
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Puts an attribute at the end of a request.
pub(crate) fn push_attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Attributes in requests are a few bytes long.
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(aligned(to.len()), 0);
}

/// Puts an attribute at the end of a request that consists of others.
pub(crate) fn push_nested(to: &mut Vec<u8>, kind: u16, attributes: &[u8]) {
    push_attribute(to, kind | NESTED, attributes);
}

/// Kinds and values of attributes in a row. What is malformed ends it.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The value of the first attribute of a kind.
pub(crate) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|(found, _)| *found == kind)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_broken_ones_end_the_search() {
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, 3, b"veth0\0");
        push_nested(&mut bytes, 10, &9u32.to_ne_bytes());
        assert_eq!(attribute(&bytes, 10), Some(&9u32.to_ne_bytes()[..]));
        assert_eq!(attributes(&bytes).count(), 2);
        assert_eq!(attribute(&bytes, 4), None);
        for end in 0..bytes.len() {
            assert!(attributes(&bytes[..end]).count() <= 1);
        }
        // A length of nought must not turn for ever.
        assert_eq!(attributes(&[0, 0, 3, 0, 1, 2]).count(), 0);
    }

    #[test]
    fn messages_that_lie_about_their_length_are_refused() {
        for bytes in [&[][..], &[255, 0, 0, 0], &[4, 0, 0, 0], &[0; 16]] {
            assert!(Message::split(&mut &*bytes).is_none(), "took {bytes:?}");
        }
    }
}
