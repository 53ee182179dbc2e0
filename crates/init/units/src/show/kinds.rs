//! Mounts, swaps, timers, watched paths, scopes, and how processes are ended.

use muster_unit_file::config::{
    AutomountConfig, MountConfig, OomPolicy, PathConfig, ScopeConfig, SwapConfig, TimerBase,
    TimerConfig, TimerSpec,
};
use muster_unit_file::timespan::TimeSpan;

use super::Subject;
use super::sheet::{INFINITY, NOT_SET, Sheet};

pub(super) fn add_mount(subject: &Subject<'_>, mount: &MountConfig, sheet: &mut Sheet<'_>) {
    sheet.optional("Where", mount.r#where.as_ref().map(|path| &path.0));
    sheet.optional("What", mount.what.as_deref());
    sheet.optional("Options", mount.options.as_deref());
    sheet.optional("Type", mount.fs_type.as_deref());
    sheet.span("TimeoutUSec", mount.timeout.0);
    sheet.shown("ControlPID", subject.runtime.processes.control_pid);
    sheet.shown("DirectoryMode", mount.directory_mode);
    sheet.flag("SloppyOptions", mount.sloppy_options);
    sheet.flag("LazyUnmount", mount.lazy_unmount);
    sheet.flag("ForceUnmount", mount.force_unmount);
    sheet.flag("ReadWriteOnly", mount.read_write_only);
    sheet.text("Result", &*subject.runtime.result);
    add_owner(subject, sheet);
}

fn add_owner(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    sheet.number_or("UID", subject.runtime.processes.uid, NOT_SET);
    sheet.number_or("GID", subject.runtime.processes.gid, NOT_SET);
}

pub(super) fn add_automount(
    subject: &Subject<'_>,
    automount: &AutomountConfig,
    sheet: &mut Sheet<'_>,
) {
    sheet.optional("Where", automount.r#where.as_ref().map(|path| &path.0));
    sheet.optional("ExtraOptions", automount.extra_options.as_deref());
    sheet.shown("DirectoryMode", automount.directory_mode);
    sheet.text("Result", &*subject.runtime.result);
    sheet.span("TimeoutIdleUSec", automount.timeout_idle);
}

pub(super) fn add_swap(subject: &Subject<'_>, swap: &SwapConfig, sheet: &mut Sheet<'_>) {
    sheet.optional("What", swap.what.as_ref().map(|path| &path.0));
    sheet.shown("Priority", swap.priority.unwrap_or(-1));
    sheet.optional("Options", swap.options.as_deref());
    sheet.span("TimeoutUSec", swap.timeout.0);
    sheet.shown("ControlPID", subject.runtime.processes.control_pid);
    sheet.text("Result", &*subject.runtime.result);
    add_owner(subject, sheet);
}

pub(super) fn add_timer(subject: &Subject<'_>, timer: &TimerConfig, sheet: &mut Sheet<'_>) {
    let elapses = &subject.runtime.elapses;
    sheet.optional("Unit", triggered(subject));
    let next = |n: usize| elapses.lines.get(n).copied().unwrap_or(0);
    let mut monotonic = Vec::new();
    let mut calendar = Vec::new();
    for (n, spec) in timer.timers.iter().enumerate() {
        match spec {
            TimerSpec::Monotonic { base, span } => {
                let next = TimeSpan::from_micros(next(n));
                let base = base_name(*base);
                monotonic.push(format!("{{ {base}={span} ; next_elapse={next} }}"));
            }
            TimerSpec::Calendar(spec) => {
                let next = sheet.format_moment(next(n));
                let next = next.unwrap_or_else(|| "(null)".to_owned());
                calendar.push(format!("{{ OnCalendar={spec} ; next_elapse={next} }}"));
            }
        }
    }
    // The latest line comes first.
    sheet.rows("TimersMonotonic", monotonic.into_iter().rev());
    sheet.rows("TimersCalendar", calendar.into_iter().rev());
    sheet.flag("OnClockChange", timer.on_clock_change);
    sheet.flag("OnTimezoneChange", timer.on_timezone_change);
    sheet.moment("NextElapseUSecRealtime", elapses.next_real);
    let next = elapses.next_monotonic.map(TimeSpan::from_micros);
    sheet.number_or("NextElapseUSecMonotonic", next, INFINITY);
    sheet.moment("LastTriggerUSec", elapses.last.real);
    let last = TimeSpan::from_micros(elapses.last.monotonic);
    sheet.span("LastTriggerUSecMonotonic", last);
    sheet.text("Result", &*subject.runtime.result);
    sheet.span("AccuracyUSec", timer.accuracy);
    sheet.span("RandomizedDelayUSec", timer.randomized_delay);
    sheet.flag("FixedRandomDelay", timer.fixed_random_delay);
    sheet.flag("Persistent", timer.persistent);
    sheet.flag("WakeSystem", timer.wake_system);
    sheet.flag("RemainAfterElapse", timer.remain_after_elapse);
}

fn base_name(base: TimerBase) -> &'static str {
    match base {
        TimerBase::Active => "OnActiveUSec",
        TimerBase::Boot => "OnBootUSec",
        TimerBase::Startup => "OnStartupUSec",
        TimerBase::UnitActive => "OnUnitActiveUSec",
        TimerBase::UnitInactive => "OnUnitInactiveUSec",
    }
}

/// The unit that is started; an alias is shown by its main name.
fn triggered<'g>(subject: &Subject<'g>) -> Option<&'g str> {
    let mut units = subject
        .unit
        .dependencies(muster_engine::dep::DepKind::Triggers);
    units.next().map(|name| name.as_str())
}

pub(super) fn add_path(subject: &Subject<'_>, path: &PathConfig, sheet: &mut Sheet<'_>) {
    sheet.optional("Unit", triggered(subject));
    let paths = path.paths.iter().rev();
    sheet.rows(
        "Paths",
        paths.map(|spec| format!("{} ({})", spec.path, spec.kind)),
    );
    sheet.flag("MakeDirectory", path.make_directory);
    sheet.shown("DirectoryMode", path.directory_mode);
    sheet.text("Result", &*subject.runtime.result);
    sheet.span("TriggerLimitIntervalUSec", path.trigger_interval());
    sheet.shown("TriggerLimitBurst", path.trigger_limit_burst);
}

pub(super) fn add_scope(subject: &Subject<'_>, scope: &ScopeConfig, sheet: &mut Sheet<'_>) {
    sheet.text("Controller", "");
    sheet.span("TimeoutStopUSec", scope.timeout_stop);
    sheet.text("Result", &*subject.runtime.result);
    sheet.span("RuntimeMaxUSec", scope.runtime_max);
    sheet.span("RuntimeRandomizedExtraUSec", scope.runtime_randomized_extra);
    sheet.shown("OOMPolicy", scope.oom_policy.unwrap_or(OomPolicy::Continue));
}

pub(super) fn add_kill(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let kill = &subject.config.kill;
    sheet.shown("KillMode", kill.mode);
    sheet.shown("KillSignal", kill.signal.number());
    let restart = kill.restart_signal.unwrap_or(kill.signal);
    sheet.shown("RestartKillSignal", restart.number());
    sheet.shown("FinalKillSignal", kill.final_signal.number());
    sheet.flag("SendSIGKILL", kill.send_sigkill);
    sheet.flag("SendSIGHUP", kill.send_sighup);
    sheet.shown("WatchdogSignal", kill.watchdog_signal.number());
}
