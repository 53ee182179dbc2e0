//! `.swap`: a line of the kernel's swap table, made and removed by commands.
//!
//! ```text
//!          Start              KernelTable(true)              command ended
//!   dead --------> activating ----------------> activating-done -----------> active
//!    ^                 | Stop, deadline                |                       | Stop
//!    |                 v                               v                       v
//!    +------ deactivating-sigterm / -sigkill <-----------------------  deactivating
//! ```
//!
//! As with mounts the kernel's table is the truth: swap that somebody else turned on is active, and what vanishes is dead.
//! A stop while the command runs ends it, and turns off what it had turned on by then.

use serde::{Deserialize, Serialize};

use super::tools::{Control, Force, Tools, judge};
use crate::protocol::{
    ActiveState, CommandRef, DeadlineKind, ExecKind, ExitStatus, Input, Outcome, Severity,
};
use crate::spec::SwapSpec;

/// The step that a swap is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwapState {
    /// Down.
    #[default]
    Dead,
    /// The swap-on command runs.
    Activating,
    /// The swap-on command runs and the kernel uses the swap.
    ActivatingDone,
    /// Up.
    Active,
    /// The swap-off command runs.
    Deactivating,
    /// A command was told to end.
    DeactivatingSigterm,
    /// A command was killed.
    DeactivatingSigkill,
    /// Down after a failure.
    Failed,
}

/// A swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Swap {
    /// Its step.
    pub state: SwapState,
    /// The first thing that went wrong in this run.
    pub outcome: Outcome,
    /// The kernel's table has it.
    present: bool,
    /// A stop interrupted the swap-on command: what it turned on must be turned off.
    off_wanted: bool,
    /// The command that runs.
    pub control: Control,
}

