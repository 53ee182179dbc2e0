//! How processes are set up, up to where their output goes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_unit_file::config::{
    ExecInput, ExecOutput, IoClass, Scheduling, SchedulingPolicy, Terminal, UnitKind,
};
use muster_unit_file::name::UnitType;

use super::sheet::Sheet;
use super::{Subject, limits};
use crate::effective;

pub(super) fn add(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let exec = &subject.config.exec;
    sheet.list("Environment", exec.environment.0.iter());
    let files = exec.environment_files.0.iter();
    let files = files.map(|file| {
        let optional = if file.optional { "yes" } else { "no" };
        format!("{} (ignore_errors={optional})", file.path)
    });
    sheet.rows("EnvironmentFiles", files);
    sheet.list("PassEnvironment", exec.pass_environment.0.iter());
    sheet.list("UnsetEnvironment", exec.unset_environment.0.iter());
    sheet.shown("UMask", exec.umask);
    limits::add(subject, sheet);
    let directory = exec.working_directory.as_ref().map(|directory| {
        let mark = if directory.optional { "!" } else { "" };
        format!("{mark}{}", directory.path.as_deref().unwrap_or("~"))
    });
    sheet.optional("WorkingDirectory", directory);
    add_images(subject, sheet);
    add_scheduling(&exec.scheduling, subject.host.timer_slack, sheet);
    let non_blocking = match &subject.config.kind {
        UnitKind::Service(service) => service.non_blocking,
        _ => false,
    };
    sheet.flag("NonBlocking", non_blocking);
    add_streams(subject, sheet);
    add_terminal(&exec.terminal, sheet);
    add_logging(subject, sheet);
}

fn add_images(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let images = &subject.config.exec.images;
    let path = |path: &Option<muster_unit_file::value::path::AbsolutePath>| {
        path.as_ref().map(|path| path.0.to_string())
    };
    sheet.optional("RootDirectory", path(&images.root_directory));
    sheet.optional("RootImage", path(&images.root_image));
    let options = images.root_image_options.iter();
    let options = options.map(|options| match options.split_once(':') {
        Some(_) => options.to_owned(),
        None => format!("root:{options}"),
    });
    sheet.rows("RootImageOptions", options);
    for (hash, path, value) in [
        ("RootHash", "RootHashPath", &images.root_hash),
        (
            "RootHashSignature",
            "RootHashSignaturePath",
            &images.root_hash_signature,
        ),
    ] {
        let value = value.as_deref().unwrap_or_default();
        let (as_hash, as_path) = if value.starts_with('/') {
            ("", value)
        } else {
            (value, "")
        };
        sheet.text(hash, as_hash);
        sheet.text(path, as_path);
    }
    sheet.optional("RootVerity", path(&images.root_verity));
    let directories = &images.extension_directories.0;
    sheet.list("ExtensionDirectories", directories.iter());
    sheet.list("ExtensionImages", images.extension_images.iter());
    sheet.list("MountImages", images.mount_images.iter());
}

fn add_scheduling(scheduling: &Scheduling, timer_slack: u64, sheet: &mut Sheet<'_>) {
    let adjust = scheduling.oom_score_adjust.unwrap_or_default();
    sheet.shown("OOMScoreAdjust", adjust.0);
    let filter = scheduling.coredump_filter.map_or(0x33, |filter| filter.0);
    sheet.text("CoredumpFilter", format!("0x{filter:x}"));
    sheet.shown("Nice", scheduling.nice.unwrap_or_default().0);
    let class = scheduling.io_class.unwrap_or(IoClass::BestEffort);
    // The kernel's default class is printed as the one that it amounts to.
    let number = match class {
        IoClass::None | IoClass::BestEffort => 2,
        IoClass::Realtime => 1,
        IoClass::Idle => 3,
    };
    sheet.shown("IOSchedulingClass", number);
    let priority = scheduling.io_priority.map_or(4, |stated| stated.0);
    sheet.shown("IOSchedulingPriority", priority);
    let policy = match scheduling.policy.unwrap_or_default() {
        SchedulingPolicy::Other => 0,
        SchedulingPolicy::Fifo => 1,
        SchedulingPolicy::RoundRobin => 2,
        SchedulingPolicy::Batch => 3,
        SchedulingPolicy::Idle => 5,
    };
    sheet.shown("CPUSchedulingPolicy", policy);
    let real_time = matches!(policy, 1 | 2);
    let priority = scheduling
        .priority
        .map_or(u8::from(real_time), |stated| stated.0);
    sheet.shown("CPUSchedulingPriority", priority);
    sheet.shown("CPUAffinity", &scheduling.affinity.cpus);
    sheet.flag("CPUAffinityFromNUMA", scheduling.affinity.from_numa);
    sheet.number_or("NUMAPolicy", scheduling.numa_policy, "n/a");
    sheet.shown("NUMAMask", &scheduling.numa_mask);
    let slack = scheduling.timer_slack.map_or(timer_slack, |slack| slack.0);
    sheet.shown("TimerSlackNSec", slack);
    sheet.flag("CPUSchedulingResetOnFork", scheduling.reset_on_fork);
}

