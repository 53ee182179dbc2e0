//! What a unit file means: typed settings with systemd's defaults.
//!
//! [`UnitConfig`] is what every unit has, [`UnitKind`] what its type adds. The execution, kill and
//! resource settings stand in `exec`, `kill` and `resources`, whichever type has them. Groups that
//! few units use are [`Rare`], lists of texts are [`StrList`], and
//! names are shared: thousands of units fit into a few megabytes.

mod condition;
mod exec;
mod kinds;
mod rare;
mod resources;
mod sandbox;
mod scheduling;
mod service;
mod socket;
mod streams;

use std::sync::Arc;

pub use condition::{Condition, ConditionKind};
pub use exec::{
    Directories, Directory, DirectoryKind, DirectoryPreserve, ExecContext, LogLevel, Logging,
    Personality, SyslogFacility, SyslogLevel, Terminal, UtmpMode,
};
pub use kinds::{
    AutomountConfig, KillContext, KillMode, MountConfig, PathConfig, PathKind, PathSpec,
    ScopeConfig, SwapConfig, TimerBase, TimerConfig, TimerSpec,
};
pub(crate) use rare::rare;
pub use rare::{Rare, RareDefault};
pub use resources::{
    CpuQuota, CpuWeight, Delegation, DevicePolicy, DeviceValue, DeviceValues, LegacyIo,
    MemoryAmount, OomMode, OomPreference, PressureWatch, ResourceControl, TasksAmount, Weight,
};
pub use sandbox::{
    Credentials, Images, KeyringMode, MountPropagation, PrivateUsers, ProcSubset,
    ProtectControlGroups, ProtectHome, ProtectProc, ProtectSystem, Sandbox, SecurityLabels,
};
pub use scheduling::{
    CoredumpFilter, IoClass, IoPriority, Nice, NumaPolicy, OomScoreAdjust, RealtimePriority,
    Scheduling, SchedulingPolicy,
};
pub use service::{
    CommandPhase, ExitPolicies, ExitType, HealthAction, HealthCheck, NotifyAccess, OomPolicy,
    PhasedCommand, Restart, ServiceConfig, ServiceType, TimeoutMode,
};
pub use socket::{
    BindIpv6Only, SocketConfig, SocketOptions, SocketPhase, SocketProtocol, Timestamping,
    TypeOfService,
};

pub use streams::{ExecInput, ExecOutput, StdinData, WorkingDirectory};

use crate::name::{UnitName, UnitType};
use crate::timespan::TimeSpan;
use crate::value::list::StrList;
use crate::value::number::Timeout;
use crate::value::path::PathList;
use crate::value::{scalar_setting, word_enum, words};

/// What came of loading a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoadState {
    /// Its file was read.
    Loaded,
    /// There is no file, and the type needs one.
    #[default]
    NotFound,
    /// A file exists, but says something that makes the unit unusable.
    BadSetting,
    /// A file exists, but could not be read.
    Error,
    /// It is masked: nothing may start it.
    Masked,
}

impl LoadState {
    /// The word that `systemctl show` prints.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::NotFound => "not-found",
            Self::BadSetting => "bad-setting",
            Self::Error => "error",
            Self::Masked => "masked",
        }
    }
}

word_enum! {
    /// How a unit depends on another.
    DependencyKind, "dependency",
    Requires = "Requires", Requisite = "Requisite", Wants = "Wants", BindsTo = "BindsTo",
    PartOf = "PartOf", Upholds = "Upholds", Conflicts = "Conflicts", Before = "Before", After = "After",
    OnSuccess = "OnSuccess", OnFailure = "OnFailure", PropagatesReloadTo = "PropagatesReloadTo",
    ReloadPropagatedFrom = "ReloadPropagatedFrom", PropagatesStopTo = "PropagatesStopTo",
    StopPropagatedFrom = "StopPropagatedFrom", JoinsNamespaceOf = "JoinsNamespaceOf",
}

