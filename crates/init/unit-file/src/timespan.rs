//! Time spans as systemd writes them: `5min 20s`, `1.5h`, `infinity`.
//!
//! [`TimeSpan`] counts microseconds; one value stands for "never". Its `Display` form is the one
//! `systemctl show` prints.

use std::fmt;

use thiserror::Error;

/// Microseconds per second.
pub const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const MONTH: u64 = 2_629_800 * SECOND;
const YEAR: u64 = 31_557_600 * SECOND;

/// A span of time in microseconds, or infinity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(u64);

/// Why a text is not a time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimeSpanError {
    /// Nothing but white space.
    #[error("the time span is empty")]
    Empty,
    /// A number was expected.
    #[error("a number is expected at byte {at} of the time span")]
    NumberExpected {
        /// Byte offset into the text.
        at: usize,
    },
    /// The unit is not one that systemd knows.
    #[error("unknown time unit at byte {at} (known: us ms s min h d w month y)")]
    UnknownUnit {
        /// Byte offset into the text.
        at: usize,
    },
    /// Negative, or larger than 584 542 years.
    #[error("the time span is out of range")]
    OutOfRange,
}

/// Unit names in the order in which prefixes are tried: a longer name stands before its prefix.
const UNITS: &[(&str, u64)] = &[
    ("seconds", SECOND),
    ("second", SECOND),
    ("sec", SECOND),
    ("s", SECOND),
    ("minutes", MINUTE),
    ("minute", MINUTE),
    ("min", MINUTE),
    ("months", MONTH),
    ("month", MONTH),
    ("M", MONTH),
    ("msec", 1000),
    ("ms", 1000),
    ("m", MINUTE),
    ("hours", HOUR),
    ("hour", HOUR),
    ("hr", HOUR),
    ("h", HOUR),
    ("days", DAY),
    ("day", DAY),
    ("d", DAY),
    ("weeks", WEEK),
    ("week", WEEK),
    ("w", WEEK),
    ("years", YEAR),
    ("year", YEAR),
    ("y", YEAR),
    ("usec", 1),
    ("us", 1),
    ("\u{b5}s", 1),
    ("\u{3bc}s", 1),
];

/// The same for nanoseconds (`TimerSlackNSec=`); microseconds and below come first.
const NANO_UNITS: &[(&str, u64)] = &[("nsec", 1), ("ns", 1)];

impl TimeSpan {
    /// Never.
    pub const INFINITY: Self = Self(u64::MAX);
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of so many microseconds; `u64::MAX` is infinity.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of so many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(SECOND))
    }

    /// The span in microseconds; infinity is `u64::MAX`.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whether this is infinity.
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// The span for the standard library, `None` for infinity.
    #[must_use]
    pub const fn to_duration(self) -> Option<std::time::Duration> {
        if self.is_infinite() {
            None
        } else {
            Some(std::time::Duration::from_micros(self.0))
        }
    }

    /// Parses a span whose bare numbers are seconds.
    ///
    /// # Errors
    /// The text is not a time span.
    pub fn parse(text: &str) -> Result<Self, TimeSpanError> {
        parse_units(text, SECOND, 1, &[]).map(Self)
    }

    /// Parses a span whose bare numbers count `default_unit` (a span itself).
    ///
    /// # Errors
    /// The text is not a time span.
    pub fn parse_with_unit(text: &str, default_unit: TimeSpan) -> Result<Self, TimeSpanError> {
        parse_units(text, default_unit.0, 1, &[]).map(Self)
    }

    /// The text with nothing finer than `accuracy` microseconds, as systemd prints spans to people.
    #[must_use]
    pub fn display_with_accuracy(self, accuracy: u64) -> String {
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = format_span(&mut out, self.0, accuracy);
        out
    }
}

/// Parses nanoseconds; bare numbers are nanoseconds. Infinity is `u64::MAX`.
///
/// # Errors
/// The text is not a time span.
pub fn parse_nanoseconds(text: &str) -> Result<u64, TimeSpanError> {
    parse_units(text, 1, 1000, NANO_UNITS)
}

