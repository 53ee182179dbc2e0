//! The way up, and reloading.

use super::{Act, ServiceState};
use crate::ids::{Span, Time};
use crate::protocol::{
    CommandRef, DeadlineKind, ExecKind, KillScope, Outcome, Output, Process, Role, Severity,
};
use crate::spec::ServiceType;

/// How long an idle service is held back at most.
const IDLE_PATIENCE: Span = Span::secs(5);

impl Act<'_> {
    pub(super) fn start(&mut self) {
        if !self.service.is_resting() {
            return;
        }
        let restarts = if self.service.restart_due {
            self.service.restarts.saturating_add(1)
        } else {
            0
        };
        let stored = std::mem::take(&mut self.service.stored);
        let cosmetic = self.spec.service_type == ServiceType::Idle;
        *self.service = super::Service {
            restarts,
            stored,
            cosmetic,
            ..super::Service::default()
        };
        self.disarm(DeadlineKind::Restart);
        self.arm(DeadlineKind::Step, self.spec.timeout_start);
        self.enter(ServiceState::Condition);
        if !self.run_control(ExecKind::Condition, 0) {
            self.enter_start_pre();
        }
    }

    pub(super) fn refuse_restart(&mut self) {
        if self.service.state == ServiceState::AutoRestart {
            self.refuse_start(Outcome::Resources);
        }
    }

    pub(super) fn refuse_start(&mut self, why: Outcome) {
        if self.service.is_resting() {
            self.service.outcome = why;
            self.give_up_restart();
            self.enter(ServiceState::Failed);
        }
    }

    pub(super) fn enter_start_pre(&mut self) {
        self.enter(ServiceState::StartPre);
        if !self.run_control(ExecKind::StartPre, 0) {
            self.enter_start();
        }
    }

    pub(super) fn enter_start(&mut self) {
        self.enter(ServiceState::Start);
        self.service.ready = false;
        if self.command_count(ExecKind::Start) == 0 {
            return self.enter_start_post();
        }
        // A oneshot may take as long as it needs unless a limit was set, which the loader has already put into the spec.
        self.arm(DeadlineKind::Step, self.spec.timeout_start);
        if self.spec.service_type == ServiceType::Idle {
            self.service.held_for_idle = true;
            return self.arm(DeadlineKind::Idle, IDLE_PATIENCE);
        }
        if self.spec.service_type == ServiceType::Dbus {
            self.out.push(Output::WatchBusName(true));
        }
        self.spawn_main(0);
    }

    pub(super) fn release_idle(&mut self) {
        if std::mem::take(&mut self.service.held_for_idle) {
            self.disarm(DeadlineKind::Idle);
            self.spawn_main(0);
        }
    }

    pub(super) fn spawn_main(&mut self, index: u16) {
        let command = CommandRef {
            kind: ExecKind::Start,
            index,
        };
        self.service.command = Some(command);
        self.service.setting_up = false;
        // The process that Type=forking starts only leads to the main process.
        let role = match self.spec.service_type {
            ServiceType::Forking => Role::Control,
            _ => Role::Main,
        };
        self.ask_for(role, command);
    }

    pub(super) fn spawned(&mut self, role: Role, process: Process) {
        let asked = match role {
            Role::Main => std::mem::take(&mut self.service.main_asked),
            Role::Control => std::mem::take(&mut self.service.control_asked),
            Role::Probe => self.probe_is_asked(),
        };
        if !asked || process.invocation != self.context.invocation {
            return self.out.push(Output::KillStray { pid: process.pid });
        }
        self.service.populated = true;
        match role {
            Role::Main => {
                self.service.main = Some(process);
                self.service.main_exit = None;
                self.check_started();
            }
            Role::Control => self.service.control = Some(process),
            Role::Probe => return self.probe_spawned(process),
        }
        self.signal_late_process(role);
    }

    /// As [`spawned`](Self::spawned), but the program itself does not run yet.
    pub(super) fn delegated(&mut self, role: Role, process: Process) {
        if role == Role::Main {
            self.service.setting_up = true;
        }
        self.spawned(role, process);
    }

    pub(super) fn executed(&mut self, pid: u32) {
        let main = self.service.main.as_ref();
        if main.is_some_and(|process| process.pid == pid) {
            self.service.setting_up = false;
            self.check_started();
        }
    }

    /// Whether the main process is there and has shown what its type wants to see.
    fn check_started(&mut self) {
        let shown = match self.spec.service_type {
            ServiceType::Exec => !self.service.setting_up,
            // What comes next may have to find the main process where it will be.
            ServiceType::Simple | ServiceType::Idle => {
                !self.service.setting_up || self.command_count(ExecKind::StartPost) == 0
            }
            ServiceType::Notify | ServiceType::NotifyReload => self.service.ready,
            ServiceType::Dbus => self.service.bus_owned,
            ServiceType::Forking => !self.has_control(),
            ServiceType::Oneshot => false,
        };
        if self.service.state == ServiceState::Start && self.service.main.is_some() && shown {
            self.enter_start_post();
        }
    }

    pub(super) fn became_ready(&mut self) {
        self.service.ready = true;
        self.check_started();
    }

    pub(super) fn pid_file(&mut self, process: Option<Process>) {
        use ServiceState::*;
        if !matches!(
            self.service.state,
            Start | StartPost | Running | Reload | ReloadSignal | ReloadNotify
        ) {
            return;
        }
        let Some(process) = process else {
            let is_forked = self.service.state == Start
                && !self.has_control()
                && self.spec.service_type == ServiceType::Forking;
            match self.spec.has_pid_file {
                // A guess that found nothing: the cgroup alone stands for the service.
                false if is_forked => self.enter_start_post(),
                true if is_forked && !self.service.populated => self.never_named_main(),
                _ => {}
            }
            return;
        };
        self.service.main = Some(process);
        self.service.main_exit = None;
        self.service.populated = true;
        self.check_started();
    }

    pub(super) fn bus_name(&mut self, owned: bool) {
        if self.service.is_resting() {
            return;
        }
        self.service.bus_owned = owned;
        match (owned, self.service.state) {
            (true, ServiceState::Start) => self.check_started(),
            (false, ServiceState::Running) if self.spec.service_type == ServiceType::Dbus => {
                self.enter_running_or_stop(Outcome::Success);
            }
            _ => {}
        }
    }

    /// A service that waits for its name would wait in vain. One that is up may have lost the bus for a moment only.
    pub(super) fn no_bus(&mut self) {
        if self.service.state == ServiceState::Start && self.spec.service_type == ServiceType::Dbus
        {
            self.log(
                Severity::Error,
                "It cannot be seen on the bus, because there is no bus.",
            );
            self.enter_signal(ServiceState::StopSigterm, Outcome::Resources);
        }
    }

    pub(super) fn enter_start_post(&mut self) {
        self.enter(ServiceState::StartPost);
        self.service.up_since = self.context.now.monotonic;
        self.feed_watchdog();
        if !self.run_control(ExecKind::StartPost, 0) {
            self.finish_start();
        }
    }

    /// Everything is started; if a health check decides about being up, its first verdict is awaited here.
    pub(super) fn finish_start(&mut self) {
        if self.is_alive() && self.gated_by_health() {
            return;
        }
        self.disarm(DeadlineKind::Step);
        self.enter_running_or_stop(Outcome::Success);
        if self.service.state == ServiceState::Running {
            self.arm(DeadlineKind::RuntimeMax, self.spec.runtime_max);
            self.begin_health_checks();
        }
    }

    /// Its processes outlived the memory of how they came to be. It is taken to be ready: nobody knows better.
    pub(super) fn found(&mut self, main: Option<Process>) {
        if !self.service.is_resting() {
            return;
        }
        self.service.populated = true;
        self.service.ready = true;
        self.service.bus_owned = true;
        self.service.outcome = Outcome::Success;
        self.service.main = main;
        self.service.up_since = self.context.now.monotonic;
        self.log(
            Severity::Warning,
            "It was found running and is looked after again.",
        );
        self.enter_running_or_stop(Outcome::Success);
    }

    /// Running while something is alive; else exited or on the way down.
    pub(super) fn enter_running_or_stop(&mut self, outcome: Outcome) {
        self.blame(outcome);
        self.service.command = None;
        if self.is_alive() {
            self.enter(ServiceState::Running);
        } else if self.spec.remain_after_exit {
            self.end_supervision();
            self.enter(ServiceState::Exited);
        } else {
            self.enter_stop(Outcome::Success);
        }
    }

    pub(super) fn reload(&mut self) {
        if !self.service.accepts_reload() {
            return;
        }
        self.service.reload_failed = false;
        self.service.reload_since = self.context.now.monotonic;
        self.arm(DeadlineKind::Step, self.spec.timeout_start);
        if self.spec.service_type == ServiceType::NotifyReload && self.service.main.is_some() {
            self.enter(ServiceState::ReloadSignal);
            self.out.push(Output::Kill {
                scope: KillScope::Main,
                signal: self.spec.reload_signal,
                and_continue: false,
                and_hangup: false,
            });
            return;
        }
        self.enter(ServiceState::Reload);
        if !self.run_control(ExecKind::Reload, 0) {
            self.finish_reload(true);
        }
    }

    pub(super) fn finish_reload(&mut self, well: bool) {
        self.service.reload_failed = !well;
        self.disarm(DeadlineKind::Step);
        self.enter_running_or_stop(Outcome::Success);
        let until = self.service.run_until;
        if self.service.state == ServiceState::Running
            && until != Time(0)
            && until <= self.context.now.monotonic
        {
            // Its time ran out during the reload.
            self.set_deadline(DeadlineKind::RuntimeMax, Some(until));
        }
    }
}
