//! The processes of a machine, seen from outside: who they are inside, what they cost, where they are tracked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::procs::{process_row, process_table};

/// One process of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProcess {
    /// Its number inside the machine.
    pub pid: i32,
    /// Its number on the host.
    pub host_pid: i32,
    /// The number of its parent on the host.
    pub host_parent: i32,
    /// Its name, cut by the kernel at 15 bytes.
    pub name: String,
    /// With the pid, what tells it from any other process: clock ticks after the host's start.
    pub start_time: u64,
    /// Dead, and not yet asked about by its parent.
    pub zombie: bool,
    /// Its control group as the host sees it; empty once it is dead.
    pub cgroup: String,
}

impl MachineProcess {
    /// The time that all its threads have spent on a processor.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let mut nanoseconds = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.host_pid))? {
            let path = task?.path().join("schedstat");
            let text = match fs::read_to_string(&path) {
                // The thread has just ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            nanoseconds += first_number(&text).ok_or_else(|| unreadable(&path))?;
        }
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// Its resident memory, in bytes.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let path = PathBuf::from(format!("/proc/{}/status", self.host_pid));
        let text = fs::read_to_string(&path)?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(first_number);
        kib.map(|kib| kib * 1024).ok_or_else(|| unreadable(&path))
    }

    /// How many descriptors it has open.
    pub fn open_descriptors(&self) -> io::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.host_pid))?.count())
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

fn unreadable(path: &Path) -> io::Error {
    io::Error::other(format!("{} holds no number", path.display()))
}

/// All processes in the PID namespace whose first process is `first` (on the host), by their numbers inside.
pub(super) fn processes_of(first: i32) -> io::Result<Vec<MachineProcess>> {
    let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid"));
    let wanted = namespace(first)?;
    let mut found = Vec::new();
    for row in process_table()? {
        // A dead process has no namespace any more, but its parent has.
        let is_inside = match namespace(row.pid) {
            Ok(own) => own == wanted,
            Err(_) => row.is_zombie() && namespace(row.parent).is_ok_and(|of| of == wanted),
        };
        if !is_inside {
            continue;
        }
        let Some(pid) = inner_pid(row.pid) else {
            continue;
        };
        found.push(MachineProcess {
            pid,
            host_pid: row.pid,
            host_parent: row.parent,
            zombie: row.is_zombie(),
            start_time: row.start_time,
            cgroup: group_of(row.pid),
            name: row.name,
        });
    }
    found.sort_by_key(|process| process.pid);
    Ok(found)
}

/// The number that a process has in the innermost namespace that it is in, if it still exists.
fn inner_pid(host_pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{host_pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

fn group_of(host_pid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{host_pid}/cgroup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("0::"));
    line.unwrap_or_default().to_owned()
}

/// The child of `parent`, if it has exactly one.
pub(super) fn only_child(parent: i32) -> io::Result<Option<i32>> {
    let table = process_table()?;
    let mut children = table.iter().filter(|row| row.parent == parent);
    let child = children.next().map(|row| row.pid);
    Ok(child.filter(|_| children.next().is_none()))
}

/// Whether the process exists and is not dead.
pub(super) fn is_alive(host_pid: i32) -> bool {
    process_row(host_pid).is_some_and(|row| !row.is_zombie())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_numbers_cost_and_descriptors() {
        let own = i32::try_from(std::process::id()).unwrap();
        let all = processes_of(own).unwrap();
        let me = all.iter().find(|process| process.host_pid == own).unwrap();
        assert!(!me.zombie && is_alive(own));
        assert!(me.resident_bytes().unwrap() > 100_000);
        assert!(me.open_descriptors().unwrap() >= 3);
        let before = me.cpu_time().unwrap();
        crate::poll_until(Duration::from_secs(30), "some time was used", || {
            me.cpu_time().unwrap() > before
        });
    }
}
