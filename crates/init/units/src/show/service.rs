//! Services.

use muster_unit_file::config::{CommandPhase, ServiceConfig};
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::exit_status::ExitStatusSet;

use super::sheet::{NOT_SET, Sheet};
use super::{Subject, command};
use crate::effective;

/// Per phase of commands: the property, and the one that has all flags.
const COMMANDS: [(CommandPhase, &str, &str); 7] = [
    (CommandPhase::Condition, "ExecCondition", "ExecConditionEx"),
    (CommandPhase::StartPre, "ExecStartPre", "ExecStartPreEx"),
    (CommandPhase::Start, "ExecStart", "ExecStartEx"),
    (CommandPhase::StartPost, "ExecStartPost", "ExecStartPostEx"),
    (CommandPhase::Reload, "ExecReload", "ExecReloadEx"),
    (CommandPhase::Stop, "ExecStop", "ExecStopEx"),
    (CommandPhase::StopPost, "ExecStopPost", "ExecStopPostEx"),
];

pub(super) fn add(subject: &Subject<'_>, service: &ServiceConfig, sheet: &mut Sheet<'_>) {
    add_policy(subject, service, sheet);
    add_state(subject, service, sheet);
    for (phase, plain, full) in COMMANDS {
        command::add(subject, sheet, plain, service.commands(phase));
        command::add_with_flags(subject, sheet, (full, plain), service.commands(phase));
    }
}

fn add_policy(subject: &Subject<'_>, service: &ServiceConfig, sheet: &mut Sheet<'_>) {
    // Which type it is follows from the whole file, so without one there is none.
    let configured = subject.is_configured();
    sheet.optional("Type", configured.then(|| service.service_type()));
    sheet.shown("ExitType", service.exit_type);
    sheet.shown("Restart", service.restart);
    sheet.optional("PIDFile", service.pid_file.as_ref().map(|path| &path.0));
    sheet.shown("NotifyAccess", service.notify_access());
    sheet.span("RestartUSec", service.restart_sec);
    let timeout_start = if configured {
        service.timeout_start()
    } else {
        let stated = service.stated_timeout_start;
        stated.unwrap_or(ServiceConfig::default().timeout_stop)
    };
    sheet.span("TimeoutStartUSec", timeout_start);
    sheet.span("TimeoutStopUSec", service.timeout_stop);
    let abort = service.timeout_abort.unwrap_or(service.timeout_stop);
    sheet.span("TimeoutAbortUSec", abort);
    sheet.shown(
        "TimeoutStartFailureMode",
        service.timeout_start_failure_mode,
    );
    sheet.shown("TimeoutStopFailureMode", service.timeout_stop_failure_mode);
    sheet.span("RuntimeMaxUSec", service.runtime_max);
    sheet.span(
        "RuntimeRandomizedExtraUSec",
        service.runtime_randomized_extra,
    );
    // The watchdog is armed when the service starts.
    let armed = subject.runtime.processes.watchdog_interval;
    sheet.span("WatchdogUSec", armed.unwrap_or(TimeSpan::INFINITY));
    let fed = subject.runtime.processes.watchdog;
    sheet.moment("WatchdogTimestamp", fed.real);
    sheet.shown("WatchdogTimestampMonotonic", fed.monotonic);
    sheet.flag("RootDirectoryStartOnly", service.root_directory_start_only);
    sheet.flag("RemainAfterExit", service.remain_after_exit);
    sheet.flag("GuessMainPID", service.guess_main_pid);
    for (name, set) in [
        ("RestartPreventExitStatus", &service.exits.restart_prevent),
        ("RestartForceExitStatus", &service.exits.restart_force),
        ("SuccessExitStatus", &service.exits.success),
    ] {
        sheet.text(name, exit_statuses(set));
    }
}

fn exit_statuses(set: &ExitStatusSet) -> String {
    let statuses = set.statuses().map(|status| status.to_string());
    let signals = set
        .signals()
        .map(|signal| signal.to_string().trim_start_matches("SIG").to_owned());
    statuses.chain(signals).collect::<Vec<_>>().join(" ")
}

fn add_state(subject: &Subject<'_>, service: &ServiceConfig, sheet: &mut Sheet<'_>) {
    let processes = &subject.runtime.processes;
    sheet.shown("MainPID", processes.main_pid);
    sheet.shown("ControlPID", processes.control_pid);
    sheet.optional("BusName", service.bus_name.as_deref());
    sheet.shown("FileDescriptorStoreMax", service.file_descriptor_store_max);
    sheet.shown("NFileDescriptorStore", processes.stored_descriptors);
    sheet.text("StatusText", &*processes.status_text);
    sheet.shown("StatusErrno", processes.status_errno);
    sheet.text("Result", &*subject.runtime.result);
    sheet.text("ReloadResult", &*processes.reload_result);
    sheet.text("CleanResult", &*processes.clean_result);
    let usb = [
        ("USBFunctionDescriptors", &service.usb_function_descriptors),
        ("USBFunctionStrings", &service.usb_function_strings),
    ];
    for (name, path) in usb {
        sheet.optional(name, path.as_ref().map(|path| &path.0));
    }
    sheet.number_or("UID", processes.uid, NOT_SET);
    sheet.number_or("GID", processes.gid, NOT_SET);
    sheet.shown("NRestarts", processes.restarts);
    let oom_policy = effective::oom_policy(&subject.config, service);
    sheet.optional("OOMPolicy", subject.is_configured().then_some(oom_policy));
    let main = &processes.main;
    sheet.moment("ExecMainStartTimestamp", main.start.real);
    sheet.shown("ExecMainStartTimestampMonotonic", main.start.monotonic);
    sheet.moment("ExecMainExitTimestamp", main.exit.real);
    sheet.shown("ExecMainExitTimestampMonotonic", main.exit.monotonic);
    sheet.shown("ExecMainPID", main.pid);
    sheet.shown("ExecMainCode", main.code);
    sheet.shown("ExecMainStatus", main.status);
}
