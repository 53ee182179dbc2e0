//! Rows of `[Unit]` and `[Install]`.

use super::{Directive, Status, custom, field};
use crate::config::{Condition, ConditionKind, DependencyKind, JobMode, UnitConfig};
use crate::value::number::parse_boolean;
use crate::value::words::list_words;
use crate::value::{AssignError, ValueContext, ValueError};
use Status::{Applied, Obsolete, Renamed};

/// Rows of dependencies.
macro_rules! dependency {
    ($name:literal, $kind:ident, $status:expr) => {
        custom!(
            $name,
            "unit names",
            "dependencies",
            $status,
            |unit, text, context| { add_dependencies(unit, DependencyKind::$kind, text, context) }
        )
    };
}

fn add_dependencies(
    unit: &mut UnitConfig,
    kind: DependencyKind,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    for word in list_words(text)? {
        match context.unit_name(&word) {
            Ok(name) => unit.add_dependency(kind, name),
            Err(error) => context.warn(error),
        }
    }
    Ok(())
}

pub(super) const UNIT: &[Directive] = &[
    field!("Description", description, Applied),
    custom!(
        "Documentation",
        "links",
        "documentation",
        Applied,
        documentation
    ),
    field!("SourcePath", reactions.source_path, Applied),
    dependency!("Requires", Requires, Applied),
    dependency!("Requisite", Requisite, Applied),
    dependency!("Wants", Wants, Applied),
    dependency!("BindsTo", BindsTo, Applied),
    dependency!("BindTo", BindsTo, Renamed("BindsTo")),
    dependency!("Upholds", Upholds, Applied),
    dependency!("Conflicts", Conflicts, Applied),
    dependency!("Before", Before, Applied),
    dependency!("After", After, Applied),
    dependency!("OnSuccess", OnSuccess, Applied),
    dependency!("OnFailure", OnFailure, Applied),
    dependency!("PropagatesReloadTo", PropagatesReloadTo, Applied),
    dependency!(
        "PropagateReloadTo",
        PropagatesReloadTo,
        Renamed("PropagatesReloadTo")
    ),
    dependency!("ReloadPropagatedFrom", ReloadPropagatedFrom, Applied),
    dependency!(
        "PropagateReloadFrom",
        ReloadPropagatedFrom,
        Renamed("ReloadPropagatedFrom")
    ),
    dependency!("PropagatesStopTo", PropagatesStopTo, Applied),
    dependency!("StopPropagatedFrom", StopPropagatedFrom, Applied),
    dependency!("PartOf", PartOf, Applied),
    dependency!("JoinsNamespaceOf", JoinsNamespaceOf, Applied),
    dependency!(
        "RequiresOverridable",
        Requires,
        Obsolete("it is taken as Requires=")
    ),
    dependency!(
        "RequisiteOverridable",
        Requisite,
        Obsolete("it is taken as Requisite=")
    ),
    field!("RequiresMountsFor", requires_mounts_for, Applied),
    field!("StopWhenUnneeded", stop_when_unneeded, Applied),
    field!("RefuseManualStart", refuse_manual_start, Applied),
    field!("RefuseManualStop", refuse_manual_stop, Applied),
    field!("AllowIsolate", allow_isolate, Applied),
    field!("DefaultDependencies", default_dependencies, Applied),
    field!("OnSuccessJobMode", reactions.on_success_job_mode, Applied),
    field!("OnFailureJobMode", reactions.on_failure_job_mode, Applied),
    custom!(
        "OnFailureIsolate",
        "boolean",
        "reactions.on_failure_job_mode",
        Renamed("OnFailureJobMode"),
        |unit, text, _| {
            let isolate = parse_boolean(text)?;
            unit.reactions.on_failure_job_mode = if isolate {
                JobMode::Isolate
            } else {
                JobMode::Replace
            };
            Ok(())
        }
    ),
    field!("IgnoreOnIsolate", ignore_on_isolate, Applied),
    custom!(
        "IgnoreOnSnapshot",
        "boolean",
        "nothing",
        Obsolete("there are no snapshots any more"),
        |_, _, _| Ok(())
    ),
    field!("JobTimeoutSec", reactions.job_timeout, Applied),
    field!(
        "JobRunningTimeoutSec",
        reactions.job_running_timeout,
        Applied
    ),
    field!("JobTimeoutAction", reactions.job_timeout_action, Applied),
    field!(
        "JobTimeoutRebootArgument",
        reactions.job_timeout_reboot_argument,
        Status::NotApplied("a reboot after a timeout has the argument of RebootArgument=")
    ),
    field!("StartLimitIntervalSec", start_limit.interval, Applied),
    field!(
        "StartLimitInterval",
        start_limit.interval,
        Renamed("StartLimitIntervalSec")
    ),
    field!("StartLimitBurst", start_limit.burst, Applied),
    field!("StartLimitAction", reactions.start_limit_action, Applied),
    field!("FailureAction", reactions.failure_action, Applied),
    field!("SuccessAction", reactions.success_action, Applied),
    field!(
        "FailureActionExitStatus",
        reactions.failure_action_exit_status,
        Applied
    ),
    field!(
        "SuccessActionExitStatus",
        reactions.success_action_exit_status,
        Applied
    ),
    field!("RebootArgument", reactions.reboot_argument, Applied),
    field!("CollectMode", reactions.collect_mode, Applied),
];

