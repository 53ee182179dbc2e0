//! An instance's place in a network.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::servicemanager::v5 as wire;

use super::error::{ConvertError, Excerpt, InvalidValue, Problem, each, optional_to_text, text};
use super::id::NetworkId;

/// Addresses that share a prefix: `172.17.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    address: IpAddr,
    prefix_length: u8,
}

impl Subnet {
    /// Refuses a prefix longer than the address.
    pub fn new(address: IpAddr, prefix_length: u8) -> Result<Self, InvalidValue> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if prefix_length > bits {
            let problem = Problem::OutOfRange {
                value: Excerpt::number(prefix_length),
                expected: "a prefix length that fits the address",
            };
            return Err(InvalidValue::new("subnet", problem));
        }
        Ok(Self {
            address,
            prefix_length,
        })
    }

    /// An address of the subnet, as it was given.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits its addresses share.
    pub fn prefix_length(&self) -> u8 {
        self.prefix_length
    }
}

impl FromStr for Subnet {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let malformed = || {
            let problem = Problem::Malformed {
                value: Excerpt::new(text),
                expected: "address/prefix length",
            };
            InvalidValue::new("subnet", problem)
        };
        let (address, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let address = address.parse().map_err(|_| malformed())?;
        // `u8` would also take a sign and leading zeros.
        if prefix.len() > 3 || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(malformed());
        }
        Self::new(address, prefix.parse().map_err(|_| malformed())?)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix_length)
    }
}

/// One port, or several in a row: `80`, `8000-8010`. Never port 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    const EXPECTED: &str = "a port from 1 to 65535 or first-last";

    /// Refuses port 0 and a range that ends before it starts.
    pub fn new(first: u16, last: u16) -> Result<Self, InvalidValue> {
        if first == 0 || last < first {
            let value = Excerpt::number(format_args!("{first}-{last}"));
            let problem = Problem::OutOfRange {
                value,
                expected: Self::EXPECTED,
            };
            return Err(InvalidValue::new("port", problem));
        }
        Ok(Self { first, last })
    }

    /// The lowest port.
    pub fn first(&self) -> u16 {
        self.first
    }

    /// The highest port; the lowest one when there is only one.
    pub fn last(&self) -> u16 {
        self.last
    }
}

impl FromStr for PortRange {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let port = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number
                .then(|| digits.parse::<u16>().ok())
                .flatten()
                .ok_or_else(|| {
                    let problem = Problem::Malformed {
                        value: Excerpt::new(text),
                        expected: Self::EXPECTED,
                    };
                    InvalidValue::new("port", problem)
                })
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Self::new(port(first)?, port(last)?)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

/// What a firewall rule lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportProtocol {
    /// Also what an empty field means.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl FromStr for TransportProtocol {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        match text {
            "" | "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            "sctp" => Ok(Self::Sctp),
            _ => {
                let problem = Problem::Unknown {
                    value: Excerpt::new(text),
                    expected: "tcp udp sctp",
                };
                Err(InvalidValue::new("transport protocol", problem))
            }
        }
    }
}

impl fmt::Display for TransportProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

/// Lets traffic of an instance out.
///
/// The destination must be given: an absent one would open the firewall to everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FirewallRule {
    /// Where to.
    pub dst_ip: IpAddr,
    /// To which ports.
    pub dst_port: PortRange,
    /// By which protocol.
    pub proto: TransportProtocol,
    /// Where from; the instance's own address when not given.
    pub src_ip: Option<IpAddr>,
}

/// An instance's place in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkParameters {
    /// Which network.
    pub network_id: NetworkId,
    /// The network's addresses.
    pub subnet: Subnet,
    /// The instance's own address.
    pub ip: IpAddr,
    /// Whom it asks for names.
    pub dns_servers: Vec<IpAddr>,
    /// What it may send out.
    pub rules: Vec<FirewallRule>,
}

/// An address on its way from a wire field.
struct Address(IpAddr);

impl FromStr for Address {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if text.is_empty() {
            return Err(InvalidValue::new("address", Problem::Missing));
        }
        text.parse().map(Self).map_err(|_| {
            let problem = Problem::Malformed {
                value: Excerpt::new(text),
                expected: "an IP address",
            };
            InvalidValue::new("address", problem)
        })
    }
}

