//! Rate limits: one talkative service must not push everybody else's lines out of the journal.
//!
//! Lines are counted per unit and per class of severity, so a flood of debug output does not silence
//! an error of the same unit. When the burst of an interval is used up, lines are dropped and counted;
//! the count is said with the first line that is let through again, or by [`RateLimiter::silent`] when
//! the unit says nothing more.

use std::collections::HashMap;

use crate::parse::priority::Level;

/// Severities that share a burst.
const CLASSES: usize = 5;
/// The most units that are watched at a time; beyond it, the ones whose interval is over are forgotten.
const UNITS_MAX: usize = 2048;

/// So many lines in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The interval in microseconds; 0 is no limit.
    pub interval_us: u64,
    /// The lines in it; 0 is no limit.
    pub burst: u32,
}

impl RateLimit {
    /// No limit at all.
    pub const NONE: Self = Self {
        interval_us: 0,
        burst: 0,
    };

    /// The burst that the free space allows: four times as many with 4 GiB, and so on by powers of 16.
    #[must_use]
    pub fn scaled(self, free_bytes: u64) -> u64 {
        let magnitude = u64::from(free_bytes.checked_ilog2().unwrap_or(0));
        let burst = u64::from(self.burst);
        if magnitude <= 20 {
            burst
        } else {
            burst * (magnitude - 16) / 4
        }
    }
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is kept; so many before it were not.
    Keep {
        /// Lines that were dropped since the last one that was kept.
        suppressed: u64,
    },
    /// It is dropped.
    Drop,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    began_us: u64,
    /// How long this interval is: limits may change between two lines.
    interval_us: u64,
    taken: u64,
    suppressed: u64,
}

impl Pool {
    fn is_over(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.began_us) >= self.interval_us
    }
}

/// Counts lines per unit.
#[derive(Debug, Default)]
pub struct RateLimiter {
    units: HashMap<Box<str>, [Pool; CLASSES]>,
    /// Lines dropped in all pools that have not been spoken of.
    unspoken: u64,
}

impl RateLimiter {
    /// Counts one line of `unit` and says what becomes of it.
    pub fn check(
        &mut self,
        unit: &str,
        level: Level,
        limit: RateLimit,
        free_bytes: u64,
        now_us: u64,
    ) -> Verdict {
        if limit.interval_us == 0 || limit.burst == 0 {
            return Verdict::Keep { suppressed: 0 };
        }
        let Some(pools) = self.pools(unit, now_us) else {
            // Every watched unit is in the middle of an interval. To forget a count would be silence, so
            // the newcomer goes uncounted until one of them is through.
            return Verdict::Keep { suppressed: 0 };
        };
        let pool = &mut pools[class(level)];
        if pool.interval_us == 0 || pool.is_over(now_us) {
            let suppressed = pool.suppressed;
            *pool = Pool {
                began_us: now_us,
                interval_us: limit.interval_us,
                taken: 1,
                suppressed: 0,
            };
            self.unspoken -= suppressed;
            return Verdict::Keep { suppressed };
        }
        if pool.taken < limit.scaled(free_bytes) {
            pool.taken += 1;
            return Verdict::Keep { suppressed: 0 };
        }
        pool.suppressed += 1;
        self.unspoken += 1;
        Verdict::Drop
    }

    /// Forgets units whose intervals are over; gives those of which lines were dropped, with the number.
    pub fn silent(&mut self, now_us: u64) -> Vec<(Box<str>, u64)> {
        let mut said = Vec::new();
        self.units.retain(|unit, pools| {
            let mut suppressed = 0;
            let mut running = false;
            for pool in pools.iter_mut().filter(|pool| pool.interval_us != 0) {
                if pool.is_over(now_us) {
                    suppressed += pool.suppressed;
                    *pool = Pool::default();
                } else {
                    running = true;
                }
            }
            if suppressed > 0 {
                said.push((unit.clone(), suppressed));
            }
            running
        });
        self.unspoken -= said.iter().map(|(_, count)| count).sum::<u64>();
        said.sort_unstable();
        said
    }

    /// Whether lines were dropped that have not been spoken of yet.
    #[must_use]
    pub fn owes_a_word(&self) -> bool {
        self.unspoken > 0
    }

