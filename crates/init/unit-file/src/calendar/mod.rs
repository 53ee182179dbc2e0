//! Calendar events as `OnCalendar=` takes them: `Mon..Fri *-*-* 09:00:00 Europe/Berlin`.
//!
//! [`CalendarSpec::parse`] gives the normalised expression, its `Display` is systemd's normal form,
//! [`CalendarSpec::next_elapse`] finds the next moment strictly after a given one. Time zones come
//! from the system's zone database, read when an expression names one; the local zone is an
//! argument, so the same expression can be asked on behalf of any machine.

mod format;
mod next;
mod parse;
#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use thiserror::Error;

/// A normalised calendar event expression.
#[derive(Clone, Debug, PartialEq)]
pub struct CalendarSpec {
    /// Bit 0 is Monday; `None` stands for every day.
    weekdays: Option<u8>,
    /// Days count backwards from the end of the month (`~`).
    end_of_month: bool,
    zone: Zone,
    year: Chain,
    month: Chain,
    day: Chain,
    hour: Chain,
    minute: Chain,
    /// Seconds, in microseconds.
    second: Chain,
}

/// In which zone an expression is read.
#[derive(Clone, Debug, PartialEq)]
enum Zone {
    Local,
    Utc,
    Named { name: Box<str>, zone: TimeZone },
}

/// The accepted values of one field, sorted; `None` accepts every value.
type Chain = Option<Box<[Component]>>;

/// `start[..stop][/repeat]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Component {
    start: i64,
    stop: Option<i64>,
    repeat: i64,
}

/// Why a text is not a calendar event expression.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CalendarError {
    /// Nothing but the time zone, or nothing at all.
    #[error("the calendar expression is empty")]
    Empty,
    /// The weekday part cannot be read.
    #[error("bad weekday in the calendar expression, at {rest:?}")]
    Weekday {
        /// What is left of the text.
        rest: Box<str>,
    },
    /// A date or time field cannot be read.
    #[error("bad date or time in the calendar expression, at {rest:?}")]
    Field {
        /// What is left of the text.
        rest: Box<str>,
    },
    /// A field is outside of what a calendar has.
    #[error("the {field} of the calendar expression is out of range")]
    OutOfRange {
        /// Which field.
        field: &'static str,
    },
    /// More than 240 alternatives in one field.
    #[error("too many alternatives in one field of the calendar expression")]
    TooManyAlternatives,
}
