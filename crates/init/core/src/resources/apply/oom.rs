//! Processes that the kernel ends for lack of memory, and telling their units once.

use muster_cgroup::Occasion;
use muster_engine::ids::UnitId;
use muster_engine::protocol::Input;
use muster_engine::types::Machine;

use crate::core::Core;

impl Core {
    /// The group of a unit was given its limits, and is watched from now on. One that is given a limit while it runs may be
    /// counted only now.
    pub(super) fn count_oom_kills(&mut self, unit: UnitId, path: &str, occasion: Occasion) {
        if occasion == Occasion::New {
            return self.watch_memory(unit, path, 0);
        }
        if self.limited.killed.contains_key(path) {
            return;
        }
        // Of those that were ended in a group before, an earlier run was told, and the next manager is not to tell this one.
        let told = self.platform.oom_kills(path);
        if self.memory.told_oom_kills(unit) != told {
            self.memory.oom_kills.insert(unit, told);
            self.write_soon();
        }
        self.watch_memory(unit, path, told);
    }

    /// Hears of processes that the kernel ends for lack of memory, also of those that nobody else is told of.
    fn watch_memory(&mut self, unit: UnitId, path: &str, told: u64) {
        // A machine that does not count memory has nothing to tell.
        if self.platform.watch_memory(path).is_ok() {
            self.limited.killed.insert(path.into(), (unit, told));
        }
    }

    /// Groups that an earlier manager gave limits are watched again, and what it did not live to hear is heard.
    pub(crate) fn watch_memory_again(&mut self) {
        let running: Vec<UnitId> = self
            .engine
            .units()
            .filter(|(_, record)| {
                let has_processes =
                    matches!(record.machine, Machine::Service(_) | Machine::Scope(_));
                has_processes && !record.active().is_down()
            })
            .map(|(unit, _)| unit)
            .collect();
        for unit in running {
            let path = self.cgroup_of(unit);
            let told = self.memory.told_oom_kills(unit);
            self.watch_memory(unit, &path, told);
            self.look_for_oom(&path);
        }
    }

    /// Tells units of processes that were ended for lack of memory since they were told last.
    pub(crate) fn look_for_oom(&mut self, path: &str) {
        let Some((unit, told)) = self.limited.killed.get(path).copied() else {
            return;
        };
        let total = self.platform.oom_kills(path);
        if total > told {
            self.limited.killed.insert(path.into(), (unit, total));
            self.tell(unit, Input::OomKills { total });
        }
    }
}
