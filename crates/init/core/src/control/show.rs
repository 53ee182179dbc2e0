//! `Show`: properties by systemd's names, of a unit or of the manager.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_control::manager::{ShowCall, ShowReply};
use muster_engine::ids::{Clock, UnitId};
use muster_engine::protocol::{ExitStatus, Role};
use muster_engine::types::Machine;
use muster_unit_file::config::UnitConfig;
use muster_unit_file::name::UnitName;
use muster_units::runtime::{
    Changes, Connections, Elapses, Moment, Processes, Run as ShownRun, Usage,
};
use muster_units::show::Show;
use muster_units::{Graph, Runtime, effective};
use muster_varlink::{IncomingCall, Reply};

use super::dispatch::Handled;
use super::fault::Fault;
use crate::core::Core;
use crate::execute::process::phase_name;
use crate::memory::Run;

impl Core {
    pub(super) fn show(&mut self, call: &mut IncomingCall) -> Handled {
        let wanted: ShowCall = call.parameters.read()?;
        let all = wanted.all || !wanted.properties.is_empty();
        let mut properties = if wanted.unit.is_empty() {
            self.manager_properties()
        } else {
            self.unit_properties(&wanted.unit, all)?
        };
        if !wanted.properties.is_empty() {
            let names: BTreeSet<&str> = wanted.properties.iter().map(String::as_str).collect();
            properties.retain(|(name, _)| names.contains(name.as_str()));
        } else if !wanted.all {
            properties.retain(|(_, value)| !value.is_empty());
        }
        Ok(Some(Reply::of(&ShowReply { properties })))
    }

    fn unit_properties(&mut self, unit: &str, all: bool) -> Result<Vec<(String, String)>, Fault> {
        let asked = UnitName::new(unit).map_err(|error| Fault::bad_name(unit, &error))?;
        let id = self.engine.find(unit);
        let name = id.and_then(|id| self.name_of(id)).unwrap_or(asked);
        let (configs, mut runtime) = match id {
            Some(id) => (self.with_neighbours(id, &name), self.runtime_of(id)),
            // Of a unit that nobody has asked for, what its files say; it is not loaded by looking at it.
            None => {
                let config = Arc::new(self.units.loader().load(&name).config);
                (vec![config], Runtime::default())
            }
        };
        let own = configs.iter().find(|config| config.name == name).cloned();
        if let Some(config) = own {
            runtime.needs_reload = self.units.is_stale(&name);
            runtime.transient = self.control.transients.has(name.as_str());
            (runtime.file_state, runtime.file_preset) = self.file_state(&config);
            let is_up = id.is_some_and(|id| !self.engine.unit(id).active().is_down());
            if is_up {
                (runtime.processes.uid, runtime.processes.gid) = self.numbers_of(&config);
            }
        }
        let host = self.units.host();
        let graph = Graph::new(configs, host);
        let shown = graph.unit(&name).map_or_else(Vec::new, |unit| {
            let show = Show {
                host,
                runtime: &runtime,
                all,
            };
            muster_units::show::show(unit, show)
        });
        Ok(shown
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect())
    }

    /// A unit's settings and those of all units that it has an edge with: a graph of these has all edges of the unit.
    fn with_neighbours(&mut self, unit: UnitId, name: &UnitName) -> Vec<Arc<UnitConfig>> {
        let ids: BTreeSet<UnitId> = self
            .engine
            .unit(unit)
            .edges()
            .iter()
            .map(|edge| edge.to)
            .collect();
        let names: Vec<UnitName> = ids.into_iter().filter_map(|id| self.name_of(id)).collect();
        let mut configs = vec![self.units.config(name)];
        configs.extend(names.iter().map(|name| self.units.config(name)));
        configs
    }

    fn runtime_of(&mut self, unit: UnitId) -> Runtime {
        let cgroup = self.cgroup_of(unit);
        let record = self.engine.unit(unit);
        let up = !record.active().is_down();
        let frozen = up && self.platform.is_frozen(&cgroup);
        let checked = record.checked.as_ref();
        let times = &record.times;
        Runtime {
            active_state: record.active().as_str().into(),
            sub_state: record.machine.sub_state().into(),
            freezer_state: if frozen { "frozen" } else { "running" }.into(),
            result: record.machine.outcome().as_str().into(),
            changes: Changes {
                state: moment(times.change),
                inactive_exit: moment(times.inactive_exit),
                active_enter: moment(times.active_enter),
                active_exit: moment(times.active_exit),
                inactive_enter: moment(times.inactive_enter),
                ..Changes::default()
            },
            condition_result: checked.is_some_and(|checked| checked.failed_condition.is_none()),
            assert_result: checked.is_some_and(|checked| checked.failed_assert.is_none()),
            job: record.job.map(|job| job.0),
            invocation: (record.invocation.0 != 0).then_some(record.invocation.0),
            processes: self.processes_of(unit),
            usage: if up {
                self.usage_of(&cgroup)
            } else {
                self.used_up_by(unit)
            },
            connections: match &record.machine {
                Machine::Socket(socket) => Connections {
                    open: socket.connections,
                    accepted: u32::try_from(socket.accepted).unwrap_or(u32::MAX),
                    refused: u32::try_from(socket.refused).unwrap_or(u32::MAX),
                },
                _ => Connections::default(),
            },
            elapses: match &record.machine {
                Machine::Timer(timer) => Elapses {
                    next_real: timer
                        .next_real
                        .and_then(|at| u64::try_from(at).ok())
                        .unwrap_or(0),
                    next_monotonic: timer.next.map(|at| at.0),
                    last: Moment {
                        real: timer
                            .fired_real
                            .and_then(|at| u64::try_from(at).ok())
                            .unwrap_or(0),
                        monotonic: timer.fired.map_or(0, |at| at.0),
                    },
                    lines: Vec::new(),
                },
                _ => Elapses::default(),
            },
            ..Runtime::default()
        }
    }

