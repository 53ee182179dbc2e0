//! Rows that services, sockets, mounts and swaps share: how processes are set up and confined.

use super::{Directive, ENCRYPTED, EXECUTION, Status, VERITY, custom, field};
use crate::value::path::check_path;
use crate::value::rlimit::{Resource, ResourceLimit};
use crate::value::{AssignError, Setting, ValueContext, ValueError};
use Status::{Applied, Renamed};

/// Architectures whose system calls can be named; the first is the machine's own.
const ARCHITECTURES: [&str; 22] = [
    "native",
    "x86",
    "x86-64",
    "x32",
    "arm",
    "arm64",
    "loongarch64",
    "m68k",
    "mips",
    "mips-le",
    "mips64",
    "mips64-le",
    "mips64-n32",
    "mips64-le-n32",
    "parisc",
    "parisc64",
    "ppc",
    "ppc64",
    "ppc64-le",
    "riscv64",
    "s390",
    "s390x",
];

/// A value without which a process must not start: as the wrong user or in the wrong root it could
/// do what it should not.
fn needed<T: Setting>(
    value: &mut T,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    value.assign(text, context).map_err(|error| match error {
        AssignError::Ignored(error) | AssignError::Fatal(error) => AssignError::Fatal(error),
    })
}

macro_rules! limit {
    ($name:literal, $resource:ident) => {
        custom!(
            $name,
            "limit, or soft:hard",
            "exec.limits",
            Applied,
            |unit, text, _| {
                let resource = Resource::$resource;
                if text.is_empty() {
                    unit.exec.limits.retain(|limit| limit.resource != resource);
                    return Ok(());
                }
                let limit = ResourceLimit::parse(resource, text)?;
                unit.exec.limits.retain(|known| known.resource != resource);
                unit.exec.limits.push(limit);
                Ok(())
            }
        )
    };
}

