//! Mounts, swaps, timers, watched paths, scopes, and how processes are ended.

use super::rare;
use super::service::{DEFAULT_TIMEOUT, OomPolicy};
use crate::calendar::CalendarSpec;
use crate::name::UnitName;
use crate::timespan::TimeSpan;
use crate::value::number::{Mode, Timeout};
use crate::value::path::AbsolutePath;
use crate::value::signal::Signal;
use crate::value::word_enum;

word_enum! {
    /// Which processes are ended when a unit stops.
    KillMode, "kill mode",
    ControlGroup = "control-group", Process = "process", Mixed = "mixed", None = "none",
}

/// How the processes of a unit are ended.
#[derive(Clone, Debug, PartialEq)]
pub struct KillContext {
    /// Which of them.
    pub mode: KillMode,
    /// The first signal.
    pub signal: Signal,
    /// The first signal of a restart; `None` follows `signal`.
    pub restart_signal: Option<Signal>,
    /// The last signal.
    pub final_signal: Signal,
    /// The signal of a watchdog timeout.
    pub watchdog_signal: Signal,
    /// The last signal is sent.
    pub send_sigkill: bool,
    /// SIGHUP follows the first signal.
    pub send_sighup: bool,
}

impl Default for KillContext {
    fn default() -> Self {
        Self {
            mode: KillMode::ControlGroup,
            signal: Signal::TERM,
            restart_signal: None,
            final_signal: Signal::KILL,
            watchdog_signal: Signal::ABRT,
            send_sigkill: true,
            send_sighup: false,
        }
    }
}

rare!(KillContext);

/// What a mount adds.
#[derive(Clone, Debug, PartialEq)]
pub struct MountConfig {
    /// What is mounted.
    pub what: Option<Box<str>>,
    /// Where; must fit the unit's name.
    pub r#where: Option<AbsolutePath>,
    /// Options as `mount -o` takes them.
    pub options: Option<Box<str>>,
    /// The type of the file system.
    pub fs_type: Option<Box<str>>,
    /// How long mounting may take.
    pub timeout: Timeout,
    /// Mode of the mount point, should it be made.
    pub directory_mode: Mode,
    /// Unknown options are not an error.
    pub sloppy_options: bool,
    /// Detach at once, clean up later.
    pub lazy_unmount: bool,
    /// Unmount although the server does not answer.
    pub force_unmount: bool,
    /// Fail rather than mount read-only.
    pub read_write_only: bool,
}

impl Default for MountConfig {
    fn default() -> Self {
        Self {
            what: None,
            r#where: None,
            options: None,
            fs_type: None,
            timeout: Timeout(DEFAULT_TIMEOUT),
            directory_mode: Mode(0o755),
            sloppy_options: false,
            lazy_unmount: false,
            force_unmount: false,
            read_write_only: false,
        }
    }
}

/// What an automount adds.
#[derive(Clone, Debug, PartialEq)]
pub struct AutomountConfig {
    /// Where; must fit the unit's name.
    pub r#where: Option<AbsolutePath>,
    /// Options for the automount itself.
    pub extra_options: Option<Box<str>>,
    /// Mode of the mount point, should it be made.
    pub directory_mode: Mode,
    /// Unmount after so much idle time; zero for never.
    pub timeout_idle: TimeSpan,
}

impl Default for AutomountConfig {
    fn default() -> Self {
        Self {
            r#where: None,
            extra_options: None,
            directory_mode: Mode(0o755),
            timeout_idle: TimeSpan::ZERO,
        }
    }
}

/// What a swap adds.
#[derive(Clone, Debug, PartialEq)]
pub struct SwapConfig {
    /// The device or file.
    pub what: Option<AbsolutePath>,
    /// Its priority.
    pub priority: Option<i32>,
    /// Options as `swapon -o` takes them.
    pub options: Option<Box<str>>,
    /// How long activating may take.
    pub timeout: Timeout,
}

impl Default for SwapConfig {
    fn default() -> Self {
        Self {
            what: None,
            priority: None,
            options: None,
            timeout: Timeout(DEFAULT_TIMEOUT),
        }
    }
}

