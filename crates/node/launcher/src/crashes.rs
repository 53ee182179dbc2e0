//! When is it enough? Counts ends over the whole life of an instance.

use std::time::Duration;

use crate::decide::Facts;
use crate::limits::Limits;

/// Whether an instance goes on being restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    GoOn,
    GiveUp,
}

/// Ends, and how often the instance was given up, since it last was up for so long that all of that is forgiven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// Ends since it was last given up or forgiven.
    pub ends: u32,
    /// How often it was given up since it was last forgiven.
    pub given_up: u32,
}

impl Crashes {
    /// It ended so many times, the first of them after having run for `uptime`.
    pub(crate) fn ended(
        &mut self,
        times: u32,
        uptime: Duration,
        facts: &Facts,
        limits: &Limits,
    ) -> Verdict {
        if times == 0 {
            return Verdict::GoOn;
        }
        if uptime >= facts.forgiven_after(limits) {
            *self = Self::default();
        }
        self.ends = self.ends.saturating_add(times);
        if self.ends >= facts.policy.start_burst.max(1) {
            Verdict::GiveUp
        } else {
            Verdict::GoOn
        }
    }

    /// It ended so many times while nobody looked, and runs all the same: the next end may be the last one.
    pub(crate) fn missed(&mut self, times: u32, facts: &Facts) {
        let most = facts.policy.start_burst.max(1) - 1;
        self.ends = self.ends.saturating_add(times).min(most);
    }

    /// It was given up: how long to wait before it is tried again.
    pub(crate) fn give_up(&mut self, limits: &Limits) -> Duration {
        let doubled = 2u32.saturating_pow(self.given_up.min(30));
        self.ends = 0;
        self.given_up = self.given_up.saturating_add(1);
        limits
            .first_wait
            .saturating_mul(doubled)
            .min(limits.longest_wait)
    }

    /// It went well for long enough.
    pub(crate) fn forgive(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts::unknown()
    }

    #[test]
    fn a_slow_crash_loop_ends_too() {
        let limits = Limits::default();
        for seconds in [0, 9, 11, 60, 599] {
            let mut crashes = Crashes::default();
            let uptime = Duration::from_secs(seconds);
            let mut end = || crashes.ended(1, uptime, &facts(), &limits);
            assert_eq!([end(), end(), end()][1..], [Verdict::GoOn, Verdict::GiveUp]);
        }
    }

    #[test]
    fn only_a_long_time_without_an_end_forgives() {
        let limits = Limits::default();
        let mut crashes = Crashes::default();
        let mut end = |uptime| crashes.ended(1, uptime, &facts(), &limits);
        for _ in 0..1000 {
            assert_eq!(end(Duration::from_secs(60)), Verdict::GoOn);
            assert_eq!(end(limits.forgive_after), Verdict::GoOn);
        }
    }

    #[test]
    fn ends_that_nobody_saw_bring_it_to_the_brink_and_not_over() {
        let limits = Limits::default();
        let mut crashes = Crashes::default();
        crashes.missed(100, &facts());
        assert_eq!(crashes.ends, 2);
        let again = crashes.ended(0, Duration::ZERO, &facts(), &limits);
        assert_eq!(again, Verdict::GoOn, "nothing new");
        let end = crashes.ended(1, Duration::from_secs(60), &facts(), &limits);
        assert_eq!(end, Verdict::GiveUp);
    }

    #[test]
    fn waits_grow_to_a_bound_and_start_anew() {
        let limits = Limits::default();
        let mut crashes = Crashes::default();
        let mut seen = Vec::new();
        for _ in 0..9 {
            seen.push(crashes.give_up(&limits).as_secs());
        }
        assert_eq!(seen, [10, 20, 40, 80, 160, 320, 600, 600, 600]);
        for _ in 0..100 {
            crashes.give_up(&limits);
        }
        crashes.forgive();
        assert_eq!(crashes.give_up(&limits).as_secs(), 10);
    }

    #[test]
    fn a_burst_of_zero_means_one() {
        let mut facts = facts();
        facts.policy.start_burst = 0;
        let mut crashes = Crashes::default();
        let verdict = crashes.ended(1, Duration::ZERO, &facts, &Limits::default());
        assert_eq!(verdict, Verdict::GiveUp);
    }
}
