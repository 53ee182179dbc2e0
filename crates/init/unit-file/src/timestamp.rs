//! Points in time as people write them: `2026-01-02 10:00`, `tomorrow`, `+2h`, `@1700000000`.
//!
//! "Now" and the local zone are arguments; nothing here looks at a clock.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use crate::timespan::TimeSpan;

/// Why a text is not a point in time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimestampError {
    /// The text has none of the accepted forms.
    #[error(
        "cannot read {text:?} as a point in time (try \"2026-01-31 18:00:00\", \"+2h\", \"@SECONDS\")"
    )]
    Form {
        /// The text.
        text: Box<str>,
    },
    /// The weekday does not belong to the date.
    #[error("{text:?} names a weekday that its date does not have")]
    Weekday {
        /// The text.
        text: Box<str>,
    },
    /// Before 1970 or too far in the future.
    #[error("{text:?} is out of range")]
    OutOfRange {
        /// The text.
        text: Box<str>,
    },
}

/// Parses a point in time. `now` is what relative forms count from; `local` is the zone of texts
/// that name none.
///
/// # Errors
/// The text is not a point in time, or one before 1970.
pub fn parse_timestamp(
    text: &str,
    now: Timestamp,
    local: &TimeZone,
) -> Result<Timestamp, TimestampError> {
    let form = || TimestampError::Form { text: text.into() };
    let out_of_range = || TimestampError::OutOfRange { text: text.into() };
    let shifted = |span: &str, sign: i32| -> Result<Timestamp, TimestampError> {
        let span = TimeSpan::parse(span).map_err(|_| form())?;
        let micros = i64::try_from(span.as_micros()).map_err(|_| out_of_range())?;
        let shift = SignedDuration::from_micros(micros) * sign;
        now.checked_add(shift).map_err(|_| out_of_range())
    };
    let body = text.trim();
    let moment = if body == "now" {
        now
    } else if let Some(span) = body.strip_prefix('+') {
        shifted(span, 1)?
    } else if let Some(span) = body.strip_prefix('-') {
        shifted(span, -1)?
    } else if let Some(span) = body.strip_suffix(" ago") {
        shifted(span, -1)?
    } else if let Some(span) = body.strip_suffix(" left") {
        shifted(span, 1)?
    } else if let Some(span) = body.strip_prefix('@') {
        let micros = TimeSpan::parse(span).map_err(|_| form())?.as_micros();
        let micros = i64::try_from(micros).map_err(|_| out_of_range())?;
        Timestamp::from_microsecond(micros).map_err(|_| out_of_range())?
    } else {
        parse_civil(body, now, local)?
    };
    if moment < Timestamp::UNIX_EPOCH {
        Err(out_of_range())
    } else {
        Ok(moment)
    }
}

fn parse_civil(text: &str, now: Timestamp, local: &TimeZone) -> Result<Timestamp, TimestampError> {
    let form = || TimestampError::Form { text: text.into() };
    let (body, zone) = match text.rsplit_once(' ') {
        Some((body, "UTC")) => (body, TimeZone::UTC),
        Some((body, name)) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            match TimeZone::get(name) {
                Ok(zone) => (body, zone),
                Err(_) => (text, local.clone()),
            }
        }
        _ => (text, local.clone()),
    };
    let today = zone.to_datetime(now).date();
    let midnight = |date: Date| date.to_datetime(Time::midnight());
    let civil = match body {
        "today" => midnight(today),
        "yesterday" => midnight(today.yesterday().map_err(|_| form())?),
        "tomorrow" => midnight(today.tomorrow().map_err(|_| form())?),
        _ => {
            let (weekday, rest) = split_weekday(body);
            let civil = parse_date_time(rest, today).ok_or_else(form)?;
            if weekday.is_some_and(|day| day != civil.weekday().to_monday_zero_offset()) {
                return Err(TimestampError::Weekday { text: text.into() });
            }
            civil
        }
    };
    zone.to_timestamp(civil).map_err(|_| form())
}

