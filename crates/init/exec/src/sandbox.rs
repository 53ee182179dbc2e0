//! What only `muster-exec` can set up, as a value.

use std::fmt;

use muster_mounts::View;
use muster_seccomp::Policy;
use serde::{Deserialize, Serialize};

use crate::folders::Folder;
use crate::variables::EnvironmentFile;

/// What a process is kept from, and what it is given, beyond what can be set up between `clone3` and `execve`.
///
/// Everything in it is demanded: what cannot be had makes the start fail with the exit code of its step, unless
/// [`best_effort`](Self::best_effort) is set. Then it is dropped, and said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sandbox {
    /// The unit, for messages and names.
    pub unit: Box<str>,
    /// What is seen of the file system.
    pub view: View,
    /// Which namespaces are its own.
    pub namespaces: Namespaces,
    /// What the host is called in a namespace of the host's name; `None` leaves the machine's.
    pub host_name: Option<Box<str>>,
    /// Capabilities, where they differ from the manager's.
    pub capabilities: Option<CapabilitySets>,
    /// The kernel's secure bits.
    pub secure_bits: u8,
    /// Which system calls it may make.
    pub system_calls: Policy,
    /// Its secrets.
    pub credentials: Vec<Credential>,
    /// Where those are put: a folder that only the unit's user reads. Made by `muster-exec`, removed by the manager.
    pub credentials_folder: Option<Box<str>>,
    /// Whose they are, user and group, where the process itself has other rights; `None` is the process's own user.
    pub credentials_owner: Option<(u32, u32)>,
    /// Those of its own folders that are not yet as they should be. They are made before anything else.
    pub folders: Vec<Folder>,
    /// A PAM session around it.
    pub login: Option<Login>,
    /// Which kernel keyring it gets.
    pub keyring: Keyring,
    /// What the kernel says the machine is: the argument of `personality`.
    pub personality: Option<u32>,
    /// Where memory comes from.
    pub numa: Option<NumaPolicy>,
    /// `AppArmorProfile=`; one with a leading `-` may be missing.
    pub apparmor_profile: Option<Box<str>>,
    /// `SELinuxContext=`; one with a leading `-` may be missing.
    pub selinux_context: Option<Box<str>>,
    /// `SmackProcessLabel=`; one with a leading `-` may be missing.
    pub smack_label: Option<Box<str>>,
    /// Whose rights it has, by names that the machine's files do not know all of; they replace the context's identity.
    pub names: Option<Names>,
    /// The name that the unit gives to a user that is only lent. Nobody else may be known by it.
    pub lent_user: Option<Box<str>>,
    /// Folders with what the system was given (`$CREDENTIALS_DIRECTORY` of the manager), searched before the usual ones.
    pub credential_stores: Vec<Box<str>>,
    /// How readily the kernel ends it for lack of memory. Whoever shares a memory has the same score, so this is nothing for the
    /// direct path.
    pub oom_score_adjust: Option<i16>,
    /// Where the program is looked for if the context only names it: in the process's own view, in this order.
    pub program_folders: Vec<Box<str>>,
    /// Files with variables that may have to be waited for. They win over what the context lists.
    pub environment_files: Vec<EnvironmentFile>,
    /// Which variables are taken away when all are known: by name, or where they have a value.
    pub unset_environment: Vec<Box<str>>,
    /// Variables are replaced in the arguments when all are known.
    pub expands_arguments: bool,
    /// What cannot be had is dropped and said, rather than fail the start.
    pub best_effort: bool,
    /// A mount namespace that cannot be had is a failure: a user that is only lent must not leave files anywhere.
    pub insists_on_view: bool,
}

/// Accounts that only the system's name services may know. They are looked up by `muster-exec`: the code of those
/// services may do anything, and must not do it in the manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Names {
    /// The user, by name or number; `None` leaves the manager's.
    pub user: Option<Box<str>>,
    /// The group, by name or number; `None` is the user's.
    pub group: Option<Box<str>>,
    /// Further groups, by name or number.
    pub groups: Vec<Box<str>>,
    /// `$HOME`, `$USER`, `$LOGNAME` and `$SHELL` are set, unless the environment has them.
    pub login_environment: bool,
    /// They only say whose the folders and secrets are: the process keeps the rights that it has.
    pub only_for_folders: bool,
}

/// Which namespaces are the process's own, beside that of mounts, which follows from the view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespaces {
    /// Links and addresses. One of its own has the loopback interface, which is up.
    pub network: Namespace,
    /// System V and POSIX queues.
    pub ipc: Namespace,
    /// The host's name.
    pub uts: bool,
    /// Users: only some of them and `nobody` exist.
    pub users: bool,
    /// Which users exist there.
    pub known_users: KnownUsers,
    /// Control groups: the process's own one is the root of all that it sees.
    pub groups: bool,
    /// Processes. The first in it is a small one that ends with the program and passes signals on.
    pub pids: bool,
}

/// Which users a namespace of users has. Each has the number that it has outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownUsers {
    /// Root, and the process's own user.
    #[default]
    Own,
    /// The first 65536, and the process's own user.
    First,
    /// All.
    All,
}

/// Where a namespace comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Namespace {
    /// It is the manager's.
    #[default]
    Shared,
    /// It is the process's own.
    Own,
    /// It is the one that this file stands for (`/run/netns/a`, `/proc/1/ns/net`).
    Of(Box<str>),
}

/// Capabilities, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilitySets {
    /// What it can ever have.
    pub bounding: u64,
    /// What it has although its user is not root.
    pub ambient: u64,
}

/// A secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// Its name: a file in the folder. One that is named twice keeps what came first.
    pub name: Box<str>,
    /// Where it comes from.
    pub source: CredentialSource,
}

/// Where a secret comes from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CredentialSource {
    /// These bytes, unless something else gave the name before (`SetCredential=`).
    Data(Vec<u8>),
    /// A file, a folder with files, or a socket that answers (`LoadCredential=` with an absolute path).
    Path(Box<str>),
    /// What the system was given under this name, wherever that is (`LoadCredential=` with a plain name).
    System(Box<str>),
    /// All that the system was given and whose name fits a pattern (`ImportCredential=`); the name is the pattern.
    Matching,
    /// Likewise, under other names: this stands for the part of the name that the pattern fixes.
    Renamed(Box<str>),
}

impl fmt::Debug for CredentialSource {
    /// A secret is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(bytes) => write!(f, "Data({} bytes)", bytes.len()),
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::System(name) => f.debug_tuple("System").field(name).finish(),
            Self::Matching => f.write_str("Matching"),
            Self::Renamed(start) => f.debug_tuple("Renamed").field(start).finish(),
        }
    }
}

/// A PAM session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// PAM's name of the service.
    pub service: Box<str>,
    /// Who logs in.
    pub user: Box<str>,
    /// The terminal, if there is one.
    pub terminal: Option<Box<str>>,
}

/// Which kernel keyring a process gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keyring {
    /// The manager's.
    #[default]
    Inherit,
    /// One of its own.
    Private,
    /// One of its own, with the user's linked into it.
    Shared,
}

/// Where memory comes from on machines with several nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaPolicy {
    /// The kernel's number of the policy (`MPOL_BIND` ...).
    pub policy: u32,
    /// Nodes, by number.
    pub nodes: Vec<u16>,
}