/// What a process gets.
pub(super) const EXEC: &[Directive] = &[
    field!("WorkingDirectory", exec.working_directory, Applied),
    field!("User", exec.user, Applied),
    field!("Group", exec.group, Applied),
    field!("SupplementaryGroups", exec.supplementary_groups, Applied),
    field!("Nice", exec.scheduling.nice, Applied),
    field!("OOMScoreAdjust", exec.scheduling.oom_score_adjust, Applied),
    field!("CoredumpFilter", exec.scheduling.coredump_filter, Applied),
    field!("IOSchedulingClass", exec.scheduling.io_class, Applied),
    field!("IOSchedulingPriority", exec.scheduling.io_priority, Applied),
    field!("CPUSchedulingPolicy", exec.scheduling.policy, Applied),
    field!("CPUSchedulingPriority", exec.scheduling.priority, Applied),
    field!(
        "CPUSchedulingResetOnFork",
        exec.scheduling.reset_on_fork,
        Applied
    ),
    field!("CPUAffinity", exec.scheduling.affinity, Applied),
    field!("NUMAPolicy", exec.scheduling.numa_policy, Applied),
    field!("NUMAMask", exec.scheduling.numa_mask, Applied),
    field!("UMask", exec.umask, Applied),
    field!("Environment", exec.environment, Applied),
    field!("EnvironmentFile", exec.environment_files, Applied),
    field!("PassEnvironment", exec.pass_environment, Applied),
    field!("UnsetEnvironment", exec.unset_environment, Applied),
    custom!(
        "ExecSearchPath",
        "absolute paths with : between them",
        "exec.search_path",
        Applied,
        |unit, text, context| {
            let list = &mut unit.exec.search_path.0;
            if text.is_empty() {
                list.clear();
                return Ok(());
            }
            for part in text.split(':') {
                match context
                    .expand(part)
                    .and_then(|path| check_path(&path, true))
                {
                    Ok(path) => list.push(&path),
                    Err(error) => context.warn(error),
                }
            }
            Ok(())
        }
    ),
    field!("StandardInput", exec.stdin, Applied),
    field!("StandardOutput", exec.stdout, Applied),
    field!("StandardError", exec.stderr, Applied),
    custom!(
        "StandardInputText",
        "text",
        "exec.terminal.stdin_data",
        Applied,
        |unit, text, context| unit.exec.terminal.stdin_data.add_text(text, context)
    ),
    custom!(
        "StandardInputData",
        "Base64",
        "exec.terminal.stdin_data",
        Applied,
        |unit, text, _| unit.exec.terminal.stdin_data.add_base64(text)
    ),
    field!("TTYPath", exec.terminal.path, Applied),
    field!("TTYReset", exec.terminal.reset, Applied),
    field!("TTYVHangup", exec.terminal.vhangup, Applied),
    field!("TTYVTDisallocate", exec.terminal.vt_disallocate, Applied),
    field!("TTYRows", exec.terminal.rows, Applied),
    field!("TTYColumns", exec.terminal.columns, Applied),
    field!("SyslogIdentifier", exec.logging.identifier, Applied),
    field!("SyslogFacility", exec.logging.facility, Applied),
    field!("SyslogLevel", exec.logging.level, Applied),
    field!("SyslogLevelPrefix", exec.logging.level_prefix, Applied),
    field!("LogLevelMax", exec.logging.level_max, Applied),
    field!(
        "LogRateLimitIntervalSec",
        exec.logging.rate_limit_interval,
        Applied
    ),
    field!("LogRateLimitBurst", exec.logging.rate_limit_burst, Applied),
    field!("LogExtraFields", exec.logging.extra_fields, Applied),
    field!("LogNamespace", exec.logging.namespace, EXECUTION),
    field!("TimerSlackNSec", exec.scheduling.timer_slack, Applied),
    field!("IgnoreSIGPIPE", exec.ignore_sigpipe, Applied),
    limit!("LimitCPU", Cpu),
    limit!("LimitFSIZE", Fsize),
    limit!("LimitDATA", Data),
    limit!("LimitSTACK", Stack),
    limit!("LimitCORE", Core),
    limit!("LimitRSS", Rss),
    limit!("LimitNOFILE", Nofile),
    limit!("LimitAS", As),
    limit!("LimitNPROC", Nproc),
    limit!("LimitMEMLOCK", Memlock),
    limit!("LimitLOCKS", Locks),
    limit!("LimitSIGPENDING", Sigpending),
    limit!("LimitMSGQUEUE", Msgqueue),
    limit!("LimitNICE", Nice),
    limit!("LimitRTPRIO", Rtprio),
    limit!("LimitRTTIME", Rttime),
    field!("RuntimeDirectory", exec.directories.runtime.names, Applied),
    field!(
        "RuntimeDirectoryMode",
        exec.directories.runtime.mode,
        Applied
    ),
    field!(
        "RuntimeDirectoryPreserve",
        exec.directories.runtime_preserve,
        Applied
    ),
    field!("StateDirectory", exec.directories.state.names, Applied),
    field!("StateDirectoryMode", exec.directories.state.mode, Applied),
    field!("CacheDirectory", exec.directories.cache.names, Applied),
    field!("CacheDirectoryMode", exec.directories.cache.mode, Applied),
    field!("LogsDirectory", exec.directories.logs.names, Applied),
    field!("LogsDirectoryMode", exec.directories.logs.mode, Applied),
    field!(
        "ConfigurationDirectory",
        exec.directories.configuration.names,
        Applied
    ),
    field!(
        "ConfigurationDirectoryMode",
        exec.directories.configuration.mode,
        Applied
    ),
    field!("TimeoutCleanSec", exec.directories.timeout_clean, Applied),
];

