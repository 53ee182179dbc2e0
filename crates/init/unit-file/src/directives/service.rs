//! Rows of `[Service]`.

use super::{Directive, EXECUTION, Status, custom, field, typed_field, wrong_type};
use crate::config::{CommandPhase, PhasedCommand, ServiceConfig, UnitConfig, UnitKind};
use crate::name::UnitType;
use crate::timespan::TimeSpan;
use crate::value::command::Commands;
use crate::value::number::Timeout;
use crate::value::path::{AbsolutePath, check_path};
use crate::value::words::list_words;
use crate::value::{AssignError, Setting, ValueContext, ValueError};
use Status::{Applied, Obsolete, Renamed};

macro_rules! service {
    ($name:literal, $($path:ident).+, $status:expr) => {
        typed_field!(Service, ServiceConfig, $name, $($path).+, $status)
    };
}

macro_rules! phase {
    ($name:literal, $phase:ident) => {
        custom!(
            $name,
            "command lines",
            "Service commands",
            Applied,
            |unit, text, context| { add_commands(unit, CommandPhase::$phase, text, context) }
        )
    };
}

pub(super) const SERVICE: &[Directive] = &[
    custom!("PIDFile", "path", "Service pid_file", Applied, pid_file),
    phase!("ExecCondition", Condition),
    phase!("ExecStartPre", StartPre),
    phase!("ExecStart", Start),
    phase!("ExecStartPost", StartPost),
    phase!("ExecReload", Reload),
    phase!("ExecStop", Stop),
    phase!("ExecStopPost", StopPost),
    service!("RestartSec", restart_sec, Applied),
    // Newer than systemd 252, with the meaning that later versions gave them.
    service!("RestartSteps", restart_steps, Applied),
    service!("RestartMaxDelaySec", restart_max_delay, Applied),
    service!("ReloadSignal", reload_signal, Applied),
    custom!(
        "TimeoutSec",
        "time span, 0 for never",
        "Service stated_timeout_start, timeout_stop",
        Applied,
        |unit, text, context| {
            let span = timeout(text, context)?;
            let service = service_of(unit, "TimeoutSec")?;
            service.stated_timeout_start = Some(span);
            service.timeout_stop = span;
            Ok(())
        }
    ),
    custom!(
        "TimeoutStartSec",
        "time span, 0 for never",
        "Service stated_timeout_start",
        Applied,
        |unit, text, context| {
            service_of(unit, "TimeoutStartSec")?.stated_timeout_start =
                Some(timeout(text, context)?);
            Ok(())
        }
    ),
    custom!(
        "TimeoutStopSec",
        "time span, 0 for never",
        "Service timeout_stop",
        Applied,
        |unit, text, context| {
            service_of(unit, "TimeoutStopSec")?.timeout_stop = timeout(text, context)?;
            Ok(())
        }
    ),
    service!("TimeoutAbortSec", timeout_abort, Applied),
    service!(
        "TimeoutStartFailureMode",
        timeout_start_failure_mode,
        Applied
    ),
    service!("TimeoutStopFailureMode", timeout_stop_failure_mode, Applied),
    service!("RuntimeMaxSec", runtime_max, Applied),
    service!(
        "RuntimeRandomizedExtraSec",
        runtime_randomized_extra,
        Applied
    ),
    service!("WatchdogSec", watchdog, Applied),
    service!("Type", stated_type, Applied),
    service!("ExitType", exit_type, Applied),
    service!("Restart", restart, Applied),
    service!(
        "PermissionsStartOnly",
        permissions_start_only,
        Obsolete("put + or ! before the command")
    ),
    service!("RootDirectoryStartOnly", root_directory_start_only, Applied),
    service!("RemainAfterExit", remain_after_exit, Applied),
    service!("GuessMainPID", guess_main_pid, Applied),
    service!("RestartPreventExitStatus", exits.restart_prevent, Applied),
    service!("RestartForceExitStatus", exits.restart_force, Applied),
    service!("SuccessExitStatus", exits.success, Applied),
    service!("NonBlocking", non_blocking, Applied),
    custom!("BusName", "bus name", "Service bus_name", Applied, bus_name),
    service!("FileDescriptorStoreMax", file_descriptor_store_max, Applied),
    service!("NotifyAccess", stated_notify_access, Applied),
    custom!(
        "Sockets",
        "socket units",
        "Service sockets",
        Applied,
        sockets
    ),
    service!(
        "USBFunctionDescriptors",
        usb_function_descriptors,
        EXECUTION
    ),
    service!("USBFunctionStrings", usb_function_strings, EXECUTION),
    service!("OOMPolicy", oom_policy, Applied),
    // Moved to [Unit] long ago, and still common here.
    field!(
        "StartLimitInterval",
        start_limit.interval,
        Renamed("[Unit] StartLimitIntervalSec")
    ),
    field!(
        "StartLimitBurst",
        start_limit.burst,
        Renamed("[Unit] StartLimitBurst")
    ),
    field!(
        "StartLimitAction",
        reactions.start_limit_action,
        Renamed("[Unit] StartLimitAction")
    ),
    field!(
        "FailureAction",
        reactions.failure_action,
        Renamed("[Unit] FailureAction")
    ),
    field!(
        "RebootArgument",
        reactions.reboot_argument,
        Renamed("[Unit] RebootArgument")
    ),
    custom!(
        "SysVStartPriority",
        "number",
        "nothing",
        Obsolete("there are no priorities any more"),
        |_, _, _| Ok(())
    ),
    custom!(
        "BusPolicy",
        "policy",
        "nothing",
        Obsolete("it belonged to a bus in the kernel"),
        |_, _, _| Ok(())
    ),
    // Muster's own.
    service!("HealthCheckExec", health.commands, Applied),
    service!("HealthCheckInterval", health.interval, Applied),
    service!("HealthCheckTimeout", health.timeout, Applied),
    service!("HealthCheckRetries", health.retries, Applied),
    service!("HealthCheckStartPeriod", health.start_period, Applied),
    service!("HealthCheckAction", health.action, Applied),
    service!("HealthCheckReadiness", health.readiness, Applied),
];

