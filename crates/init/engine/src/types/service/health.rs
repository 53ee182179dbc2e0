//! Health checks: a command that is run at intervals beside the main process.

use serde::{Deserialize, Serialize};

use super::{Act, ServiceState};
use crate::protocol::{
    CommandRef, DeadlineKind, ExecKind, ExitStatus, KillScope, Outcome, Output, Process, Role,
    Severity,
};
use crate::spec::HealthAction;

const SIGKILL: u8 = 9;

/// The health checks of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The check that runs now.
    pub process: Option<Process>,
    /// A check was asked for and has not ended.
    in_flight: bool,
    /// The last verdict; `None` before the first.
    pub healthy: Option<bool>,
    /// How many failed in a row.
    pub failures: u32,
}

impl Act<'_> {
    /// Whether being up still waits for the first good check. Asking also begins the checks.
    pub(super) fn gated_by_health(&mut self) -> bool {
        let gated = self.gate_is_closed();
        if gated {
            self.begin_health_checks();
        }
        gated
    }

    fn gate_is_closed(&self) -> bool {
        let passed = |health: &Health| health.healthy == Some(true);
        self.spec
            .health
            .is_some_and(|health| health.gates_readiness)
            && !self.service.health.as_deref().is_some_and(passed)
    }

    /// Whether a check is all that is awaited in this step.
    pub(super) fn awaits_health(&self) -> bool {
        self.gate_is_closed() && !self.has_control()
    }

    pub(super) fn is_probe(&self, pid: u32) -> bool {
        let health = self.service.health.as_deref();
        let process = health.and_then(|health| health.process.as_ref());
        process.is_some_and(|process| process.pid == pid)
    }

    /// Whether a check was asked for and has not appeared.
    pub(super) fn probe_is_asked(&self) -> bool {
        let asked = |health: &Health| health.in_flight && health.process.is_none();
        self.service.health.as_deref().is_some_and(asked)
    }

    pub(super) fn probe_spawned(&mut self, process: Process) {
        self.health().process = Some(process);
    }

    fn health(&mut self) -> &mut Health {
        self.service.health.get_or_insert_default()
    }

    pub(super) fn begin_health_checks(&mut self) {
        if self.spec.health.is_some() && !self.health().in_flight {
            self.run_probe();
        }
    }

    fn run_probe(&mut self) {
        let Some(spec) = self.spec.health else { return };
        self.health().in_flight = true;
        let command = CommandRef {
            kind: ExecKind::HealthCheck,
            index: 0,
        };
        self.ask_for(Role::Probe, command);
        self.arm(DeadlineKind::Health, spec.timeout);
    }

    /// Either the pause until the next check is over, or the running check took too long.
    pub(super) fn health_due(&mut self) {
        if !self.is_watched() {
            return;
        }
        if self.health().in_flight {
            self.kill_probe();
            self.verdict(false, "took too long");
        } else {
            self.run_probe();
        }
    }

    fn kill_probe(&mut self) {
        let health = self.service.health.as_deref_mut();
        if health.is_some_and(|health| health.process.take().is_some()) {
            self.out.push(Output::Kill {
                scope: KillScope::Probe,
                signal: SIGKILL,
                and_continue: false,
                and_hangup: false,
            });
        }
    }

    pub(super) fn probe_ended(&mut self, status: ExitStatus) {
        let health = self.health();
        health.process = None;
        if std::mem::take(&mut health.in_flight) {
            self.verdict(status == ExitStatus::Code(0), "failed");
        }
    }

    fn verdict(&mut self, well: bool, how: &str) {
        let Some(spec) = self.spec.health else { return };
        let age = self.context.now.monotonic.since(self.service.up_since);
        self.arm(DeadlineKind::Health, spec.interval);
        let health = self.health();
        health.in_flight = false;
        if well {
            health.failures = 0;
            health.healthy = Some(true);
            if self.service.state == ServiceState::StartPost && !self.has_control() {
                self.finish_start();
            }
            return;
        }
        if health.healthy != Some(true) && age < spec.start_period.0 {
            return;
        }
        health.failures = health.failures.saturating_add(1);
        let failures = health.failures;
        let last = failures >= spec.retries.max(1);
        if last {
            health.healthy = Some(false);
        }
        let message = format!("Health check {failures} of {} {how}.", spec.retries);
        self.log(Severity::Warning, message);
        if last && spec.action != HealthAction::Report {
            match self.service.state {
                ServiceState::Running => self.enter_stop(Outcome::HealthCheck),
                // A step is under way: its command must end first.
                _ => self.enter_signal(ServiceState::StopSigterm, Outcome::HealthCheck),
            }
        }
    }

    pub(super) fn end_health_checks(&mut self) {
        if self.service.health.is_some() {
            self.disarm(DeadlineKind::Health);
            self.kill_probe();
            self.health().in_flight = false;
        }
    }
}