fn parse_units(
    text: &str,
    default_unit: u64,
    scale: u64,
    extra: &[(&str, u64)],
) -> Result<u64, TimeSpanError> {
    let bytes = text.as_bytes();
    let mut at = skip_space(bytes, 0);
    if let Some(rest) = text.get(at..).and_then(|t| t.strip_prefix("infinity")) {
        return if rest.bytes().all(is_space) {
            Ok(u64::MAX)
        } else {
            Err(TimeSpanError::UnknownUnit { at })
        };
    }
    let mut total: u64 = 0;
    let mut something = false;
    loop {
        at = skip_space(bytes, at);
        let Some(&first) = bytes.get(at) else {
            return if something {
                Ok(total)
            } else {
                Err(TimeSpanError::Empty)
            };
        };
        if first == b'-' {
            return Err(TimeSpanError::OutOfRange);
        }
        let digits_from = if first == b'+' { at + 1 } else { at };
        let digits_to = skip_digits(bytes, digits_from);
        let whole = parse_digits(&bytes[digits_from..digits_to])?;
        let fraction = if bytes.get(digits_to) == Some(&b'.') {
            let from = digits_to + 1;
            let to = skip_digits(bytes, from);
            if to == from {
                return Err(TimeSpanError::NumberExpected { at: from });
            }
            Some((from, to))
        } else if digits_to == digits_from {
            return Err(TimeSpanError::NumberExpected { at });
        } else {
            None
        };
        let number_end = fraction.map_or(digits_to, |(_, to)| to);
        let unit_at = skip_space(bytes, number_end);
        let (unit, after) =
            find_unit(text, unit_at, scale, extra).unwrap_or((default_unit, unit_at));
        if after == number_end && after < bytes.len() {
            return Err(TimeSpanError::UnknownUnit { at: after });
        }
        at = after;
        let part = whole.checked_mul(unit).ok_or(TimeSpanError::OutOfRange)?;
        total = add_finite(total, part)?;
        if let Some((from, to)) = fraction {
            let mut weight = unit / 10;
            for digit in &bytes[from..to] {
                total = add_finite(total, u64::from(digit - b'0') * weight)?;
                weight /= 10;
            }
        }
        something = true;
    }
}

fn add_finite(total: u64, part: u64) -> Result<u64, TimeSpanError> {
    match total.checked_add(part) {
        Some(sum) if sum != u64::MAX => Ok(sum),
        _ => Err(TimeSpanError::OutOfRange),
    }
}

fn parse_digits(digits: &[u8]) -> Result<u64, TimeSpanError> {
    digits.iter().try_fold(0u64, |value, digit| {
        value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit - b'0')))
            .filter(|v| i64::try_from(*v).is_ok())
            .ok_or(TimeSpanError::OutOfRange)
    })
}

fn find_unit(text: &str, at: usize, scale: u64, extra: &[(&str, u64)]) -> Option<(u64, usize)> {
    let rest = text.get(at..)?;
    let scaled = |&(name, unit): &(&str, u64), factor: u64| {
        rest.starts_with(name)
            .then(|| (unit * factor, at + name.len()))
    };
    UNITS
        .iter()
        .find_map(|unit| scaled(unit, scale))
        .or_else(|| extra.iter().find_map(|unit| scaled(unit, 1)))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn skip_space(bytes: &[u8], from: usize) -> usize {
    bytes[from..]
        .iter()
        .position(|b| !is_space(*b))
        .map_or(bytes.len(), |n| from + n)
}

fn skip_digits(bytes: &[u8], from: usize) -> usize {
    bytes[from..]
        .iter()
        .position(|b| !b.is_ascii_digit())
        .map_or(bytes.len(), |n| from + n)
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_span(f, self.0, 0)
    }
}

