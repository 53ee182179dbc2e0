//! What is wanted: who may reach whom.

use std::net::{IpAddr, Ipv4Addr};

use muster_api::domain::{FirewallRule, InvalidValue, PortRange, Subnet, TransportProtocol};

use crate::names::{InstanceId, LinkName};
use crate::subnet::Ipv4Subnet;

/// Why a policy was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// Text that is no subnet.
    #[error("a subnet cannot be read")]
    Subnet {
        /// What is wrong with it.
        source: InvalidValue,
    },
    /// Instances have IPv4 addresses.
    #[error("the subnet {subnet} is not IPv4")]
    SubnetNotIpv4 {
        /// The subnet.
        subnet: Subnet,
    },
    /// Instances have IPv4 addresses, and reach such.
    #[error("the address {address} of {instance} is not IPv4")]
    AddressNotIpv4 {
        /// Whose policy.
        instance: InstanceId,
        /// The address.
        address: IpAddr,
    },
    /// An address that its network does not have.
    #[error("the address {address} of {whose} is not in the network's subnet {subnet}")]
    OutsideSubnet {
        /// The instance, or the bridge.
        whose: String,
        /// The address.
        address: Ipv4Addr,
        /// The network's.
        subnet: Ipv4Subnet,
    },
    /// The node has that address.
    #[error("the address {address} of {instance} is the node's own on {bridge}")]
    NodeAddress {
        /// Whose policy.
        instance: InstanceId,
        /// The address.
        address: Ipv4Addr,
        /// The network's bridge.
        bridge: LinkName,
    },
    /// More rules than a chain should have.
    #[error("{instance} has more than {limit} {what}")]
    TooMany {
        /// Whose policy.
        instance: InstanceId,
        /// Of what.
        what: &'static str,
        /// At most.
        limit: usize,
    },
}

/// At most this many exposed ranges, and as many allowed connections, per instance: each is a rule.
pub const MAX_RULES: usize = 4096;

/// A network of instances behind a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    bridge: LinkName,
    subnet: Ipv4Subnet,
    node: Ipv4Addr,
    masquerade: bool,
}

impl NetworkPolicy {
    /// A network whose instances have addresses of `subnet`, and on which the node itself has the address `node`. Its
    /// traffic to the outside is masqueraded.
    pub fn new(bridge: LinkName, subnet: Ipv4Subnet, node: Ipv4Addr) -> Result<Self, PolicyError> {
        if !subnet.contains(node) {
            return Err(PolicyError::OutsideSubnet {
                whose: bridge.to_string(),
                address: node,
                subnet,
            });
        }
        Ok(Self {
            bridge,
            subnet,
            node,
            masquerade: true,
        })
    }

    /// Leaves the addresses of traffic to the outside as they are, for a network that others route to.
    #[must_use]
    pub fn without_masquerade(mut self) -> Self {
        self.masquerade = false;
        self
    }

    /// Its bridge.
    pub fn bridge(&self) -> &LinkName {
        &self.bridge
    }

    /// Its addresses.
    pub fn subnet(&self) -> Ipv4Subnet {
        self.subnet
    }

    /// The node's address in it, where names are asked for.
    pub fn node(&self) -> Ipv4Addr {
        self.node
    }

    /// Whether traffic to the outside gets the node's address.
    pub fn is_masqueraded(&self) -> bool {
        self.masquerade
    }

    /// How it is written down in the comment of a rule.
    pub(crate) fn record(&self) -> String {
        let masquerade = if self.masquerade { " masquerade" } else { "" };
        format!("{} {}{masquerade}", self.subnet, self.node)
    }

    /// Reads such a comment.
    pub(crate) fn from_record(bridge: LinkName, record: &str) -> Option<Self> {
        let mut words = record.split(' ');
        let subnet = words.next()?.parse().ok()?;
        let node = words.next()?.parse().ok()?;
        let network = Self::new(bridge, subnet, node).ok()?;
        match (words.next(), words.next()) {
            (None, None) => Some(network.without_masquerade()),
            (Some("masquerade"), None) => Some(network),
            _ => None,
        }
    }
}

/// A connection that an instance may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AllowedConnection {
    /// Where to.
    pub(crate) to: Ipv4Addr,
    /// By which protocol.
    pub(crate) protocol: TransportProtocol,
    /// To which ports.
    pub(crate) ports: PortRange,
}

/// What one instance may reach, and who may reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstancePolicy {
    pub(crate) instance: InstanceId,
    pub(crate) subnet: Ipv4Subnet,
    pub(crate) address: Ipv4Addr,
    pub(crate) same_subnet: bool,
    pub(crate) exposed: Vec<(TransportProtocol, PortRange)>,
    pub(crate) allowed: Vec<AllowedConnection>,
}

impl InstancePolicy {
    /// The strictest policy of an instance: the outside and the node's name server, and nothing else.
    pub fn new(
        instance: InstanceId,
        network: &NetworkPolicy,
        address: IpAddr,
    ) -> Result<Self, PolicyError> {
        let IpAddr::V4(address) = address else {
            return Err(PolicyError::AddressNotIpv4 { instance, address });
        };
        if !network.subnet.contains(address) {
            return Err(PolicyError::OutsideSubnet {
                whose: instance.to_string(),
                address,
                subnet: network.subnet,
            });
        }
        if address == network.node {
            return Err(PolicyError::NodeAddress {
                instance,
                address,
                bridge: network.bridge.clone(),
            });
        }
        Ok(Self {
            instance,
            subnet: network.subnet,
            address,
            same_subnet: false,
            exposed: Vec::new(),
            allowed: Vec::new(),
        })
    }

    /// Whether it talks freely with those of its subnet that do so too.
    #[must_use]
    pub fn same_subnet(mut self, open: bool) -> Self {
        self.same_subnet = open;
        self
    }

    /// Lets connections to these ports in, from anywhere.
    pub fn expose(
        mut self,
        ports: impl IntoIterator<Item = (TransportProtocol, PortRange)>,
    ) -> Result<Self, PolicyError> {
        self.exposed.extend(ports);
        self.check_count("exposed ports", self.exposed.len())?;
        Ok(self)
    }

    /// Lets connections out.
    ///
    /// A rule for another source than this instance's address can never be met, and is left out.
    pub fn allow<'a>(
        mut self,
        rules: impl IntoIterator<Item = &'a FirewallRule>,
    ) -> Result<Self, PolicyError> {
        for rule in rules {
            let IpAddr::V4(to) = rule.dst_ip else {
                return Err(PolicyError::AddressNotIpv4 {
                    instance: self.instance,
                    address: rule.dst_ip,
                });
            };
            if rule
                .src_ip
                .is_none_or(|from| from == IpAddr::V4(self.address))
            {
                self.allowed.push(AllowedConnection {
                    to,
                    protocol: rule.proto,
                    ports: rule.dst_port,
                });
            }
        }
        self.check_count("allowed connections", self.allowed.len())?;
        Ok(self)
    }

    fn check_count(&self, what: &'static str, count: usize) -> Result<(), PolicyError> {
        if count <= MAX_RULES {
            return Ok(());
        }
        Err(PolicyError::TooMany {
            instance: self.instance.clone(),
            what,
            limit: MAX_RULES,
        })
    }

    /// Whose policy it is.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// The instance's address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }
}
