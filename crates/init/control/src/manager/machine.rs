//! The manager and the machine as a whole.

use serde::{Deserialize, Serialize};

use super::units::Moment;

/// How the machine is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineStatus {
    /// initializing, starting, running, degraded, maintenance, stopping.
    pub state: String,
    /// The program's version.
    pub version: String,
    /// Units in memory.
    pub units: u32,
    /// Queued jobs.
    pub jobs: u32,
    /// Units that failed.
    pub failed: u32,
    /// Its cgroup root, as the kernel names it; empty where cgroups are not used.
    pub cgroup_root: String,
    /// The root of the tree in the file system.
    pub cgroup_path: String,
    /// unified, hybrid, legacy, none.
    pub cgroup_mode: String,
    /// Kernel start.
    pub kernel: Moment,
    /// The first program of user space started.
    pub userspace: Moment,
    /// All jobs of the first transaction ended.
    pub finish: Moment,
    /// The manager (this process) started.
    pub manager: Moment,
    /// Reading unit files began and ended.
    pub load_start: Moment,
    /// Reading unit files ended.
    pub load_finish: Moment,
    /// Times that core was started anew, by crash, hang or upgrade.
    pub recoveries: u32,
    /// Why it was started anew last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_recovery: String,
    /// It runs in safe mode: nothing is started by itself.
    pub safe_mode: bool,
    /// The architecture.
    pub architecture: String,
    /// The unit that was booted.
    pub default_target: String,
    /// Pid of muster-init; 0 where there is none.
    pub init_pid: u32,
    /// Pid of muster-core.
    pub core_pid: u32,
    /// Sequence number of the last event.
    pub sequence: u64,
    /// The journal's folders.
    pub journal: Vec<String>,
}

/// What `daemon-reload` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReloadReply {
    /// Units whose files were looked at.
    pub looked: u32,
    /// Units that were read again because something changed.
    pub read: u32,
    /// Units that are gone.
    pub removed: u32,
    /// Microseconds that it took.
    pub took: u64,
    /// Remarks about files, `path:line: message`.
    pub remarks: Vec<String>,
}

/// End the machine (or, for a supervisor, the program).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShutdownCall {
    /// poweroff, reboot, halt, kexec, exit.
    pub how: String,
    /// Without stopping units in order.
    pub force: bool,
    /// For `exit`: the exit code.
    pub code: u8,
    /// For `reboot`: the argument.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub argument: String,
}

/// Look at or change the environment that services get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvironmentCall {
    /// `NAME=value` to set.
    pub set: Vec<String>,
    /// Names to remove.
    pub unset: Vec<String>,
}

/// The environment now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EnvironmentReply {
    /// `NAME=value`, sorted.
    pub variables: Vec<String>,
}
