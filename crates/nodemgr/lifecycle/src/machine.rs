//! The state machine of one machine.

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::reason::Reason;
use crate::rules::{RefusedVerb, Step, decide};
use crate::state::{Halt, State};
use crate::verb::{Verb, VerbSet};

/// A verb on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// What the provider is asked to do.
    pub verb: Verb,
    /// Why.
    pub reason: Reason,
    /// Since when.
    pub since: Moment,
}

/// How long to wait for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Look again then.
    Until(Moment),
    /// A graceful stop took too long: cut the power.
    Force,
    /// A machine that was started is stopped all the same: it will not run.
    GiveUp,
}

impl Task {
    /// A graceful stop that takes longer than `grace` becomes a forced one, if the provider can do that. Nothing else is
    /// ever forced: a hibernation that is cut short loses what it was for.
    fn patience(&self, grace: Duration, supported: VerbSet, now: Moment) -> Option<Patience> {
        if self.verb != Verb::Stop || !supported.has(Verb::ForceStop) {
            return None;
        }
        let until = self.since.after(grace);
        Some(match until <= now {
            true => Patience::Force,
            false => Patience::Until(until),
        })
    }

    /// Whether a state is where the task leads, or shows that it will not get there.
    fn end_in(&self, state: State) -> Option<Ended> {
        let reached = match self.verb {
            Verb::Start | Verb::Resume => state == State::Running,
            Verb::Stop | Verb::ForceStop => matches!(state, State::Stopped(_)),
            Verb::Hibernate => state == State::Stopped(Halt::Hibernated),
            // It stays inside running; the provider's answer ends it, see [`Lifecycle::acknowledge`].
            Verb::Reboot => false,
            Verb::Terminate => state == State::Terminated,
        };
        let settled = match self.verb {
            Verb::Terminate => false,
            Verb::Start | Verb::Resume | Verb::Reboot => state.is_ending(),
            Verb::Stop | Verb::ForceStop => state.is_ending(),
            // Memory that does not fit or a system that refuses: it is switched off instead.
            Verb::Hibernate => state.is_ending() || matches!(state, State::Stopped(_)),
        };
        match (reached, settled) {
            (true, _) => Some(Ended::Reached(self.verb)),
            (false, true) => Some(Ended::Otherwise(self.verb)),
            (false, false) => None,
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The machine is where the verb leads.
    Reached(Verb),
    /// The machine settled elsewhere.
    Otherwise(Verb),
}

/// What an observation changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Same,
    /// The state.
    Moved {
        /// What it was.
        from: State,
        /// The task that this ended.
        ended: Option<Ended>,
    },
}

/// Something was seen that cannot be: another machine answers to the name, or the provider's view is older than ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a machine that was {from} is said to be {to}")]
pub struct ImpossibleMove {
    /// What was known.
    pub from: State,
    /// What was seen.
    pub to: State,
}

/// What is known about a machine's state, and the task under way. One at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    state: State,
    since: Moment,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Task>,
}

impl Lifecycle {
    /// A machine that was seen for the first time.
    #[must_use]
    pub const fn new(state: State, now: Moment) -> Self {
        Self {
            state,
            since: now,
            task: None,
        }
    }

    /// Where it was last seen.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Since when it is there.
    #[must_use]
    pub const fn since(&self) -> Moment {
        self.since
    }

    /// What is under way.
    #[must_use]
    pub const fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// How long to wait for the task that the provider has taken on: a graceful stop its `grace`, and a start as long as the
    /// provider may still show what was before, which is `settle`.
    #[must_use]
    pub fn patience(
        &self,
        grace: Duration,
        settle: Duration,
        supported: VerbSet,
        now: Moment,
    ) -> Option<Patience> {
        let task = self.task?;
        let starts = matches!(task.verb, Verb::Start | Verb::Resume);
        if !starts || !matches!(self.state, State::Stopped(_)) {
            return task.patience(grace, supported, now);
        }
        let until = task.since.max(self.since).after(settle);
        Some(match until <= now {
            true => Patience::GiveUp,
            false => Patience::Until(until),
        })
    }

    /// Takes a verb on, unless there is nothing to do. A terminate replaces any task, a forced stop a graceful one; asking
    /// again for what is under way is nothing to do.
    ///
    /// # Errors
    /// When it is not allowed now. Nothing has changed then.
    pub fn begin(
        &mut self,
        verb: Verb,
        supported: VerbSet,
        reason: Reason,
        now: Moment,
    ) -> Result<Step, RefusedVerb> {
        let step = decide(self.state, verb, supported)?;
        let Step::Act(act) = step else {
            return Ok(step);
        };
        if let Some(task) = self.task {
            let replaces = match act {
                Verb::Terminate => task.verb != Verb::Terminate,
                Verb::ForceStop => matches!(task.verb, Verb::Stop | Verb::Hibernate),
                _ => false,
            };
            if !replaces {
                return self.while_busy(task, verb, act);
            }
        }
        self.task = Some(Task {
            verb: act,
            reason,
            since: now,
        });
        Ok(step)
    }

    /// The provider has not shown the effect of a task yet, and more is asked.
    fn while_busy(&self, task: Task, asked: Verb, act: Verb) -> Result<Step, RefusedVerb> {
        let stops = |verb| matches!(verb, Verb::Stop | Verb::ForceStop);
        if task.verb == act || stops(task.verb) && stops(act) {
            return Ok(Step::Already);
        }
        Err(RefusedVerb::Illegal {
            verb: asked,
            state: self.state,
            advice: match task.verb {
                Verb::Start | Verb::Resume => "it is being started, wait until it runs",
                Verb::Stop | Verb::ForceStop => "it is being stopped, wait until it is",
                Verb::Hibernate => "it is being hibernated, wait until it is",
                Verb::Reboot => "it is being rebooted, wait until it is",
                Verb::Terminate => "it is being terminated, make another",
            },
        })
    }

    /// Takes over what the provider shows.
    ///
    /// # Errors
    /// When it cannot be. Nothing has changed then.
    pub fn observe(&mut self, seen: State, now: Moment) -> Result<Seen, ImpossibleMove> {
        let from = self.state;
        if !from.may_become(seen) {
            return Err(ImpossibleMove { from, to: seen });
        }
        let ended = self.task.and_then(|task| task.end_in(seen));
        if ended.is_some() {
            self.task = None;
        }
        if seen == from && ended.is_none() {
            return Ok(Seen::Same);
        }
        if seen != from {
            self.state = seen;
            self.since = now;
        }
        Ok(Seen::Moved { from, ended })
    }

    /// The provider has done what it was asked: ends a reboot, which shows in no state.
    pub fn acknowledge(&mut self, verb: Verb) -> Option<Ended> {
        let task = self.task.filter(|task| task.verb == verb)?;
        if task.verb != Verb::Reboot {
            return None;
        }
        self.task = None;
        Some(Ended::Reached(verb))
    }

    /// The provider will not do what it was asked.
    pub fn give_up(&mut self, verb: Verb) {
        if self.task.is_some_and(|task| task.verb == verb) {
            self.task = None;
        }
    }
}
