//! A bucket that fills with time and is emptied by what happens. Pure: time comes in as a value.

use std::time::Duration;

/// So many at once, and then so many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At once, after a quiet time.
    pub burst: u32,
    /// From then on.
    pub per_second: u32,
}

/// What is left of a [`Rate`].
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: Rate,
    /// In nanoseconds of filling, so that nothing is lost to rounding.
    level: u64,
    filled_at: Duration,
}

const SECOND: u64 = 1_000_000_000;

impl Bucket {
    /// Full at `now`.
    pub(crate) fn new(rate: Rate, now: Duration) -> Self {
        let rate = Rate {
            burst: rate.burst.max(1),
            per_second: rate.per_second.max(1),
        };
        Self {
            rate,
            level: capacity(rate),
            filled_at: now,
        }
    }

    /// Takes so many, at most a whole bucket. If there are not so many: nothing is taken, and this is how long it takes until
    /// there are.
    pub(crate) fn take(&mut self, count: u32, now: Duration) -> Result<(), Duration> {
        let passed = now.saturating_sub(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        let filled = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        self.level = self.level.saturating_add(filled).min(capacity(self.rate));
        let price = price(self.rate) * u64::from(count.min(self.rate.burst));
        if self.level >= price {
            self.level -= price;
            return Ok(());
        }
        Err(Duration::from_nanos(price - self.level))
    }
}

/// The time in which one drops into the bucket.
fn price(rate: Rate) -> u64 {
    SECOND / u64::from(rate.per_second).min(SECOND)
}

fn capacity(rate: Rate) -> u64 {
    price(rate) * u64::from(rate.burst)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_waits_its_turn() {
        let rate = Rate {
            burst: 3,
            per_second: 10,
        };
        let mut bucket = Bucket::new(rate, Duration::ZERO);
        let taken = (0..5).map(|_| bucket.take(1, Duration::ZERO).is_ok());
        assert_eq!(
            taken.collect::<Vec<_>>(),
            [true, true, true, false, false],
            "nothing is taken out of an empty bucket"
        );
        let wait = bucket.take(1, Duration::ZERO).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert_eq!(bucket.take(1, wait), Ok(()));
        let all = Duration::from_secs(1);
        assert_eq!(
            bucket.take(100, all),
            Ok(()),
            "more than a bucket is a bucket"
        );
        assert_eq!(bucket.take(2, all), Err(Duration::from_millis(200)));
    }

    proptest! {
        /// Whatever the pattern, no more gets through than the rate says, and who waits as told is let through.
        #[test]
        fn never_more_than_the_rate(
            burst in 1u32..50,
            per_second in 1u32..2000,
            steps in prop::collection::vec((0u64..500_000_000, 1u32..5), 1..200),
        ) {
            let mut bucket = Bucket::new(Rate { burst, per_second }, Duration::ZERO);
            let mut now = Duration::ZERO;
            let mut taken = 0u64;
            for (step, count) in steps {
                now += Duration::from_nanos(step);
                if let Err(wait) = bucket.take(count, now) {
                    now += wait;
                    prop_assert_eq!(bucket.take(count, now), Ok(()), "after the wait there are");
                }
                taken += u64::from(count.min(burst));
                let price = u128::from(1_000_000_000 / per_second);
                let allowed = u128::from(burst) + now.as_nanos() / price;
                prop_assert!(u128::from(taken) <= allowed, "{} of {}", taken, allowed);
            }
        }
    }
}
