//! The instance's cgroup: made, limited and entered by its own process, while it still may.
//!
//! The tree of `muster-cgroup` is a manager's: it owns the groups of all others, settles in a scope of its own, and knows what it
//! made of cgroup v1 again by marks that only root can set. Here a process moves itself below a group that any init system has
//! delegated, with or without root, and three limits are all there is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use muster_bundle::cgroup::{CgroupLayout, UnitGroup};

use super::Dropped;
use crate::plan::{CPU_PERIOD, Limits};

pub(super) fn set(group: &UnitGroup, limits: &Limits, dropped: &Dropped) {
    if *limits == Limits::default() {
        return;
    }
    match CgroupLayout::detect() {
        CgroupLayout::Unified => {
            let entered = enter_unified(group);
            if dropped
                .unless("limits (a cgroup of its own)", entered)
                .is_some()
            {
                set_unified(&group.unified_folder(), limits, dropped);
            }
        }
        CgroupLayout::Legacy => {
            for (controller, files) in legacy_files(limits) {
                let part = format!("the limit of {controller}");
                dropped.unless(&part, set_legacy(group, controller, &files));
            }
        }
    }
}

fn enter_unified(group: &UnitGroup) -> io::Result<()> {
    let folder = group.unified_folder();
    make(&folder)?;
    fs::write(folder.join("cgroup.procs"), "0")?;
    // Only the unit's own group was given to us, with the controllers that the init system has passed down to it; who is above
    // is the init system's. What is not there is missed when the limit is set.
    if let Some(unit) = folder.parent() {
        for controller in ["+cpu", "+memory", "+pids"] {
            let _ = fs::write(unit.join("cgroup.subtree_control"), controller);
        }
    }
    Ok(())
}

fn set_unified(folder: &Path, limits: &Limits, dropped: &Dropped) {
    let write = |part: &str, file: &str, value: String| {
        dropped.unless(part, fs::write(folder.join(file), value));
    };
    if let Some(memory) = limits.memory {
        write("the limit of memory", "memory.max", memory.to_string());
        // A machine without swap has no such file, and nothing to limit.
        let swap = folder.join("memory.swap.max");
        if swap.exists() {
            write("the limit of swap", "memory.swap.max", "0".to_owned());
        }
    }
    if let Some(pids) = limits.pids {
        write("the limit of pids", "pids.max", pids.to_string());
    }
    if let Some(quota) = limits.cpu_quota {
        write(
            "the limit of cpu",
            "cpu.max",
            format!("{quota} {CPU_PERIOD}"),
        );
    }
}

type Files = Vec<(&'static str, String)>;

fn legacy_files(limits: &Limits) -> Vec<(&'static str, Files)> {
    let mut all = Vec::new();
    if let Some(memory) = limits.memory {
        all.push((
            "memory",
            vec![("memory.limit_in_bytes", memory.to_string())],
        ));
    }
    if let Some(pids) = limits.pids {
        all.push(("pids", vec![("pids.max", pids.to_string())]));
    }
    if let Some(quota) = limits.cpu_quota {
        let period = ("cpu.cfs_period_us", CPU_PERIOD.to_string());
        all.push(("cpu", vec![period, ("cpu.cfs_quota_us", quota.to_string())]));
    }
    all
}

fn set_legacy(group: &UnitGroup, controller: &str, files: &Files) -> io::Result<()> {
    let missing = || io::Error::other("the machine does not offer it");
    let folder: PathBuf = group.legacy_folder(controller)?.ok_or_else(missing)?;
    make(&folder)?;
    for (file, value) in files {
        fs::write(folder.join(file), value)?;
    }
    // Together with swap, where the kernel counts that.
    if controller == "memory"
        && let Some((_, value)) = files.first()
    {
        let both = folder.join("memory.memsw.limit_in_bytes");
        if both.exists() {
            fs::write(both, value)?;
        }
    }
    fs::write(folder.join("cgroup.procs"), "0")
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
