//! `.path`: starts another unit when something in the file system is as it should be.
//!
//! ```text
//!          Start            PathTriggered
//!   dead --------> waiting --------------> running
//!    ^   Stop         ^                       |
//!    +----------------+----- unit is down ----+
//!                     trigger limit, or the unit's start limit: failed
//! ```
//!
//! While the triggered unit runs nothing is watched. When it goes down the conditions are looked at again, so that what
//! came in the meantime is not missed; a condition that still holds triggers at once.

use serde::{Deserialize, Serialize};

use super::tools::Tools;
use crate::protocol::{ActiveState, Input, Outcome, Output, Severity};
use crate::spec::PathSpec;
use crate::state::RateWindow;

/// The step that a path unit is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// Down.
    #[default]
    Dead,
    /// Watching.
    Waiting,
    /// What it triggers runs.
    Running,
    /// Down after a failure.
    Failed,
}

/// A path unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Path {
    /// Its step.
    pub state: PathState,
    /// Why it is down.
    pub outcome: Outcome,
    /// How often it has triggered lately.
    triggers: RateWindow,
}

impl Path {
    pub(super) fn active(self) -> ActiveState {
        match self.state {
            PathState::Dead => ActiveState::Inactive,
            PathState::Waiting | PathState::Running => ActiveState::Active,
            PathState::Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(self) -> &'static str {
        match self.state {
            PathState::Dead => "dead",
            PathState::Waiting => "waiting",
            PathState::Running => "running",
            PathState::Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &PathSpec, input: &Input, tools: &mut Tools<'_>) {
        use PathState::*;
        match (input, self.state) {
            (Input::Start { .. }, Dead | Failed) => {
                *self = Self {
                    state: Waiting,
                    ..Self::default()
                };
                if spec.make_directory {
                    tools.push(Output::MakeDirectories);
                }
                tools.push(Output::WatchPaths(true));
            }
            (Input::Stop, Waiting | Running) => self.enter_dead(Outcome::Success, tools),
            (Input::PathTriggered { .. }, Waiting) => self.trigger(spec, tools),
            (
                Input::TriggeredChanged {
                    active,
                    outcome,
                    start_pending: false,
                },
                Running,
            ) if active.is_down() => {
                if *outcome == Outcome::StartLimitHit {
                    return self.enter_dead(Outcome::UnitStartLimitHit, tools);
                }
                self.state = Waiting;
                tools.push(Output::WatchPaths(true));
            }
            (Input::Reloaded, Waiting) => tools.push(Output::WatchPaths(true)),
            (Input::StartLimitHit, Dead | Failed) => {
                self.outcome = Outcome::StartLimitHit;
                self.state = Failed;
            }
            (Input::ResetFailed, Failed) => *self = Self::default(),
            // PathsQuiet needs no answer: the watch goes on.
            _ => {}
        }
    }

    fn trigger(&mut self, spec: &PathSpec, tools: &mut Tools<'_>) {
        if tools.context.stop_pending {
            return;
        }
        let now = tools.context.now.monotonic;
        if self.triggers.would_exceed(spec.trigger_limit, now) {
            tools.log(Severity::Error, "It triggered too often; it is given up.");
            return self.enter_dead(Outcome::TriggerLimitHit, tools);
        }
        self.triggers.count(spec.trigger_limit, now);
        tools.push(Output::WatchPaths(false));
        tools.push(Output::Trigger { connection: None });
        self.state = PathState::Running;
    }

    fn enter_dead(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.outcome = outcome;
        tools.push(Output::WatchPaths(false));
        self.state = match outcome {
            Outcome::Success => PathState::Dead,
            _ => PathState::Failed,
        };
    }
}