word_enum! {
    /// What a monotonic timer counts from.
    TimerBase, "timer base",
    Active = "OnActiveSec", Boot = "OnBootSec", Startup = "OnStartupSec",
    UnitActive = "OnUnitActiveSec", UnitInactive = "OnUnitInactiveSec",
}

/// When a timer elapses.
#[derive(Clone, Debug, PartialEq)]
pub enum TimerSpec {
    /// So long after something.
    Monotonic {
        /// After what.
        base: TimerBase,
        /// How long.
        span: TimeSpan,
    },
    /// At moments of the calendar.
    Calendar(Box<CalendarSpec>),
}

/// What a timer adds.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerConfig {
    /// When it elapses, in the order of the files.
    pub timers: Vec<TimerSpec>,
    /// Also when the clock is set.
    pub on_clock_change: bool,
    /// Also when the time zone changes.
    pub on_timezone_change: bool,
    /// Missed calendar moments are made up for.
    pub persistent: bool,
    /// Wakes the machine.
    pub wake_system: bool,
    /// Stays loaded after its last moment.
    pub remain_after_elapse: bool,
    /// The chance delay is the same every time.
    pub fixed_random_delay: bool,
    /// How late it may be.
    pub accuracy: TimeSpan,
    /// A chance delay up to this.
    pub randomized_delay: TimeSpan,
    /// What it starts; `None` is the service with the same name.
    pub unit: Option<UnitName>,
}

impl Default for TimerConfig {
    fn default() -> Self {
        Self {
            timers: Vec::new(),
            on_clock_change: false,
            on_timezone_change: false,
            persistent: false,
            wake_system: false,
            remain_after_elapse: true,
            fixed_random_delay: false,
            accuracy: TimeSpan::from_secs(60),
            randomized_delay: TimeSpan::ZERO,
            unit: None,
        }
    }
}

word_enum! {
    /// What a path unit waits for.
    PathKind, "path condition",
    Exists = "PathExists", ExistsGlob = "PathExistsGlob", Changed = "PathChanged", Modified = "PathModified",
    DirectoryNotEmpty = "DirectoryNotEmpty",
}

/// One watched path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSpec {
    /// What is waited for.
    pub kind: PathKind,
    /// Where.
    pub path: Box<str>,
}

/// What a path unit adds.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// Watched paths, in the order of the files.
    pub paths: Vec<PathSpec>,
    /// What it starts; `None` is the service with the same name.
    pub unit: Option<UnitName>,
    /// Directories to watch are made.
    pub make_directory: bool,
    /// With this mode.
    pub directory_mode: Mode,
    /// Time over which starts are counted.
    pub trigger_limit_interval: TimeSpan,
    /// Starts in that time.
    pub trigger_limit_burst: u32,
}

impl Default for PathConfig {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            unit: None,
            make_directory: false,
            directory_mode: Mode(0o755),
            trigger_limit_interval: TimeSpan::from_secs(2),
            trigger_limit_burst: 200,
        }
    }
}

impl PathConfig {
    /// The time over which starts are counted; infinity leaves the default.
    #[must_use]
    pub fn trigger_interval(&self) -> TimeSpan {
        if self.trigger_limit_interval.is_infinite() {
            Self::default().trigger_limit_interval
        } else {
            self.trigger_limit_interval
        }
    }
}

/// What a scope adds.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeConfig {
    /// How long it may run.
    pub runtime_max: TimeSpan,
    /// Added to that by chance.
    pub runtime_randomized_extra: TimeSpan,
    /// How long a stop may take.
    pub timeout_stop: TimeSpan,
    /// `None` follows the manager's default.
    pub oom_policy: Option<OomPolicy>,
}

impl Default for ScopeConfig {
    fn default() -> Self {
        Self {
            runtime_max: TimeSpan::INFINITY,
            runtime_randomized_extra: TimeSpan::ZERO,
            timeout_stop: DEFAULT_TIMEOUT,
            oom_policy: None,
        }
    }
}
