//! Booleans, numbers, sizes, percentages, modes and time spans.

use std::fmt;

use super::{AssignError, Setting, ValueContext, ValueError, scalar_setting};
use crate::timespan::{TimeSpan, parse_nanoseconds};

/// Reads a boolean: `yes`, `on`, `true`, `1` and their opposites.
///
/// # Errors
/// It is none.
pub fn parse_boolean(text: &str) -> Result<bool, ValueError> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&["1", "yes", "y", "true", "t", "on"]) {
        Ok(true)
    } else if is(&["0", "no", "n", "false", "f", "off"]) {
        Ok(false)
    } else {
        Err(ValueError::invalid(text, "a boolean (yes or no)"))
    }
}

scalar_setting!(bool, "boolean", parse_boolean);

/// Reads an integer as C does: decimal, `0x` hexadecimal, `0o` and `0` octal, `0b` binary.
///
/// # Errors
/// It is none, or does not fit.
pub fn parse_integer(text: &str) -> Result<i64, ValueError> {
    let invalid = || ValueError::invalid(text, "a number");
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(rest) = lower.strip_prefix("0x") {
        (16, rest)
    } else if let Some(rest) = lower.strip_prefix("0b") {
        (2, rest)
    } else if let Some(rest) = lower.strip_prefix("0o") {
        (8, rest)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return Err(invalid());
    }
    let signed = if negative {
        format!("-{digits}")
    } else {
        digits.to_owned()
    };
    i64::from_str_radix(&signed, radix).map_err(|_| invalid())
}

fn narrow<T: TryFrom<i64>>(text: &str) -> Result<T, ValueError> {
    T::try_from(parse_integer(text)?).map_err(|_| ValueError::range(text, "it does not fit"))
}

scalar_setting!(u32, "unsigned integer", narrow::<u32>);
scalar_setting!(i32, "integer", narrow::<i32>);
scalar_setting!(i64, "integer", parse_integer);

scalar_setting!(TimeSpan, "time span", parse_span);

fn parse_span(text: &str) -> Result<TimeSpan, ValueError> {
    TimeSpan::parse(text).map_err(|error| span_error(text, error))
}

fn span_error(text: &str, error: crate::timespan::TimeSpanError) -> ValueError {
    ValueError::invalid(text, format!("a time span: {error}"))
}

/// A time span for which both nothing and 0 mean "never".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout(pub TimeSpan);

impl Default for Timeout {
    fn default() -> Self {
        Self(TimeSpan::INFINITY)
    }
}

scalar_setting!(Timeout, "time span, 0 for never", |text: &str| {
    let span = if text.is_empty() {
        TimeSpan::INFINITY
    } else {
        parse_span(text)?
    };
    Ok::<_, ValueError>(Timeout(if span == TimeSpan::ZERO {
        TimeSpan::INFINITY
    } else {
        span
    }))
});

/// A number of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nanoseconds(pub u64);

scalar_setting!(Nanoseconds, "nanoseconds", |text: &str| {
    parse_nanoseconds(text)
        .map(Nanoseconds)
        .map_err(|error| span_error(text, error))
});

/// A size in bytes, written with the suffixes K, M, G, T, P, E of base 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub u64);

scalar_setting!(Bytes, "size", |text: &str| parse_size(text, 1024)
    .map(Bytes));

/// Reads a size with suffixes of base 1024 or 1000. Parts add up (`1G 512M`), fractions are allowed.
///
/// # Errors
/// It is none, or does not fit into 64 bits.
pub fn parse_size(text: &str, base: u64) -> Result<u64, ValueError> {
    let invalid = || ValueError::invalid(text, "a size such as 512M");
    let too_large = || ValueError::range(text, "at most 16 exbibytes");
    let mut rest = text.trim_start();
    let mut total = 0u64;
    // Parts come in decreasing order of their suffixes.
    let mut allowed = "EPTGMKB";
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        if rest.starts_with('-') {
            return Err(ValueError::range(text, "not negative"));
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            (fraction, rest) = after.split_at(digits);
        }
        rest = rest.trim_start();
        let factor = match rest.chars().next() {
            None => {
                allowed = "";
                1
            }
            Some(suffix) => {
                let position = allowed.find(suffix).ok_or_else(invalid)?;
                let power = allowed.len() - position - 1;
                allowed = &allowed[position + 1..];
                rest = &rest[1..];
                base.pow(u32::try_from(power).map_err(|_| invalid())?)
            }
        };
        let mut part = whole.checked_mul(factor).ok_or_else(too_large)?;
        part = part
            .checked_add(fraction_of(fraction, factor))
            .ok_or_else(too_large)?;
        total = total.checked_add(part).ok_or_else(too_large)?;
        rest = rest.trim_start();
    }
    Ok(total)
}

