//! How often to measure, and how much that may cost.

use std::num::NonZeroU64;
use std::time::Duration;

/// Why settings are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMonitorSettings {
    /// More often than this, measuring would be most of what is measured.
    #[error("the poll period {0:?} is shorter than {min:?}", min = MonitorSettings::SHORTEST_PERIOD)]
    TooOften(Duration),
    /// Less often than this, nothing measured would be about now.
    #[error("the poll period {0:?} is longer than {max:?}", max = MonitorSettings::LONGEST_PERIOD)]
    TooSeldom(Duration),
}

/// What walks through folders may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSettings {
    /// After a walk, this many times its duration passes without one: 99 is one percent of the time. With 0 every folder is
    /// walked at every poll.
    pub rest: u32,
    /// Files and folders that one walk looks at. A folder with more is reported with what was seen, and said once in the log.
    pub max_entries: u64,
    /// How long one walk may take; what it has seen by then is reported as with too many entries. A file system that has not
    /// answered anything for twice as long is left alone until it does, and the others are measured without it.
    pub patience: Duration,
}

impl Default for DiskSettings {
    fn default() -> Self {
        Self {
            rest: 99,
            max_entries: 250_000,
            patience: Duration::from_secs(30),
        }
    }
}

/// How often to measure, over which time to average, and what walks may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonitorSettings {
    poll_period: Duration,
    average_window: Duration,
    /// What walks through folders may cost.
    pub disk: DiskSettings,
}

impl MonitorSettings {
    /// The shortest period.
    pub const SHORTEST_PERIOD: Duration = Duration::from_millis(10);
    /// The longest period.
    pub const LONGEST_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);

    /// Refuses periods that make no sense. A window shorter than the period is one sample long.
    ///
    /// # Errors
    /// The period is too short or too long.
    pub fn new(
        poll_period: Duration,
        average_window: Duration,
    ) -> Result<Self, InvalidMonitorSettings> {
        if poll_period < Self::SHORTEST_PERIOD {
            return Err(InvalidMonitorSettings::TooOften(poll_period));
        }
        if poll_period > Self::LONGEST_PERIOD {
            return Err(InvalidMonitorSettings::TooSeldom(poll_period));
        }
        Ok(Self {
            poll_period,
            average_window,
            disk: DiskSettings::default(),
        })
    }

    /// The time between two polls.
    #[must_use]
    pub fn poll_period(&self) -> Duration {
        self.poll_period
    }

    /// How many samples an average is made of.
    pub(crate) fn samples(&self) -> NonZeroU64 {
        let samples = self.average_window.as_nanos() / self.poll_period.as_nanos().max(1);
        let samples = u64::try_from(samples).unwrap_or(u64::MAX);
        NonZeroU64::new(samples).unwrap_or(NonZeroU64::MIN)
    }
}

impl Default for MonitorSettings {
    fn default() -> Self {
        let usual = Duration::from_secs(35);
        Self {
            poll_period: usual,
            average_window: usual,
            disk: DiskSettings::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_window_is_counted_in_whole_samples_and_at_least_one() {
        let samples = |period, window| MonitorSettings::new(period, window).unwrap().samples();
        assert_eq!(samples(s(10), s(60)).get(), 6);
        assert_eq!(samples(s(10), s(65)).get(), 6);
        assert_eq!(samples(s(35), s(10)).get(), 1);
        assert_eq!(samples(s(35), Duration::ZERO).get(), 1);
        assert_eq!(samples(s(1), Duration::MAX).get(), u64::MAX);
        assert_eq!(MonitorSettings::default().samples().get(), 1);
    }

    #[test]
    fn periods_that_make_no_sense_are_refused() {
        let refused = |period| MonitorSettings::new(period, s(1)).unwrap_err();
        assert_eq!(
            refused(Duration::ZERO).to_string(),
            "the poll period 0ns is shorter than 10ms"
        );
        assert_eq!(
            refused(s(86_401)),
            InvalidMonitorSettings::TooSeldom(s(86_401))
        );
    }
}
