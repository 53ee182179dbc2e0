//! Processing power: configured, or measured once and kept.
//!
//! # What is measured
//! DMIPS are passes of the Dhrystone program per second, divided by the 1757 that a VAX 11/780 made.
//! Instances ask for processor time in this unit, so a node has to say how much it has. [`measure`]
//! runs a program of our own with Dhrystone's mix of work (records copied, strings of 30 characters
//! compared, arrays indexed, calls, branches, integer arithmetic) and counts its passes over 200 ms
//! of the thread's own processor time, in ten rounds of which the best counts: being preempted, or
//! the clock's first ramp, does not lower the figure.
//!
//! One core's figure times the number of cores is the processor's; a second thread on a core adds
//! nothing, because it shares the units that this work needs.
//!
//! # What it is not
//! It is not Dhrystone, whose rules a program built with all of an optimiser's knowledge cannot
//! keep, and no figure to compare with a data sheet. It is the same on every Muster node of the same
//! build, which is what placing instances needs. See [`PASSES_PER_DHRYSTONE`] for how it is
//! tied to the unit. Where the unit matters, configure it.
//!
//! A build without optimisation measures a fraction; its figures are kept apart from the others.

mod cache;
mod workload;

use std::hint::black_box;
use std::num::NonZeroU64;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

pub use cache::{CacheError, DmipsCache};
use workload::Workload;

/// Passes of Dhrystone per second that are one DMIPS.
const VAX_DHRYSTONES_PER_SECOND: f64 = 1757.0;

/// How many passes of this program take as long as one of Dhrystone 2.1.
///
/// Fixed by running both on one machine (x86-64, Ice Lake at 2.8 GHz): Dhrystone 2.1 compiled by gcc
/// 12 with `-O2 -fno-inline`, in two files as its rules want it, made 33 million passes per second
/// (18 800 DMIPS), this program in a release build 26 million.
pub const PASSES_PER_DHRYSTONE: f64 = 0.8;

const ROUNDS: u32 = 10;
const ROUND: Duration = Duration::from_millis(20);
/// Passes between two looks at the clock: some microseconds.
const BATCH: u32 = 200;

/// The processing power of one core, in DMIPS, measured on the processor with this number. Takes
/// 200 ms of processor time; see the module documentation.
///
/// A thread of its own is pinned, so the caller stays where it is. Where pinning is refused, the
/// figure is that of whatever core the thread ran on.
#[must_use]
pub fn measure(cpu: u32) -> NonZeroU64 {
    let measured = thread::scope(|scope| {
        scope
            .spawn(move || {
                pin_to(cpu);
                passes_per_second()
            })
            .join()
    });
    to_dmips(measured.unwrap_or(0.0))
}

fn pin_to(cpu: u32) {
    let Ok(cpu) = usize::try_from(cpu) else {
        return;
    };
    if cpu < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Refused inside a cpuset without it; then the thread runs where it may.
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

fn to_dmips(passes_per_second: f64) -> NonZeroU64 {
    let dmips = passes_per_second / PASSES_PER_DHRYSTONE / VAX_DHRYSTONES_PER_SECOND;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer saturates, and a rate is not negative"
    )]
    let whole = dmips.round() as u64;
    NonZeroU64::new(whole).unwrap_or(NonZeroU64::MIN)
}

fn passes_per_second() -> f64 {
    let mut workload = Workload::new();
    let mut best: f64 = 0.0;
    for _ in 0..ROUNDS {
        let start = processor_time();
        let mut passes: u64 = 0;
        let spent = loop {
            for _ in 0..BATCH {
                black_box(&mut workload).pass();
            }
            passes += u64::from(BATCH);
            let spent = processor_time().saturating_sub(start);
            if spent >= ROUND {
                break spent;
            }
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "a round has fewer passes than a float has exact integers"
        )]
        let rate = passes as f64 / spent.as_secs_f64();
        best = best.max(rate);
    }
    best
}

/// The calling thread's own, so that others on the machine do not count.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// The processing power of one core of this model: from the cache, or measured and put there.
///
/// The cache only saves time: when it cannot be read or written the figure is measured all the same,
/// and the reason is handed back.
pub(crate) fn of_model(
    cache: Option<&Path>,
    model: &str,
    measure: impl FnOnce() -> NonZeroU64,
) -> (NonZeroU64, Option<CacheError>) {
    let Some(path) = cache else {
        return (measure(), None);
    };
    let (mut kept, problem) = match DmipsCache::load(path) {
        Ok(kept) => (kept, None),
        Err(error) => (DmipsCache::default(), Some(error)),
    };
    if let Some(dmips) = kept.get(model) {
        return (dmips, problem);
    }
    let dmips = measure();
    kept.insert(model, dmips);
    let problem = kept.save(path).err().or(problem);
    (dmips, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_power_and_the_caller_stays_unpinned() {
        let before = rustix::thread::sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU)
            .find(|cpu| before.is_set(*cpu))
            .unwrap();
        let dmips = measure(u32::try_from(first).unwrap()).get();
        // From an unoptimised build on a slow board to a fast one: a wrong unit would be outside.
        assert!((20..1_000_000).contains(&dmips), "{dmips} DMIPS");
        let after = rustix::thread::sched_getaffinity(None).unwrap();
        assert!((0..CpuSet::MAX_CPU).all(|cpu| before.is_set(cpu) == after.is_set(cpu)));
    }

    #[test]
    fn a_processor_that_does_not_exist_is_no_failure() {
        assert!(measure(u32::MAX).get() > 0);
    }

    #[test]
    fn rates_become_whole_dmips_and_never_none() {
        assert_eq!(to_dmips(0.0).get(), 1);
        assert_eq!(to_dmips(f64::NAN).get(), 1);
        assert_eq!(to_dmips(PASSES_PER_DHRYSTONE * 1757.0 * 5000.4).get(), 5000);
    }

    #[test]
    fn a_model_is_measured_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/dmips.json");
        let (first, problem) = of_model(Some(&path), "a", || NonZeroU64::new(7).unwrap());
        assert_eq!((first.get(), problem.is_none()), (7, true));
        let (again, problem) = of_model(Some(&path), "a", || panic!("it is kept"));
        assert_eq!((again.get(), problem.is_none()), (7, true));
        let (other, _) = of_model(Some(&path), "b", || NonZeroU64::new(9).unwrap());
        assert_eq!(other.get(), 9);
        let (still, _) = of_model(Some(&path), "a", || panic!("it is kept"));
        assert_eq!(still.get(), 7);
    }

    #[test]
    fn a_cache_that_cannot_be_used_is_said_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dmips.json");
        std::fs::write(&path, "{ not json").unwrap();
        let seven = || NonZeroU64::new(7).unwrap();
        let (dmips, problem) = of_model(Some(&path), "a", seven);
        assert_eq!(dmips.get(), 7);
        assert!(
            matches!(problem, Some(CacheError::Malformed { .. })),
            "{problem:?}"
        );
        assert!(
            of_model(Some(&path), "a", || panic!("it is kept"))
                .1
                .is_none()
        );
        let (_, problem) = of_model(Some(Path::new("/proc/no/dmips.json")), "a", seven);
        assert!(
            matches!(problem, Some(CacheError::Write { .. })),
            "{problem:?}"
        );
    }
}
