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

/// Ends since the last healthy period, and how often the instance was given up since then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crashes {
    /// Ends since it was last given up or healthy.
    pub ends: u32,
    /// How often it was given up since it was last healthy.
    pub given_up: u32,
}

impl Crashes {
    /// It ended after having run for `uptime`.
    pub(crate) fn ended(&mut self, uptime: Duration, facts: &Facts, limits: &Limits) -> Verdict {
        if uptime >= facts.healthy_after(limits) {
            *self = Self::default();
        }
        self.ends = self.ends.saturating_add(1);
        if self.ends >= facts.policy.start_burst.max(1) {
            Verdict::GiveUp
        } else {
            Verdict::GoOn
        }
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

    /// It ran for a healthy period.
    pub(crate) fn healthy(&mut self) {
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
        let mut crashes = Crashes::default();
        let seconds = Duration::from_secs(9);
        assert_eq!(crashes.ended(seconds, &facts(), &limits), Verdict::GoOn);
        assert_eq!(crashes.ended(seconds, &facts(), &limits), Verdict::GoOn);
        assert_eq!(crashes.ended(seconds, &facts(), &limits), Verdict::GiveUp);
    }

    #[test]
    fn a_healthy_period_forgives() {
        let limits = Limits::default();
        let mut crashes = Crashes::default();
        for _ in 0..1000 {
            assert_eq!(
                crashes.ended(Duration::from_secs(1), &facts(), &limits),
                Verdict::GoOn
            );
            assert_eq!(
                crashes.ended(Duration::from_secs(60), &facts(), &limits),
                Verdict::GoOn
            );
        }
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
        crashes.healthy();
        assert_eq!(crashes.give_up(&limits).as_secs(), 10);
    }

    #[test]
    fn a_burst_of_zero_means_one() {
        let mut facts = facts();
        facts.policy.start_burst = 0;
        let mut crashes = Crashes::default();
        let verdict = crashes.ended(Duration::ZERO, &facts, &Limits::default());
        assert_eq!(verdict, Verdict::GiveUp);
    }
}
