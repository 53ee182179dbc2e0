//! How much an instance needs.

use muster_api::domain::Percent;
use muster_item::{Quotas, RequestedResources};

/// Processing power and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// DMIPS.
    pub cpu: u64,
    /// Bytes.
    pub ram: u64,
}

impl Amounts {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            ram: self.ram.saturating_add(other.ram),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            ram: self.ram.saturating_sub(other.ram),
        }
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            ram: self.ram.max(other.ram),
        }
    }
}

/// A share of a quota, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u16);

impl Ratio {
    const WHOLE: u16 = 10_000;

    /// One half: what counts when nothing is configured.
    pub const HALF: Self = Self(Self::WHOLE / 2);

    /// This share of an amount, rounded down.
    pub fn of(self, amount: u64) -> u64 {
        let share = u128::from(amount) * u128::from(self.0) / u128::from(Self::WHOLE);
        // A share of at most the whole fits where the whole fitted.
        u64::try_from(share).unwrap_or(amount)
    }
}

impl From<Percent> for Ratio {
    fn from(percent: Percent) -> Self {
        let hundredths = (percent.get() * 100.0).round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a percentage lies between 0 and 100, so this is at most 10000"
        )]
        Self(hundredths as u16)
    }
}

/// Which share of a quota counts as need, for items that request nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratios {
    /// Of the CPU quota.
    pub cpu: Ratio,
    /// Of the memory quota.
    pub ram: Ratio,
}

impl Default for Ratios {
    fn default() -> Self {
        Self {
            cpu: Ratio::HALF,
            ram: Ratio::HALF,
        }
    }
}

/// Room for the data of instances, which the Unit keeps in one place for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPools {
    /// Bytes for storage; not limited if absent.
    pub storage: Option<u64>,
    /// Bytes for states; not limited if absent.
    pub state: Option<u64>,
    /// Which share of the storage quota counts as need.
    pub storage_ratio: Ratio,
    /// Which share of the state quota counts as need.
    pub state_ratio: Ratio,
}

impl Default for DataPools {
    fn default() -> Self {
        Self {
            storage: None,
            state: None,
            storage_ratio: Ratio::HALF,
            state_ratio: Ratio::HALF,
        }
    }
}

/// Storage and state of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Data {
    pub(crate) storage: u64,
    pub(crate) state: u64,
}

/// A request is cut to the quota; without one a share of the quota counts.
fn need(requested: Option<u64>, quota: Option<u64>, ratio: Ratio) -> u64 {
    match (requested, quota) {
        (Some(requested), Some(quota)) => requested.min(quota),
        (Some(requested), None) => requested,
        (None, Some(quota)) => ratio.of(quota),
        (None, None) => 0,
    }
}

pub(crate) fn amounts(requested: &RequestedResources, quotas: &Quotas, ratios: &Ratios) -> Amounts {
    Amounts {
        cpu: need(requested.cpu, quotas.cpu_dmips_limit, ratios.cpu),
        ram: need(requested.ram, quotas.ram_limit, ratios.ram),
    }
}

pub(crate) fn data(requested: &RequestedResources, quotas: &Quotas, pools: &DataPools) -> Data {
    Data {
        storage: need(requested.storage, quotas.storage_limit, pools.storage_ratio),
        state: need(requested.state, quotas.state_limit, pools.state_ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_to_quotas_and_replaced_by_shares_of_them() {
        let quarter = Ratio::from(Percent::new(25.0).unwrap());
        let cases = [
            (Some(10), Some(100), 10),
            (Some(200), Some(100), 100),
            (Some(200), None, 200),
            (None, Some(100), 25),
            (None, None, 0),
            (None, Some(u64::MAX), u64::MAX / 4),
        ];
        for (requested, quota, expected) in cases {
            assert_eq!(
                need(requested, quota, quarter),
                expected,
                "{requested:?} {quota:?}"
            );
        }
        assert_eq!(Ratio::HALF.of(7), 3);
        assert_eq!(
            Ratio::from(Percent::new(100.0).unwrap()).of(u64::MAX),
            u64::MAX
        );
    }
}
