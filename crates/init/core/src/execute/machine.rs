//! What concerns the machine as a whole: states, jobs, emergencies, shutdown.

use muster_engine::event::{Answer, LoadState, What};
use muster_engine::ids::{JobId, RequestId, UnitId};
use muster_engine::job::{JobMode, JobResult, JobType, JobVerb};
use muster_engine::protocol::{ActiveState, ExitStatus, Outcome, Severity};
use muster_engine::spec::EmergencyAction;
use muster_engine::types::Machine;
use muster_handover::ShutdownKind;
use muster_unit_file::name::UnitName;

use crate::core::{Core, Ending};
use crate::memory::Farewell;
use crate::units::Reloaded;

/// Targets that end the machine: from the moment one is wanted, nothing is restarted any more.
const ENDINGS: [&str; 7] = [
    "shutdown.target",
    "poweroff.target",
    "reboot.target",
    "halt.target",
    "kexec.target",
    "exit.target",
    "soft-reboot.target",
];

/// What a service's state is called while it waits for its next run.
const AUTO_RESTART: &str = "auto-restart";
/// systemd's names for what is said about a failed run.
const MESSAGE_PROCESS_EXITED: &str = "MESSAGE_ID=98e322203f7a4ed290d09fe03c09fe15";
const MESSAGE_FAILED: &str = "MESSAGE_ID=d9b373ed55a64feb8242e02dbe79a49c";

/// The exit code that stands for the end of a process which had none.
const NOT_BY_ITSELF: u8 = 255;

impl Core {
    pub(super) fn answer(&mut self, request: RequestId, answer: &Answer) {
        if let Answer::Refused(refusal) = answer
            && !self.control.is_waiting(request)
        {
            let message = format!("A job that the manager wanted was refused: {refusal}");
            self.say(Severity::Warning, None, &message);
        }
        self.control_answer(request, answer);
    }

    pub(super) fn job_added(&mut self, job: JobId) {
        let Some(queued) = self.engine.job(job) else {
            return;
        };
        let name = &self.engine.unit(queued.unit).name;
        if queued.job_type == JobType::Start && ENDINGS.contains(&&**name) {
            self.push(What::ShutdownBegun);
        }
        self.control_job_added(job);
    }

    pub(super) fn job_ended(
        &mut self,
        job: JobId,
        unit: UnitId,
        kind: JobType,
        result: JobResult,
        waiters: &[RequestId],
    ) {
        self.tell_of_job(job, unit, kind, result);
        self.control_job_ended(job, unit, kind, result, waiters);
    }

    /// The lines that an operator knows: Started, Stopped, Failed to start.
    fn tell_of_job(&mut self, job: JobId, unit: UnitId, kind: JobType, result: JobResult) {
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let spec = record.spec.as_ref();
        let description = spec
            .map_or(&*record.name, |spec| &*spec.description)
            .to_owned();
        let name = record.name.clone();
        let (severity, message) = match (kind, result) {
            (JobType::Start, JobResult::Done) => {
                (Severity::Info, format!("Started {name} - {description}."))
            }
            (JobType::Stop, JobResult::Done) => {
                (Severity::Info, format!("Stopped {name} - {description}."))
            }
            (JobType::Reload, JobResult::Done) => {
                (Severity::Info, format!("Reloaded {name} - {description}."))
            }
            (JobType::Restart, JobResult::Done) => return,
            (_, JobResult::Done | JobResult::Canceled | JobResult::Skipped) => return,
            (kind, JobResult::Timeout) => (
                Severity::Error,
                format!(
                    "Timed out waiting for {} of {name} - {description}.",
                    kind.as_str()
                ),
            ),
            (kind, JobResult::Dependency) => (
                Severity::Error,
                format!(
                    "Dependency failed: the {} of {name} - {description} was given up.",
                    kind.as_str()
                ),
            ),
            (kind, result) => (
                Severity::Error,
                format!(
                    "Failed to {} {name} - {description} ({}).",
                    kind.as_str(),
                    result.as_str()
                ),
            ),
        };
        let invocation = record.invocation;
        let fields = vec![
            format!("JOB_ID={job}").into(),
            format!("JOB_TYPE={}", kind.as_str()).into(),
            format!("JOB_RESULT={}", result.as_str()).into(),
        ];
        let now = self.now();
        self.logs
            .say_with(now, severity, Some((name, invocation)), &message, fields);
    }