/// One dependency that the files state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dependency {
    /// Of which kind.
    pub kind: DependencyKind,
    /// On which unit.
    pub unit: UnitName,
}

word_enum! {
    /// How a job goes along with jobs that are already queued.
    JobMode, "job mode",
    Replace = "replace", Fail = "fail", ReplaceIrreversibly = "replace-irreversibly", Isolate = "isolate",
    Flush = "flush", IgnoreDependencies = "ignore-dependencies", IgnoreRequirements = "ignore-requirements",
    Triggering = "triggering",
}

word_enum! {
    /// What happens to the machine when a unit fails, succeeds or hits a limit.
    EmergencyAction, "action",
    None = "none", Reboot = "reboot", RebootForce = "reboot-force", RebootImmediate = "reboot-immediate",
    Poweroff = "poweroff", PoweroffForce = "poweroff-force", PoweroffImmediate = "poweroff-immediate",
    Exit = "exit", ExitForce = "exit-force",
}

word_enum! {
    /// When an unused unit is forgotten.
    CollectMode, "collect mode",
    Inactive = "inactive", InactiveOrFailed = "inactive-or-failed",
}

/// An exit status from 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCode(pub u8);

scalar_setting!(ExitCode, "exit status", |text: &str| {
    let expected = "an exit status from 0 to 255";
    text.parse()
        .map(ExitCode)
        .map_err(|_| crate::value::ValueError::invalid(text, expected))
});

/// How often a unit may be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartLimit {
    /// In how much time.
    pub interval: TimeSpan,
    /// How many times.
    pub burst: u32,
}

impl Default for StartLimit {
    fn default() -> Self {
        Self {
            interval: TimeSpan::from_secs(10),
            burst: 5,
        }
    }
}

/// Settings about jobs and about what follows success and failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Reactions {
    /// Of the units in `OnSuccess=`.
    pub on_success_job_mode: JobMode,
    /// Of the units in `OnFailure=`.
    pub on_failure_job_mode: JobMode,
    /// How long a job may wait and run.
    pub job_timeout: Timeout,
    /// How long a job may run; `None` follows `job_timeout`.
    pub job_running_timeout: Option<Timeout>,
    /// What happens then.
    pub job_timeout_action: EmergencyAction,
    /// With what argument.
    pub job_timeout_reboot_argument: Option<Box<str>>,
    /// When the start limit is hit.
    pub start_limit_action: EmergencyAction,
    /// When the unit fails.
    pub failure_action: EmergencyAction,
    /// When the unit stops without failing.
    pub success_action: EmergencyAction,
    /// The exit status that goes with `failure_action`.
    pub failure_action_exit_status: Option<ExitCode>,
    /// The exit status that goes with `success_action`.
    pub success_action_exit_status: Option<ExitCode>,
    /// The argument for a reboot.
    pub reboot_argument: Option<Box<str>>,
    /// The file that a generator made this unit from.
    pub source_path: Option<crate::value::path::AbsolutePath>,
    /// When the unit is forgotten.
    pub collect_mode: CollectMode,
}

impl Default for Reactions {
    fn default() -> Self {
        Self {
            on_success_job_mode: JobMode::Fail,
            on_failure_job_mode: JobMode::Replace,
            job_timeout: Timeout::default(),
            job_running_timeout: None,
            job_timeout_action: EmergencyAction::None,
            job_timeout_reboot_argument: None,
            start_limit_action: EmergencyAction::None,
            failure_action: EmergencyAction::None,
            success_action: EmergencyAction::None,
            failure_action_exit_status: None,
            success_action_exit_status: None,
            reboot_argument: None,
            source_path: None,
            collect_mode: CollectMode::Inactive,
        }
    }
}

/// What the `[Install]` section says; words as written, specifiers are for the moment of enabling.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstallSection {
    /// Other names.
    pub alias: RawWords,
    /// Units whose `.wants/` folder gets a link.
    pub wanted_by: RawWords,
    /// Units whose `.requires/` folder gets a link.
    pub required_by: RawWords,
    /// Units whose `.upholds/` folder gets a link.
    pub upheld_by: RawWords,
    /// Units that are enabled and disabled together with this one.
    pub also: RawWords,
    /// The instance that a template is enabled as.
    pub default_instance: Option<RawText>,
}

