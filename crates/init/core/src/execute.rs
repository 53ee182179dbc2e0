//! Carrying actions out: what the engine asks for, done with the platform. Each family of requests has its own file.

mod account;
pub(crate) mod activation;
pub(crate) mod cgroups;
pub(crate) mod machine;
pub(crate) mod namespaces;
mod notifications;
pub(crate) mod process;
pub(crate) mod setup;
pub(crate) mod stored;
mod surroundings;

use muster_engine::event::{Action, Do, What};
use muster_engine::ids::{ActionId, InvocationId, UnitId};
use muster_engine::protocol::{Output, Severity};
use muster_unit_file::name::UnitName;

use crate::core::Core;

impl Core {
    /// Does what an action says. Doing it twice is doing it once.
    pub(crate) fn execute(&mut self, action: &Action) {
        match &action.what {
            Do::Unit {
                unit,
                invocation,
                output,
            } => self.execute_for_unit(action.id, *unit, *invocation, output),
            Do::Check { unit } => self.check(*unit),
            Do::Load(names) => {
                let names: Vec<UnitName> =
                    names.iter().filter_map(|n| UnitName::new(n).ok()).collect();
                self.load_or_admit_missing(names);
            }
            Do::Answer { request, answer } => self.answer(*request, answer),
            Do::JobAdded(job) => self.job_added(*job),
            Do::JobEnded {
                job,
                unit,
                job_type,
                result,
                waiters,
            } => self.job_ended(*job, *unit, *job_type, *result, waiters),
            Do::StateChanged { unit, old, new } => self.state_changed(*unit, *old, *new),
            Do::Emergency {
                action,
                unit,
                reason,
            } => self.emergency(*action, *unit, reason),
            Do::Log {
                severity,
                unit,
                message,
            } => self.say(*severity, *unit, message),
        }
    }

    fn execute_for_unit(
        &mut self,
        action: ActionId,
        unit: UnitId,
        invocation: InvocationId,
        output: &Output,
    ) {
        match output {
            Output::Spawn { role, command } => {
                self.spawn(action, unit, invocation, *role, *command);
            }
            Output::Kill {
                scope,
                signal,
                and_continue,
                and_hangup,
            } => self.kill(unit, *scope, *signal, *and_continue, *and_hangup),
            Output::KillStray { pid } => {
                // It may be gone already, and that is as good.
                let _ = self.platform.signal(*pid, cgroups::SIGKILL);
            }
            Output::MakeCgroup => self.make_cgroup(unit),
            Output::ReleaseCgroup => self.release_cgroup(unit),
            Output::ReleaseResources => self.release_resources(unit),
            Output::StoreFds(stored) => self.store_descriptors(unit, stored),
            Output::DropFds(name) => self.drop_descriptors(unit, name.as_deref()),
            // The engine keeps these to itself.
            Output::Deadline { .. }
            | Output::Restart
            | Output::StopTriggered
            | Output::Trigger { connection: None }
            | Output::Log(..) => {}
            other => self.activate(unit, other),
        }
    }

    /// Loads what the engine only knows by name. A name that has no file is answered too, or it would be asked for again.
    fn load_or_admit_missing(&mut self, names: Vec<UnitName>) {
        let loaded = self.units.load(names, |_| false);
        self.push(What::Loaded(loaded));
    }

    /// A line for the log, about a unit or about the manager.
    pub(crate) fn say(&mut self, severity: Severity, unit: Option<UnitId>, message: &str) {
        let about = unit.and_then(|unit| {
            let record = self.engine.get(unit)?;
            Some((record.name.clone(), record.invocation))
        });
        self.logs
            .say(self.platform.clock(), severity, about, message);
    }

    /// A process that belongs to a unit from now on.
    pub(crate) fn own_process(&mut self, unit: UnitId, pid: u32) {
        self.strangers.forget(pid);
        self.processes.insert(pid, unit);
    }
}
