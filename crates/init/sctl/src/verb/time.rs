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
use crate::render::time::distance;

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
        let micros = |moment: Timestamp| u64::try_from(moment.as_microsecond()).unwrap_or_default();
        let distance = distance(micros(moment), micros(Timestamp::now()));
        field("From now", &distance, console)
    }
}

fn field(label: &str, value: &str, console: &mut Console) -> Result<(), OutputClosed> {
    console.line(format_args!("{label:>15}: {value}"))
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
