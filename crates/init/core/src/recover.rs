//! Life after death: from what `muster-init` kept to a manager that goes on as if nothing had happened.
//!
//! ```text
//!   record readable:    snapshot, replay of events, adoption of processes and descriptors, unfinished actions, exits
//!   record unreadable:  set aside; units whose cgroups have processes are loaded and found running; sockets reopened
//! ```
//! In both cases nothing is started that was not asked for before.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::OwnedFd;

use muster_engine::event::{Action, Do};
use muster_engine::ids::{ActionId, UnitId};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{ActiveState, ExitStatus, Input, Output, Process, Severity};
use muster_engine::types::Machine;
use muster_handover::{Cause, Exit};
use muster_unit_file::name::UnitName;

use crate::core::{Core, CoreError, REPLAYED};
use crate::execute::machine::is_instance;
use crate::record::{self, ReadRecordError, Recorded};

/// A record that so many cores in a row died of is not tried again: whatever it says, nobody gets through it.
const MOST_ATTEMPTS: usize = 8;

/// Descriptors that `muster-init` kept, taken one by one.
#[derive(Debug)]
pub struct Kept {
    by_name: BTreeMap<String, OwnedFd>,
}

impl Kept {
    pub(crate) fn new(by_name: BTreeMap<String, OwnedFd>) -> Self {
        Self { by_name }
    }

    /// The descriptor of this name.
    pub(crate) fn take(&mut self, name: &str) -> Option<OwnedFd> {
        self.by_name.remove(name)
    }

    /// All whose names begin so, in the order of their names.
    pub(crate) fn take_all(&mut self, prefix: &str) -> Vec<(String, OwnedFd)> {
        let names: Vec<String> = self
            .by_name
            .range(prefix.to_owned()..)
            .take_while(|(name, _)| name.starts_with(prefix))
            .map(|(name, _)| name.clone())
            .collect();
        names
            .into_iter()
            .filter_map(|name| {
                let fd = self.by_name.remove(&name)?;
                Some((name, fd))
            })
            .collect()
    }

    /// What nobody took: of units that are not known any more.
    pub(crate) fn take_rest(&mut self) -> impl Iterator<Item = String> {
        std::mem::take(&mut self.by_name).into_keys()
    }
}

impl Core {
    /// Goes on where the last core ended.
    pub(crate) fn recover(
        &mut self,
        bytes: &[u8],
        cause: &Cause,
        exits: &[Exit],
        kept: &mut Kept,
    ) -> Result<(), CoreError> {
        let usable = record::read(bytes).and_then(|recorded| match recorded.attempts {
            attempts @ MOST_ATTEMPTS.. => Err(ReadRecordError::Deadly { attempts }),
            _ => Ok(recorded),
        });
        let (unfinished, outcome) = match usable {
            Ok(recorded) => {
                if recorded.torn > 0 {
                    let whole = bytes.len() - recorded.torn;
                    self.platform.cut_record(whole).map_err(CoreError::Record)?;
                }
                let attempt = record::attempt();
                self.platform.append(&attempt).map_err(CoreError::Record)?;
                (self.replay(recorded), "all units are as they were")
            }
            Err(error) => {
                self.set_record_aside(bytes, &error);
                self.write_snapshot()?;
                self.rebuild();
                (Vec::new(), "units were found again by their processes")
            }
        };
        muster_fault::hit(REPLAYED);
        self.memory.recoveries += 1;
        self.memory.last_recovery = Self::cause_in_words(cause).into();
        self.adopt_processes(exits);
        self.restore_descriptors(kept);
        self.open_control(kept)?;
        self.restore_user_directory(kept);
        for name in kept.take_rest() {
            self.platform.release(&name);
        }
        for action in &unfinished {
            self.finish(action);
        }
        self.apply_queued();
        self.give_up_setups();
        for exit in exits {
            self.exited(*exit);
        }
        self.platform.adopted();
        self.apply_queued();
        self.watch_again();
        // Which instances were to be forgotten is not recorded: they are those that can be.
        let instances = self
            .engine
            .units()
            .filter(|(_, record)| is_instance(&record.name));
        self.forgettable = instances.map(|(unit, _)| unit).collect();
        if !self.memory.boot_asked {
            self.boot();
            self.apply_queued();
        }
        let message = format!("The manager {}; {outcome}.", self.memory.last_recovery);
        self.say(Severity::Notice, None, &message);
        if self.safe_mode {
            let message = "Safe mode, because the manager crashed again and again: services are kept and looked after. `sctl daemon-reexec` \
                           leaves it.";
            self.say(Severity::Warning, None, message);
        }
        self.write_snapshot()
    }

