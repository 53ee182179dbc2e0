//! Whether, and after which pause, another run follows.

use super::{Act, ServiceState};
use crate::ids::Span;
use crate::protocol::{ExitStatus, Outcome};
use crate::spec::{HealthAction, Restart};

impl Act<'_> {
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
        if outcome == Outcome::HealthCheck && self.ill_health_restarts() {
            return true;
        }
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

    fn ill_health_restarts(&self) -> bool {
        let health = self.spec.health;
        health.is_some_and(|health| health.action == HealthAction::Restart)
    }

    /// RestartSec=, growing towards RestartMaxDelaySec= over RestartSteps= restarts.
    pub(super) fn restart_pause(&self) -> Span {
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
}
