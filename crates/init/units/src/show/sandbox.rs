//! Who processes are, and what they cannot see and do.

use muster_seccomp::Purpose;
use muster_unit_file::config::{Directories, MountPropagation, UnitKind};
use muster_unit_file::value::access::Capabilities;
use muster_unit_file::value::path::BindMount;

use super::cgroup::names_of;
use super::exec::same_process_group;
use super::sheet::Sheet;
use super::{Subject, syscalls};
use crate::effective;

pub(super) fn add(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    add_identity(subject, sheet);
    add_paths(subject, sheet);
    add_protections(subject, sheet);
    add_filters(subject, sheet);
    let directories = &subject.config.exec.directories;
    add_directories(directories, sheet);
    add_rest(subject, sheet);
}

fn names(capabilities: Capabilities) -> String {
    capabilities.names().collect::<Vec<_>>().join(" ")
}

fn add_identity(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let exec = &subject.config.exec;
    let sandbox = &exec.sandbox;
    sheet.shown("SecureBits", sandbox.secure_bits.0);
    sheet.text(
        "CapabilityBoundingSet",
        names(effective::bounding_set(exec)),
    );
    sheet.text("AmbientCapabilities", names(sandbox.ambient_capabilities.0));
    sheet.optional("User", effective::user(&subject.config));
    sheet.optional("Group", effective::group(&subject.config));
    sheet.flag("DynamicUser", exec.dynamic_user);
    sheet.flag("RemoveIPC", effective::remove_ipc(exec));
    // Secrets are never shown.
    for name in [
        "SetCredential",
        "SetCredentialEncrypted",
        "LoadCredential",
        "LoadCredentialEncrypted",
    ] {
        sheet.unprintable(name);
    }
    sheet.list("SupplementaryGroups", exec.supplementary_groups.0.iter());
    sheet.optional("PAMName", exec.labels.pam_name.as_deref());
}

fn add_paths(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let exec = &subject.config.exec;
    let sandbox = &exec.sandbox;
    for (name, paths) in [
        ("ReadWritePaths", &sandbox.read_write_paths),
        ("ReadOnlyPaths", &sandbox.read_only_paths),
        ("InaccessiblePaths", &sandbox.inaccessible_paths),
        ("ExecPaths", &sandbox.exec_paths),
        ("NoExecPaths", &sandbox.no_exec_paths),
    ] {
        sheet.list(name, paths.0.iter());
    }
    sheet.list("ExecSearchPath", exec.search_path.0.iter());
}

fn add_protections(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let exec = &subject.config.exec;
    let sandbox = &exec.sandbox;
    sheet.optional(
        "MountFlags",
        sandbox.mount_flags.map(MountPropagation::as_str),
    );
    sheet.flag("PrivateTmp", effective::private_tmp(exec));
    sheet.flag("PrivateDevices", sandbox.private_devices);
    sheet.flag("ProtectClock", sandbox.protect_clock);
    sheet.flag("ProtectKernelTunables", sandbox.protect_kernel_tunables);
    sheet.flag("ProtectKernelModules", sandbox.protect_kernel_modules);
    sheet.flag("ProtectKernelLogs", sandbox.protect_kernel_logs);
    sheet.flag(
        "ProtectControlGroups",
        sandbox.protect_control_groups.is_on(),
    );
    sheet.flag("PrivateNetwork", sandbox.private_network);
    sheet.flag("PrivateUsers", sandbox.private_users.is_on());
    sheet.flag("PrivateMounts", sandbox.private_mounts.unwrap_or(false));
    sheet.flag("PrivateIPC", sandbox.private_ipc);
    sheet.shown("ProtectHome", effective::protect_home(exec));
    sheet.shown("ProtectSystem", effective::protect_system(exec));
    let kind = subject.config.name.unit_type();
    sheet.flag("SameProcessGroup", same_process_group(kind));
    let labels = &exec.labels;
    sheet.optional("UtmpIdentifier", labels.utmp_identifier.as_deref());
    sheet.shown("UtmpMode", labels.utmp_mode);
    sheet.optional("SELinuxContext", labels.selinux_context.as_deref());
    sheet.optional("AppArmorProfile", labels.apparmor_profile.as_deref());
    sheet.optional("SmackProcessLabel", labels.smack_process_label.as_deref());
    sheet.flag("IgnoreSIGPIPE", exec.ignore_sigpipe);
    sheet.flag("NoNewPrivileges", effective::no_new_privileges(exec));
}