fn service_of<'a>(
    unit: &'a mut UnitConfig,
    name: &'static str,
) -> Result<&'a mut ServiceConfig, AssignError> {
    match &mut unit.kind {
        UnitKind::Service(service) => Ok(service),
        _ => Err(wrong_type(name)),
    }
}

/// Per unit; keeps resetting them cheap.
pub(super) const MAX_COMMANDS: usize = 1024;

fn add_commands(
    unit: &mut UnitConfig,
    phase: CommandPhase,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let mut added = Commands::new();
    added.assign(text, context)?;
    let service = service_of(unit, phase.as_str())?;
    if service.commands.len() + added.len() > MAX_COMMANDS {
        return Err(AssignError::Fatal(ValueError::range(
            text,
            "at most 1024 commands",
        )));
    }
    if added.is_empty() {
        service.commands.retain(|command| command.phase != phase);
    }
    service.commands.extend(
        added
            .into_iter()
            .map(|command| PhasedCommand { phase, command }),
    );
    Ok(())
}

fn timeout(text: &str, context: &mut ValueContext<'_>) -> Result<TimeSpan, AssignError> {
    if text.is_empty() {
        return Err(ValueError::Empty {
            expected: "a time span",
        }
        .into());
    }
    let mut timeout = Timeout::default();
    timeout.assign(text, context)?;
    Ok(timeout.0)
}

/// A relative path is taken below the runtime directory, and `/var/run` is where it points to.
fn pid_file(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let mut path = context.expand(text)?.into_owned();
    let service = service_of(unit, "PIDFile")?;
    if path.is_empty() {
        service.pid_file = None;
        return Ok(());
    }
    if !path.starts_with('/') {
        path = format!("{}/{path}", context.specifiers.host.runtime_directory);
    }
    let path = without_var_run(check_path(&path, true)?, context);
    service.pid_file = Some(AbsolutePath(path.into()));
    Ok(())
}

/// The path below `/run` for one below `/var/run`, with a note.
pub(super) fn without_var_run(path: String, context: &mut ValueContext<'_>) -> String {
    match path.strip_prefix("/var/run/") {
        Some(rest) => {
            context.warn(ValueError::Obsolete {
                what: "a path below /var/run (the one below /run is used)",
            });
            format!("/run/{rest}")
        }
        None => path,
    }
}

fn bus_name(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let name = context.expand(text)?.into_owned();
    let service = service_of(unit, "BusName")?;
    if name.is_empty() {
        service.bus_name = None;
        return Ok(());
    }
    let element = |part: &str| {
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_ascii_digit())
            && part
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    if name.len() > 255 || !name.contains('.') || !name.split('.').all(element) {
        return Err(ValueError::invalid(&name, "a bus name such as org.example.Name").into());
    }
    service.bus_name = Some(name.into());
    Ok(())
}

fn sockets(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let service = service_of(unit, "Sockets")?;
    if text.is_empty() {
        service.sockets.clear();
        return Ok(());
    }
    for word in list_words(text)? {
        match context.unit_name(&word) {
            Ok(name) if name.unit_type() == UnitType::Socket => service.sockets.push(name),
            Ok(name) => context.warn(ValueError::invalid(name.as_str(), "a socket unit")),
            Err(error) => context.warn(error),
        }
    }
    Ok(())
}
