//! Cgroups of units: paths, signals, removal.

use muster_cgroup::CgroupPath;
use muster_engine::ids::UnitId;
use muster_engine::protocol::{ActiveState, Input, KillScope, Role, Severity};
use muster_engine::types::Machine;

use super::account;
use crate::core::Core;
use crate::memory::Consumed;

pub(crate) const SIGHUP: u8 = 1;
pub(crate) const SIGKILL: u8 = 9;
pub(crate) const SIGCONT: u8 = 18;

/// The path of a unit's cgroup: nested slices, then the unit. Empty for the root slice.
pub(crate) fn path_of(unit: &str, slice: &str) -> Box<str> {
    let path = if unit.ends_with(".slice") {
        CgroupPath::of_slice(unit)
    } else if slice.is_empty() {
        CgroupPath::root().child(unit)
    } else {
        CgroupPath::in_slice(slice, unit)
    };
    // The loader lets no name through that cannot be a file name.
    path.map_or_else(|_| unit.into(), |path| path.as_str().into())
}

impl Core {
    /// Sends a signal to some or all of a unit's processes.
    pub(crate) fn kill(
        &mut self,
        unit: UnitId,
        scope: KillScope,
        signal: u8,
        and_continue: bool,
        and_hangup: bool,
    ) {
        let role = match scope {
            KillScope::All => return self.kill_all(unit, signal, and_continue, and_hangup),
            KillScope::Main => Role::Main,
            KillScope::Control => Role::Control,
            KillScope::Probe => Role::Probe,
        };
        let pid = self.engine.get(unit).and_then(|record| {
            let mut processes = record.machine.processes();
            processes.find_map(|(of, process)| (of == role).then_some(process.pid))
        });
        let Some(pid) = pid else {
            return;
        };
        self.thaw_for_change(unit, &self.cgroup_of(unit));
        for signal in signals(signal, and_continue, and_hangup) {
            // Whoever is gone is reported as gone by muster-init.
            let _ = self.platform.signal(pid, signal);
        }
    }

    /// Whoever is being changed runs again: nothing that is frozen ends by itself, loads its settings or takes a new process.
    pub(crate) fn thaw_for_change(&mut self, unit: UnitId, path: &str) {
        let is_changing = self
            .engine
            .get(unit)
            .is_some_and(|record| record.job.is_some() || record.active() != ActiveState::Active);
        if !is_changing {
            return;
        }
        let message = match self.platform.thaw(path) {
            Ok(None) => return,
            Ok(Some(above)) => format!(
                "Its processes stand still as long as {above} is frozen; `sctl thaw {above}` lets them run on."
            ),
            Err(error) => format!("Cannot thaw its cgroup {path}: {error}"),
        };
        self.say(Severity::Warning, Some(unit), &message);
    }

    fn kill_all(&mut self, unit: UnitId, signal: u8, and_continue: bool, and_hangup: bool) {
        let path = self.cgroup_of(unit);
        self.take_account(unit, &path);
        // Most units have nobody left at this point, and an empty cgroup can be removed: that is the cheapest question. What
        // groups that were handed on have counted is still for the unit's last commands to read.
        let config = self.config_of(unit);
        let is_handed_on = config.is_some_and(|config| config.resources.delegate.enabled);
        let is_removable = !is_handed_on
            && !matches!(
                self.machine_of(unit),
                Some(Machine::Scope(_) | Machine::Slice(_))
            );
        if is_removable && self.platform.remove_cgroup(&path) {
            self.forget_limits(&path);
            return self.tell(unit, Input::CgroupEmpty);
        }
        self.thaw_for_change(unit, &path);
        let mut found = false;
        let spared = self.stand_ins(unit);
        for signal in signals(signal, and_continue, and_hangup) {
            match self.platform.kill_cgroup(&path, signal, &spared) {
                Ok(some) => found |= some,
                Err(error) => {
                    let message = format!("Cannot send signal {signal} to its processes: {error}");
                    self.say(Severity::Warning, Some(unit), &message);
                }
            }
        }
        // Whoever could not be told is there all the same, and so is a scope whose processes hid from the list.
        if found || self.platform.is_populated(&path) {
            self.await_empty(unit);
        } else {
            self.tell(unit, Input::CgroupEmpty);
        }
    }

