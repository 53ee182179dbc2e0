//! IP prefixes and the addresses that sockets listen on.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use super::{AssignError, Setting, ValueContext, ValueError, word_enum};
use crate::syntax::{WordRules, Words};

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IpPrefix {
    /// The address; bits that do not count are zero.
    pub address: IpAddr,
    /// How many bits count.
    pub length: u8,
}

impl IpPrefix {
    fn new(address: IpAddr, length: u8) -> Self {
        let address = match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
            }
        };
        Self { address, length }
    }

    fn parse(text: &str) -> Result<Self, ValueError> {
        let invalid = || {
            ValueError::invalid(
                text,
                "an address such as 10.0.0.0/8, or any, localhost, link-local, multicast",
            )
        };
        let (address, length) = text
            .split_once('/')
            .map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) => text
                .parse::<u8>()
                .ok()
                .filter(|n| *n <= most)
                .ok_or_else(invalid)?,
        };
        Ok(Self::new(address, length))
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// Networks that may or may not be talked to; sorted and unique after [`IpPrefixes::normalize`], which
/// loading ends with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpPrefixes(pub Vec<IpPrefix>);

impl IpPrefixes {
    /// Sorts and removes doubled networks.
    pub fn normalize(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }
}

impl Setting for IpPrefixes {
    const KIND: &'static str = "networks";

    fn assign(&mut self, text: &str, context: &mut ValueContext<'_>) -> Result<(), AssignError> {
        if text.is_empty() {
            self.0.clear();
            return Ok(());
        }
        for word in Words::new(text, WordRules::PLAIN) {
            let word = word.map_err(|error| ValueError::words(text, error))?;
            let named: &[&str] = match word.as_str() {
                "any" => &["0.0.0.0/0", "::/0"],
                "localhost" => &["127.0.0.0/8", "::1/128"],
                "link-local" => &["169.254.0.0/16", "fe80::/64"],
                "multicast" => &["224.0.0.0/4", "ff00::/8"],
                other => &[other],
            };
            for prefix in named {
                match IpPrefix::parse(prefix) {
                    Ok(prefix) => self.0.push(prefix),
                    Err(error) => context.warn(error),
                }
            }
        }
        Ok(())
    }
}

word_enum! {
    /// What kind of socket a `Listen...=` directive asks for.
    ListenKind, "socket kind",
    Stream = "Stream", Datagram = "Datagram", SequentialPacket = "SequentialPacket", Fifo = "FIFO",
    Special = "Special", Netlink = "Netlink", MessageQueue = "MessageQueue", UsbFunction = "USBFunction",
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A path in the file system.
    Path(Box<str>),
    /// An abstract unix socket, without its `@`.
    Abstract(Box<str>),
    /// An address and a port, possibly with a network interface.
    Ip {
        /// Address and port.
        address: SocketAddr,
        /// The interface after `%`.
        interface: Option<Box<str>>,
    },
    /// A port on all addresses: IPv6 with IPv4 where the machine has IPv6, else IPv4.
    Port(u16),
    /// `vsock:CID:PORT`; the context id is `None` for any.
    Vsock {
        /// The context id.
        cid: Option<u32>,
        /// The port.
        port: u32,
    },
    /// A netlink family and multicast group.
    Netlink {
        /// The family's name.
        family: Box<str>,
        /// The group, 0 for none.
        group: u32,
    },
}

/// One `Listen...=` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The kind of the socket.
    pub kind: ListenKind,
    /// Its address.
    pub address: ListenAddress,
}

impl Listen {
    /// Reads the value of a `Listen...=` directive, specifiers already expanded.
    ///
    /// # Errors
    /// It is not an address of that kind.
    pub fn parse(kind: ListenKind, text: &str) -> Result<Self, ValueError> {
        let address = match kind {
            ListenKind::Stream | ListenKind::Datagram | ListenKind::SequentialPacket => {
                ListenAddress::parse_socket(text, kind)?
            }
            ListenKind::Fifo | ListenKind::Special | ListenKind::UsbFunction => {
                ListenAddress::Path(super::path::check_path(text, true)?.into())
            }
            ListenKind::MessageQueue => {
                let usable = text.len() > 1 && text.starts_with('/') && !text[1..].contains('/');
                if !usable {
                    return Err(ValueError::invalid(
                        text,
                        "a message queue name such as /name",
                    ));
                }
                ListenAddress::Path(text.into())
            }
            ListenKind::Netlink => parse_netlink(text)?,
        };
        Ok(Self { kind, address })
    }
}

fn parse_netlink(text: &str) -> Result<ListenAddress, ValueError> {
    const FAMILIES: &[&str] = &[
        "route",
        "unused",
        "usersock",
        "firewall",
        "sock-diag",
        "inet-diag",
        "nflog",
        "xfrm",
        "selinux",
        "iscsi",
        "audit",
        "fib-lookup",
        "connector",
        "netfilter",
        "ip6-fw",
        "dnrtmsg",
        "kobject-uevent",
        "generic",
        "scsitransport",
        "ecryptfs",
        "rdma",
    ];
    let invalid = || ValueError::invalid(text, "a netlink family, optionally with a group number");
    let mut words = text.split_whitespace();
    let family = words.next().ok_or_else(invalid)?;
    let group = match words.next() {
        None => 0,
        Some(group) => group.parse().map_err(|_| invalid())?,
    };
    let numeric = family.parse::<u32>().is_ok_and(|family| family < 32);
    if words.next().is_some() || !(numeric || FAMILIES.contains(&family)) {
        return Err(invalid());
    }
    Ok(ListenAddress::Netlink {
        family: family.into(),
        group,
    })
}

