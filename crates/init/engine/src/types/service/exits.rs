//! What the end of a process means in each step.

use super::{Act, ServiceState};
use crate::protocol::{ExecKind, ExitStatus, Outcome, Output, Role, Severity, SpawnError};
use crate::spec::{ExitType, NotifyAccess, OomPolicy, ServiceType};

/// Signals that a daemon may end by when it was asked to go.
const CLEAN_SIGNALS: [u8; 4] = [1, 2, 13, 15];

impl Act<'_> {
    pub(super) fn exited(&mut self, pid: u32, status: ExitStatus) {
        let is = |process: &Option<crate::protocol::Process>| {
            process.as_ref().is_some_and(|process| process.pid == pid)
        };
        if is(&self.service.main) {
            self.main_ended(status);
        } else if is(&self.service.control) {
            self.control_ended(status);
        } else if self.is_probe(pid) {
            self.probe_ended(status);
        }
    }

    pub(super) fn spawn_failed(&mut self, role: Role, error: &SpawnError) {
        let message = format!(
            "A process could not be started: {}: errno {}.",
            error.step, error.errno
        );
        let status = ExitStatus::Code(error.exit_code);
        match role {
            Role::Main if std::mem::take(&mut self.service.main_asked) => {
                self.log(Severity::Error, message);
                match error.early {
                    true => self.never_made(),
                    false => self.main_ended(status),
                }
            }
            Role::Control if std::mem::take(&mut self.service.control_asked) => {
                self.log(Severity::Error, message);
                match error.early {
                    true => self.never_made(),
                    false => self.control_ended(status),
                }
            }
            Role::Probe if self.probe_is_asked() => {
                self.log(Severity::Error, message);
                self.probe_ended(status);
            }
            // It was not waited for any longer.
            Role::Main | Role::Control | Role::Probe => {}
        }
    }

    /// A process was not even made: there is nothing that ended, and nothing to judge.
    fn never_made(&mut self) {
        use ServiceState::*;
        match self.service.state {
            Condition | StartPre | Start | StartPost | Stop => {
                self.enter_signal(StopSigterm, Outcome::Resources);
            }
            Reload => self.finish_reload(false),
            StopPost => {
                self.blame(Outcome::Resources);
                self.after_stop_post();
            }
            StopWatchdog | StopSigterm | StopSigkill | FinalWatchdog | FinalSigterm
            | FinalSigkill => self.look_after_signal(),
            Dead | Running | Exited | ReloadSignal | ReloadNotify | Failed | AutoRestart => {}
        }
    }

    fn judge(&self, status: ExitStatus, ignore_failure: bool, daemon: bool) -> Outcome {
        let well = match status {
            ExitStatus::Code(code) => code == 0 || self.spec.success_status.has_code(code),
            ExitStatus::Signal(signal) => {
                (daemon && CLEAN_SIGNALS.contains(&signal))
                    || self.spec.success_status.has_signal(signal)
            }
            ExitStatus::Core(signal) => self.spec.success_status.has_signal(signal),
        };
        match status {
            _ if well || ignore_failure => Outcome::Success,
            ExitStatus::Code(_) => Outcome::ExitCode,
            ExitStatus::Signal(_) => Outcome::Signal,
            ExitStatus::Core(_) => Outcome::CoreDump,
        }
    }

    fn main_ended(&mut self, status: ExitStatus) {
        use ServiceState::*;
        self.service.main = None;
        self.service.main_exit = Some(status);
        let command = self
            .service
            .command
            .filter(|command| command.kind == ExecKind::Start);
        let ignored = command.is_some_and(|command| self.ignores_failure(command))
            || (self.service.state != Start && self.ignores_failure(MAIN_COMMAND));
        let daemon = self.spec.service_type != ServiceType::Oneshot;
        let outcome = self.judge(status, ignored, daemon);
        match self.service.state {
            Start if self.spec.service_type == ServiceType::Oneshot => {
                let next = command.map_or(0, |command| command.index) + 1;
                if outcome != Outcome::Success {
                    self.enter_signal(StopSigterm, outcome);
                } else if usize::from(next) < self.command_count(ExecKind::Start) {
                    self.spawn_main(next);
                } else {
                    self.enter_start_post();
                }
            }
            Start if outcome != Outcome::Success => self.enter_signal(StopSigterm, outcome),
            // It ended well without ever having been up. Another process may still say that it is ready.
            Start
                if self.spec.exit_type == ExitType::Main
                    && !(self.spec.remain_after_exit
                        && self.spec.notify_access == NotifyAccess::All) =>
            {
                self.log(Severity::Error, "It ended before it was ready.");
                self.enter_signal(StopSigterm, Outcome::Protocol);
            }
            Running if self.spec.exit_type == ExitType::Cgroup && self.service.populated => {
                self.blame(outcome);
            }
            Running => self.enter_running_or_stop(outcome),
            StartPost => {
                self.blame(outcome);
                // Only a health check was awaited, and there is nothing left to check.
                if !self.has_control() {
                    self.finish_start();
                }
            }
            Reload | Stop => self.blame(outcome),
            ReloadSignal | ReloadNotify => {
                self.blame(outcome);
                self.finish_reload(outcome == Outcome::Success);
            }
            StopWatchdog | StopSigterm | StopSigkill | FinalWatchdog | FinalSigterm
            | FinalSigkill => {
                self.blame(outcome);
                self.look_after_signal();
            }
            Dead | Condition | StartPre | Start | Exited | StopPost | Failed | AutoRestart => {}
        }
    }

    fn control_ended(&mut self, status: ExitStatus) {
        use ServiceState::*;
        self.service.control = None;
        let Some(command) = self.service.command else {
            return self.look_after_signal();
        };
        let outcome = self.judge(status, self.ignores_failure(command), false);
        let next = command.index + 1;
        match self.service.state {
            Condition => match status {
                _ if outcome == Outcome::Success => {
                    if !self.run_control(ExecKind::Condition, next) {
                        self.enter_start_pre();
                    }
                }
                // 1 to 254 means: not now, and nothing is wrong.
                ExitStatus::Code(code) if code < 255 => {
                    self.enter_signal(StopSigterm, Outcome::ExecCondition);
                }
                _ => self.enter_signal(StopSigterm, outcome),
            },
            StartPre if outcome == Outcome::Success => {
                if !self.run_control(ExecKind::StartPre, next) {
                    self.enter_start();
                }
            }
            Start if outcome == Outcome::Success => self.forking_parent_ended(),
            StartPost if outcome == Outcome::Success => {
                if !self.run_control(ExecKind::StartPost, next) {
                    self.finish_start();
                }
            }
            StartPre | Start | StartPost => self.enter_signal(StopSigterm, outcome),
            Reload if outcome == Outcome::Success && !self.service.reload_failed => {
                if !self.run_control(ExecKind::Reload, next) {
                    self.finish_reload(true);
                }
            }
            Reload => self.finish_reload(false),
            Stop => {
                self.blame(outcome);
                if outcome != Outcome::Success || !self.run_control(ExecKind::Stop, next) {
                    self.enter_signal(StopSigterm, outcome);
                }
            }
            StopPost => {
                self.blame(outcome);
                if outcome != Outcome::Success || !self.run_control(ExecKind::StopPost, next) {
                    self.after_stop_post();
                }
            }
            StopWatchdog | StopSigterm | StopSigkill | FinalWatchdog | FinalSigterm
            | FinalSigkill => self.look_after_signal(),
            Dead | Running | Exited | ReloadSignal | ReloadNotify | Failed | AutoRestart => {}
        }
    }

    /// Type=forking: the started process has gone; the main process is named by the PID file or guessed.
    fn forking_parent_ended(&mut self) {
        if self.service.main.is_some() {
            return self.enter_start_post();
        }
        // Also when nobody is left: the file may name who has just ended.
        if self.spec.has_pid_file || (self.spec.guess_main_pid && self.service.populated) {
            self.out.push(Output::WatchPidFile(true));
        } else {
            self.enter_start_post();
        }
    }

    pub(super) fn never_named_main(&mut self) {
        self.log(
            Severity::Error,
            "Nothing is left of it, and no main process was named.",
        );
        self.enter_signal(ServiceState::StopSigterm, Outcome::Protocol);
    }

    pub(super) fn cgroup_empty(&mut self) {
        use ServiceState::*;
        self.service.populated = false;
        match self.service.state {
            // Whatever is still known will be reported by its own exit.
            _ if self.has_main() || self.has_control() => {}
            Running => self.enter_running_or_stop(Outcome::Success),
            StartPost if self.awaits_health() => self.finish_start(),
            Start if self.service.held_for_idle => {}
            Start if self.spec.service_type == ServiceType::Forking && !self.spec.has_pid_file => {
                self.enter_start_post();
            }
            Start => self.never_named_main(),
            _ => self.look_after_signal(),
        }
    }

    pub(super) fn oom_kill(&mut self) {
        use ServiceState::*;
        self.log(
            Severity::Error,
            "The kernel killed a process of it for memory.",
        );
        if self.service.is_resting() || self.spec.oom_policy == OomPolicy::Continue {
            return;
        }
        // The end of the process may be reported before its cause.
        if self.service.outcome == Outcome::Signal {
            self.service.outcome = Outcome::OomKill;
        }
        let kill = self.spec.oom_policy == OomPolicy::Kill;
        match self.service.state {
            Condition | StartPre | Start | StartPost | Running | Exited | Reload | ReloadSignal
            | ReloadNotify | Stop
                if kill =>
            {
                self.enter_signal(StopSigkill, Outcome::OomKill);
            }
            Running | Exited => self.enter_stop(Outcome::OomKill),
            Condition | StartPre | Start | StartPost | Reload | ReloadSignal | ReloadNotify
            | Stop => self.enter_signal(StopSigterm, Outcome::OomKill),
            StopWatchdog | StopSigterm => self.enter_signal(StopSigkill, Outcome::OomKill),
            StopPost | FinalWatchdog | FinalSigterm => {
                self.enter_signal(FinalSigkill, Outcome::OomKill);
            }
            StopSigkill | FinalSigkill => self.blame(Outcome::OomKill),
            Dead | Failed | AutoRestart => {}
        }
    }
}

const MAIN_COMMAND: crate::protocol::CommandRef = crate::protocol::CommandRef {
    kind: ExecKind::Start,
    index: 0,
};
