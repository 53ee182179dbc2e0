//! `.service`: processes, from the first condition to the last clean-up.
//!
//! ```text
//!   dead -> condition -> start-pre -> start -> start-post -> running / exited <-> reload, reload-signal, reload-notify
//!    ^                                                          |
//!    |      auto-restart <---------------+                      v
//!    +--- failed / dead <- final-* <- stop-post <- stop-sigkill <- stop-sigterm / stop-watchdog <- stop
//! ```
//!
//! A step that has commands runs them one after the other as the control process; a step without commands is passed
//! through at once. Whatever goes wrong is kept in `outcome` (the first failure wins) and decides, at the very end,
//! between dead, failed and auto-restart.
//!
//! A process that was asked for counts from that moment on: a stop waits for it to appear and then ends it, so that
//! nothing is started behind a stop's back. One that appears after all patience is gone is killed as a stray.

mod deadlines;
mod exits;
mod health;
mod notify;
mod policy;
mod start;
mod stop;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::tools::{Tools, command_at};
use crate::ids::{Span, Time};
use crate::protocol::{
    ActiveState, CommandRef, Context, DeadlineKind, ExecKind, ExitStatus, Input, Outcome, Output,
    Process, Role, Severity,
};
use crate::spec::is_default;
use crate::spec::{ExitType, ServiceSpec, ServiceType};

pub use health::Health;

/// The step that a service is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceState {
    /// Down.
    #[default]
    Dead,
    /// ExecCondition= runs.
    Condition,
    /// ExecStartPre= runs.
    StartPre,
    /// ExecStart= runs and is not up yet.
    Start,
    /// ExecStartPost= runs, or the first health check is awaited.
    StartPost,
    /// Up, with a process.
    Running,
    /// Up, without a process.
    Exited,
    /// ExecReload= runs.
    Reload,
    /// The reload signal was sent and the service has not reacted yet.
    ReloadSignal,
    /// The service said that it reloads.
    ReloadNotify,
    /// ExecStop= runs.
    Stop,
    /// WatchdogSignal= was sent.
    StopWatchdog,
    /// KillSignal= was sent.
    StopSigterm,
    /// FinalKillSignal= was sent.
    StopSigkill,
    /// ExecStopPost= runs.
    StopPost,
    /// WatchdogSignal= was sent to what ExecStopPost= left behind.
    FinalWatchdog,
    /// KillSignal= was sent to what ExecStopPost= left behind.
    FinalSigterm,
    /// FinalKillSignal= was sent to what ExecStopPost= left behind.
    FinalSigkill,
    /// Down after a failure.
    Failed,
    /// Down, to be started again after a pause.
    AutoRestart,
}

/// A service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Its step.
    #[serde(skip_serializing_if = "is_default")]
    pub state: ServiceState,
    /// The first thing that went wrong in this run.
    #[serde(skip_serializing_if = "is_default")]
    pub outcome: Outcome,
    /// Whether the last reload went wrong.
    #[serde(skip_serializing_if = "is_default")]
    pub reload_failed: bool,
    /// The process that the service stands for.
    #[serde(skip_serializing_if = "is_default")]
    pub main: Option<Process>,
    /// The main process is still a helper's that sets it up.
    #[serde(skip_serializing_if = "is_default")]
    pub setting_up: bool,
    /// How the last main process ended.
    #[serde(skip_serializing_if = "is_default")]
    pub main_exit: Option<ExitStatus>,
    /// The helper of the current step.
    #[serde(skip_serializing_if = "is_default")]
    pub control: Option<Process>,
    /// The command that the current step is at.
    #[serde(skip_serializing_if = "is_default")]
    pub command: Option<CommandRef>,
    /// A main process was asked for and has not appeared.
    #[serde(skip_serializing_if = "is_default")]
    main_asked: bool,
    /// A control process was asked for and has not appeared.
    #[serde(skip_serializing_if = "is_default")]
    control_asked: bool,
    /// Something may be left in the cgroup.
    #[serde(skip_serializing_if = "is_default")]
    pub populated: bool,
    /// How often it was restarted by its own policy.
    #[serde(skip_serializing_if = "is_default")]
    pub restarts: u32,
    /// The pause before a restart is over: the next start is one of those.
    #[serde(skip_serializing_if = "is_default")]
    restart_due: bool,
    /// Somebody asked for the stop, so the policy does not count.
    #[serde(skip_serializing_if = "is_default")]
    stop_asked: bool,
    /// Type=idle holds its process back.
    #[serde(skip_serializing_if = "is_default")]
    held_for_idle: bool,
    /// Type=idle: nothing may wait for it, so it counts as up while it starts.
    #[serde(skip_serializing_if = "is_default")]
    cosmetic: bool,
    /// READY=1 was received.
    #[serde(skip_serializing_if = "is_default")]
    ready: bool,
    /// Type=dbus: its name has an owner.
    #[serde(skip_serializing_if = "is_default")]
    bus_owned: bool,
    /// STATUS=
    #[serde(skip_serializing_if = "is_default")]
    pub status_text: Option<Box<str>>,
    /// ERRNO=
    #[serde(skip_serializing_if = "is_default")]
    pub status_errno: i32,
    /// WATCHDOG_USEC=, where the service changed it.
    #[serde(skip_serializing_if = "is_default")]
    watchdog_override: Option<Span>,
    /// What descriptors are kept for it.
    #[serde(skip_serializing_if = "is_default")]
    pub stored: Vec<StoredName>,
    /// When the current run came up, and when it was last told to reload.
    #[serde(skip_serializing_if = "is_default")]
    up_since: Time,
    #[serde(skip_serializing_if = "is_default")]
    reload_since: Time,
    /// When the step, the run and the watchdog's patience are over; 0 for never.
    #[serde(skip_serializing_if = "is_default")]
    step_until: Time,
    #[serde(skip_serializing_if = "is_default")]
    run_until: Time,
    #[serde(skip_serializing_if = "is_default")]
    watchdog_until: Time,
    /// Health checks of this run.
    #[serde(skip_serializing_if = "is_default")]
    pub health: Option<Box<Health>>,
}

