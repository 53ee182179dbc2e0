//! Why a machine changes its state.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why something is done to a machine, or was done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Reason {
    /// Somebody asked for it.
    Asked,
    /// It had no work for as long as its timer allows.
    Idle,
    /// It was stopped for as long as its timer allows.
    StoppedLong,
    /// It reached its greatest lifetime.
    Lifetime,
    /// A pool needs one more that is ready.
    Pool,
    /// A pool had replaced it because it did not answer, and nobody had ever used it.
    Silent,
    /// Its pool makes other machines now, and nobody had ever used it.
    Replaced,
    /// The provider took it back, as it may with a spot machine.
    Interrupted,
    /// Its provider could not make it.
    NotMade,
    /// Nobody waited any more for it to be made, after a crash.
    Abandoned,
    /// The provider has it twice; one is enough.
    Duplicate,
    /// It bears our mark, and nothing is known about it.
    Orphan,
    /// It was changed from outside: by the provider's console, or from inside the machine.
    Outside,
}

impl Reason {
    /// A sentence's worth.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "it was asked for",
            Self::Idle => "it was idle",
            Self::StoppedLong => "it was stopped for long",
            Self::Lifetime => "its lifetime is over",
            Self::Pool => "its pool needs it",
            Self::Silent => "it did not answer",
            Self::Replaced => "its pool makes others now",
            Self::Interrupted => "its provider took it back",
            Self::NotMade => "its provider could not make it",
            Self::Abandoned => "nobody waits for it any more",
            Self::Duplicate => "its provider has it twice",
            Self::Orphan => "it bears our mark and nobody knows it",
            Self::Outside => "it was changed from outside",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
