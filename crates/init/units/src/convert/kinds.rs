//! Sockets, mounts, swaps, timers, watched paths, scopes, and how processes are ended.

use muster_engine::ids::Span;
use muster_engine::protocol::ExecKind;
use muster_engine::spec::{
    AutomountSpec, KillMode as EngineKillMode, KillSpec, MountSpec, PathCheck,
    PathSpec as EnginePath, RateLimit, ScopeSpec, SocketSpec, SwapSpec, TimerBase as EngineBase,
    TimerSpec as EngineTimer,
};
use muster_unit_file::config::{
    AutomountConfig, KillMode, MountConfig, OomPolicy, PathConfig, PathKind, ScopeConfig,
    SocketConfig, SocketPhase, SwapConfig, TimerBase, TimerConfig, TimerSpec, UnitConfig,
};
use muster_unit_file::timespan::TimeSpan;

use super::{Moments, draw, service, span};

pub(super) fn kill(config: &UnitConfig) -> KillSpec {
    let kill = &config.kill;
    KillSpec {
        mode: match kill.mode {
            KillMode::ControlGroup => EngineKillMode::ControlGroup,
            KillMode::Process => EngineKillMode::Process,
            KillMode::Mixed => EngineKillMode::Mixed,
            KillMode::None => EngineKillMode::None,
        },
        signal: kill.signal.number(),
        restart_signal: kill.restart_signal.unwrap_or(kill.signal).number(),
        final_signal: kill.final_signal.number(),
        watchdog_signal: kill.watchdog_signal.number(),
        send_sigkill: kill.send_sigkill,
        send_sighup: kill.send_sighup,
    }
}

/// So many lines as the engine can count; more than that do not fit into a unit file.
fn count(lines: usize) -> u16 {
    u16::try_from(lines).unwrap_or(u16::MAX)
}

pub(super) fn socket(config: &UnitConfig, socket: &SocketConfig) -> SocketSpec {
    let commands = socket.commands.iter().map(|(phase, command)| {
        let kind = match phase {
            SocketPhase::StartPre => ExecKind::StartPre,
            SocketPhase::StartPost => ExecKind::StartPost,
            SocketPhase::StopPre => ExecKind::StopPre,
            SocketPhase::StopPost => ExecKind::StopPost,
        };
        service::command(kind, command)
    });
    SocketSpec {
        listeners: count(socket.listen.len()),
        accept: socket.accept,
        max_connections: socket.max_connections,
        flush_pending: socket.flush_pending,
        trigger_limit: RateLimit {
            interval: span(socket.trigger_interval()),
            burst: socket.trigger_burst(),
        },
        timeout: span(socket.timeout.0),
        commands: commands.collect(),
        kill: kill(config),
    }
}

pub(super) fn mount(config: &UnitConfig, mount: &MountConfig) -> MountSpec {
    MountSpec {
        timeout: span(mount.timeout.0),
        // What the kernel reports has a source too, but nothing says how to mount it again.
        configured: mount.what.is_some() && config.fragment.is_some(),
        lazy_unmount: mount.lazy_unmount,
        force_unmount: mount.force_unmount,
        kill: kill(config),
    }
}

pub(super) fn automount(automount: &AutomountConfig) -> AutomountSpec {
    AutomountSpec {
        // Never is written as zero or as infinity.
        idle_timeout: if automount.timeout_idle.is_infinite() {
            Span(0)
        } else {
            span(automount.timeout_idle)
        },
    }
}

pub(super) fn swap(config: &UnitConfig, swap: &SwapConfig) -> SwapSpec {
    SwapSpec {
        timeout: span(swap.timeout.0),
        configured: swap.what.is_some() && config.fragment.is_some(),
        kill: kill(config),
    }
}

pub(super) fn timer(config: &UnitConfig, timer: &TimerConfig, moments: Moments) -> EngineTimer {
    let monotonic = timer.timers.iter().filter_map(|spec| match spec {
        TimerSpec::Monotonic { base, span: length } => Some((timer_base(*base), span(*length))),
        TimerSpec::Calendar(_) => None,
    });
    let calendars = timer
        .timers
        .iter()
        .filter(|spec| matches!(spec, TimerSpec::Calendar(_)));
    let delay = if timer.randomized_delay == TimeSpan::ZERO {
        TimeSpan::ZERO
    } else {
        let seed = if timer.fixed_random_delay {
            moments.machine_seed
        } else {
            moments.seed
        };
        draw(timer.randomized_delay, seed, config.name.as_str())
    };
    EngineTimer {
        monotonic: monotonic.collect(),
        calendars: count(calendars.count()),
        accuracy: span(timer.accuracy),
        random_delay: span(delay),
        persistent: timer.persistent,
        wake_system: timer.wake_system,
        remain_after_elapse: timer.remain_after_elapse,
        on_clock_change: timer.on_clock_change,
        on_timezone_change: timer.on_timezone_change,
        startup: moments.startup,
    }
}

fn timer_base(base: TimerBase) -> EngineBase {
    match base {
        TimerBase::Active => EngineBase::Active,
        TimerBase::Boot => EngineBase::Boot,
        TimerBase::Startup => EngineBase::Startup,
        TimerBase::UnitActive => EngineBase::UnitActive,
        TimerBase::UnitInactive => EngineBase::UnitInactive,
    }
}

pub(super) fn path(path: &PathConfig) -> EnginePath {
    let checks = path.paths.iter().map(|spec| match spec.kind {
        PathKind::Exists => PathCheck::Exists,
        PathKind::ExistsGlob => PathCheck::ExistsGlob,
        PathKind::Changed => PathCheck::Changed,
        PathKind::Modified => PathCheck::Modified,
        PathKind::DirectoryNotEmpty => PathCheck::NotEmpty,
    });
    EnginePath {
        checks: checks.collect(),
        make_directory: path.make_directory,
        trigger_limit: RateLimit {
            interval: span(path.trigger_interval()),
            burst: path.trigger_limit_burst,
        },
    }
}

pub(super) fn scope(config: &UnitConfig, scope: &ScopeConfig, moments: Moments) -> ScopeSpec {
    let extra = scope.runtime_randomized_extra;
    ScopeSpec {
        timeout_stop: span(scope.timeout_stop),
        runtime_max: span(service::with_extra(
            config,
            scope.runtime_max,
            extra,
            moments,
        )),
        oom_policy: service::oom_policy(scope.oom_policy.unwrap_or(OomPolicy::Continue)),
        kill: kill(config),
    }
}