rare!(Reactions, InstallSection);

/// Words whose specifiers are not expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawWords(pub StrList);

impl crate::value::Setting for RawWords {
    const KIND: &'static str = "list of texts";

    fn assign(
        &mut self,
        text: &str,
        _: &mut crate::value::ValueContext<'_>,
    ) -> Result<(), crate::value::AssignError> {
        if text.is_empty() {
            self.0.clear();
        }
        for word in words::list_words(text)? {
            self.0.push(&word);
        }
        Ok(())
    }
}

/// Text whose specifiers are not expanded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawText(pub Box<str>);

scalar_setting!(RawText, "text", |text: &str| Ok::<
    _,
    crate::value::ValueError,
>(RawText(text.into())));

/// Everything that the files of a unit say.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitConfig {
    /// The main name.
    pub name: UnitName,
    /// Other names, by symbolic links.
    pub aliases: Vec<UnitName>,
    /// What came of loading.
    pub load_state: LoadState,
    /// The main file.
    pub fragment: Option<Arc<str>>,
    /// Files that were read after it, in their order.
    pub drop_ins: Vec<Arc<str>>,
    /// For people.
    pub description: Option<Box<str>>,
    /// Where to read more.
    pub documentation: StrList,
    /// Dependencies that the files and folders state, without those that the engine adds.
    pub dependencies: Vec<Dependency>,
    /// Paths whose mounts are needed.
    pub requires_mounts_for: PathList,
    /// `Condition...=` and `Assert...=`, in their order.
    pub conditions: Vec<Condition>,
    /// Stopped when nothing needs it any more.
    pub stop_when_unneeded: bool,
    /// People may not start it.
    pub refuse_manual_start: bool,
    /// People may not stop it.
    pub refuse_manual_stop: bool,
    /// `isolate` may name it.
    pub allow_isolate: bool,
    /// The usual dependencies on targets are added.
    pub default_dependencies: bool,
    /// Left alone by `isolate`; `None` is the type's default.
    pub ignore_on_isolate: Option<bool>,
    /// How often it may be started.
    pub start_limit: StartLimit,
    /// Jobs, actions, limits.
    pub reactions: Rare<Reactions>,
    /// The slice that it is part of; `None` is the type's default.
    pub slice: Option<UnitName>,
    /// How its processes are set up.
    pub exec: Rare<ExecContext>,
    /// How its processes are ended.
    pub kill: Rare<KillContext>,
    /// What its processes may use.
    pub resources: Rare<ResourceControl>,
    /// What its type adds.
    pub kind: UnitKind,
    /// What enabling it means.
    pub install: Rare<InstallSection>,
}

/// What the type of a unit adds.
#[derive(Clone, Debug, PartialEq)]
pub enum UnitKind {
    /// A program.
    Service(Box<ServiceConfig>),
    /// A socket that starts a service.
    Socket(Box<SocketConfig>),
    /// A mount point.
    Mount(Box<MountConfig>),
    /// A mount point that is mounted when used.
    Automount(Box<AutomountConfig>),
    /// A swap device or file.
    Swap(Box<SwapConfig>),
    /// A clock that starts a unit.
    Timer(Box<TimerConfig>),
    /// A watched path that starts a unit.
    Path(Box<PathConfig>),
    /// Processes that someone else started.
    Scope(Box<ScopeConfig>),
    /// A part of the resource tree.
    Slice,
    /// A point to synchronise at.
    Target,
    /// A device of the machine.
    Device,
}

