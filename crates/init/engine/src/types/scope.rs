//! `.scope`: processes that somebody else has started.
//!
//! ```text
//!          Start               Attached
//!   dead --------> start-chown --------> running --Abandon--> abandoned
//!    ^                 |                    |  Stop, RuntimeMax, OOM  |
//!    |                 v                    v                         v
//!    +-- CgroupEmpty --+------- stop-sigterm <------------------------+
//!    |                               | deadline
//!  failed <------ deadline ---- stop-sigkill
//! ```
//!
//! CgroupEmpty ends a scope in every state: it stands for its processes and nothing else. Before Attached it means that
//! none of them could be had, which is a failure.

use serde::{Deserialize, Serialize};

use super::tools::{Force, Tools};
use crate::protocol::{ActiveState, DeadlineKind, Input, KillScope, Outcome, Output, Severity};
use crate::spec::{KillMode, OomPolicy, ScopeSpec};

/// The step that a scope is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScopeState {
    /// Down.
    #[default]
    Dead,
    /// Its cgroup is made and its processes are moved in.
    StartChown,
    /// Up.
    Running,
    /// Up, and whoever made it is gone.
    Abandoned,
    /// KillSignal= was sent.
    StopSigterm,
    /// FinalKillSignal= was sent.
    StopSigkill,
    /// Down after a failure.
    Failed,
}

/// A scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// Its step.
    pub state: ScopeState,
    /// The first thing that went wrong in this run.
    pub outcome: Outcome,
}

impl Scope {
    pub(super) fn active(self) -> ActiveState {
        match self.state {
            ScopeState::Dead => ActiveState::Inactive,
            ScopeState::StartChown => ActiveState::Activating,
            ScopeState::Running | ScopeState::Abandoned => ActiveState::Active,
            ScopeState::StopSigterm | ScopeState::StopSigkill => ActiveState::Deactivating,
            ScopeState::Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(self) -> &'static str {
        match self.state {
            ScopeState::Dead => "dead",
            ScopeState::StartChown => "start-chown",
            ScopeState::Running => "running",
            ScopeState::Abandoned => "abandoned",
            ScopeState::StopSigterm => "stop-sigterm",
            ScopeState::StopSigkill => "stop-sigkill",
            ScopeState::Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &ScopeSpec, input: &Input, tools: &mut Tools<'_>) {
        use ScopeState::*;
        match (input, self.state) {
            (Input::Start { .. }, Dead | Failed) => {
                self.outcome = Outcome::Success;
                self.state = StartChown;
                tools.push(Output::MakeCgroup);
                tools.arm(DeadlineKind::Step, spec.timeout_stop);
            }
            (Input::Attached, StartChown) => {
                tools.disarm(DeadlineKind::Step);
                tools.arm(DeadlineKind::RuntimeMax, spec.runtime_max);
                self.state = Running;
            }
            (Input::SpawnFailed { .. } | Input::CgroupEmpty, StartChown) => {
                tools.log(Severity::Error, "None of its processes could be taken in.");
                self.enter_dead(Outcome::Resources, tools);
            }
            (Input::Found { .. }, Dead | Failed) => {
                self.outcome = Outcome::Success;
                self.state = Running;
            }
            (Input::Abandon, Running) => self.state = Abandoned,
            (Input::Stop, StartChown | Running | Abandoned) => {
                self.enter_signal(Force::Terminate, Outcome::Success, spec, tools);
            }
            (Input::CgroupEmpty, Running | Abandoned | StopSigterm | StopSigkill) => {
                self.enter_dead(Outcome::Success, tools);
            }
            (Input::OomKill | Input::OomKills { .. }, state) => self.oom_kill(state, spec, tools),
            (Input::Deadline(DeadlineKind::RuntimeMax), Running | Abandoned) => {
                tools.log(Severity::Warning, "It ran for as long as it may.");
                self.enter_signal(Force::Terminate, Outcome::Timeout, spec, tools);
            }
            (Input::Deadline(DeadlineKind::Step), StartChown) => {
                tools.log(Severity::Error, "Taking its processes in took too long.");
                self.enter_signal(Force::Terminate, Outcome::Timeout, spec, tools);
            }
            (Input::Deadline(DeadlineKind::Step), StopSigterm) if spec.kill.send_sigkill => {
                tools.log(Severity::Warning, "It did not end in time; it is killed.");
                self.enter_signal(Force::Kill, Outcome::Timeout, spec, tools);
            }
            (Input::Deadline(DeadlineKind::Step), StopSigterm | StopSigkill) => {
                tools.log(Severity::Error, "Processes are still there; they are left.");
                self.enter_dead(Outcome::Timeout, tools);
            }
            (Input::StartLimitHit, Dead | Failed) => {
                self.outcome = Outcome::StartLimitHit;
                self.state = Failed;
            }
            (Input::ResetFailed, Failed) => *self = Self::default(),
            _ => {}
        }
    }

    fn oom_kill(&mut self, state: ScopeState, spec: &ScopeSpec, tools: &mut Tools<'_>) {
        use ScopeState::*;
        if matches!(state, Dead | Failed) {
            return;
        }
        tools.log(
            Severity::Error,
            "The kernel killed a process of it for memory.",
        );
        match (spec.oom_policy, state) {
            (OomPolicy::Continue, _) => {}
            (OomPolicy::Stop, StartChown | Running | Abandoned) => {
                self.enter_signal(Force::Terminate, Outcome::OomKill, spec, tools);
            }
            (OomPolicy::Kill, StartChown | Running | Abandoned) | (_, StopSigterm) => {
                self.enter_signal(Force::Kill, Outcome::OomKill, spec, tools);
            }
            _ => self.blame(Outcome::OomKill),
        }
    }

    fn blame(&mut self, outcome: Outcome) {
        if self.outcome == Outcome::Success {
            self.outcome = outcome;
        }
    }

    /// Sends the signal; goes on at once where KillMode= spares everything, because a scope has no main process.
    fn enter_signal(
        &mut self,
        force: Force,
        outcome: Outcome,
        spec: &ScopeSpec,
        tools: &mut Tools<'_>,
    ) {
        self.blame(outcome);
        tools.disarm(DeadlineKind::RuntimeMax);
        let force = match (spec.kill.mode, force) {
            (KillMode::Process | KillMode::None, _) => {
                return self.enter_dead(Outcome::Success, tools);
            }
            (KillMode::Mixed, Force::Terminate) if spec.kill.send_sigkill => Force::Kill,
            (KillMode::Mixed, Force::Terminate) => {
                return self.enter_dead(Outcome::Success, tools);
            }
            (_, force) => force,
        };
        let gentle = force == Force::Terminate;
        self.state = if gentle {
            ScopeState::StopSigterm
        } else {
            ScopeState::StopSigkill
        };
        tools.push(Output::Kill {
            scope: KillScope::All,
            signal: if gentle {
                spec.kill.signal
            } else {
                spec.kill.final_signal
            },
            and_continue: gentle,
            and_hangup: gentle && spec.kill.send_sighup,
        });
        tools.arm(DeadlineKind::Step, spec.timeout_stop);
    }

    fn enter_dead(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.blame(outcome);
        tools.disarm(DeadlineKind::Step);
        tools.disarm(DeadlineKind::RuntimeMax);
        tools.push(Output::ReleaseCgroup);
        self.state = match self.outcome {
            Outcome::Success => ScopeState::Dead,
            _ => ScopeState::Failed,
        };
    }
}
