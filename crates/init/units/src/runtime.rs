//! What happens to a unit at run time, as far as users are shown it.

use muster_unit_file::install::UnitFileState;
use muster_unit_file::timespan::TimeSpan;

/// One moment on both clocks, in microseconds; zero means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since 1970.
    pub real: u64,
    /// Since the machine started.
    pub monotonic: u64,
}

/// When a unit last changed in which way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Any change of its state.
    pub state: Moment,
    /// It began to start.
    pub inactive_exit: Moment,
    /// It was up.
    pub active_enter: Moment,
    /// It began to stop.
    pub active_exit: Moment,
    /// It was down.
    pub inactive_enter: Moment,
    /// Its conditions were looked at.
    pub condition: Moment,
    /// Its asserts were looked at.
    pub assert: Moment,
}

/// One run of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// When it began.
    pub start: Moment,
    /// When it ended.
    pub exit: Moment,
    /// Its process, 0 for none.
    pub pid: u32,
    /// How it ended, as `si_code`: 1 exited, 2 killed, 3 dumped.
    pub code: i32,
    /// With which status or signal.
    pub status: i32,
}

/// The processes of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    /// The main process, 0 for none.
    pub main_pid: u32,
    /// The command that runs beside it, 0 for none.
    pub control_pid: u32,
    /// The last run of the main process.
    pub main: Run,
    /// Last runs of commands: the property, the place in it, the run.
    pub commands: Vec<(&'static str, usize, Run)>,
    /// The user that it runs as.
    pub uid: Option<u32>,
    /// The group that it runs as.
    pub gid: Option<u32>,
    /// Automatic restarts so far.
    pub restarts: u32,
    /// Descriptors that are kept for it.
    pub stored_descriptors: u32,
    /// What it says about itself.
    pub status_text: Box<str>,
    /// The error that it reported.
    pub status_errno: i32,
    /// How often it must feed its watchdog; `None` while there is none.
    pub watchdog_interval: Option<TimeSpan>,
    /// When it last fed its watchdog.
    pub watchdog: Moment,
    /// How the last reload went.
    pub reload_result: Box<str>,
    /// How the last cleaning went.
    pub clean_result: Box<str>,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            main_pid: 0,
            control_pid: 0,
            main: Run::default(),
            commands: Vec::new(),
            uid: None,
            gid: None,
            restarts: 0,
            stored_descriptors: 0,
            status_text: "".into(),
            status_errno: 0,
            watchdog_interval: None,
            watchdog: Moment::default(),
            reload_result: "success".into(),
            clean_result: "success".into(),
        }
    }
}

/// What the control group of a unit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Its path, empty while there is none.
    pub control_group: Box<str>,
    /// Its inode.
    pub control_group_id: u64,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// The most bytes of memory that there ever were.
    pub memory_peak: Option<u64>,
    /// Bytes of memory that are left to it; `None` while nothing limits it.
    pub memory_available: Option<u64>,
    /// Processors that it may use, as the kernel lists them; empty while nothing limits it.
    pub processors: Box<str>,
    /// Nodes of memory that it may use, as the kernel lists them; empty while nothing limits it.
    pub memory_nodes: Box<str>,
    /// Nanoseconds of processor time.
    pub cpu: Option<u64>,
    /// Tasks.
    pub tasks: Option<u64>,
    /// Network: bytes and packets in, bytes and packets out.
    pub network: [Option<u64>; 4],
    /// Disks: bytes and operations read, bytes and operations written.
    pub disks: [Option<u64>; 4],
}

/// Connections of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Open ones.
    pub open: u32,
    /// All that were accepted.
    pub accepted: u32,
    /// All that were refused.
    pub refused: u32,
}

/// When a timer elapses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elapses {
    /// By the calendar; 0 for never.
    pub next_real: u64,
    /// By monotonic lines; `None` for never.
    pub next_monotonic: Option<u64>,
    /// The last time.
    pub last: Moment,
    /// The next time of each line, in the order of the file; 0 for never.
    pub lines: Vec<u64>,
}

/// Everything about a unit that its files do not say. The default is a unit that never ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// `active`, `inactive`, `failed` ...
    pub active_state: Box<str>,
    /// The state of its type.
    pub sub_state: Box<str>,
    /// `running` or `frozen`.
    pub freezer_state: Box<str>,
    /// How the last run ended.
    pub result: Box<str>,
    /// When it changed.
    pub changes: Changes,
    /// Its conditions held when they were looked at.
    pub condition_result: bool,
    /// Its asserts held when they were looked at.
    pub assert_result: bool,
    /// Its queued job.
    pub job: Option<u32>,
    /// The identifier of its run.
    pub invocation: Option<u128>,
    /// Its files have changed since they were read.
    pub needs_reload: bool,
    /// It was made by a request rather than by a file.
    pub transient: bool,
    /// Whether its file is enabled.
    pub file_state: Option<UnitFileState>,
    /// Whether presets would enable it.
    pub file_preset: Option<bool>,
    /// Its processes.
    pub processes: Processes,
    /// What its control group counts.
    pub usage: Usage,
    /// Connections, for sockets.
    pub connections: Connections,
    /// Moments, for timers.
    pub elapses: Elapses,
    /// The device in sysfs, for devices.
    pub sysfs_path: Box<str>,
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            active_state: "inactive".into(),
            sub_state: "dead".into(),
            freezer_state: "running".into(),
            result: "success".into(),
            changes: Changes::default(),
            condition_result: false,
            assert_result: false,
            job: None,
            invocation: None,
            needs_reload: false,
            transient: false,
            file_state: None,
            file_preset: None,
            processes: Processes::default(),
            usage: Usage::default(),
            connections: Connections::default(),
            elapses: Elapses::default(),
            sysfs_path: "".into(),
        }
    }
}
