//! The extension of DNS (EDNS): how much a client takes, and on whose behalf a server asks.
//!
//! A server that asks for somebody else can say for whom, by the prefix of their address (the "client subnet" option). The
//! servers of networks do so when they ask the controller's, and nobody else: which network an instance is in is no business of
//! the outside.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::message::{HEADER, skip_name, u16_at};
use crate::records::Clients;

const OPT: u16 = 41;
const CLIENT_SUBNET: u16 = 8;
const FAMILY_V4: u16 = 1;
const FAMILY_V6: u16 = 2;
/// What passes every link without being cut.
pub(crate) const LARGEST: usize = 1232;
/// How long [`write`] is without a client.
pub(crate) const PLAIN_LENGTH: usize = 11;

/// What a query says beside its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extension {
    /// What the client takes by UDP.
    pub(crate) size: usize,
    /// Flags, such as whether signatures are wanted.
    flags: [u8; 2],
    /// For whom is asked: an address, or the first one of a subnet.
    pub(crate) asker: Option<IpAddr>,
}

impl Extension {
    /// Reads the record whose kind stands at `at`.
    fn read(packet: &[u8], at: usize) -> Option<Self> {
        let size = usize::from(u16_at(packet, at + 2)?);
        let flags = packet.get(at + 6..at + 8)?.try_into().ok()?;
        let length = usize::from(u16_at(packet, at + 8)?);
        let mut options = packet.get(at + 10..at + 10 + length)?;
        let mut asker = None;
        while let (Some(code), Some(length)) = (u16_at(options, 0), u16_at(options, 2)) {
            let Some(data) = options.get(4..4 + usize::from(length)) else {
                break;
            };
            if code == CLIENT_SUBNET {
                asker = client(data);
            }
            options = &options[4 + data.len()..];
        }
        Some(Self { size, flags, asker })
    }
}

