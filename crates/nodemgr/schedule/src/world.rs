//! What is allowed, and what there is already.

use std::collections::BTreeMap;

use muster_provider::{Quota, Used};
use muster_template::ProviderId;

use crate::candidate::Candidate;

/// How many machines there are in each zone of a region.
type ByZone = BTreeMap<Option<String>, u64>;

/// What is allowed, and what there is already.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct World {
    quotas: BTreeMap<ProviderId, Quota>,
    used: BTreeMap<ProviderId, Used>,
    /// Machines by what fails together: the region of a provider, and a zone of it.
    domains: BTreeMap<ProviderId, BTreeMap<Option<String>, ByZone>>,
}

impl World {
    /// Limits what may be used of a provider.
    pub fn limit(&mut self, provider: ProviderId, quota: Quota) {
        self.quotas.insert(provider, quota);
    }

    /// Counts a machine that there is, or that was chosen: a new one for quota and spread, an existing one, which is counted
    /// already, for nothing.
    pub fn take(&mut self, candidate: &Candidate) {
        if candidate.is_new() {
            let used = self.used.entry(candidate.provider).or_default();
            count(used, candidate);
            let regions = self.domains.entry(candidate.provider).or_default();
            let zones = regions.entry(candidate.region.clone()).or_default();
            *zones.entry(candidate.zone.clone()).or_default() += 1;
        }
    }

    fn quota(&self, provider: ProviderId) -> Quota {
        self.quotas.get(&provider).copied().unwrap_or_default()
    }

    fn used(&self, provider: ProviderId) -> Used {
        self.used.get(&provider).copied().unwrap_or_default()
    }

    /// Whether a new machine would pass a limit.
    pub(crate) fn is_full_for(&self, candidate: &Candidate) -> bool {
        if !candidate.is_new() {
            return false;
        }
        let mut used = self.used(candidate.provider);
        count(&mut used, candidate);
        self.quota(candidate.provider).is_passed_by(&used)
    }

    /// What is limited and nobody has set of a new machine, so that it counts for nothing.
    pub(crate) fn uncounted(&self, candidate: &Candidate) -> Option<&'static str> {
        if !candidate.is_new() {
            return None;
        }
        let quota = self.quota(candidate.provider);
        let cpus = quota.cpus.is_some() && candidate.room.cpus.is_none();
        let memory = quota.memory_mb.is_some() && candidate.room.memory_mb.is_none();
        match (cpus, memory) {
            (true, true) => Some("cpus and memory"),
            (true, false) => Some("cpus"),
            (false, true) => Some("memory"),
            (false, false) => None,
        }
    }

    /// The limits of a provider, and what is used of them.
    pub(crate) fn quota_text(&self, provider: ProviderId) -> String {
        self.quota(provider).describe(&self.used(provider))
    }

    /// How many machines stand where a candidate would.
    pub(crate) fn neighbours(&self, candidate: &Candidate) -> u64 {
        let regions = self.domains.get(&candidate.provider);
        let zones = regions.and_then(|regions| regions.get(&candidate.region));
        let count = zones.and_then(|zones| zones.get(&candidate.zone));
        count.copied().unwrap_or(0)
    }
}

fn count(used: &mut Used, candidate: &Candidate) {
    let room = candidate.room;
    used.add(room.cpus.map(u64::from), room.memory_mb);
}
