//! Groups in hierarchies of cgroup v1, beside the one that processes are tracked in.
//!
//! Only units that ask for something have groups there, and units of slices that do. A group has the same path as in the tree,
//! below the manager's own group of each hierarchy. It carries a mark, by which a manager that was started again knows it from
//! groups of others; one whose twin in the tree is gone is removed then.

mod groups;
mod limits;

use std::cell::RefCell;
use std::collections::BTreeMap;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::CgroupError;
use crate::files::{Files, keyed};
use crate::legacy::{Legacy, Subsystem, Subsystems};
use crate::path::CgroupPath;
use crate::usage::{Memory, Usage};

/// One hierarchy.
#[derive(Debug)]
struct LegacyTree {
    /// From the manager's own group on.
    files: Files,
    subsystems: Subsystems,
    /// The manager's own group, and the hierarchy itself, as in `/proc/PID/cgroup`.
    own: Box<str>,
    name: Box<str>,
}

/// All hierarchies, and the groups that were made in them.
#[derive(Debug, Default)]
pub(super) struct LegacyTrees {
    trees: Vec<LegacyTree>,
    /// How far below the manager's own groups the root lies.
    below: CgroupPath,
    /// By their paths in the tree; all of them are ours.
    groups: RefCell<BTreeMap<CgroupPath, Subsystems>>,
}

impl LegacyTrees {
    /// Opens those that can be opened, and finds the groups of an earlier manager.
    pub(super) fn open(legacy: &Legacy, below: &CgroupPath, tracked: &Files) -> Self {
        let mut trees = Vec::new();
        for place in &legacy.places {
            // One that is not this user's to write is not there for us.
            let writable = rustix::fs::access(&place.folder, rustix::fs::Access::WRITE_OK);
            let files = writable
                .ok()
                .and_then(|()| Files::open(place.folder.clone()).ok());
            trees.extend(files.map(|files| LegacyTree {
                files,
                subsystems: place.subsystems,
                own: place.own.clone(),
                name: place.name.clone(),
            }));
        }
        let opened = Self {
            trees,
            below: below.clone(),
            groups: RefCell::default(),
        };
        opened.find(tracked);
        opened
    }

    /// What units can be given.
    pub(super) fn subsystems(&self) -> Subsystems {
        let mut all = Subsystems::NONE;
        for tree in &self.trees {
            all |= tree.subsystems;
        }
        all
    }

    fn of(&self, subsystem: Subsystem) -> Option<&LegacyTree> {
        let mut trees = self.trees.iter();
        trees.find(|tree| tree.subsystems.contains(subsystem))
    }

    /// Controllers in whose hierarchies a group is.
    pub(super) fn groups_of(&self, path: &CgroupPath) -> Subsystems {
        let groups = self.groups.borrow();
        groups.get(path).copied().unwrap_or_default()
    }

    /// Where a process of a group belongs in a hierarchy: the nearest group at or above it; `None` is the manager's own.
    fn home(&self, tree: &LegacyTree, path: &CgroupPath) -> Option<CgroupPath> {
        let groups = self.groups.borrow();
        let mut at = path.clone();
        while !at.is_root() {
            let known = groups.get(&at).copied().unwrap_or_default();
            if !known.within(tree.subsystems).is_empty() {
                return Some(at);
            }
            at = at.parent();
        }
        None
    }

    /// Files that a new process of a group writes `0` into before it executes its program.
    pub(super) fn joins(&self, path: &CgroupPath) -> Result<Vec<OwnedFd>, CgroupError> {
        let mut files = Vec::new();
        // What most machines come to.
        if self.groups.borrow().is_empty() {
            return Ok(files);
        }
        for tree in &self.trees {
            let Some(home) = self.home(tree, path) else {
                continue;
            };
            let procs = self.full(&home).file("cgroup.procs");
            let file = tree.files.open_file(&procs, OFlags::WRONLY);
            files.push(file.map_err(|error| tree.failed("open", &home, error))?);
        }
        Ok(files)
    }

    /// Moves a process to where it belongs.
    pub(super) fn attach(&self, path: &CgroupPath, pid: Pid) -> Result<(), CgroupError> {
        if self.groups.borrow().is_empty() {
            return Ok(());
        }
        for tree in &self.trees {
            let Some(home) = self.home(tree, path) else {
                continue;
            };
            let procs = self.full(&home).file("cgroup.procs");
            let moved = tree.files.write(&procs, &pid.to_string());
            moved.map_err(|error| tree.failed("move a process into", &home, error))?;
        }
        Ok(())
    }

    pub(super) fn text(
        &self,
        subsystem: Subsystem,
        path: &CgroupPath,
        file: &str,
    ) -> Option<String> {
        if !self.groups_of(path).contains(subsystem) {
            return None;
        }
        let tree = self.of(subsystem)?;
        tree.files.read(&self.full(path).file(file)).ok()
    }

