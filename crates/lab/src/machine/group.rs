//! A machine's control group: a fresh child of the version 2 tree, removed with all below it; on request also one for each
//! controller of version 1 that the host offers.
//!
//! The name says which test process made it. A test process that is killed cannot remove its groups, so making one removes
//! those of test processes that are gone; they are empty, since machines die with their test.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::procs::process_row;
use crate::try_poll_for;

const PREFIX: &str = "muster-lab-";
/// Processes that were killed leave their group as soon as they are scheduled once more.
const EMPTY_TIME: Duration = Duration::from_secs(10);

/// A control group of the lab's own. Dropping it kills what is in it and removes it.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    /// Groups of version 1 by controller.
    controllers: Vec<(String, PathBuf)>,
}

/// Those that limit something. `cpuset` is left out: a fresh group of it takes no processes.
const CONTROLLERS: [&str; 7] = [
    "cpu", "cpuacct", "memory", "devices", "freezer", "blkio", "pids",
];

impl Group {
    pub(super) fn new() -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let tree = tree()?;
        remove_abandoned(&tree)?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = tree.join(format!("{}{number}", owned(PREFIX)));
        fs::create_dir(&path)?;
        Ok(Self {
            path,
            controllers: Vec::new(),
        })
    }

    /// With groups for the controllers of version 1.
    pub(super) fn with_controllers() -> io::Result<Self> {
        let mut group = Self::new()?;
        let name = group.path.file_name().unwrap_or_default().to_owned();
        for (controller, own) in own_legacy_groups()? {
            remove_abandoned(&own)?;
            let path = own.join(&name);
            fs::create_dir(&path)?;
            group.controllers.push((controller, path));
        }
        Ok(group)
    }

    /// Groups of version 1 by controller.
    pub(super) fn controllers(&self) -> &[(String, PathBuf)] {
        &self.controllers
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.kill"), "1")?;
        let legacy = self.controllers.iter().map(|(_, path)| path);
        for path in legacy.chain([&self.path]) {
            let mut failure = None;
            try_poll_for(EMPTY_TIME, || match remove_tree(path) {
                Ok(()) => Some(()),
                Err(error) => {
                    failure = Some(error);
                    None
                }
            })
            .ok_or_else(|| failure.unwrap_or_else(|| io::ErrorKind::TimedOut.into()))?;
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Where the version 2 tree is mounted, alone or beside trees of version 1.
fn tree() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut fields = mounts.lines().map(|line| line.split(' '));
    fields
        .find_map(|mut line| {
            let (point, kind) = (line.nth(1)?, line.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(point))
        })
        .ok_or_else(|| io::Error::other("no cgroup v2 tree is mounted"))
}

/// This process's own groups in the trees of version 1, by controller.
fn own_legacy_groups() -> io::Result<Vec<(String, PathBuf)>> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut groups = Vec::new();
    for controller in CONTROLLERS {
        let is_it = |names: &str| names.split(',').any(|name| name == controller);
        let path = own.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(names).then_some(path)
        });
        let point = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, "cgroup", options, ..] = *fields else {
                return None;
            };
            is_it(options).then_some(point)
        });
        if let (Some(path), Some(point)) = (path, point) {
            let own = Path::new(point).join(path.trim_start_matches('/'));
            groups.push((controller.to_owned(), own));
        }
    }
    Ok(groups)
}

/// Removes a group and all below it, children first. Groups that others remove meanwhile are no failure.
fn remove_tree(group: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_abandoned(tree: &Path) -> io::Result<()> {
    for entry in fs::read_dir(tree)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_abandoned(PREFIX, &name) {
            // Another test process may be removing it at this moment.
            let _ = remove_tree(&entry.path());
        }
    }
    Ok(())
}

/// How the name begins of something that belongs to this process.
pub(super) fn owned(prefix: &str) -> String {
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let start_time = process_row(pid).map_or(0, |row| row.start_time);
    format!("{prefix}{pid}-{start_time}-")
}

/// Whether the process is gone that something of this name belonged to.
pub(super) fn is_abandoned(prefix: &str, name: &OsStr) -> bool {
    let owner = name.to_str().and_then(|name| owner(prefix, name));
    owner.is_some_and(|(pid, start_time)| {
        process_row(pid).is_none_or(|row| row.start_time != start_time)
    })
}

/// Pid and start time of the process that something belongs to.
fn owner(prefix: &str, name: &str) -> Option<(i32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_read_from_the_name() {
        assert_eq!(owner(PREFIX, "muster-lab-12-345-0"), Some((12, 345)));
        assert_eq!(owner(PREFIX, "muster-lab-x-345-0"), None);
        assert_eq!(owner(PREFIX, "system.slice"), None);
    }

    #[test]
    fn groups_of_controllers_go_too() {
        crate::require!(Root, Cgroup2);
        let group = Group::with_controllers().unwrap();
        let paths: Vec<PathBuf> = group
            .controllers()
            .iter()
            .map(|(_, path)| path.clone())
            .collect();
        assert!(paths.iter().all(|path| path.join("cgroup.procs").exists()));
        drop(group);
        assert!(!paths.iter().any(|path| path.exists()));
    }

    #[test]
    fn group_goes_with_its_children_and_abandoned_ones_too() {
        crate::require!(Root, Cgroup2);
        let group = Group::new().unwrap();
        let path = group.path().to_owned();
        fs::create_dir_all(path.join("a/b")).unwrap();
        // No process has this number and has started with the machine.
        let abandoned = tree()
            .unwrap()
            .join(format!("{PREFIX}4194304-{}-0", u64::MAX));
        fs::create_dir_all(abandoned.join("child")).unwrap();
        drop(group);
        assert!(!path.exists());
        drop(Group::new().unwrap());
        assert!(!abandoned.exists());
    }
}
