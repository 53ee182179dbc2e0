//! The message protocol between the engine and a unit type.
//!
//! A unit type is a state machine that knows one unit and nothing of dependencies, jobs or other units. It is driven by
//! [`Input`]s and answers with [`Output`]s; both are plain data, so that a type may live in this process (all built-in
//! types do, see [`Machine`](crate::types::Machine)) or in another one behind a pipe.
//!
//! ```text
//!             Command (start, stop, reload, ...)        Output::{Spawn, Kill, Deadline, ...}
//!   engine ------------------------------------> type -----------------------------------> executor
//!     ^        Happened (exited, notified, ...)    |
//!     +---------- ActiveState before / after ------+
//! ```
//!
//! Invariants
//! - A type's state is a value: the same state and the same input give the same state and outputs.
//! - The engine compares [`ActiveState`] before and after each input; a type never reports a change by other means.
//! - Outputs are requests. Their outcome comes back as an input, or never (the process that was to be killed was gone).

use serde::{Deserialize, Serialize};

use crate::ids::{InvocationId, Span, Time};

/// The state of a unit as everything but its own type sees it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum ActiveState {
    /// Up.
    Active,
    /// Up, taking its configuration in anew.
    Reloading,
    /// Down.
    #[default]
    Inactive,
    /// Down because something went wrong.
    Failed,
    /// On its way up.
    Activating,
    /// On its way down.
    Deactivating,
    /// Being cleaned.
    Maintenance,
}

impl ActiveState {
    /// As users see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Reloading => "reloading",
            Self::Inactive => "inactive",
            Self::Failed => "failed",
            Self::Activating => "activating",
            Self::Deactivating => "deactivating",
            Self::Maintenance => "maintenance",
        }
    }

    /// Up, perhaps reloading.
    #[must_use]
    pub fn is_up(self) -> bool {
        matches!(self, Self::Active | Self::Reloading)
    }

    /// Up or on its way up.
    #[must_use]
    pub fn is_up_or_rising(self) -> bool {
        matches!(self, Self::Active | Self::Reloading | Self::Activating)
    }

    /// Down, well or badly.
    #[must_use]
    pub fn is_down(self) -> bool {
        matches!(self, Self::Inactive | Self::Failed)
    }

    /// Down or on its way down.
    #[must_use]
    pub fn is_down_or_falling(self) -> bool {
        matches!(self, Self::Inactive | Self::Failed | Self::Deactivating)
    }
}

/// How a unit's last run ended. One list for all types, as systemd has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Well.
    #[default]
    Success,
    /// What it needs from the system could not be had.
    Resources,
    /// It broke its type's protocol (exited before it was ready, named no main process ...).
    Protocol,
    /// A step took too long.
    Timeout,
    /// A process ended with a bad exit code.
    ExitCode,
    /// A process was killed.
    Signal,
    /// A process was killed and left a core.
    CoreDump,
    /// The watchdog was not fed.
    Watchdog,
    /// Its own start limit was hit.
    StartLimitHit,
    /// The limit of what it triggers was hit.
    TriggerLimitHit,
    /// What it triggers hit its start limit.
    ServiceStartLimitHit,
    /// An ExecCondition said no.
    ExecCondition,
    /// The kernel killed it for memory.
    OomKill,
    /// A health check failed too often.
    HealthCheck,
    /// Somebody took an automount point away.
    Unmounted,
    /// The mount behind an automount point hit its start limit.
    MountStartLimitHit,
    /// What a path unit triggers hit its start limit.
    UnitStartLimitHit,
}

impl Outcome {
    /// As `Result=` shows it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Resources => "resources",
            Self::Protocol => "protocol",
            Self::Timeout => "timeout",
            Self::ExitCode => "exit-code",
            Self::Signal => "signal",
            Self::CoreDump => "core-dump",
            Self::Watchdog => "watchdog",
            Self::StartLimitHit => "start-limit-hit",
            Self::TriggerLimitHit => "trigger-limit-hit",
            Self::ServiceStartLimitHit => "service-start-limit-hit",
            Self::ExecCondition => "exec-condition",
            Self::OomKill => "oom-kill",
            Self::HealthCheck => "health-check",
            Self::Unmounted => "unmounted",
            Self::MountStartLimitHit => "mount-start-limit-hit",
            Self::UnitStartLimitHit => "unit-start-limit-hit",
        }
    }
}

/// A process, named so that a recycled pid cannot be mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The number the kernel gave it.
    pub pid: u32,
    /// The inode of its pidfd, unique while the machine is up; 0 where the kernel has none.
    pub pidfd_inode: u64,
    /// The cgroup it was put into, below the unit tree's root.
    pub cgroup: Box<str>,
    /// The run of the unit that it belongs to.
    pub invocation: InvocationId,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitStatus {
    /// It returned this code.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
    /// This signal ended it and it left a core.
    Core(u8),
}

