//! Reading back what the kernel has.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;

use crate::model::{Amounts, Counters, Installed};
use crate::names::{InstanceId, LinkName};
use crate::netlink::{self, Connection, attribute, attributes, push_attribute};
use crate::policy::NetworkPolicy;

const TABLE: &[u8] = b"muster\0";
const FAMILY_INET: u8 = 1;
const SUBSYSTEM: u16 = 10 << 8;
const GET_ELEMENTS: u16 = SUBSYSTEM | 13;
const GET_GENERATION: u16 = SUBSYSTEM | 16;
const GET_OBJECTS: u16 = SUBSYSTEM | 19;
const FAMILY_HEADER: usize = 4;

const ELEMENTS_TABLE: u16 = 1;
const ELEMENTS_SET: u16 = 2;
const ELEMENTS: u16 = 3;
const ELEMENT_KEY: u16 = 1;
const ELEMENT_NOTES: u16 = 6;
const DATA_VALUE: u16 = 1;
/// The kind of note that is a comment.
const COMMENT: u8 = 0;

const OBJECT_TABLE: u16 = 1;
const OBJECT_NAME: u16 = 2;
const OBJECT_KIND: u16 = 3;
const OBJECT_DATA: u16 = 4;
const COUNTER: u32 = 1;
const COUNTER_BYTES: u16 = 1;

/// Whether the kernel has nftables.
pub(super) fn probe() -> io::Result<()> {
    let mut kernel = Connection::open(Some(NETFILTER))?;
    kernel.exchange(GET_GENERATION, netlink::ACKNOWLEDGE, &header(), |_| {})
}

fn header() -> Vec<u8> {
    vec![FAMILY_INET, 0, 0, 0]
}

/// Lists something of the tables. `each` gets every message behind its header.
fn list<T: Default>(kind: u16, body: &[u8], each: impl Fn(&mut T, &[u8])) -> io::Result<T> {
    let mut kernel = Connection::open(Some(NETFILTER))?;
    kernel.list(kind, body, |listed, message| {
        each(listed, message.get(FAMILY_HEADER..).unwrap_or_default());
    })
}

/// The elements of the maps from which the state is read: their keys and comments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Maps {
    bridges: Vec<Element>,
    instances: Vec<Element>,
    meters: Vec<Element>,
}

#[derive(Debug, PartialEq, Eq)]
struct Element {
    key: Vec<u8>,
    comment: Option<String>,
}

/// `None`: there is no such table.
pub(super) fn read_maps() -> io::Result<Option<Maps>> {
    let maps = (|| {
        Ok(Maps {
            bridges: read_map(b"leaving_from\0")?,
            instances: read_map(b"sources\0")?,
            meters: read_map(b"downloads\0")?,
        })
    })();
    match maps {
        Ok(maps) => Ok(Some(maps)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_map(name: &[u8]) -> io::Result<Vec<Element>> {
    let mut body = header();
    push_attribute(&mut body, ELEMENTS_TABLE, TABLE);
    push_attribute(&mut body, ELEMENTS_SET, name);
    list(GET_ELEMENTS, &body, |elements: &mut Vec<_>, message| {
        elements.extend(read_elements(message));
    })
}

fn read_elements(message: &[u8]) -> impl Iterator<Item = Element> {
    let listed = attribute(message, ELEMENTS).unwrap_or_default();
    attributes(listed).filter_map(|(_, element)| {
        let key = attribute(attribute(element, ELEMENT_KEY)?, DATA_VALUE)?;
        let comment = attribute(element, ELEMENT_NOTES).and_then(comment);
        Some(Element {
            key: key.to_vec(),
            comment,
        })
    })
}

/// Notes are kind, length and value in a row, a byte each for the first two.
fn comment(mut notes: &[u8]) -> Option<String> {
    loop {
        let (kind, length) = (*notes.first()?, usize::from(*notes.get(1)?));
        let value = notes.get(2..2 + length)?;
        if kind == COMMENT {
            return text(value);
        }
        notes = notes.get(2 + length..)?;
    }
}

/// Up to the first nought.
fn text(value: &[u8]) -> Option<String> {
    let value = value.split(|byte| *byte == 0).next()?;
    String::from_utf8(value.to_vec()).ok()
}

impl Maps {
    /// The error is what Muster did not write.
    pub(super) fn interpret(&self) -> Result<Installed, String> {
        let foreign = |element: &Element| format!("{element:?}");
        let mut installed = Installed {
            founded: true,
            ..Installed::default()
        };
        for element in &self.bridges {
            let network = element.network().ok_or_else(|| foreign(element))?;
            installed.networks.insert(network.bridge().clone(), network);
        }
        let owners = |elements: &[Element]| -> Result<BTreeMap<InstanceId, Ipv4Addr>, String> {
            let owner = |element: &Element| element.owner().ok_or_else(|| foreign(element));
            elements.iter().map(owner).collect()
        };
        installed.instances = owners(&self.instances)?;
        installed.meters = owners(&self.meters)?;
        Ok(installed)
    }
}

impl Element {
    fn network(&self) -> Option<NetworkPolicy> {
        let bridge = LinkName::new(text(&self.key)?).ok()?;
        NetworkPolicy::from_record(bridge, self.comment.as_deref()?)
    }

    fn owner(&self) -> Option<(InstanceId, Ipv4Addr)> {
        let octets: [u8; 4] = self.key.as_slice().try_into().ok()?;
        Some((
            InstanceId::new(self.comment.as_deref()?).ok()?,
            octets.into(),
        ))
    }
}

/// All counters of the table; none, if there is no table.
pub(super) fn read_counters() -> io::Result<Counters> {
    let mut body = header();
    push_attribute(&mut body, OBJECT_TABLE, TABLE);
    push_attribute(&mut body, OBJECT_KIND, &COUNTER.to_be_bytes());
    list(GET_OBJECTS, &body, |counters: &mut Counters, message| {
        // Kernels that do not know the filter send the counters of all tables.
        if attribute(message, OBJECT_TABLE) == Some(TABLE) {
            note_counter(counters, message);
        }
    })
}

/// What is not named like one of Muster's counters is none.
fn note_counter(counters: &mut Counters, object: &[u8]) -> Option<()> {
    let name = text(attribute(object, OBJECT_NAME)?)?;
    let (direction, whose) = name.split_once('_')?;
    let bytes = attribute(attribute(object, OBJECT_DATA)?, COUNTER_BYTES)?;
    let bytes = u64::from_be_bytes(bytes.try_into().ok()?);
    let amounts: &mut Amounts = match whose {
        "system" => &mut counters.system,
        tag => counters.instances.entry(tag.to_owned()).or_default(),
    };
    match direction {
        "in" => amounts.download = bytes,
        "out" => amounts.upload = bytes,
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests;
