//! What went one way, over all time, today and this month.

use jiff::tz::TimeZone;

/// A point in time, as far as limits are concerned. Days and months are those of UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    seconds: i64,
    day: i64,
    month: i64,
}

impl Moment {
    /// Seconds since 1970. Times that no calendar has count as its ends.
    pub(crate) fn new(seconds: i64) -> Self {
        let limits = (
            jiff::Timestamp::MIN.as_second(),
            jiff::Timestamp::MAX.as_second(),
        );
        let seconds = seconds.clamp(limits.0, limits.1);
        let date = jiff::Timestamp::from_second(seconds)
            .unwrap_or_default()
            .to_zoned(TimeZone::UTC)
            .date();
        Self {
            seconds,
            day: seconds.div_euclid(24 * 60 * 60),
            month: i64::from(date.year()) * 12 + i64::from(date.month()),
        }
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(self) -> i64 {
        self.seconds
    }
}

/// Bytes within a period, which is a day or a month, by its number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) period: i64,
    pub(crate) bytes: u64,
}

impl Used {
    /// A later period begins at nought. An earlier one means that the clock was wrong then or is wrong now: what was used
    /// counts on, since a limit that a clock set back could lift would be none, and the period is the one that the clock
    /// shows, since otherwise a clock that was once far ahead would never let it end.
    fn roll(&mut self, period: i64) {
        if period > self.period {
            self.bytes = 0;
        }
        self.period = period;
    }

    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// One direction of one instance, or of the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) total: u64,
    pub(crate) today: Used,
    pub(crate) this_month: Used,
    /// What the kernel's counter showed when it was last read.
    pub(crate) counter: u64,
}

impl Account {
    /// Takes a reading in. A counter that shows less than before began anew in between.
    pub(crate) fn observe(&mut self, counter: u64, now: Moment) {
        let new = counter.checked_sub(self.counter).unwrap_or(counter);
        self.counter = counter;
        self.roll(now);
        self.total = self.total.saturating_add(new);
        self.today.add(new);
        self.this_month.add(new);
    }

    pub(crate) fn roll(&mut self, now: Moment) {
        self.today.roll(now.day);
        self.this_month.roll(now.month);
    }

    /// The next reading is one of a counter that begins at nought.
    pub(crate) fn begin_anew(&mut self) {
        self.counter = 0;
    }

    pub(crate) fn passes(&self, daily: Option<u64>, monthly: Option<u64>) -> bool {
        daily.is_some_and(|limit| self.today.bytes >= limit)
            || monthly.is_some_and(|limit| self.this_month.bytes >= limit)
    }
}

#[cfg(test)]
mod tests;