fn documentation(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    if text.is_empty() {
        unit.documentation.clear();
        return Ok(());
    }
    for word in list_words(text)? {
        let link = context.expand(&word)?.into_owned();
        let known = ["http://", "https://", "file:/", "info:", "man:"].iter();
        let valid = known
            .into_iter()
            .any(|scheme| link.len() > scheme.len() && link.starts_with(scheme));
        if valid {
            unit.documentation.push(&link);
        } else {
            context.warn(ValueError::invalid(
                &link,
                "a link (http:, https:, file:, info:, man:)",
            ));
        }
    }
    Ok(())
}

/// Rows of conditions, and of asserts where systemd has them.
macro_rules! conditions {
    ($($name:literal $kind:ident $assert:literal;)+) => {
        pub(super) const CONDITIONS: &[Directive] = &[$(
            custom!($name, "condition", "conditions", Applied, |unit, text, context| {
                Condition::assign(&mut unit.conditions, ConditionKind::$kind, $assert, text, context)
            }),
        )+];
    };
}

conditions! {
    "ConditionPathExists" PathExists false; "AssertPathExists" PathExists true;
    "ConditionPathExistsGlob" PathExistsGlob false; "AssertPathExistsGlob" PathExistsGlob true;
    "ConditionPathIsDirectory" PathIsDirectory false; "AssertPathIsDirectory" PathIsDirectory true;
    "ConditionPathIsSymbolicLink" PathIsSymbolicLink false; "AssertPathIsSymbolicLink" PathIsSymbolicLink true;
    "ConditionPathIsMountPoint" PathIsMountPoint false; "AssertPathIsMountPoint" PathIsMountPoint true;
    "ConditionPathIsReadWrite" PathIsReadWrite false; "AssertPathIsReadWrite" PathIsReadWrite true;
    "ConditionPathIsEncrypted" PathIsEncrypted false; "AssertPathIsEncrypted" PathIsEncrypted true;
    "ConditionDirectoryNotEmpty" DirectoryNotEmpty false; "AssertDirectoryNotEmpty" DirectoryNotEmpty true;
    "ConditionFileNotEmpty" FileNotEmpty false; "AssertFileNotEmpty" FileNotEmpty true;
    "ConditionFileIsExecutable" FileIsExecutable false; "AssertFileIsExecutable" FileIsExecutable true;
    "ConditionNeedsUpdate" NeedsUpdate false; "AssertNeedsUpdate" NeedsUpdate true;
    "ConditionFirstBoot" FirstBoot false; "AssertFirstBoot" FirstBoot true;
    "ConditionArchitecture" Architecture false; "AssertArchitecture" Architecture true;
    "ConditionFirmware" Firmware false;
    "ConditionVirtualization" Virtualization false; "AssertVirtualization" Virtualization true;
    "ConditionHost" Host false; "AssertHost" Host true;
    "ConditionKernelCommandLine" KernelCommandLine false; "AssertKernelCommandLine" KernelCommandLine true;
    "ConditionKernelVersion" KernelVersion false; "AssertKernelVersion" KernelVersion true;
    "ConditionCredential" Credential false; "AssertCredential" Credential true;
    "ConditionSecurity" Security false; "AssertSecurity" Security true;
    "ConditionCapability" Capability false; "AssertCapability" Capability true;
    "ConditionACPower" AcPower false; "AssertACPower" AcPower true;
    "ConditionMemory" Memory false; "AssertMemory" Memory true;
    "ConditionCPUFeature" CpuFeature false; "AssertCPUFeature" CpuFeature true;
    "ConditionCPUs" Cpus false; "AssertCPUs" Cpus true;
    "ConditionEnvironment" Environment false; "AssertEnvironment" Environment true;
    "ConditionUser" User false; "AssertUser" User true;
    "ConditionGroup" Group false; "AssertGroup" Group true;
    "ConditionControlGroupController" ControlGroupController false;
    "AssertControlGroupController" ControlGroupController true;
    "ConditionOSRelease" OsRelease false; "AssertOSRelease" OsRelease true;
    "ConditionMemoryPressure" MemoryPressure false; "AssertMemoryPressure" MemoryPressure true;
    "ConditionCPUPressure" CpuPressure false; "AssertCPUPressure" CpuPressure true;
    "ConditionIOPressure" IoPressure false; "AssertIOPressure" IoPressure true;
}

pub(super) const INSTALL: &[Directive] = &[
    field!("Alias", install.alias, Applied),
    field!("WantedBy", install.wanted_by, Applied),
    field!("RequiredBy", install.required_by, Applied),
    field!("UpheldBy", install.upheld_by, Applied),
    field!("Also", install.also, Applied),
    field!("DefaultInstance", install.default_instance, Applied),
];
