//! Units: rows, status, properties, and what is done to their processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A call about one unit and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitCall {
    /// The unit, by any of its names. `ResetFailed` without one means all.
    pub unit: String,
}

/// Which units to list. Empty lists do not filter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListUnitsCall {
    /// Names or globs.
    pub patterns: Vec<String>,
    /// Active, sub or load states.
    pub states: Vec<String>,
    /// `service`, `socket` ...
    pub types: Vec<String>,
    /// Also units that are down and were only mentioned.
    pub all: bool,
}

/// The rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListUnitsReply {
    /// In the order of names.
    pub units: Vec<UnitRow>,
}

/// A moment on both clocks, in microseconds; 0 is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Since 1970.
    pub real: u64,
    /// Since boot.
    pub monotonic: u64,
}

/// A unit in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitRow {
    /// Its main name.
    pub name: String,
    /// For people.
    pub description: String,
    /// loaded, not-found, masked ...
    pub load: String,
    /// active, failed ...
    pub active: String,
    /// running, exited, listening ...
    pub sub: String,
    /// A unit that this one follows.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub following: String,
    /// Its queued job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u32>,
    /// What that job does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job_kind: String,
    /// Last time it left the down states.
    pub inactive_exit: Moment,
    /// Last time it came up.
    pub active_enter: Moment,
    /// Last time it left the up states.
    pub active_exit: Moment,
    /// Last time it went down.
    pub inactive_enter: Moment,
    /// Units that it starts (timers, sockets, paths, automounts).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<String>,
    /// Of a socket: what it listens on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listens: Vec<ListenView>,
    /// Of a timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerView>,
    /// Of a path: what it watches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathView>,
}

/// What a socket listens on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenView {
    /// Stream, Datagram, SequentialPacket, FIFO, Netlink ...
    pub kind: String,
    /// The address as in the unit file.
    pub address: String,
}

/// When a timer fires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimerView {
    /// Next, on whichever clock comes first; both fields filled.
    pub next: Moment,
    /// Last.
    pub last: Moment,
}

/// What a path unit watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathView {
    /// PathExists, PathChanged ...
    pub kind: String,
    /// The path.
    pub path: String,
}

/// A unit in full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnitStatus {
    /// As in a list.
    pub row: UnitRow,
    /// Other names.
    pub aliases: Vec<String>,
    /// The main file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fragment: String,
    /// Files that were read after it.
    pub drop_ins: Vec<String>,
    /// enabled, disabled, static ...
    pub file_state: String,
    /// The vendor's preset: enabled, disabled, or empty.
    pub preset: String,
    /// Files changed since they were read.
    pub needs_reload: bool,
    /// Made by a request, not by a file of the operator.
    pub transient: bool,
    /// Where to read more.
    pub documentation: Vec<String>,
    /// Units that start this one.
    pub triggered_by: Vec<String>,
    /// How the last run ended.
    pub outcome: String,
    /// The run.
    pub invocation: String,
    /// Conditions that kept it from starting, with the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_check: Option<String>,
    /// When its conditions were looked at.
    pub checked: Moment,
    /// Main process; 0 where there is none.
    pub main_pid: u32,
    /// Helper process of the step that it is in.
    pub control_pid: u32,
    /// What commands ran, and how they ended.
    pub commands: Vec<CommandRun>,
    /// STATUS= of the service.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status_text: String,
    /// ERRNO= of the service; 0 where it gave none.
    pub status_errno: i32,
    /// Restarts by its policy.
    pub restarts: u32,
    /// Descriptors kept for it.
    pub stored_descriptors: u32,
    /// Most that are kept for it.
    pub stored_descriptors_max: u32,
    /// Of sockets: connections taken and open.
    pub accepted: u64,
    /// Open now.
    pub connections: u32,
    /// Its cgroup, below the root of the tree; empty where there is none.
    pub cgroup: String,
    /// Processes in it and below.
    pub processes: Vec<ProcessView>,
    /// Tasks, if counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Most tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_max: Option<u64>,
    /// Bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// The most bytes of memory that there ever were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// Most bytes of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max: Option<u64>,
    /// Processor time in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u64>,
    /// Bytes read from block devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<u64>,
    /// Bytes written to block devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_written: Option<u64>,
    /// Bytes received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_in: Option<u64>,
    /// Bytes sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_out: Option<u64>,
    /// Limits that its processes ran into, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits_reached: Vec<String>,
    /// running, frozen, freezing ...
    pub freezer: String,
    /// Its health, if it has checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthView>,
    /// What this run asked for and could not have here, as `Directive: why`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
    /// Why a process of this run could not be set up; empty where all could.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setup_failure: String,
    /// Directives that are set and are not carried out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_applied: Vec<String>,
    /// Remarks about its files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One command of a unit and its last run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandRun {
    /// ExecStartPre, ExecStart ...
    pub phase: String,
    /// The command line.
    pub command: String,
    /// Its process.
    pub pid: u32,
    /// exited, killed, dumped; empty while it runs.
    pub code: String,
    /// The exit status or signal.
    pub status: i32,
    /// When it began.
    pub start: Moment,
    /// When it ended.
    pub exit: Moment,
}

/// A process of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessView {
    /// Its number.
    pub pid: u32,
    /// The cgroup it is in, below the unit's; empty for the unit's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// Its command line.
    pub command: String,
}

/// Health checks of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthView {
    /// starting, healthy, unhealthy, unknown.
    pub state: String,
    /// Failures in a row.
    pub failures: u32,
    /// So many are too many.
    pub retries: u32,
    /// When it was last checked.
    pub checked: Moment,
}

/// Properties of a unit, or of the manager where the unit is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShowCall {
    /// The unit.
    pub unit: String,
    /// Only these; all where empty.
    pub properties: Vec<String>,
    /// Also empty ones.
    pub all: bool,
}

/// Name and value, in the order in which `systemctl show` prints them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShowReply {
    /// Pairs of name and value.
    pub properties: Vec<(String, String)>,
}

/// Why a unit is as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhyReply {
    /// The unit.
    pub unit: String,
    /// Its state in words.
    pub state: String,
    /// One sentence per line, from the state back to the first cause.
    pub lines: Vec<String>,
    /// Who pulled it in: unit and dependency.
    pub needed_by: Vec<(String, String)>,
    /// What its job waits for.
    pub waits_for: Vec<String>,
    /// What can be done about it.
    pub advice: Vec<String>,
    /// Anything else, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
}

/// Send a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KillCall {
    /// To the processes of this unit.
    pub unit: String,
    /// all, main, control.
    pub whom: String,
    /// Its number.
    pub signal: i32,
}

/// Freeze or thaw.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FreezeCall {
    /// The unit.
    pub unit: String,
    /// Freeze, or thaw.
    pub frozen: bool,
}

/// Remove what a unit keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CleanCall {
    /// The unit.
    pub unit: String,
    /// What; empty is cache and runtime.
    pub what: Vec<Cleanable>,
}

/// What can be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cleanable {
    /// ConfigurationDirectory=
    Configuration,
    /// StateDirectory=
    State,
    /// CacheDirectory=
    Cache,
    /// LogsDirectory=
    Logs,
    /// RuntimeDirectory=
    Runtime,
    /// Kept descriptors.
    Fdstore,
    /// All of them.
    All,
}
