//! The types of `io.muster.Manager`. Every method has a `...Call` and a `...Reply`; methods without a result reply with
//! [`Empty`]. Names of methods and errors are constants, so that server and client cannot spell them differently.

mod events;
mod jobs;
mod machine;
mod transient;
mod units;

pub use events::{Change, Event, JobGone, SubscribeCall, SubscribeReply};
pub use jobs::{CancelCall, Job, ListJobsReply, SubmitCall, SubmitReply, WaitJobCall, WaitWhat};
pub use machine::{EnvironmentCall, EnvironmentReply, MachineStatus, ReloadReply, ShutdownCall};
pub use transient::{AuxiliaryUnit, SetPropertyCall, StartTransientCall};
pub use units::{
    CleanCall, Cleanable, CommandRun, FreezeCall, HealthView, KillCall, ListUnitsCall,
    ListUnitsReply, ListenView, Moment, PathView, ProcessView, ShowCall, ShowReply, TimerView,
    UnitCall, UnitRow, UnitStatus, WhyReply,
};

use serde::{Deserialize, Serialize};

/// The interface.
pub const INTERFACE: &str = "io.muster.Manager";

/// The description that clients can ask for.
pub const DESCRIPTION: &str = include_str!("io.muster.Manager.varlink");

/// Names of methods.
pub mod method {
    /// Queue a job; with `more`, reply again when it ended.
    pub const SUBMIT: &str = "io.muster.Manager.Submit";
    /// Wait for a job's end.
    pub const WAIT_JOB: &str = "io.muster.Manager.WaitJob";
    /// Cancel a job, or all.
    pub const CANCEL: &str = "io.muster.Manager.Cancel";
    /// Queued jobs.
    pub const LIST_JOBS: &str = "io.muster.Manager.ListJobs";
    /// Units in rows.
    pub const LIST_UNITS: &str = "io.muster.Manager.ListUnits";
    /// One unit in full.
    pub const STATUS: &str = "io.muster.Manager.Status";
    /// Properties as `systemctl show` names them.
    pub const SHOW: &str = "io.muster.Manager.Show";
    /// Why a unit is as it is.
    pub const WHY: &str = "io.muster.Manager.Why";
    /// Send a signal to a unit's processes.
    pub const KILL: &str = "io.muster.Manager.Kill";
    /// Freeze or thaw a unit.
    pub const FREEZE: &str = "io.muster.Manager.Freeze";
    /// Remove what a unit keeps on disk.
    pub const CLEAN: &str = "io.muster.Manager.Clean";
    /// Forget failures.
    pub const RESET_FAILED: &str = "io.muster.Manager.ResetFailed";
    /// Change settings of a unit.
    pub const SET_PROPERTY: &str = "io.muster.Manager.SetProperty";
    /// Make and start a unit that has no file.
    pub const START_TRANSIENT: &str = "io.muster.Manager.StartTransient";
    /// Read unit files again.
    pub const RELOAD: &str = "io.muster.Manager.Reload";
    /// Replace the running program.
    pub const REEXEC: &str = "io.muster.Manager.Reexec";
    /// The manager itself.
    pub const MACHINE: &str = "io.muster.Manager.Machine";
    /// End the machine.
    pub const SHUTDOWN: &str = "io.muster.Manager.Shutdown";
    /// The environment that services get.
    pub const ENVIRONMENT: &str = "io.muster.Manager.Environment";
    /// What happens, in order.
    pub const SUBSCRIBE: &str = "io.muster.Manager.Subscribe";
}

/// Names of errors. All carry [`Failure`].
pub mod error {
    /// There is no such unit.
    pub const NO_SUCH_UNIT: &str = "io.muster.Manager.NoSuchUnit";
    /// There is no such job.
    pub const NO_SUCH_JOB: &str = "io.muster.Manager.NoSuchJob";
    /// The engine refused the request; nothing was changed.
    pub const REFUSED: &str = "io.muster.Manager.Refused";
    /// The caller may not do that.
    pub const NOT_PERMITTED: &str = "io.muster.Manager.NotPermitted";
    /// A value is not acceptable.
    pub const INVALID: &str = "io.muster.Manager.Invalid";
    /// The system could not do it.
    pub const FAILED: &str = "io.muster.Manager.Failed";
    /// Not while the manager runs in safe mode.
    pub const SAFE_MODE: &str = "io.muster.Manager.SafeMode";
}

/// No parameters, or no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Empty {}

/// What an error carries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// What, which object, why, and what to do about it, for people.
    pub message: String,
    /// The unit or job it is about.
    pub object: String,
    /// The system's error number, if it was the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errno: Option<i32>,
}

#[cfg(test)]
mod tests;
