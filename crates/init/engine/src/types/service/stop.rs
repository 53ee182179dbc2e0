//! The way down: stop commands, signals, clean-up.

use super::{Act, ServiceState};
use crate::protocol::{DeadlineKind, ExecKind, KillScope, Outcome, Output, Role};
use crate::spec::{KillMode, ServiceType};

impl Act<'_> {
    pub(super) fn stop_on_request(&mut self) {
        use ServiceState::*;
        self.service.stop_asked = true;
        match self.service.state {
            Dead | Failed => {}
            // The first half of the restart that was waited for.
            AutoRestart if self.service.restart_due && self.context.restart_pending => {
                self.enter(Dead);
            }
            AutoRestart => {
                self.give_up_restart();
                self.enter(Dead);
            }
            Condition | StartPre | Start | StartPost | Reload | ReloadSignal | ReloadNotify => {
                self.enter_signal(StopSigterm, Outcome::Success);
            }
            Running | Exited => self.enter_stop(Outcome::Success),
            // Already on the way.
            Stop | StopWatchdog | StopSigterm | StopSigkill | StopPost | FinalWatchdog
            | FinalSigterm | FinalSigkill => {}
        }
    }

    /// No other run follows: what is kept between runs goes.
    pub(super) fn give_up_restart(&mut self) {
        self.disarm(DeadlineKind::Restart);
        self.service.restart_due = false;
        self.release();
    }

    fn release(&mut self) {
        self.out.push(Output::ReleaseResources);
        if !self.service.stored.is_empty() {
            self.service.stored.clear();
            self.out.push(Output::DropFds(None));
        }
    }

    pub(super) fn enter_stop(&mut self, outcome: Outcome) {
        self.blame(outcome);
        self.enter(ServiceState::Stop);
        self.end_supervision();
        self.arm(DeadlineKind::Step, self.spec.timeout_stop);
        if !self.run_control(ExecKind::Stop, 0) {
            self.enter_signal(ServiceState::StopSigterm, Outcome::Success);
        }
    }

    /// What watches over a run, or holds it back, ends with it.
    pub(super) fn end_supervision(&mut self) {
        self.disarm(DeadlineKind::Watchdog);
        self.disarm(DeadlineKind::RuntimeMax);
        self.end_health_checks();
        if std::mem::take(&mut self.service.held_for_idle) {
            self.disarm(DeadlineKind::Idle);
        }
    }

    /// Sends the signal that `state` stands for and waits until it has worked; goes on at once if nothing is there.
    pub(super) fn enter_signal(&mut self, state: ServiceState, outcome: Outcome) {
        use ServiceState::*;
        self.blame(outcome);
        self.enter(state);
        self.end_supervision();
        if !self.anything_to_wait_for() {
            return self.after_signal();
        }
        for scope in self.scopes(self.is_gentle()) {
            self.send(scope);
        }
        let abort = matches!(state, StopWatchdog | FinalWatchdog);
        let timeout = match self.spec.timeout_abort {
            Some(timeout) if abort => timeout,
            _ => self.spec.timeout_stop,
        };
        self.arm(DeadlineKind::Step, timeout);
    }

    /// Sends the signal that the current state stands for.
    fn send(&mut self, scope: KillScope) {
        use ServiceState::*;
        let kill = &self.spec.kill;
        let gentle = self.is_gentle();
        let signal = match self.service.state {
            StopWatchdog | FinalWatchdog => kill.watchdog_signal,
            StopSigkill | FinalSigkill => kill.final_signal,
            _ if self.context.restart_pending => kill.restart_signal,
            _ => kill.signal,
        };
        self.out.push(Output::Kill {
            scope,
            signal,
            and_continue: gentle,
            and_hangup: gentle && kill.send_sighup,
        });
    }

    fn is_gentle(&self) -> bool {
        use ServiceState::*;
        matches!(
            self.service.state,
            StopWatchdog | StopSigterm | FinalWatchdog | FinalSigterm
        )
    }

    fn is_signalled(&self) -> bool {
        self.is_gentle()
            || matches!(
                self.service.state,
                ServiceState::StopSigkill | ServiceState::FinalSigkill
            )
    }

    /// A process that was asked for before the stop has appeared: the signal has not met it.
    pub(super) fn signal_late_process(&mut self, role: Role) {
        if self.service.state == ServiceState::Reload && self.service.reload_failed {
            return self.kill_reload();
        }
        let spared = role == Role::Main && self.spec.kill.mode == KillMode::None;
        if self.is_signalled() && !spared {
            self.send(match role {
                Role::Main => KillScope::Main,
                Role::Control => KillScope::Control,
                Role::Probe => KillScope::Probe,
            });
        }
    }

    fn scopes(&self, gentle: bool) -> Vec<KillScope> {
        let named = |main: bool, control: bool| {
            let mut scopes = Vec::new();
            if main && self.service.main.is_some() {
                scopes.push(KillScope::Main);
            }
            if control && self.service.control.is_some() {
                scopes.push(KillScope::Control);
            }
            scopes
        };
        match self.spec.kill.mode {
            KillMode::ControlGroup => vec![KillScope::All],
            KillMode::Mixed if gentle => named(true, true),
            KillMode::Mixed => vec![KillScope::All],
            KillMode::Process => named(true, true),
            KillMode::None => named(false, true),
        }
    }

    /// Whether the current signal, or the step before it, has left something that must go first.
    fn anything_to_wait_for(&self) -> bool {
        let processes = self.has_main() || self.has_control();
        match self.spec.kill.mode {
            KillMode::ControlGroup => processes || self.service.populated,
            KillMode::Mixed if self.is_gentle() => processes,
            KillMode::Mixed => processes || self.service.populated,
            KillMode::Process => processes,
            KillMode::None => self.has_control(),
        }
    }

    /// Called whenever something of a stopping service has gone.
    pub(super) fn look_after_signal(&mut self) {
        if self.is_signalled() && !self.anything_to_wait_for() {
            self.after_signal();
        }
    }

    fn after_signal(&mut self) {
        use ServiceState::*;
        let rest = self.spec.kill.mode == KillMode::Mixed
            && self.spec.kill.send_sigkill
            && self.service.populated;
        match self.service.state {
            StopWatchdog | StopSigterm if rest => self.enter_signal(StopSigkill, Outcome::Success),
            StopWatchdog | StopSigterm | StopSigkill => self.enter_stop_post(),
            FinalWatchdog | FinalSigterm if rest => {
                self.enter_signal(FinalSigkill, Outcome::Success);
            }
            FinalWatchdog | FinalSigterm | FinalSigkill => self.enter_dead(),
            _ => {}
        }
    }

    pub(super) fn enter_stop_post(&mut self) {
        self.enter(ServiceState::StopPost);
        self.arm(DeadlineKind::Step, self.spec.timeout_stop);
        if !self.run_control(ExecKind::StopPost, 0) {
            self.after_stop_post();
        }
    }

    pub(super) fn after_stop_post(&mut self) {
        self.enter_signal(ServiceState::FinalSigterm, Outcome::Success);
    }

    pub(super) fn enter_dead(&mut self) {
        self.disarm(DeadlineKind::Step);
        self.end_supervision();
        // With KillMode=none or process something may be left, but it is not this unit's any more.
        self.abandon_processes();
        self.service.command = None;
        match self.spec.service_type {
            ServiceType::Forking => self.out.push(Output::WatchPidFile(false)),
            ServiceType::Dbus => self.out.push(Output::WatchBusName(false)),
            _ => {}
        }
        self.out.push(Output::ReleaseCgroup);
        if self.restart_follows() {
            let pause = self.restart_pause();
            self.enter(ServiceState::AutoRestart);
            // A pause without end would leave it waiting for ever; the loader never gives one, but a state may.
            return self.arm(DeadlineKind::Restart, pause);
        }
        self.release();
        self.enter(match self.service.outcome {
            Outcome::Success | Outcome::ExecCondition => ServiceState::Dead,
            _ => ServiceState::Failed,
        });
    }
}
