//! Settings per unit type.

use serde::{Deserialize, Serialize};

use crate::ids::{Span, Time};
use crate::protocol::ExecKind;
use crate::rest::AtRest;

const DEFAULT_TIMEOUT: Span = Span::secs(90);
const SIGTERM: u8 = 15;
const SIGKILL: u8 = 9;
const SIGABRT: u8 = 6;

/// Whether a value is its type's default, which need not be written: reading fills it in.
///
/// Only for fields whose default in the settings is that of their type.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// At most `burst` times in `interval`. An interval or burst of 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RateLimit {
    /// The window.
    pub interval: Span,
    /// How often within it.
    pub burst: u32,
}

impl RateLimit {
    /// No limit.
    pub const OFF: Self = Self {
        interval: Span(0),
        burst: 0,
    };

    /// Whether there is a limit at all.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.interval.0 > 0 && self.burst > 0
    }
}

/// One command line, reduced to what decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// The list it stands in.
    pub kind: ExecKind,
    /// `-`: a bad end is recorded and otherwise ignored.
    pub ignore_failure: bool,
}

/// Exit codes and signals, as SuccessExitStatus= and its siblings name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExitStatusSet {
    /// One bit per exit code.
    pub codes: [u64; 4],
    /// One bit per signal.
    pub signals: u64,
}

impl ExitStatusSet {
    /// Adds an exit code.
    pub fn add_code(&mut self, code: u8) {
        self.codes[usize::from(code >> 6)] |= 1 << (code & 63);
    }

    /// Adds a signal; numbers above 63 do not exist on Linux except 64, which shares bit 0.
    pub fn add_signal(&mut self, signal: u8) {
        self.signals |= 1 << (signal & 63);
    }

    /// Whether the set has this exit code.
    #[must_use]
    pub fn has_code(&self, code: u8) -> bool {
        self.codes[usize::from(code >> 6)] & (1 << (code & 63)) != 0
    }

    /// Whether the set has this signal.
    #[must_use]
    pub fn has_signal(&self, signal: u8) -> bool {
        self.signals & (1 << (signal & 63)) != 0
    }
}

/// KillMode=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KillMode {
    /// Everything in the cgroup.
    #[default]
    ControlGroup,
    /// The main process first, the rest with SIGKILL.
    Mixed,
    /// Only the main process.
    Process,
    /// Nothing: only the stop commands run.
    None,
}

/// How a unit's processes are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KillSpec {
    /// KillMode=
    pub mode: KillMode,
    /// KillSignal=
    pub signal: u8,
    /// RestartKillSignal=, where it differs.
    pub restart_signal: u8,
    /// FinalKillSignal=
    pub final_signal: u8,
    /// WatchdogSignal=
    pub watchdog_signal: u8,
    /// SendSIGKILL=
    pub send_sigkill: bool,
    /// SendSIGHUP=
    pub send_sighup: bool,
}

impl Default for KillSpec {
    fn default() -> Self {
        Self {
            mode: KillMode::ControlGroup,
            signal: SIGTERM,
            restart_signal: SIGTERM,
            final_signal: SIGKILL,
            watchdog_signal: SIGABRT,
            send_sigkill: true,
            send_sighup: false,
        }
    }
}

/// Type=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceType {
    /// Up as soon as the process was forked.
    #[default]
    Simple,
    /// Up as soon as the binary was executed.
    Exec,
    /// Up when the started process has gone and left its child behind.
    Forking,
    /// Up when the process has ended well.
    Oneshot,
    /// Up when its bus name has an owner.
    Dbus,
    /// Up when it says so.
    Notify,
    /// Like notify, and a reload is a signal answered by messages.
    NotifyReload,
    /// Like simple, but waits until nothing else is to be done.
    Idle,
}

/// ExitType=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitType {
    /// The run ends with the main process.
    #[default]
    Main,
    /// The run ends with the last process of the cgroup.
    Cgroup,
}

/// Restart=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Restart {
    /// Never.
    #[default]
    No,
    /// After a good end.
    OnSuccess,
    /// After a bad end of any kind.
    OnFailure,
    /// After a bad end other than an exit code.
    OnAbnormal,
    /// When the watchdog was not fed.
    OnWatchdog,
    /// After a signal that nobody asked for.
    OnAbort,
    /// Whatever happened.
    Always,
}

/// TimeoutStartFailureMode= and TimeoutStopFailureMode=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeoutFailureMode {
    /// The usual stop sequence.
    #[default]
    Terminate,
    /// WatchdogSignal= first, for a core.
    Abort,
    /// SIGKILL at once.
    Kill,
}

/// NotifyAccess=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotifyAccess {
    /// Nobody.
    #[default]
    None,
    /// The main process.
    Main,
    /// The main and control processes.
    Exec,
    /// Any process of the cgroup.
    All,
}

/// OOMPolicy=
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OomPolicy {
    /// Log it and go on.
    Continue,
    /// Stop the unit.
    #[default]
    Stop,
    /// The kernel kills the whole cgroup.
    Kill,
}

