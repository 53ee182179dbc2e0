//! `calendar`, `timespan` and `timestamp`.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_unit_file::calendar::{CalendarError, CalendarSpec};
use muster_unit_file::timespan::{TimeSpan, TimeSpanError};
use muster_unit_file::timestamp::{TimestampError, format_timestamp, parse_timestamp};
use thiserror::Error;

use super::VerbError;
use crate::cli::{Calendar, Times};
use crate::console::{Console, Exit, OutputClosed};

/// Why a text is not a time.
#[derive(Debug, Error)]
pub(crate) enum TimeError {
    /// `--iterations=`
    #[error("Failed to parse iterations: {text}")]
    Iterations {
        /// What was given.
        text: String,
    },
    /// `--base-time=`
    #[error("Failed to parse --base-time= parameter: {text}")]
    BaseTime {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: TimestampError,
    },
    /// Not a calendar expression.
    #[error("Failed to parse calendar specification '{text}'")]
    Calendar {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: CalendarError,
    },
    /// Not a time span.
    #[error("Failed to parse time span '{text}'")]
    TimeSpan {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: TimeSpanError,
    },
    /// Not a point in time.
    #[error("Failed to parse \"{text}\"")]
    Timestamp {
        /// What was given.
        text: String,
        /// What is wrong with it.
        #[source]
        source: TimestampError,
    },
}

/// When and where the command runs.
struct Clock {
    now: Timestamp,
    zone: TimeZone,
}

impl Clock {
    fn of_process() -> Self {
        Self {
            now: Timestamp::now(),
            zone: TimeZone::system(),
        }
    }

    fn is_utc(&self) -> bool {
        let offset = self.zone.to_offset_info(self.now);
        offset.offset().is_zero() && offset.abbreviation() == "UTC"
    }

    fn parse(&self, text: &str) -> Result<Timestamp, TimestampError> {
        parse_timestamp(text, self.now, &self.zone)
    }

    /// A moment under a label, in UTC too where that differs.
    fn print(
        &self,
        label: &str,
        moment: Timestamp,
        console: &mut Console,
    ) -> Result<(), OutputClosed> {
        let local = format_timestamp(moment, &self.zone);
        field(label, &console.coloured("34", &local), console)?;
        if !self.is_utc() {
            field(
                "(in UTC)",
                &format_timestamp(moment, &TimeZone::UTC),
                console,
            )?;
        }
        Ok(())
    }

    fn print_distance(&self, moment: Timestamp, console: &mut Console) -> Result<(), OutputClosed> {
        // Not the moment of the start: what was asked about may be "now".
        field("From now", &distance(moment, Timestamp::now()), console)
    }
}

fn field(label: &str, value: &str, console: &mut Console) -> Result<(), OutputClosed> {
    console.line(format_args!("{label:>15}: {value}"))
}

