//! Services.

use super::{Rare, rare};
use crate::name::UnitName;
use crate::timespan::TimeSpan;
use crate::value::command::Command;
use crate::value::exit_status::ExitStatusSet;
use crate::value::path::AbsolutePath;
use crate::value::signal::Signal;
use crate::value::word_enum;

word_enum! {
    /// When a service counts as started.
    ServiceType, "service type",
    Simple = "simple", Forking = "forking", Oneshot = "oneshot", Dbus = "dbus", Notify = "notify",
    NotifyReload = "notify-reload", Idle = "idle", Exec = "exec",
}

word_enum! {
    /// When a service counts as ended.
    ExitType, "exit type",
    Main = "main", Cgroup = "cgroup",
}

word_enum! {
    /// When a service is started again.
    Restart, "restart policy",
    No = "no", OnSuccess = "on-success", OnFailure = "on-failure", OnAbnormal = "on-abnormal",
    OnWatchdog = "on-watchdog", OnAbort = "on-abort", Always = "always",
}

word_enum! {
    /// Whose notifications count.
    NotifyAccess, "notify access",
    None = "none", All = "all", Exec = "exec", Main = "main",
}

word_enum! {
    /// What happens when a timeout is hit.
    TimeoutMode, "timeout mode",
    Terminate = "terminate", Abort = "abort", Kill = "kill",
}

word_enum! {
    /// What happens when the kernel ends a process for lack of memory.
    OomPolicy, "out-of-memory policy",
    Stop = "stop", Continue = "continue", Kill = "kill",
}

word_enum! {
    /// When a command of a service runs.
    CommandPhase, "phase",
    Condition = "ExecCondition", StartPre = "ExecStartPre", Start = "ExecStart", StartPost = "ExecStartPost",
    Reload = "ExecReload", Stop = "ExecStop", StopPost = "ExecStopPost",
}

/// A command and when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhasedCommand {
    /// When.
    pub phase: CommandPhase,
    /// What.
    pub command: Command,
}

/// Which ends of a service count as what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitPolicies {
    /// Beside 0 and the usual signals, these are a success.
    pub success: ExitStatusSet,
    /// No restart after these.
    pub restart_prevent: ExitStatusSet,
    /// Always a restart after these.
    pub restart_force: ExitStatusSet,
}

word_enum! {
    /// Muster's own: what follows when a service is found ill.
    HealthAction, "health check action",
    Fail = "fail", Restart = "restart", Report = "report",
}

/// Muster's own: a program that tells whether the service works.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthCheck {
    /// The programs; none means no check.
    pub commands: Vec<Command>,
    /// Between two checks.
    pub interval: TimeSpan,
    /// How long one check may take.
    pub timeout: TimeSpan,
    /// After so many failures in a row the service counts as failed.
    pub retries: u32,
    /// Failures do not count so long after the start.
    pub start_period: TimeSpan,
    /// What follows then.
    pub action: HealthAction,
    /// The service is up only after the first good check.
    pub readiness: bool,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            commands: Vec::new(),
            interval: TimeSpan::from_secs(30),
            timeout: TimeSpan::from_secs(30),
            retries: 3,
            start_period: TimeSpan::ZERO,
            action: HealthAction::Fail,
            readiness: false,
        }
    }
}

rare!(ExitPolicies, HealthCheck);

/// The manager's default for starting and stopping.
pub(crate) const DEFAULT_TIMEOUT: TimeSpan = TimeSpan::from_secs(90);