    pub(super) fn state_changed(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        self.control_state_changed(unit, old, new);
        if new == ActiveState::Inactive
            && self
                .engine
                .get(unit)
                .is_some_and(|record| is_instance(&record.name))
        {
            self.forgettable.push(unit);
        }
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let is_over = new == ActiveState::Failed || record.machine.sub_state() == AUTO_RESTART;
        if is_over && record.machine.outcome() != Outcome::Success {
            self.tell_of_failure(unit);
        }
    }

    /// How a run failed, in systemd's words and fields, also when the next one follows by itself: who reads the log after a
    /// crash looks for these.
    fn tell_of_failure(&mut self, unit: UnitId) {
        let Some(record) = self.engine.get(unit) else {
            return;
        };
        let about = (record.name.clone(), record.invocation);
        let outcome = record.machine.outcome();
        let exit = match &record.machine {
            // When there are no further starts, the last run's exit has been told.
            Machine::Service(service) if outcome != Outcome::StartLimitHit => service.main_exit,
            _ => None,
        };
        let outcome = outcome.as_str();
        let now = self.now();
        if let Some(exit) = exit {
            let (severity, code, status) = match exit {
                ExitStatus::Code(0) => (Severity::Debug, "exited", 0),
                ExitStatus::Code(code) => (Severity::Notice, "exited", code),
                ExitStatus::Signal(signal) => (Severity::Warning, "killed", signal),
                ExitStatus::Core(signal) => (Severity::Warning, "dumped", signal),
            };
            let message = format!("Main process exited, code={code}, status={status}.");
            let fields = vec![
                MESSAGE_PROCESS_EXITED.into(),
                format!("EXIT_CODE={code}").into(),
                format!("EXIT_STATUS={status}").into(),
            ];
            self.logs
                .say_with(now, severity, Some(about.clone()), &message, fields);
        }
        let message = format!("{} failed with result '{outcome}'.", about.0);
        let fields = vec![
            MESSAGE_FAILED.into(),
            format!("UNIT_RESULT={outcome}").into(),
        ];
        self.logs
            .say_with(now, Severity::Warning, Some(about), &message, fields);
    }

    /// Something that a unit's settings want for the whole machine.
    pub(super) fn emergency(&mut self, action: EmergencyAction, unit: UnitId, reason: &str) {
        let message = format!("{reason}: {action:?} of the whole machine.");
        self.say(Severity::Error, Some(unit), &message);
        let farewell = self.farewell(unit);
        match action {
            EmergencyAction::None => {}
            EmergencyAction::Reboot => {
                self.keep_farewell(farewell);
                self.begin_shutdown("reboot.target");
            }
            EmergencyAction::Poweroff => self.begin_shutdown("poweroff.target"),
            EmergencyAction::Exit => {
                self.keep_farewell(farewell);
                self.begin_shutdown("exit.target");
            }
            EmergencyAction::RebootForce | EmergencyAction::RebootImmediate => {
                self.end_machine(ShutdownKind::Reboot {
                    argument: &farewell.argument,
                });
            }
            EmergencyAction::PoweroffForce | EmergencyAction::PoweroffImmediate => {
                self.end_machine(ShutdownKind::PowerOff);
            }
            EmergencyAction::ExitForce => {
                let code = farewell.code;
                self.end_machine(ShutdownKind::Exit { code });
            }
        }
    }

