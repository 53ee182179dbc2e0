//! `.timer`: starts another unit at moments.
//!
//! ```text
//!          Start             Elapse              unit is down
//!   dead --------> waiting ----------> running --------------> waiting / elapsed
//!    ^   Stop         |  nothing is left to come
//!    +----------------+------------------------> elapsed, or dead without RemainAfterElapse=
//! ```
//!
//! A timer has up to two moments to wait for: the nearest of its monotonic lines, which it computes itself, and the
//! nearest of its calendar lines, which the executor computes ([`Output::ComputeElapse`]) because it has their text. Both
//! are computed anew whenever something they depend on changes: the triggered unit, a clock, the time zone. While the
//! triggered unit runs nothing is waited for; a moment that passes then is not made up for, except that the next one is
//! counted from when the timer last fired.
//!
//! With Persistent= the last firing is kept on disk. What was missed while the machine was off is made up for at once.

use serde::{Deserialize, Serialize};

use super::tools::Tools;
use crate::ids::{Clock, Span, Time};
use crate::protocol::{ActiveState, DeadlineKind, Input, Outcome, Output, Severity, Triggered};
use crate::spec::{TimerBase, TimerSpec};

/// Wake-ups are gathered on multiples of these, the coarsest first that AccuracySec= allows.
const GRIDS: [u64; 4] = [60_000_000, 10_000_000, 1_000_000, 250_000];

/// The step that a timer is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimerState {
    /// Down.
    #[default]
    Dead,
    /// A moment is awaited.
    Waiting,
    /// It has fired, and what it triggers has not ended since.
    Running,
    /// Nothing is left to come.
    Elapsed,
    /// Down after a failure.
    Failed,
}

/// A timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timer {
    /// Its step.
    pub state: TimerState,
    /// Why it is down.
    pub outcome: Outcome,
    /// When it came up.
    started: Clock,
    /// When it last fired on the monotonic clock, since it came up.
    pub fired: Option<Time>,
    /// When it last fired in real time; with Persistent= also before it came up.
    pub fired_real: Option<i64>,
    /// The stamp of a persistent timer is being read.
    reading_stamp: bool,
    /// The moment after which the calendar lines are being computed.
    asked: Option<i64>,
    /// The next moment of the monotonic lines.
    pub next: Option<Time>,
    /// The next moment of the calendar lines.
    pub next_real: Option<i64>,
}

