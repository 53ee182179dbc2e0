//! What stands in a domain's metadata: whose machine it is, and how it is reached.

use std::collections::BTreeMap;

use muster_provider::Mark;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

/// The namespace of our element.
pub const NAMESPACE: &str = "urn:muster:machine:1";
/// Our element, without its prefix.
pub(crate) const ELEMENT: &str = "machine";
/// What it may be long; libvirt's metadata are anybody's to write.
const MAX_LENGTH: usize = 16 * 1024;

const SSH_PORT: &str = "ssh-port";
const SSH_USER: &str = "ssh-user";

/// What stands in a domain's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Whose it is.
    pub mark: Mark,
    /// The port of 127.0.0.1 that leads to the machine's port 22, where it is forwarded.
    pub ssh_port: Option<u16>,
    /// The user that was given keys, where there is one.
    pub ssh_user: Option<String>,
}

impl Metadata {
    /// As attributes of our element.
    pub(crate) fn attributes(&self) -> Vec<(&'static str, String)> {
        let labels = self
            .mark
            .labels()
            .map(|(key, value)| (key, value.to_owned()));
        let port = self.ssh_port.map(|port| (SSH_PORT, port.to_string()));
        let user = self.ssh_user.clone().map(|user| (SSH_USER, user));
        labels.into_iter().chain(port).chain(user).collect()
    }

    /// Reads our element, as libvirt gives it. What is not whole is nobody's: such a domain is not ours.
    #[must_use]
    pub fn read(xml: &str) -> Option<Self> {
        if xml.len() > MAX_LENGTH {
            return None;
        }
        let mut reader = Reader::from_str(xml);
        let attributes = loop {
            match reader.read_event().ok()? {
                Event::Start(element) | Event::Empty(element) => break attributes(&element)?,
                Event::Eof => return None,
                _ => {}
            }
        };
        let ssh_port = match attributes.get(SSH_PORT) {
            Some(port) => Some(port.parse().ok()?),
            None => None,
        };
        Some(Self {
            mark: Mark::from_labels(&attributes)?,
            ssh_port,
            ssh_user: attributes.get(SSH_USER).cloned(),
        })
    }
}

/// The attributes of the element, if it is ours.
fn attributes(element: &BytesStart<'_>) -> Option<BTreeMap<String, String>> {
    if element.local_name().as_ref() != ELEMENT {
        return None;
    }
    let mut found = BTreeMap::new();
    for attribute in element.attributes() {
        let attribute = attribute.ok()?;
        let key: &str = attribute.key.as_ref();
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
        found.insert(key.to_owned(), value.into_owned());
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use muster_provider::{ClientToken, MachineId, ManagerId};
    use proptest::prelude::*;

    use super::*;

    fn mark() -> Mark {
        Mark {
            manager: ManagerId::new("manager").unwrap(),
            machine: MachineId::new("m-1").unwrap(),
            token: ClientToken::new("token").unwrap(),
        }
    }

    #[test]
    fn libvirts_form_is_read_and_anything_less_is_nobodys() {
        let xml = "<machine muster-manager='manager' muster-machine=\"m-1\" muster-token='token' ssh-port='2222'/>";
        let read = Metadata::read(xml).unwrap();
        assert_eq!(read.mark, mark());
        assert_eq!(read.ssh_port, Some(2222));
        for wrong in [
            "",
            "<machine/>",
            "<other muster-manager='manager' muster-machine='m-1' muster-token='token'/>",
            "<machine muster-manager='manager' muster-machine='m-1'/>",
            "<machine muster-manager='Not A Name' muster-machine='m-1' muster-token='token'/>",
            "<machine muster-manager='manager' muster-machine='m-1' muster-token='token' ssh-port='70000'/>",
            "<machine muster-manager='manager' muster-manager='b' muster-machine='m-1' muster-token='t'/>",
            "<machine muster-manager='manager",
        ] {
            assert_eq!(Metadata::read(wrong), None, "{wrong}");
        }
        let long = format!("{}{xml}", " ".repeat(MAX_LENGTH));
        assert_eq!(Metadata::read(&long), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = Metadata::read(&text);
        }

        #[test]
        fn no_element_makes_it_panic(inside in "[a-z='\"&;<>/ -]{0,60}") {
            let _ = Metadata::read(&format!("<machine {inside}/>"));
        }
    }
}
