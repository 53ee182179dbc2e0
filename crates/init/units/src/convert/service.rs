//! Services.

use muster_engine::protocol::ExecKind;
use muster_engine::spec::{
    CommandSpec, ExitStatusSet as EngineExits, ExitType as EngineExitType,
    HealthAction as EngineHealthAction, HealthSpec, NotifyAccess as EngineNotify,
    OomPolicy as EngineOom, Restart as EngineRestart, ServiceSpec, ServiceType as EngineType,
    TimeoutFailureMode,
};
use muster_unit_file::config::{
    CommandPhase, ExitType, HealthAction, HealthCheck, NotifyAccess, OomPolicy, Restart,
    ServiceConfig, ServiceType, TimeoutMode, UnitConfig,
};
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_unit_file::value::exit_status::ExitStatusSet;

use super::{Moments, draw, kinds, span};
use crate::effective;

pub(super) fn spec(config: &UnitConfig, service: &ServiceConfig, moments: Moments) -> ServiceSpec {
    let health = &*service.health;
    let health_commands = health
        .commands
        .iter()
        .map(|c| command(ExecKind::HealthCheck, c));
    let commands = service
        .commands
        .iter()
        .map(|phased| command(exec_kind(phased.phase), &phased.command));
    let extra = service.runtime_randomized_extra;
    let runtime_max = with_extra(config, service.runtime_max, extra, moments);
    ServiceSpec {
        service_type: service_type(service.service_type()),
        exit_type: match service.exit_type {
            ExitType::Main => EngineExitType::Main,
            ExitType::Cgroup => EngineExitType::Cgroup,
        },
        commands: commands.chain(health_commands).collect(),
        remain_after_exit: service.remain_after_exit,
        guess_main_pid: service.guess_main_pid,
        has_pid_file: service.pid_file.is_some(),
        restart: restart(service.restart),
        restart_sec: span(service.restart_sec),
        restart_steps: service.restart_steps,
        restart_max_delay: span(service.restart_max_delay),
        timeout_start: span(service.timeout_start()),
        timeout_stop: span(service.timeout_stop),
        timeout_abort: service.timeout_abort.map(span),
        start_failure_mode: failure_mode(service.timeout_start_failure_mode),
        stop_failure_mode: failure_mode(service.timeout_stop_failure_mode),
        runtime_max: span(runtime_max),
        // No watchdog is written as zero or as infinity; the engine knows the latter.
        watchdog: span(if service.watchdog == TimeSpan::ZERO {
            TimeSpan::INFINITY
        } else {
            service.watchdog
        }),
        notify_access: notify_access(service.notify_access()),
        success_status: exits(&service.exits.success).into(),
        restart_prevent: exits(&service.exits.restart_prevent).into(),
        restart_force: exits(&service.exits.restart_force).into(),
        fd_store_max: service.file_descriptor_store_max,
        oom_policy: oom_policy(effective::oom_policy(config, service)),
        kill: kinds::kill(config),
        reload_signal: service.reload_signal.number(),
        health: (!health.commands.is_empty()).then(|| health_spec(health)),
    }
}

/// A running time with the chance extra drawn.
pub(super) fn with_extra(
    config: &UnitConfig,
    time: TimeSpan,
    extra: TimeSpan,
    moments: Moments,
) -> TimeSpan {
    if time.is_infinite() || extra == TimeSpan::ZERO {
        return time;
    }
    let drawn = draw(extra, moments.seed, config.name.as_str());
    TimeSpan::from_micros(time.as_micros().saturating_add(drawn.as_micros()))
}

fn health_spec(health: &HealthCheck) -> HealthSpec {
    HealthSpec {
        interval: span(health.interval),
        timeout: span(health.timeout),
        retries: health.retries,
        start_period: span(health.start_period),
        action: match health.action {
            HealthAction::Fail => EngineHealthAction::Fail,
            HealthAction::Restart => EngineHealthAction::Restart,
            HealthAction::Report => EngineHealthAction::Report,
        },
        gates_readiness: health.readiness,
    }
}

pub(super) fn command(kind: ExecKind, command: &Command) -> CommandSpec {
    CommandSpec {
        kind,
        ignore_failure: command.flags.contains(CommandFlags::IGNORE_FAILURE),
    }
}

fn exec_kind(phase: CommandPhase) -> ExecKind {
    match phase {
        CommandPhase::Condition => ExecKind::Condition,
        CommandPhase::StartPre => ExecKind::StartPre,
        CommandPhase::Start => ExecKind::Start,
        CommandPhase::StartPost => ExecKind::StartPost,
        CommandPhase::Reload => ExecKind::Reload,
        CommandPhase::Stop => ExecKind::Stop,
        CommandPhase::StopPost => ExecKind::StopPost,
    }
}

fn service_type(kind: ServiceType) -> EngineType {
    match kind {
        ServiceType::Simple => EngineType::Simple,
        ServiceType::Exec => EngineType::Exec,
        ServiceType::Forking => EngineType::Forking,
        ServiceType::Oneshot => EngineType::Oneshot,
        ServiceType::Dbus => EngineType::Dbus,
        ServiceType::Notify => EngineType::Notify,
        ServiceType::NotifyReload => EngineType::NotifyReload,
        ServiceType::Idle => EngineType::Idle,
    }
}

fn restart(restart: Restart) -> EngineRestart {
    match restart {
        Restart::No => EngineRestart::No,
        Restart::OnSuccess => EngineRestart::OnSuccess,
        Restart::OnFailure => EngineRestart::OnFailure,
        Restart::OnAbnormal => EngineRestart::OnAbnormal,
        Restart::OnWatchdog => EngineRestart::OnWatchdog,
        Restart::OnAbort => EngineRestart::OnAbort,
        Restart::Always => EngineRestart::Always,
    }
}

fn failure_mode(mode: TimeoutMode) -> TimeoutFailureMode {
    match mode {
        TimeoutMode::Terminate => TimeoutFailureMode::Terminate,
        TimeoutMode::Abort => TimeoutFailureMode::Abort,
        TimeoutMode::Kill => TimeoutFailureMode::Kill,
    }
}

fn notify_access(access: NotifyAccess) -> EngineNotify {
    match access {
        NotifyAccess::None => EngineNotify::None,
        NotifyAccess::All => EngineNotify::All,
        NotifyAccess::Exec => EngineNotify::Exec,
        NotifyAccess::Main => EngineNotify::Main,
    }
}

pub(super) fn oom_policy(policy: OomPolicy) -> EngineOom {
    match policy {
        OomPolicy::Stop => EngineOom::Stop,
        OomPolicy::Continue => EngineOom::Continue,
        OomPolicy::Kill => EngineOom::Kill,
    }
}

fn exits(set: &ExitStatusSet) -> EngineExits {
    let mut out = EngineExits::default();
    for status in set.statuses() {
        out.add_code(status);
    }
    for signal in set.signals() {
        out.add_signal(signal.number());
    }
    out
}
