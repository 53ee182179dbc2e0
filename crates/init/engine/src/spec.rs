//! What the engine must know of a unit's settings to decide about it.
//!
//! This is deliberately less than a unit file says: environment, sandbox, paths and command lines are the executor's,
//! which keeps the loaded unit itself. Everything here is small, comparable and serialisable, because it is part of
//! [`EngineState`](crate::EngineState).

mod kinds;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::dep::DepKind;
use crate::ids::Span;
use crate::job::JobMode;
use crate::rest::AtRest;

pub(crate) use kinds::is_default;
pub use kinds::{
    AutomountSpec, CommandSpec, DeviceSpec, ExitStatusSet, ExitType, HealthAction, HealthSpec,
    KillMode, KillSpec, MountSpec, NotifyAccess, OomPolicy, PathCheck, PathSpec, RateLimit,
    Restart, ScopeSpec, ServiceSpec, ServiceType, SliceSpec, SocketSpec, SwapSpec, TargetSpec,
    TimeoutFailureMode, TimerBase, TimerSpec,
};

/// A unit as it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSpec {
    /// Description=
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub description: Box<str>,
    /// Edges to other units by name, explicit, implicit and default ones alike.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deps: BTreeSet<(DepKind, Box<str>)>,
    /// Conditions and asserts, in the order of the file. The executor evaluates them and hands the facts in.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub checks: Box<[Check]>,
    /// The [Unit] settings that steer jobs.
    #[serde(default)]
    pub unit: AtRest<UnitSettings>,
    /// The settings of its type.
    pub kind: KindSpec,
}

/// One Condition…= or Assert…= line, reduced to what its result means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// As the user wrote it, for messages: `ConditionPathExists=!/etc/foo`.
    pub text: Box<str>,
    /// Assert…=: a failure fails the job instead of skipping it.
    pub assert: bool,
    /// `|`: one of the triggering ones is enough.
    pub trigger: bool,
}

/// Settings of the [Unit] section that decide about jobs. Boxed into one value because most units leave most of it alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitSettings {
    /// StopWhenUnneeded=
    #[serde(skip_serializing_if = "is_default")]
    pub stop_when_unneeded: bool,
    /// RefuseManualStart=
    #[serde(skip_serializing_if = "is_default")]
    pub refuse_manual_start: bool,
    /// RefuseManualStop=
    #[serde(skip_serializing_if = "is_default")]
    pub refuse_manual_stop: bool,
    /// AllowIsolate=
    #[serde(skip_serializing_if = "is_default")]
    pub allow_isolate: bool,
    /// IgnoreOnIsolate=
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_on_isolate: bool,
    /// JobTimeoutSec=: from when the job was queued.
    pub job_timeout: Span,
    /// JobRunningTimeoutSec=: from when the job was begun.
    pub job_running_timeout: Span,
    /// JobTimeoutAction=
    #[serde(skip_serializing_if = "is_default")]
    pub job_timeout_action: EmergencyAction,
    /// StartLimitIntervalSec= and StartLimitBurst=
    pub start_limit: RateLimit,
    /// StartLimitAction=
    #[serde(skip_serializing_if = "is_default")]
    pub start_limit_action: EmergencyAction,
    /// FailureAction=
    #[serde(skip_serializing_if = "is_default")]
    pub failure_action: EmergencyAction,
    /// SuccessAction=
    #[serde(skip_serializing_if = "is_default")]
    pub success_action: EmergencyAction,
    /// OnFailureJobMode=
    pub on_failure_mode: JobMode,
    /// OnSuccessJobMode=
    pub on_success_mode: JobMode,
    /// CollectMode=inactive-or-failed: forget the unit even after a failure.
    #[serde(skip_serializing_if = "is_default")]
    pub collect_failed: bool,
    /// Never stopped, whatever happens (`-.slice`, `init.scope`, the root mount).
    #[serde(skip_serializing_if = "is_default")]
    pub perpetual: bool,
}

impl Default for UnitSettings {
    fn default() -> Self {
        Self {
            stop_when_unneeded: false,
            refuse_manual_start: false,
            refuse_manual_stop: false,
            allow_isolate: false,
            ignore_on_isolate: false,
            job_timeout: Span::INFINITY,
            job_running_timeout: Span::INFINITY,
            job_timeout_action: EmergencyAction::None,
            start_limit: RateLimit {
                interval: Span::secs(10),
                burst: 5,
            },
            start_limit_action: EmergencyAction::None,
            failure_action: EmergencyAction::None,
            success_action: EmergencyAction::None,
            on_failure_mode: JobMode::Replace,
            on_success_mode: JobMode::Fail,
            collect_failed: false,
            perpetual: false,
        }
    }
}

/// What to do to the whole machine when something happens to a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmergencyAction {
    /// Nothing.
    #[default]
    None,
    /// Reboot by the usual way.
    Reboot,
    /// Reboot without stopping services.
    RebootForce,
    /// Reboot at once.
    RebootImmediate,
    /// Power off by the usual way.
    Poweroff,
    /// Power off without stopping services.
    PoweroffForce,
    /// Power off at once.
    PoweroffImmediate,
    /// End the manager (or power off, as PID 1) by the usual way.
    Exit,
    /// End the manager at once.
    ExitForce,
}

/// The type of a unit with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KindSpec {
    /// `.service`
    Service(Box<ServiceSpec>),
    /// `.socket`
    Socket(Box<SocketSpec>),
    /// `.target`
    Target(TargetSpec),
    /// `.timer`
    Timer(Box<TimerSpec>),
    /// `.path`
    Path(Box<PathSpec>),
    /// `.mount`
    Mount(Box<MountSpec>),
    /// `.automount`
    Automount(AutomountSpec),
    /// `.swap`
    Swap(Box<SwapSpec>),
    /// `.slice`
    Slice(SliceSpec),
    /// `.scope`
    Scope(Box<ScopeSpec>),
    /// `.device`
    Device(DeviceSpec),
}

impl Default for KindSpec {
    fn default() -> Self {
        Self::Target(TargetSpec {})
    }
}

impl KindSpec {
    /// Whether a unit with these settings has a way to take its configuration in anew.
    #[must_use]
    pub fn can_reload(&self) -> bool {
        match self {
            Self::Service(service) => {
                service.service_type == ServiceType::NotifyReload
                    || service
                        .commands
                        .iter()
                        .any(|c| c.kind == crate::protocol::ExecKind::Reload)
            }
            Self::Mount(mount) => mount.configured,
            _ => false,
        }
    }
}
