//! Queries and answers on the wire: as much of DNS as a server needs that answers from a table and passes the rest on.
//!
//! Compressed names are never followed, only skipped, so there is nothing that could turn in circles. Answers of other servers
//! are passed on as they are, once their head is the one that was asked for.

use std::net::IpAddr;

use crate::extension::{self, Extension, LARGEST, PLAIN_LENGTH};
use crate::name::Name;
use crate::records::Clients;

/// The fixed head of a message.
pub(crate) const HEADER: usize = 12;
/// What every client takes by UDP.
const PLAIN_LIMIT: usize = 512;
/// A query has no use for more than one of these.
const MAX_EXTRA_RECORDS: u32 = 16;

const RESPONSE: u8 = 0x80;
const OPCODE: u8 = 0x78;
const AUTHORITATIVE: u8 = 0x04;
const TRUNCATED: u8 = 0x02;
const RECURSION_DESIRED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const POINTER_TO_QUESTION: [u8; 2] = [0xc0, 0x0c];
const CLASS_IN: u16 = 1;
const CLASS_ANY: u16 = 255;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    A,
    Aaaa,
    Ptr,
    Any,
    Other,
}

impl Kind {
    const A_NUMBER: u16 = 1;
    const PTR_NUMBER: u16 = 12;
    const AAAA_NUMBER: u16 = 28;

    fn from_number(number: u16) -> Self {
        match number {
            Self::A_NUMBER => Self::A,
            Self::PTR_NUMBER => Self::Ptr,
            Self::AAAA_NUMBER => Self::Aaaa,
            255 => Self::Any,
            _ => Self::Other,
        }
    }
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    NoError = 0,
    FormatError = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
}

/// How a query came, which says how long its answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// A well-formed query with one question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    packet: &'a [u8],
    pub(crate) name: Name,
    pub(crate) kind: Kind,
    class: u16,
    question_end: usize,
    extended: Option<Extension>,
}

/// Why a packet is no query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Not even worth an answer: too short, or an answer itself.
    Ignore,
    /// Answered with a code.
    Refuse(Code),
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let end = at.checked_add(2)?;
    Some(u16::from_be_bytes(bytes.get(at..end)?.try_into().ok()?))
}

impl<'a> Query<'a> {
    pub(crate) fn parse(packet: &'a [u8]) -> Result<Self, Bad> {
        let malformed = Bad::Refuse(Code::FormatError);
        let head = packet.get(..HEADER).ok_or(Bad::Ignore)?;
        if head[2] & RESPONSE != 0 {
            return Err(Bad::Ignore);
        }
        if head[2] & OPCODE != 0 {
            return Err(Bad::Refuse(Code::NotImplemented));
        }
        let count = |at| u32::from(u16_at(head, at).unwrap_or_default());
        let extra = count(6) + count(8) + count(10);
        if count(4) != 1 || head[2] & TRUNCATED != 0 || extra > MAX_EXTRA_RECORDS {
            return Err(malformed);
        }
        let (name, length) = packet.get(HEADER..).and_then(Name::read).ok_or(malformed)?;
        let fixed = HEADER + length;
        let kind = u16_at(packet, fixed).ok_or(malformed)?;
        let class = u16_at(packet, fixed + 2).ok_or(malformed)?;
        let question_end = fixed + 4;
        let extended = extension::find(packet, question_end, extra).ok_or(malformed)?;
        Ok(Self {
            packet,
            name,
            kind: Kind::from_number(kind),
            class,
            question_end,
            extended,
        })
    }

