//! From counters of processor time to use of processors.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::snapshot::CpuUse;

/// Counters of the whole machine since it started, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    pub(crate) busy: u64,
    pub(crate) total: u64,
}

/// Use that is `part` of `whole` of everything.
fn share(part: u64, whole: u128, max_dmips: u64) -> Option<CpuUse> {
    if whole == 0 {
        return None;
    }
    // Counters are read a moment before or after the clock, so a busy machine can look more than busy.
    let part = u128::from(part).min(whole);
    let dmips = (part * u128::from(max_dmips)).saturating_add(whole / 2) / whole;
    // Basis points of a basis point are more than any of this is precise to.
    let fine = u32::try_from(part * 100_000_000 / whole).unwrap_or(u32::MAX);
    Some(CpuUse {
        dmips: u64::try_from(dmips).unwrap_or(max_dmips),
        percent: f64::from(fine) / 1_000_000.0,
    })
}

/// The node's use between two readings.
#[derive(Debug, Default)]
pub(crate) struct NodeCpu {
    last: Option<CpuTimes>,
}

impl NodeCpu {
    pub(crate) fn advance(&mut self, now: Option<CpuTimes>, max_dmips: u64) -> Option<CpuUse> {
        let (before, now) = (std::mem::replace(&mut self.last, now)?, now?);
        // Time spent waiting for disks may be corrected downwards.
        let total = now.total.saturating_sub(before.total);
        let busy = now.busy.saturating_sub(before.busy);
        share(busy, total.into(), max_dmips)
    }
}

/// Processor time of a group, in nanoseconds, and when it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupTime {
    pub(crate) nanos: u64,
    pub(crate) at: Duration,
}

/// A group's use between two readings.
#[derive(Debug, Default)]
pub(crate) struct GroupCpu {
    last: Option<GroupTime>,
}

impl GroupCpu {
    pub(crate) fn advance(
        &mut self,
        now: Option<GroupTime>,
        cores: NonZeroU64,
        max_dmips: u64,
    ) -> Option<CpuUse> {
        let (before, now) = (std::mem::replace(&mut self.last, now)?, now?);
        // A counter that goes back is that of a group made anew.
        let used = now.nanos.checked_sub(before.nanos)?;
        let passed = now.at.checked_sub(before.at)?.as_nanos();
        let possible = passed.saturating_mul(cores.get().into());
        share(used, possible, max_dmips)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CORES: NonZeroU64 = NonZeroU64::new(4).unwrap();

    fn time(nanos: u64, at_ms: u64) -> Option<GroupTime> {
        Some(GroupTime {
            nanos,
            at: Duration::from_millis(at_ms),
        })
    }

    #[test]
    fn the_node_is_as_busy_as_its_ticks() {
        let mut cpu = NodeCpu::default();
        let times = |busy, total| Some(CpuTimes { busy, total });
        assert_eq!(cpu.advance(times(100, 1000), 10_000), None, "it takes two");
        let used = cpu.advance(times(150, 1200), 10_000).unwrap();
        assert_eq!((used.dmips, used.percent), (2500, 25.0));
        assert_eq!(
            cpu.advance(times(150, 1200), 10_000),
            None,
            "no time passed"
        );
        assert_eq!(cpu.advance(None, 10_000), None);
        assert_eq!(
            cpu.advance(times(1, 2), 10_000),
            None,
            "nothing to compare with"
        );
    }

    #[test]
    fn a_group_is_measured_against_all_cores() {
        let mut cpu = GroupCpu::default();
        assert_eq!(cpu.advance(time(5_000_000_000, 0), CORES, 8000), None);
        // One of four cores for one second.
        let used = cpu.advance(time(6_000_000_000, 1000), CORES, 8000).unwrap();
        assert_eq!((used.dmips, used.percent), (2000, 25.0));
        // More than there is: the counter was read later than the clock.
        let used = cpu
            .advance(time(90_000_000_000, 2000), CORES, 8000)
            .unwrap();
        assert_eq!((used.dmips, used.percent), (8000, 100.0));
    }

    #[test]
    fn a_group_made_anew_or_a_clock_set_back_begins_again() {
        let mut cpu = GroupCpu::default();
        cpu.advance(time(5_000_000_000, 0), CORES, 8000);
        assert_eq!(cpu.advance(time(1_000, 1000), CORES, 8000), None);
        let used = cpu.advance(time(2_000_001_000, 2000), CORES, 8000).unwrap();
        assert_eq!(used.dmips, 4000);
        assert_eq!(cpu.advance(time(3_000_000_000, 1000), CORES, 8000), None);
        assert_eq!(cpu.advance(time(3_000_000_000, 1000), CORES, 8000), None);
        assert!(
            cpu.advance(time(3_000_000_000, 1001), CORES, 8000)
                .is_some()
        );
    }

    proptest! {
        #[test]
        fn no_reading_gives_more_than_everything(
            readings in prop::collection::vec(prop::option::of((any::<u64>(), any::<u64>())), 0..20),
            cores in 1..u64::MAX,
            max in any::<u64>(),
        ) {
            let (mut group, mut node) = (GroupCpu::default(), NodeCpu::default());
            let cores = NonZeroU64::new(cores).unwrap();
            for reading in readings {
                let time = reading.map(|(nanos, at)| GroupTime { nanos, at: Duration::from_nanos(at) });
                let times = reading.map(|(busy, total)| CpuTimes { busy, total });
                for used in [group.advance(time, cores, max), node.advance(times, max)].into_iter().flatten() {
                    prop_assert!(used.dmips <= max && (0.0..=100.0).contains(&used.percent));
                }
            }
        }
    }
}
