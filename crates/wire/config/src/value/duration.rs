//! Durations such as `1m30s`, `30d` and `PT1M`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::{Serialize, Serializer};

use super::Wanted;

const NANOSECOND: u128 = 1;
const MICROSECOND: u128 = 1_000;
const MILLISECOND: u128 = 1_000_000;
const SECOND: u128 = 1_000_000_000;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
const DAY: u128 = 24 * HOUR;
const WEEK: u128 = 7 * DAY;
/// The longest duration: about a hundred years.
const MAX: u128 = 36_525 * DAY;
/// The longest text that is looked at.
const MAX_TEXT: usize = 64;

/// A length of time in a configuration.
///
/// Read from `10s`, `1m30s`, `1h 5m`, `30d`, `1w`, `500ms`, `1.5s` (units `ns us ms s m h d w`, each at
/// most once, the larger first) and from ISO 8601 (`PT1M`, `P1DT12H`). A number alone is refused,
/// except 0: it does not say its unit. ISO years and months are refused: they have no fixed length.
/// At most 36525 days. `Display` writes the shortest form, which reads back as the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(std::time::Duration);

/// Why a text is not a [`Duration`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// It looks like nothing that is known.
    #[error("a duration (expected e.g. 10s, 5m, 30d or ISO 8601 PT1M)")]
    Unknown,
    /// A number alone.
    #[error("a duration: it has no unit (write e.g. 10s or 5m)")]
    NoUnit,
    /// ISO 8601 years or months.
    #[error("a duration: years and months have no fixed length (write days, e.g. 30d)")]
    YearsOrMonths,
    /// The same unit twice, or a smaller one before a larger one.
    #[error("a duration: each unit may stand once, the larger first (e.g. 1h30m)")]
    UnitOrder,
    /// More than the most that is allowed.
    #[error("a duration of at most 36525d")]
    TooLong,
}

impl Duration {
    /// `duration`, if it is not longer than the most that is allowed.
    pub fn new(duration: std::time::Duration) -> Option<Self> {
        (duration.as_nanos() <= MAX).then_some(Self(duration))
    }

    /// The length as the standard library's type.
    pub fn get(self) -> std::time::Duration {
        self.0
    }

    fn from_nanos(nanos: u128) -> Result<Self, ParseDurationError> {
        if nanos > MAX {
            return Err(ParseDurationError::TooLong);
        }
        // At most 36525 days: both parts fit.
        let seconds = u64::try_from(nanos / SECOND).map_err(|_| ParseDurationError::TooLong)?;
        let rest = u32::try_from(nanos % SECOND).map_err(|_| ParseDurationError::TooLong)?;
        Ok(Self(std::time::Duration::new(seconds, rest)))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl FromStr for Duration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        if text.len() > MAX_TEXT {
            return Err(ParseDurationError::Unknown);
        }
        let text = text.trim();
        let nanos = match text.strip_prefix(['P', 'p']) {
            Some(iso) => parse_iso(iso)?,
            None => parse_plain(text)?,
        };
        Self::from_nanos(nanos)
    }
}

fn parse_plain(text: &str) -> Result<u128, ParseDurationError> {
    if text == "0" {
        return Ok(0);
    }
    if !text.is_empty() && text.parse::<f64>().is_ok() {
        return Err(ParseDurationError::NoUnit);
    }
    let unit_of = |name: &str| match name {
        "ns" => Some(NANOSECOND),
        "us" | "µs" => Some(MICROSECOND),
        "ms" => Some(MILLISECOND),
        "s" => Some(SECOND),
        "m" => Some(MINUTE),
        "h" => Some(HOUR),
        "d" => Some(DAY),
        "w" => Some(WEEK),
        _ => None,
    };
    sum(text, unit_of)
}

fn parse_iso(text: &str) -> Result<u128, ParseDurationError> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((_, "")) => return Err(ParseDurationError::Unknown),
        Some((date, time)) => (date, time),
        None => (text, ""),
    };
    if date.contains(['Y', 'M', 'y', 'm']) {
        return Err(ParseDurationError::YearsOrMonths);
    }
    if date.is_empty() && time.is_empty() {
        return Err(ParseDurationError::Unknown);
    }
    let days = |name: &str| match name {
        "W" | "w" => Some(WEEK),
        "D" | "d" => Some(DAY),
        _ => None,
    };
    let clock = |name: &str| match name {
        "H" | "h" => Some(HOUR),
        "M" | "m" => Some(MINUTE),
        "S" | "s" => Some(SECOND),
        _ => None,
    };
    let date = if date.is_empty() { 0 } else { sum(date, days)? };
    let time = if time.is_empty() {
        0
    } else {
        sum(time, clock)?
    };
    Ok(date.saturating_add(time))
}

/// Adds up `<number><unit>` parts whose units get smaller.
fn sum(mut text: &str, unit_of: impl Fn(&str) -> Option<u128>) -> Result<u128, ParseDurationError> {
    let mut total: u128 = 0;
    let mut previous = u128::MAX;
    loop {
        let number_end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or(ParseDurationError::Unknown)?;
        let (number, rest) = text.split_at(number_end);
        let unit_end = rest
            .find(|c: char| c.is_ascii_digit() || c.is_whitespace())
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(unit_end);
        let unit = unit_of(unit).ok_or(ParseDurationError::Unknown)?;
        if unit >= previous {
            return Err(ParseDurationError::UnitOrder);
        }
        previous = unit;
        total = total.saturating_add(scaled(number, unit)?);
        text = rest.trim_start();
        if text.is_empty() {
            return Ok(total);
        }
    }
}

/// A decimal number times a unit, rounded down to nanoseconds.
fn scaled(number: &str, unit: u128) -> Result<u128, ParseDurationError> {
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return Err(ParseDurationError::Unknown),
        Some((whole, fraction)) if fraction.len() <= 9 => (whole, fraction),
        Some(_) => return Err(ParseDurationError::Unknown),
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') {
        return Err(ParseDurationError::Unknown);
    }
    // Only digits are left, so a number that does not parse is too large.
    let whole: u128 = whole.parse().map_err(|_| ParseDurationError::TooLong)?;
    let part: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().unwrap_or(0)
    };
    let divisor = fraction.bytes().fold(1_u128, |divisor, _| divisor * 10);
    Ok(whole
        .saturating_mul(unit)
        .saturating_add(part * unit / divisor))
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return f.write_str("0s");
        }
        let units = [
            (DAY, "d"),
            (HOUR, "h"),
            (MINUTE, "m"),
            (SECOND, "s"),
            (MILLISECOND, "ms"),
            (MICROSECOND, "us"),
            (NANOSECOND, "ns"),
        ];
        for (unit, name) in units {
            if rest >= unit {
                write!(f, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", ParseDurationError::Unknown)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        text.parse().map_err(|error: ParseDurationError| {
            E::invalid_value(Unexpected::Str(text), &Wanted(&error))
        })
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Duration, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Duration, E> {
        let error = ParseDurationError::NoUnit;
        Err(E::invalid_value(Unexpected::Float(number), &Wanted(&error)))
    }
}

#[cfg(test)]
mod tests;