impl Timer {
    pub(super) fn active(self) -> ActiveState {
        match self.state {
            TimerState::Dead => ActiveState::Inactive,
            TimerState::Waiting | TimerState::Running | TimerState::Elapsed => ActiveState::Active,
            TimerState::Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(self) -> &'static str {
        match self.state {
            TimerState::Dead => "dead",
            TimerState::Waiting => "waiting",
            TimerState::Running => "running",
            TimerState::Elapsed => "elapsed",
            TimerState::Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &TimerSpec, input: &Input, tools: &mut Tools<'_>) {
        use TimerState::*;
        match (input, self.state) {
            (Input::Start { .. }, Dead | Failed) => self.start(spec, tools),
            (Input::Stop, Waiting | Running | Elapsed) => {
                self.enter_dead(Outcome::Success, tools);
            }
            (Input::LastStamp { at }, Waiting) if self.reading_stamp => {
                self.take_stamp(*at, spec, tools);
            }
            (Input::NextElapse { after, at }, Waiting) if self.asked == Some(*after) => {
                self.asked = None;
                self.calendar_computed(at, spec, tools);
            }
            (Input::Deadline(DeadlineKind::Elapse), Waiting) => self.maybe_elapse(spec, tools),
            (Input::ClockChanged, Waiting) => {
                // A firing that now lies in the future would hold the next one back until then.
                let now = tools.context.now.real;
                self.fired_real = self.fired_real.map(|fired| fired.min(now));
                self.started.real = self.started.real.min(now);
                if spec.on_clock_change {
                    self.fire(spec, tools);
                } else {
                    self.wait(spec, tools);
                }
            }
            (Input::TimezoneChanged, Waiting) if spec.on_timezone_change => self.fire(spec, tools),
            (Input::TimezoneChanged | Input::Reloaded, Waiting) => self.wait(spec, tools),
            (Input::TriggeredChanged { .. }, Waiting | Elapsed) if depends_on_unit(spec) => {
                self.wait(spec, tools);
            }
            (
                Input::TriggeredChanged {
                    active,
                    start_pending: false,
                    ..
                },
                Running,
            ) if active.is_down() => self.wait(spec, tools),
            (Input::StartLimitHit, Dead | Failed) => {
                self.outcome = Outcome::StartLimitHit;
                self.state = Failed;
            }
            (Input::ResetFailed, Failed) => *self = Self::default(),
            _ => {}
        }
    }

    fn start(&mut self, spec: &TimerSpec, tools: &mut Tools<'_>) {
        *self = Self {
            state: TimerState::Waiting,
            started: tools.context.now,
            reading_stamp: spec.persistent,
            ..Self::default()
        };
        if spec.persistent {
            return tools.push(Output::ReadStamp);
        }
        self.wait(spec, tools);
    }

    fn take_stamp(&mut self, at: Option<i64>, spec: &TimerSpec, tools: &mut Tools<'_>) {
        self.reading_stamp = false;
        let now = tools.context.now.real;
        match at {
            Some(at) if at > now => {
                tools.log(Severity::Warning, "Its last firing lies in the future.");
                self.fired_real = Some(now);
            }
            Some(at) => self.fired_real = Some(at),
            // The first start ever: from now on it is known when it would have fired.
            None => tools.push(Output::StampTimer),
        }
        self.wait(spec, tools);
    }

    /// Computes what is awaited next.
    fn wait(&mut self, spec: &TimerSpec, tools: &mut Tools<'_>) {
        self.state = TimerState::Waiting;
        self.forget_moments(tools);
        if self.reading_stamp {
            return;
        }
        self.next = self.next_monotonic(spec, tools.context.triggered, tools.context.now);
        if spec.calendars > 0 {
            let after = self.fired_real.unwrap_or(self.started.real);
            self.asked = Some(after);
            tools.push(Output::ComputeElapse { after });
        }
        self.arm(spec, tools);
    }

    fn next_monotonic(
        &self,
        spec: &TimerSpec,
        unit: Option<Triggered>,
        now: Clock,
    ) -> Option<Time> {
        let unit = unit.unwrap_or_default();
        let last = self.fired.unwrap_or_default();
        let moments = spec.monotonic.iter().filter_map(|(base, span)| {
            let from = match base {
                TimerBase::Active => self.started.monotonic,
                TimerBase::Boot => Time(0),
                TimerBase::Startup => spec.startup,
                // Without a run there is nothing to count from.
                TimerBase::UnitActive => Some(unit.inactive_exit.max(last)).filter(|t| t.0 > 0)?,
                TimerBase::UnitInactive => {
                    Some(unit.inactive_enter.max(last)).filter(|t| t.0 > 0)?
                }
            };
            let at = from.after(*span)?.after(spec.random_delay)?;
            let at = Time(gather(at.0, spec.accuracy));
            let once = !matches!(base, TimerBase::UnitActive | TimerBase::UnitInactive);
            (!once || self.fired.is_none() || at > now.monotonic).then_some(at)
        });
        moments.min()
    }

    fn calendar_computed(&mut self, at: &[Option<i64>], spec: &TimerSpec, tools: &mut Tools<'_>) {
        self.next_real = at.iter().flatten().min().map(|at| {
            // What was missed counts from now, so that the random delay still spreads it.
            let at = (*at).max(self.started.real);
            let delay = i64::try_from(spec.random_delay.0).unwrap_or(i64::MAX);
            let delayed = at.saturating_add(delay);
            u64::try_from(delayed).map_or(delayed, |us| {
                i64::try_from(gather(us, spec.accuracy)).unwrap_or(i64::MAX)
            })
        });
        self.arm(spec, tools);
    }

    /// Waits for what is known; a timer with nothing to come has elapsed.
    fn arm(&mut self, spec: &TimerSpec, tools: &mut Tools<'_>) {
        let now = tools.context.now;
        let mut real = self.next_real;
        if spec.wake_system {
            // Only the real-time alarm wakes a sleeping machine.
            let moment = self.next.map(|at| {
                let left = i64::try_from(at.since(now.monotonic)).unwrap_or(i64::MAX);
                now.real.saturating_add(left)
            });
            real = [real, moment].into_iter().flatten().min();
        }
        tools.push(Output::Deadline {
            kind: DeadlineKind::Elapse,
            at: self.next,
        });
        if spec.calendars > 0 || spec.wake_system {
            tools.push(Output::RealDeadline {
                at: real,
                wake: spec.wake_system,
            });
        }
        let nothing = self.next.is_none() && self.next_real.is_none() && self.asked.is_none();
        if nothing && !spec.on_clock_change && !spec.on_timezone_change {
            if spec.remain_after_elapse || depends_on_unit(spec) {
                self.state = TimerState::Elapsed;
            } else {
                self.enter_dead(Outcome::Success, tools);
            }
        }
    }

    fn maybe_elapse(&mut self, spec: &TimerSpec, tools: &mut Tools<'_>) {
        let now = tools.context.now;
        let due = self.next.is_some_and(|at| at <= now.monotonic)
            || self.next_real.is_some_and(|at| at <= now.real);
        if due {
            self.fire(spec, tools);
        } else {
            // The message was on its way when the moment was moved.
            self.arm(spec, tools);
        }
    }

    fn fire(&mut self, spec: &TimerSpec, tools: &mut Tools<'_>) {
        if tools.context.stop_pending {
            return;
        }
        self.forget_moments(tools);
        self.fired = Some(tools.context.now.monotonic);
        self.fired_real = Some(tools.context.now.real);
        if spec.persistent {
            tools.push(Output::StampTimer);
        }
        tools.push(Output::Trigger { connection: None });
        self.state = TimerState::Running;
    }

    fn forget_moments(&mut self, tools: &mut Tools<'_>) {
        self.asked = None;
        if self.next.take().is_some() {
            tools.disarm(DeadlineKind::Elapse);
        }
        if self.next_real.take().is_some() {
            tools.push(Output::RealDeadline {
                at: None,
                wake: false,
            });
        }
    }

    fn enter_dead(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.outcome = outcome;
        self.reading_stamp = false;
        self.forget_moments(tools);
        tools.disarm(DeadlineKind::Elapse);
        tools.push(Output::RealDeadline {
            at: None,
            wake: false,
        });
        self.state = TimerState::Dead;
    }
}

/// Whether what is triggered decides about the next moment.
fn depends_on_unit(spec: &TimerSpec) -> bool {
    let by_unit =
        |base: &TimerBase| matches!(base, TimerBase::UnitActive | TimerBase::UnitInactive);
    spec.monotonic.iter().any(|(base, _)| by_unit(base))
}

/// The first point of the coarsest grid that lies between `at` and `at + accuracy`, or `at` itself.
fn gather(at: u64, accuracy: Span) -> u64 {
    let latest = at.saturating_add(accuracy.0);
    GRIDS
        .iter()
        .filter_map(|grid| at.checked_next_multiple_of(*grid))
        .find(|point| *point <= latest)
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_gathered_within_the_accuracy() {
        let cases = [
            (61_000_000, Span::secs(60), 120_000_000),
            (61_000_001, Span::secs(10), 70_000_000),
            (61_000_001, Span::secs(1), 62_000_000),
            (61_000_001, Span(300_000), 61_250_000),
            (61_000_001, Span(1), 61_000_001),
            (120_000_000, Span::secs(60), 120_000_000),
            (u64::MAX, Span::INFINITY, u64::MAX),
        ];
        for (at, accuracy, expected) in cases {
            assert_eq!(gather(at, accuracy), expected, "{at} {accuracy:?}");
        }
    }
}
