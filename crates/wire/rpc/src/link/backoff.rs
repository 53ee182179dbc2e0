//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// Bounds of the waiting time between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffLimits {
    /// No wait is shorter.
    pub floor: Duration,
    /// Upper end of the first wait; it doubles with every further failure.
    pub first: Duration,
    /// No wait is longer.
    pub ceiling: Duration,
    /// How long a stream must have lived, heard from the peer included, to count as healthy.
    pub healthy_after: Duration,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        Self {
            floor: Duration::from_secs(1),
            first: Duration::from_secs(3),
            ceiling: Duration::from_secs(30),
            healthy_after: Duration::from_secs(10),
        }
    }
}

/// Counts failures in a row and turns them into waits, with full jitter: a fleet that lost its
/// controller in one instant does not come back in one instant.
#[derive(Debug)]
pub(super) struct Backoff {
    limits: BackoffLimits,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(limits: BackoffLimits) -> Self {
        Self {
            limits,
            failures: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    pub(super) fn healthy_after(&self) -> Duration {
        self.limits.healthy_after
    }

    /// The wait after one more failure: uniform between floor and the current upper end.
    pub(super) fn next(&mut self, random: u64) -> Duration {
        let top = self
            .limits
            .first
            .saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX))
            .min(self.limits.ceiling)
            .max(self.limits.floor);
        self.failures = self.failures.saturating_add(1).min(31);
        let span = u64::try_from((top - self.limits.floor).as_nanos()).unwrap_or(u64::MAX);
        // The high half of the product spreads `random` evenly over the span without a division.
        let offset = (u128::from(random) * (u128::from(span) + 1)) >> 64;
        self.limits.floor + Duration::from_nanos(u64::try_from(offset).unwrap_or(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_from_first_to_ceiling_and_resets() {
        let mut backoff = Backoff::new(BackoffLimits::default());
        let seconds = |d: Duration| d.as_secs();
        let tops: Vec<_> = (0..6).map(|_| seconds(backoff.next(u64::MAX))).collect();
        assert_eq!(tops, [3, 6, 12, 24, 30, 30]);
        assert_eq!(backoff.next(0), Duration::from_secs(1));
        backoff.reset();
        assert_eq!(seconds(backoff.next(u64::MAX)), 3);
    }

    #[test]
    fn a_ceiling_below_the_floor_still_waits_the_floor() {
        let floor = Duration::from_secs(2);
        let ceiling = Duration::from_millis(5);
        let limits = BackoffLimits {
            floor,
            ceiling,
            ..BackoffLimits::default()
        };
        let mut backoff = Backoff::new(limits);
        for random in [0, 7, u64::MAX] {
            assert_eq!(backoff.next(random), floor);
        }
    }

    #[test]
    fn very_many_failures_do_not_overflow() {
        let mut backoff = Backoff::new(BackoffLimits::default());
        for _ in 0..100 {
            let wait = backoff.next(u64::MAX);
            assert!(wait <= Duration::from_secs(30), "{wait:?}");
        }
    }
}
