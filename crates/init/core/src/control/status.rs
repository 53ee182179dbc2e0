//! `ListUnits` and `Status`.

use std::sync::Arc;

use muster_cgroup::Refusals;
use muster_control::manager::{
    CommandRun, HealthView, ListUnitsCall, ListUnitsReply, Moment, ProcessView, UnitCall, UnitRow,
    UnitStatus,
};
use muster_engine::dep::DepKind;
use muster_engine::ids::{Time, UnitId};
use muster_engine::protocol::{ExecKind, Role};
use muster_engine::spec::KindSpec;
use muster_engine::types::{Machine, Service};
use muster_unit_file::config::{LoadState, UnitConfig, UnitKind};
use muster_unit_file::install::{InstallPaths, Installer, PresetAction, UnitFileState};
use muster_unit_file::name::UnitName;
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use super::jobs::exit_word;
use super::reason::{command_text, failed_check};
use super::rows::{self, moment};
use crate::context::unapplied;
use crate::core::Core;
use crate::execute::process::phase_name;
use crate::memory::Consumed;

/// Whether a unit's file is enabled, and whether presets would enable it.
pub(super) type FileState = (Option<UnitFileState>, Option<bool>);

/// Units whose state is remembered.
const MAX_FILE_STATES: usize = 10_000;
/// Processes that are shown of one unit.
const MAX_PROCESSES: usize = 1024;

impl Core {
    pub(super) fn list_units(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: ListUnitsCall = call.parameters.read()?;
        let mut found: Vec<(Box<str>, UnitId)> = self
            .engine
            .units()
            .filter(|(_, record)| rows::is_listed(record, &wanted))
            .map(|(id, record)| (record.name.clone(), id))
            .collect();
        found.sort_unstable();
        let units = found.into_iter().map(|(_, id)| self.row(id)).collect();
        Ok(Some(Reply::of(&ListUnitsReply { units })))
    }

    fn row(&mut self, unit: UnitId) -> UnitRow {
        let now = self.now();
        let needs = rows::needs_config(self.engine.unit(unit));
        let config = self
            .name_of(unit)
            .filter(|_| needs)
            .map(|name| self.units.config(&name));
        rows::row(&self.engine, unit, now, config.as_deref())
    }

    pub(super) fn unit_status(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: UnitCall = call.parameters.read()?;
        let status = match self.engine.find(&wanted.unit) {
            Some(unit) => self.status_of(unit, &wanted.unit)?,
            None => self.status_of_file(&wanted.unit)?,
        };
        Ok(Some(Reply::of(&status)))
    }

    /// What a unit's files say now, without loading it.
    pub(super) fn read_config(&mut self, unit: &str) -> Result<UnitConfig, Fault> {
        let name = UnitName::new(unit).map_err(|error| Fault::bad_name(unit, &error))?;
        let config = self.units.loader().load(&name).config;
        if name.is_template() || config.load_state == LoadState::NotFound {
            return Err(Fault::no_such_unit(unit));
        }
        Ok(config)
    }

    /// A unit that has files and that nobody has asked for so far.
    fn status_of_file(&mut self, unit: &str) -> Result<UnitStatus, Fault> {
        let config = self.read_config(unit)?;
        let row = UnitRow {
            name: config.name.to_string(),
            description: config.description_or_name().to_owned(),
            load: config.load_state.as_str().to_owned(),
            active: "inactive".to_owned(),
            sub: "dead".to_owned(),
            ..UnitRow::default()
        };
        let mut status = UnitStatus {
            row,
            outcome: "success".to_owned(),
            freezer: "running".to_owned(),
            ..UnitStatus::default()
        };
        self.add_files(&mut status, &config);
        Ok(status)
    }

    fn status_of(&mut self, unit: UnitId, asked: &str) -> Result<UnitStatus, Fault> {
        let name = self
            .name_of(unit)
            .ok_or_else(|| Fault::no_such_unit(asked))?;
        let config = self.units.config(&name);
        let record = self.engine.unit(unit);
        if record.load == muster_engine::event::LoadState::NotFound && record.active().is_down() {
            return Err(Fault::no_such_unit(asked));
        }
        let mut status = UnitStatus {
            row: self.row(unit),
            ..UnitStatus::default()
        };
        self.add_files(&mut status, &config);
        self.add_runs(&mut status, unit, &config);
        self.add_cgroup(&mut status, unit);
        let record = self.engine.unit(unit);
        status.triggered_by = rows::names(&self.engine, record, DepKind::TriggeredBy);
        status.outcome = record.machine.outcome().as_str().to_owned();
        status.invocation = record.invocation.to_string();
        status.failed_check = failed_check(record);
        if let Some(setup) = self.memory.setups.get(&unit) {
            status.dropped = setup.dropped.iter().map(ToString::to_string).collect();
            status.setup_failure = setup.failure.as_deref().unwrap_or_default().to_owned();
        }
        if let Some(checked) = &record.checked {
            status.checked = self.at(checked.at);
        }
        match (
            &record.machine,
            record.spec.as_deref().map(|spec| &spec.kind),
        ) {
            (Machine::Service(service), Some(KindSpec::Service(spec))) => {
                add_service(&mut status, service);
                let runs = self.memory.runs.get(&unit).map_or(&[][..], Vec::as_slice);
                let last = runs
                    .iter()
                    .find(|run| run.command.kind == ExecKind::HealthCheck);
                let checked = last.and_then(|run| run.exit).map(|(at, _)| moment(at));
                status.health = spec.health.map(|health| HealthView {
                    checked: checked.unwrap_or_default(),
                    ..health_view(service.health.as_deref(), health.retries)
                });
            }
            (Machine::Service(service), _) => add_service(&mut status, service),
            (Machine::Socket(socket), _) => {
                status.accepted = socket.accepted;
                status.connections = socket.connections;
            }
            _ => {}
        }
        Ok(status)
    }

