//! What was given out: subnets, VLANs and addresses, and who had them last.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use muster_api::domain::{InstanceIdent, NodeId};

use crate::block::{Block, SubnetPool};
use crate::outcome::VlanId;
use crate::request::NetworkKey;

/// Who has an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    Node(NodeId),
    Instance(InstanceIdent),
}

/// An address, and since which release it is nobody's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) offset: u32,
    pub(crate) released: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) subnet: Block,
    pub(crate) vlan: VlanId,
    /// Since which release it is nobody's.
    pub(crate) released: Option<u64>,
    /// Where the search for an address goes on.
    pub(crate) next: u32,
    pub(crate) leases: BTreeMap<Holder, Lease>,
    /// The offsets of all leases.
    pub(crate) taken: BTreeSet<u32>,
}

impl Network {
    /// The network itself and its first host are nobody's.
    pub(crate) const FIRST_HOST: u32 = 2;

    pub(crate) fn new(subnet: Block, vlan: VlanId) -> Self {
        Self {
            subnet,
            vlan,
            released: None,
            next: Self::FIRST_HOST,
            leases: BTreeMap::new(),
            taken: BTreeSet::new(),
        }
    }

    /// The last address is for broadcasts.
    pub(crate) fn last_host(&self) -> u32 {
        self.subnet.last_offset() - 1
    }

    fn free_offset(&self) -> Option<u32> {
        let (first, last) = (Self::FIRST_HOST, self.last_host());
        let start = self.next.clamp(first, last);
        let free = |from: u32, to: u32| {
            let mut candidate = from;
            for taken in self.taken.range(from..=to) {
                if *taken != candidate {
                    break;
                }
                candidate += 1;
            }
            (candidate <= to).then_some(candidate)
        };
        free(start, last).or_else(|| free(first, start))
    }

    /// Who gave an address back first.
    fn oldest_released(&self) -> Option<Holder> {
        let released = self.leases.iter();
        let released = released.filter_map(|(holder, lease)| Some((lease.released?, holder)));
        released.min().map(|(_, holder)| holder.clone())
    }

    /// The holder's address, the one it had last, or a new one.
    pub(crate) fn lease(&mut self, holder: &Holder) -> Option<Ipv4Addr> {
        if let Some(lease) = self.leases.get_mut(holder) {
            lease.released = None;
            return Some(self.subnet.address(lease.offset));
        }
        let offset = match self.free_offset() {
            Some(offset) => offset,
            None => {
                let oldest = self.oldest_released()?;
                let lease = self.leases.remove(&oldest)?;
                self.taken.remove(&lease.offset);
                lease.offset
            }
        };
        self.taken.insert(offset);
        self.next = match offset == self.last_host() {
            true => Self::FIRST_HOST,
            false => offset + 1,
        };
        let lease = Lease {
            offset,
            released: None,
        };
        self.leases.insert(holder.clone(), lease);
        Some(self.subnet.address(offset))
    }

    /// Gives back what `keeps` does not keep; whether there was any.
    fn release(&mut self, generation: u64, keeps: impl Fn(&Holder) -> bool) -> bool {
        let mut any = false;
        for (holder, lease) in &mut self.leases {
            if lease.released.is_none() && !keeps(holder) {
                lease.released = Some(generation);
                any = true;
            }
        }
        any
    }

    /// Forgets who gave back longest ago, until so many are left.
    fn forget(&mut self, remember: usize) {
        let released = self.leases.iter();
        let mut released: Vec<(u64, Holder)> = released
            .filter_map(|(holder, lease)| Some((lease.released?, holder.clone())))
            .collect();
        released.sort_unstable();
        let surplus = released.len().saturating_sub(remember);
        for (_, holder) in released.into_iter().take(surplus) {
            if let Some(lease) = self.leases.remove(&holder) {
                self.taken.remove(&lease.offset);
            }
        }
    }
}

/// Why there is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exhausted {
    Subnets,
    Vlans,
}

/// What was given out.
///
/// Made by a plan from the one before, and kept by the caller as whatever serde writes. It must be durable before the plan is
/// carried out.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "crate::record::Record", into = "crate::record::Record")]
pub struct Allocations {
    pub(crate) networks: BTreeMap<NetworkKey, Network>,
    /// Counts plans in which something was given back.
    pub(crate) generation: u64,
}