    /// Applies every recorded event again; gives the actions that were not carried out.
    fn replay(&mut self, recorded: Recorded) -> Vec<Action> {
        self.memory = recorded.memory;
        self.engine = recorded.engine;
        let mut done = self.memory.done;
        let mut caused: HashSet<ActionId> = HashSet::new();
        let mut actions = Vec::new();
        for entry in &recorded.entries {
            done = done.max(entry.done);
            caused.extend(entry.cause);
            actions.extend(self.apply(&entry.event));
        }
        self.resume_at(done);
        for action in &actions {
            if let Do::Emergency { action, unit, .. } = &action.what {
                self.recall_farewell(*action, *unit);
            }
        }
        actions.retain(|action| action.id > done && !caused.contains(&action.id));
        actions
    }

    /// Carries an action out that the last core may have begun.
    fn finish(&mut self, action: &Action) {
        let started = match &action.what {
            Do::Unit {
                unit,
                invocation,
                output: Output::Spawn { role, .. },
            } => self
                .platform
                .spawned(action.id)
                .map(|pid| (*unit, *invocation, *role, pid)),
            _ => None,
        };
        let Some((unit, invocation, role, pid)) = started else {
            return self.carry_out_again(action);
        };
        let facts = self.platform.process(pid);
        let process = Process {
            pid,
            pidfd_inode: facts.map_or(0, |facts| facts.pidfd_inode),
            cgroup: self.cgroup_of(unit),
            invocation,
        };
        // One that has ended already is among the exits that come next.
        self.platform.adopt(&process);
        self.own_process(unit, pid);
        self.tell_outcome(action.id, unit, Input::Spawned { role, process });
    }

    fn adopt_processes(&mut self, exits: &[Exit]) {
        let ended: HashSet<u32> = exits
            .iter()
            .filter_map(|exit| u32::try_from(exit.pid).ok())
            .collect();
        let running: Vec<(UnitId, Process)> = self
            .engine
            .units()
            .flat_map(|(unit, record)| {
                let processes = record.machine.processes();
                processes.map(move |(_, process)| (unit, process.clone()))
            })
            .collect();
        for (unit, process) in running {
            let pid = process.pid;
            self.own_process(unit, pid);
            if !ended.contains(&pid) && !self.platform.adopt(&process) {
                // Not a child of muster-init, so nobody was told how it ended.
                self.processes.remove(&pid);
                let message = format!("Process {pid} ended while the manager was away.");
                self.say(Severity::Warning, Some(unit), &message);
                let status = ExitStatus::Code(0);
                self.tell(unit, Input::Exited { pid, status });
            }
        }
    }

    fn restore_descriptors(&mut self, kept: &mut Kept) {
        for (key, fd) in kept.take_all("log:") {
            let found = self.unit_in_key(&key, "log:");
            match found.map(|(unit, id)| (unit, id.to_owned())) {
                // Where the run is over, the log daemon has the stream and reads it to its end.
                Some((unit, id)) if !self.engine.unit(unit).active().is_down() => {
                    self.restore_stream(unit, key, &id, fd);
                }
                _ => self.platform.release(&key),
            }
        }
        for (key, fd) in kept.take_all("fds:") {
            let parts = key.rsplit_once(':').and_then(|(rest, number)| {
                let (unit, name) = self.unit_in_key(rest, "fds:")?;
                Some((unit, name.to_owned(), number.parse().ok()?))
            });
            match parts {
                Some((unit, name, number)) => {
                    self.activation.stored.restore(unit, &name, key, number, fd);
                }
                None => self.platform.release(&key),
            }
        }
        self.restore_namespaces(kept);
        self.restore_activation(kept);
    }