/// What a process is to its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The process that the unit stands for.
    Main,
    /// A helper of one step: ExecStartPre, ExecReload, a mount command ...
    Control,
    /// A health probe beside the main process.
    Probe,
}

/// A list of commands in a unit file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExecKind {
    /// ExecCondition=
    Condition,
    /// ExecStartPre= (services, sockets)
    StartPre,
    /// ExecStart=
    Start,
    /// ExecStartPost= (services, sockets)
    StartPost,
    /// ExecReload=
    Reload,
    /// ExecStop=
    Stop,
    /// ExecStopPost=
    StopPost,
    /// ExecStopPre= (sockets)
    StopPre,
    /// HealthCheckExec=
    HealthCheck,
    /// The mount or swap-on command that the type itself stands for.
    Mount,
    /// The remount command.
    Remount,
    /// The unmount or swap-off command.
    Unmount,
}

/// One command of a unit: the executor looks the line itself up in the unit it loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommandRef {
    /// Which list.
    pub kind: ExecKind,
    /// Which line of it.
    pub index: u16,
}

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnError {
    /// The step of setting up, in words ("cgroup", "exec", "user" ...).
    pub step: Box<str>,
    /// The system's error number.
    pub errno: i32,
    /// The exit code that stands for this step (from 200).
    pub exit_code: u8,
    /// What the command needs could not even be put together, so that no process was made: the outcome is
    /// [`Outcome::Resources`], and no mark before a command forgives it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
}

/// Which processes a signal goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KillScope {
    /// Only the main process.
    Main,
    /// Only the control process.
    Control,
    /// Only the health probe.
    Probe,
    /// Everything in the unit's cgroup.
    All,
}

/// What a deadline of a type is for. A type has at most one of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineKind {
    /// The current step (start, stop, reload, kill ...) takes too long.
    Step,
    /// The pause before a restart is over.
    Restart,
    /// The watchdog was not fed in time.
    Watchdog,
    /// RuntimeMaxSec=.
    RuntimeMax,
    /// The next health check, or the end of a running one.
    Health,
    /// A timer unit elapses.
    Elapse,
    /// A rate limit's window ends and polling may go on.
    RateLimit,
    /// An automount's idle time, or an idle service's start delay, is over.
    Idle,
}

/// A message of the sd_notify protocol, parsed by the executor. Absent fields were not in the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notification {
    /// Who sent it; 0 where the kernel did not say.
    pub sender: u32,
    /// READY=1
    pub ready: bool,
    /// RELOADING=1, with the sender's MONOTONIC_USEC if it gave one.
    pub reloading: bool,
    /// MONOTONIC_USEC=
    pub monotonic: Option<Time>,
    /// STOPPING=1
    pub stopping: bool,
    /// STATUS=
    pub status: Option<Box<str>>,
    /// ERRNO=
    pub errno: Option<i32>,
    /// MAINPID=
    pub main_pid: Option<u32>,
    /// WATCHDOG=1
    pub watchdog: bool,
    /// WATCHDOG=trigger
    pub watchdog_trigger: bool,
    /// WATCHDOG_USEC=
    pub watchdog_usec: Option<Span>,
    /// EXTEND_TIMEOUT_USEC=
    pub extend_timeout: Option<Span>,
    /// FDSTORE=1 with FDNAME=: how many descriptors came, and under which name.
    pub store: Option<StoredFds>,
    /// FDSTOREREMOVE=1 with FDNAME=
    pub remove: Option<Box<str>>,
}

/// Descriptors that a service asks to be kept for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFds {
    /// FDNAME=, or `stored`.
    pub name: Box<str>,
    /// How many.
    pub count: u16,
    /// FDPOLL=0: keep it even when the other end hangs up.
    pub keep_on_hangup: bool,
}

