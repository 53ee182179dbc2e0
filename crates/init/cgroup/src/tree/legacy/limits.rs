//! Writing limits.

use rustix::io::Errno;

use super::groups::inherit;
use super::{LegacyTree, LegacyTrees};
use crate::files::Files;
use crate::legacy::{Subsystem, Subsystems};
use crate::path::CgroupPath;
use crate::resources::{LegacyAttribute, Occasion, Plan, Unapplied};

/// Files with a line per device, in which nought takes a line away.
const PER_DEVICE: [&str; 6] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
    "blkio.bfq.weight_device",
    "blkio.weight_device",
];

impl LegacyTrees {
    /// Makes the groups that a plan needs, moves in who belongs there, and writes limits; gives what the kernel did not take.
    pub(in crate::tree) fn limit(
        &self,
        path: &CgroupPath,
        plan: &Plan,
        occasion: Occasion,
        tracked: &Files,
    ) -> Vec<Unapplied> {
        let wanted = plan.legacy | self.for_siblings(path);
        let had = self.groups_of(path);
        if (wanted | had).is_empty() {
            return Vec::new();
        }
        let mut fresh = Subsystems::NONE;
        let mut failed: Vec<(Subsystems, String)> = Vec::new();
        for tree in &self.trees {
            let is_wanted = !wanted.within(tree.subsystems).is_empty();
            if !is_wanted || !had.within(tree.subsystems).is_empty() {
                continue;
            }
            match self.enter(tree, path, occasion, tracked) {
                Ok(true) => fresh |= tree.subsystems,
                Ok(false) => {}
                Err(reason) => failed.push((tree.subsystems, reason)),
            }
        }
        let mut unapplied: Vec<Unapplied> = Vec::new();
        let mut refuse = |setting: &'static str, reason: String| {
            if !unapplied.iter().any(|known| known.setting == setting) {
                unapplied.push(Unapplied { setting, reason });
            }
        };
        let has = self.groups_of(path);
        if !fresh.contains(Subsystem::Blkio)
            && has.contains(Subsystem::Blkio)
            && let Some(tree) = self.of(Subsystem::Blkio)
        {
            forget_devices(&tree.files, &self.full(path), plan);
        }
        for attribute in &plan.legacy_attributes {
            let subsystem = attribute.subsystem;
            let broken = failed.iter().find(|(of, _)| of.contains(subsystem));
            if let (Some((_, reason)), false) = (broken, attribute.is_reset) {
                refuse(attribute.setting, reason.clone());
            }
            let Some(tree) = self.of(subsystem).filter(|_| has.contains(subsystem)) else {
                continue;
            };
            if attribute.is_reset && fresh.contains(subsystem) {
                continue;
            }
            if let Err((file, error)) = write(tree, &self.full(path), attribute) {
                refuse(attribute.setting, refusal(attribute, file, error));
            }
        }
        unapplied
    }

    /// A share is held against those of the siblings: where one of them has a group, all have.
    fn for_siblings(&self, path: &CgroupPath) -> Subsystems {
        if self.groups.borrow().is_empty() {
            return Subsystems::NONE;
        }
        let above = path.parent();
        let relative = self.groups_of(&above).iter();
        relative.filter(|one| one.is_relative()).collect()
    }

    /// Makes a group; whether it is new.
    fn enter(
        &self,
        tree: &LegacyTree,
        path: &CgroupPath,
        occasion: Occasion,
        tracked: &Files,
    ) -> Result<bool, String> {
        let name = &tree.name;
        if path.is_root() {
            return Err(format!(
                "the group of the whole tree in the v1 hierarchy of {name} is the manager's own"
            ));
        }
        let made = self.make(tree, path).map_err(|error| match error {
            Errno::EXIST => format!("its v1 group for {name} is there and is not the manager's"),
            error => format!("cannot make its v1 group for {name} ({error})"),
        })?;
        let is_relative = tree.subsystems.iter().any(Subsystem::is_relative);
        // Whoever runs below a slice that is new here competes with the one that asked.
        let from = match (&made.top, occasion) {
            (Some(top), _) if is_relative && top != path => Some(top),
            (_, Occasion::Change) => Some(path),
            _ => None,
        };
        if let Some(from) = from {
            let moved = self.take_in(tree, tracked, from);
            moved.map_err(|error| {
                format!("cannot move its processes into its v1 group for {name} ({error})")
            })?;
        }
        Ok(made.is_new)
    }
}

fn write<'a>(
    tree: &LegacyTree,
    group: &CgroupPath,
    attribute: &'a LegacyAttribute,
) -> Result<(), (&'a str, Errno)> {
    let set = |file: &'a str, value: &str| {
        let is_inherited = value.is_empty() && attribute.subsystem == Subsystem::Cpuset;
        let written = match is_inherited {
            true => inherit(&tree.files, group.as_str(), file),
            false => tree.files.write(&group.file(file), value),
        };
        written.map_err(|error| (file, error))
    };
    let written = match (set(attribute.file, &attribute.value), &attribute.instead) {
        (Err((_, Errno::NOENT)), Some((file, value))) => set(file, value),
        (written, _) => written,
    };
    match written {
        Err((_, Errno::NOENT)) if attribute.is_optional => Ok(()),
        written => written,
    }
}

fn refusal(attribute: &LegacyAttribute, file: &str, error: Errno) -> String {
    let value = &attribute.value;
    match error {
        Errno::NOENT => format!("this kernel has no {file}"),
        error => format!("the kernel refuses {value:?} for {file} ({error})"),
    }
}

/// Takes lines of devices away that the plan does not mention.
fn forget_devices(files: &Files, group: &CgroupPath, plan: &Plan) {
    for file in PER_DEVICE {
        let text = files.read(&group.file(file)).unwrap_or_default();
        for device in text.lines().filter_map(|line| line.split(' ').next()) {
            let mut planned = plan.legacy_attributes.iter();
            let is_planned = planned.any(|one| {
                let instead = one.instead.as_ref().map(|(file, _)| *file);
                let is_about = one.value.split(' ').next() == Some(device);
                is_about && (one.file == file || instead == Some(file))
            });
            if device.contains(':') && !is_planned {
                // A device that is gone took its limits with it.
                let _ = files.write(&group.file(file), &format!("{device} 0"));
            }
        }
    }
}
