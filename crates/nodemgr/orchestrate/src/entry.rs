//! The journal of a run: what was begun, and what became of it.

use std::fmt;

use muster_executor::signal_number;
use muster_lifecycle::Moment;
use muster_provider::MachineId;
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::run::RunId;

/// Something that happened in a run. It was durable before it was told, and before it was acted upon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEvent {
    /// Counts up, across runs and restarts; numbers of removed runs are missing.
    pub number: u64,
    /// When.
    pub at: Moment,
    /// In which run.
    pub run: RunId,
    /// What.
    pub what: Entry,
}

/// An entry of the journal. Together with the workflow, a run's entries are all there is to know about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Entry {
    /// The run was accepted.
    Accepted,
    /// A job is about to be done.
    Begun {
        /// Which.
        job: Job,
        /// The how many-th time, from 1.
        attempt: u32,
    },
    /// A job is over, or this attempt at it.
    Ended {
        /// Which.
        job: Job,
        /// The how many-th time.
        attempt: u32,
        /// How.
        result: JobResult,
    },
    /// The manager died while a job was under way: nobody knows how far it came.
    Interrupted {
        /// Which.
        job: Job,
        /// The how many-th time.
        attempt: u32,
    },
    /// Somebody wants it to end.
    CancelAsked,
    /// It took longer than it may.
    Expired,
    /// It is over, and everything is cleaned up as far as it can be.
    Over {
        /// How.
        outcome: RunOutcome,
    },
}

/// How an attempt at a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JobResult {
    /// It is done. Provisioning tells which machine it is.
    Done {
        /// The machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<MachineId>,
        /// What somebody should know though it is done.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// It failed.
    Failed(Why),
    /// It was ended because the run was.
    Aborted,
}

impl JobResult {
    /// Whether whatever was begun is known to have ended. What was left of earlier attempts was ended before.
    pub(crate) const fn is_seen(&self) -> bool {
        match self {
            Self::Done { .. } => true,
            Self::Failed(why) => match why {
                Why::Exit { .. } | Why::Signal { .. } | Why::NotStarted { .. } => true,
                // The connection may have been lost, or the machine not have answered whoever wanted to kill the command.
                Why::TimedOut | Why::Interrupted | Why::Trouble { .. } => false,
            },
            Self::Aborted => false,
        }
    }

    /// It is done, and there is nothing to tell.
    #[must_use]
    pub const fn done() -> Self {
        Self::Done {
            machine: None,
            warnings: Vec::new(),
        }
    }
}

/// Why a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// A command ended with a code other than 0.
    Exit {
        /// Which action of its step, from 0.
        action: u32,
        /// The code.
        code: i32,
    },
    /// A command was killed.
    Signal {
        /// Which action of its step, from 0.
        action: u32,
        /// By which signal, without its prefix: `KILL`.
        signal: String,
    },
    /// A command could not be started, since the machine has no such program or cannot execute it.
    NotStarted {
        /// Which action of its step, from 0.
        action: u32,
        /// What shells exit with then: 127 or 126.
        code: u8,
        /// What was said, with its causes.
        text: String,
    },
    /// It took longer than it may.
    TimedOut,
    /// The manager died meanwhile, and it must not be done again.
    Interrupted,
    /// Anything else.
    Trouble {
        /// What was said, with its causes.
        text: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit { code, .. } => write!(f, "the command ended with code {code}"),
            Self::Signal { signal, .. } => write!(f, "the command was killed by signal {signal}"),
            Self::TimedOut => f.write_str("it took longer than it may"),
            Self::Interrupted => f.write_str(
                "the manager ended while it was under way, and it is not said to be repeatable",
            ),
            Self::NotStarted { text, .. } | Self::Trouble { text } => f.write_str(text),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunOutcome {
    /// Everything was done.
    Succeeded,
    /// Something failed; this was the first.
    Failed {
        /// Which job.
        job: Job,
        /// Why.
        why: Why,
    },
    /// It was cancelled.
    Cancelled,
    /// It took longer than it may.
    Expired,
}

impl RunOutcome {
    /// What a program that stands for the run exits with: the code of the command that failed, 128 and the signal that killed
    /// it, 127 when the machine has no such program, 126 when it cannot execute it, 124 after a timeout, 125 when it was not a
    /// command that failed, 130 when it was cancelled.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Succeeded => 0,
            Self::Failed { why, .. } => match why {
                // A code that does not fit is a failure all the same.
                Why::Exit { code, .. } => u8::try_from(*code).unwrap_or(1).max(1),
                Why::Signal { signal, .. } => 128 + signal_number(signal).unwrap_or(0),
                Why::NotStarted { code, .. } => *code,
                Why::TimedOut => 124,
                Why::Interrupted | Why::Trouble { .. } => 125,
            },
            Self::Expired => 124,
            Self::Cancelled => 130,
        }
    }

    /// Whether everything was done.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded)
    }
}

impl fmt::Display for RunOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded => f.write_str("succeeded"),
            Self::Failed { job, why } => write!(f, "failed at {job}: {why}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Expired => f.write_str("took longer than it may"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Slot;

    #[test]
    fn exit_codes_are_those_of_shells() {
        let failed = |why| RunOutcome::Failed {
            job: Job::Ready(Slot::new("a", 0)),
            why,
        };
        let action = 0;
        let killed = |name: &str| {
            failed(Why::Signal {
                action,
                signal: name.to_owned(),
            })
        };
        let not_started = |code| {
            let text = String::new();
            failed(Why::NotStarted { action, code, text })
        };
        for (outcome, code) in [
            (RunOutcome::Succeeded, 0),
            (failed(Why::Exit { action, code: 3 }), 3),
            (failed(Why::Exit { action, code: -1 }), 1),
            (failed(Why::Exit { action, code: 256 }), 1),
            (killed("KILL"), 137),
            (killed("RTMIN"), 128),
            (not_started(127), 127),
            (not_started(126), 126),
            (failed(Why::TimedOut), 124),
            (failed(Why::Interrupted), 125),
            (RunOutcome::Expired, 124),
            (RunOutcome::Cancelled, 130),
        ] {
            assert_eq!(outcome.exit_code(), code, "{outcome}");
        }
    }
}