    /// The whole packet.
    pub(crate) fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// The question as it was written, with its capitals.
    pub(crate) fn question(&self) -> &'a [u8] {
        &self.packet[HEADER..self.question_end]
    }

    pub(crate) fn is_internet(&self) -> bool {
        self.class == CLASS_IN || self.class == CLASS_ANY
    }

    /// How long an answer may be.
    pub(crate) fn limit(&self, transport: Transport) -> usize {
        match transport {
            Transport::Tcp => usize::from(u16::MAX),
            Transport::Udp => self
                .extended
                .map_or(PLAIN_LIMIT, |it| it.size.clamp(PLAIN_LIMIT, LARGEST)),
        }
    }

    /// An answer with these records.
    pub(crate) fn answer(
        &self,
        code: Code,
        records: &[Record<'_>],
        transport: Transport,
        ttl: u32,
    ) -> Vec<u8> {
        let limit = self.limit(transport);
        let extension = match self.extended {
            Some(_) => PLAIN_LENGTH,
            None => 0,
        };
        let mut message = self.head(code);
        message[2] |= AUTHORITATIVE;
        let mut count = 0u16;
        for record in records {
            let before = message.len();
            record.write(&mut message, ttl);
            if message.len() + extension > limit || count == u16::MAX {
                message.truncate(before);
                message[2] |= TRUNCATED;
                break;
            }
            count += 1;
        }
        message[6..8].copy_from_slice(&count.to_be_bytes());
        self.extend(&mut message);
        message
    }

    /// An answer that nobody has this name.
    pub(crate) fn nobody(&self, transport: Transport) -> Vec<u8> {
        self.answer(Code::NoSuchName, &[], transport, 0)
    }

    /// An answer without records, for what cannot be answered.
    pub(crate) fn refuse(&self, code: Code) -> Vec<u8> {
        let mut message = self.head(code);
        self.extend(&mut message);
        message
    }

    /// An answer that says: ask again by TCP.
    pub(crate) fn truncated(&self) -> Vec<u8> {
        let mut message = self.refuse(Code::NoError);
        message[2] |= TRUNCATED;
        message
    }

    fn head(&self, code: Code) -> Vec<u8> {
        let mut message = bare_head(self.packet, code);
        message[4..6].copy_from_slice(&1u16.to_be_bytes());
        message.extend(self.question());
        message
    }

    /// A client that speaks the extension is answered in it.
    fn extend(&self, message: &mut Vec<u8>) {
        if self.extended.is_some() {
            extension::write(message, None, None);
        }
    }

    /// For whom is asked, if the query says so.
    pub(crate) fn asker(&self) -> Option<IpAddr> {
        self.extended.and_then(|it| it.asker)
    }

    /// Whether the client speaks the extension.
    pub(crate) fn is_extended(&self) -> bool {
        self.extended.is_some()
    }

    /// The same question, with who asks it.
    pub(crate) fn on_behalf_of(&self, client: Clients) -> Vec<u8> {
        let mut packet = vec![0; HEADER];
        packet[2] = self.packet[2] & RECURSION_DESIRED;
        packet[4..6].copy_from_slice(&1u16.to_be_bytes());
        packet.extend(self.question());
        extension::write(&mut packet, self.extended.as_ref(), Some(client));
        packet
    }
}

/// The answer to a packet that could not be read further than its head.
pub(crate) fn refuse(packet: &[u8], code: Code) -> Vec<u8> {
    bare_head(packet, code)
}

/// The packet must have a head.
fn bare_head(packet: &[u8], code: Code) -> Vec<u8> {
    let mut message = vec![0; HEADER];
    message[..2].copy_from_slice(&packet[..2]);
    message[2] = RESPONSE | packet[2] & (OPCODE | RECURSION_DESIRED);
    message[3] = RECURSION_AVAILABLE | code as u8;
    message
}

/// Where a name ends. A pointer is an end, too, wherever it leads.
pub(crate) fn skip_name(packet: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = *packet.get(at)?;
        match length & 0xc0 {
            0xc0 => return Some(at + 2),
            0 if length == 0 => return Some(at + 1),
            0 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// One thing that is known about the name in question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Address(IpAddr),
    Pointer(&'a Name),
}

impl Record<'_> {
    fn write(&self, message: &mut Vec<u8>, ttl: u32) {
        let mut whole = |kind: u16, data: &[u8]| {
            message.extend(POINTER_TO_QUESTION);
            message.extend(kind.to_be_bytes());
            message.extend(CLASS_IN.to_be_bytes());
            message.extend(ttl.to_be_bytes());
            // An address or a name.
            message.extend(u16::try_from(data.len()).unwrap_or_default().to_be_bytes());
            message.extend(data);
        };
        match self {
            Self::Address(IpAddr::V4(address)) => whole(Kind::A_NUMBER, &address.octets()),
            Self::Address(IpAddr::V6(address)) => whole(Kind::AAAA_NUMBER, &address.octets()),
            Self::Pointer(name) => whole(Kind::PTR_NUMBER, name.wire()),
        }
    }
}

/// Whether an answer is one to the query with this id and question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    /// But for the capitals of the name.
    ButForCase,
    No,
}

/// Compares an answer with what was asked.
pub(crate) fn matches(answer: &[u8], id: u16, question: &[u8]) -> Match {
    let Some(head) = answer.get(..HEADER) else {
        return Match::No;
    };
    let found = answer
        .get(HEADER..HEADER + question.len())
        .unwrap_or_default();
    let heads = u16_at(head, 0) == Some(id)
        && head[2] & RESPONSE != 0
        && head[2] & OPCODE == 0
        && u16_at(head, 4) == Some(1);
    match heads {
        true if found == question => Match::Yes,
        true if found.eq_ignore_ascii_case(question) => Match::ButForCase,
        _ => Match::No,
    }
}

/// How an answer ends, by its number.
pub(crate) fn code(answer: &[u8]) -> u8 {
    answer
        .get(3)
        .map_or(Code::ServerFailure as u8, |it| it & 15)
}

/// Whether the server speaks of what is its own.
pub(crate) fn is_authoritative(answer: &[u8]) -> bool {
    answer.get(2).is_some_and(|it| it & AUTHORITATIVE != 0)
}

pub(crate) fn is_truncated(answer: &[u8]) -> bool {
    answer.get(2).is_some_and(|flags| flags & TRUNCATED != 0)
}

#[cfg(test)]
mod tests;
