//! How often something may happen: so many times at once, then once per interval.

use std::time::Duration;

#[derive(Debug)]
pub(super) struct Rate {
    interval: Duration,
    tolerance: Duration,
    /// When the last one would have happened, had they all kept the interval.
    next: Duration,
}

impl Rate {
    pub(super) fn new(burst: u32, interval: Duration) -> Self {
        Self {
            interval,
            tolerance: interval.saturating_mul(burst.saturating_sub(1)),
            next: Duration::ZERO,
        }
    }

    /// Whether it may happen now; if so, it counts.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        if self.next > now.saturating_add(self.tolerance) {
            return false;
        }
        self.next = self.next.max(now).saturating_add(self.interval);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_then_one_per_interval() {
        let mut rate = Rate::new(3, Duration::from_secs(1));
        let at = Duration::from_secs(10);
        assert_eq!(
            [(); 5].map(|()| rate.take(at)),
            [true, true, true, false, false]
        );
        assert!(!rate.take(at + Duration::from_millis(999)));
        assert!(rate.take(at + Duration::from_secs(1)));
        assert!(!rate.take(at + Duration::from_secs(1)));
    }

    proptest! {
        /// No window of time ever sees more than the burst plus one per interval in it.
        #[test]
        fn never_more_than_allowed(
            burst in 1_u32..6,
            gaps in prop::collection::vec(0_u64..2500, 1..200),
        ) {
            let mut rate = Rate::new(burst, Duration::from_secs(1));
            let mut now = Duration::ZERO;
            let mut taken = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                if rate.take(now) {
                    taken.push(now);
                }
            }
            for (index, first) in taken.iter().enumerate() {
                for (count, last) in (1..).zip(&taken[index..]) {
                    let allowed = u64::from(burst) + (*last - *first).as_secs();
                    prop_assert!(count <= allowed, "{count} within {:?}", *last - *first);
                }
            }
        }
    }
}