    /// A moment of the monotonic clock, on both.
    fn at(&self, at: Time) -> Moment {
        let now = self.now();
        let ago = now.monotonic.since(at);
        Moment {
            real: u64::try_from(now.real).unwrap_or(0).saturating_sub(ago),
            monotonic: at.0,
        }
    }

    fn add_files(&mut self, status: &mut UnitStatus, config: &UnitConfig) {
        let name = &config.name;
        status.aliases = config.aliases.iter().map(ToString::to_string).collect();
        status.fragment = config.fragment.as_deref().unwrap_or_default().to_owned();
        status.drop_ins = config.drop_ins.iter().map(ToString::to_string).collect();
        status.documentation = config.documentation.iter().map(str::to_owned).collect();
        status.needs_reload = self.units.is_stale(name);
        status.transient = self.control.transients.has(name.as_str());
        status.remarks = self.remarks_about(name.as_str());
        let not_applied = unapplied::directives(config, false);
        status.not_applied = not_applied.into_iter().map(str::to_owned).collect();
        if let Some(unit) = self.engine.find(name.as_str()) {
            let resources = self.unapplied_resources(unit, config);
            status.not_applied.extend(resources);
        }
        if let UnitKind::Service(service) = &config.kind {
            status.stored_descriptors_max = service.file_descriptor_store_max;
        }
        let (state, preset) = self.file_state(config);
        status.file_state = state.map_or_else(String::new, |state| state.to_string());
        let word = |enabled| if enabled { "enabled" } else { "disabled" };
        status.preset = preset.map_or("", word).to_owned();
    }

    /// Whether a unit is enabled, and whether it would be by the vendor's presets. Looking means looking at all folders, so
    /// what was found is good until the next reload.
    pub(super) fn file_state(&mut self, config: &UnitConfig) -> FileState {
        if config.fragment.is_none() {
            return (None, None);
        }
        if self.control.transients.has(config.name.as_str()) {
            return (Some(UnitFileState::Transient), None);
        }
        if let Some(known) = self.control.file_states.get(&config.name) {
            return *known;
        }
        let host = self.units.host().specifiers.clone();
        let loader = self.units.loader();
        let paths = InstallPaths {
            search: loader.search_path().clone(),
            ..InstallPaths::default()
        };
        let mut installer = Installer::new(loader.fs(), paths, host);
        let state = installer.state(&config.name);
        let has_preset = state.is_some_and(|state| {
            !matches!(state, UnitFileState::Generated | UnitFileState::Transient)
        });
        let preset = has_preset.then(|| {
            let action = installer.presets().action(&config.name);
            matches!(action, PresetAction::Enable { .. })
        });
        let states = &mut self.control.file_states;
        if states.len() < MAX_FILE_STATES {
            states.insert(config.name.clone(), (state, preset));
        }
        (state, preset)
    }

    fn add_runs(&mut self, status: &mut UnitStatus, unit: UnitId, config: &Arc<UnitConfig>) {
        let runs = self.memory.runs.get(&unit).map_or(&[][..], Vec::as_slice);
        status.commands = runs
            .iter()
            .map(|run| {
                let (code, number) = run.exit.map_or(("", 0), |(_, status)| exit_word(status));
                CommandRun {
                    phase: phase_name(run.command.kind).to_owned(),
                    command: command_text(run, Some(config)),
                    pid: run.pid,
                    code: code.to_owned(),
                    status: number,
                    start: moment(run.start),
                    exit: run.exit.map_or_else(Moment::default, |(at, _)| moment(at)),
                }
            })
            .collect();
        for (role, process) in self.engine.unit(unit).machine.processes() {
            match role {
                Role::Main => status.main_pid = process.pid,
                Role::Control => status.control_pid = process.pid,
                Role::Probe => {}
            }
        }
    }