fn add_filters(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let sandbox = &subject.config.exec.sandbox;
    let calls = syscalls::filter(&sandbox.syscall_filter, Purpose::Refuse);
    let allow = sandbox.syscall_filter.0.allow;
    sheet.filter("SystemCallFilter", allow, &calls);
    let architectures = sandbox.syscall_architectures.iter();
    sheet.list("SystemCallArchitectures", architectures);
    let error = sandbox.syscall_error_number.as_ref();
    let error = error.map(|error| &*error.0);
    sheet.shown("SystemCallErrorNumber", syscalls::error_number(error));
    let calls = syscalls::filter(&sandbox.syscall_log, Purpose::Log);
    sheet.filter("SystemCallLog", sandbox.syscall_log.0.allow, &calls);
    sheet.optional("Personality", sandbox.personality);
    sheet.flag("LockPersonality", sandbox.lock_personality);
    let families = &sandbox.restrict_address_families.0;
    sheet.filter(
        "RestrictAddressFamilies",
        families.allow,
        &names_of(families),
    );
}

fn add_directories(directories: &Directories, sheet: &mut Sheet<'_>) {
    let kinds = [
        (
            "RuntimeDirectorySymlink",
            "RuntimeDirectoryMode",
            "RuntimeDirectory",
            &directories.runtime,
        ),
        (
            "StateDirectorySymlink",
            "StateDirectoryMode",
            "StateDirectory",
            &directories.state,
        ),
        (
            "CacheDirectorySymlink",
            "CacheDirectoryMode",
            "CacheDirectory",
            &directories.cache,
        ),
        (
            "LogsDirectorySymlink",
            "LogsDirectoryMode",
            "LogsDirectory",
            &directories.logs,
        ),
        (
            "",
            "ConfigurationDirectoryMode",
            "ConfigurationDirectory",
            &directories.configuration,
        ),
    ];
    for (symlink, mode, name, directory) in kinds {
        if !symlink.is_empty() {
            let links = directory.names.0.iter().filter(|name| name.contains(':'));
            sheet.rows(symlink, links.map(str::to_owned));
        }
        if name == "RuntimeDirectory" {
            sheet.shown("RuntimeDirectoryPreserve", directories.runtime_preserve);
        }
        sheet.shown(mode, directory.mode);
        let mut paths: Vec<&str> = directory
            .names
            .0
            .iter()
            .map(|name| name.split(':').next().unwrap_or(name))
            .collect();
        // Folders come before what is in them.
        paths.sort_by(|a, b| a.split('/').cmp(b.split('/')));
        sheet.list(name, paths);
    }
    sheet.number_or("TimeoutCleanUSec", directories.timeout_clean, "infinity");
}

fn add_rest(subject: &Subject<'_>, sheet: &mut Sheet<'_>) {
    let exec = &subject.config.exec;
    let sandbox = &exec.sandbox;
    sheet.flag("MemoryDenyWriteExecute", sandbox.memory_deny_write_execute);
    sheet.flag("RestrictRealtime", sandbox.restrict_realtime);
    sheet.flag("RestrictSUIDSGID", effective::restrict_suid_sgid(exec));
    let namespaces = sandbox.restrict_namespaces;
    let allowed: Vec<&str> = namespaces.names().collect();
    let allowed = if namespaces.is_everything() {
        "no".to_owned()
    } else if allowed.is_empty() {
        "yes".to_owned()
    } else {
        allowed.join(" ")
    };
    sheet.text("RestrictNamespaces", allowed);
    let file_systems = &sandbox.restrict_file_systems;
    let names = names_of(file_systems);
    sheet.filter("RestrictFileSystems", file_systems.allow, &names);
    for (name, read_only) in [("BindPaths", false), ("BindReadOnlyPaths", true)] {
        let mounts = sandbox.bind_mounts.0.iter();
        let mounts = mounts.filter(|mount| mount.read_only == read_only);
        sheet.list(name, mounts.map(bind_mount));
    }
    let temporary = sandbox.temporary_file_systems.iter();
    sheet.list("TemporaryFileSystem", temporary);
    let images = &exec.images;
    let own_root = images.root_directory.is_some() || images.root_image.is_some();
    sheet.flag("MountAPIVFS", images.mount_api_vfs.unwrap_or(own_root));
    // Only services have a session of their own in which a private keyring makes sense.
    let keyring = if matches!(subject.config.kind, UnitKind::Service(_)) {
        sandbox.keyring_mode.unwrap_or_default().as_str()
    } else {
        "shared"
    };
    sheet.text("KeyringMode", keyring);
    sheet.shown("ProtectProc", sandbox.protect_proc);
    sheet.shown("ProcSubset", sandbox.proc_subset);
    sheet.flag("ProtectHostname", sandbox.protect_hostname);
    for (name, path) in [
        ("NetworkNamespacePath", &sandbox.network_namespace_path),
        ("IPCNamespacePath", &sandbox.ipc_namespace_path),
    ] {
        sheet.optional(name, path.as_ref().map(|path| &path.0));
    }
}

fn bind_mount(mount: &BindMount) -> String {
    let mark = if mount.optional { "-" } else { "" };
    let recursive = if mount.recursive { ":rbind" } else { "" };
    format!("{mark}{}:{}{recursive}", mount.source, mount.destination)
}
