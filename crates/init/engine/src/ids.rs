//! Names for things: units, jobs, actions, requests, moments.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

id! {
    /// A unit's slot in [`EngineState`](crate::EngineState). Stable while the unit is known; never shown to users.
    UnitId(u32)
}
id! {
    /// A job, numbered from 1 over the life of the machine, as users see it.
    JobId(u32)
}
id! {
    /// An action. An executor that sees the same number again has already carried it out.
    ActionId(u64)
}
id! {
    /// Who asked: chosen by the caller, given back with the outcome.
    RequestId(u64)
}

impl UnitId {
    /// The slot as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One run of a unit: 128 random bits, chosen by the executor and handed in with the event that may start units.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct InvocationId(pub u128);

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<InvocationId> for String {
    fn from(id: InvocationId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for InvocationId {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u128::from_str_radix(&text, 16).map(Self)
    }
}

/// A point on the monotonic clock, in microseconds since boot.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// This moment plus `span`; `None` for a span that never ends.
    #[must_use]
    pub fn after(self, span: Span) -> Option<Self> {
        span.finite().map(|us| Self(self.0.saturating_add(us)))
    }

    /// Microseconds since `earlier`, or 0.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A length of time in microseconds; `u64::MAX` means that it never ends, as in unit files.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub u64);

impl Span {
    /// A wait without end.
    pub const INFINITY: Self = Self(u64::MAX);

    /// So many whole seconds.
    #[must_use]
    pub const fn secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    pub(crate) fn infinity() -> Self {
        Self::INFINITY
    }

    pub(crate) fn is_infinite(&self) -> bool {
        *self == Self::INFINITY
    }

    /// The microseconds, unless this never ends.
    #[must_use]
    pub fn finite(self) -> Option<u64> {
        (self != Self::INFINITY).then_some(self.0)
    }
}

/// Both clocks at the moment an event happened. The engine never reads a clock itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// CLOCK_MONOTONIC: deadlines, back-off, start limits.
    pub monotonic: Time,
    /// CLOCK_REALTIME in microseconds since 1970: calendar timers and what users are shown.
    pub real: i64,
}