    fn add_usage(&mut self, status: &mut UnitStatus, unit: UnitId, path: &str) {
        let usage = self.platform.usage(path);
        status.tasks = usage.tasks;
        status.memory = usage.memory;
        status.memory_peak = usage.memory_peak;
        status.cpu = usage.cpu;
        let [read, _, written, _] = usage.disks;
        (status.disk_read, status.disk_written) = (read, written);
        let [received, _, sent, _] = usage.network;
        (status.network_in, status.network_out) = (received, sent);
        let (tasks_max, memory_max) = self.limits_of(unit);
        (status.tasks_max, status.memory_max) = (tasks_max, memory_max);
        status.limits_reached = limits_reached(&usage.refusals, tasks_max, memory_max);
    }

    fn add_cgroup(&mut self, status: &mut UnitStatus, unit: UnitId) {
        status.freezer = "running".to_owned();
        let record = self.engine.unit(unit);
        let has_cgroup = matches!(
            record.machine,
            Machine::Service(_)
                | Machine::Socket(_)
                | Machine::Mount(_)
                | Machine::Swap(_)
                | Machine::Slice(_)
                | Machine::Scope(_)
        );
        if record.active().is_down() {
            let used = self.memory.consumed.get(&unit).copied();
            return add_account(status, used.unwrap_or_default());
        }
        if !has_cgroup {
            return;
        }
        let path = self.cgroup_of(unit);
        status.processes = self
            .platform
            .processes(&path)
            .into_iter()
            .take(MAX_PROCESSES)
            .map(|(pid, cgroup)| ProcessView {
                pid,
                cgroup,
                command: self.platform.command_line(pid),
            })
            .collect();
        self.add_usage(status, unit, &path);
        if self.platform.is_frozen(&path) {
            "frozen".clone_into(&mut status.freezer);
        }
        status.cgroup = path.into();
    }
}

/// What the last run has used up.
fn add_account(status: &mut UnitStatus, used: Consumed) {
    (status.cpu, status.memory_peak) = (used.cpu, used.memory_peak);
    let [read, _, written, _] = used.disks;
    (status.disk_read, status.disk_written) = (read, written);
    let [received, _, sent, _] = used.network;
    (status.network_in, status.network_out) = (received, sent);
}

/// Limits that were in the way, for people. A unit is named as the cause only if it has a limit of memory and that was reached:
/// the kernel also ends processes of units that lie in a full slice, or on a machine that is full.
fn limits_reached(
    refusals: &Refusals,
    tasks_max: Option<u64>,
    memory_max: Option<u64>,
) -> Vec<String> {
    let mut reached = Vec::new();
    if let (Some(times @ 1..), Some(max)) = (refusals.tasks, tasks_max) {
        reached.push(format!("TasksMax={max} ({times} times)"));
    }
    if let Some(killed @ 1..) = refusals.killed {
        let limit = match (refusals.memory, memory_max) {
            (Some(1..), Some(max)) => format!("MemoryMax={max}"),
            _ => "memory of a slice above it or of the machine".to_owned(),
        };
        reached.push(format!(
            "{limit} ({killed} processes were ended for lack of memory)"
        ));
    }
    reached
}

fn add_service(status: &mut UnitStatus, service: &Service) {
    status.status_text = service
        .status_text
        .as_deref()
        .unwrap_or_default()
        .to_owned();
    status.status_errno = service.status_errno;
    status.restarts = service.restarts;
    status.stored_descriptors = service.stored_fds();
}

fn health_view(health: Option<&muster_engine::types::Health>, retries: u32) -> HealthView {
    let state = match health.and_then(|health| health.healthy) {
        Some(true) => "healthy",
        Some(false) => "unhealthy",
        None if health.is_some() => "starting",
        None => "unknown",
    };
    HealthView {
        state: state.to_owned(),
        failures: health.map_or(0, |health| health.failures),
        retries,
        checked: Moment::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_where_it_was_reached_and_only_there() {
        let refusals = |tasks, memory, killed| Refusals {
            tasks,
            memory,
            killed,
        };
        let none = refusals(Some(0), Some(0), Some(0));
        assert_eq!(limits_reached(&none, Some(5), Some(7)), [""; 0]);
        let own = refusals(Some(2), Some(1), Some(3));
        assert_eq!(
            limits_reached(&own, Some(5), Some(7)),
            [
                "TasksMax=5 (2 times)",
                "MemoryMax=7 (3 processes were ended for lack of memory)"
            ]
        );
        let above = "memory of a slice above it or of the machine (3 processes were ended for lack of memory)";
        for (refusals, memory_max) in [
            (refusals(None, Some(0), Some(3)), Some(7)),
            (refusals(None, Some(1), Some(3)), None),
            (refusals(None, None, Some(3)), Some(7)),
        ] {
            assert_eq!(limits_reached(&refusals, None, memory_max), [above]);
        }
    }
}
