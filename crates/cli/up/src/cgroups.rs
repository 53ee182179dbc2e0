//! The demo's cgroups: one per node below one of its own, in whatever trees the machine has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use muster_cgroup::{CgroupPath, Hierarchy, Tree};

use crate::error::FileError;

/// Processes that were killed are gone as soon as they are scheduled once more.
const EMPTY_TIME: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const CONTROLLERS: [&str; 4] = ["+cpu", "+memory", "+pids", "+io"];

/// Where trees of cgroups are mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Trees {
    /// The one that processes are tracked in.
    tracking: Option<PathBuf>,
    /// All of them.
    all: Vec<PathBuf>,
}

impl Trees {
    /// Those of this machine.
    pub(crate) fn find() -> Self {
        Self::from_mounts(&fs::read_to_string("/proc/self/mounts").unwrap_or_default())
    }

    fn from_mounts(mounts: &str) -> Self {
        let mut trees = Self::default();
        let mut named = None;
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, kind, options, ..] = *fields else {
                continue;
            };
            match kind {
                "cgroup2" => {
                    trees.tracking.get_or_insert_with(|| point.into());
                }
                "cgroup" if options.split(',').any(|it| it == "name=systemd") => {
                    named.get_or_insert_with(|| PathBuf::from(point));
                }
                "cgroup" => {}
                _ => continue,
            }
            trees.all.push(point.into());
        }
        trees.tracking = trees.tracking.or(named);
        trees
    }

    /// Makes the cgroup of a node; `None` on a machine that has no tree or lets nobody into it.
    pub(crate) fn make(&self, demo: &str, node: &str) -> Option<PathBuf> {
        let parent = self.tracking.as_ref()?.join(demo);
        let own = parent.join(node);
        fs::create_dir_all(&own).ok()?;
        for controller in CONTROLLERS {
            // Those that there are.
            let _ = fs::write(parent.join("cgroup.subtree_control"), controller);
        }
        Some(own)
    }

    /// Ends everything in a cgroup of the demo and removes it from all trees.
    pub(crate) fn sweep(&self, group: &str) -> Result<(), FileError> {
        let deadline = Instant::now() + EMPTY_TIME;
        if let Some(folder) = self.tracking.as_ref().map(|it| it.join(group)) {
            while folder.exists() {
                match kill_and_remove(&folder) {
                    Err(error) if Instant::now() >= deadline => {
                        return Err(FileError::of("remove the cgroup", &folder)(error));
                    }
                    Err(_) => thread::sleep(LOOK_EVERY),
                    Ok(()) => break,
                }
            }
        }
        for tree in &self.all {
            let folder = tree.join(group);
            while let Err(error) = remove_tree(&folder) {
                if Instant::now() >= deadline {
                    return Err(FileError::of("remove the cgroup", &folder)(error));
                }
                thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }
}

fn kill_and_remove(folder: &Path) -> io::Result<()> {
    let tree = Hierarchy::at(folder)
        .and_then(|it| Tree::open(&it, &CgroupPath::root()))
        .map_err(io::Error::other)?;
    tree.kill(&CgroupPath::root()).map_err(io::Error::other)?;
    remove_tree(folder)
}

/// Removes a cgroup and all below it, children first. One that is gone is no failure.
fn remove_tree(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_found_on_every_kind_of_machine() {
        let unified = Trees::from_mounts(
            "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0\n",
        );
        assert_eq!(unified.tracking, Some("/sys/fs/cgroup".into()));
        assert_eq!(unified.all.len(), 1);
        let hybrid = Trees::from_mounts(
            "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n\
             cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
             cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
        );
        assert_eq!(hybrid.tracking, Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(hybrid.all.len(), 3);
        let legacy =
            Trees::from_mounts("cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n");
        assert_eq!(legacy.tracking, Some("/sys/fs/cgroup/systemd".into()));
        assert_eq!(
            Trees::from_mounts("proc /proc proc rw 0 0\n"),
            Trees::default()
        );
    }
}
