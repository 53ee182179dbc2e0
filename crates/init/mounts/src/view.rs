//! What is to be seen of the file system, as a value.

use serde::{Deserialize, Serialize};

use crate::image::{Extension, Image, MountImage};

/// What a process is to see of the file system. The default is everything, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct View {
    /// Another root.
    pub root: Option<Root>,
    /// `ReadWritePaths=`
    pub read_write: Vec<Place>,
    /// `ReadOnlyPaths=`
    pub read_only: Vec<Place>,
    /// `InaccessiblePaths=`
    pub inaccessible: Vec<Place>,
    /// `ExecPaths=`
    pub exec: Vec<Place>,
    /// `NoExecPaths=`
    pub no_exec: Vec<Place>,
    /// `BindPaths=` and `BindReadOnlyPaths=`, in the order of the file.
    pub binds: Vec<Bind>,
    /// Nothing in another root, nor in a folder that is bound, is a device or a program that gives rights. What is bound from
    /// the machine's `/dev` stays what it is.
    pub plain: bool,
    /// `TemporaryFileSystem=`
    pub temporary: Vec<Temporary>,
    /// `MountImages=`. Of two at one path the first is seen.
    pub images: Vec<MountImage>,
    /// `ExtensionImages=` and, after those, `ExtensionDirectories=`: each over the ones before it.
    pub extensions: Vec<Extension>,
    /// `PrivateTmp=`: the folders that stand for `/tmp` and `/var/tmp`.
    pub private_tmp: Option<Folders>,
    /// `PrivateDevices=`
    pub private_devices: bool,
    /// `ProtectSystem=`
    pub protect_system: ProtectSystem,
    /// `ProtectHome=`
    pub protect_home: ProtectHome,
    /// `ProtectKernelTunables=`
    pub protect_kernel_tunables: bool,
    /// `ProtectKernelModules=`
    pub protect_kernel_modules: bool,
    /// `ProtectKernelLogs=`
    pub protect_kernel_logs: bool,
    /// `ProtectControlGroups=`
    pub protect_control_groups: bool,
    /// `ProtectProc=`
    pub others_processes: ProcOthers,
    /// `ProcSubset=pid`
    pub only_processes: bool,
    /// `PrivatePIDs=`: `/proc` shows the processes of the process's own namespace.
    pub own_processes: bool,
    /// `ProtectControlGroups=private`: `/sys/fs/cgroup` shows the groups of the process's own namespace.
    pub own_groups: bool,
    /// `PrivateIPC=`: `/dev/mqueue` shows the queues of the process's own namespace.
    pub own_queues: bool,
    /// `PrivateNetwork=`: `/sys` shows the links of the process's own network.
    pub own_network: bool,
    /// `MountAPIVFS=`: `/proc`, `/sys`, `/dev` and `/run` are mounted in another root.
    pub kernel_file_systems: bool,
    /// `PrivateMounts=`, or any mount at all: changes of the process stay its own.
    pub own_mounts: bool,
    /// `MountFlags=`
    pub propagation: Option<Propagation>,
    /// Folders of the unit's own (`StateDirectory=` and its siblings), writable whatever else is protected.
    pub own_folders: Vec<Box<str>>,
    /// Links to folders of the unit's own. Where a link would not be seen, its folder is there in its place.
    pub own_links: Vec<Link>,
    /// The folder with the credentials, visible read-only while those of others are not.
    pub credentials: Option<Box<str>>,
    /// The folder with all units' credentials.
    pub all_credentials: Option<Box<str>>,
}

/// Another root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Root {
    /// `RootDirectory=`
    Folder(Box<str>),
    /// `RootImage=`, with `RootImageOptions=`
    Image(Image),
}

/// A path in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The path, absolute.
    pub path: Box<str>,
    /// Nothing happens if it does not exist (`-`).
    pub optional: bool,
    /// Counted from the other root rather than from the machine's (`+`).
    pub in_root: bool,
}

/// A link to a folder of the unit's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Where the link is.
    pub path: Box<str>,
    /// The folder, on the machine.
    pub folder: Box<str>,
}

/// A path that is seen at another place too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Where it is.
    pub source: Box<str>,
    /// Where it is seen.
    pub destination: Box<str>,
    /// Nobody writes there.
    pub read_only: bool,
    /// With what is mounted below it.
    pub recursive: bool,
    /// Nothing happens if it does not exist.
    pub optional: bool,
}

/// A file system in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Temporary {
    /// Where.
    pub path: Box<str>,
    /// Its mount options, comma-separated.
    pub options: Box<str>,
}

/// The folders behind a private `/tmp` and `/var/tmp`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folders {
    /// Behind `/tmp`.
    pub tmp: Box<str>,
    /// Behind `/var/tmp`.
    pub var_tmp: Box<str>,
}

/// What of the system is read-only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtectSystem {
    /// Nothing.
    #[default]
    No,
    /// `/usr`, `/boot`, `/efi`.
    Yes,
    /// `/etc` too.
    Full,
    /// Everything but `/dev`, `/proc`, `/sys`, and the homes, which [`ProtectHome`] is for.
    Strict,
}

/// What of the homes is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProtectHome {
    /// Everything.
    #[default]
    No,
    /// Nothing; they cannot be entered.
    Yes,
    /// Everything, but nobody writes there.
    ReadOnly,
    /// Nothing; they are empty.
    Tmpfs,
}

/// What of other users' processes is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcOthers {
    /// Everything.
    #[default]
    Default,
    /// That they exist.
    NoAccess,
    /// Nothing.
    Invisible,
    /// Those that may be traced.
    Ptraceable,
}

/// Whether mounts travel between namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Propagation {
    /// Both ways.
    Shared,
    /// From the machine to the process.
    Slave,
    /// Not at all.
    Private,
}