    /// What goes with the end: what the unit states, else how its main process ended, else what was asked for.
    fn farewell(&mut self, unit: UnitId) -> Farewell {
        let asked = self.memory.farewell.clone();
        let (Some(config), Some(record)) = (self.config_of(unit), self.engine.get(unit)) else {
            return asked;
        };
        let reactions = &config.reactions;
        let stated = match record.active() {
            ActiveState::Failed => reactions.failure_action_exit_status,
            _ => reactions.success_action_exit_status,
        };
        let exit = match &record.machine {
            Machine::Service(service) => service.main_exit,
            _ => None,
        };
        let ended = exit.map(|exit| match exit {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(_) | ExitStatus::Core(_) => NOT_BY_ITSELF,
        });
        let argument = reactions.reboot_argument.clone();
        Farewell {
            code: stated.map(|code| code.0).or(ended).unwrap_or(asked.code),
            argument: argument.unwrap_or(asked.argument),
        }
    }

    /// Remembers once more what goes with an end that an earlier manager began and may not have lived to write down.
    pub(crate) fn recall_farewell(&mut self, action: EmergencyAction, unit: UnitId) {
        if matches!(action, EmergencyAction::Reboot | EmergencyAction::Exit) {
            self.memory.farewell = self.farewell(unit);
        }
    }

    /// Remembers what goes with an end that comes in order, also for the manager that lives to see it.
    pub(crate) fn keep_farewell(&mut self, farewell: Farewell) {
        if self.memory.farewell != farewell {
            self.memory.farewell = farewell;
            self.write_soon();
        }
    }

    /// Stops units in order; a service at the end of the transaction ends the machine.
    pub(crate) fn begin_shutdown(&mut self, target: &str) {
        self.ensure_loaded(target);
        let known = self.engine.find(target);
        let is_known = known.is_some_and(|unit| self.engine.unit(unit).load == LoadState::Loaded);
        // While an action is carried out, what is read waits, and so does what is asked for behind it.
        if is_known || self.is_being_loaded(target) {
            self.want(target, JobVerb::Start, JobMode::ReplaceIrreversibly);
            return;
        }
        let message = format!("There is no {target}; everything is ended without an order.");
        self.say(Severity::Warning, None, &message);
        let farewell = self.memory.farewell.clone();
        self.end_machine(match target {
            "reboot.target" | "ctrl-alt-del.target" => ShutdownKind::Reboot {
                argument: &farewell.argument,
            },
            "halt.target" => ShutdownKind::Halt,
            "kexec.target" => ShutdownKind::Kexec,
            "exit.target" => ShutdownKind::Exit {
                code: farewell.code,
            },
            _ => ShutdownKind::PowerOff,
        });
    }

    /// Hands the machine to `muster-init` to be ended.
    pub(crate) fn end_machine(&mut self, how: ShutdownKind<'_>) {
        self.feed_logs();
        self.remove_empty_slices();
        // Without init nobody could end the machine; the loop finds the broken link by itself.
        let _ = self.platform.flush();
        if self.platform.shutdown(how).is_ok() {
            self.ending = Some(Ending::Shutdown);
        }
    }

    /// A supervisor leaves no groups behind in the tree of another init.
    fn remove_empty_slices(&mut self) {
        let slices = self.engine.units().map(|(unit, _)| unit);
        let mut paths: Vec<Box<str>> = slices
            .filter(|unit| self.engine.unit(*unit).name.ends_with(".slice"))
            .map(|unit| self.cgroup_of(unit))
            .filter(|path| !path.is_empty())
            .collect();
        // What lies deepest goes first; one that still has processes stays for muster-init to end them.
        paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        for path in paths {
            self.platform.remove_cgroup(&path);
        }
    }

    /// Reads unit files again, those that changed.
    pub(crate) fn reload_units(&mut self) -> Reloaded {
        let names: Vec<UnitName> = self
            .engine
            .units()
            .filter_map(|(_, record)| UnitName::new(&record.name).ok())
            .collect();
        self.memory.loading.0 = self.now();
        self.refresh_host();
        let mut done = self.units.reload(names);
        if !done.gone.is_empty() {
            self.push(What::Unloaded(done.gone.clone()));
        }
        if !done.loaded.is_empty() {
            self.push(What::Loaded(std::mem::take(&mut done.loaded)));
        }
        self.memory.loading.1 = self.now();
        self.control_reloaded();
        done
    }
}

/// Whether a name is that of a template's instance.
pub(crate) fn is_instance(name: &str) -> bool {
    name.contains('@')
}