    fn pools(&mut self, unit: &str, now_us: u64) -> Option<&mut [Pool; CLASSES]> {
        if !self.units.contains_key(unit) {
            if self.units.len() >= UNITS_MAX {
                self.units.retain(|_, pools| {
                    pools
                        .iter()
                        .any(|pool| pool.suppressed > 0 || !pool.is_over(now_us))
                });
            }
            if self.units.len() >= UNITS_MAX {
                return None;
            }
            self.units.insert(unit.into(), [Pool::default(); CLASSES]);
        }
        self.units.get_mut(unit)
    }
}

const fn class(level: Level) -> usize {
    match level.number() {
        0..=2 => 0,
        3 => 1,
        4 => 2,
        5 | 6 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: RateLimit = RateLimit {
        interval_us: 1000,
        burst: 3,
    };
    const LITTLE_SPACE: u64 = 1 << 20;

    fn check(limiter: &mut RateLimiter, unit: &str, level: Level, now_us: u64) -> Verdict {
        limiter.check(unit, level, LIMIT, LITTLE_SPACE, now_us)
    }

    #[test]
    fn a_flood_is_cut_and_the_loss_is_said() {
        let mut limiter = RateLimiter::default();
        for _ in 0..3 {
            assert_eq!(
                check(&mut limiter, "a", Level::INFO, 5),
                Verdict::Keep { suppressed: 0 }
            );
        }
        for _ in 0..7 {
            assert_eq!(check(&mut limiter, "a", Level::INFO, 6), Verdict::Drop);
        }
        assert_eq!(
            check(&mut limiter, "b", Level::INFO, 6),
            Verdict::Keep { suppressed: 0 }
        );
        assert_eq!(
            check(&mut limiter, "a", Level::ERR, 6),
            Verdict::Keep { suppressed: 0 }
        );
        assert_eq!(
            check(&mut limiter, "a", Level::INFO, 1005),
            Verdict::Keep { suppressed: 7 }
        );
    }

    #[test]
    fn the_loss_of_a_unit_that_fell_silent_is_said_too() {
        let mut limiter = RateLimiter::default();
        for _ in 0..5 {
            check(&mut limiter, "a", Level::INFO, 0);
        }
        assert!(limiter.owes_a_word());
        assert_eq!(limiter.silent(999), []);
        assert_eq!(limiter.silent(1000), [("a".into(), 2)]);
        assert!(!limiter.owes_a_word());
        assert_eq!(limiter.silent(5000), []);
        assert!(limiter.units.is_empty());
    }

    #[test]
    fn free_space_widens_the_burst() {
        let limit = RateLimit {
            interval_us: 1,
            burst: 10_000,
        };
        assert_eq!(limit.scaled(0), 10_000);
        assert_eq!(limit.scaled(1 << 20), 10_000);
        assert_eq!(limit.scaled(1 << 24), 20_000);
        assert_eq!(limit.scaled(1 << 32), 40_000);
    }

    #[test]
    fn the_number_of_watched_units_is_bounded() {
        let mut limiter = RateLimiter::default();
        for unit in 0..UNITS_MAX + 10 {
            check(&mut limiter, &unit.to_string(), Level::INFO, 0);
        }
        assert_eq!(limiter.units.len(), UNITS_MAX);
        check(&mut limiter, "later", Level::INFO, 2000);
        assert_eq!(limiter.units.len(), 1);
    }

    proptest! {
        /// Whatever comes when: every line is kept or counted, and nothing is counted twice.
        #[test]
        fn every_line_is_kept_or_counted(lines in proptest::collection::vec((0usize..3, 0u8..8, 0u64..400), 0..300)) {
            let mut limiter = RateLimiter::default();
            let (mut now, mut dropped, mut said) = (0u64, 0u64, 0u64);
            for (unit, level, pause) in lines {
                now += pause;
                let level = Level::new(level).expect("below 8");
                match check(&mut limiter, ["a", "b", "c"][unit], level, now) {
                    Verdict::Keep { suppressed } => said += suppressed,
                    Verdict::Drop => dropped += 1,
                }
                if pause > 350 {
                    said += limiter.silent(now).iter().map(|(_, count)| count).sum::<u64>();
                }
            }
            said += limiter.silent(now + 10_000).iter().map(|(_, count)| count).sum::<u64>();
            prop_assert_eq!(said, dropped);
            prop_assert!(!limiter.owes_a_word());
        }
    }
}