    /// Adds what is counted here and is not counted in the tree.
    pub(super) fn add_usage(&self, path: &CgroupPath, usage: &mut Usage) {
        if self.groups_of(path).is_empty() {
            return;
        }
        let number = |subsystem, file: &str| -> Option<u64> {
            let text = self.text(subsystem, path, file)?;
            text.trim().parse().ok()
        };
        if !matches!(usage.memory, Some(Memory::Charged(_))) {
            let charged = number(Subsystem::Memory, "memory.usage_in_bytes");
            usage.memory = charged.map(Memory::Charged).or(usage.memory);
            let peak = number(Subsystem::Memory, "memory.max_usage_in_bytes");
            usage.memory_peak = usage.memory_peak.or(peak);
        }
        // Counted one by one a number may be there already; that of the kernel is of one moment.
        usage.tasks = number(Subsystem::Pids, "pids.current").or(usage.tasks);
        let nanos = || number(Subsystem::Cpuacct, "cpuacct.usage");
        usage.cpu_usec = usage.cpu_usec.or_else(|| nanos().map(|nanos| nanos / 1000));
        let disk = |file: &str| self.text(Subsystem::Blkio, path, file);
        if usage.io_read.is_none() {
            let bytes = disk("blkio.throttle.io_service_bytes_recursive");
            let operations = disk("blkio.throttle.io_serviced_recursive");
            let sum = |text: &Option<String>, word| text.as_deref().map(|text| total(text, word));
            (usage.io_read, usage.io_write) = (sum(&bytes, "Read"), sum(&bytes, "Write"));
            (usage.io_reads, usage.io_writes) =
                (sum(&operations, "Read"), sum(&operations, "Write"));
        }
    }

    /// Processes that the kernel ended for lack of memory; `None` where it does not count.
    pub(super) fn oom_kills(&self, path: &CgroupPath) -> Option<u64> {
        let text = self.text(Subsystem::Memory, path, "memory.oom_control")?;
        keyed(&text, "oom_kill")
    }

    /// How many tasks the manager's own group may have, as the kernel writes it.
    pub(super) fn task_limit(&self) -> Option<String> {
        let tree = self.of(Subsystem::Pids)?;
        tree.files.read(&CgroupPath::root().file("pids.max")).ok()
    }

    /// New tasks that were refused.
    pub(super) fn refused_tasks(&self, path: &CgroupPath) -> Option<u64> {
        keyed(&self.text(Subsystem::Pids, path, "pids.events")?, "max")
    }

    /// Whether a group's own limit of memory has left nothing: 1 or 0. The first version counts no such times on every kernel, but it
    /// keeps the most memory that there was, give or take what a processor takes in advance.
    pub(super) fn refused_memory(&self, path: &CgroupPath) -> Option<u64> {
        const IN_ADVANCE: u64 = 1 << 20;
        let number = |file| -> Option<u64> {
            let text = self.text(Subsystem::Memory, path, file)?;
            text.trim().parse().ok()
        };
        let limit = number("memory.limit_in_bytes")?;
        let most = number("memory.max_usage_in_bytes")?;
        Some(u64::from(most.saturating_add(IN_ADVANCE) >= limit))
    }

    /// A descriptor that can be read when memory of a group runs out, shortly before the kernel ends somebody for it.
    pub(super) fn memory_alarm(&self, path: &CgroupPath) -> Result<Option<OwnedFd>, CgroupError> {
        if !self.groups_of(path).contains(Subsystem::Memory) {
            return Ok(None);
        }
        let Some(tree) = self.of(Subsystem::Memory) else {
            return Ok(None);
        };
        let full = self.full(path);
        let set = || -> Result<OwnedFd, Errno> {
            let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let file = full.file("memory.oom_control");
            let file = tree.files.open_file(&file, OFlags::RDONLY)?;
            let line = format!("{} {}", alarm.as_raw_fd(), file.as_raw_fd());
            tree.files
                .write(&full.file("cgroup.event_control"), &line)?;
            Ok(alarm)
        };
        let alarm = set().map_err(|error| tree.failed("watch the memory of", path, error))?;
        Ok(Some(alarm))
    }
}

impl LegacyTree {
    fn failed(&self, operation: &str, path: &CgroupPath, error: Errno) -> CgroupError {
        let operation = format!("{operation} the {} (v1) twin of", self.name);
        CgroupError::new(&operation, path, error)
    }
}

/// The sum over all devices, from lines such as `8:0 Read 4096`.
fn total(text: &str, word: &str) -> u64 {
    let values = text.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        (words.next()? == word).then(|| words.next()?.parse::<u64>().ok())?
    });
    values.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
