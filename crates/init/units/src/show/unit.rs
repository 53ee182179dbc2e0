//! What every unit has.

use muster_engine::dep::DepKind;
use muster_unit_file::config::{CommandPhase, LoadState, UnitKind};
use muster_unit_file::name::UnitType;

use super::Subject;
use super::sheet::Sheet;
use crate::effective;
use crate::implicit::{ignored_on_isolate, is_perpetual};
use crate::runtime::Moment;

/// Dependencies in the order in which they are shown.
const DEPENDENCIES: [(DepKind, &str); 28] = [
    (DepKind::Requires, "Requires"),
    (DepKind::Requisite, "Requisite"),
    (DepKind::Wants, "Wants"),
    (DepKind::BindsTo, "BindsTo"),
    (DepKind::PartOf, "PartOf"),
    (DepKind::Upholds, "Upholds"),
    (DepKind::RequiredBy, "RequiredBy"),
    (DepKind::RequisiteOf, "RequisiteOf"),
    (DepKind::WantedBy, "WantedBy"),
    (DepKind::BoundBy, "BoundBy"),
    (DepKind::UpheldBy, "UpheldBy"),
    (DepKind::ConsistsOf, "ConsistsOf"),
    (DepKind::Conflicts, "Conflicts"),
    (DepKind::ConflictedBy, "ConflictedBy"),
    (DepKind::Before, "Before"),
    (DepKind::After, "After"),
    (DepKind::OnSuccess, "OnSuccess"),
    (DepKind::OnSuccessOf, "OnSuccessOf"),
    (DepKind::OnFailure, "OnFailure"),
    (DepKind::OnFailureOf, "OnFailureOf"),
    (DepKind::Triggers, "Triggers"),
    (DepKind::TriggeredBy, "TriggeredBy"),
    (DepKind::PropagatesReloadTo, "PropagatesReloadTo"),
    (DepKind::ReloadPropagatedFrom, "ReloadPropagatedFrom"),
    (DepKind::PropagatesStopTo, "PropagatesStopTo"),
    (DepKind::StopPropagatedFrom, "StopPropagatedFrom"),
    (DepKind::JoinsNamespaceOf, "JoinsNamespaceOf"),
    (DepKind::SliceOf, "SliceOf"),
];

pub(super) fn add(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let config = &subject.config;
    sheet.text("Id", config.name.as_str());
    let names = std::iter::once(&config.name).chain(&config.aliases);
    sheet.list("Names", names);
    sheet.text("Following", "");
    for (kind, name) in DEPENDENCIES {
        sheet.list(name, subject.unit.dependencies(kind));
    }
    sheet.list("RequiresMountsFor", subject.unit.mounts_for());
    sheet.list("Documentation", config.documentation.iter());
    sheet.text("Description", effective::description(config));
    sheet.text("AccessSELinuxContext", "");
    add_state(subject, sheet);
    add_files(subject, sheet);
    add_changes(subject, sheet);
    add_abilities(subject, sheet);
    add_settings(subject, sheet);
    add_checks(subject, sheet);
    add_actions(subject, sheet);
}

fn add_state(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let runtime = subject.runtime;
    sheet.text("LoadState", subject.config.load_state.as_str());
    sheet.text("ActiveState", &*runtime.active_state);
    sheet.text("FreezerState", &*runtime.freezer_state);
    sheet.text("SubState", &*runtime.sub_state);
}

fn add_files(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let config = &subject.config;
    sheet.optional("FragmentPath", config.fragment.as_deref());
    let source = config.reactions.source_path.as_ref();
    sheet.optional("SourcePath", source.map(|path| &path.0));
    sheet.list("DropInPaths", &config.drop_ins);
    // Without a file there is nothing to enable.
    let has_file = config.fragment.is_some();
    let state = subject.runtime.file_state.filter(|_| has_file);
    sheet.optional("UnitFileState", state);
    let preset = subject.runtime.file_preset.filter(|_| has_file);
    let preset = preset.map(|enabled| if enabled { "enabled" } else { "disabled" });
    sheet.optional("UnitFilePreset", preset);
}

fn add_changes(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let changes = &subject.runtime.changes;
    for (name, monotonic, moment) in [
        (
            "StateChangeTimestamp",
            "StateChangeTimestampMonotonic",
            changes.state,
        ),
        (
            "InactiveExitTimestamp",
            "InactiveExitTimestampMonotonic",
            changes.inactive_exit,
        ),
        (
            "ActiveEnterTimestamp",
            "ActiveEnterTimestampMonotonic",
            changes.active_enter,
        ),
        (
            "ActiveExitTimestamp",
            "ActiveExitTimestampMonotonic",
            changes.active_exit,
        ),
        (
            "InactiveEnterTimestamp",
            "InactiveEnterTimestampMonotonic",
            changes.inactive_enter,
        ),
    ] {
        add_moment(name, monotonic, moment, sheet);
    }
}

fn add_moment(name: &'static str, monotonic: &'static str, moment: Moment, sheet: &mut Sheet<'_>) {
    sheet.moment(name, moment.real);
    sheet.shown(monotonic, moment.monotonic);
}

