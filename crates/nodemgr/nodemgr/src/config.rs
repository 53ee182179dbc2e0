//! The configuration: `nodemgr.yaml` (also JSON or TOML), drop-ins beside it, `MUSTER_NODEMGR__...` variables and `--set`.
//!
//! Everything has a default. Paths that are not absolute are taken from the folder of the configuration file.

mod policy;
mod providers;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration as Time;

use muster_config::{Duration, Problems, Validate};
use muster_lifecycle::timers::Timers;
use muster_machines::Settings;
use muster_mapping::LockUse;
use muster_schedule::Policy;
use muster_template::ProviderId;
use serde::Deserialize;

pub use self::policy::{RawPolicy, RawTimers};
pub(crate) use self::policy::{criterion, when_idle};
pub use self::providers::{
    AwsConfig, Common, DockerConfig, Jump, LibvirtConfig, Providers, RawDistribution,
    RawInstanceType, RawJump, RawProviders, RawSsh, SimConfig, SshConfig,
};

/// The keys of the configuration.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawConfig {
    /// Where the database, the manager's id and its secret are kept.
    pub state_dir: Option<PathBuf>,
    /// The socket.
    pub socket: Option<PathBuf>,
    /// Files and folders with templates: the folder `templates` beside the configuration, if it is there.
    pub templates: Option<Vec<PathBuf>>,
    /// Files and folders with mappings: the folder `mappings` beside the configuration, if it is there.
    pub mappings: Option<Vec<PathBuf>>,
    /// The lock file: `machines.lock` in the state folder.
    pub lock_file: Option<PathBuf>,
    /// `keep`: what is pinned is used, what is not is found and pinned. `frozen`: only what is pinned is used. `off`: nothing is.
    pub lock: Option<String>,
    /// What counts when a machine is chosen.
    pub policy: RawPolicy,
    /// When machines are put away, unless they are ordered otherwise.
    pub timers: RawTimers,
    /// Who makes machines.
    pub providers: RawProviders,
    /// Warm pools.
    pub pools: BTreeMap<String, RawPool>,
    /// How patient it is, and how much it takes.
    pub registry: RawRegistry,
    /// What is kept of runs.
    pub runs: RawRuns,
}

/// A warm pool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawPool {
    /// What its machines are made from.
    pub template: String,
    /// Who makes them; unset leaves it to the policy.
    pub provider: Option<String>,
    /// So many are ready without work.
    pub min_idle: u32,
    /// So many there may be in all.
    pub max: Option<u32>,
    /// What its owner says about them.
    pub labels: BTreeMap<String, String>,
    /// When they are put away.
    pub timers: RawTimers,
}

/// How patient it is, and how much it takes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawRegistry {
    /// How often machines on their way are looked at: 1 s.
    pub poll: Option<Duration>,
    /// How often all machines are looked at: 1 min.
    pub sweep: Option<Duration>,
    /// How long a graceful stop may take before it is forced: 90 s, for containers 10 s and for libvirt's machines 60 s.
    pub stop_grace: Option<Duration>,
    /// How often an order or a verb is tried: 5 times.
    pub attempts: Option<u32>,
    /// How long to wait after the first failure; doubled with each: 1 s.
    pub retry: Option<Duration>,
    /// How long a call of a provider may take: 5 min; one that stops a machine, at least a minute more than `stopGrace`.
    pub call: Option<Duration>,
    /// How long machines that are gone are remembered: 1 h.
    pub remember: Option<Duration>,
    /// The longest time that timers and pools leave a machine alone with which nothing could be done: 1 h.
    pub rest_longest: Option<Duration>,
    /// How long a machine of a pool is kept that does not answer, if nobody ever used it: 10 min.
    pub silence: Option<Duration>,
    /// So many machines there may be: 10,000.
    pub machines: Option<u64>,
}

/// What is kept of runs.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawRuns {
    /// So many runs that have ended are kept: 100.
    pub keep: Option<u64>,
    /// For so long: 30 d.
    pub keep_for: Option<Duration>,
}

/// A pool that shall be there.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolConfig {
    /// Its template.
    pub template: String,
    /// Who makes its machines, if that is fixed.
    pub provider: Option<ProviderId>,
    /// So many are ready without work.
    pub min_idle: u32,
    /// So many there may be in all.
    pub max: Option<u32>,
    /// What its owner says about them.
    pub labels: BTreeMap<String, String>,
    /// When they are put away.
    pub timers: Timers,
}

