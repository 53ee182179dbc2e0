//! The kernel's groups below a unit's.
//!
//! The unit's group is delegated to whoever sets the instance's limits: one group below it (`container`), one writer. On
//! cgroup v2 a group with limits for its children holds no processes itself, so the unit's command first moves into a
//! leaf (`runtime`) beside it, or into the instance's own. With v1 controllers the same path is made in every one of them;
//! what is left of that path there, nobody else knows of, so it is removed here.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;

const TREE: &str = "/sys/fs/cgroup";
/// `CGROUP2_SUPER_MAGIC`.
const CGROUP2: i64 = 0x6367_7270;
/// `CGROUP_SUPER_MAGIC`.
const CGROUP1: i64 = 0x0027_e0eb;
/// Groups below the unit's.
const RUNTIME_LEAF: &str = "runtime";
const CONTAINER_LEAF: &str = "container";

/// How controllers are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupLayout {
    /// By cgroup v2.
    Unified,
    /// By cgroup v1, alone or beside v2.
    Legacy,
}

impl CgroupLayout {
    /// That of this machine.
    #[must_use]
    pub fn detect() -> Self {
        match statfs(TREE) {
            Ok(found) if found.f_type == CGROUP2 => Self::Unified,
            _ => Self::Legacy,
        }
    }
}

/// The group of a unit, from the root of its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitGroup(String);

impl UnitGroup {
    /// That of this process, which is a unit's command.
    pub fn own() -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let group =
            own_group(&own).ok_or_else(|| io::Error::other("no group that names the unit"))?;
        Ok(Self(group.to_owned()))
    }

    /// As it was noted.
    #[must_use]
    pub fn noted(path: &str) -> Option<Self> {
        let is_path =
            path.starts_with('/') && path.len() > 1 && !path.split('/').any(|part| part == "..");
        is_path.then(|| Self(path.to_owned()))
    }

    /// Its path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The instance's group, from the root of the tree.
    #[must_use]
    pub fn container(&self) -> String {
        format!("{}/{CONTAINER_LEAF}", self.0.trim_end_matches('/'))
    }

    /// Moves this process aside, where it would be in the way.
    pub fn make_room(&self) -> io::Result<()> {
        if CgroupLayout::detect() == CgroupLayout::Legacy {
            return Ok(());
        }
        let leaf = below(Path::new(TREE), &self.0).join(RUNTIME_LEAF);
        match fs::create_dir(&leaf) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // Zero stands for the writer.
        fs::write(leaf.join("cgroup.procs"), "0")
    }

    /// The folder of the instance's group in the v2 tree.
    #[must_use]
    pub fn unified_folder(&self) -> PathBuf {
        below(Path::new(TREE), &self.container())
    }

    /// The folder of the instance's group in the tree of a v1 controller, if the machine has that.
    pub fn legacy_folder(&self, controller: &str) -> io::Result<Option<PathBuf>> {
        // Where everybody has it. The table of all mounts is long where there are many instances.
        let usual = Path::new(TREE).join(controller);
        if statfs(&usual).is_ok_and(|found| found.f_type == CGROUP1) {
            return Ok(Some(below(&usual, &self.container())));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mut trees = legacy_trees(&mounts);
        let found = trees.find(|(_, options)| options.split(',').any(|name| name == controller));
        Ok(found.map(|(tree, _)| below(tree, &self.container())))
    }

    /// Where the kernel counts what it killed in the instance for want of memory.
    pub fn memory_events(&self) -> io::Result<Option<PathBuf>> {
        if CgroupLayout::detect() == CgroupLayout::Unified {
            return Ok(Some(self.unified_folder().join("memory.events")));
        }
        let folder = self.legacy_folder("memory")?;
        Ok(folder.map(|folder| folder.join("memory.oom_control")))
    }

    /// Removes what is left of it in trees of v1, where the init system does not look. Groups in use stay.
    pub fn remove_legacy(&self) {
        if CgroupLayout::detect() == CgroupLayout::Unified {
            return;
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        for (tree, _) in legacy_trees(&mounts) {
            for group in [self.container(), self.0.clone()] {
                // Most often it is gone, or the init system's own.
                let _ = fs::remove_dir(below(tree, &group));
            }
        }
    }
}

fn below(tree: &Path, group: &str) -> PathBuf {
    tree.join(group.trim_start_matches('/'))
}

/// Where v2 has this process, else where the init system's own tree of v1 has it.
fn own_group(own: &str) -> Option<&str> {
    let of = |prefix: &str| {
        let mut lines = own
            .lines()
            .filter_map(|line| line.split_once(':')?.1.strip_prefix(prefix));
        lines.next().filter(|path| path.len() > 1)
    };
    of(":").or_else(|| of("name=systemd:"))
}

/// Mount points and options of v1 trees.
fn legacy_trees(mounts: &str) -> impl Iterator<Item = (&Path, &str)> {
    mounts.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (is_legacy, options) = (kind.next()? == "cgroup", kind.nth(1)?);
        let point = place.split(' ').nth(4)?;
        is_legacy.then(|| (Path::new(point), options))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_what_the_kernel_says() {
        assert_eq!(
            own_group("4:memory:/a\n1:name=systemd:/d\n0::/b/c\n"),
            Some("/b/c")
        );
        assert_eq!(
            own_group("4:memory:/a\n1:name=systemd:/d/e\n0::/\n"),
            Some("/d/e")
        );
        assert_eq!(own_group("4:memory:/a\n"), None);
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      broken\n";
        let trees: Vec<_> = legacy_trees(mounts).collect();
        assert_eq!(trees, [(Path::new("/sys/fs/cgroup/memory"), "rw,memory")]);
    }

    #[test]
    fn a_noted_group_cannot_lead_elsewhere() {
        assert_eq!(
            UnitGroup::noted("/a/b.service").unwrap().container(),
            "/a/b.service/container"
        );
        for odd in ["", "/", "a", "/a/../b"] {
            assert_eq!(UnitGroup::noted(odd), None);
        }
    }
}
