//! Where an instance is on the machine.

use std::path::PathBuf;

/// Where one start of an instance can be found, by those who measure it or read its logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlace {
    /// Its unit, as the init system and the journal call it.
    pub unit: String,
    /// The unit's cgroup, from the root of the tree, as in `/system.slice/x.service`: everything of the instance is in it or
    /// below. `None` if the unit did not note it.
    pub cgroup: Option<String>,
    /// The instance's own cgroup below that, where its limits are set. With version 1 only this one is certain to be in the
    /// trees of all controllers. It may be missing where nothing is limited.
    pub instance_cgroup: Option<String>,
    /// What it has written over its image, where it may: a folder on a disk, or in memory where its size is limited.
    pub written: Option<PathBuf>,
    /// What of its sandbox could not be had here, one sentence each.
    pub lacks: Vec<String>,
}
