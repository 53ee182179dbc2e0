//! Severities, facilities, and the `<N>` that may stand before a message.

/// How severe a message is, 0 (emergency) to 7 (debug).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The system is unusable.
    pub const EMERG: Self = Self(0);
    /// A condition that threatens the system.
    pub const CRIT: Self = Self(2);
    /// A failure.
    pub const ERR: Self = Self(3);
    /// Something to look at.
    pub const WARNING: Self = Self(4);
    /// Normal, but worth knowing.
    pub const NOTICE: Self = Self(5);
    /// What happens.
    pub const INFO: Self = Self(6);
    /// What only a developer wants to see.
    pub const DEBUG: Self = Self(7);

    /// The level of a number; more than 7 is none.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 8 { Some(Self(number)) } else { None }
    }

    /// The level by the name that configuration uses, or by its digit.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        const NAMES: [&str; 8] = [
            "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
        ];
        let position = NAMES
            .iter()
            .position(|known| *known == name)
            .or_else(|| name.parse().ok().filter(|number| *number < 8))?;
        u8::try_from(position).ok().and_then(Self::new)
    }

    /// The number, 0 to 7.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The number as the text of a field.
    #[must_use]
    pub fn digit(self) -> &'static str {
        const DIGITS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
        DIGITS[usize::from(self.0)]
    }
}

/// A level with the facility that a syslog client claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// How severe it is.
    pub level: Level,
    /// Which part of the system says it, 0 to 127; 0 is the kernel.
    pub facility: u8,
}

/// Takes `<N>` off the beginning: one to three digits, at most 1023 as the kernel's facilities go.
///
/// Text without a complete prefix is returned as it is.
#[must_use]
pub fn split_priority(text: &[u8]) -> (Option<Priority>, &[u8]) {
    let Some(inner) = text.strip_prefix(b"<") else {
        return (None, text);
    };
    let Some(close) = inner.iter().take(4).position(|byte| *byte == b'>') else {
        return (None, text);
    };
    let Some(number) = decimal(&inner[..close]).filter(|number| *number < 1024) else {
        return (None, text);
    };
    let level = Level(u8::try_from(number & 7).unwrap_or(7));
    let facility = u8::try_from(number >> 3).unwrap_or(u8::MAX);
    (Some(Priority { level, facility }), &inner[close + 1..])
}

/// Takes a bare level, `<0>` to `<7>`, off the beginning: what a service may put before a line.
#[must_use]
pub fn split_level(text: &[u8]) -> (Option<Level>, &[u8]) {
    match split_priority(text) {
        (Some(priority), rest) if priority.facility == 0 => (Some(priority.level), rest),
        _ => (None, text),
    }
}

/// A decimal number without a sign, if that is all there is.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_taken_off_only_when_it_is_complete() {
        let priority = |level: u8, facility| Priority {
            level: Level(level),
            facility,
        };
        assert_eq!(split_priority(b"<13>x"), (Some(priority(5, 1)), &b"x"[..]));
        assert_eq!(split_priority(b"<0>"), (Some(priority(0, 0)), &b""[..]));
        for text in [
            "<13", "<>x", "<a>x", "<1234>x", "< 3>x", "<-1>x", "13>x", "",
        ] {
            assert_eq!(split_priority(text.as_bytes()), (None, text.as_bytes()));
        }
        assert_eq!(split_priority(b"<999>x").0, Some(priority(7, 124)));
    }

    #[test]
    fn a_line_carries_a_level_but_no_facility() {
        assert_eq!(split_level(b"<4>x"), (Some(Level::WARNING), &b"x"[..]));
        assert_eq!(split_level(b"<12>x"), (None, &b"<12>x"[..]));
    }

    #[test]
    fn levels_have_names_and_numbers() {
        assert_eq!(Level::from_name("err"), Some(Level::ERR));
        assert_eq!(Level::from_name("7"), Some(Level::DEBUG));
        assert_eq!(Level::from_name("8"), None);
        assert_eq!(Level::from_name("loud"), None);
    }
}
