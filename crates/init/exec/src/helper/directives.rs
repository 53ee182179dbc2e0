//! Which directives a view or a policy comes from, for saying that it cannot be had. Names are in the order of the manual.

use muster_mounts::{ProcOthers, ProtectHome, ProtectSystem, View};
use muster_seccomp::Policy;

/// Those of a policy for system calls.
pub(super) fn of_policy(policy: &Policy) -> String {
    let asked = [
        (policy.private_devices, "PrivateDevices"),
        (policy.protect_hostname, "ProtectHostname"),
        (policy.protect_clock, "ProtectClock"),
        (policy.protect_kernel_tunables, "ProtectKernelTunables"),
        (policy.protect_kernel_modules, "ProtectKernelModules"),
        (policy.protect_kernel_logs, "ProtectKernelLogs"),
        (policy.families.is_some(), "RestrictAddressFamilies"),
        (policy.namespaces.is_some(), "RestrictNamespaces"),
        (policy.lock_personality.is_some(), "LockPersonality"),
        (policy.memory_deny_write_execute, "MemoryDenyWriteExecute"),
        (policy.restrict_realtime, "RestrictRealtime"),
        (policy.restrict_suid_sgid, "RestrictSUIDSGID"),
        (policy.calls.is_some(), "SystemCallFilter"),
        (!policy.architectures.is_empty(), "SystemCallArchitectures"),
        (policy.logged.is_some(), "SystemCallLog"),
    ];
    names(&asked).unwrap_or_else(|| "SystemCallFilter".to_owned())
}

/// Those of a view of the file system.
pub(super) fn of_view(view: &View) -> String {
    let asked = [
        (view.root.is_some(), "RootDirectory"),
        (!view.binds.is_empty(), "BindPaths"),
        (!view.temporary.is_empty(), "TemporaryFileSystem"),
        (view.others_processes != ProcOthers::Default, "ProtectProc"),
        (view.only_processes, "ProcSubset"),
        (view.kernel_file_systems, "MountAPIVFS"),
        (view.protect_system != ProtectSystem::No, "ProtectSystem"),
        (view.protect_home != ProtectHome::No, "ProtectHome"),
        (!view.read_write.is_empty(), "ReadWritePaths"),
        (!view.read_only.is_empty(), "ReadOnlyPaths"),
        (!view.inaccessible.is_empty(), "InaccessiblePaths"),
        (!view.exec.is_empty(), "ExecPaths"),
        (!view.no_exec.is_empty(), "NoExecPaths"),
        (view.private_tmp.is_some(), "PrivateTmp"),
        (view.private_devices, "PrivateDevices"),
        (view.own_network, "PrivateNetwork"),
        (view.own_processes, "PrivatePIDs"),
        (view.protect_kernel_tunables, "ProtectKernelTunables"),
        (view.protect_kernel_modules, "ProtectKernelModules"),
        (view.protect_kernel_logs, "ProtectKernelLogs"),
        (
            view.protect_control_groups || view.own_groups,
            "ProtectControlGroups",
        ),
        (view.propagation.is_some(), "MountFlags"),
    ];
    names(&asked).unwrap_or_else(|| "PrivateMounts".to_owned())
}

fn names(asked: &[(bool, &str)]) -> Option<String> {
    let asked = asked.iter().filter(|(asks, _)| *asks);
    let names: Vec<&str> = asked.map(|(_, name)| *name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_is_named() {
        let view = View {
            protect_home: ProtectHome::ReadOnly,
            private_devices: true,
            ..View::default()
        };
        assert_eq!(of_view(&view), "ProtectHome, PrivateDevices");
        assert_eq!(of_view(&View::default()), "PrivateMounts");
        let policy = Policy {
            restrict_realtime: true,
            protect_clock: true,
            ..Policy::default()
        };
        assert_eq!(of_policy(&policy), "ProtectClock, RestrictRealtime");
    }
}