/// Descriptors that are kept under one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredName {
    /// FDNAME=
    pub name: Box<str>,
    /// How many.
    pub count: u32,
}

/// A service together with what it needs to act.
struct Act<'a> {
    service: &'a mut Service,
    spec: &'a ServiceSpec,
    context: &'a Context,
    out: &'a mut Vec<Output>,
}

impl Service {
    /// The health check that runs.
    #[must_use]
    pub fn probe(&self) -> Option<&Process> {
        self.health.as_ref()?.process.as_ref()
    }

    pub(super) fn active(&self) -> ActiveState {
        use ServiceState::*;
        match self.state {
            Dead => ActiveState::Inactive,
            Condition | StartPre | Start | StartPost if self.cosmetic => ActiveState::Active,
            Condition | StartPre | Start | StartPost | AutoRestart => ActiveState::Activating,
            Running | Exited => ActiveState::Active,
            Reload | ReloadSignal | ReloadNotify => ActiveState::Reloading,
            Stop | StopWatchdog | StopSigterm | StopSigkill | StopPost | FinalWatchdog
            | FinalSigterm | FinalSigkill => ActiveState::Deactivating,
            Failed => ActiveState::Failed,
        }
    }

    pub(super) fn sub_state(&self) -> &'static str {
        match self.state {
            ServiceState::Dead => "dead",
            ServiceState::Condition => "condition",
            ServiceState::StartPre => "start-pre",
            ServiceState::Start => "start",
            ServiceState::StartPost => "start-post",
            ServiceState::Running => "running",
            ServiceState::Exited => "exited",
            ServiceState::Reload => "reload",
            ServiceState::ReloadSignal => "reload-signal",
            ServiceState::ReloadNotify => "reload-notify",
            ServiceState::Stop => "stop",
            ServiceState::StopWatchdog => "stop-watchdog",
            ServiceState::StopSigterm => "stop-sigterm",
            ServiceState::StopSigkill => "stop-sigkill",
            ServiceState::StopPost => "stop-post",
            ServiceState::FinalWatchdog => "final-watchdog",
            ServiceState::FinalSigterm => "final-sigterm",
            ServiceState::FinalSigkill => "final-sigkill",
            ServiceState::Failed => "failed",
            ServiceState::AutoRestart => "auto-restart",
        }
    }

    pub(super) fn accepts_start(&self) -> bool {
        self.state == ServiceState::AutoRestart
    }

    /// A service of Type=idle counts as up before it is; its reload waits until then.
    pub(super) fn accepts_reload(&self) -> bool {
        matches!(self.state, ServiceState::Running | ServiceState::Exited)
    }

    pub(super) fn waits_for_idle(&self) -> bool {
        self.held_for_idle
    }

    /// How many descriptors are kept for it.
    #[must_use]
    pub fn stored_fds(&self) -> u32 {
        self.stored.iter().map(|stored| stored.count).sum()
    }

    /// Whether no run is under way.
    fn is_resting(&self) -> bool {
        matches!(
            self.state,
            ServiceState::Dead | ServiceState::Failed | ServiceState::AutoRestart
        )
    }

    pub(super) fn handle(&mut self, spec: &ServiceSpec, input: Input, tools: &mut Tools<'_>) {
        let mut act = Act {
            service: self,
            spec,
            context: tools.context,
            out: tools.out,
        };
        match input {
            Input::Start { .. } => act.start(),
            Input::Stop => act.stop_on_request(),
            Input::Reload => act.reload(),
            Input::StartLimitHit => act.refuse_start(Outcome::StartLimitHit),
            Input::RestartRefused => act.refuse_restart(),
            Input::ResetFailed => act.reset_failed(),
            Input::Spawned { role, process } => act.spawned(role, process),
            Input::Delegated { role, process, .. } => act.delegated(role, process),
            Input::Executed { pid, .. } => act.executed(pid),
            Input::SpawnFailed { role, error } => act.spawn_failed(role, &error),
            Input::Exited { pid, status } => act.exited(pid, status),
            Input::Found { main } => act.found(main),
            Input::CgroupEmpty => act.cgroup_empty(),
            Input::OomKill | Input::OomKills { .. } => act.oom_kill(),
            Input::Notified(message) => act.notified(&message),
            Input::Deadline(kind) => act.deadline(kind),
            Input::PidFile { process } => act.pid_file(process),
            Input::BusName { owned } => act.bus_name(owned),
            Input::NoBus => act.no_bus(),
            Input::Idle => act.release_idle(),
            Input::StoredFdClosed { name } => act.stored_fd_closed(&name),
            // What concerns other types, or needs no answer.
            _ => {}
        }
    }
}

