//! Which instances there are.

use std::path::PathBuf;

use muster_api::domain::{AlertRules, InstanceIdent, PartitionName, RuntimeId};
use muster_cgroup::CgroupPath;

/// A folder (or file) of an instance that is reported as a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedFolder {
    /// What it is called: `state`, `storage`, `tmp`.
    pub name: PartitionName,
    /// Where it is.
    pub path: PathBuf,
    /// The bytes that percentages of alert rules refer to. Without it they refer to the file system.
    pub limit: Option<u64>,
}

/// An instance to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceWatch {
    /// Which instance.
    pub ident: InstanceIdent,
    /// What runs it.
    pub runtime_id: Option<RuntimeId>,
    /// Its group, from the root of any tree. Groups below are part of it, so this is best its unit's: with v1, a group below
    /// need not be in every tree. Without one, processors, memory and processes are not measured.
    pub cgroup: Option<CgroupPath>,
    /// Its folders.
    pub folders: Vec<WatchedFolder>,
    /// What is too much.
    pub rules: AlertRules,
    /// The DMIPS that percentages of `rules` refer to; the node's without it.
    pub cpu_limit: Option<u64>,
    /// The bytes of memory that percentages of `rules` refer to; the node's without it.
    pub ram_limit: Option<u64>,
}