/// What a type is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// Come up. Conditions hold, dependencies are met, the start limit is not hit.
    Start {
        /// The new run's id.
        invocation: InvocationId,
    },
    /// Go down.
    Stop,
    /// Take the configuration in anew.
    Reload,
    /// A start is refused because there were too many in too short a time: the unit has failed by that.
    StartLimitHit,
    /// The restart that the unit's own policy asked for cannot be queued: it stays down.
    RestartRefused,
    /// Forget that the last run failed.
    ResetFailed,
    /// The unit files were read again and this unit's settings may differ.
    Reloaded,
    /// A command was started.
    Spawned {
        /// What the process is for.
        role: Role,
        /// The process.
        process: Process,
    },
    /// A command was started by a helper, which sets its process up and then becomes it.
    Delegated {
        /// What the process is for.
        role: Role,
        /// The process.
        process: Process,
        /// It does not become the program, but stands for it: that is a child of it, in a namespace of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stands_for: bool,
    },
    /// A process that a helper set up runs its program now.
    Executed {
        /// Which.
        pid: u32,
        /// What of its surroundings could not be had and was left out, as `Directive: why`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Box<str>>,
    },
    /// A process that a helper set up never ran its program; its end follows.
    NotExecuted {
        /// Which.
        pid: u32,
        /// What failed, and why.
        why: Box<str>,
    },
    /// A command could not be started.
    SpawnFailed {
        /// What it was for.
        role: Role,
        /// Why.
        error: SpawnError,
    },
    /// A process of this unit ended.
    Exited {
        /// Which.
        pid: u32,
        /// How.
        status: ExitStatus,
    },
    /// The state was lost, and the unit's cgroup was found to have processes: the unit is up, as if it had been started.
    Found {
        /// The process that it seems to stand for.
        main: Option<Process>,
    },
    /// Nothing is left in the unit's cgroup. Also the answer to [`Output::Kill`] of [`KillScope::All`] that found nobody.
    CgroupEmpty,
    /// The kernel killed something in the unit's cgroup for memory. Managers that did not count say it so.
    OomKill,
    /// The same, and how much it has killed there by now: whoever takes over counts on from there.
    OomKills {
        /// Processes.
        total: u64,
    },
    /// An sd_notify message that NotifyAccess= lets through.
    Notified(Box<Notification>),
    /// A deadline that this type set is over.
    Deadline(DeadlineKind),
    /// The PID file holds this pid, or cannot be read (yet).
    PidFile {
        /// The process it names, already checked to belong to the unit.
        process: Option<Process>,
    },
    /// The unit's bus name has an owner, or lost it.
    BusName {
        /// Whether somebody owns it.
        owned: bool,
    },
    /// Nobody can say who owns the unit's bus name: there is no bus.
    NoBus,
    /// No job but this one's is left to run: an idle service may go on.
    Idle,
    /// What this unit triggers changed its state.
    TriggeredChanged {
        /// Its state now.
        active: ActiveState,
        /// Why it is down, if it is.
        outcome: Outcome,
        /// Whether a start job for it is waiting or running.
        start_pending: bool,
    },
    /// The sockets asked for are open, or not.
    SocketsOpened {
        /// The error number of the first that failed.
        error: Option<SocketError>,
    },
    /// Something waits at a listening socket.
    Incoming,
    /// With Accept=yes: a connection was taken, for the instance of this number.
    Accepted {
        /// The connection's number, part of the instance's name.
        number: u64,
    },
    /// An instance that served a connection ended.
    ConnectionClosed,
    /// What a path unit watches exists, changed or is not empty.
    PathTriggered {
        /// Which of its specs.
        index: u16,
    },
    /// None of the watched conditions holds at the moment.
    PathsQuiet,
    /// The real-time clock was set, or the machine woke up: times must be computed anew.
    ClockChanged,
    /// The time zone changed: calendar times must be computed anew.
    TimezoneChanged,
    /// When a persistent timer last fired, in microseconds since 1970; the answer to [`Output::ReadStamp`].
    LastStamp {
        /// The stamp, if there is one.
        at: Option<i64>,
    },
    /// What a calendar expression gives next; the answer to [`Output::ComputeElapse`].
    NextElapse {
        /// The moment that the question named: an answer to an older question is ignored.
        after: i64,
        /// Real time in microseconds since 1970 per calendar spec; `None` for never.
        at: Vec<Option<i64>>,
    },
    /// The kernel's table of mounts or swaps has this unit, or no longer. The executor looks at the table before it
    /// reports the end of a mount, unmount, swap-on or swap-off command, so that a type knows what the command achieved.
    KernelTable {
        /// Whether it is there.
        present: bool,
    },
    /// A device appeared, or vanished.
    Plugged {
        /// Whether it is there.
        present: bool,
    },
    /// Somebody waits below an automount point.
    Waiting {
        /// The process that waits.
        pid: u32,
    },
    /// Something at an automount point expired.
    Expired,
    /// The automount point could not be set up (with the error number), or somebody took it away.
    AutomountGone {
        /// The system's error number, where setting it up failed.
        errno: Option<i32>,
    },
    /// Processes were handed over to a scope.
    Attached,
    /// Whoever made a scope does not look after it any longer.
    Abandon,
    /// A kept descriptor was closed because its other end is gone.
    StoredFdClosed {
        /// Its name.
        name: Box<str>,
    },
}