    fn machine_of(&self, unit: UnitId) -> Option<&Machine> {
        self.engine.get(unit).map(|record| &record.machine)
    }

    /// Makes the cgroup of a slice or of a scope; a scope's processes are moved in.
    pub(crate) fn make_cgroup(&mut self, unit: UnitId) {
        let path = self.cgroup_of(unit);
        let Some(name) = self.name_of(unit) else {
            return self.tell(unit, Input::CgroupEmpty);
        };
        let config = self.units.config(&name);
        if let Err(error) = self.prepare_group(unit, &config) {
            let message = format!("Cannot make its cgroup {path}: {error}");
            self.say(Severity::Error, Some(unit), &message);
            return self.tell(unit, Input::CgroupEmpty);
        }
        if matches!(self.machine_of(unit), Some(Machine::Scope(_))) {
            self.attach_scope(unit, &path);
        }
    }

    fn attach_scope(&mut self, unit: UnitId, path: &str) {
        let pids = self.control.scope_processes(unit);
        match self.platform.attach(path, &pids) {
            Ok(()) => {
                self.tell(unit, Input::Attached);
                self.await_empty(unit);
            }
            Err(error) => {
                let message = format!("Cannot move processes into its cgroup {path}: {error}");
                self.say(Severity::Error, Some(unit), &message);
                self.tell(unit, Input::CgroupEmpty);
            }
        }
    }

    /// Nobody is left: the cgroup, the log stream and the run's traces go.
    pub(crate) fn release_cgroup(&mut self, unit: UnitId) {
        let path = self.cgroup_of(unit);
        if self.cgroups.remove(&path).is_some() {
            self.platform.unwatch_cgroup(&path);
        }
        self.forget_limits(&path);
        // Most have gone when nobody was left to be signalled.
        if self.platform.has_cgroup(&path) {
            self.take_account(unit, &path);
        }
        self.say_account(unit);
        // One that still has processes stays; whoever starts the unit again finds it.
        self.platform.remove_cgroup(&path);
        self.close_stream(unit);
        self.remove_run_folders(unit, true);
    }
}

impl Core {
    /// Keeps what a run has used up before its cgroup goes.
    fn take_account(&mut self, unit: UnitId, path: &str) {
        if matches!(self.machine_of(unit), Some(Machine::Slice(_))) {
            return;
        }
        let Some(name) = self.name_of(unit) else {
            return;
        };
        let config = self.units.config(&name);
        let counts = &config.resources;
        let disks = counts.io_accounting || counts.legacy.block_io_accounting;
        let used = self.platform.consumed(path, disks, counts.ip_accounting);
        let used = account::of(&used);
        if used != Consumed::default() {
            self.memory.consumed.insert(unit, used);
        }
    }

    fn say_account(&mut self, unit: UnitId) {
        let Some(used) = self.memory.consumed.get(&unit) else {
            return;
        };
        if let Some(message) = account::in_words(used) {
            self.say(Severity::Info, Some(unit), &message);
        }
    }
}

/// A signal and those that go with it.
fn signals(signal: u8, and_continue: bool, and_hangup: bool) -> impl Iterator<Item = u8> {
    [
        Some(signal),
        (and_hangup && signal != SIGKILL).then_some(SIGHUP),
        (and_continue && signal != SIGKILL && signal != SIGCONT).then_some(SIGCONT),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_nest_by_their_dashes() {
        assert_eq!(
            &*path_of("a.service", "system.slice"),
            "system.slice/a.service"
        );
        assert_eq!(&*path_of("a.service", "-.slice"), "a.service");
        assert_eq!(&*path_of("a.service", ""), "a.service");
        assert_eq!(
            &*path_of("g@1.service", "system-g.slice"),
            "system.slice/system-g.slice/g@1.service"
        );
        assert_eq!(
            &*path_of("a-b-c.slice", "a-b.slice"),
            "a.slice/a-b.slice/a-b-c.slice"
        );
        assert_eq!(&*path_of("-.slice", ""), "");
        assert_eq!(&*path_of("cpu.service", "-.slice"), "_cpu.service");
    }
}
