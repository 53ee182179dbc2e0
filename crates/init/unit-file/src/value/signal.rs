//! Signals by name and number.

use std::fmt;

use super::{ValueError, number::parse_integer, scalar_setting};

/// Names of the classic signals; the index is the number on Linux (x86, ARM, RISC-V).
const NAMES: [&str; 32] = [
    "", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
const REALTIME_FIRST: u8 = 34;
const REALTIME_LAST: u8 = 64;

/// A signal number from 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

impl Signal {
    /// Abort.
    pub const ABRT: Self = Self(6);
    /// Hang up.
    pub const HUP: Self = Self(1);
    /// Interrupt.
    pub const INT: Self = Self(2);
    /// Kill.
    pub const KILL: Self = Self(9);
    /// Broken pipe.
    pub const PIPE: Self = Self(13);
    /// Terminate.
    pub const TERM: Self = Self(15);

    /// The signal with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        if number >= 1 && number <= REALTIME_LAST {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Reads a name (with or without `SIG`), `RTMIN+n`, `RTMAX-n` or a number.
    ///
    /// # Errors
    /// There is no such signal.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        Self::find(text).ok_or_else(|| ValueError::invalid(text, "a signal such as SIGTERM"))
    }

    pub(crate) fn find(text: &str) -> Option<Self> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let number = parse_integer(text).ok()?;
            return Self::from_number(u8::try_from(number).ok()?);
        }
        let name = text.strip_prefix("SIG").unwrap_or(text);
        if let Some(number) = (1u8..).zip(&NAMES[1..]).find(|(_, known)| **known == name) {
            return Some(Self(number.0));
        }
        match name {
            "POLL" => return Some(Self(29)),
            "IOT" => return Some(Self::ABRT),
            "CLD" => return Some(Self(17)),
            "RTMIN" => return Some(Self(REALTIME_FIRST)),
            "RTMAX" => return Some(Self(REALTIME_LAST)),
            _ => {}
        }
        let offset = |text: &str| {
            text.parse::<u8>()
                .ok()
                .filter(|n| !text.starts_with('+') && *n <= REALTIME_LAST - REALTIME_FIRST)
        };
        if let Some(n) = name.strip_prefix("RTMIN+").and_then(offset) {
            return Some(Self(REALTIME_FIRST + n));
        }
        name.strip_prefix("RTMAX-")
            .and_then(offset)
            .map(|n| Self(REALTIME_LAST - n))
    }
}

impl Default for Signal {
    fn default() -> Self {
        Self::TERM
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0)) {
            Some(name) => write!(f, "SIG{name}"),
            None if self.0 < REALTIME_FIRST => write!(f, "{}", self.0),
            None => write!(f, "RTMIN+{}", self.0 - REALTIME_FIRST),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

scalar_setting!(Signal, "signal", Signal::parse);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (text, number) in [
            ("TERM", 15),
            ("SIGTERM", 15),
            ("9", 9),
            ("RTMIN", 34),
            ("SIGRTMIN+3", 37),
            ("RTMAX-1", 63),
            ("WINCH", 28),
            ("POLL", 29),
        ] {
            assert_eq!(
                Signal::parse(text).map(Signal::number),
                Ok(number),
                "{text}"
            );
        }
        for text in [
            "", "SIG", "0", "65", "term", "RTMIN+31", "RTMAX-31", "RTMIN+-1", "RTMIN++1",
        ] {
            assert!(Signal::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_signal_comes_back_from_its_name() {
        for signal in (1..=64).filter_map(Signal::from_number) {
            assert_eq!(Signal::parse(&signal.to_string()), Ok(signal));
        }
    }
}
