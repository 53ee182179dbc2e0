//! How long output is read on after its command has ended. Pure.
//!
//! What a command left behind may hold its output open, and be silent for ever, or never be silent. What the command itself
//! wrote is on its way already: it is not lost, however much it is and however slowly whoever wants it reads.

use std::time::Duration;

/// What one way of running commands grants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    /// After so much silence nothing more is expected.
    pub(crate) silence: Duration,
    /// How long is waited in all for what is on its way.
    pub(crate) whole: Duration,
    /// What comes so fast adds to that; nothing does where it would be there already.
    pub(crate) bytes_per_second: Option<u32>,
    /// More than this cannot be on its way.
    pub(crate) bytes: u64,
}

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Linger {
    grant: Grant,
    waited: Duration,
    came: u64,
}

impl Linger {
    pub(crate) const fn new(grant: Grant) -> Self {
        Self {
            grant,
            waited: Duration::ZERO,
            came: 0,
        }
    }

    /// How long to wait for the next bytes; not at all when enough has come, or enough time has gone.
    pub(crate) fn next(&self) -> Duration {
        if self.came >= self.grant.bytes {
            return Duration::ZERO;
        }
        let earned = self.grant.bytes_per_second.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(bounded(self.came) / f64::from(rate.max(1)))
        });
        let whole = self.grant.whole.saturating_add(earned);
        self.grant.silence.min(whole.saturating_sub(self.waited))
    }

    /// So many bytes came after so long. The time in which nobody was ready to take them is not part of that.
    pub(crate) fn took(&mut self, waited: Duration, bytes: usize) {
        self.waited = self.waited.saturating_add(waited);
        self.came = self.came.saturating_add(bytes as u64);
    }
}

/// As a number of seconds is made of.
fn bounded(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn grant(bytes_per_second: Option<u32>) -> Grant {
        Grant {
            silence: SECOND,
            whole: 5 * SECOND,
            bytes_per_second,
            bytes: 1_000_000,
        }
    }

    /// How long is waited for something that writes so much, every so often.
    fn held_up(grant: Grant, every: Duration, bytes: usize) -> Duration {
        let mut linger = Linger::new(grant);
        let mut held = Duration::ZERO;
        loop {
            let next = linger.next();
            if next < every || next.is_zero() {
                return held + next;
            }
            held += every;
            linger.took(every, bytes);
        }
    }

    #[test]
    fn whoever_is_silent_and_whoever_never_is_are_waited_for_no_longer_than_granted() {
        for rate in [None, Some(10_000)] {
            let grant = grant(rate);
            assert_eq!(held_up(grant, 2 * SECOND, 1), SECOND, "silent");
            let chatty = held_up(grant, SECOND / 10, 2);
            assert!(chatty < 6 * SECOND, "{chatty:?}");
            let flood = held_up(grant, Duration::from_micros(10), 64 * 1024);
            assert!(flood < SECOND, "{flood:?}");
        }
    }

    #[test]
    fn what_is_on_its_way_comes_over_a_slow_connection_too() {
        let mut linger = Linger::new(grant(Some(10_000)));
        // Half of what may be on its way, at twice the slowest rate.
        for _ in 0..25 {
            assert!(linger.next() >= SECOND);
            linger.took(SECOND, 20_000);
        }
    }
}