/// A socket that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketError {
    /// Which ListenX= line.
    pub index: u16,
    /// The system's error number.
    pub errno: i32,
}

/// What a type asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Output {
    /// Run a command of the unit.
    Spawn {
        /// What the process will be.
        role: Role,
        /// Which command.
        command: CommandRef,
    },
    /// Send a signal.
    Kill {
        /// To whom.
        scope: KillScope,
        /// Which.
        signal: u8,
        /// SIGCONT after it, so that a stopped process can act on it.
        and_continue: bool,
        /// SIGHUP after it (SendSIGHUP=).
        and_hangup: bool,
    },
    /// A process was started for a run that is over, or too late: kill exactly this one.
    KillStray {
        /// The process.
        pid: u32,
    },
    /// Tell me when this moment has come; `None` cancels.
    Deadline {
        /// Which of this type's deadlines.
        kind: DeadlineKind,
        /// When.
        at: Option<Time>,
    },
    /// Tell me (as [`DeadlineKind::Elapse`]) when this moment of real time has come (timers only); `None` cancels.
    RealDeadline {
        /// Microseconds since 1970.
        at: Option<i64>,
        /// Wake the machine from sleep for it.
        wake: bool,
    },
    /// Compute the next elapse of this unit's calendar expressions after a moment of real time.
    ComputeElapse {
        /// Microseconds since 1970.
        after: i64,
    },
    /// Start what this unit triggers.
    Trigger {
        /// With Accept=yes, the instance for this connection.
        connection: Option<u64>,
    },
    /// Stop what this unit triggers (an automount point whose mount is idle).
    StopTriggered,
    /// Close a connection that was taken: it is not served.
    DropConnection {
        /// Its number.
        number: u64,
    },
    /// Queue a restart of this unit: its restart policy says so and the pause is over.
    Restart,
    /// Record that a persistent timer has fired.
    StampTimer,
    /// Say when a persistent timer last fired.
    ReadStamp,
    /// Open the listening sockets.
    OpenSockets,
    /// Close them and remove what lies in the file system.
    CloseSockets,
    /// Watch the listening sockets for traffic, or stop watching.
    WatchSockets(bool),
    /// Throw away what waits at the listening sockets (FlushPending=).
    FlushSockets,
    /// Watch the paths and say at once whether a condition holds, or stop watching.
    WatchPaths(bool),
    /// Create the folders that MakeDirectory= asks for.
    MakeDirectories,
    /// Read the PID file, now and whenever it changes, until told otherwise.
    WatchPidFile(bool),
    /// Watch the bus name, or stop watching.
    WatchBusName(bool),
    /// Keep descriptors of the service.
    StoreFds(StoredFds),
    /// Close kept descriptors: those of this name, or all.
    DropFds(Option<Box<str>>),
    /// Set an automount point up, or take it away.
    Automount(bool),
    /// Answer those who wait at the automount point; an error number or 0.
    AnswerWaiting(i32),
    /// Let the kernel look for idle mounts below the automount point.
    ExpireMounts,
    /// Make the cgroup of a slice or scope and, for a scope, move its processes in.
    MakeCgroup,
    /// Remove the unit's cgroup if nothing is in it.
    ReleaseCgroup,
    /// Throw away what a run leaves behind (runtime folders, credentials).
    ReleaseResources,
    /// A line for the log about this unit.
    Log(Severity, Box<str>),
}

/// How much a log line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something is broken.
    Error,
    /// Something is odd.
    Warning,
    /// Something that an operator wants to see.
    Notice,
    /// Something that explains.
    Info,
    /// Something for whoever debugs the engine.
    Debug,
}

/// What a type may know when it handles an input, besides its own state and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The moment of the input.
    pub now: crate::ids::Clock,
    /// Whether this unit has a stop job, so that a restart policy must not act.
    pub stop_pending: bool,
    /// Whether a restart right now would break the start limit.
    pub start_limit_hit: bool,
    /// The whole machine is going down.
    pub shutting_down: bool,
    /// Whether this unit has a restart job.
    pub restart_pending: bool,
    /// The current or last run of this unit. A process of another run is a stray.
    pub invocation: InvocationId,
    /// What this unit triggers, if it triggers anything.
    pub triggered: Option<Triggered>,
}

/// What a trigger may know of the unit that it triggers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Triggered {
    /// Its state.
    pub active: ActiveState,
    /// When it last left the down states; 0 for never.
    pub inactive_exit: Time,
    /// When it last went down; 0 for never.
    pub inactive_enter: Time,
}
