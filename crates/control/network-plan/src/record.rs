//! The allocations as they are written.

use std::net::Ipv4Addr;

use muster_api::domain::{
    InstanceIdent, InvalidValue, ItemId, ItemType, NodeId, OwnerId, SubjectId,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::allocations::{Allocations, Holder, Lease, Network};
use crate::block::{Block, InvalidBlock};
use crate::outcome::VlanId;
use crate::request::NetworkKey;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    generation: u64,
    networks: Vec<NetworkRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkRecord {
    of: KeyRecord,
    subnet: String,
    vlan: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released: Option<u64>,
    next: Ipv4Addr,
    leases: Vec<LeaseRecord>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeyRecord {
    Owner(String),
    Subject(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseRecord {
    ip: Ipv4Addr,
    holder: HolderRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum HolderRecord {
    Node(String),
    Instance {
        item: String,
        subject: String,
        instance: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        component: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        preinstalled: bool,
    },
}

/// Written allocations cannot be taken for any.
#[derive(Debug, Error)]
pub enum RestoreAllocationsError {
    /// An id breaks the rules for its kind.
    #[error("the allocations of network {network} hold an invalid id")]
    Id {
        /// Which network, as written.
        network: String,
        /// What is wrong.
        #[source]
        source: InvalidValue,
    },
    /// The subnet is none.
    #[error("the subnet of network {network} is invalid")]
    Subnet {
        /// Which network, as written.
        network: String,
        /// What is wrong.
        #[source]
        source: InvalidBlock,
    },
    /// The VLAN is none.
    #[error("network {network} has {vlan} as its VLAN, which is none")]
    Vlan {
        /// Which network, as written.
        network: String,
        /// Its number.
        vlan: u16,
    },
    /// An address belongs to nobody in the network.
    #[error("address {address} is not one of a host in network {network}")]
    Address {
        /// Which network, as written.
        network: String,
        /// Which address.
        address: Ipv4Addr,
    },
    /// Something is given out twice.
    #[error("network {network} has something that is given out twice")]
    Duplicate {
        /// Which network, as written.
        network: String,
    },
}

impl From<Holder> for HolderRecord {
    fn from(holder: Holder) -> Self {
        match holder {
            Holder::Node(node) => Self::Node(node.into()),
            Holder::Instance(ident) => Self::Instance {
                item: ident.item_id.into(),
                subject: ident.subject_id.into(),
                instance: ident.instance,
                component: ident.item_type == ItemType::Component,
                preinstalled: ident.preinstalled,
            },
        }
    }
}

impl TryFrom<HolderRecord> for Holder {
    type Error = InvalidValue;

    fn try_from(record: HolderRecord) -> Result<Self, InvalidValue> {
        match record {
            HolderRecord::Node(node) => NodeId::new(&node).map(Self::Node),
            HolderRecord::Instance {
                item,
                subject,
                instance,
                component,
                preinstalled,
            } => Ok(Self::Instance(InstanceIdent {
                item_id: ItemId::new(&item)?,
                subject_id: SubjectId::new(&subject)?,
                instance,
                item_type: match component {
                    true => ItemType::Component,
                    false => ItemType::Service,
                },
                preinstalled,
            })),
        }
    }
}

impl From<Allocations> for Record {
    fn from(allocations: Allocations) -> Self {
        let network = |(key, network): (NetworkKey, Network)| {
            let subnet = network.subnet;
            let lease = |(holder, lease): (Holder, Lease)| LeaseRecord {
                ip: subnet.address(lease.offset),
                holder: holder.into(),
                released: lease.released,
            };
            NetworkRecord {
                of: match key {
                    NetworkKey::Owner(owner) => KeyRecord::Owner(owner.into()),
                    NetworkKey::Subject(subject) => KeyRecord::Subject(subject.into()),
                },
                subnet: subnet.to_string(),
                vlan: network.vlan.get(),
                released: network.released,
                next: subnet.address(network.next),
                leases: network.leases.into_iter().map(lease).collect(),
            }
        };
        Self {
            generation: allocations.generation,
            networks: allocations.networks.into_iter().map(network).collect(),
        }
    }
}

impl TryFrom<Record> for Allocations {
    type Error = RestoreAllocationsError;

    fn try_from(record: Record) -> Result<Self, RestoreAllocationsError> {
        let mut allocations = Self {
            generation: record.generation,
            ..Self::default()
        };
        for written in record.networks {
            let name = match &written.of {
                KeyRecord::Owner(id) | KeyRecord::Subject(id) => id.clone(),
            };
            let (key, network) = written.read(&name)?;
            let mut others = allocations.networks.values();
            let clashes = others
                .any(|other| other.vlan == network.vlan || other.subnet.overlaps(network.subnet));
            if clashes || allocations.networks.insert(key, network).is_some() {
                return Err(RestoreAllocationsError::Duplicate { network: name });
            }
        }
        Ok(allocations)
    }
}

impl NetworkRecord {
    fn read(self, name: &str) -> Result<(NetworkKey, Network), RestoreAllocationsError> {
        let network = || name.to_owned();
        let invalid_id = |source| RestoreAllocationsError::Id {
            network: network(),
            source,
        };
        let key = match &self.of {
            KeyRecord::Owner(id) => OwnerId::new(id).map(NetworkKey::Owner),
            KeyRecord::Subject(id) => SubjectId::new(id).map(NetworkKey::Subject),
        };
        let key = key.map_err(invalid_id)?;
        let subnet: Result<Block, InvalidBlock> = self.subnet.parse();
        let subnet = subnet
            .and_then(|subnet| match subnet.last_offset() {
                // Too small for a host, a node and the two that belong to nobody.
                0..=3 => Err(InvalidBlock {
                    text: self.subnet.clone(),
                }),
                _ => Ok(subnet),
            })
            .map_err(|source| RestoreAllocationsError::Subnet {
                network: network(),
                source,
            })?;
        let vlan = VlanId::new(self.vlan).ok_or_else(|| RestoreAllocationsError::Vlan {
            network: network(),
            vlan: self.vlan,
        })?;
        let mut restored = Network::new(subnet, vlan);
        restored.released = self.released;
        restored.next = subnet.offset(self.next).unwrap_or_default();
        for lease in self.leases {
            let offset = subnet
                .offset(lease.ip)
                .filter(|offset| (Network::FIRST_HOST..=restored.last_host()).contains(offset))
                .ok_or_else(|| RestoreAllocationsError::Address {
                    network: network(),
                    address: lease.ip,
                })?;
            let holder = Holder::try_from(lease.holder).map_err(invalid_id)?;
            let released = lease.released;
            let known = restored.leases.insert(holder, Lease { offset, released });
            if known.is_some() || !restored.taken.insert(offset) {
                return Err(RestoreAllocationsError::Duplicate { network: network() });
            }
        }
        Ok((key, restored))
    }
}