impl Allocations {
    /// Gives back all that is not wanted any more.
    pub(crate) fn release(&mut self, wanted: &BTreeMap<NetworkKey, BTreeSet<Holder>>) {
        let generation = self.generation + 1;
        let mut any = false;
        for (key, network) in &mut self.networks {
            let holders = wanted.get(key);
            any |= network.release(generation, |holder| {
                holders.is_some_and(|holders| holders.contains(holder))
            });
            if holders.is_none() && network.released.is_none() {
                network.released = Some(generation);
                any = true;
            }
        }
        if any {
            self.generation = generation;
        }
    }

    /// The network of a key, the one it had last, or a new one.
    pub(crate) fn network(
        &mut self,
        key: &NetworkKey,
        pool: &SubnetPool,
        foreign: &[Block],
    ) -> Result<&mut Network, Exhausted> {
        let in_the_way = |subnet: Block| foreign.iter().any(|other| other.overlaps(subnet));
        // Nobody runs in a network that was given back, so it may be renumbered.
        let outdated = self
            .networks
            .get(key)
            .is_some_and(|network| network.released.is_some() && in_the_way(network.subnet));
        if outdated {
            self.networks.remove(key);
        }
        if !self.networks.contains_key(key) {
            let subnet = self
                .find_subnet(pool, in_the_way)
                .ok_or(Exhausted::Subnets)?;
            let vlan = self.find_vlan().ok_or(Exhausted::Vlans)?;
            self.networks
                .insert(key.clone(), Network::new(subnet, vlan));
        }
        let network = self.networks.get_mut(key).ok_or(Exhausted::Subnets)?;
        network.released = None;
        Ok(network)
    }

    pub(crate) fn subnet_of(&self, key: &NetworkKey) -> Option<Block> {
        self.networks.get(key).map(|network| network.subnet)
    }

    fn oldest_released(&self, is_useful: impl Fn(&Network) -> bool) -> Option<NetworkKey> {
        let released = self
            .networks
            .iter()
            .filter(|(_, network)| is_useful(network));
        let released = released.filter_map(|(key, network)| Some((network.released?, key)));
        released.min().map(|(_, key)| key.clone())
    }

    /// One that nobody has, else the one that was given back longest ago.
    fn find_subnet(
        &mut self,
        pool: &SubnetPool,
        in_the_way: impl Fn(Block) -> bool,
    ) -> Option<Block> {
        loop {
            let is_free = |subnet: &Block| {
                let mut networks = self.networks.values();
                !in_the_way(*subnet) && !networks.any(|other| other.subnet.overlaps(*subnet))
            };
            if let Some(subnet) = pool.subnets().find(is_free) {
                return Some(subnet);
            }
            // Of another pool, one that was given back may hide several subnets or none.
            let hides = |network: &Network| {
                let mut subnets = pool.subnets();
                subnets.any(|subnet| !in_the_way(subnet) && subnet.overlaps(network.subnet))
            };
            let oldest = self.oldest_released(hides)?;
            self.networks.remove(&oldest);
        }
    }

    fn find_vlan(&mut self) -> Option<VlanId> {
        loop {
            let taken: BTreeSet<VlanId> = self.networks.values().map(|own| own.vlan).collect();
            let mut all = (VlanId::FIRST..=VlanId::LAST).filter_map(VlanId::new);
            if let Some(vlan) = all.find(|vlan| !taken.contains(vlan)) {
                return Some(vlan);
            }
            let oldest = self.oldest_released(|_| true)?;
            self.networks.remove(&oldest);
        }
    }

    /// Forgets who gave something back longest ago, until so many are left.
    pub(crate) fn forget(&mut self, remember: usize) {
        for network in self.networks.values_mut() {
            network.forget(remember);
        }
        let released = self.networks.values();
        let released = released
            .filter(|network| network.released.is_some())
            .count();
        for _ in remember..released {
            if let Some(oldest) = self.oldest_released(|_| true) {
                self.networks.remove(&oldest);
            }
        }
    }
}
