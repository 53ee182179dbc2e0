//! The way down: stop commands, signals, clean-up, and the decision about another run.

use super::{Act, ServiceState};
use crate::ids::Span;
use crate::protocol::{
    DeadlineKind, ExecKind, ExitStatus, KillScope, Outcome, Output, Role, Severity,
};
use crate::spec::{KillMode, Restart, ServiceType, TimeoutFailureMode};

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

    fn enter_dead(&mut self) {
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

    /// Whether the restart policy wants another run after this one.
    pub(super) fn restart_follows(&self) -> bool {
        if self.service.stop_asked || self.context.stop_pending || self.context.shutting_down {
            return false;
        }
        if let Some(exit) = self.service.main_exit {
            let listed = |set: &crate::spec::ExitStatusSet| match exit {
                ExitStatus::Code(code) => set.has_code(code),
                ExitStatus::Signal(signal) | ExitStatus::Core(signal) => set.has_signal(signal),
            };
            if listed(&self.spec.restart_prevent) {
                return false;
            }
            if listed(&self.spec.restart_force) {
                return true;
            }
        }
        let outcome = self.service.outcome;
        let well = outcome == Outcome::Success;
        let skipped = outcome == Outcome::ExecCondition;
        match self.spec.restart {
            Restart::No => false,
            Restart::Always => !skipped,
            Restart::OnSuccess => well,
            Restart::OnFailure => !well && !skipped,
            Restart::OnAbnormal => !well && !skipped && outcome != Outcome::ExitCode,
            Restart::OnWatchdog => outcome == Outcome::Watchdog,
            Restart::OnAbort => matches!(outcome, Outcome::Signal | Outcome::CoreDump),
        }
    }

    /// RestartSec=, growing towards RestartMaxDelaySec= over RestartSteps= restarts.
    fn restart_pause(&self) -> Span {
        let first = self.spec.restart_sec;
        let (steps, last) = (self.spec.restart_steps, self.spec.restart_max_delay);
        if steps == 0 || last == Span::INFINITY || last <= first {
            return first;
        }
        let done = self.service.restarts;
        if done >= steps {
            return last;
        }
        if first.0 == 0 {
            return Span(last.0 / u64::from(steps) * u64::from(done));
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a pause is exact to far better than it is measured; it stays between first and last"
        )]
        let pause = {
            let growth = last.0 as f64 / first.0 as f64;
            (first.0 as f64 * growth.powf(f64::from(done) / f64::from(steps))) as u64
        };
        Span(pause.clamp(first.0, last.0))
    }

    pub(super) fn reset_failed(&mut self) {
        if self.service.state == ServiceState::Failed {
            self.enter(ServiceState::Dead);
        }
        self.service.outcome = Outcome::Success;
        self.service.reload_failed = false;
        self.service.restarts = 0;
    }

    pub(super) fn deadline(&mut self, kind: DeadlineKind) {
        match kind {
            DeadlineKind::Step => self.step_took_too_long(),
            DeadlineKind::Restart => {
                if self.service.state == ServiceState::AutoRestart {
                    self.service.restart_due = true;
                    self.out.push(Output::Restart);
                }
            }
            DeadlineKind::Watchdog => {
                if self.is_watched() {
                    self.log(Severity::Error, "The watchdog was not fed in time.");
                    self.enter_signal(ServiceState::StopWatchdog, Outcome::Watchdog);
                }
            }
            DeadlineKind::RuntimeMax => {
                if self.service.state == ServiceState::Running {
                    self.log(Severity::Warning, "It ran for as long as it may.");
                    self.enter_stop(Outcome::Timeout);
                }
            }
            DeadlineKind::Idle => self.release_idle(),
            DeadlineKind::Health => self.health_due(),
            DeadlineKind::Elapse | DeadlineKind::RateLimit => {}
        }
    }

    fn step_took_too_long(&mut self) {
        use ServiceState::*;
        let state = self.service.state;
        match state {
            Condition | StartPre | Start | StartPost => {
                self.log(
                    Severity::Error,
                    format!("The step {} took too long.", self.service.sub_state()),
                );
                self.fail_by_timeout(self.spec.start_failure_mode, false);
            }
            Reload if self.has_control() && !self.service.reload_failed => {
                self.log(Severity::Error, "The reload took too long; it is killed.");
                self.service.reload_failed = true;
                self.kill_reload();
                self.arm(DeadlineKind::Step, self.spec.timeout_stop);
            }
            Reload | ReloadSignal | ReloadNotify => {
                self.log(Severity::Error, "The reload took too long.");
                self.service.control = None;
                self.service.control_asked = false;
                self.finish_reload(false);
            }
            Stop => {
                self.log(Severity::Error, "The stop commands took too long.");
                self.fail_by_timeout(self.spec.stop_failure_mode, false);
            }
            StopSigterm if self.spec.stop_failure_mode == TimeoutFailureMode::Abort => {
                self.log(Severity::Warning, "It did not end in time; it is aborted.");
                self.enter_signal(StopWatchdog, Outcome::Timeout);
            }
            StopWatchdog | StopSigterm if self.spec.kill.send_sigkill => {
                self.log(Severity::Warning, "It did not end in time; it is killed.");
                self.enter_signal(StopSigkill, Outcome::Timeout);
            }
            StopWatchdog | StopSigterm | StopSigkill => {
                self.log(
                    Severity::Error,
                    "Processes are still there after being killed.",
                );
                self.blame(Outcome::Timeout);
                self.abandon_processes();
                self.enter_stop_post();
            }
            StopPost => {
                self.log(Severity::Error, "The clean-up commands took too long.");
                self.fail_by_timeout(self.spec.stop_failure_mode, true);
            }
            FinalSigterm if self.spec.stop_failure_mode == TimeoutFailureMode::Abort => {
                self.enter_signal(FinalWatchdog, Outcome::Timeout);
            }
            FinalWatchdog | FinalSigterm if self.spec.kill.send_sigkill => {
                self.enter_signal(FinalSigkill, Outcome::Timeout);
            }
            FinalWatchdog | FinalSigterm | FinalSigkill => {
                self.log(
                    Severity::Error,
                    "Processes are still there after clean-up; they are left.",
                );
                self.blame(Outcome::Timeout);
                self.abandon_processes();
                self.enter_dead();
            }
            Dead | Running | Exited | Failed | AutoRestart => {}
        }
    }

    /// Processes that survive SIGKILL hang in the kernel; nothing waits for them any longer.
    fn abandon_processes(&mut self) {
        self.service.main = None;
        self.service.main_asked = false;
        self.service.control = None;
        self.service.control_asked = false;
        self.service.populated = false;
    }

    /// Ends a reload command that took too long.
    pub(super) fn kill_reload(&mut self) {
        if self.service.control.is_some() {
            self.out.push(Output::Kill {
                scope: KillScope::Control,
                signal: self.spec.kill.final_signal,
                and_continue: false,
                and_hangup: false,
            });
        }
    }

    fn fail_by_timeout(&mut self, mode: TimeoutFailureMode, last: bool) {
        use ServiceState::*;
        let state = match (mode, last) {
            (TimeoutFailureMode::Terminate, false) => StopSigterm,
            (TimeoutFailureMode::Abort, false) => StopWatchdog,
            (TimeoutFailureMode::Kill, false) => StopSigkill,
            (TimeoutFailureMode::Terminate, true) => FinalSigterm,
            (TimeoutFailureMode::Abort, true) => FinalWatchdog,
            (TimeoutFailureMode::Kill, true) => FinalSigkill,
        };
        self.enter_signal(state, Outcome::Timeout);
    }
}