impl ListenAddress {
    fn parse_socket(text: &str, kind: ListenKind) -> Result<Self, ValueError> {
        let invalid =
            || ValueError::invalid(text, "a path, @name, port, address:port or vsock:CID:PORT");
        let address = if text.starts_with('/') {
            let path = super::path::check_path(text, true)?;
            if path.len() > 107 {
                return Err(ValueError::range(
                    text,
                    "at most 107 bytes for a unix socket",
                ));
            }
            Self::Path(path.into())
        } else if let Some(name) = text.strip_prefix('@') {
            if name.is_empty() || name.len() > 107 {
                return Err(ValueError::range(
                    text,
                    "1 to 107 bytes for an abstract socket",
                ));
            }
            Self::Abstract(name.into())
        } else if let Some(rest) = text.strip_prefix("vsock:") {
            let (cid, port) = rest.split_once(':').ok_or_else(invalid)?;
            let cid = if cid.is_empty() {
                None
            } else {
                Some(cid.parse().map_err(|_| invalid())?)
            };
            Self::Vsock {
                cid,
                port: port.parse().map_err(|_| invalid())?,
            }
        } else if text.bytes().all(|b| b.is_ascii_digit()) {
            Self::Port(
                text.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(invalid)?,
            )
        } else {
            let (address, interface) = match text.split_once('%') {
                Some((address, interface)) if !interface.is_empty() => {
                    (address, Some(interface.into()))
                }
                Some(_) => return Err(invalid()),
                None => (text, None),
            };
            let address = parse_ip_port(address).ok_or_else(invalid)?;
            if address.port() == 0 {
                return Err(invalid());
            }
            Self::Ip { address, interface }
        };
        let unix_only = kind == ListenKind::SequentialPacket;
        if unix_only
            && !matches!(
                address,
                Self::Path(_) | Self::Abstract(_) | Self::Vsock { .. }
            )
        {
            return Err(ValueError::invalid(
                text,
                "a unix socket, which sequential packets need",
            ));
        }
        Ok(address)
    }
}

fn parse_ip_port(text: &str) -> Option<SocketAddr> {
    if text.starts_with('[') {
        return text.parse().ok();
    }
    // Without brackets only IPv4 has an unambiguous port.
    let (address, port) = text.rsplit_once(':')?;
    Some(SocketAddr::V4(SocketAddrV4::new(
        address.parse().ok()?,
        port.parse().ok()?,
    )))
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Abstract(name) => write!(f, "@{name}"),
            Self::Ip {
                address,
                interface: None,
            } => write!(f, "{address}"),
            Self::Ip {
                address,
                interface: Some(interface),
            } => write!(f, "{address}%{interface}"),
            Self::Port(port) => write!(f, "[::]:{port}"),
            Self::Vsock {
                cid: Some(cid),
                port,
            } => write!(f, "vsock:{cid}:{port}"),
            Self::Vsock { cid: None, port } => write!(f, "vsock::{port}"),
            Self::Netlink { family, group } => write!(f, "{family} {group}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};
    use proptest::prelude::*;

    #[test]
    fn networks_are_masked_sorted_and_unique() {
        let mut list: IpPrefixes = read(&["10.1.2.3/8 localhost", "any 10.0.0.0/8"]);
        list.normalize();
        let shown: Vec<_> = list.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["0.0.0.0/0", "10.0.0.0/8", "127.0.0.0/8", "::/0", "::1/128"]
        );
        assert_eq!(
            assign(&mut IpPrefixes::default(), &["1.2.3.4/33 x ::/129"]).len(),
            3
        );
    }

    #[test]
    fn socket_addresses_have_many_forms() {
        let show = |kind, text| Listen::parse(kind, text).map(|l| l.address.to_string());
        for (text, shown) in [
            ("/run/a.sock", "/run/a.sock"),
            ("@abs", "@abs"),
            ("22", "[::]:22"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("[fe80::1]:80%eth0", "[fe80::1]:80%eth0"),
            ("vsock:2:1234", "vsock:2:1234"),
            ("vsock::5", "vsock::5"),
        ] {
            assert_eq!(
                show(ListenKind::Stream, text).as_deref(),
                Ok(shown),
                "{text}"
            );
        }
        for text in [
            "",
            "0",
            "65536",
            "::1:80",
            "a",
            "1.2.3.4",
            "1.2.3.4:0",
            "@",
            "vsock:x:1",
            "[::1]:80%",
        ] {
            assert!(show(ListenKind::Stream, text).is_err(), "{text}");
        }
        assert!(show(ListenKind::SequentialPacket, "80").is_err());
        assert_eq!(
            show(ListenKind::Netlink, "kobject-uevent 1").as_deref(),
            Ok("kobject-uevent 1")
        );
        assert!(show(ListenKind::Netlink, "nothing").is_err());
        assert!(show(ListenKind::MessageQueue, "/a/b").is_err());
        assert_eq!(show(ListenKind::Fifo, "/run//f").as_deref(), Ok("/run/f"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_panic(text in "[\\[\\]a-f0-9:.%/@ ]{0,25}") {
            for kind in [ListenKind::Stream, ListenKind::Netlink, ListenKind::MessageQueue, ListenKind::Fifo] {
                let _ = Listen::parse(kind, &text);
            }
            assign(&mut IpPrefixes::default(), &[&text]);
        }
    }
}
