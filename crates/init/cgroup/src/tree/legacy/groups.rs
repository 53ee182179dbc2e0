//! Making, finding and removing groups, and moving processes into them.

use std::collections::HashSet;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use super::{LegacyTree, LegacyTrees};
use crate::error::CgroupError;
use crate::files::Files;
use crate::legacy::{Subsystem, Subsystems, legacy_line};
use crate::path::CgroupPath;

/// Tells groups that a manager made from those of others, which may well have the same names.
const MARK: &str = "trusted.muster";
/// Whoever forks faster than its processes can be moved is given up after so many looks.
const MAX_ROUNDS: usize = 64;

/// What came of making a group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// The group itself is new.
    pub(super) is_new: bool,
    /// The topmost of the new groups.
    pub(super) top: Option<CgroupPath>,
}

impl LegacyTrees {
    /// A place of the tree as the hierarchies have it.
    pub(super) fn full(&self, path: &CgroupPath) -> CgroupPath {
        if self.below.is_root() {
            return path.clone();
        }
        let joined = format!("{}/{}", self.below.as_str(), path.as_str());
        // Only a path of thousands of characters is too long; the kernel refuses that in any tree.
        CgroupPath::parse(&joined).unwrap_or_else(|_| path.clone())
    }

    /// The place of the tree that a place of the hierarchies stands for.
    fn inner(&self, full: &str) -> Option<CgroupPath> {
        let inner = full.strip_prefix(self.below.as_str())?;
        let inner = CgroupPath::parse(inner).ok()?;
        (!inner.is_root()).then_some(inner)
    }

    /// Makes a group and those above it.
    pub(super) fn make(&self, tree: &LegacyTree, path: &CgroupPath) -> Result<Made, Errno> {
        let full = self.full(path);
        let mut made = Made::default();
        for step in full.steps() {
            let is_last = step.len() == full.as_str().len();
            let inner = self.inner(step);
            let known = inner.as_ref().map(|inner| self.groups_of(inner));
            if known.is_some_and(|known| !known.within(tree.subsystems).is_empty()) {
                continue;
            }
            let is_new = tree.files.make(step)?;
            if is_new {
                // Without the mark it is used all the same, but nobody finds it again after a crash.
                let _ = mark(&tree.files, step);
            } else if !is_marked(&tree.files, step) {
                match is_last {
                    true => adopt(&tree.files, &full)?,
                    // Somebody else's, and only on the way.
                    false => continue,
                }
            }
            furnish(tree, step)?;
            if let Some(inner) = inner {
                made.is_new = is_new && is_last;
                if is_new && made.top.is_none() {
                    made.top = Some(inner.clone());
                }
                let mut groups = self.groups.borrow_mut();
                *groups.entry(inner).or_default() |= tree.subsystems;
            }
        }
        Ok(made)
    }

    /// Groups of an earlier manager: those with twins in the tree are known from now on, the others go.
    pub(super) fn find(&self, tracked: &Files) {
        for tree in &self.trees {
            let mut level = vec![self.below.clone()];
            while let Some(parent) = level.pop() {
                // What cannot be listed has nothing of ours that could be told.
                for full in tree.files.children(&parent).unwrap_or_default() {
                    if !is_marked(&tree.files, full.as_str()) {
                        continue;
                    }
                    let Some(inner) = self.inner(full.as_str()) else {
                        continue;
                    };
                    if tracked.open_folder(inner.relative()).is_err()
                        && tree.files.remove(&full).is_ok()
                    {
                        continue;
                    }
                    let mut groups = self.groups.borrow_mut();
                    *groups.entry(inner).or_default() |= tree.subsystems;
                    drop(groups);
                    level.push(full);
                }
            }
        }
    }

    /// Removes the twins of a group and of all below it. One with processes stays, and is tried again with the next removal.
    pub(in crate::tree) fn remove(&self, path: &CgroupPath) {
        let inside: Vec<(CgroupPath, Subsystems)> = {
            let groups = self.groups.borrow();
            let inside = groups.iter().filter(|(group, _)| group.is_within(path));
            inside
                .map(|(group, known)| (group.clone(), *known))
                .collect()
        };
        // What lies below comes later in the order of paths.
        for (group, known) in inside.iter().rev() {
            let mut left = Subsystems::NONE;
            for tree in &self.trees {
                if !known.within(tree.subsystems).is_empty()
                    && tree.files.remove(&self.full(group)).is_err()
                {
                    left |= tree.subsystems;
                }
            }
            let mut groups = self.groups.borrow_mut();
            if left.is_empty() {
                groups.remove(group);
            } else {
                groups.insert(group.clone(), left);
            }
        }
        if !inside.is_empty() && self.groups.borrow().is_empty() {
            self.remove_way();
        }
    }

    /// Removes what was made on the way to the root, once nothing of ours is below it.
    fn remove_way(&self) {
        for tree in &self.trees {
            let mut at = self.below.clone();
            while !at.is_root() {
                if !is_marked(&tree.files, at.as_str()) || tree.files.remove_one(&at).is_err() {
                    break;
                }
                at = at.parent();
            }
        }
    }

