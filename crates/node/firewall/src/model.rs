//! What there is, what shall change, and what has to change for a wanted whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crate::names::{InstanceId, LinkName};
use crate::policy::{InstancePolicy, NetworkPolicy};

/// What the kernel has of Muster's rules, as the backend reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Whether there is anything at all; if not, the next change lays the foundations.
    pub(crate) founded: bool,
    /// Chains of others that should lead to Muster's and do not; nftables has no such chains.
    pub(crate) missing_hooks: Vec<&'static str>,
    pub(crate) networks: BTreeMap<LinkName, NetworkPolicy>,
    pub(crate) instances: BTreeMap<InstanceId, Ipv4Addr>,
    pub(crate) meters: BTreeMap<InstanceId, Ipv4Addr>,
}

impl Installed {
    pub(crate) fn is_complete(&self) -> bool {
        self.founded && self.missing_hooks.is_empty()
    }

    /// The networks that have rules.
    pub fn networks(&self) -> impl Iterator<Item = &NetworkPolicy> {
        self.networks.values()
    }

    /// The instances that have rules, with their addresses.
    pub fn instances(&self) -> impl Iterator<Item = (&InstanceId, Ipv4Addr)> {
        self.instances
            .iter()
            .map(|(instance, address)| (instance, *address))
    }

    /// The instances whose traffic is counted, with their addresses.
    pub fn meters(&self) -> impl Iterator<Item = (&InstanceId, Ipv4Addr)> {
        self.meters
            .iter()
            .map(|(instance, address)| (instance, *address))
    }

    /// The instances that have rules or meters, and are none of these.
    pub fn leftovers(&self, known: &BTreeSet<InstanceId>) -> BTreeSet<InstanceId> {
        let all = self.instances.keys().chain(self.meters.keys());
        all.filter(|instance| !known.contains(*instance))
            .cloned()
            .collect()
    }
}

/// Who has an address.
pub(crate) fn owner(
    owners: &BTreeMap<InstanceId, Ipv4Addr>,
    address: Ipv4Addr,
) -> Option<InstanceId> {
    let found = owners.iter().find(|(_, owned)| **owned == address);
    found.map(|(instance, _)| instance.clone())
}

/// Counts an instance's traffic with the outside, and stops it if told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// Whose traffic.
    pub instance: InstanceId,
    /// Its address.
    pub address: Ipv4Addr,
    /// Nothing from the outside reaches it.
    pub download_blocked: bool,
    /// Nothing of it reaches the outside.
    pub upload_blocked: bool,
}

/// One change of the rules. Changes are idempotent: to put what is there, or to remove what is not, is no error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A network's rules, new or other than before.
    PutNetwork(NetworkPolicy),
    /// No rules for this bridge any more.
    RemoveNetwork(LinkName),
    /// An instance's rules, new or other than before. An address that another had is this one's now, and the other has
    /// no rules, and so no connections, any more.
    PutInstance(InstancePolicy),
    /// No rules for this instance any more: it neither sends nor receives.
    RemoveInstance(InstanceId),
    /// A meter, new or other than before. What it has counted stays.
    PutMeter(Meter),
    /// No meter any more.
    RemoveMeter(InstanceId),
}

/// All networks and instances that shall have rules. Meters are not among them: who counts looks after them.
#[derive(Debug, Clone, Default)]
pub struct Desired {
    /// The networks.
    pub networks: Vec<NetworkPolicy>,
    /// The instances.
    pub instances: Vec<InstancePolicy>,
}

/// What turns the installed rules into the wanted ones.
///
/// What goes, goes first: its addresses may be another's by then. It is one step all the same. Instances that stay are written
/// anew, because only their presence can be read back, not their rules.
pub fn plan(installed: &Installed, desired: &Desired) -> Vec<Change> {
    let bridges: BTreeSet<_> = desired.networks.iter().map(NetworkPolicy::bridge).collect();
    let wanted: BTreeSet<_> = desired
        .instances
        .iter()
        .map(InstancePolicy::instance)
        .collect();
    let new_networks = desired
        .networks
        .iter()
        .filter(|network| installed.networks.get(network.bridge()) != Some(network))
        .cloned()
        .map(Change::PutNetwork);
    let gone_instances = installed
        .instances
        .keys()
        .filter(|instance| !wanted.contains(instance))
        .cloned()
        .map(Change::RemoveInstance);
    let instances = desired.instances.iter().cloned().map(Change::PutInstance);
    let gone_networks = installed
        .networks
        .keys()
        .filter(|bridge| !bridges.contains(bridge))
        .cloned()
        .map(Change::RemoveNetwork);
    gone_instances
        .chain(gone_networks)
        .chain(new_networks)
        .chain(instances)
        .collect()
}

/// Bytes that a meter has counted since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// From the outside.
    pub download: u64,
    /// To the outside.
    pub upload: u64,
}

/// What all meters have counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    pub(crate) system: Amounts,
    /// By [`InstanceId::tag`].
    pub(crate) instances: BTreeMap<String, Amounts>,
}

impl Counters {
    /// Readings from elsewhere than the kernel.
    pub fn new(
        system: Amounts,
        instances: impl IntoIterator<Item = (InstanceId, Amounts)>,
    ) -> Self {
        let tagged = |(instance, amounts): (InstanceId, Amounts)| (instance.tag(), amounts);
        Self {
            system,
            instances: instances.into_iter().map(tagged).collect(),
        }
    }

    /// The node's: its own traffic with the outside, and that of its instances.
    pub fn system(&self) -> Amounts {
        self.system
    }

    /// An instance's, if it has a meter.
    pub fn instance(&self, instance: &InstanceId) -> Option<Amounts> {
        self.instances.get(&instance.tag()).copied()
    }
}