fn split_weekday(text: &str) -> (Option<i8>, &str) {
    const NAMES: [&str; 7] = [
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
    ];
    let Some((word, rest)) = text.split_once(' ') else {
        return (None, text);
    };
    let word = word.to_ascii_lowercase();
    let found = NAMES
        .iter()
        .zip(0i8..)
        .find(|(name, _)| word == **name || word == name[..3]);
    found.map_or((None, text), |(_, day)| (Some(day), rest.trim_start()))
}

fn parse_date_time(text: &str, today: Date) -> Option<DateTime> {
    let (date, time) = match text.split_once(' ') {
        Some((date, time)) => (parse_date(date)?, parse_time(time)?),
        None if text.contains(':') => (today, parse_time(text)?),
        None => (parse_date(text)?, Time::midnight()),
    };
    Some(date.to_datetime(time))
}

fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let year = parts.next()?;
    let mut number = year.parse::<i16>().ok()?;
    if year.len() == 2 {
        number += if number < 69 { 2000 } else { 1900 };
    }
    let month = parts.next()?.parse().ok()?;
    let day = parts.next()?.parse().ok()?;
    if parts.next().is_some() {
        return None;
    }
    Date::new(number, month, day).ok()
}

fn parse_time(text: &str) -> Option<Time> {
    let mut parts = text.split(':');
    let hour = parts.next()?.parse().ok()?;
    let minute = parts.next()?.parse().ok()?;
    let (second, nanos) = match parts.next() {
        None => (0, 0),
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let micros = format!("{fraction:0<6}");
            let micros: i32 = micros.get(..6)?.parse().ok()?;
            (whole.parse().ok()?, micros * 1000)
        }
    };
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, nanos).ok()
}

/// The text that systemd's tools print for a point in time: `Thu 2026-01-01 01:00:00 UTC`.
#[must_use]
pub fn format_timestamp(moment: Timestamp, zone: &TimeZone) -> String {
    moment
        .to_zoned(zone.clone())
        .strftime("%a %Y-%m-%d %H:%M:%S %Z")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, TimestampError> {
        // A Saturday.
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        parse_timestamp(text, now, &TimeZone::UTC).map(|moment| moment.to_string())
    }

    #[test]
    fn accepted_forms() {
        for (text, moment) in [
            ("now", "2026-01-31T12:00:00Z"),
            ("today", "2026-01-31T00:00:00Z"),
            ("yesterday", "2026-01-30T00:00:00Z"),
            ("tomorrow", "2026-02-01T00:00:00Z"),
            ("+3h30min", "2026-01-31T15:30:00Z"),
            ("-5s", "2026-01-31T11:59:55Z"),
            ("11min ago", "2026-01-31T11:49:00Z"),
            ("@1395716396", "2014-03-25T02:59:56Z"),
            ("2012-11-23 11:12:13", "2012-11-23T11:12:13Z"),
            ("Fri 2012-11-23 11:12", "2012-11-23T11:12:00Z"),
            ("2012-11-23", "2012-11-23T00:00:00Z"),
            ("12-11-23", "2012-11-23T00:00:00Z"),
            ("11:12:13.5", "2026-01-31T11:12:13.5Z"),
            ("2012-11-23 11:12 Europe/Berlin", "2012-11-23T10:12:00Z"),
            ("2012-11-23 11:12 UTC", "2012-11-23T11:12:00Z"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(moment), "{text}");
        }
    }

    #[test]
    fn refused_forms() {
        for text in [
            "",
            "Mon 2012-11-23",
            "2012-13-01",
            "1969-01-01",
            "25:00",
            "+",
            "-100y",
            "1:2:3:4",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn printed_as_the_tools_do() {
        let moment: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(
            format_timestamp(moment, &TimeZone::UTC),
            "Thu 2026-01-01 01:00:00 UTC"
        );
    }
}
