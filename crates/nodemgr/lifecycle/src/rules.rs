//! What may be asked of a machine in each state.

#[cfg(test)]
mod tests;

use crate::state::{Halt, State};
use crate::verb::{Verb, VerbSet};

/// What a verb amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The machine is where the verb leads, or on its way there: nothing is to be done.
    Already,
    /// Ask the provider for this verb. It differs from what was asked where the words do: starting a hibernated machine
    /// is resuming it.
    Act(Verb),
}

/// Why a verb is refused, before anything happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RefusedVerb {
    /// The state does not allow it.
    #[error("cannot {verb} a machine that is {state}: {advice}")]
    Illegal {
        /// What was asked.
        verb: Verb,
        /// Where the machine is.
        state: State,
        /// What to do instead.
        advice: &'static str,
    },
    /// The provider cannot do it with any machine.
    #[error("the provider of this machine cannot {verb} machines")]
    Unsupported {
        /// What was asked, or what it amounts to.
        verb: Verb,
    },
    /// The provider can do it with others.
    #[error(
        "this machine was made so that its provider cannot {verb} it: `muster machine show` says what can be asked of it"
    )]
    NotThisOne {
        /// What was asked, or what it amounts to.
        verb: Verb,
    },
}

impl RefusedVerb {
    /// As it is for a machine of which less can be asked than of others of its provider.
    #[must_use]
    pub const fn of_machine(self, provider: VerbSet) -> Self {
        match self {
            Self::Unsupported { verb } if provider.has(verb) => Self::NotThisOne { verb },
            refused => refused,
        }
    }
}

/// What to do about a verb in a state, for a provider that can do these.
///
/// # Errors
/// When the state does not allow it, or the provider cannot do it.
pub fn decide(state: State, verb: Verb, supported: VerbSet) -> Result<Step, RefusedVerb> {
    match legal(state, verb) {
        Ok(Step::Act(verb)) if !supported.has(verb) => Err(RefusedVerb::Unsupported { verb }),
        Ok(step) => Ok(step),
        Err(advice) => Err(RefusedVerb::Illegal {
            verb,
            state,
            advice,
        }),
    }
}

const WAIT_RUNNING: &str = "wait until it runs, or terminate it";
const WAIT_STOPPED: &str = "wait until it is stopped";
const START_FIRST: &str = "start it first";
const MAKE_ANOTHER: &str = "it is gone for good, make another";

/// The table. What is not allowed comes with an advice.
fn legal(state: State, verb: Verb) -> Result<Step, &'static str> {
    use Halt::{Hibernated, Off};
    use Verb::{ForceStop, Hibernate, Reboot, Resume, Start, Stop, Terminate};
    match (state, verb) {
        (State::ShuttingDown | State::Terminated, Terminate) => Ok(Step::Already),
        (State::ShuttingDown | State::Terminated, _) => Err(MAKE_ANOTHER),
        (_, Terminate) => Ok(Step::Act(Terminate)),

        (State::Pending | State::Running, Start | Resume) => Ok(Step::Already),
        (State::Pending, Stop | ForceStop | Reboot | Hibernate) => Err(WAIT_RUNNING),
        (State::Running, Stop | ForceStop | Reboot | Hibernate) => Ok(Step::Act(verb)),

        // Whoever lost patience may cut the power, also of one that takes long to write its memory.
        (State::Stopping(_), ForceStop) => Ok(Step::Act(ForceStop)),
        (State::Stopping(Off), Stop) | (State::Stopping(Hibernated), Stop | Hibernate) => {
            Ok(Step::Already)
        }
        (State::Stopping(_), Start | Resume | Reboot | Hibernate) => Err(WAIT_STOPPED),

        (State::Stopped(_), Stop | ForceStop) | (State::Stopped(Hibernated), Hibernate) => {
            Ok(Step::Already)
        }
        (State::Stopped(Off), Start) => Ok(Step::Act(Start)),
        (State::Stopped(Hibernated), Start | Resume) => Ok(Step::Act(Resume)),
        (State::Stopped(Off), Resume) => Err("it was not hibernated, start it"),
        (State::Stopped(_), Reboot | Hibernate) => Err(START_FIRST),
    }
}