/// What is kept of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunsConfig {
    /// So many that have ended.
    pub keep: usize,
    /// For so long.
    pub keep_for: Time,
}

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is kept, if not at the usual place.
    pub state_dir: Option<PathBuf>,
    /// The socket, if not at the usual place.
    pub socket: Option<PathBuf>,
    /// Files and folders with templates, if they are named.
    pub templates: Option<Vec<PathBuf>>,
    /// Files and folders with mappings, if they are named.
    pub mappings: Option<Vec<PathBuf>>,
    /// The lock file, if not at the usual place.
    pub lock_file: Option<PathBuf>,
    /// How the lock file is used; `None`: not at all.
    pub lock: Option<LockUse>,
    /// What counts.
    pub policy: Policy,
    /// Whether a machine may be chosen that is no barrier, though nobody named its provider.
    pub insecure: bool,
    /// Whether a machine that is free will do, unless somebody prefers something else.
    pub reuse: bool,
    /// When machines are put away.
    pub timers: Timers,
    /// Who makes machines.
    pub providers: Providers,
    /// Pools that shall be there.
    pub pools: BTreeMap<String, PoolConfig>,
    /// How patient the registry is.
    pub registry: Settings,
    /// How long a graceful stop may take, if that is said: for providers that force it themselves.
    pub stop_grace: Option<Time>,
    /// What is kept of runs.
    pub runs: RunsConfig,
}

impl RawRegistry {
    fn settings(&self, problems: &mut Problems<'_>) -> Settings {
        let usual = Settings::default();
        let mut time = |key: &str, given: Option<Duration>, usual: Time| match given {
            Some(given) if given.get().is_zero() => {
                problems.report(&format!("registry.{key}"), "must be longer than 0s");
                usual
            }
            Some(given) => given.get(),
            None => usual,
        };
        let machines = self.machines.map(usize::try_from);
        Settings {
            poll: time("poll", self.poll, usual.poll),
            sweep: time("sweep", self.sweep, usual.sweep),
            stop_grace: time("stopGrace", self.stop_grace, usual.stop_grace),
            retry: time("retry", self.retry, usual.retry),
            call: time("call", self.call, usual.call),
            remember: time("remember", self.remember, usual.remember),
            rest_longest: time("restLongest", self.rest_longest, usual.rest_longest),
            silence: time("silence", self.silence, usual.silence),
            attempts: self.attempts.unwrap_or(usual.attempts).max(1),
            machines: machines.map_or(usual.machines, |it| it.unwrap_or(usize::MAX)),
            ..usual
        }
    }
}

fn lock_use(text: Option<&str>, problems: &mut Problems<'_>) -> Option<LockUse> {
    match text {
        None | Some("keep") => Some(LockUse::Keep),
        Some("frozen") => Some(LockUse::Frozen),
        Some("off") => None,
        Some(_) => {
            problems.report("lock", "must be keep, frozen or off");
            None
        }
    }
}

impl RawPool {
    fn pool(&self, usual: &Timers, problems: &mut Problems<'_>) -> Option<PoolConfig> {
        if self.template.is_empty() {
            problems.report("template", "must be given");
        }
        let provider = policy::provider("provider", self.provider.as_deref(), problems);
        if self.max.is_some_and(|max| max < self.min_idle) {
            problems.report("max", "must not be less than minIdle");
        }
        Some(PoolConfig {
            template: self.template.clone(),
            provider: provider?,
            min_idle: self.min_idle,
            max: self.max,
            labels: self.labels.clone(),
            timers: self.timers.timers(usual, problems)?,
        })
    }
}

impl Validate for RawConfig {
    type Valid = Config;

    fn validate(self, problems: &mut Problems<'_>) -> Option<Config> {
        let lock = lock_use(self.lock.as_deref(), problems);
        let policy = self.policy.policy(problems);
        let none = Timers::default();
        let timers = problems.within("timers", |problems| self.timers.timers(&none, problems));
        let providers = self.providers.providers(problems);
        let usual = timers.unwrap_or(none);
        let mut pools = BTreeMap::new();
        for (name, pool) in &self.pools {
            let valid = problems.within(&format!("pools.{name}"), |it| pool.pool(&usual, it));
            if let Some(valid) = valid {
                pools.insert(name.clone(), valid);
            }
        }
        let registry = self.registry.settings(problems);
        let keep = self.runs.keep.unwrap_or(100);
        let keep_for = self.runs.keep_for.map(Duration::get);
        Some(Config {
            state_dir: self.state_dir,
            socket: self.socket,
            templates: self.templates,
            mappings: self.mappings,
            lock_file: self.lock_file,
            lock,
            policy: policy?,
            insecure: self.policy.insecure,
            reuse: self.policy.prefer.iter().any(|it| it == "reuse"),
            timers: timers?,
            providers: providers?,
            pools,
            registry,
            stop_grace: self.registry.stop_grace.map(Duration::get),
            runs: RunsConfig {
                keep: usize::try_from(keep).unwrap_or(usize::MAX),
                keep_for: keep_for.unwrap_or(Time::from_secs(30 * 24 * 3600)),
            },
        })
    }
}
