//! What instances have left behind: a question that tests and operators ask, and that must have an empty answer.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Something of an instance that is not running.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Leftover {
    /// A mount below the runtime's folder.
    Mount(PathBuf),
    /// A folder of an instance.
    Folder(PathBuf),
    /// A cgroup of an instance.
    Cgroup(PathBuf),
    /// A process that runs in such a cgroup or root.
    Process(u32),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount(path) => write!(f, "mount {}", path.display()),
            Self::Folder(path) => write!(f, "folder {}", path.display()),
            Self::Cgroup(path) => write!(f, "cgroup {}", path.display()),
            Self::Process(pid) => write!(f, "process {pid}"),
        }
    }
}

/// Everything that is left of instances whose names are not `running` (ids as texts), sorted.
#[must_use]
pub fn leftovers(folder: &Path, unit_prefix: &str, running: &[String]) -> Vec<Leftover> {
    let is_running = |text: &str| running.iter().any(|id| text.contains(id.as_str()));
    let mut found = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines() {
        let point = PathBuf::from(line.split(' ').nth(4).unwrap_or_default());
        if point.starts_with(folder) && !is_running(&point.to_string_lossy()) {
            found.push(Leftover::Mount(point));
        }
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !is_running(&entry.file_name().to_string_lossy()) {
            found.push(Leftover::Folder(entry.path()));
        }
    }
    let mut groups = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(group) = groups.pop() {
        for entry in fs::read_dir(&group).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with(unit_prefix) {
                groups.push(entry.path());
            } else if !is_running(&name) {
                found.extend(processes(&entry.path()));
                found.push(Leftover::Cgroup(entry.path()));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn processes(group: &Path) -> impl Iterator<Item = Leftover> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    pids.into_iter().map(Leftover::Process)
}
