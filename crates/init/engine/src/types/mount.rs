//! `.mount`: a line of the kernel's mount table, made and removed by commands.
//!
//! ```text
//!          Start            KernelTable(true)              command ended
//!   dead --------> mounting ----------------> mounting-done -----------> mounted <--> remounting
//!    ^                |                             |                      |  |          |
//!    |    Stop, deadline                            |              Stop    |  |  KernelTable(false)
//!    |                v                             v                      v  |          v
//!    +---- unmounting-sigterm / -sigkill <---------------------- unmounting   +--> dead  remounting-sigterm / -sigkill
//! ```
//!
//! The kernel's table is the truth. A mount that appears by somebody else's hand is mounted, one that vanishes is dead,
//! and a command that says it succeeded without the table agreeing has failed. Mounts may lie on top of each other, so an
//! unmount that succeeded while the table still has a line is repeated, a bounded number of times. A stop while the mount
//! command runs ends the command and then removes whatever it had mounted by then.

use serde::{Deserialize, Serialize};

use super::tools::{Control, Force, Tools, judge};
use crate::protocol::{
    ActiveState, CommandRef, DeadlineKind, ExecKind, ExitStatus, Input, Outcome, Severity,
};
use crate::spec::MountSpec;

/// How often a mount is unmounted in a row before it is taken as not to be had.
const UNMOUNTS_AT_MOST: u8 = 32;

/// The step that a mount is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountState {
    /// Down.
    #[default]
    Dead,
    /// The mount command runs.
    Mounting,
    /// The mount command runs and the kernel has the mount.
    MountingDone,
    /// Up.
    Mounted,
    /// The remount command runs.
    Remounting,
    /// The remount command was told to end.
    RemountingSigterm,
    /// The remount command was killed.
    RemountingSigkill,
    /// The unmount command runs.
    Unmounting,
    /// A command was told to end.
    UnmountingSigterm,
    /// A command was killed.
    UnmountingSigkill,
    /// Down after a failure.
    Failed,
}

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// Its step.
    pub state: MountState,
    /// The first thing that went wrong in this run.
    pub outcome: Outcome,
    /// Whether the last remount went wrong.
    pub reload_failed: bool,
    /// The kernel's table has it.
    present: bool,
    /// A stop interrupted a command: what the command mounted must go too.
    unmount_wanted: bool,
    /// Unmounts in a row that left something mounted.
    unmounts: u8,
    /// The command that runs.
    pub control: Control,
}

