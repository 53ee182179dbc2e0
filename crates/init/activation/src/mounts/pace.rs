//! How often a table that keeps changing is read.

use std::time::Duration;

/// Between two reads, however cheap.
const SHORTEST: Duration = Duration::from_millis(50);
/// A read that took so long is followed by a pause so many times as long: five percent of the time at most.
const PAUSES_PER_READ: u32 = 19;
/// No change waits longer than this.
const LONGEST: Duration = Duration::from_secs(1);

/// Spaces the reads of one table. Times are those of any clock that does not go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    not_before: Duration,
}

impl Pace {
    /// Something changed: how long to wait before the table is read, zero for now. The caller need not watch the table
    /// meanwhile; whatever else changes is in the same read.
    #[must_use]
    pub fn wait(&self, now: Duration) -> Duration {
        self.not_before.saturating_sub(now)
    }

    /// The table was read, which took `cost` and ended at `now`.
    pub fn spent(&mut self, cost: Duration, now: Duration) {
        let pause = cost.saturating_mul(PAUSES_PER_READ);
        self.not_before = now.saturating_add(pause.clamp(SHORTEST, LONGEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn first_change_is_read_at_once_and_a_storm_is_spaced() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait(Duration::ZERO), Duration::ZERO);
        pace.spent(MS / 10, 10 * MS);
        assert_eq!(pace.wait(10 * MS), 50 * MS);
        assert_eq!(pace.wait(40 * MS), 20 * MS);
        assert_eq!(pace.wait(60 * MS), Duration::ZERO);
        pace.spent(10 * MS, 100 * MS);
        assert_eq!(pace.wait(100 * MS), 190 * MS);
        pace.spent(Duration::from_secs(60), Duration::from_secs(90));
        assert_eq!(pace.wait(Duration::from_secs(90)), LONGEST);
    }
}
