//! What is allowed, and what there is already.

use std::collections::BTreeMap;

use muster_template::ProviderId;

use crate::candidate::Candidate;

/// So much of a provider's resources. As a limit, what is unset has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// Machines.
    pub machines: Option<u64>,
    /// Virtual processors.
    pub cpus: Option<u64>,
    /// Memory in MiB.
    pub memory_mb: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Used {
    machines: u64,
    cpus: u64,
    memory_mb: u64,
}

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
            used.machines += 1;
            used.cpus += u64::from(candidate.room.cpus.unwrap_or(0));
            used.memory_mb = used
                .memory_mb
                .saturating_add(candidate.room.memory_mb.unwrap_or(0));
            let regions = self.domains.entry(candidate.provider).or_default();
            let zones = regions.entry(candidate.region.clone()).or_default();
            *zones.entry(candidate.zone.clone()).or_default() += 1;
        }
    }

    /// Whether a new machine would pass a limit. What it has and is not known would.
    pub(crate) fn is_full_for(&self, candidate: &Candidate) -> bool {
        let Some(quota) = self.quotas.get(&candidate.provider) else {
            return false;
        };
        if !candidate.is_new() {
            return false;
        }
        let used = self
            .used
            .get(&candidate.provider)
            .copied()
            .unwrap_or_default();
        let passes = |limit: Option<u64>, used: u64, more: Option<u64>| {
            limit.is_some_and(|limit| more.is_none_or(|more| used.saturating_add(more) > limit))
        };
        passes(quota.machines, used.machines, Some(1))
            || passes(quota.cpus, used.cpus, candidate.room.cpus.map(u64::from))
            || passes(quota.memory_mb, used.memory_mb, candidate.room.memory_mb)
    }

    /// The limits of a provider, and what is used of them.
    pub(crate) fn quota_text(&self, provider: ProviderId) -> String {
        let quota = self.quotas.get(&provider).copied().unwrap_or_default();
        let used = self.used.get(&provider).copied().unwrap_or_default();
        let part = |what: &str, used: u64, limit: Option<u64>| {
            limit.map(|limit| format!("{used} of {limit} {what}"))
        };
        let parts = [
            part("machines", used.machines, quota.machines),
            part("cpus", used.cpus, quota.cpus),
            part("MiB of memory", used.memory_mb, quota.memory_mb),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        parts.join(", ")
    }

    /// How many machines stand where a candidate would.
    pub(crate) fn neighbours(&self, candidate: &Candidate) -> u64 {
        let regions = self.domains.get(&candidate.provider);
        let zones = regions.and_then(|regions| regions.get(&candidate.region));
        let count = zones.and_then(|zones| zones.get(&candidate.zone));
        count.copied().unwrap_or(0)
    }
}
