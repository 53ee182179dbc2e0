//! What the end of someone's patience means in each step.

use super::{Act, ServiceState};
use crate::protocol::{DeadlineKind, KillScope, Outcome, Output, Severity};
use crate::spec::TimeoutFailureMode;

impl Act<'_> {
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
    pub(super) fn abandon_processes(&mut self) {
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
