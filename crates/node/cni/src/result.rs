//! What plugins answer.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

/// The result of a plugin, or of a whole list: that of its last plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct CniResult {
    document: Value,
    interfaces: Vec<Interface>,
    addresses: Vec<IpAddr>,
}

/// A link that a plugin has made or found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address, if it has one.
    #[serde(default)]
    pub mac: String,
    /// The namespace that it is in; empty for the node's own.
    #[serde(default)]
    pub sandbox: String,
}

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
pub enum InvalidResult {
    /// Not one whole JSON document.
    #[error("the answer is not one JSON document")]
    Json(#[source] serde_json::Error),
    /// It has not the shape of a result.
    #[error("the answer has not the shape of a result")]
    Shape(#[source] serde_json::Error),
    /// An address cannot be read.
    #[error("the answer's address {text:?} is not address/prefix length")]
    Address {
        /// As it came, shortened.
        text: String,
    },
    /// Another version than that of the question.
    #[error("the answer is in version {found:?}, asked was in {asked}")]
    Version {
        /// Its version, shortened.
        found: String,
        /// The version of the question.
        asked: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    cni_version: String,
    #[serde(default)]
    interfaces: Vec<Interface>,
    #[serde(default)]
    ips: Vec<IpShape>,
}

#[derive(Deserialize)]
struct IpShape {
    address: String,
}

impl CniResult {
    pub(crate) fn parse(bytes: &[u8], asked: &str) -> Result<Self, InvalidResult> {
        Self::from_value(
            serde_json::from_slice(bytes).map_err(InvalidResult::Json)?,
            asked,
        )
    }

    pub(crate) fn from_value(document: Value, asked: &str) -> Result<Self, InvalidResult> {
        let shape = Shape::deserialize(&document).map_err(InvalidResult::Shape)?;
        if shape.cni_version != asked {
            return Err(InvalidResult::Version {
                found: shape.cni_version.chars().take(40).collect(),
                asked: asked.to_owned(),
            });
        }
        let address = |ip: &IpShape| {
            let host = ip.address.split_once('/').map(|(host, _)| host);
            let address = host.and_then(|host| host.parse().ok());
            address.ok_or_else(|| InvalidResult::Address {
                text: ip.address.chars().take(80).collect(),
            })
        };
        let addresses = shape.ips.iter().map(address).collect::<Result<_, _>>()?;
        Ok(Self {
            document,
            interfaces: shape.interfaces,
            addresses,
        })
    }

    /// Links that were made, in the namespace and outside.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Addresses that the container has now.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// The answer as it came, for the next plugin.
    pub fn document(&self) -> &Value {
        &self.document
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_is_whole_and_in_the_version_asked_for() {
        let bytes = br#"{"cniVersion": "1.0.0", "interfaces": [{"name": "br0", "mac": "a"}, {"name": "eth0", "sandbox": "/n"}],
            "ips": [{"address": "10.0.0.2/24", "interface": 1}], "dns": {}}"#;
        let result = CniResult::parse(bytes, "1.0.0").unwrap();
        assert_eq!(result.addresses(), ["10.0.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(result.interfaces()[1].sandbox, "/n");
        let says = |text: &str| {
            CniResult::parse(text.as_bytes(), "1.0.0")
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            says(r#"{"cniVersion": "1.0.0""#),
            "the answer is not one JSON document"
        );
        assert_eq!(says("hello"), "the answer is not one JSON document");
        assert_eq!(
            says(r#"{"cniVersion": "1.0.0"} {}"#),
            "the answer is not one JSON document"
        );
        assert_eq!(says("[1]"), "the answer has not the shape of a result");
        assert_eq!(
            says(r#"{"cniVersion": "0.3.0"}"#),
            "the answer is in version \"0.3.0\", asked was in 1.0.0"
        );
        assert_eq!(
            says(r#"{"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2"}]}"#),
            "the answer's address \"10.0.0.2\" is not address/prefix length"
        );
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = CniResult::parse(&bytes, "1.0.0");
        }
    }
}
