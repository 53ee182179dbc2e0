//! Who has what, and who may have more. Pure.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::InstanceIdent;
use muster_item::ResourceRequest;
use muster_runtime::ResourceGrant;

use crate::access::Access;
use crate::presence::Missing;
use crate::refusal::{AllocateError, NAMED, Refusal, RefusalReason};
use crate::table::ResourceTable;

/// Characters of an item's text that a refusal repeats.
const SHOWN: usize = 64;

/// Which instance has which resources. Instances that have none are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    holds: BTreeMap<InstanceIdent, BTreeSet<String>>,
}

/// What an instance gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Names of the resources that it has from now on.
    pub names: BTreeSet<String>,
    /// What they give it.
    pub grants: Vec<ResourceGrant>,
}

impl Ledger {
    /// What an instance has.
    pub fn held_by(&self, instance: &InstanceIdent) -> Option<&BTreeSet<String>> {
        self.holds.get(instance)
    }

    /// Who has a resource.
    pub fn holders<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a InstanceIdent> {
        let holds = self.holds.iter();
        holds
            .filter(move |(_, names)| names.contains(resource))
            .map(|(instance, _)| instance)
    }

    /// Every instance with every resource that it has.
    pub fn iter(&self) -> impl Iterator<Item = (&InstanceIdent, &str)> {
        let holds = self.holds.iter();
        holds.flat_map(|(instance, names)| names.iter().map(move |name| (instance, name.as_str())))
    }

    /// What an instance would get, all or nothing, instead of what it has. Changes nothing.
    ///
    /// # Errors
    /// Why it does not get some of it.
    pub fn plan(
        &self,
        table: &ResourceTable,
        missing: &Missing,
        instance: &InstanceIdent,
        requests: &[ResourceRequest],
    ) -> Result<Allocation, AllocateError> {
        let mut wanted: BTreeMap<&str, Access> = BTreeMap::new();
        let mut refusals = Refusals::default();
        for request in requests {
            match Access::of_mode(request.mode.as_deref()) {
                Ok(access) => {
                    let entry = wanted.entry(&request.name).or_insert(access);
                    *entry = entry.or(access);
                }
                Err(source) => {
                    let mode = request.mode.as_deref().unwrap_or_default();
                    let mode = mode.chars().take(SHOWN).collect();
                    refusals.add(&request.name, RefusalReason::Mode { mode, source });
                }
            }
        }
        let mut grants = Vec::with_capacity(wanted.len());
        for (name, access) in &wanted {
            match self.refuse(table, missing, instance, name) {
                Some(reason) => refusals.add(name, reason),
                None => grants.extend(table.get(name).map(|resource| resource.grant(*access))),
            }
        }
        refusals.into_result()?;
        Ok(Allocation {
            names: wanted.into_keys().map(str::to_owned).collect(),
            grants,
        })
    }

    fn refuse(
        &self,
        table: &ResourceTable,
        missing: &Missing,
        instance: &InstanceIdent,
        name: &str,
    ) -> Option<RefusalReason> {
        let Some(resource) = table.get(name) else {
            return Some(RefusalReason::Unknown);
        };
        let absent = |device| Some((device, missing.get(device)?));
        if let Some((path, absence)) = resource.devices().find_map(absent) {
            return Some(RefusalReason::Device {
                path: path.to_owned(),
                absence: absence.clone(),
            });
        }
        // Whoever has a share keeps it, also when there are fewer now.
        if self
            .held_by(instance)
            .is_some_and(|held| held.contains(name))
        {
            return None;
        }
        let shares = resource.shares()?;
        let taken = self.holders(name).count();
        if u64::try_from(taken).is_ok_and(|taken| taken < shares.get()) {
            return None;
        }
        Some(RefusalReason::Taken {
            shares,
            holders: self.holders(name).take(NAMED).cloned().collect(),
            more: taken.saturating_sub(NAMED),
        })
    }

    /// From now on the instance has exactly these.
    pub fn hold(&mut self, instance: &InstanceIdent, names: BTreeSet<String>) {
        if names.is_empty() {
            self.holds.remove(instance);
        } else {
            self.holds.insert(instance.clone(), names);
        }
    }

    /// From now on the instance has nothing.
    pub fn release(&mut self, instance: &InstanceIdent) {
        self.holds.remove(instance);
    }

    /// Who has something without being one of these.
    pub fn others(&self, instances: &BTreeSet<InstanceIdent>) -> Vec<InstanceIdent> {
        let other = |instance: &&InstanceIdent| !instances.contains(*instance);
        self.holds.keys().filter(other).cloned().collect()
    }

    /// Resources that instances have and that are not whole any more, with the reason.
    pub fn troubles(
        &self,
        table: &ResourceTable,
        missing: &Missing,
    ) -> BTreeMap<(InstanceIdent, String), RefusalReason> {
        // Shares do not matter here: each of them has what it has.
        let trouble = |(instance, name): (&InstanceIdent, &str)| {
            let reason = self.refuse(table, missing, instance, name)?;
            Some(((instance.clone(), name.to_owned()), reason))
        };
        self.iter().filter_map(trouble).collect()
    }
}

/// Refusals, the first of them in full.
#[derive(Default)]
struct Refusals {
    named: Vec<Refusal>,
    more: usize,
}

impl Refusals {
    fn add(&mut self, resource: &str, reason: RefusalReason) {
        if self.named.len() == NAMED {
            self.more += 1;
            return;
        }
        let resource = resource.chars().take(SHOWN).collect();
        self.named.push(Refusal { resource, reason });
    }

    fn into_result(self) -> Result<(), AllocateError> {
        if self.named.is_empty() {
            return Ok(());
        }
        Err(AllocateError {
            refusals: self.named,
            more: self.more,
        })
    }
}

#[cfg(test)]
mod tests;