fn format_span(out: &mut impl fmt::Write, span: u64, accuracy: u64) -> fmt::Result {
    const STEPS: &[(&str, u64)] = &[
        ("y", YEAR),
        ("month", MONTH),
        ("w", WEEK),
        ("d", DAY),
        ("h", HOUR),
        ("min", MINUTE),
        ("s", SECOND),
        ("ms", 1000),
        ("us", 1),
    ];
    if span == u64::MAX {
        return out.write_str("infinity");
    }
    if span == 0 {
        return out.write_str("0");
    }
    let mut left = span;
    let mut something = false;
    for &(suffix, unit) in STEPS {
        if left == 0 || (left < accuracy && something) {
            break;
        }
        if left < unit {
            continue;
        }
        let (whole, mut rest) = (left / unit, left % unit);
        let gap = if something { " " } else { "" };
        let mut digits = 0i32;
        if left < MINUTE && rest > 0 {
            digits = decimal_places(unit);
            for _ in 0..decimal_places(accuracy) {
                rest /= 10;
                digits -= 1;
            }
        }
        if let Ok(width) = usize::try_from(digits)
            && width > 0
        {
            write!(out, "{gap}{whole}.{rest:0width$}{suffix}")?;
            left = 0;
        } else {
            write!(out, "{gap}{whole}{suffix}")?;
            left %= unit;
        }
        something = true;
    }
    Ok(())
}

fn decimal_places(mut unit: u64) -> i32 {
    let mut places = 0;
    while unit > 1 {
        unit /= 10;
        places += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_parse_like_systemd() {
        for (text, micros) in [
            ("5", 5 * SECOND),
            ("2 h", 2 * HOUR),
            ("1y 12month", YEAR + 12 * MONTH),
            ("55s500ms", 55_500_000),
            ("300ms20s 5day", 300_000 + 20 * SECOND + 5 * DAY),
            ("1.5", 1_500_000),
            (".5s", 500_000),
            ("0.1us", 0),
            ("5m", 5 * MINUTE),
            ("5M", 5 * MONTH),
            ("3 4", 7 * SECOND),
            ("+7", 7 * SECOND),
            ("10\u{b5}s", 10),
            ("10\u{3bc}s", 10),
            (" 1hr\t", HOUR),
            ("infinity ", u64::MAX),
        ] {
            assert_eq!(TimeSpan::parse(text), Ok(TimeSpan(micros)), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_span_is_refused() {
        for text in [
            "",
            "  ",
            "-5",
            "5 -5",
            "x",
            "5x",
            "1.s",
            "12.34.56",
            "3. 1",
            "infinityx",
            "5sx",
            ".",
        ] {
            assert!(TimeSpan::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(
            TimeSpan::parse("9999999999999999999"),
            Err(TimeSpanError::OutOfRange)
        );
        assert_eq!(
            TimeSpan::parse("9223372036854775807y"),
            Err(TimeSpanError::OutOfRange)
        );
    }

    #[test]
    fn spans_print_like_systemctl_show() {
        for (micros, text) in [
            (0, "0"),
            (90 * SECOND, "1min 30s"),
            (100_000, "100ms"),
            (1_500_000, "1.500000s"),
            (1_500, "1.500ms"),
            (7, "7us"),
            (DAY + 1, "1d 1us"),
            (YEAR + MONTH + WEEK, "1y 1month 1w"),
            (u64::MAX, "infinity"),
        ] {
            assert_eq!(TimeSpan(micros).to_string(), text);
        }
        assert_eq!(TimeSpan(1_500_000).display_with_accuracy(100_000), "1.5s");
        assert_eq!(TimeSpan(HOUR + 1).display_with_accuracy(SECOND), "1h");
    }

    #[test]
    fn nanoseconds_have_their_own_units() {
        assert_eq!(parse_nanoseconds("5"), Ok(5));
        assert_eq!(parse_nanoseconds("5us 3ns"), Ok(5003));
        assert_eq!(parse_nanoseconds("1.5s"), Ok(1_500_000_000));
        assert!(parse_nanoseconds("600y").is_err());
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(micros in any::<u64>()) {
            let span = TimeSpan(micros);
            prop_assert_eq!(TimeSpan::parse(&span.to_string()), Ok(span));
        }

        #[test]
        fn any_text_is_taken_without_panic(text in ".{0,40}") {
            let _ = TimeSpan::parse(&text);
            let _ = parse_nanoseconds(&text);
        }
    }
}