fn fraction_of(digits: &str, factor: u64) -> u64 {
    // Digits beyond the eighteenth are less than a byte.
    let digits = &digits[..digits.len().min(18)];
    let value: u128 = digits.parse().unwrap_or(0);
    let scale = 10u128.pow(u32::try_from(digits.len()).unwrap_or(0));
    u64::try_from(value * u128::from(factor) / scale).unwrap_or(u64::MAX)
}

/// A share in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permyriad(pub u32);

impl fmt::Display for Permyriad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}%"),
            (whole, rest) => write!(f, "{whole}.{rest:02}%"),
        }
    }
}

/// Reads a percentage, per mille or per ten thousand. `bounded` refuses more than the whole.
///
/// # Errors
/// It is none of them.
pub fn parse_permyriad(text: &str, bounded: bool) -> Result<Permyriad, ValueError> {
    let invalid = || ValueError::invalid(text, "a share such as 50%");
    let (number, places) = if let Some(number) = text.strip_suffix('%') {
        (number, 2)
    } else if let Some(number) = text.strip_suffix('\u{2030}') {
        (number, 1)
    } else if let Some(number) = text.strip_suffix('\u{2031}') {
        (number, 0)
    } else {
        return Err(invalid());
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let dangling = number.ends_with('.');
    if whole.is_empty()
        || dangling
        || !all_digits(whole)
        || !all_digits(fraction)
        || fraction.len() > places
    {
        return Err(invalid());
    }
    let digits = format!("{whole}{fraction:0<places$}");
    let value: u32 = digits.parse().map_err(|_| invalid())?;
    if bounded && value > 10_000 {
        return Err(ValueError::range(text, "at most 100%"));
    }
    Ok(Permyriad(value))
}

impl Setting for Permyriad {
    const KIND: &'static str = "share";

    fn assign(&mut self, text: &str, _: &mut ValueContext<'_>) -> Result<(), AssignError> {
        *self = if text.is_empty() {
            Self(0)
        } else {
            parse_permyriad(text, true)?
        };
        Ok(())
    }
}

/// An amount of memory or of tasks: absolute, a share of what there is, or all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    #[default]
    Infinity,
    /// So many bytes, or tasks.
    Absolute(u64),
    /// A share of the machine's memory, or of the tasks it allows.
    Share(Permyriad),
}

impl Limit {
    /// Reads an amount of memory.
    ///
    /// # Errors
    /// It is neither a size, a share nor `infinity`.
    pub fn parse_memory(text: &str) -> Result<Self, ValueError> {
        Self::parse(text, |text| parse_size(text, 1024))
    }

    /// Reads a number of tasks.
    ///
    /// # Errors
    /// It is neither a positive number, a share nor `infinity`.
    pub fn parse_tasks(text: &str) -> Result<Self, ValueError> {
        let limit = Self::parse(text, narrow::<u64>)?;
        match limit {
            Self::Absolute(0) => Err(ValueError::range(text, "at least 1")),
            _ => Ok(limit),
        }
    }

    fn parse(
        text: &str,
        absolute: impl Fn(&str) -> Result<u64, ValueError>,
    ) -> Result<Self, ValueError> {
        if text == "infinity" {
            return Ok(Self::Infinity);
        }
        match parse_permyriad(text, true) {
            Ok(share) => Ok(Self::Share(share)),
            Err(ValueError::OutOfRange { text, range }) => {
                Err(ValueError::OutOfRange { text, range })
            }
            Err(_) => absolute(text).map(Self::Absolute),
        }
    }
}

/// A file mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode(pub u16);

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

