//! Moments, distances, spans and sizes in words.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::timestamp::format_timestamp;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 2_629_800 * SECOND;
const YEAR: u64 = 31_557_600 * SECOND;

/// When and where an answer is read.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    /// Microseconds since 1970.
    pub(crate) real: u64,
    /// The reader's zone.
    pub(crate) zone: TimeZone,
}

impl Now {
    /// This moment.
    pub(crate) fn of_process() -> Self {
        let micros = Timestamp::now().as_microsecond();
        Self {
            real: u64::try_from(micros).unwrap_or_default(),
            zone: TimeZone::system(),
        }
    }

    /// `Sun 2026-11-15 11:26:55 UTC`; empty for never.
    pub(crate) fn moment(&self, micros: u64) -> String {
        let moment = i64::try_from(micros)
            .ok()
            .and_then(|micros| Timestamp::from_microsecond(micros).ok());
        match moment {
            Some(moment) if micros > 0 => format_timestamp(moment, &self.zone),
            _ => String::new(),
        }
    }

    /// `1h 2min ago`, `12h left`.
    pub(crate) fn distance(&self, micros: u64) -> String {
        distance(micros, self.real)
    }
}

/// How long ago, or how long until: `10 months 13 days ago`. Both in microseconds.
pub(crate) fn distance(moment: u64, now: u64) -> String {
    let span = moment.abs_diff(now);
    let suffix = if moment < now { "ago" } else { "left" };
    let count = |number: u64, word: &str| {
        let plural = if number == 1 { "" } else { "s" };
        format!("{number} {word}{plural}")
    };
    let text = match span {
        0 => return "now".to_owned(),
        YEAR.. => format!(
            "{} {}",
            count(span / YEAR, "year"),
            count(span % YEAR / MONTH, "month")
        ),
        MONTH.. => format!(
            "{} {}",
            count(span / MONTH, "month"),
            count(span % MONTH / DAY, "day")
        ),
        WEEK.. => format!(
            "{} {}",
            count(span / WEEK, "week"),
            count(span % WEEK / DAY, "day")
        ),
        _ if span >= 2 * DAY => count(span / DAY, "day"),
        _ if span >= 25 * HOUR => format!("1 day {}h", (span - DAY) / HOUR),
        _ if span >= 6 * HOUR => format!("{}h", span / HOUR),
        HOUR.. => format!("{}h {}min", span / HOUR, span % HOUR / MINUTE),
        _ if span >= 5 * MINUTE => format!("{}min", span / MINUTE),
        MINUTE.. => format!("{}min {}s", span / MINUTE, span % MINUTE / SECOND),
        SECOND.. => format!("{}s", span / SECOND),
        1000.. => format!("{}ms", span / 1000),
        _ => format!("{span}us"),
    };
    format!("{text} {suffix}")
}

/// A span in words, exact to a millisecond where it is short.
pub(crate) fn span(micros: u64) -> String {
    TimeSpan::from_micros(micros).display_with_accuracy(1000)
}

/// Bytes: `5.2M`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 6] = [
        ("E", 1 << 60),
        ("P", 1 << 50),
        ("T", 1 << 40),
        ("G", 1 << 30),
        ("M", 1 << 20),
        ("K", 1 << 10),
    ];
    for (letter, unit) in UNITS {
        if bytes >= unit {
            let tenths = (bytes % unit) * 10 / unit;
            return format!("{}.{tenths}{letter}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_at_most_two_units() {
        let now = 1_800_000_000 * SECOND;
        for (seconds, text) in [
            (0, "now"),
            (59, "59s left"),
            (-61, "1min 1s ago"),
            (301, "5min left"),
            (3600 + 120, "1h 2min left"),
            (7 * 3600 + 120, "7h left"),
            (26 * 3600, "1 day 2h left"),
            (-3 * 86_400, "3 days ago"),
            (8 * 86_400, "1 week 1 day left"),
            (31 * 86_400, "1 month 0 days left"),
            (-400 * 86_400, "1 year 1 month ago"),
        ] {
            let moment = now.saturating_add_signed(seconds * 1_000_000);
            assert_eq!(distance(moment, now), text, "{seconds}");
        }
        assert_eq!(distance(now + 500, now), "500us left");
    }

    #[test]
    fn sizes_have_one_decimal() {
        for (number, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0K"),
            (5_452_595, "5.1M"),
            (3 << 30, "3.0G"),
            (u64::MAX, "15.9E"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }
}
