//! Rows of `[Mount]`, `[Automount]`, `[Swap]`, `[Timer]`, `[Path]` and `[Scope]`.

use super::{Directive, Status, custom, typed_field, wrong_type};
use crate::calendar::CalendarSpec;
use crate::config::{
    AutomountConfig, MountConfig, PathConfig, PathKind, PathSpec, ScopeConfig, SwapConfig,
    TimerBase, TimerConfig, TimerSpec, UnitConfig, UnitKind,
};
use crate::name::UnitName;
use crate::timespan::TimeSpan;
use crate::value::path::check_path;
use crate::value::{AssignError, ValueContext, ValueError};
use Status::Applied;

macro_rules! mount {
    ($name:literal, $($path:ident).+) => { typed_field!(Mount, MountConfig, $name, $($path).+, Applied) };
}

pub(super) const MOUNT: &[Directive] = &[
    mount!("What", what),
    mount!("Where", r#where),
    mount!("Options", options),
    mount!("Type", fs_type),
    mount!("TimeoutSec", timeout),
    mount!("DirectoryMode", directory_mode),
    mount!("SloppyOptions", sloppy_options),
    mount!("LazyUnmount", lazy_unmount),
    mount!("ForceUnmount", force_unmount),
    mount!("ReadWriteOnly", read_write_only),
];

macro_rules! automount {
    ($name:literal, $($path:ident).+) => { typed_field!(Automount, AutomountConfig, $name, $($path).+, Applied) };
}

pub(super) const AUTOMOUNT: &[Directive] = &[
    automount!("Where", r#where),
    automount!("ExtraOptions", extra_options),
    automount!("DirectoryMode", directory_mode),
    automount!("TimeoutIdleSec", timeout_idle),
];

macro_rules! swap {
    ($name:literal, $($path:ident).+) => { typed_field!(Swap, SwapConfig, $name, $($path).+, Applied) };
}

pub(super) const SWAP: &[Directive] = &[
    swap!("What", what),
    swap!("Priority", priority),
    swap!("Options", options),
    swap!("TimeoutSec", timeout),
];

macro_rules! timer {
    ($name:literal, $($path:ident).+) => { typed_field!(Timer, TimerConfig, $name, $($path).+, Applied) };
}

macro_rules! on {
    ($name:literal, $base:expr) => {
        custom!(
            $name,
            "time span or calendar",
            "Timer timers",
            Applied,
            |unit, text, context| { add_timer(unit, $base, text, context) }
        )
    };
}

pub(super) const TIMER: &[Directive] = &[
    on!("OnCalendar", None),
    on!("OnActiveSec", Some(TimerBase::Active)),
    on!("OnBootSec", Some(TimerBase::Boot)),
    on!("OnStartupSec", Some(TimerBase::Startup)),
    on!("OnUnitActiveSec", Some(TimerBase::UnitActive)),
    on!("OnUnitInactiveSec", Some(TimerBase::UnitInactive)),
    timer!("OnClockChange", on_clock_change),
    timer!("OnTimezoneChange", on_timezone_change),
    timer!("Persistent", persistent),
    timer!("WakeSystem", wake_system),
    timer!("RemainAfterElapse", remain_after_elapse),
    timer!("FixedRandomDelay", fixed_random_delay),
    timer!("AccuracySec", accuracy),
    timer!("RandomizedDelaySec", randomized_delay),
    custom!(
        "Unit",
        "unit name",
        "Timer unit",
        Applied,
        |unit, text, context| match &mut unit.kind {
            UnitKind::Timer(timer) => first_unit(&mut timer.unit, text, context),
            _ => Err(wrong_type("Unit")),
        }
    ),
];

/// What is started; as with systemd the first line counts and nothing resets it.
fn first_unit(
    slot: &mut Option<UnitName>,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let unit = context.unit_name(text)?;
    if slot.is_some() {
        let expected = "only one unit to start, the first one counts";
        return Err(ValueError::invalid(text, expected).into());
    }
    *slot = Some(unit);
    Ok(())
}

/// An empty value resets the times of every kind.
fn add_timer(
    unit: &mut UnitConfig,
    base: Option<TimerBase>,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let UnitKind::Timer(timer) = &mut unit.kind else {
        return Err(wrong_type("OnCalendar"));
    };
    if text.is_empty() {
        timer.timers.clear();
        return Ok(());
    }
    let text = context.expand(text)?;
    let spec = match base {
        Some(base) => {
            let span = TimeSpan::parse(&text)
                .map_err(|error| ValueError::invalid(&text, format!("a time span: {error}")))?;
            TimerSpec::Monotonic { base, span }
        }
        None => {
            let spec = CalendarSpec::parse(&text).map_err(|error| {
                ValueError::invalid(&text, format!("a calendar expression: {error}"))
            })?;
            TimerSpec::Calendar(Box::new(spec))
        }
    };
    timer.timers.push(spec);
    Ok(())
}

macro_rules! path {
    ($name:literal, $($path:ident).+) => { typed_field!(Path, PathConfig, $name, $($path).+, Applied) };
}

macro_rules! watch {
    ($name:literal, $kind:ident) => {
        custom!(
            $name,
            "absolute path",
            "Path paths",
            Applied,
            |unit, text, context| { add_path(unit, PathKind::$kind, text, context) }
        )
    };
}

pub(super) const PATH: &[Directive] = &[
    watch!("PathExists", Exists),
    watch!("PathExistsGlob", ExistsGlob),
    watch!("PathChanged", Changed),
    watch!("PathModified", Modified),
    watch!("DirectoryNotEmpty", DirectoryNotEmpty),
    custom!(
        "Unit",
        "unit name",
        "Path unit",
        Applied,
        |unit, text, context| match &mut unit.kind {
            UnitKind::Path(path) => first_unit(&mut path.unit, text, context),
            _ => Err(wrong_type("Unit")),
        }
    ),
    path!("MakeDirectory", make_directory),
    path!("DirectoryMode", directory_mode),
    path!("TriggerLimitIntervalSec", trigger_limit_interval),
    path!("TriggerLimitBurst", trigger_limit_burst),
];

/// An empty value resets the paths of every kind.
fn add_path(
    unit: &mut UnitConfig,
    kind: PathKind,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let UnitKind::Path(config) = &mut unit.kind else {
        return Err(wrong_type("PathExists"));
    };
    if text.is_empty() {
        config.paths.clear();
        return Ok(());
    }
    let path = check_path(&context.expand(text)?, true)?;
    config.paths.push(PathSpec {
        kind,
        path: path.into(),
    });
    Ok(())
}

macro_rules! scope {
    ($name:literal, $($path:ident).+) => { typed_field!(Scope, ScopeConfig, $name, $($path).+, Applied) };
}

pub(super) const SCOPE: &[Directive] = &[
    scope!("RuntimeMaxSec", runtime_max),
    scope!("RuntimeRandomizedExtraSec", runtime_randomized_extra),
    scope!("TimeoutStopSec", timeout_stop),
    scope!("OOMPolicy", oom_policy),
];
