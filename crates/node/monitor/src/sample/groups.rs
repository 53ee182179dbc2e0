//! One group in all trees.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use muster_cgroup::{CgroupPath, Hierarchy, Mode, Tree, Usage};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode as FileMode, OFlags, openat};

use super::{GroupSample, MAX_FILE, Reading, Trees, read_start};
use crate::clock::Clock;
use crate::cpu::GroupTime;

/// The root of a tree. Held open, so that whatever is mounted over it later does not matter.
#[derive(Debug)]
struct Root(OwnedFd);

impl Root {
    fn open(folder: Option<&PathBuf>) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, folder?, flags, FileMode::empty());
        root.ok().map(Self)
    }

    /// What `parse` makes of a file of a group. `name` is room for its path.
    fn read<T>(
        &self,
        group: &CgroupPath,
        file: &str,
        name: &mut String,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        name.clear();
        if !group.is_root() {
            name.push_str(group.as_str());
            name.push('/');
        }
        name.push_str(file);
        let mut buffer = [0; MAX_FILE];
        parse(read_start(&self.0, name, &mut buffer).ok()?)
    }
}

/// Reads groups in all trees, those of v1 first: where a controller is bound to v1, v2 does not count it.
#[derive(Debug)]
pub(super) struct GroupReader {
    unified: Option<Root>,
    cpuacct: Option<Root>,
    memory: Option<Root>,
    pids: Option<Root>,
    /// The v2 tree once more, for what only the processes themselves tell. Locked, because a tree is for one thread at a time.
    processes: Option<Mutex<Tree>>,
}

fn number(text: &str) -> Option<u64> {
    text.trim_ascii().parse().ok()
}

/// From lines such as `usage_usec 5`.
fn usage_nanos(stat: &str) -> Option<u64> {
    let mut lines = stat.lines();
    let usec = lines.find_map(|line| line.strip_prefix("usage_usec "))?;
    number(usec)?.checked_mul(1000)
}

impl GroupReader {
    pub(super) fn new(trees: &Trees) -> Self {
        let processes = trees.unified.clone().map(|folder| Hierarchy {
            mode: Mode::Hybrid,
            folder: Some(folder),
        });
        Self {
            unified: Root::open(trees.unified.as_ref()),
            cpuacct: Root::open(trees.cpuacct.as_ref()),
            memory: Root::open(trees.memory.as_ref()),
            pids: Root::open(trees.pids.as_ref()),
            processes: processes
                .and_then(|hierarchy| Tree::open(&hierarchy, &CgroupPath::root()).ok())
                .map(Mutex::new),
        }
    }

    pub(super) fn not_counted(&self) -> Vec<&'static str> {
        let all = [
            ("cpu", &self.cpuacct),
            ("memory", &self.memory),
            ("pids", &self.pids),
        ];
        let missing = all.into_iter().filter(|(_, legacy)| legacy.is_none());
        let missing = missing.filter(|_| self.unified.is_none());
        missing.map(|(name, _)| name).collect()
    }

    pub(super) fn read(
        &self,
        group: &CgroupPath,
        clock: &dyn Clock,
        name: &mut String,
    ) -> GroupSample {
        let at = clock.now().steady;
        let mut read = |root: &Option<Root>, file: &str, parse: fn(&str) -> Option<u64>| {
            root.as_ref()?.read(group, file, name, parse)
        };
        let cpu = read(&self.cpuacct, "cpuacct.usage", number);
        let memory = read(&self.memory, "memory.usage_in_bytes", number);
        let pids = read(&self.pids, "pids.current", number);
        if let (Some(nanos), Some(memory), Some(pids)) = (cpu, memory, pids) {
            return GroupSample {
                cpu: Reading::Value(GroupTime { nanos, at }),
                memory: Reading::Value(memory),
                pids: Reading::Value(pids),
            };
        }
        // Every v2 group has this file, with or without controllers.
        let unified = read(&self.unified, "cpu.stat", usage_nanos);
        let memory = memory.or_else(|| read(&self.unified, "memory.current", number));
        let pids = pids.or_else(|| read(&self.unified, "pids.current", number));
        let counted = match (memory, pids, unified) {
            (Some(_), Some(_), _) | (_, _, None) => Usage::default(),
            _ => self.count(group),
        };
        let outcome = |value: Option<u64>, legacy: &Option<Root>| match value {
            Some(value) => Reading::Value(value),
            None if legacy.is_none() && self.unified.is_none() => Reading::NotCounted,
            None => Reading::Lost,
        };
        let memory = memory.or_else(|| counted.memory.map(|memory| memory.bytes()));
        GroupSample {
            cpu: match outcome(cpu.or(unified), &self.cpuacct) {
                Reading::Value(nanos) => Reading::Value(GroupTime { nanos, at }),
                Reading::NotCounted => Reading::NotCounted,
                Reading::Lost => Reading::Lost,
            },
            memory: outcome(memory, &self.memory),
            pids: outcome(pids.or(counted.tasks), &self.pids),
        }
    }

    /// What the group's processes tell one by one.
    fn count(&self, group: &CgroupPath) -> Usage {
        let Some(tree) = &self.processes else {
            return Usage::default();
        };
        let tree = tree.lock().unwrap_or_else(PoisonError::into_inner);
        tree.usage(group).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