impl UnitKind {
    /// The defaults of a type.
    #[must_use]
    pub fn new(kind: UnitType) -> Self {
        match kind {
            UnitType::Service => Self::Service(Box::default()),
            UnitType::Socket => Self::Socket(Box::default()),
            UnitType::Mount => Self::Mount(Box::default()),
            UnitType::Automount => Self::Automount(Box::default()),
            UnitType::Swap => Self::Swap(Box::default()),
            UnitType::Timer => Self::Timer(Box::default()),
            UnitType::Path => Self::Path(Box::default()),
            UnitType::Scope => Self::Scope(Box::default()),
            UnitType::Slice => Self::Slice,
            UnitType::Target => Self::Target,
            UnitType::Device => Self::Device,
        }
    }
}

impl UnitConfig {
    /// A unit about which nothing is known yet.
    #[must_use]
    pub fn new(name: UnitName) -> Self {
        let kind = UnitKind::new(name.unit_type());
        Self {
            name,
            aliases: Vec::new(),
            load_state: LoadState::NotFound,
            fragment: None,
            drop_ins: Vec::new(),
            description: None,
            documentation: StrList::default(),
            dependencies: Vec::new(),
            requires_mounts_for: PathList::default(),
            conditions: Vec::new(),
            stop_when_unneeded: false,
            refuse_manual_start: false,
            refuse_manual_stop: false,
            allow_isolate: false,
            default_dependencies: true,
            ignore_on_isolate: None,
            start_limit: StartLimit::default(),
            reactions: Rare::default(),
            slice: None,
            exec: Rare::default(),
            kill: Rare::default(),
            resources: Rare::default(),
            kind,
            install: Rare::default(),
        }
    }

    /// The units that this one depends on in one way, in the order of the files.
    pub fn dependencies(&self, kind: DependencyKind) -> impl Iterator<Item = &UnitName> {
        self.dependencies
            .iter()
            .filter(move |d| d.kind == kind)
            .map(|d| &d.unit)
    }

    /// Adds a dependency; doubled ones disappear in [`UnitConfig::compact`].
    pub fn add_dependency(&mut self, kind: DependencyKind, unit: UnitName) {
        self.dependencies.push(Dependency { kind, unit });
    }

    /// The description, or the name where there is none.
    #[must_use]
    pub fn description_or_name(&self) -> &str {
        self.description.as_deref().unwrap_or(self.name.as_str())
    }

    /// Merges what only the last of several lines decides, removes doubled dependencies and gives spare
    /// memory back. Loading ends with this.
    pub fn compact(&mut self) {
        let mut seen = std::collections::HashSet::new();
        let mut unique = std::mem::take(&mut self.dependencies);
        unique.retain(|dependency| seen.insert(dependency.clone()));
        self.dependencies = unique;
        self.dependencies.shrink_to_fit();
        self.conditions.shrink_to_fit();
        self.documentation.shrink();
        self.requires_mounts_for.0.shrink();
        self.drop_ins.shrink_to_fit();
        self.aliases.shrink_to_fit();
        self.reactions.compact();
        if !self.exec.is_default() {
            self.exec.shrink();
        }
        if !self.resources.ip_address_allow.0.is_empty()
            || !self.resources.ip_address_deny.0.is_empty()
        {
            self.resources.ip_address_allow.normalize();
            self.resources.ip_address_deny.normalize();
        }
        self.exec.compact();
        self.kill.compact();
        self.resources.compact();
        self.install.compact();
        if let UnitKind::Service(service) = &mut self.kind {
            service.commands.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts that every unit, service and process pays for. A field that few units set belongs into
    /// a [`Rare`] group.
    #[test]
    fn units_stay_small() {
        let sizes = [
            ("UnitConfig", size_of::<UnitConfig>(), 384),
            ("ServiceConfig", size_of::<ServiceConfig>(), 320),
            ("SocketConfig", size_of::<SocketConfig>(), 400),
            ("ExecContext", size_of::<ExecContext>(), 480),
            ("Dependency", size_of::<Dependency>(), 24),
            ("Condition", size_of::<Condition>(), 24),
        ];
        for (name, size, most) in sizes {
            assert!(size <= most, "{name} has {size} bytes, {most} are allowed");
        }
    }
}
