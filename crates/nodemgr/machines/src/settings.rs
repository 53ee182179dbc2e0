//! How patient the registry is.

use std::time::Duration;

/// How patient the registry is, and how much it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How often machines on their way are looked at.
    pub poll: Duration,
    /// How often all machines are looked at.
    pub sweep: Duration,
    /// How long a graceful stop may take before it is forced.
    pub stop_grace: Duration,
    /// How often an order, or a verb, is tried before it is given up. Destroying is never given up.
    pub attempts: u32,
    /// How long to wait after the first failure; doubled with each.
    pub retry: Duration,
    /// The longest such wait.
    pub retry_longest: Duration,
    /// How long a call may take. Its answer counts as lost then.
    pub call: Duration,
    /// An order that was interrupted by a crash is carried on if it is not older; what may have been made of an older one is
    /// destroyed.
    pub carry_on: Duration,
    /// How long a provider may take until a new machine is in its lists.
    pub settle: Duration,
    /// How long machines that are gone are remembered.
    pub remember: Duration,
    /// How many calls of one provider run at once.
    pub calls: usize,
    /// How many machines there may be, those that are gone and remembered among them.
    pub machines: usize,
    /// How many events are kept.
    pub events: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(1),
            sweep: Duration::from_secs(60),
            stop_grace: Duration::from_secs(90),
            attempts: 5,
            retry: Duration::from_secs(1),
            retry_longest: Duration::from_secs(60),
            call: Duration::from_secs(300),
            carry_on: Duration::from_secs(15 * 60),
            settle: Duration::from_secs(30),
            remember: Duration::from_secs(60 * 60),
            calls: 64,
            machines: 10_000,
            events: 10_000,
        }
    }
}

impl Settings {
    /// The wait after so many failures in a row.
    pub(crate) fn wait_after(&self, failures: u32) -> Duration {
        let doubled = 1 << failures.saturating_sub(1).min(16);
        self.retry
            .saturating_mul(doubled)
            .min(self.retry_longest.max(self.retry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_bound() {
        let settings = Settings::default();
        let waits = [0, 1, 2, 3, 7, u32::MAX].map(|count| settings.wait_after(count).as_secs());
        assert_eq!(waits, [1, 1, 2, 4, 60, 60]);
    }
}