    /// The unit that a key names, and its last part. Names of units may have colons, those last parts have none.
    pub(crate) fn unit_in_key<'k>(&self, key: &'k str, prefix: &str) -> Option<(UnitId, &'k str)> {
        let (unit, last) = key.strip_prefix(prefix)?.rsplit_once(':')?;
        Some((self.engine.find(unit)?, last))
    }

    /// Cgroups whose emptiness matters are watched again.
    fn watch_again(&mut self) {
        let waiting: Vec<UnitId> = self
            .engine
            .units()
            .filter(|(_, record)| match &record.machine {
                Machine::Scope(_) => !record.active().is_down(),
                Machine::Service(service) => {
                    let stands_for_all = service.main.is_none() && service.populated;
                    let falling = record.active() == ActiveState::Deactivating;
                    falling && service.control.is_none()
                        || stands_for_all && record.active().is_up()
                }
                _ => false,
            })
            .map(|(unit, _)| unit)
            .collect();
        for unit in waiting {
            self.await_empty(unit);
        }
        self.watch_memory_again();
        self.apply_queued();
    }

    fn set_record_aside(&mut self, bytes: &[u8], error: &ReadRecordError) {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            why = format!("{why}: {inner}");
            source = inner.source();
        }
        let place = match self.platform.set_aside(bytes) {
            Ok(path) => format!("It was set aside as {}.", path.display()),
            Err(error) => format!("It could not be set aside: {error}."),
        };
        let message = format!(
            "The manager's state cannot be used ({why}). {place} Units are rebuilt from the processes that run; jobs and \
             failures are forgotten, and nothing is started: `sctl start default.target` starts what is missing."
        );
        self.say(Severity::Error, None, &message);
    }

    /// Finds units by their cgroups.
    fn rebuild(&mut self) {
        self.memory.started = self.now();
        self.memory.boot_asked = true;
        let found = self.platform.populated();
        for (path, pids) in found {
            let base = path.rsplit('/').next().unwrap_or(&path);
            let base = base.strip_prefix('_').unwrap_or(base);
            let Ok(name) = UnitName::new(base) else {
                continue;
            };
            self.load([name]);
            let Some(unit) = self.engine.find(base) else {
                continue;
            };
            let main = self.likely_main(unit, &path, &pids);
            if let Some(process) = &main {
                self.own_process(unit, process.pid);
            }
            self.tell(unit, Input::Found { main });
        }
        self.apply_queued();
    }

    /// The oldest process that is a child of `muster-init`; services are, their helpers are not.
    fn likely_main(&self, unit: UnitId, path: &str, pids: &[u32]) -> Option<Process> {
        let init = std::os::unix::process::parent_id();
        let (_, pid, facts) = pids
            .iter()
            .filter_map(|pid| Some((*pid, self.platform.process(*pid)?)))
            .filter(|(_, facts)| facts.parent == init)
            .map(|(pid, facts)| (facts.start, pid, facts))
            .min_by_key(|(start, pid, _)| (*start, *pid))?;
        Some(Process {
            pid,
            pidfd_inode: facts.pidfd_inode,
            cgroup: path.into(),
            invocation: self.engine.unit(unit).invocation,
        })
    }

    /// Sockets whose descriptors were kept though the state was lost: they listen again, and nothing else is started.
    pub(crate) fn reopen_sockets(&mut self, units: Vec<String>) {
        for unit in units {
            self.want(&unit, JobVerb::Start, JobMode::IgnoreDependencies);
        }
    }
}
