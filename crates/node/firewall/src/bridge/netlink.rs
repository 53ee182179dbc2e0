//! The two requests to the kernel that a bridge's ports need.
//!
//! A program such as `bridge` would do, at the price of starting it twice for every instance; and the files under `/sys` show
//! the network namespace in which they were mounted, not the caller's.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{recv, send, socket_with};

use crate::names::LinkName;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const IFLA_MASTER: u16 = 10;
const IFLA_PROTINFO: u16 = 12;
const IFLA_EXT_MASK: u16 = 29;
const NLA_F_NESTED: u16 = 0x8000;
const NLA_TYPE_MASK: u16 = 0x3fff;
const IFLA_BRPORT_ISOLATED: u16 = 33;
/// Leaves the counters out of answers.
const RTEXT_FILTER_SKIP_STATS: u32 = 8;
const AF_UNSPEC: u8 = 0;
const AF_BRIDGE: u8 = 7;

const HEADER: usize = 16;
const LINK_HEADER: usize = 16;
/// The kernel fills at most this much at once.
const BUFFER: usize = 64 * 1024;
/// A bridge has at most 1024 ports; more messages than this are no answer.
const MAX_MESSAGES: usize = 100_000;

/// The index of a link in the caller's network namespace.
pub(super) fn index_of(link: &LinkName) -> io::Result<u32> {
    // Any socket will do to ask.
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(rustix::net::netdevice::name_to_index(
        socket,
        link.as_str(),
    )?)
}

/// A connection to the part of the kernel that keeps links.
#[derive(Debug)]
pub(super) struct Route {
    socket: OwnedFd,
    sequence: u32,
}

impl Route {
    pub(super) fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// The indices of a bridge's ports.
    pub(super) fn ports_of(&mut self, bridge: u32) -> io::Result<Vec<u32>> {
        let mut body = link_header(AF_UNSPEC, 0);
        push_attribute(&mut body, IFLA_MASTER, &bridge.to_ne_bytes());
        push_attribute(
            &mut body,
            IFLA_EXT_MASK,
            &RTEXT_FILTER_SKIP_STATS.to_ne_bytes(),
        );
        let mut ports = Vec::new();
        self.exchange(RTM_GETLINK, NLM_F_DUMP, &body, |body| {
            // Kernels that do not know the filter send all links.
            if master_of(body) == Some(bridge) {
                ports.extend(
                    body.get(4..8)
                        .and_then(|bytes| bytes.try_into().ok())
                        .map(u32::from_ne_bytes),
                );
            }
        })?;
        Ok(ports)
    }

    /// Lets a port of a bridge hear only what the node itself sends, and ports that are not isolated.
    pub(super) fn isolate(&mut self, port: u32) -> io::Result<()> {
        let mut isolated = Vec::new();
        push_attribute(&mut isolated, IFLA_BRPORT_ISOLATED, &[1]);
        let mut body = link_header(AF_BRIDGE, port);
        push_attribute(&mut body, IFLA_PROTINFO | NLA_F_NESTED, &isolated);
        self.exchange(RTM_SETLINK, NLM_F_ACK, &body, |_| {})
    }

    /// Sends a request, and reads until its end or its acknowledgement.
    fn exchange(
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
        request.extend((flags | NLM_F_REQUEST).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0u32.to_ne_bytes());
        request.extend(body);
        send(&self.socket, &request, SendFlags::empty())?;

        let mut buffer = vec![0; BUFFER];
        let mut messages = 0;
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
                match message.kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return message.error(),
                    RTM_NEWLINK => each(message.body),
                    _ => {}
                }
            }
        }
    }
}

struct Message<'a> {
    kind: u16,
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
            sequence: u32::from_ne_bytes(message.get(8..12)?.try_into().ok()?),
            body: message.get(HEADER..)?,
        };
        *rest = rest.get(aligned(length)..).unwrap_or_default();
        Some(found)
    }

    fn error(&self) -> io::Result<()> {
        let code = self.body.get(..4).and_then(|bytes| bytes.try_into().ok());
        match i32::from_ne_bytes(code.ok_or_else(malformed)?) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer is malformed",
    )
}

fn link_header(family: u8, index: u32) -> Vec<u8> {
    let mut header = vec![0; LINK_HEADER];
    header[0] = family;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn push_attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Attributes here are a few bytes long.
    let length = u16::try_from(4 + value.len()).unwrap_or(u16::MAX);
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(aligned(to.len()), 0);
}

fn master_of(link: &[u8]) -> Option<u32> {
    let mut rest = link.get(LINK_HEADER..)?;
    while !rest.is_empty() {
        let length = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(rest.get(2..4)?.try_into().ok()?) & NLA_TYPE_MASK;
        let value = rest.get(4..length)?;
        if kind == IFLA_MASTER {
            return value.try_into().ok().map(u32::from_ne_bytes);
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_and_broken_ones_end_the_search() {
        let mut link = link_header(AF_UNSPEC, 7);
        push_attribute(&mut link, 3, b"veth0\0");
        push_attribute(&mut link, IFLA_MASTER, &9u32.to_ne_bytes());
        assert_eq!(master_of(&link), Some(9));
        // A length of nought must not turn for ever.
        let mut broken = link_header(AF_UNSPEC, 7);
        broken.extend([0, 0, 3, 0]);
        assert_eq!(master_of(&broken), None);
        for end in 0..link.len() {
            let _ = master_of(&link[..end]);
        }
    }

    #[test]
    fn messages_that_lie_about_their_length_are_refused() {
        for bytes in [&[][..], &[255, 0, 0, 0], &[4, 0, 0, 0], &[0; 16]] {
            assert!(Message::split(&mut &*bytes).is_none(), "took {bytes:?}");
        }
    }
}