/// What a service adds.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceConfig {
    /// `Type=` as written; see [`ServiceConfig::service_type`].
    pub stated_type: Option<ServiceType>,
    /// When it counts as ended.
    pub exit_type: ExitType,
    /// When it is started again.
    pub restart: Restart,
    /// Stays active after its processes ended.
    pub remain_after_exit: bool,
    /// For forking services without a pid file.
    pub guess_main_pid: bool,
    /// Inherited sockets are non-blocking.
    pub non_blocking: bool,
    /// Obsolete: privileges are dropped for `ExecStart=` only.
    pub permissions_start_only: bool,
    /// The root directory is changed for `ExecStart=` only.
    pub root_directory_start_only: bool,
    /// `NotifyAccess=` as written; see [`ServiceConfig::notify_access`].
    pub stated_notify_access: Option<NotifyAccess>,
    /// What asks a service of type `notify-reload` to read its configuration again.
    pub reload_signal: Signal,
    /// At a start timeout.
    pub timeout_start_failure_mode: TimeoutMode,
    /// At a stop timeout.
    pub timeout_stop_failure_mode: TimeoutMode,
    /// `None` follows the manager's default.
    pub oom_policy: Option<OomPolicy>,
    /// How many descriptors are kept for it.
    pub file_descriptor_store_max: u32,
    /// All commands, in the order of the files.
    pub commands: Vec<PhasedCommand>,
    /// Pause before a restart.
    pub restart_sec: TimeSpan,
    /// Over so many restarts the pause grows to `restart_max_delay`; 0 is no growth.
    pub restart_steps: u32,
    /// The longest pause before a restart.
    pub restart_max_delay: TimeSpan,
    /// `TimeoutStartSec=` as written; see [`ServiceConfig::timeout_start`].
    pub stated_timeout_start: Option<TimeSpan>,
    /// How long a stop may take.
    pub timeout_stop: TimeSpan,
    /// How long an abort may take; `None` follows `timeout_stop`.
    pub timeout_abort: Option<TimeSpan>,
    /// How long it may run.
    pub runtime_max: TimeSpan,
    /// Added to that by chance.
    pub runtime_randomized_extra: TimeSpan,
    /// How often it must say that it is alive.
    pub watchdog: TimeSpan,
    /// Where it writes its main process.
    pub pid_file: Option<AbsolutePath>,
    /// The bus name it takes.
    pub bus_name: Option<Box<str>>,
    /// Sockets it inherits, beside its own.
    pub sockets: Vec<UnitName>,
    /// Descriptors of USB functions.
    pub usb_function_descriptors: Option<AbsolutePath>,
    /// Strings of USB functions.
    pub usb_function_strings: Option<AbsolutePath>,
    /// Which ends count as what.
    pub exits: Rare<ExitPolicies>,
    /// Muster's own health check.
    pub health: Rare<HealthCheck>,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            stated_type: None,
            exit_type: ExitType::Main,
            restart: Restart::No,
            remain_after_exit: false,
            guess_main_pid: true,
            non_blocking: false,
            permissions_start_only: false,
            root_directory_start_only: false,
            stated_notify_access: None,
            timeout_start_failure_mode: TimeoutMode::Terminate,
            timeout_stop_failure_mode: TimeoutMode::Terminate,
            oom_policy: None,
            file_descriptor_store_max: 0,
            commands: Vec::new(),
            restart_sec: TimeSpan::from_micros(100_000),
            restart_steps: 0,
            restart_max_delay: TimeSpan::INFINITY,
            reload_signal: Signal::HUP,
            stated_timeout_start: None,
            timeout_stop: DEFAULT_TIMEOUT,
            timeout_abort: None,
            runtime_max: TimeSpan::INFINITY,
            runtime_randomized_extra: TimeSpan::ZERO,
            watchdog: TimeSpan::INFINITY,
            pid_file: None,
            bus_name: None,
            sockets: Vec::new(),
            usb_function_descriptors: None,
            usb_function_strings: None,
            exits: Rare::default(),
            health: Rare::default(),
        }
    }
}

impl ServiceConfig {
    /// The commands of one phase, in the order of the files.
    pub fn commands(&self, phase: CommandPhase) -> impl Iterator<Item = &Command> {
        self.commands
            .iter()
            .filter(move |c| c.phase == phase)
            .map(|c| &c.command)
    }

    /// The type. Without `Type=` a bus name makes it `dbus`, and nothing to start `oneshot`.
    #[must_use]
    pub fn service_type(&self) -> ServiceType {
        self.stated_type.unwrap_or_else(|| {
            if self.bus_name.is_some() {
                ServiceType::Dbus
            } else if self.commands(CommandPhase::Start).next().is_none() {
                ServiceType::Oneshot
            } else {
                ServiceType::Simple
            }
        })
    }

    /// How long a start may take; for oneshot services without a limit unless stated.
    #[must_use]
    pub fn timeout_start(&self) -> TimeSpan {
        self.stated_timeout_start
            .unwrap_or_else(|| match self.service_type() {
                ServiceType::Oneshot => TimeSpan::INFINITY,
                _ => DEFAULT_TIMEOUT,
            })
    }

    /// Whose notifications count; those of the main process at least where they are needed.
    #[must_use]
    pub fn notify_access(&self) -> NotifyAccess {
        let stated = self.stated_notify_access.unwrap_or_default();
        let finite_watchdog = !self.watchdog.is_infinite() && self.watchdog != TimeSpan::ZERO;
        let needed = matches!(
            self.service_type(),
            ServiceType::Notify | ServiceType::NotifyReload
        ) || finite_watchdog
            || self.file_descriptor_store_max > 0;
        if stated == NotifyAccess::None && needed {
            NotifyAccess::Main
        } else {
            stated
        }
    }
}