fn address(message: &'static str, field: &'static str, wire: &str) -> Result<IpAddr, ConvertError> {
    text(message, field, wire).map(|Address(address)| address)
}

impl TryFrom<wire::FirewallRule> for FirewallRule {
    type Error = ConvertError;

    fn try_from(wire: wire::FirewallRule) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "FirewallRule";
        let src_ip = match wire.src_ip.as_str() {
            "" => None,
            given => Some(address(MESSAGE, "src_ip", given)?),
        };
        Ok(Self {
            dst_ip: address(MESSAGE, "dst_ip", &wire.dst_ip)?,
            dst_port: text(MESSAGE, "dst_port", &wire.dst_port)?,
            proto: text(MESSAGE, "proto", &wire.proto)?,
            src_ip,
        })
    }
}

impl From<FirewallRule> for wire::FirewallRule {
    fn from(rule: FirewallRule) -> Self {
        Self {
            dst_ip: rule.dst_ip.to_string(),
            dst_port: rule.dst_port.to_string(),
            proto: rule.proto.to_string(),
            src_ip: optional_to_text(rule.src_ip),
        }
    }
}

impl TryFrom<wire::NetworkParameters> for NetworkParameters {
    type Error = ConvertError;

    fn try_from(wire: wire::NetworkParameters) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "NetworkParameters";
        let dns_servers = wire.dns_servers.iter().enumerate().map(|(index, server)| {
            server
                .parse()
                .map(|Address(address)| address)
                .map_err(|error: InvalidValue| error.at_item(MESSAGE, "dns_servers", index))
        });
        Ok(Self {
            network_id: text(MESSAGE, "network_id", &wire.network_id)?,
            subnet: text(MESSAGE, "subnet", &wire.subnet)?,
            ip: address(MESSAGE, "ip", &wire.ip)?,
            dns_servers: dns_servers.collect::<Result<_, _>>()?,
            rules: each(MESSAGE, "rules", wire.rules)?,
        })
    }
}

impl From<NetworkParameters> for wire::NetworkParameters {
    fn from(parameters: NetworkParameters) -> Self {
        Self {
            network_id: parameters.network_id.into(),
            subnet: parameters.subnet.to_string(),
            ip: parameters.ip.to_string(),
            dns_servers: parameters
                .dns_servers
                .iter()
                .map(IpAddr::to_string)
                .collect(),
            rules: parameters.rules.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{network_parameters, round_trip};

    #[test]
    fn subnets_and_ports_have_one_form() {
        for text in ["172.17.0.0/16", "0.0.0.0/0", "fd00::/64", "10.0.0.1/32"] {
            assert_eq!(text.parse::<Subnet>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "/8",
        ] {
            assert!(text.parse::<Subnet>().is_err(), "accepted {text:?}");
        }
        for text in ["1", "65535", "8000-8010"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        for text in [
            "", "0", "65536", "+80", "80-", "-80", "9-8", "0-5", "1-2-3", "http",
        ] {
            assert!(text.parse::<PortRange>().is_err(), "accepted {text:?}");
        }
    }

    #[test]
    fn a_rule_without_a_destination_is_refused_by_name() {
        let wire = wire::NetworkParameters {
            network_id: "net".into(),
            subnet: "172.17.0.0/16".into(),
            ip: "172.17.0.2".into(),
            rules: vec![wire::FirewallRule {
                dst_port: "80".into(),
                ..Default::default()
            }],
            ..Default::default()
        };
        assert_eq!(
            NetworkParameters::try_from(wire).unwrap_err().to_string(),
            "NetworkParameters.rules[0].dst_ip: missing"
        );
    }

    #[test]
    fn a_bad_name_server_is_refused_by_index() {
        let wire = wire::NetworkParameters {
            network_id: "net".into(),
            subnet: "172.17.0.0/16".into(),
            ip: "172.17.0.2".into(),
            dns_servers: vec!["172.17.0.1".into(), "dns".into()],
            ..Default::default()
        };
        assert_eq!(
            NetworkParameters::try_from(wire).unwrap_err().to_string(),
            "NetworkParameters.dns_servers[1]: \"dns\" is not an IP address"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(parameters in network_parameters()) {
            round_trip::<wire::NetworkParameters, _>(&parameters)?;
        }
    }
}
