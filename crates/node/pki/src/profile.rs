//! What a certificate will say: decided by the caller, never by a request.

use std::fmt;
use std::net::IpAddr;

use muster_tls::{Role, SpiffeId};
use rustls_pki_types::DnsName;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most DNS and IP names in one certificate.
const MAX_NAMES: usize = 64;
/// Longest name of a certificate type.
const MAX_TYPE_LEN: usize = 64;

/// What a certificate is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// To be a server.
    Server,
    /// To be a client.
    Client,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "serverAuth",
            Self::Client => "clientAuth",
        })
    }
}

/// Why names cannot stand in a certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It is not a DNS name, or one with a wildcard.
    #[error("{name:?} is not a DNS name (wildcards are not certified)")]
    Dns {
        /// The name, shortened.
        name: String,
    },
    /// It is not the name of a certificate type.
    #[error("{name:?} is not a certificate type, which has 1 to {MAX_TYPE_LEN} of a-z 0-9 - _")]
    CertType {
        /// The name, shortened.
        name: String,
    },
    /// There are more than anybody needs.
    #[error("a certificate has at most {MAX_NAMES} DNS and IP names")]
    TooMany,
}

/// Identity and names of one certificate. Names are sorted and there are no doubles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    #[serde(
        serialize_with = "spiffe_to_text",
        deserialize_with = "spiffe_from_text"
    )]
    identity: SpiffeId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dns: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ips: Vec<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cert_type: Option<String>,
}

impl Profile {
    /// Nothing but the identity. That is enough between Muster's own processes.
    #[must_use]
    pub fn new(identity: SpiffeId) -> Self {
        Self {
            identity,
            dns: Vec::new(),
            ips: Vec::new(),
            cert_type: None,
        }
    }

    /// Adds a host name, for clients that compare it.
    pub fn with_dns(mut self, name: &str) -> Result<Self, ProfileError> {
        let lower = name.to_ascii_lowercase();
        if lower.len() > 253 || lower.contains('*') || DnsName::try_from(lower.as_str()).is_err() {
            return Err(ProfileError::Dns {
                name: name.chars().take(80).collect(),
            });
        }
        if let Err(at) = self.dns.binary_search(&lower) {
            self.has_room()?;
            self.dns.insert(at, lower);
        }
        Ok(self)
    }

    /// Adds an address, for clients that connect by address.
    pub fn with_ip(mut self, address: IpAddr) -> Result<Self, ProfileError> {
        if let Err(at) = self.ips.binary_search(&address) {
            self.has_room()?;
            self.ips.insert(at, address);
        }
        Ok(self)
    }

    /// Says which of a node's certificate types it is for. That is recorded, so that renewal finds the newest of each type,
    /// and does not stand in the certificate.
    pub fn with_cert_type(mut self, name: &str) -> Result<Self, ProfileError> {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if !(1..=MAX_TYPE_LEN).contains(&name.len()) || !name.bytes().all(is_allowed) {
            return Err(ProfileError::CertType {
                name: name.chars().take(80).collect(),
            });
        }
        self.cert_type = Some(name.to_owned());
        Ok(self)
    }

    fn has_room(&self) -> Result<(), ProfileError> {
        if self.dns.len() + self.ips.len() < MAX_NAMES {
            Ok(())
        } else {
            Err(ProfileError::TooMany)
        }
    }

    /// Who the certificate is for.
    #[must_use]
    pub fn identity(&self) -> &SpiffeId {
        &self.identity
    }

    /// DNS names, in lower case.
    #[must_use]
    pub fn dns(&self) -> &[String] {
        &self.dns
    }

    /// IP addresses.
    #[must_use]
    pub fn ips(&self) -> &[IpAddr] {
        &self.ips
    }

    /// Which of the node's certificate types it is for, if that was said.
    #[must_use]
    pub fn cert_type(&self) -> Option<&str> {
        self.cert_type.as_deref()
    }

    /// Processes of nodes are servers and clients; a person's command line is a client.
    #[must_use]
    pub fn purposes(&self) -> &'static [Purpose] {
        match self.identity.role {
            Role::Operator => &[Purpose::Client],
            _ => &[Purpose::Server, Purpose::Client],
        }
    }
}

fn spiffe_to_text<S: Serializer>(id: &SpiffeId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

fn spiffe_from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SpiffeId, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(role: &str) -> Profile {
        Profile::new(
            format!("spiffe://plant-7/node/n1/{role}")
                .parse()
                .expect("an id"),
        )
    }

    #[test]
    fn names_are_lower_case_sorted_and_single() {
        let profile = profile("sm")
            .with_dns("b.example")
            .and_then(|profile| profile.with_dns("A.example"))
            .and_then(|profile| profile.with_dns("a.EXAMPLE"))
            .and_then(|profile| profile.with_ip([10, 0, 0, 1].into()))
            .and_then(|profile| profile.with_ip([10, 0, 0, 1].into()))
            .expect("good names");
        assert_eq!(profile.dns(), ["a.example", "b.example"]);
        assert_eq!(profile.ips(), [IpAddr::from([10, 0, 0, 1])]);
    }

    #[test]
    fn wildcards_and_other_texts_are_no_dns_names() {
        let long = format!("{}.example", "a.".repeat(200));
        for name in [
            "",
            "*.example",
            "*",
            "a b",
            "a..b",
            "spiffe://x",
            "ä.example",
            "-a",
            &long,
        ] {
            assert!(profile("sm").with_dns(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn certificate_types_are_short_words() {
        let profile = profile("cm").with_cert_type("online").expect("a type");
        assert_eq!(profile.cert_type(), Some("online"));
        for name in ["", "On line", "ä", &"x".repeat(65)] {
            assert!(profile.clone().with_cert_type(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_number_of_names_is_bounded() {
        let mut full = profile("sm");
        for number in 0..MAX_NAMES {
            full = full.with_dns(&format!("h{number}.example")).expect("room");
        }
        assert_eq!(
            full.clone().with_ip([1, 2, 3, 4].into()),
            Err(ProfileError::TooMany)
        );
        assert!(full.with_dns("h0.example").is_ok(), "it is there already");
    }

    #[test]
    fn only_operators_are_clients_only() {
        assert_eq!(profile("operator").purposes(), [Purpose::Client]);
        for role in ["iam", "cm", "sm", "mp", "nodemgr", "online"] {
            assert_eq!(
                profile(role).purposes(),
                [Purpose::Server, Purpose::Client],
                "{role}"
            );
        }
    }
}