/// How long ago, or how long until: `10 months 13 days ago`.
fn distance(moment: Timestamp, now: Timestamp) -> String {
    const SECOND: u64 = 1_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    const WEEK: u64 = 7 * DAY;
    const MONTH: u64 = 2_629_800 * SECOND;
    const YEAR: u64 = 31_557_600 * SECOND;
    let span = moment.as_microsecond().abs_diff(now.as_microsecond());
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

/// Says under which other verb a text would make sense.
fn hint(text: &str, clock: &Clock, own: &str, console: &mut Console) {
    let candidates = [
        (
            "calendar",
            "calendar specification",
            CalendarSpec::parse(text).is_ok(),
        ),
        ("timestamp", "timestamp", clock.parse(text).is_ok()),
        ("timespan", "timespan", TimeSpan::parse(text).is_ok()),
    ];
    for (verb, what, _) in candidates
        .into_iter()
        .filter(|(verb, _, fits)| *fits && *verb != own)
    {
        console.note(format_args!(
            "Hint: this expression is a valid {what}. Use 'sctl {verb} \"{text}\"' instead?"
        ));
    }
}

/// Handles every text, with an empty line between them; one bad text makes the command fail. `verb`
/// is the one that was used.
fn each(
    texts: &[String],
    verb: &str,
    clock: &Clock,
    console: &mut Console,
    mut one: impl FnMut(&str, &mut Console) -> Result<(), VerbError>,
) -> Result<Exit, VerbError> {
    let mut exit = Exit::Success;
    for (n, text) in texts.iter().enumerate() {
        if n > 0 {
            console.line("")?;
        }
        match one(text, console) {
            Ok(()) => {}
            Err(error @ VerbError::Time(_)) => {
                exit = console.report(&error);
                hint(text, clock, verb, console);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(exit)
}

pub(super) fn calendar(arguments: &Calendar, console: &mut Console) -> Result<Exit, VerbError> {
    let clock = Clock::of_process();
    let iterations: u32 = arguments
        .iterations
        .parse()
        .map_err(|_| TimeError::Iterations {
            text: arguments.iterations.clone(),
        })?;
    let base = match &arguments.base_time {
        None => clock.now,
        Some(text) => clock.parse(text).map_err(|source| TimeError::BaseTime {
            text: text.clone(),
            source,
        })?,
    };
    each(
        &arguments.expressions,
        "calendar",
        &clock,
        console,
        |text, console| {
            let spec = CalendarSpec::parse(text).map_err(|source| TimeError::Calendar {
                text: text.to_owned(),
                source,
            })?;
            field("Original form", text, console)?;
            field("Normalized form", &spec.to_string(), console)?;
            let mut after = base;
            for n in 1..=iterations {
                let Some(next) = spec.next_elapse(after, &clock.zone) else {
                    if n == 1 {
                        field("Next elapse", &console.coloured("33", "never"), console)?;
                    }
                    break;
                };
                let label = if n == 1 {
                    "Next elapse".to_owned()
                } else {
                    format!("Iter. #{n}")
                };
                clock.print(&label, next, console)?;
                clock.print_distance(next, console)?;
                after = next;
            }
            Ok(())
        },
    )
}

pub(super) fn timespan(arguments: &Times, console: &mut Console) -> Result<Exit, VerbError> {
    for (n, text) in arguments.texts.iter().enumerate() {
        if n > 0 {
            console.line("")?;
        }
        let span = match TimeSpan::parse(text) {
            Ok(span) => span,
            Err(source) => {
                let text = text.clone();
                let error = TimeError::TimeSpan { text, source };
                let exit = console.report(&error.into());
                hint(
                    &arguments.texts[n],
                    &Clock::of_process(),
                    "timespan",
                    console,
                );
                return Ok(exit);
            }
        };
        console.line(format_args!("Original: {text}"))?;
        console.line(format_args!("      \u{3bc}s: {}", span.as_micros()))?;
        let human = console.coloured("1", &span.to_string());
        console.line(format_args!("   Human: {human}"))?;
    }
    Ok(Exit::Success)
}

pub(super) fn timestamp(arguments: &Times, console: &mut Console) -> Result<Exit, VerbError> {
    let clock = Clock::of_process();
    each(
        &arguments.texts,
        "timestamp",
        &clock,
        console,
        |text, console| {
            let moment = clock.parse(text).map_err(|source| TimeError::Timestamp {
                text: text.to_owned(),
                source,
            })?;
            field("Original form", text, console)?;
            clock.print("Normalized form", moment, console)?;
            let micros = moment.as_microsecond();
            let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let unix = if fraction == 0 {
                format!("@{seconds}")
            } else {
                format!("@{seconds}.{fraction:06}")
            };
            field("UNIX seconds", &unix, console)?;
            clock.print_distance(moment, console)?;
            Ok(())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_at_most_two_units() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
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
            let moment = Timestamp::from_second(1_800_000_000 + seconds).unwrap();
            assert_eq!(distance(moment, now), text, "{seconds}");
        }
        let near = Timestamp::from_microsecond(1_800_000_000_000_500).unwrap();
        assert_eq!(distance(near, now), "500us left");
    }
}