fn add_abilities(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let config = &subject.config;
    let kind = config.name.unit_type();
    let loaded = config.load_state == LoadState::Loaded;
    let supported = kind != UnitType::Device && !subject.host.unsupported.contains(&kind);
    let can_start = loaded && supported && !config.refuse_manual_start;
    sheet.flag("CanStart", can_start);
    let perpetual = is_perpetual(&config.name);
    let stoppable = supported && !perpetual;
    sheet.flag("CanStop", stoppable && !config.refuse_manual_stop);
    sheet.flag("CanReload", can_reload(subject));
    sheet.flag("CanIsolate", can_start && config.allow_isolate);
    sheet.list("CanClean", can_clean(subject));
    let freezable = matches!(kind, UnitType::Service | UnitType::Slice | UnitType::Scope);
    sheet.flag("CanFreeze", freezable);
}

fn can_reload(subject: &Subject<'_>) -> bool {
    match &subject.config.kind {
        UnitKind::Service(service) => service.commands(CommandPhase::Reload).next().is_some(),
        UnitKind::Mount(_) => true,
        // What has nothing to reload itself can pass a reload on.
        _ => {
            let mut passed_on = subject.unit.dependencies(DepKind::PropagatesReloadTo);
            passed_on.next().is_some()
        }
    }
}

/// Kinds of directories that `clean` can remove.
fn can_clean(subject: &Subject<'_>) -> Vec<&'static str> {
    if subject.config.load_state != LoadState::Loaded {
        return Vec::new();
    }
    if let UnitKind::Timer(timer) = &subject.config.kind {
        return timer.persistent.then_some("state").into_iter().collect();
    }
    let directories = &subject.config.exec.directories;
    let kinds = [
        ("runtime", &directories.runtime),
        ("state", &directories.state),
        ("cache", &directories.cache),
        ("logs", &directories.logs),
        ("configuration", &directories.configuration),
    ];
    kinds
        .into_iter()
        .filter(|(_, directory)| !directory.names.0.is_empty())
        .map(|(name, _)| name)
        .collect()
}

fn add_settings(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let config = &subject.config;
    let reactions = &config.reactions;
    sheet.optional("Job", subject.runtime.job);
    sheet.flag("StopWhenUnneeded", config.stop_when_unneeded);
    sheet.flag("RefuseManualStart", config.refuse_manual_start);
    sheet.flag("RefuseManualStop", config.refuse_manual_stop);
    sheet.flag("AllowIsolate", config.allow_isolate);
    sheet.flag("DefaultDependencies", config.default_dependencies);
    sheet.shown("OnSuccessJobMode", reactions.on_success_job_mode);
    sheet.shown("OnFailureJobMode", reactions.on_failure_job_mode);
    let by_type = ignored_on_isolate(config.name.unit_type());
    sheet.flag(
        "IgnoreOnIsolate",
        config.ignore_on_isolate.unwrap_or(by_type),
    );
    sheet.flag("NeedDaemonReload", subject.runtime.needs_reload);
    sheet.text("Markers", "");
    sheet.span("JobTimeoutUSec", reactions.job_timeout.0);
    let running = reactions
        .job_running_timeout
        .unwrap_or(reactions.job_timeout);
    sheet.span("JobRunningTimeoutUSec", running.0);
    sheet.shown("JobTimeoutAction", reactions.job_timeout_action);
    let argument = reactions.job_timeout_reboot_argument.as_deref();
    sheet.optional("JobTimeoutRebootArgument", argument);
}

fn add_checks(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let runtime = subject.runtime;
    sheet.flag("ConditionResult", runtime.condition_result);
    sheet.flag("AssertResult", runtime.assert_result);
    let condition = runtime.changes.condition;
    add_moment(
        "ConditionTimestamp",
        "ConditionTimestampMonotonic",
        condition,
        sheet,
    );
    let assert = runtime.changes.assert;
    add_moment("AssertTimestamp", "AssertTimestampMonotonic", assert, sheet);
    sheet.unprintable("Conditions");
    sheet.unprintable("Asserts");
    sheet.text("LoadError", load_error(subject));
}

fn load_error(subject: &Subject<'_>) -> String {
    let name = &subject.config.name;
    let (error, what) = match subject.config.load_state {
        LoadState::Loaded => return String::new(),
        LoadState::NotFound => ("NoSuchUnit", "not found."),
        LoadState::Masked => ("UnitMasked", "is masked."),
        LoadState::BadSetting => ("BadUnitSetting", "has a bad unit file setting."),
        LoadState::Error => ("LoadFailed", "failed to load properly."),
    };
    format!("org.freedesktop.systemd1.{error} \"Unit {name} {what}\"")
}

fn add_actions(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let config = &subject.config;
    let reactions = &config.reactions;
    sheet.flag("Transient", subject.runtime.transient);
    sheet.flag("Perpetual", is_perpetual(&config.name));
    sheet.span("StartLimitIntervalUSec", config.start_limit.interval);
    sheet.shown("StartLimitBurst", config.start_limit.burst);
    sheet.shown("StartLimitAction", reactions.start_limit_action);
    sheet.shown("FailureAction", reactions.failure_action);
    let status = reactions.failure_action_exit_status.map(|code| code.0);
    sheet.number("FailureActionExitStatus", status);
    sheet.shown("SuccessAction", reactions.success_action);
    let status = reactions.success_action_exit_status.map(|code| code.0);
    sheet.number("SuccessActionExitStatus", status);
    sheet.optional("RebootArgument", reactions.reboot_argument.as_deref());
    let invocation = subject.runtime.invocation.map(|id| format!("{id:032x}"));
    sheet.optional("InvocationID", invocation);
    sheet.shown("CollectMode", reactions.collect_mode);
    sheet.text("Refs", "");
    sheet.unprintable("ActivationDetails");
}