impl Act<'_> {
    fn enter(&mut self, state: ServiceState) {
        self.service.state = state;
    }

    fn log(&mut self, severity: Severity, message: impl Into<Box<str>>) {
        self.out.push(Output::Log(severity, message.into()));
    }

    /// The first failure of a run is the one that is shown.
    fn blame(&mut self, outcome: Outcome) {
        if self.service.outcome == Outcome::Success {
            self.service.outcome = outcome;
        }
    }

    fn arm(&mut self, kind: DeadlineKind, span: Span) {
        self.set_deadline(kind, self.context.now.monotonic.after(span));
    }

    fn disarm(&mut self, kind: DeadlineKind) {
        self.set_deadline(kind, None);
    }

    fn set_deadline(&mut self, kind: DeadlineKind, at: Option<Time>) {
        if let Some(until) = self.until(kind) {
            *until = at.unwrap_or_default();
        }
        self.out.push(Output::Deadline { kind, at });
    }

    /// Where it is kept when such a deadline is over, for those that a service may extend.
    fn until(&mut self, kind: DeadlineKind) -> Option<&mut Time> {
        match kind {
            DeadlineKind::Step => Some(&mut self.service.step_until),
            DeadlineKind::RuntimeMax => Some(&mut self.service.run_until),
            DeadlineKind::Watchdog => Some(&mut self.service.watchdog_until),
            _ => None,
        }
    }

    fn command_count(&self, kind: ExecKind) -> usize {
        self.spec
            .commands
            .iter()
            .filter(|command| command.kind == kind)
            .count()
    }

    fn ignores_failure(&self, at: CommandRef) -> bool {
        command_at(&self.spec.commands, at).is_some_and(|command| command.ignore_failure)
    }

    /// Runs line `index` of a list as the control process; false if there is no such line.
    fn run_control(&mut self, kind: ExecKind, index: u16) -> bool {
        if usize::from(index) >= self.command_count(kind) {
            self.service.command = None;
            return false;
        }
        let command = CommandRef { kind, index };
        self.service.command = Some(command);
        self.ask_for(Role::Control, command);
        true
    }

    fn ask_for(&mut self, role: Role, command: CommandRef) {
        match role {
            Role::Main => self.service.main_asked = true,
            Role::Control => self.service.control_asked = true,
            Role::Probe => {}
        }
        self.out.push(Output::Spawn { role, command });
    }

    fn has_main(&self) -> bool {
        self.service.main.is_some() || self.service.main_asked
    }

    fn has_control(&self) -> bool {
        self.service.control.is_some() || self.service.control_asked
    }

    /// Whether the service is alive as far as its type can tell.
    fn is_alive(&self) -> bool {
        if self.spec.service_type == ServiceType::Dbus && !self.service.bus_owned {
            return false;
        }
        let by_cgroup = match self.spec.exit_type {
            ExitType::Cgroup => true,
            // A daemon that forked and named no main process: all that can be known is that something is left.
            ExitType::Main => {
                self.spec.service_type == ServiceType::Forking && self.service.main_exit.is_none()
            }
        };
        self.service.main.is_some() || (by_cgroup && self.service.populated)
    }
}