/// The address in a client subnet option. What is left out of it is zero.
fn client(data: &[u8]) -> Option<IpAddr> {
    let address = data.get(4..)?;
    match u16_at(data, 0)? {
        FAMILY_V4 => {
            let mut octets = [0; 4];
            octets.get_mut(..address.len())?.copy_from_slice(address);
            Some(Ipv4Addr::from(octets).into())
        }
        FAMILY_V6 => {
            let mut octets = [0; 16];
            octets.get_mut(..address.len())?.copy_from_slice(address);
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

/// Looks for the extension among the records that begin at `at`. `None` if they cannot be read.
pub(crate) fn find(packet: &[u8], mut at: usize, records: u32) -> Option<Option<Extension>> {
    let mut found = None;
    for _ in 0..records {
        at = skip_name(packet, at)?;
        let end = at + 10 + usize::from(u16_at(packet, at + 8)?);
        if end > packet.len() {
            return None;
        }
        if u16_at(packet, at)? == OPT {
            found = Extension::read(packet, at);
        }
        at = end;
    }
    Some(found)
}

/// Writes the extension to the end of a message, which must have no other extra records.
pub(crate) fn write(message: &mut Vec<u8>, asked: Option<&Extension>, client: Option<Clients>) {
    message[10..12].copy_from_slice(&1u16.to_be_bytes());
    message.push(0);
    message.extend(OPT.to_be_bytes());
    message.extend(u16::try_from(LARGEST).unwrap_or(u16::MAX).to_be_bytes());
    message.extend([0, 0]);
    message.extend(asked.map_or([0; 2], |it| it.flags));
    let option = client.map(client_subnet).unwrap_or_default();
    message.extend(
        u16::try_from(option.len())
            .unwrap_or_default()
            .to_be_bytes(),
    );
    message.extend(option);
}

fn client_subnet(client: Clients) -> Vec<u8> {
    let (family, octets) = match client.address() {
        IpAddr::V4(address) => (FAMILY_V4, address.octets().to_vec()),
        IpAddr::V6(address) => (FAMILY_V6, address.octets().to_vec()),
    };
    let bits = usize::from(client.prefix_length()).min(octets.len() * 8);
    // Bits beyond the prefix must be zero, and octets beyond it must be absent.
    let mut prefix = octets[..bits.div_ceil(8)].to_vec();
    if let (Some(last), rest @ 1..) = (prefix.last_mut(), bits % 8) {
        *last &= u8::MAX << (8 - rest);
    }
    let mut option = CLIENT_SUBNET.to_be_bytes().to_vec();
    let length = u16::try_from(prefix.len() + 4).unwrap_or_default();
    option.extend(length.to_be_bytes());
    option.extend(family.to_be_bytes());
    option.extend([u8::try_from(bits).unwrap_or(u8::MAX), 0]);
    option.extend(prefix);
    option
}

/// Takes the extension off an answer for a client that does not speak it. Only where nothing comes after it, which is where
/// servers put it: what comes after could be pointed at.
pub(crate) fn strip(answer: &mut Vec<u8>) {
    if let Some(start) = last_extension(answer) {
        let count = u16_at(answer, 10).unwrap_or_default();
        answer[10..12].copy_from_slice(&count.saturating_sub(1).to_be_bytes());
        answer.truncate(start);
    }
}

/// Where the extension begins, if it is an answer's last record.
fn last_extension(answer: &[u8]) -> Option<usize> {
    let count = |at| u16_at(answer, at).map(u32::from);
    let mut at = HEADER;
    for _ in 0..count(4)? {
        at = skip_name(answer, at)? + 4;
    }
    let before = count(6)? + count(8)?;
    let all = before + count(10)?;
    for number in 0..all {
        let start = at;
        at = skip_name(answer, at)?;
        let kind = u16_at(answer, at)?;
        at += 10 + usize::from(u16_at(answer, at + 8)?);
        if number >= before && kind == OPT && at == answer.len() {
            return Some(start);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clients(address: &str, prefix_length: u8) -> Clients {
        Clients::new(address.parse().unwrap(), prefix_length)
    }

    /// A head and nothing else, with the extension.
    fn message(client: Option<Clients>) -> Vec<u8> {
        let mut message = vec![0; HEADER];
        write(&mut message, None, client);
        message
    }

    #[test]
    fn who_asks_is_written_as_the_standard_says() {
        let message = message(Some(clients("172.20.255.0", 20)));
        assert_eq!(message[HEADER..HEADER + 5], [0, 0, 41, 4, 208]);
        // The option: its code and length, the family, the prefix, the scope, three octets of which the last is cut.
        let option = [0, 8, 0, 7, 0, 1, 20, 0, 172, 20, 240];
        assert!(message.ends_with(&option), "{message:?}");
    }

    #[test]
    fn who_asks_is_read_back() {
        for (written, prefix_length) in [("172.17.0.0", 16), ("10.0.0.0", 8), ("fd00:1::", 64)] {
            let message = message(Some(clients(written, prefix_length)));
            let found = find(&message, HEADER, 1).unwrap().unwrap();
            assert_eq!(found.asker, Some(written.parse().unwrap()));
            assert_eq!(found.size, LARGEST);
        }
        let plain = find(&message(None), HEADER, 1).unwrap().unwrap();
        assert_eq!(plain.asker, None);
        assert_eq!(message(None).len() - HEADER, PLAIN_LENGTH);
    }

    #[test]
    fn the_extension_is_taken_off_where_it_is_the_last() {
        let mut answer = message(Some(clients("172.17.0.0", 16)));
        strip(&mut answer);
        assert_eq!(answer, [0; HEADER]);
        strip(&mut answer);
        assert_eq!(answer, [0; HEADER], "there is none");
        let mut followed = message(None);
        followed[11] = 2;
        followed.extend([0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let before = followed.clone();
        strip(&mut followed);
        assert_eq!(followed, before, "something comes after it");
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(mut packet in prop::collection::vec(any::<u8>(), 0..120), at in 0usize..130, records in 0u32..9) {
            let _ = find(&packet, at, records);
            let length = packet.len();
            strip(&mut packet);
            prop_assert!(packet.len() <= length);
        }
    }
}