    /// Moves everybody who is tracked in a group, or below it, to where he belongs now; units below a slice get groups.
    pub(super) fn take_in(
        &self,
        tree: &LegacyTree,
        tracked: &Files,
        top: &CgroupPath,
    ) -> Result<(), Errno> {
        let failed = |error: CgroupError| {
            let number = error.errno();
            number.map_or(Errno::IO, Errno::from_raw_os_error)
        };
        let mut seen = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let before = seen.len();
            let mut found = Vec::new();
            let listed = tracked.each(top, |place, members| {
                if !members.is_empty() {
                    found.push((unit_of(&place()), members));
                }
                Ok(())
            });
            listed.map_err(failed)?;
            for (unit, members) in found {
                for pid in members {
                    if seen.insert(pid) {
                        self.move_in(tree, &unit, pid)?;
                    }
                }
            }
            if seen.len() == before {
                return Ok(());
            }
        }
        Err(Errno::AGAIN)
    }

    fn move_in(&self, tree: &LegacyTree, unit: &CgroupPath, pid: Pid) -> Result<(), Errno> {
        self.make(tree, unit)?;
        let full = self.full(unit);
        let table = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        // Whoever was given a group below by a delegate of the unit's stays there.
        if !is_above(tree, &table, &full) {
            return Ok(());
        }
        match tree
            .files
            .write(&full.file("cgroup.procs"), &pid.to_string())
        {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The unit that a group is of, or is below: slices, and what comes after them.
fn unit_of(place: &CgroupPath) -> CgroupPath {
    let unit = place.steps().find(|step| !step.ends_with(".slice"));
    let unit = unit.and_then(|step| CgroupPath::parse(step).ok());
    unit.unwrap_or_else(|| place.clone())
}

/// Whether a process, by its table of groups, is in a group above this one.
fn is_above(tree: &LegacyTree, table: &str, full: &CgroupPath) -> bool {
    let current = table.lines().find_map(|line| {
        let (name, path) = legacy_line(line)?;
        (name == &*tree.name).then_some(path)
    });
    let current = current.and_then(|path| {
        let inside = path.strip_prefix(&*tree.own)?;
        let is_inside = inside.is_empty() || inside.starts_with('/');
        CgroupPath::parse(inside).ok().filter(|_| is_inside)
    });
    current.is_some_and(|current| current != *full && full.is_within(&current))
}

fn mark(files: &Files, group: &str) -> Result<(), Errno> {
    let folder = files.open_folder(group)?;
    rustix::fs::fsetxattr(&folder, MARK, b"1", XattrFlags::empty())
}

fn is_marked(files: &Files, group: &str) -> bool {
    let mut value = [0u8; 1];
    files
        .open_folder(group)
        .is_ok_and(|folder| rustix::fs::fgetxattr(&folder, MARK, &mut value[..]).is_ok())
}

/// Takes a group over that somebody made for a delegate of the unit's. A slice, or one that is in use, is not ours to take.
fn adopt(files: &Files, full: &CgroupPath) -> Result<(), Errno> {
    let is_slice = full.as_str().ends_with(".slice");
    let members = files.members(full).unwrap_or_default();
    if is_slice || !members.is_empty() {
        return Err(Errno::EXIST);
    }
    // As for one that is new.
    let _ = mark(files, full.as_str());
    Ok(())
}

/// What a new group needs before a process can be in it, or a limit of it holds for groups below.
fn furnish(tree: &LegacyTree, group: &str) -> Result<(), Errno> {
    if tree.subsystems.contains(Subsystem::Cpuset) {
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let own = tree.files.read(&format!("{group}/{file}"))?;
            if own.trim().is_empty() {
                inherit(&tree.files, group, file)?;
            }
        }
    }
    if tree.subsystems.contains(Subsystem::Memory) {
        // Kernels since 5.11 know nothing else.
        let _ = tree
            .files
            .write(&format!("{group}/memory.use_hierarchy"), "1");
    }
    Ok(())
}

/// Copies a file of the group above.
pub(super) fn inherit(files: &Files, group: &str, file: &str) -> Result<(), Errno> {
    let above = group.rsplit_once('/').map_or(".", |(above, _)| above);
    let text = files.read(&format!("{above}/{file}"))?;
    files.write(&format!("{group}/{file}"), text.trim())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn units_are_what_comes_after_slices() {
        for (place, unit) in [
            (
                "a.slice/a-b.slice/x.service/sub/deeper",
                "a.slice/a-b.slice/x.service",
            ),
            ("x.service/.control", "x.service"),
            ("a.slice", "a.slice"),
            ("a.slice/x.scope", "a.slice/x.scope"),
        ] {
            let place = CgroupPath::parse(place).unwrap();
            assert_eq!(unit_of(&place).as_str(), unit);
        }
    }
}