fn add_streams(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let exec = &subject.config.exec;
    let stdin = effective::stdin(&subject.config);
    sheet.text("StandardInput", input_word(&stdin));
    let name = match &stdin {
        ExecInput::Fd(name) => name.as_deref().unwrap_or("stdin"),
        _ => "",
    };
    sheet.text("StandardInputFileDescriptorName", name);
    let data = BASE64_STANDARD.encode(&exec.terminal.stdin_data.0);
    sheet.text("StandardInputData", data);
    // The manager's default comes at the end of a service's file.
    let service = matches!(subject.config.kind, UnitKind::Service(_));
    let stdout = if service && !subject.is_configured() {
        exec.stdout.clone().unwrap_or(ExecOutput::Inherit)
    } else {
        effective::stdout(&subject.config)
    };
    for (name, descriptor, fallback, output) in [
        (
            "StandardOutput",
            "StandardOutputFileDescriptorName",
            "stdout",
            stdout,
        ),
        (
            "StandardError",
            "StandardErrorFileDescriptorName",
            "stderr",
            effective::stderr(&subject.config),
        ),
    ] {
        sheet.text(name, output_word(&output));
        let named = match &output {
            ExecOutput::Fd(name) => name.as_deref().unwrap_or(fallback),
            _ => "",
        };
        sheet.text(descriptor, named);
    }
}

fn input_word(input: &ExecInput) -> &'static str {
    match input {
        ExecInput::Null => "null",
        ExecInput::Tty => "tty",
        ExecInput::TtyForce => "tty-force",
        ExecInput::TtyFail => "tty-fail",
        ExecInput::Socket => "socket",
        ExecInput::Fd(_) => "fd",
        ExecInput::Data => "data",
        ExecInput::File(_) => "file",
    }
}

fn output_word(output: &ExecOutput) -> &'static str {
    match output {
        ExecOutput::Inherit => "inherit",
        ExecOutput::Null => "null",
        ExecOutput::Tty => "tty",
        ExecOutput::Journal => "journal",
        ExecOutput::JournalConsole => "journal+console",
        ExecOutput::Kmsg => "kmsg",
        ExecOutput::KmsgConsole => "kmsg+console",
        ExecOutput::Socket => "socket",
        ExecOutput::Fd(_) => "fd",
        ExecOutput::File(_) => "file",
        ExecOutput::Append(_) => "append",
        ExecOutput::Truncate(_) => "truncate",
    }
}

fn add_terminal(terminal: &Terminal, sheet: &mut Sheet<'_>) {
    sheet.optional("TTYPath", terminal.path.as_ref().map(|path| &path.0));
    sheet.flag("TTYReset", terminal.reset);
    sheet.flag("TTYVHangup", terminal.vhangup);
    sheet.flag("TTYVTDisallocate", terminal.vt_disallocate);
    sheet.unprintable("TTYRows");
    sheet.unprintable("TTYColumns");
}

fn add_logging(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let logging = &subject.config.exec.logging;
    let facility = logging.facility.number();
    sheet.shown("SyslogPriority", facility << 3 | logging.level.0);
    sheet.optional("SyslogIdentifier", logging.identifier.as_deref());
    sheet.flag("SyslogLevelPrefix", logging.level_prefix);
    sheet.shown("SyslogLevel", logging.level.0);
    sheet.shown("SyslogFacility", facility);
    let max = logging.level_max.map_or(-1, |level| i16::from(level.0));
    sheet.shown("LogLevelMax", max);
    sheet.span("LogRateLimitIntervalUSec", logging.rate_limit_interval);
    sheet.shown("LogRateLimitBurst", logging.rate_limit_burst);
    let fields: Vec<&str> = logging.extra_fields.0.iter().collect();
    sheet.text("LogExtraFields", fields.join(" "));
    sheet.optional("LogNamespace", logging.namespace.as_deref());
}

/// Commands of a mount stay in the manager's process group, where automounts let them through.
pub(super) fn same_process_group(kind: UnitType) -> bool {
    kind == UnitType::Mount
}
