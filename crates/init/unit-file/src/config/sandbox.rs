//! What processes cannot see and do, their root file systems, secrets and labels.

use super::rare;
use crate::value::access::{
    AddressFamilies, AllowedNamespaces, AmbientSet, BoundingSet, NameFilter, SecureBits,
    SyscallError, SyscallFilter,
};
use crate::value::credential::{CredentialPatterns, CredentialPlaces, CredentialTexts};
use crate::value::image_policy::ImagePolicy;
use crate::value::list::StrList;
use crate::value::path::{AbsolutePath, BindMounts, NamespacePaths};
use crate::value::{boolean_word, word_enum};

word_enum! {
    /// What of the homes is visible.
    ProtectHome, "protection" + boolean_word,
    No = "no", Yes = "yes", ReadOnly = "read-only", Tmpfs = "tmpfs",
}

word_enum! {
    /// What of the system is read-only.
    ProtectSystem, "protection" + boolean_word,
    No = "no", Yes = "yes", Full = "full", Strict = "strict",
}

word_enum! {
    /// What of other processes is visible.
    ProtectProc, "protection",
    Default = "default", NoAccess = "noaccess", Invisible = "invisible", Ptraceable = "ptraceable",
}

word_enum! {
    /// What of `/proc` is visible.
    ProcSubset, "subset",
    All = "all", Pid = "pid",
}

word_enum! {
    /// Which users exist beside `nobody`.
    PrivateUsers, "kind of users" + boolean_word,
    No = "no", Own = "self" | "yes", Identity = "identity", Full = "full", Managed = "managed",
}

impl PrivateUsers {
    /// Whether there is a namespace of users.
    #[must_use]
    pub fn is_on(self) -> bool {
        self != Self::No
    }
}

word_enum! {
    /// What of the control groups is visible, and whether they can be changed.
    ProtectControlGroups, "protection" + boolean_word,
    No = "no", Yes = "yes", Private = "private", Strict = "strict",
}

impl ProtectControlGroups {
    /// Whether others' groups cannot be changed.
    #[must_use]
    pub fn is_on(self) -> bool {
        self != Self::No
    }

    /// Whether the unit's own group is all that is visible.
    #[must_use]
    pub fn is_own(self) -> bool {
        matches!(self, Self::Private | Self::Strict)
    }
}

word_enum! {
    /// Whether mounts travel between namespaces.
    MountPropagation, "propagation",
    Shared = "shared", Slave = "slave", Private = "private",
}

word_enum! {
    /// Which kernel keyring a service gets.
    KeyringMode, "keyring mode",
    Private = "private", Inherit = "inherit", Shared = "shared",
}

