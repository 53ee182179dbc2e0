//! What a check finds.

use std::borrow::Cow;

/// What a check found about a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// How bad it is, of how bad it could be; nothing where it does not matter.
    badness: Option<(u8, u8)>,
    pub(super) text: Cow<'static, str>,
}

impl Verdict {
    /// `badness` of `worst`.
    pub(super) fn partly(badness: u8, worst: u8, text: impl Into<Cow<'static, str>>) -> Self {
        debug_assert!(worst > 0 && badness <= worst);
        Self {
            badness: Some((badness, worst)),
            text: text.into(),
        }
    }

    pub(super) fn good(text: impl Into<Cow<'static, str>>) -> Self {
        Self::partly(0, 1, text)
    }

    pub(super) fn bad(text: impl Into<Cow<'static, str>>) -> Self {
        Self::partly(1, 1, text)
    }

    /// Whether it can do something that is said after "It can".
    pub(super) fn ability(can: bool, phrase: &str) -> Self {
        if can {
            Self::bad(format!("It can {phrase}"))
        } else {
            Self::good(format!("It cannot {phrase}"))
        }
    }

    pub(super) fn irrelevant(text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            badness: None,
            text: text.into(),
        }
    }

    /// How much of a weight is exposed.
    pub(super) fn exposed(&self, weight: u16) -> Option<u64> {
        let (badness, worst) = self.badness?;
        Some((u64::from(badness) * u64::from(weight)).div_ceil(u64::from(worst)))
    }
}