/// What a failed health check leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HealthAction {
    /// The run has failed; Restart= decides what comes next.
    #[default]
    Fail,
    /// The run has failed, and another follows whatever Restart= says.
    Restart,
    /// Only shown.
    Report,
}

/// HealthCheckExec= and its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthSpec {
    /// HealthCheckInterval=
    pub interval: Span,
    /// HealthCheckTimeout=
    pub timeout: Span,
    /// HealthCheckRetries=: so many failures in a row are one too many.
    pub retries: u32,
    /// HealthCheckStartPeriod=: failures during it do not count.
    pub start_period: Span,
    /// What the last failure leads to.
    pub action: HealthAction,
    /// The unit is up only when the first check has passed.
    pub gates_readiness: bool,
}

/// `.service`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// Type=
    #[serde(skip_serializing_if = "is_default")]
    pub service_type: ServiceType,
    /// ExitType=
    #[serde(skip_serializing_if = "is_default")]
    pub exit_type: ExitType,
    /// Every Exec…= line, in the order of the file within each list.
    pub commands: Box<[CommandSpec]>,
    /// RemainAfterExit=
    #[serde(skip_serializing_if = "is_default")]
    pub remain_after_exit: bool,
    /// GuessMainPID=
    pub guess_main_pid: bool,
    /// PIDFile= is set.
    #[serde(skip_serializing_if = "is_default")]
    pub has_pid_file: bool,
    /// Restart=
    #[serde(skip_serializing_if = "is_default")]
    pub restart: Restart,
    /// RestartSec=
    pub restart_sec: Span,
    /// RestartSteps=
    #[serde(skip_serializing_if = "is_default")]
    pub restart_steps: u32,
    /// RestartMaxDelaySec=
    pub restart_max_delay: Span,
    /// TimeoutStartSec=
    pub timeout_start: Span,
    /// TimeoutStopSec=
    pub timeout_stop: Span,
    /// TimeoutAbortSec=, where it differs from the stop timeout.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout_abort: Option<Span>,
    /// TimeoutStartFailureMode=
    #[serde(skip_serializing_if = "is_default")]
    pub start_failure_mode: TimeoutFailureMode,
    /// TimeoutStopFailureMode=
    #[serde(skip_serializing_if = "is_default")]
    pub stop_failure_mode: TimeoutFailureMode,
    /// RuntimeMaxSec=, with RuntimeRandomizedExtraSec= already added by the loader.
    pub runtime_max: Span,
    /// WatchdogSec=
    pub watchdog: Span,
    /// NotifyAccess=
    #[serde(skip_serializing_if = "is_default")]
    pub notify_access: NotifyAccess,
    /// SuccessExitStatus=
    #[serde(skip_serializing_if = "is_default")]
    pub success_status: AtRest<ExitStatusSet>,
    /// RestartPreventExitStatus=
    #[serde(skip_serializing_if = "is_default")]
    pub restart_prevent: AtRest<ExitStatusSet>,
    /// RestartForceExitStatus=
    #[serde(skip_serializing_if = "is_default")]
    pub restart_force: AtRest<ExitStatusSet>,
    /// ReloadSignal= of Type=notify-reload.
    pub reload_signal: u8,
    /// FileDescriptorStoreMax=
    #[serde(skip_serializing_if = "is_default")]
    pub fd_store_max: u32,
    /// OOMPolicy=
    #[serde(skip_serializing_if = "is_default")]
    pub oom_policy: OomPolicy,
    /// How its processes are ended.
    #[serde(skip_serializing_if = "is_default")]
    pub kill: KillSpec,
    /// HealthCheckExec= and its siblings.
    #[serde(skip_serializing_if = "is_default")]
    pub health: Option<HealthSpec>,
}

impl Default for ServiceSpec {
    fn default() -> Self {
        Self {
            service_type: ServiceType::Simple,
            exit_type: ExitType::Main,
            commands: Box::default(),
            remain_after_exit: false,
            guess_main_pid: true,
            has_pid_file: false,
            restart: Restart::No,
            restart_sec: Span(100_000),
            restart_steps: 0,
            restart_max_delay: Span::INFINITY,
            timeout_start: DEFAULT_TIMEOUT,
            timeout_stop: DEFAULT_TIMEOUT,
            timeout_abort: None,
            start_failure_mode: TimeoutFailureMode::Terminate,
            stop_failure_mode: TimeoutFailureMode::Terminate,
            runtime_max: Span::INFINITY,
            watchdog: Span::INFINITY,
            notify_access: NotifyAccess::None,
            success_status: AtRest::default(),
            restart_prevent: AtRest::default(),
            restart_force: AtRest::default(),
            reload_signal: 1,
            fd_store_max: 0,
            oom_policy: OomPolicy::Stop,
            kill: KillSpec::default(),
            health: None,
        }
    }
}