    fn usage_of(&self, cgroup: &str) -> Usage {
        let (_, root) = self.platform.cgroup_tree();
        let used = self.platform.usage(cgroup);
        let allotted = self.platform.allotted(cgroup);
        Usage {
            control_group: format!("/{cgroup}").into(),
            control_group_id: inode(&root.join(cgroup)),
            memory: used.memory,
            memory_peak: used.memory_peak,
            memory_available: allotted.memory,
            processors: allotted.processors,
            memory_nodes: allotted.memory_nodes,
            cpu: used.cpu.map(|micros| micros.saturating_mul(1000)),
            tasks: used.tasks,
            disks: used.disks,
            network: used.network,
        }
    }

    /// What the last run has used up.
    fn used_up_by(&self, unit: UnitId) -> Usage {
        let used = self.memory.consumed.get(&unit).copied().unwrap_or_default();
        Usage {
            memory_peak: used.memory_peak,
            cpu: used.cpu.map(|micros| micros.saturating_mul(1000)),
            disks: used.disks,
            network: used.network,
            ..Usage::default()
        }
    }

    /// The numbers of the user and the group that a unit which is up runs as, where it names them.
    fn numbers_of(&mut self, config: &UnitConfig) -> (Option<u32>, Option<u32>) {
        let user = effective::user(config);
        let uid = user
            .as_deref()
            .and_then(|user| self.machine.number_of(user));
        let dynamic = uid.filter(|_| config.exec.dynamic_user);
        let Ok(accounts) = self.machine.accounts() else {
            return (uid, dynamic);
        };
        let gid = match effective::group(config) {
            Some(group) => accounts.group(&group).ok().or(dynamic),
            None => user.and_then(|user| Some(accounts.user(&user).ok()?.gid)),
        };
        (uid, gid)
    }

    fn processes_of(&self, unit: UnitId) -> Processes {
        let record = self.engine.unit(unit);
        let pid_of = |role| {
            let mut processes = record.machine.processes();
            processes
                .find_map(|(of, process)| (of == role).then_some(process.pid))
                .unwrap_or(0)
        };
        let runs = self.memory.runs.get(&unit).map_or(&[][..], Vec::as_slice);
        let main = runs.iter().rev().find(|run| run.role == Role::Main);
        let mut processes = Processes {
            main_pid: pid_of(Role::Main),
            control_pid: pid_of(Role::Control),
            main: main.map_or_else(ShownRun::default, shown_run),
            commands: runs
                .iter()
                .map(|run| {
                    (
                        phase_name(run.command.kind),
                        usize::from(run.command.index),
                        shown_run(run),
                    )
                })
                .collect(),
            ..Processes::default()
        };
        if record.machine.reload_failed() {
            processes.reload_result = "exit-code".into();
        }
        if let Machine::Service(service) = &record.machine {
            processes.restarts = service.restarts;
            processes.stored_descriptors = service.stored_fds();
            processes.status_text = service.status_text.clone().unwrap_or_default();
            processes.status_errno = service.status_errno;
        }
        processes
    }
}

fn moment(clock: Clock) -> Moment {
    Moment {
        real: u64::try_from(clock.real).unwrap_or(0),
        monotonic: clock.monotonic.0,
    }
}

fn shown_run(run: &Run) -> ShownRun {
    let (code, status) = match run.exit.map(|(_, status)| status) {
        Some(ExitStatus::Code(code)) => (1, code.into()),
        Some(ExitStatus::Signal(signal)) => (2, signal.into()),
        Some(ExitStatus::Core(signal)) => (3, signal.into()),
        None => (0, 0),
    };
    ShownRun {
        start: moment(run.start),
        exit: run.exit.map_or_else(Moment::default, |(at, _)| moment(at)),
        pid: run.pid,
        code,
        status,
    }
}

fn inode(path: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map_or(0, |meta| meta.ino())
}