/// What a process does not get.
pub(super) const SANDBOX: &[Directive] = &[
    custom!(
        "DynamicUser",
        "boolean",
        "exec.dynamic_user",
        Applied,
        |unit, text, context| needed(&mut unit.exec.dynamic_user, text, context)
    ),
    field!("RemoveIPC", exec.remove_ipc, Applied),
    field!("SetLoginEnvironment", exec.set_login_environment, Applied),
    field!("SandboxBestEffort", exec.sandbox.best_effort, Applied),
    custom!(
        "RootDirectory",
        "absolute path",
        "exec.images.root_directory",
        Applied,
        |unit, text, context| needed(&mut unit.exec.images.root_directory, text, context)
    ),
    custom!(
        "RootImage",
        "absolute path",
        "exec.images.root_image",
        Applied,
        |unit, text, context| needed(&mut unit.exec.images.root_image, text, context)
    ),
    field!("RootImageOptions", exec.images.root_image_options, Applied),
    field!("RootHash", exec.images.root_hash, VERITY),
    field!("RootHashSignature", exec.images.root_hash_signature, VERITY),
    field!("RootVerity", exec.images.root_verity, VERITY),
    field!(
        "ExtensionDirectories",
        exec.images.extension_directories,
        Applied
    ),
    field!("ExtensionImages", exec.images.extension_images, Applied),
    field!("MountImages", exec.images.mount_images, Applied),
    field!("RootImagePolicy", exec.images.root_image_policy, Applied),
    field!(
        "ExtensionImagePolicy",
        exec.images.extension_image_policy,
        Applied
    ),
    field!("MountImagePolicy", exec.images.mount_image_policy, Applied),
    field!("MountAPIVFS", exec.images.mount_api_vfs, Applied),
    field!("SecureBits", exec.sandbox.secure_bits, Applied),
    field!(
        "CapabilityBoundingSet",
        exec.sandbox.capability_bounding_set,
        Applied
    ),
    field!(
        "AmbientCapabilities",
        exec.sandbox.ambient_capabilities,
        Applied
    ),
    field!("NoNewPrivileges", exec.sandbox.no_new_privileges, Applied),
    field!("KeyringMode", exec.sandbox.keyring_mode, Applied),
    field!("ProtectProc", exec.sandbox.protect_proc, Applied),
    field!("ProcSubset", exec.sandbox.proc_subset, Applied),
    field!("SystemCallFilter", exec.sandbox.syscall_filter, Applied),
    custom!(
        "SystemCallArchitectures",
        "architectures",
        "exec.sandbox.syscall_architectures",
        Applied,
        |unit, text, context| {
            let list = &mut unit.exec.sandbox.syscall_architectures;
            let before = list.iter().count();
            list.assign(text, context)?;
            // One that means nothing stays: without it, an otherwise empty list would allow all.
            for name in list.iter().skip(before) {
                if !ARCHITECTURES.contains(&name) {
                    context.warn(ValueError::invalid(name, "the name of an architecture"));
                }
            }
            Ok(())
        }
    ),
    field!(
        "SystemCallErrorNumber",
        exec.sandbox.syscall_error_number,
        Applied
    ),
    field!("SystemCallLog", exec.sandbox.syscall_log, Applied),
    field!(
        "MemoryDenyWriteExecute",
        exec.sandbox.memory_deny_write_execute,
        Applied
    ),
    field!(
        "RestrictNamespaces",
        exec.sandbox.restrict_namespaces,
        Applied
    ),
    field!("RestrictRealtime", exec.sandbox.restrict_realtime, Applied),
    field!("RestrictSUIDSGID", exec.sandbox.restrict_suid_sgid, Applied),
    field!(
        "RestrictAddressFamilies",
        exec.sandbox.restrict_address_families,
        Applied
    ),
    field!(
        "RestrictFileSystems",
        exec.sandbox.restrict_file_systems,
        Applied
    ),
    field!("LockPersonality", exec.sandbox.lock_personality, Applied),
    field!("Personality", exec.sandbox.personality, Applied),
    field!("ReadWritePaths", exec.sandbox.read_write_paths, Applied),
    field!("ReadOnlyPaths", exec.sandbox.read_only_paths, Applied),
    field!(
        "InaccessiblePaths",
        exec.sandbox.inaccessible_paths,
        Applied
    ),
    field!(
        "ReadWriteDirectories",
        exec.sandbox.read_write_paths,
        Renamed("ReadWritePaths")
    ),
    field!(
        "ReadOnlyDirectories",
        exec.sandbox.read_only_paths,
        Renamed("ReadOnlyPaths")
    ),
    field!(
        "InaccessibleDirectories",
        exec.sandbox.inaccessible_paths,
        Renamed("InaccessiblePaths")
    ),
    field!("ExecPaths", exec.sandbox.exec_paths, Applied),
    field!("NoExecPaths", exec.sandbox.no_exec_paths, Applied),
    custom!(
        "BindPaths",
        "bind mounts",
        "exec.sandbox.bind_mounts",
        Applied,
        |unit, text, context| unit.exec.sandbox.bind_mounts.assign(text, false, context)
    ),
    custom!(
        "BindReadOnlyPaths",
        "bind mounts",
        "exec.sandbox.bind_mounts",
        Applied,
        |unit, text, context| unit.exec.sandbox.bind_mounts.assign(text, true, context)
    ),
    field!(
        "TemporaryFileSystem",
        exec.sandbox.temporary_file_systems,
        Applied
    ),
    custom!(
        "PrivateTmp",
        "boolean, or newer words for yes",
        "exec.sandbox.private_tmp",
        Applied,
        |unit, text, context| widened(
            &mut unit.exec.sandbox.private_tmp,
            &["connected", "disconnected"],
            text,
            context
        )
    ),
    field!("PrivateDevices", exec.sandbox.private_devices, Applied),
    field!("PrivateNetwork", exec.sandbox.private_network, Applied),
    field!("PrivateUsers", exec.sandbox.private_users, Applied),
    field!("PrivateMounts", exec.sandbox.private_mounts, Applied),
    field!("PrivateIPC", exec.sandbox.private_ipc, Applied),
    field!("PrivatePIDs", exec.sandbox.private_pids, Applied),
    field!(
        "ProtectKernelTunables",
        exec.sandbox.protect_kernel_tunables,
        Applied
    ),
    field!(
        "ProtectKernelModules",
        exec.sandbox.protect_kernel_modules,
        Applied
    ),
    field!(
        "ProtectKernelLogs",
        exec.sandbox.protect_kernel_logs,
        Applied
    ),
    field!("ProtectClock", exec.sandbox.protect_clock, Applied),
    field!(
        "ProtectControlGroups",
        exec.sandbox.protect_control_groups,
        Applied
    ),
    custom!(
        "ProtectHostname",
        "boolean, or newer words for yes",
        "exec.sandbox.protect_hostname",
        Applied,
        |unit, text, context| {
            // Newer versions let the unit have a name of its own behind the protection.
            let (kind, name) = match text.split_once(':') {
                Some((kind, name)) => (kind, Some(name)),
                None => (text, None),
            };
            widened(
                &mut unit.exec.sandbox.protect_hostname,
                &["private"],
                kind,
                context,
            )?;
            if let Some(name) = name {
                context.warn(ValueError::invalid(
                    name,
                    "a name that is set: it stays the machine's",
                ));
            }
            Ok(())
        }
    ),
    field!("ProtectSystem", exec.sandbox.protect_system, Applied),
    field!("ProtectHome", exec.sandbox.protect_home, Applied),
    field!("MountFlags", exec.sandbox.mount_flags, Applied),
    field!(
        "NetworkNamespacePath",
        exec.sandbox.network_namespace_path,
        Applied
    ),
    field!("IPCNamespacePath", exec.sandbox.ipc_namespace_path, Applied),
    field!("SetCredential", exec.credentials.set, Applied),
    field!(
        "SetCredentialEncrypted",
        exec.credentials.set_encrypted,
        ENCRYPTED
    ),
    field!("LoadCredential", exec.credentials.load, Applied),
    field!(
        "LoadCredentialEncrypted",
        exec.credentials.load_encrypted,
        ENCRYPTED
    ),
    field!("ImportCredential", exec.credentials.import, Applied),
    field!("PAMName", exec.labels.pam_name, Applied),
    field!("UtmpIdentifier", exec.labels.utmp_identifier, Applied),
    field!("UtmpMode", exec.labels.utmp_mode, Applied),
    field!("SELinuxContext", exec.labels.selinux_context, Applied),
    field!("AppArmorProfile", exec.labels.apparmor_profile, Applied),
    field!(
        "SmackProcessLabel",
        exec.labels.smack_process_label,
        Applied
    ),
    custom!(
        "Capabilities",
        "capabilities",
        "nothing",
        Status::Obsolete("use AmbientCapabilities="),
        |_, _, _| Ok(())
    ),
];

/// A protection that newer versions have in several kinds, which differ in what else the process is given: each is carried
/// out as `yes`, which is the strictest or as strict.
fn widened(
    value: &mut bool,
    words: &[&str],
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let text = if words.contains(&text) { "yes" } else { text };
    value.assign(text, context)
}
