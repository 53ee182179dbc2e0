//! Directives that a unit has and that nobody carries out yet.

use muster_unit_file::config::{
    Credentials, ExecContext, Images, ResourceControl, Sandbox, Scheduling, SecurityLabels,
    UnitConfig,
};

macro_rules! differing {
    ($found:ident, $value:expr, $default:expr, $($field:ident => $name:literal),* $(,)?) => {
        $(if $value.$field != $default.$field { $found.push($name); })*
    };
}

/// Their names. A process with all privileges is not confined anyway, and resources are the unit's, not the process's.
pub(crate) fn directives(config: &UnitConfig, privileged: bool) -> Vec<&'static str> {
    let mut found = Vec::new();
    if !privileged {
        confinement(&config.exec, &mut found);
    }
    resources(config, &mut found);
    found
}

fn confinement(exec: &ExecContext, found: &mut Vec<&'static str>) {
    let default = Sandbox::default();
    let sandbox = &*exec.sandbox;
    differing!(found, sandbox, default,
        private_tmp => "PrivateTmp",
        private_devices => "PrivateDevices",
        private_network => "PrivateNetwork",
        private_users => "PrivateUsers",
        private_mounts => "PrivateMounts",
        private_ipc => "PrivateIPC",
        protect_kernel_tunables => "ProtectKernelTunables",
        protect_kernel_modules => "ProtectKernelModules",
        protect_kernel_logs => "ProtectKernelLogs",
        protect_clock => "ProtectClock",
        protect_control_groups => "ProtectControlGroups",
        protect_hostname => "ProtectHostname",
        protect_home => "ProtectHome",
        protect_system => "ProtectSystem",
        protect_proc => "ProtectProc",
        proc_subset => "ProcSubset",
        memory_deny_write_execute => "MemoryDenyWriteExecute",
        restrict_realtime => "RestrictRealtime",
        restrict_suid_sgid => "RestrictSUIDSGID",
        lock_personality => "LockPersonality",
        restrict_namespaces => "RestrictNamespaces",
        restrict_address_families => "RestrictAddressFamilies",
        restrict_file_systems => "RestrictFileSystems",
        capability_bounding_set => "CapabilityBoundingSet",
        ambient_capabilities => "AmbientCapabilities",
        secure_bits => "SecureBits",
        syscall_filter => "SystemCallFilter",
        syscall_log => "SystemCallLog",
        syscall_architectures => "SystemCallArchitectures",
        read_write_paths => "ReadWritePaths",
        read_only_paths => "ReadOnlyPaths",
        inaccessible_paths => "InaccessiblePaths",
        exec_paths => "ExecPaths",
        no_exec_paths => "NoExecPaths",
        bind_mounts => "BindPaths",
        temporary_file_systems => "TemporaryFileSystem",
        mount_flags => "MountFlags",
        network_namespace_path => "NetworkNamespacePath",
        ipc_namespace_path => "IPCNamespacePath",
        personality => "Personality",
        keyring_mode => "KeyringMode",
    );
    let (images, default) = (&*exec.images, Images::default());
    differing!(found, images, default,
        extension_directories => "ExtensionDirectories",
        extension_images => "ExtensionImages",
        mount_images => "MountImages",
    );
    let (credentials, default) = (&*exec.credentials, Credentials::default());
    differing!(found, credentials, default,
        set => "SetCredential",
        set_encrypted => "SetCredentialEncrypted",
        load => "LoadCredential",
        load_encrypted => "LoadCredentialEncrypted",
    );
    let (labels, default) = (&*exec.labels, SecurityLabels::default());
    differing!(found, labels, default,
        pam_name => "PAMName",
        selinux_context => "SELinuxContext",
        apparmor_profile => "AppArmorProfile",
        smack_process_label => "SmackProcessLabel",
    );
    let (scheduling, default) = (&*exec.scheduling, Scheduling::default());
    differing!(found, scheduling, default,
        numa_policy => "NUMAPolicy",
        numa_mask => "NUMAMask",
    );
    if exec.dynamic_user {
        found.push("DynamicUser");
    }
    if exec.remove_ipc {
        found.push("RemoveIPC");
    }
}

fn resources(config: &UnitConfig, found: &mut Vec<&'static str>) {
    let (resources, default) = (&*config.resources, ResourceControl::default());
    differing!(found, resources, default,
        allowed_cpus => "AllowedCPUs",
        allowed_memory_nodes => "AllowedMemoryNodes",
        cpu_weight => "CPUWeight",
        cpu_quota => "CPUQuota",
        memory_min => "MemoryMin",
        memory_low => "MemoryLow",
        memory_high => "MemoryHigh",
        memory_max => "MemoryMax",
        memory_swap_max => "MemorySwapMax",
        device_allow => "DeviceAllow",
        device_policy => "DevicePolicy",
        io_weight => "IOWeight",
        io_read_bandwidth_max => "IOReadBandwidthMax",
        io_write_bandwidth_max => "IOWriteBandwidthMax",
        io_read_iops_max => "IOReadIOPSMax",
        io_write_iops_max => "IOWriteIOPSMax",
        tasks_max => "TasksMax",
        ip_address_allow => "IPAddressAllow",
        ip_address_deny => "IPAddressDeny",
        socket_bind_allow => "SocketBindAllow",
        socket_bind_deny => "SocketBindDeny",
        bpf_program => "BPFProgram",
    );
}