/// `.socket`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketSpec {
    /// How many ListenX= lines there are.
    pub listeners: u16,
    /// Accept=
    pub accept: bool,
    /// MaxConnections=
    pub max_connections: u32,
    /// FlushPending=
    pub flush_pending: bool,
    /// TriggerLimitIntervalSec= and TriggerLimitBurst=
    pub trigger_limit: RateLimit,
    /// TimeoutSec=
    pub timeout: Span,
    /// ExecStartPre=, ExecStartPost=, ExecStopPre=, ExecStopPost=
    pub commands: Box<[CommandSpec]>,
    /// How its processes are ended.
    pub kill: KillSpec,
}

impl Default for SocketSpec {
    fn default() -> Self {
        Self {
            listeners: 0,
            accept: false,
            max_connections: 64,
            flush_pending: false,
            trigger_limit: RateLimit {
                interval: Span::secs(2),
                burst: 20,
            },
            timeout: DEFAULT_TIMEOUT,
            commands: Box::default(),
            kill: KillSpec::default(),
        }
    }
}

/// `.target`: nothing to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpec {}

/// From when a monotonic timer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimerBase {
    /// OnActiveSec=: the timer came up.
    Active,
    /// OnBootSec=: the kernel started.
    Boot,
    /// OnStartupSec=: the manager started.
    Startup,
    /// OnUnitActiveSec=: what it triggers last came up.
    UnitActive,
    /// OnUnitInactiveSec=: what it triggers last went down.
    UnitInactive,
}

/// `.timer`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimerSpec {
    /// Monotonic lines, in the order of the file.
    pub monotonic: Box<[(TimerBase, Span)]>,
    /// How many OnCalendar= lines there are; the executor has their text.
    pub calendars: u16,
    /// AccuracySec=
    pub accuracy: Span,
    /// RandomizedDelaySec=, already drawn by the loader (stable with FixedRandomDelay=).
    pub random_delay: Span,
    /// Persistent=
    pub persistent: bool,
    /// WakeSystem=
    pub wake_system: bool,
    /// RemainAfterElapse=
    pub remain_after_elapse: bool,
    /// OnClockChange=
    pub on_clock_change: bool,
    /// OnTimezoneChange=
    pub on_timezone_change: bool,
    /// When the manager started, which OnStartupSec= counts from; filled in by the loader.
    pub startup: Time,
}

impl Default for TimerSpec {
    fn default() -> Self {
        Self {
            monotonic: Box::default(),
            calendars: 0,
            accuracy: Span::secs(60),
            random_delay: Span(0),
            persistent: false,
            wake_system: false,
            remain_after_elapse: true,
            on_clock_change: false,
            on_timezone_change: false,
            startup: Time(0),
        }
    }
}

/// What a path unit looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathCheck {
    /// PathExists=
    Exists,
    /// PathExistsGlob=
    ExistsGlob,
    /// PathChanged=
    Changed,
    /// PathModified=
    Modified,
    /// DirectoryNotEmpty=
    NotEmpty,
}

/// `.path`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathSpec {
    /// Its lines, in the order of the file.
    pub checks: Box<[PathCheck]>,
    /// MakeDirectory=
    pub make_directory: bool,
    /// TriggerLimitIntervalSec= and TriggerLimitBurst=
    pub trigger_limit: RateLimit,
}

impl Default for PathSpec {
    fn default() -> Self {
        Self {
            checks: Box::default(),
            make_directory: false,
            trigger_limit: RateLimit {
                interval: Span::secs(2),
                burst: 200,
            },
        }
    }
}

/// `.mount`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountSpec {
    /// TimeoutSec=
    pub timeout: Span,
    /// There is a What= to mount; without one the unit only mirrors the kernel's table.
    pub configured: bool,
    /// LazyUnmount=
    pub lazy_unmount: bool,
    /// ForceUnmount=
    pub force_unmount: bool,
    /// How its commands are ended.
    pub kill: KillSpec,
}

impl Default for MountSpec {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            configured: true,
            lazy_unmount: false,
            force_unmount: false,
            kill: KillSpec::default(),
        }
    }
}

/// `.automount`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AutomountSpec {
    /// TimeoutIdleSec=; 0 means never.
    pub idle_timeout: Span,
}

/// `.swap`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwapSpec {
    /// TimeoutSec=
    pub timeout: Span,
    /// There is a What= to turn on.
    pub configured: bool,
    /// How its commands are ended.
    pub kill: KillSpec,
}

impl Default for SwapSpec {
    fn default() -> Self {
        Self {
            timeout: DEFAULT_TIMEOUT,
            configured: true,
            kill: KillSpec::default(),
        }
    }
}

/// `.slice`: nothing to decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceSpec {}

/// `.scope`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScopeSpec {
    /// TimeoutStopSec=
    pub timeout_stop: Span,
    /// RuntimeMaxSec=
    pub runtime_max: Span,
    /// OOMPolicy=
    pub oom_policy: OomPolicy,
    /// How its processes are ended.
    pub kill: KillSpec,
}

impl Default for ScopeSpec {
    fn default() -> Self {
        Self {
            timeout_stop: DEFAULT_TIMEOUT,
            runtime_max: Span::INFINITY,
            oom_policy: OomPolicy::Continue,
            kill: KillSpec::default(),
        }
    }
}

/// `.device`: nothing to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceSpec {}