impl Swap {
    pub(super) fn active(&self) -> ActiveState {
        use SwapState::*;
        match self.state {
            Dead => ActiveState::Inactive,
            Activating => ActiveState::Activating,
            ActivatingDone | Active => ActiveState::Active,
            Deactivating | DeactivatingSigterm | DeactivatingSigkill => ActiveState::Deactivating,
            Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(&self) -> &'static str {
        use SwapState::*;
        match self.state {
            Dead => "dead",
            Activating => "activating",
            ActivatingDone => "activating-done",
            Active => "active",
            Deactivating => "deactivating",
            DeactivatingSigterm => "deactivating-sigterm",
            DeactivatingSigkill => "deactivating-sigkill",
            Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &SwapSpec, input: Input, tools: &mut Tools<'_>) {
        use SwapState::*;
        match (input, self.state) {
            (Input::Start { .. }, Dead | Failed) => {
                *self = Self {
                    present: self.present,
                    ..Self::default()
                };
                if !spec.configured {
                    tools.log(Severity::Error, "There is nothing that could be turned on.");
                    return self.enter_dead(Outcome::Resources, tools);
                }
                self.run(Activating, ExecKind::Mount, spec, tools);
            }
            (Input::Stop, Activating | ActivatingDone) if self.control.is_busy() => {
                self.off_wanted = true;
                self.enter_signal(DeactivatingSigterm, spec, tools);
            }
            (Input::Stop, Active) => self.run(Deactivating, ExecKind::Unmount, spec, tools),
            (Input::Spawned { process, .. } | Input::Delegated { process, .. }, state) => {
                if self.control.spawned(process, tools)
                    && let Some(force) = force_of(state)
                {
                    self.control.signal(&spec.kill, force, tools);
                }
            }
            (Input::SpawnFailed { error, .. }, _) if self.control.take_failure().is_some() => {
                let message = format!("{}: errno {}.", error.step, error.errno);
                tools.log(Severity::Error, message);
                self.command_ended(ExitStatus::Code(error.exit_code), spec, tools);
            }
            (Input::Exited { pid, status }, _) if self.control.take_exit(pid).is_some() => {
                self.command_ended(status, spec, tools);
            }
            (Input::KernelTable { present }, _) => self.table_changed(present, tools),
            (Input::Deadline(DeadlineKind::Step), _) => self.took_too_long(spec, tools),
            (Input::StartLimitHit, Dead | Failed) => {
                self.outcome = Outcome::StartLimitHit;
                self.state = Failed;
            }
            (Input::ResetFailed, Failed) => {
                self.state = Dead;
                self.outcome = Outcome::Success;
            }
            _ => {}
        }
    }

    fn run(&mut self, state: SwapState, kind: ExecKind, spec: &SwapSpec, tools: &mut Tools<'_>) {
        self.state = state;
        tools.arm(DeadlineKind::Step, spec.timeout);
        self.control.run(CommandRef { kind, index: 0 }, tools);
    }

    fn command_ended(&mut self, status: ExitStatus, spec: &SwapSpec, tools: &mut Tools<'_>) {
        use SwapState::*;
        let outcome = judge(status);
        match self.state {
            Activating if outcome == Outcome::Success && !self.present => {
                tools.log(
                    Severity::Error,
                    "The swap-on command succeeded, but there is no swap.",
                );
                self.enter_dead(Outcome::Protocol, tools);
            }
            Activating | ActivatingDone | Deactivating => self.settle(outcome, spec, tools),
            DeactivatingSigterm | DeactivatingSigkill => {
                self.settle(Outcome::Success, spec, tools);
            }
            Dead | Active | Failed => {}
        }
    }

    /// Whatever the commands did, the table says what is.
    fn settle(&mut self, outcome: Outcome, spec: &SwapSpec, tools: &mut Tools<'_>) {
        if self.present && std::mem::take(&mut self.off_wanted) {
            return self.run(SwapState::Deactivating, ExecKind::Unmount, spec, tools);
        }
        if self.present {
            self.enter_active(outcome, tools);
        } else {
            self.enter_dead(outcome, tools);
        }
    }

    fn table_changed(&mut self, present: bool, tools: &mut Tools<'_>) {
        use SwapState::*;
        self.present = present;
        match (present, self.state) {
            (true, Activating) => self.state = ActivatingDone,
            (true, Dead | Failed) => {
                self.outcome = Outcome::Success;
                self.enter_active(Outcome::Success, tools);
            }
            (false, ActivatingDone) => self.state = Activating,
            (false, Active) => self.enter_dead(Outcome::Success, tools),
            _ => {}
        }
    }

    fn took_too_long(&mut self, spec: &SwapSpec, tools: &mut Tools<'_>) {
        use SwapState::*;
        tools.log(
            Severity::Error,
            format!("The step {} took too long.", self.sub_state()),
        );
        self.blame(Outcome::Timeout);
        match self.state {
            Activating | ActivatingDone | Deactivating => {
                self.enter_signal(DeactivatingSigterm, spec, tools);
            }
            DeactivatingSigterm if spec.kill.send_sigkill => {
                self.enter_signal(DeactivatingSigkill, spec, tools);
            }
            DeactivatingSigterm | DeactivatingSigkill => {
                self.control.abandon();
                self.settle(Outcome::Timeout, spec, tools);
            }
            Dead | Active | Failed => {}
        }
    }

    fn enter_signal(&mut self, state: SwapState, spec: &SwapSpec, tools: &mut Tools<'_>) {
        self.state = state;
        tools.arm(DeadlineKind::Step, spec.timeout);
        if let Some(force) = force_of(state) {
            self.control.signal(&spec.kill, force, tools);
        }
    }

    fn blame(&mut self, outcome: Outcome) {
        if self.outcome == Outcome::Success {
            self.outcome = outcome;
        }
    }

    fn enter_active(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.blame(outcome);
        tools.disarm(DeadlineKind::Step);
        self.state = SwapState::Active;
    }

    fn enter_dead(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.blame(outcome);
        self.off_wanted = false;
        tools.disarm(DeadlineKind::Step);
        self.state = match self.outcome {
            Outcome::Success => SwapState::Dead,
            _ => SwapState::Failed,
        };
    }
}

fn force_of(state: SwapState) -> Option<Force> {
    match state {
        SwapState::DeactivatingSigterm => Some(Force::Terminate),
        SwapState::DeactivatingSigkill => Some(Force::Kill),
        _ => None,
    }
}
