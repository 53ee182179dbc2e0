//! From a graph's unit to what the engine takes in.

mod kinds;
mod service;

use muster_engine::event::{LoadState as EngineLoad, LoadedUnit};
use muster_engine::ids::{Span, Time};
use muster_engine::job::JobMode as EngineJobMode;
use muster_engine::spec::{
    Check, EmergencyAction as EngineAction, KindSpec, RateLimit, UnitSettings, UnitSpec,
};
use muster_unit_file::config::{
    CollectMode, Condition, EmergencyAction, JobMode, LoadState, UnitConfig, UnitKind,
};
use muster_unit_file::timespan::TimeSpan;

use crate::effective;
use crate::graph::{Graph, Unit};
use crate::implicit;

/// What the engine must know and no file says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    /// When the manager started, which `OnStartupSec=` counts from.
    pub startup: Time,
    /// Chance, for `RandomizedDelaySec=` and `RuntimeRandomizedExtraSec=`.
    pub seed: u64,
    /// Chance that is the same whenever this machine starts, for `FixedRandomDelay=`.
    pub machine_seed: u64,
}

/// A length from zero up to `most` that follows from a seed and a unit's name, evenly spread.
fn draw(most: TimeSpan, seed: u64, name: &str) -> TimeSpan {
    let mut mixed = seed;
    for byte in name.bytes() {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let range = u128::from(most.as_micros()) + 1;
    let scaled = (u128::from(mixed) * range) >> 64;
    TimeSpan::from_micros(u64::try_from(scaled).unwrap_or(u64::MAX))
}

/// Every unit of a graph whose files were looked at, as the engine takes it in.
#[must_use]
pub fn loaded_units(graph: &Graph, moments: Moments) -> Vec<LoadedUnit> {
    graph
        .units()
        .filter(|unit| unit.config().is_some())
        .map(|unit| loaded_unit(unit, moments))
        .collect()
}

/// A unit as the engine takes it in. One that could not be loaded has no settings.
#[must_use]
pub fn loaded_unit(unit: Unit<'_>, moments: Moments) -> LoadedUnit {
    let name: Box<str> = unit.name().as_str().into();
    let Some(config) = unit.config() else {
        return LoadedUnit {
            name,
            aliases: Vec::new(),
            load: EngineLoad::NotFound,
            spec: None,
        };
    };
    let aliases = config.aliases.iter().map(|alias| alias.as_str().into());
    let load = match config.load_state {
        LoadState::Loaded => EngineLoad::Loaded,
        LoadState::NotFound => EngineLoad::NotFound,
        LoadState::BadSetting => EngineLoad::BadSetting,
        LoadState::Error => EngineLoad::Error,
        LoadState::Masked => EngineLoad::Masked,
    };
    let loaded = load == EngineLoad::Loaded;
    LoadedUnit {
        name,
        aliases: aliases.collect(),
        load,
        spec: loaded.then(|| Box::new(spec(unit, config, moments))),
    }
}

fn spec(unit: Unit<'_>, config: &UnitConfig, moments: Moments) -> UnitSpec {
    UnitSpec {
        description: effective::description(config).into(),
        // The engine adds the inverse of every edge itself.
        deps: unit
            .own_edges()
            .map(|(kind, other)| (kind, other.as_str().into()))
            .collect(),
        checks: config.conditions.iter().map(check).collect(),
        unit: settings(config).into(),
        kind: kind(config, moments),
    }
}

fn check(condition: &Condition) -> Check {
    let family = if condition.assert {
        "Assert"
    } else {
        "Condition"
    };
    let trigger = if condition.trigger { "|" } else { "" };
    let negate = if condition.negate { "!" } else { "" };
    let text = format!(
        "{family}{}={trigger}{negate}{}",
        condition.kind, condition.parameter
    );
    Check {
        text: text.into(),
        assert: condition.assert,
        trigger: condition.trigger,
    }
}

fn settings(config: &UnitConfig) -> UnitSettings {
    let reactions = &config.reactions;
    let by_type = implicit::ignored_on_isolate(config.name.unit_type());
    UnitSettings {
        stop_when_unneeded: config.stop_when_unneeded,
        refuse_manual_start: config.refuse_manual_start,
        refuse_manual_stop: config.refuse_manual_stop,
        allow_isolate: config.allow_isolate,
        ignore_on_isolate: config.ignore_on_isolate.unwrap_or(by_type),
        job_timeout: span(reactions.job_timeout.0),
        job_running_timeout: span(
            reactions
                .job_running_timeout
                .unwrap_or(reactions.job_timeout)
                .0,
        ),
        job_timeout_action: action(reactions.job_timeout_action),
        start_limit: RateLimit {
            interval: span(config.start_limit.interval),
            burst: config.start_limit.burst,
        },
        start_limit_action: action(reactions.start_limit_action),
        failure_action: action(reactions.failure_action),
        success_action: action(reactions.success_action),
        on_failure_mode: job_mode(reactions.on_failure_job_mode),
        on_success_mode: job_mode(reactions.on_success_job_mode),
        collect_failed: reactions.collect_mode == CollectMode::InactiveOrFailed,
        perpetual: implicit::is_perpetual(&config.name),
    }
}

fn kind(config: &UnitConfig, moments: Moments) -> KindSpec {
    match &config.kind {
        UnitKind::Service(service) => {
            KindSpec::Service(Box::new(service::spec(config, service, moments)))
        }
        UnitKind::Socket(socket) => KindSpec::Socket(Box::new(kinds::socket(config, socket))),
        UnitKind::Mount(mount) => KindSpec::Mount(Box::new(kinds::mount(config, mount))),
        UnitKind::Automount(automount) => KindSpec::Automount(kinds::automount(automount)),
        UnitKind::Swap(swap) => KindSpec::Swap(Box::new(kinds::swap(config, swap))),
        UnitKind::Timer(timer) => KindSpec::Timer(Box::new(kinds::timer(config, timer, moments))),
        UnitKind::Path(path) => KindSpec::Path(Box::new(kinds::path(path))),
        UnitKind::Scope(scope) => KindSpec::Scope(Box::new(kinds::scope(config, scope, moments))),
        UnitKind::Slice => KindSpec::Slice(Default::default()),
        UnitKind::Target => KindSpec::Target(Default::default()),
        UnitKind::Device => KindSpec::Device(Default::default()),
    }
}

/// Both sides count microseconds and mean "never" by the largest number.
fn span(span: TimeSpan) -> Span {
    Span(span.as_micros())
}

fn action(action: EmergencyAction) -> EngineAction {
    match action {
        EmergencyAction::None => EngineAction::None,
        EmergencyAction::Reboot => EngineAction::Reboot,
        EmergencyAction::RebootForce => EngineAction::RebootForce,
        EmergencyAction::RebootImmediate => EngineAction::RebootImmediate,
        EmergencyAction::Poweroff => EngineAction::Poweroff,
        EmergencyAction::PoweroffForce => EngineAction::PoweroffForce,
        EmergencyAction::PoweroffImmediate => EngineAction::PoweroffImmediate,
        EmergencyAction::Exit => EngineAction::Exit,
        EmergencyAction::ExitForce => EngineAction::ExitForce,
    }
}

fn job_mode(mode: JobMode) -> EngineJobMode {
    match mode {
        JobMode::Replace => EngineJobMode::Replace,
        JobMode::Fail => EngineJobMode::Fail,
        JobMode::ReplaceIrreversibly => EngineJobMode::ReplaceIrreversibly,
        JobMode::Isolate => EngineJobMode::Isolate,
        JobMode::Flush => EngineJobMode::Flush,
        JobMode::IgnoreDependencies => EngineJobMode::IgnoreDependencies,
        JobMode::IgnoreRequirements => EngineJobMode::IgnoreRequirements,
        JobMode::Triggering => EngineJobMode::Triggering,
    }
}
