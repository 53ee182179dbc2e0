//! The manager and the machine as a whole: `Machine`, `Reload`, `Reexec`, `Shutdown`, `Environment`, and the manager's
//! own properties.

use muster_control::manager::{
    EnvironmentCall, EnvironmentReply, MachineStatus, Moment, ReloadReply, ShutdownCall, WaitWhat,
};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::ActiveState;
use muster_handover::ShutdownKind;
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use super::jobs::{Told, Wanted};
use super::rows::moment;
use crate::core::{Core, Ending};
use crate::memory::Farewell;

/// Targets that stand for the end of the machine.
const ENDS: [&str; 6] = [
    "shutdown.target",
    "poweroff.target",
    "reboot.target",
    "halt.target",
    "kexec.target",
    "exit.target",
];
/// Targets in which an operator repairs the machine.
const REPAIRS: [&str; 2] = ["rescue.target", "emergency.target"];
/// Most variables of the environment that services get.
const MAX_VARIABLES: usize = 4096;

impl Core {
    /// One word for everything.
    pub(super) fn machine_state(&self) -> &'static str {
        let is = |name: &&str, fits: fn(ActiveState) -> bool| {
            let unit = self.engine.find(name);
            unit.is_some_and(|unit| {
                let record = self.engine.unit(unit);
                fits(record.active()) || (record.job.is_some() && fits(ActiveState::Activating))
            })
        };
        if ENDS
            .iter()
            .any(|name| is(name, ActiveState::is_up_or_rising))
        {
            return "stopping";
        }
        if REPAIRS.iter().any(|name| is(name, ActiveState::is_up)) || self.is_idle_in_safe_mode() {
            return "maintenance";
        }
        if self.memory.finished.is_none() {
            return if self.engine.jobs().next().is_none() {
                "initializing"
            } else {
                "starting"
            };
        }
        if self.failed_units() > 0 {
            return "degraded";
        }
        "running"
    }

    /// Nothing was started, and nothing will be by itself.
    fn is_idle_in_safe_mode(&self) -> bool {
        self.safe_mode && self.memory.finished.is_none()
    }

    fn failed_units(&self) -> u32 {
        let units = self.engine.units();
        let failed = units.filter(|(_, unit)| unit.active() == ActiveState::Failed);
        u32::try_from(failed.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn machine_status(&mut self, _call: &mut IncomingCall) -> Handled {
        Ok(Some(Reply::of(&self.machine())))
    }

    fn machine(&self) -> MachineStatus {
        let now = self.now();
        let (mode, path) = self.platform.cgroup_tree();
        let memory = &self.memory;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        MachineStatus {
            state: self.machine_state().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            units: count(self.engine.units().count()),
            jobs: count(self.engine.jobs().count()),
            failed: self.failed_units(),
            cgroup_root: "/".to_owned(),
            cgroup_path: path.to_string_lossy().into_owned(),
            cgroup_mode: mode.to_owned(),
            kernel: Moment {
                real: u64::try_from(now.real)
                    .unwrap_or(0)
                    .saturating_sub(now.monotonic.0),
                monotonic: 0,
            },
            userspace: moment(memory.started),
            finish: moment(memory.finished.unwrap_or_default()),
            manager: moment(self.control.began),
            load_start: moment(memory.loading.0),
            load_finish: moment(memory.loading.1),
            recoveries: memory.recoveries,
            last_recovery: memory.last_recovery.to_string(),
            safe_mode: self.safe_mode,
            architecture: std::env::consts::ARCH
                .replace("x86_64", "x86-64")
                .replace("aarch64", "arm64"),
            default_target: memory.booted.to_string(),
            init_pid: std::os::unix::process::parent_id(),
            core_pid: std::process::id(),
            sequence: self.control.log.last(),
            journal: self.journal_folders(),
        }
    }

    /// Where the log daemon writes.
    fn journal_folders(&self) -> Vec<String> {
        let id = self.units.host().specifiers.machine_id.clone();
        let Some(id) = id else {
            return Vec::new();
        };
        ["/var/log/journal", "/run/log/journal"]
            .map(|folder| format!("{folder}/{id}"))
            .to_vec()
    }

    pub(super) fn reload_by_request(&mut self, _call: &mut IncomingCall) -> Handled {
        let before = self.now().monotonic;
        let done = self.reload_units();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.apply_queued();
        Ok(Some(Reply::of(&ReloadReply {
            looked: count(done.looked),
            read: count(done.read),
            removed: count(done.gone.len()),
            took: self.now().monotonic.since(before),
            remarks: done.remarks.iter().map(ToString::to_string).collect(),
        })))
    }

    /// The successor finds everything where this core leaves it; the reply goes out before this one ends.
    pub(super) fn reexec(&mut self, _call: &mut IncomingCall) -> Handled {
        self.apply_queued();
        // What no event tells the next core of goes with it, too. Without it the next one has all that matters.
        let _ = self.write_snapshot();
        self.platform
            .upgrade(None, false)
            .map_err(|source| Fault::system("", "hand over to another program", &source))?;
        self.ending = Some(Ending::Reexec);
        Ok(Some(Reply::empty()))
    }

    pub(super) fn shutdown_by_request(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: ShutdownCall = call.parameters.read()?;
        // Beside another init, the machine is not ours to end.
        let how = if self.supervised {
            "exit"
        } else {
            &*wanted.how
        };
        let argument = wanted.argument.as_str();
        let (target, kind) = match how {
            "poweroff" => ("poweroff.target", ShutdownKind::PowerOff),
            "reboot" => ("reboot.target", ShutdownKind::Reboot { argument }),
            "halt" => ("halt.target", ShutdownKind::Halt),
            "kexec" => ("kexec.target", ShutdownKind::Kexec),
            "soft-reboot" => ("soft-reboot.target", ShutdownKind::SoftReboot),
            "exit" => ("exit.target", ShutdownKind::Exit { code: wanted.code }),
            other => {
                let message = format!(
                    "'{other}' is no way to end a machine; there are poweroff, reboot, halt, kexec, soft-reboot and exit."
                );
                return Err(Fault::invalid(other, message));
            }
        };
        if wanted.force {
            self.end_machine(kind);
            return Ok(Some(Reply::empty()));
        }
        self.load_for_change(target)?;
        self.keep_farewell(Farewell {
            code: wanted.code,
            argument: argument.into(),
        });
        // No event tells the next core of it. A failure is found again, and reported, before core waits; the end comes all the same.
        self.apply_queued();
        let _ = self.write_snapshot();
        self.request(
            call,
            &Wanted {
                unit: target,
                verb: JobVerb::Start,
                mode: JobMode::ReplaceIrreversibly,
                wait: WaitWhat::Job,
                manual: false,
                told: Told::Nothing,
            },
        );
        Ok(None)
    }

    pub(super) fn environment(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: EnvironmentCall = call.parameters.read()?;
        if !wanted.set.is_empty() || !wanted.unset.is_empty() {
            self.must_be_privileged(call, "changing the environment")?;
            self.change_environment(&wanted)?;
        }
        let variables = self.memory.environment.iter();
        let variables = variables
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Ok(Some(Reply::of(&EnvironmentReply { variables })))
    }

    fn change_environment(&mut self, wanted: &EnvironmentCall) -> Result<(), Fault> {
        let mut environment = self.memory.environment.clone();
        for name in &wanted.unset {
            environment.remove(name.as_str());
        }
        for assignment in &wanted.set {
            let parts = assignment
                .split_once('=')
                .filter(|(name, value)| is_variable(name) && !value.contains(['\0', '\n']));
            let Some((name, value)) = parts else {
                let message = format!("'{assignment}' is not NAME=value.");
                return Err(Fault::invalid(assignment, message));
            };
            environment.insert(name.into(), value.into());
        }
        if environment.len() > MAX_VARIABLES {
            let message = format!("More than {MAX_VARIABLES} variables are too many.");
            return Err(Fault::invalid("set", message));
        }
        self.memory.environment = environment;
        // No event tells the next core of it, so it is written down as a whole.
        self.apply_queued();
        self.write_snapshot().map_err(|error| {
            Fault::system(
                "",
                "write the environment down",
                &std::io::Error::other(error),
            )
        })
    }

    /// What `systemctl show` prints without a unit, as far as it makes sense here.
    pub(super) fn manager_properties(&self) -> Vec<(String, String)> {
        let machine = self.machine();
        let environment = self.memory.environment.iter();
        let environment: Vec<String> = environment
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let pairs = [
            ("Version", machine.version.clone()),
            ("Architecture", machine.architecture.clone()),
            (
                "UserspaceTimestampMonotonic",
                machine.userspace.monotonic.to_string(),
            ),
            (
                "FinishTimestampMonotonic",
                machine.finish.monotonic.to_string(),
            ),
            (
                "UnitsLoadStartTimestampMonotonic",
                machine.load_start.monotonic.to_string(),
            ),
            (
                "UnitsLoadFinishTimestampMonotonic",
                machine.load_finish.monotonic.to_string(),
            ),
            ("NNames", machine.units.to_string()),
            ("NFailedUnits", machine.failed.to_string()),
            ("NJobs", machine.jobs.to_string()),
            ("Environment", environment.join(" ")),
            (
                "UnitPath",
                self.options
                    .search_path()
                    .iter()
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
            ("SystemState", machine.state),
        ];
        pairs
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

fn is_variable(name: &str) -> bool {
    let first = name.chars().next();
    first.is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