impl Mount {
    pub(super) fn active(&self) -> ActiveState {
        use MountState::*;
        match self.state {
            Dead => ActiveState::Inactive,
            Mounting | MountingDone => ActiveState::Activating,
            Mounted => ActiveState::Active,
            Remounting | RemountingSigterm | RemountingSigkill => ActiveState::Reloading,
            Unmounting | UnmountingSigterm | UnmountingSigkill => ActiveState::Deactivating,
            Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(&self) -> &'static str {
        use MountState::*;
        match self.state {
            Dead => "dead",
            Mounting => "mounting",
            MountingDone => "mounting-done",
            Mounted => "mounted",
            Remounting => "remounting",
            RemountingSigterm => "remounting-sigterm",
            RemountingSigkill => "remounting-sigkill",
            Unmounting => "unmounting",
            UnmountingSigterm => "unmounting-sigterm",
            UnmountingSigkill => "unmounting-sigkill",
            Failed => "failed",
        }
    }

    pub(super) fn handle(&mut self, spec: &MountSpec, input: Input, tools: &mut Tools<'_>) {
        use MountState::*;
        match (input, self.state) {
            (Input::Start { .. }, Dead | Failed) => self.start(spec, tools),
            (Input::Stop, _) => self.stop(spec, tools),
            (Input::Reload, Mounted) => {
                self.reload_failed = false;
                self.run(Remounting, ExecKind::Remount, spec, tools);
            }
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

    fn start(&mut self, spec: &MountSpec, tools: &mut Tools<'_>) {
        *self = Self {
            present: self.present,
            ..Self::default()
        };
        if !spec.configured {
            tools.log(Severity::Error, "There is nothing that could be mounted.");
            return self.enter_dead(Outcome::Resources, tools);
        }
        self.run(MountState::Mounting, ExecKind::Mount, spec, tools);
    }

    fn stop(&mut self, spec: &MountSpec, tools: &mut Tools<'_>) {
        use MountState::*;
        match self.state {
            Mounted => {
                self.unmounts = 0;
                self.run(Unmounting, ExecKind::Unmount, spec, tools);
            }
            Mounting | MountingDone | Remounting => {
                self.unmount_wanted = true;
                self.enter_signal(UnmountingSigterm, spec, tools);
            }
            RemountingSigterm => {
                self.unmount_wanted = true;
                self.state = UnmountingSigterm;
            }
            RemountingSigkill => {
                self.unmount_wanted = true;
                self.state = UnmountingSigkill;
            }
            Dead | Unmounting | UnmountingSigterm | UnmountingSigkill | Failed => {}
        }
    }

    fn run(&mut self, state: MountState, kind: ExecKind, spec: &MountSpec, tools: &mut Tools<'_>) {
        self.state = state;
        tools.arm(DeadlineKind::Step, spec.timeout);
        self.control.run(CommandRef { kind, index: 0 }, tools);
    }

    fn command_ended(&mut self, status: ExitStatus, spec: &MountSpec, tools: &mut Tools<'_>) {
        use MountState::*;
        let outcome = judge(status);
        match self.state {
            Mounting if outcome == Outcome::Success => {
                tools.log(
                    Severity::Error,
                    "The mount command succeeded, but there is no mount.",
                );
                self.enter_dead(Outcome::Protocol, tools);
            }
            Mounting => self.enter_dead(outcome, tools),
            MountingDone => self.enter_mounted(outcome, tools),
            Remounting | RemountingSigterm | RemountingSigkill => {
                self.reload_failed |= outcome != Outcome::Success;
                self.settle(Outcome::Success, spec, tools);
            }
            Unmounting if outcome == Outcome::Success && self.present => {
                self.unmounts += 1;
                if self.unmounts < UNMOUNTS_AT_MOST {
                    return self.run(Unmounting, ExecKind::Unmount, spec, tools);
                }
                let message = format!("It is still mounted after {UNMOUNTS_AT_MOST} unmounts.");
                tools.log(Severity::Error, message);
                self.enter_mounted(outcome, tools);
            }
            Unmounting => self.settle(outcome, spec, tools),
            // It was told to end, so its bad end says nothing new.
            UnmountingSigterm | UnmountingSigkill => self.settle(Outcome::Success, spec, tools),
            Dead | Mounted | Failed => {}
        }
    }

    /// Whatever the commands did, the table says what is.
    fn settle(&mut self, outcome: Outcome, spec: &MountSpec, tools: &mut Tools<'_>) {
        if self.present && std::mem::take(&mut self.unmount_wanted) {
            self.unmounts = 0;
            return self.run(MountState::Unmounting, ExecKind::Unmount, spec, tools);
        }
        if self.present {
            self.enter_mounted(outcome, tools);
        } else {
            self.enter_dead(outcome, tools);
        }
    }

    fn table_changed(&mut self, present: bool, tools: &mut Tools<'_>) {
        use MountState::*;
        self.present = present;
        match (present, self.state) {
            (true, Mounting) => self.state = MountingDone,
            (true, Dead | Failed) => {
                self.outcome = Outcome::Success;
                self.enter_mounted(Outcome::Success, tools);
            }
            // Some mount commands take back what they did when they notice that it does not work.
            (false, MountingDone) => self.state = Mounting,
            (false, Mounted) => self.enter_dead(Outcome::Success, tools),
            _ => {}
        }
    }

    fn took_too_long(&mut self, spec: &MountSpec, tools: &mut Tools<'_>) {
        use MountState::*;
        tools.log(
            Severity::Error,
            format!("The step {} took too long.", self.sub_state()),
        );
        match self.state {
            Mounting | MountingDone | Unmounting => {
                self.blame(Outcome::Timeout);
                self.enter_signal(UnmountingSigterm, spec, tools);
            }
            Remounting => {
                self.reload_failed = true;
                self.enter_signal(RemountingSigterm, spec, tools);
            }
            RemountingSigterm if spec.kill.send_sigkill => {
                self.enter_signal(RemountingSigkill, spec, tools);
            }
            UnmountingSigterm if spec.kill.send_sigkill => {
                self.blame(Outcome::Timeout);
                self.enter_signal(UnmountingSigkill, spec, tools);
            }
            RemountingSigterm | RemountingSigkill => {
                self.control.abandon();
                self.settle(Outcome::Success, spec, tools);
            }
            UnmountingSigterm | UnmountingSigkill => {
                self.control.abandon();
                self.settle(Outcome::Timeout, spec, tools);
            }
            Dead | Mounted | Failed => {}
        }
    }

    fn enter_signal(&mut self, state: MountState, spec: &MountSpec, tools: &mut Tools<'_>) {
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

    fn enter_mounted(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.blame(outcome);
        tools.disarm(DeadlineKind::Step);
        self.state = MountState::Mounted;
    }

    fn enter_dead(&mut self, outcome: Outcome, tools: &mut Tools<'_>) {
        self.blame(outcome);
        self.unmount_wanted = false;
        tools.disarm(DeadlineKind::Step);
        self.state = match self.outcome {
            Outcome::Success => MountState::Dead,
            _ => MountState::Failed,
        };
    }
}

fn force_of(state: MountState) -> Option<Force> {
    match state {
        MountState::RemountingSigterm | MountState::UnmountingSigterm => Some(Force::Terminate),
        MountState::RemountingSigkill | MountState::UnmountingSigkill => Some(Force::Kill),
        _ => None,
    }
}