/// Restrictions. All off by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sandbox {
    /// Own `/tmp` and `/var/tmp`.
    pub private_tmp: bool,
    /// Only harmless devices.
    pub private_devices: bool,
    /// Only the loopback interface.
    pub private_network: bool,
    /// Own users.
    pub private_users: PrivateUsers,
    /// Own mounts; `None` follows the other settings.
    pub private_mounts: Option<bool>,
    /// Own System V and POSIX queues.
    pub private_ipc: bool,
    /// Own processes.
    pub private_pids: bool,
    /// `/proc/sys`, `/sys` read-only.
    pub protect_kernel_tunables: bool,
    /// No module loading.
    pub protect_kernel_modules: bool,
    /// No kernel log.
    pub protect_kernel_logs: bool,
    /// The clock cannot be set.
    pub protect_clock: bool,
    /// Control groups read-only, or the unit's own alone.
    pub protect_control_groups: ProtectControlGroups,
    /// The host name cannot be set.
    pub protect_hostname: bool,
    /// What of the homes is visible.
    pub protect_home: ProtectHome,
    /// What of the system is read-only.
    pub protect_system: ProtectSystem,
    /// What of other processes is visible.
    pub protect_proc: ProtectProc,
    /// What of `/proc` is visible.
    pub proc_subset: ProcSubset,
    /// No privileges through set-user-id programs.
    pub no_new_privileges: bool,
    /// No memory that is writable and executable.
    pub memory_deny_write_execute: bool,
    /// No real-time scheduling.
    pub restrict_realtime: bool,
    /// No set-user-id files.
    pub restrict_suid_sgid: bool,
    /// The personality stays.
    pub lock_personality: bool,
    /// Namespaces that may be made.
    pub restrict_namespaces: AllowedNamespaces,
    /// Socket families.
    pub restrict_address_families: AddressFamilies,
    /// File systems.
    pub restrict_file_systems: NameFilter,
    /// Capabilities it keeps.
    pub capability_bounding_set: BoundingSet,
    /// Capabilities it gets.
    pub ambient_capabilities: AmbientSet,
    /// Secure bits.
    pub secure_bits: SecureBits,
    /// System calls.
    pub syscall_filter: SyscallFilter,
    /// System calls that are logged.
    pub syscall_log: SyscallFilter,
    /// Architectures whose system calls are allowed.
    pub syscall_architectures: StrList,
    /// The error of a refused system call; `None` ends the process.
    pub syscall_error_number: Option<SyscallError>,
    /// Writable paths.
    pub read_write_paths: NamespacePaths,
    /// Read-only paths.
    pub read_only_paths: NamespacePaths,
    /// Invisible paths.
    pub inaccessible_paths: NamespacePaths,
    /// Paths from which programs run.
    pub exec_paths: NamespacePaths,
    /// Paths from which none run.
    pub no_exec_paths: NamespacePaths,
    /// Bind mounts.
    pub bind_mounts: BindMounts,
    /// Temporary file systems, `path:options`.
    pub temporary_file_systems: StrList,
    /// Whether mounts travel between namespaces.
    pub mount_flags: Option<MountPropagation>,
    /// A network namespace to join.
    pub network_namespace_path: Option<AbsolutePath>,
    /// An IPC namespace to join.
    pub ipc_namespace_path: Option<AbsolutePath>,
    /// What the kernel says the machine is.
    pub personality: Option<super::exec::Personality>,
    /// Which keyring it gets; `None` is the default of the unit's kind.
    pub keyring_mode: Option<KeyringMode>,
    /// What cannot be had here is dropped and said, rather than fail the start.
    pub best_effort: bool,
}

/// Root file systems and images.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Images {
    /// The root directory.
    pub root_directory: Option<AbsolutePath>,
    /// The root image.
    pub root_image: Option<AbsolutePath>,
    /// Its mount options, `partition:options`.
    pub root_image_options: StrList,
    /// Its verity hash, in hexadecimal, or a path.
    pub root_hash: Option<Box<str>>,
    /// The signature of that.
    pub root_hash_signature: Option<Box<str>>,
    /// Where the verity data is.
    pub root_verity: Option<AbsolutePath>,
    /// Directories laid over the root.
    pub extension_directories: NamespacePaths,
    /// Images laid over the root.
    pub extension_images: StrList,
    /// Images that are mounted, `source:destination:options`.
    pub mount_images: StrList,
    /// What the root image must be.
    pub root_image_policy: ImagePolicy,
    /// What images laid over the root must be.
    pub extension_image_policy: ImagePolicy,
    /// What images that are mounted must be.
    pub mount_image_policy: ImagePolicy,
    /// `/proc`, `/sys`, `/dev` are mounted; `None` where there is a root of its own.
    pub mount_api_vfs: Option<bool>,
}

/// Secrets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credentials {
    /// `id:data`
    pub set: CredentialTexts,
    /// `id:data`, encrypted.
    pub set_encrypted: CredentialTexts,
    /// `id:path`
    pub load: CredentialPlaces,
    /// `id:path`, encrypted.
    pub load_encrypted: CredentialPlaces,
    /// Patterns for what the system was given.
    pub import: CredentialPatterns,
}

/// Labels of security modules, PAM, login records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecurityLabels {
    /// The PAM service.
    pub pam_name: Option<Box<str>>,
    /// The identifier of the login record.
    pub utmp_identifier: Option<Box<str>>,
    /// Its kind.
    pub utmp_mode: super::exec::UtmpMode,
    /// SELinux; `-` allows failure.
    pub selinux_context: Option<Box<str>>,
    /// AppArmor; `-` allows failure.
    pub apparmor_profile: Option<Box<str>>,
    /// SMACK; `-` allows failure.
    pub smack_process_label: Option<Box<str>>,
}

rare!(Sandbox, Images, Credentials, SecurityLabels);
