//! When use is too much.
//!
//! One [`Watchdog`] per rule, a state machine that knows no clock: it is told a value and how much time has passed since the
//! value before.
//!
//! ```text
//!            at or above the maximum           for the duration: raise
//!   Normal ---------------------------> Rising ------------------------> Raised <-----------------.
//!     ^                                   |                              |  |  | for the duration |
//!     |<----------------------------------'                              |  |  '---- continue ----'
//!     |     below the maximum                       below the minimum    |  |
//!     |                                       .--------------------------'  |
//!     |          for the duration: fall       v                             | at or above
//!     '------------------------------------ Falling ------------------------' the minimum
//! ```
//!
//! A rule without a duration raises and falls with the first value that does, and repeats with every value. What is said is
//! always raise, any number of continues, fall, and again.

mod set;
#[cfg(test)]
mod tests;

use std::time::Duration;

use muster_api::domain::{AlertRule, AlertStatus, Percent};

pub(crate) use self::set::{Change, RuleSet};

/// A rule of either kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// In percent of what there is.
    Percent(AlertRule<Percent>),
    /// In units of the value itself.
    Points(AlertRule<u64>),
}

/// A value, and what its percentages refer to, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) value: u64,
    pub(crate) whole: Option<u64>,
}

/// A value as its rule sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Judged {
    /// At or above the upper threshold.
    high: bool,
    /// Below the lower threshold. Never together with `high`, since no rule has its thresholds the wrong way round.
    low: bool,
}

impl Rule {
    fn duration(self) -> Duration {
        match self {
            Self::Percent(rule) => rule.duration().into(),
            Self::Points(rule) => rule.duration().into(),
        }
    }

    /// `None` when percentages refer to nothing.
    fn judge(self, measured: Measured) -> Option<Judged> {
        let value = measured.value;
        match self {
            Self::Points(rule) => Some(Judged {
                high: value >= rule.max_threshold(),
                low: value < rule.min_threshold(),
            }),
            Self::Percent(rule) => {
                let whole = measured.whole.filter(|whole| *whole > 0)? as f64;
                // The same formula for both, so that they keep their order.
                let threshold = |percent: Percent| whole * percent.get() / 100.0;
                Some(Judged {
                    high: value as f64 >= threshold(rule.max_threshold()),
                    low: (value as f64) < threshold(rule.min_threshold()),
                })
            }
        }
    }
}

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Normal,
    /// At or above the maximum for so long.
    Rising {
        held: Duration,
    },
    /// An alert is open, and nothing was said for so long.
    Raised {
        silent: Duration,
    },
    /// The same, but below the minimum for so long.
    Falling {
        held: Duration,
        silent: Duration,
    },
}

/// One rule and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Watchdog {
    rule: Rule,
    phase: Phase,
    /// The last value that was judged.
    value: u64,
}

impl Watchdog {
    fn new(rule: Rule) -> Self {
        Self {
            rule,
            phase: Phase::Normal,
            value: 0,
        }
    }

    /// Whether an alert is open: raised and not fallen.
    fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Raised { .. } | Phase::Falling { .. })
    }

    /// A value, so long after the one before; what is to be said.
    fn step(&mut self, elapsed: Duration, measured: Measured) -> Option<AlertStatus> {
        let Judged { high, low } = self.rule.judge(measured)?;
        self.value = measured.value;
        let duration = self.rule.duration();
        let long = |held: Duration| held >= duration;
        let raise = (
            Phase::Raised {
                silent: Duration::ZERO,
            },
            Some(AlertStatus::Raise),
        );
        let fall = (Phase::Normal, Some(AlertStatus::Fall));
        let (phase, said) = match self.phase {
            Phase::Normal if high && long(Duration::ZERO) => raise,
            Phase::Normal if high => (
                Phase::Rising {
                    held: Duration::ZERO,
                },
                None,
            ),
            Phase::Rising { held } if high && long(held.saturating_add(elapsed)) => raise,
            Phase::Rising { held } if high => {
                let held = held.saturating_add(elapsed);
                (Phase::Rising { held }, None)
            }
            Phase::Normal | Phase::Rising { .. } => (Phase::Normal, None),
            Phase::Raised { .. } if low && long(Duration::ZERO) => fall,
            Phase::Raised { silent } if low => {
                let silent = silent.saturating_add(elapsed);
                let held = Duration::ZERO;
                (Phase::Falling { held, silent }, None)
            }
            Phase::Falling { held, .. } if low && long(held.saturating_add(elapsed)) => fall,
            Phase::Falling { held, silent } if low => {
                let held = held.saturating_add(elapsed);
                let silent = silent.saturating_add(elapsed);
                (Phase::Falling { held, silent }, None)
            }
            // The time below the minimum counts: an alert that is open is repeated, whatever its value does meanwhile.
            Phase::Raised { silent } | Phase::Falling { silent, .. } => {
                let silent = silent.saturating_add(elapsed);
                if long(silent) {
                    let silent = Duration::ZERO;
                    (Phase::Raised { silent }, Some(AlertStatus::Continue))
                } else {
                    (Phase::Raised { silent }, None)
                }
            }
        };
        self.phase = phase;
        said
    }
}