scalar_setting!(Mode, "file mode", |text: &str| {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    u16::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777 && !digits.starts_with('+'))
        .map(Mode)
        .ok_or_else(|| ValueError::invalid(text, "an octal file mode"))
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::testing::{assign, read};
    use proptest::prelude::*;

    #[test]
    fn booleans_have_six_words_each() {
        for text in ["1", "yes", "Y", "TRUE", "t", "On"] {
            assert_eq!(parse_boolean(text), Ok(true));
        }
        for text in ["0", "no", "n", "False", "f", "off"] {
            assert_eq!(parse_boolean(text), Ok(false));
        }
        for text in ["", "2", "yess", "maybe"] {
            assert!(parse_boolean(text).is_err());
        }
    }

    #[test]
    fn integers_are_read_as_c_does() {
        for (text, value) in [
            ("10", 10),
            ("-3", -3),
            ("+4", 4),
            ("0x1F", 31),
            ("010", 8),
            ("0b11", 3),
            ("0o17", 15),
            ("0", 0),
        ] {
            assert_eq!(parse_integer(text), Ok(value), "{text}");
        }
        for text in [
            "",
            "x",
            "1x",
            "0x",
            "--1",
            "+-1",
            "0x-1",
            "9223372036854775808",
            "09",
        ] {
            assert!(parse_integer(text).is_err(), "{text}");
        }
        assert_eq!(assign(&mut 7u32, &["-1"]).len(), 1);
    }

    #[test]
    fn sizes_have_suffixes() {
        for (text, base, value) in [
            ("1024", 1024, 1024),
            ("4K", 1024, 4096),
            ("1.5M", 1024, 1_572_864),
            ("1G 512M", 1024, 1_610_612_736),
            ("3 B", 1024, 3),
            ("2K", 1000, 2000),
            ("1E", 1024, 1 << 60),
        ] {
            assert_eq!(parse_size(text, base), Ok(value), "{text}");
        }
        for text in ["", "K", "-1", "1X", "1K 1M", "1 2", "99E", "1k"] {
            assert!(parse_size(text, 1024).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_have_three_units() {
        for (text, value) in [
            ("50%", 5000),
            ("0.25%", 25),
            ("5\u{2030}", 50),
            ("5.5\u{2030}", 55),
            ("7\u{2031}", 7),
        ] {
            assert_eq!(parse_permyriad(text, true), Ok(Permyriad(value)), "{text}");
        }
        for text in ["50", "%", "-1%", "1.234%", "101%", "1.%", ".5%"] {
            assert!(parse_permyriad(text, true).is_err(), "{text}");
        }
        assert_eq!(parse_permyriad("250%", false), Ok(Permyriad(25_000)));
        assert_eq!(Permyriad(1250).to_string(), "12.50%");
    }

    #[test]
    fn limits_are_sizes_shares_or_none() {
        assert_eq!(Limit::parse_memory("1G"), Ok(Limit::Absolute(1 << 30)));
        assert_eq!(
            Limit::parse_memory("40%"),
            Ok(Limit::Share(Permyriad(4000)))
        );
        assert_eq!(Limit::parse_memory("infinity"), Ok(Limit::Infinity));
        assert!(Limit::parse_memory("140%").is_err());
        assert!(Limit::parse_tasks("0").is_err());
        assert_eq!(Limit::parse_tasks("4096"), Ok(Limit::Absolute(4096)));
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(read::<Option<Mode>>(&["0755"]), Some(Mode(0o755)));
        assert_eq!(Mode(0o22).to_string(), "0022");
        for text in ["", "8", "17777", "+7", "rwx"] {
            assert_eq!(assign(&mut Mode(0), &[text]).len(), 1, "{text}");
        }
    }

    #[test]
    fn no_time_and_zero_are_never() {
        for text in ["", "0", "infinity"] {
            assert_eq!(
                read::<Timeout>(&[text]),
                Timeout(TimeSpan::INFINITY),
                "{text}"
            );
        }
        assert_eq!(read::<Timeout>(&["5"]), Timeout(TimeSpan::from_secs(5)));
    }

    proptest! {
        #[test]
        fn any_text_is_taken_without_panic(text in "[-+0-9a-zA-Z.% \u{2030}]{0,25}") {
            let _ = (parse_integer(&text), parse_size(&text, 1024), parse_permyriad(&text, false), parse_boolean(&text));
        }
    }
}
