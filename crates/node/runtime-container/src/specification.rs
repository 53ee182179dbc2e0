//! An instance as an OCI runtime specification. Pure: an instance and facts about the host in, a document out.
//!
//! | part | what the instance gets |
//! |---|---|
//! | namespaces | its own pid, mount, uts, ipc, cgroup and network (the one made for it, else an empty one); its own users if it asks |
//! | root | read-only unless the item asks; what is written to a writable one goes with the instance |
//! | privileges | no capabilities but those that the item asks for *and* the node grants; no new privileges |
//! | system calls | an allow list ([`seccomp`]) |
//! | limits | CPU, memory without swap, processes, open files, `/tmp`: [`limits`] |
//! | environment | the image's, its resources', the controller's, the operator's, and last `AOS_*`, which nobody overrides |
//!
//! What cannot be granted is an error that names it; nothing is left out silently.

mod limits;
mod mounts;
mod privileges;
mod seccomp;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use muster_bundle::{environment, etc};
use muster_runtime::InstanceSpec;
use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Linux, LinuxDevice, LinuxDeviceBuilder, LinuxDeviceType, LinuxIdMapping, LinuxIdMappingBuilder,
    LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, Process, Root, Spec, User,
};

pub use self::limits::CPU_PERIOD;
pub(crate) use self::mounts::tmp_limit;

/// The version of the specification that documents are written for: what runc 1.1 and crun 1.8 understand.
const OCI_VERSION: &str = "1.0.2";
/// How many users a user namespace holds.
const MAPPED_IDS: u32 = 65_536;

/// Parts of `/proc` and `/sys` that tell too much about the machine or change it.
const MASKED: [&str; 11] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// What has to be known about the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// How many processors it has.
    pub cores: u64,
    /// How much they can do together; unknown if absent.
    pub max_dmips: Option<u64>,
    /// Whether memory can be limited together with swap.
    pub limits_swap: bool,
    /// Whether the kernel can make what is mounted within a mount read-only with it (`mount_setattr`, since Linux 5.12).
    pub has_mount_setattr: bool,
    /// Capabilities that items may have when they ask.
    pub granted_capabilities: BTreeSet<String>,
    /// The first of 65,536 user and group ids for user namespaces; items that ask for one are refused if absent.
    pub first_mapped_id: Option<u32>,
    /// Groups of the host by name, as far as resources name them.
    pub groups: HashMap<String, u32>,
    /// Device nodes that resources give, with their paths in the instance.
    pub devices: Vec<DeviceNode>,
    /// Folders of the host that every instance sees, read-only, at the same path.
    pub binds: Vec<PathBuf>,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Where the instance finds it.
    pub path: PathBuf,
    /// Block device, else character device.
    pub is_block: bool,
    /// Its numbers.
    pub major: u32,
    /// Its numbers.
    pub minor: u32,
    /// Access bits.
    pub mode: u32,
    /// Its owner on the host.
    pub uid: u32,
    /// Its group on the host: the one that a resource lets the instance join.
    pub gid: u32,
}

/// Why an instance cannot be run as a container here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecificationError {
    /// The image names no program.
    #[error("its image names no program to run: set an entrypoint or cmd")]
    NoCommand,
    /// A capability is not granted on this node.
    #[error(
        "it asks for {0}, which this node does not grant: allow it in the runtime's `grantedCapabilities`"
    )]
    CapabilityNotGranted(String),
    /// The specification knows no such capability.
    #[error("it asks for {0}, which is no capability")]
    UnknownCapability(String),
    /// There are no ids for user namespaces.
    #[error(
        "it asks for a user namespace, and this node has no ids for one: set the runtime's `firstMappedId`"
    )]
    NoMappedIds,
    /// An id that a user namespace has no room for.
    #[error("its id {0} is too high for a user namespace of {MAPPED_IDS} ids")]
    IdNotMappable(u32),
    /// A CPU limit in DMIPS, and nobody knows how many the node has.
    #[error(
        "it has a CPU limit of {0} DMIPS, and it is not known how many this node has: set its maxDMIPS"
    )]
    UnknownDmips(u64),
    /// A kernel setting that is not of a namespace.
    #[error("it asks for the kernel setting {0}, which would change the whole machine")]
    SharedSysctl(String),
    /// Something is to be mounted at a place that is none.
    #[error("something is to be mounted at {}, which is no absolute path without `..`", .0.display())]
    BadTarget(PathBuf),
    /// A path that JSON has no form for.
    #[error("the path {} is not text", .0.display())]
    NotText(PathBuf),
    /// A group that the host does not have.
    #[error("resource {resource} needs the group {group}, which this machine does not have")]
    UnknownGroup {
        /// The resource.
        resource: String,
        /// The group.
        group: String,
    },
}

/// What is around the specification.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The folder that holds the bundle.
    pub folder: &'a Path,
    /// The root file system.
    pub rootfs: &'a Path,
    /// What the OCI runtime is told about the cgroup.
    pub cgroup: &'a str,
}

/// The whole document.
pub fn specification(
    instance: &InstanceSpec,
    host: &HostFacts,
    around: Surroundings<'_>,
) -> Result<Spec, SpecificationError> {
    let mut root = Root::default();
    root.set_path(around.rootfs.to_owned());
    root.set_readonly(Some(!instance.item_config.sandbox.writable_rootfs));
    let mut spec = Spec::default();
    spec.set_version(OCI_VERSION.to_owned());
    spec.set_root(Some(root));
    spec.set_hostname(Some(etc::hostname(instance)));
    spec.set_mounts(Some(mounts::mounts(instance, host, around.folder)?));
    spec.set_process(Some(process(instance, host)?));
    spec.set_linux(Some(linux(instance, host, around)?));
    Ok(spec)
}

/// A place in the image's root that something is mounted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountPoint<'a> {
    pub(crate) target: &'a Path,
    pub(crate) is_folder: bool,
    /// The mode that what is mounted there shall have. OCI runtimes give a file system in memory that of the folder it covers,
    /// whatever its options say, so the folder has to have it.
    pub(crate) mode: Option<u32>,
}

pub(crate) fn mount_points(spec: &Spec) -> impl Iterator<Item = MountPoint<'_>> {
    let mounts = spec.mounts().iter().flatten();
    mounts.filter_map(|mount| {
        let target = mount.destination().as_path();
        // What is mounted within another mount has its place made there.
        let is_within = target.starts_with("/dev/") || target.starts_with("/sys/");
        let is_bind = mount.typ().as_deref() == Some("bind");
        let is_file = is_bind
            && mount
                .source()
                .as_ref()
                .is_some_and(|source| source.is_file());
        let options = mount.options().iter().flatten();
        let mut modes = options.filter_map(|option| option.strip_prefix("mode="));
        let mode = modes.next().and_then(|it| u32::from_str_radix(it, 8).ok());
        (!is_within).then_some(MountPoint {
            target,
            is_folder: !is_file,
            mode,
        })
    })
}

fn process(instance: &InstanceSpec, host: &HostFacts) -> Result<Process, SpecificationError> {
    let args: Vec<String> = instance.image_config.command().map(str::to_owned).collect();
    if args.is_empty() {
        return Err(SpecificationError::NoCommand);
    }
    let mut user = User::default();
    user.set_uid(instance.info.uid.as_raw());
    user.set_gid(instance.info.gid.as_raw());
    user.set_additional_gids(Some(groups(instance, host)?));
    let mut process = Process::default();
    process.set_terminal(Some(false));
    process.set_user(user);
    process.set_args(Some(args));
    process.set_env(Some(environment::variables(instance)));
    process.set_cwd(PathBuf::from(&instance.image_config.working_dir));
    process.set_capabilities(Some(privileges::capabilities(instance, host)?));
    process.set_no_new_privileges(Some(true));
    process.set_rlimits(Some(limits::rlimits(instance)));
    Ok(process)
}

fn groups(instance: &InstanceSpec, host: &HostFacts) -> Result<Vec<u32>, SpecificationError> {
    let mut gids = BTreeSet::new();
    for resource in &instance.resources {
        for group in &resource.groups {
            let unknown = || SpecificationError::UnknownGroup {
                resource: resource.name.clone(),
                group: group.clone(),
            };
            gids.insert(*host.groups.get(group).ok_or_else(unknown)?);
        }
    }
    Ok(gids.into_iter().collect())
}

fn linux(
    instance: &InstanceSpec,
    host: &HostFacts,
    around: Surroundings<'_>,
) -> Result<Linux, SpecificationError> {
    let sandbox = &instance.item_config.sandbox;
    let mut linux = Linux::default();
    linux.set_namespaces(Some(namespaces(instance)));
    if sandbox.user_namespace {
        // Shifted ids must not be those of anybody else, so they begin above the ones that are not shifted.
        let fits = |first: &u32| *first >= MAPPED_IDS && first.checked_add(MAPPED_IDS).is_some();
        let first = host
            .first_mapped_id
            .filter(fits)
            .ok_or(SpecificationError::NoMappedIds)?;
        let own = instance.info.uid.as_raw();
        linux.set_uid_mappings(Some(id_mappings(first, [own].into())?));
        // Groups of resources own devices of the host, so that they keep their numbers, too.
        let mut own: BTreeSet<u32> = groups(instance, host)?.into_iter().collect();
        own.insert(instance.info.gid.as_raw());
        linux.set_gid_mappings(Some(id_mappings(first, own)?));
    }
    linux.set_sysctl(Some(limits::sysctl(instance)?));
    linux.set_resources(Some(limits::resources(instance, host)?));
    linux.set_cgroups_path(Some(PathBuf::from(around.cgroup)));
    linux.set_devices(Some(host.devices.iter().map(device).collect()));
    linux.set_seccomp(Some(seccomp::profile(&sandbox.capabilities)));
    linux.set_masked_paths(Some(MASKED.map(str::to_owned).to_vec()));
    linux.set_readonly_paths(Some(READ_ONLY.map(str::to_owned).to_vec()));
    // Mounts that the host makes later do not appear in the instance, and the other way round.
    linux.set_rootfs_propagation(Some("private".to_owned()));
    Ok(linux)
}

fn namespaces(instance: &InstanceSpec) -> Vec<LinuxNamespace> {
    use LinuxNamespaceType::{Cgroup, Ipc, Mount, Network, Pid, User, Uts};
    let own = |kind: LinuxNamespaceType| built(LinuxNamespaceBuilder::default().typ(kind).build());
    let mut namespaces: Vec<LinuxNamespace> = [Pid, Mount, Uts, Ipc, Cgroup].map(own).to_vec();
    namespaces.push(match &instance.network {
        None => own(Network),
        Some(network) => {
            let namespace = LinuxNamespaceBuilder::default().typ(Network);
            built(namespace.path(network.namespace.clone()).build())
        }
    });
    if instance.item_config.sandbox.user_namespace {
        namespaces.push(own(User));
    }
    namespaces
}

/// All ids are shifted but those that the instance has: what it stores belongs to the same user inside and outside.
fn id_mappings(first: u32, own: BTreeSet<u32>) -> Result<Vec<LinuxIdMapping>, SpecificationError> {
    let range = |container: u32, host: u32, size: u32| {
        let mapping = LinuxIdMappingBuilder::default();
        built(
            mapping
                .container_id(container)
                .host_id(host)
                .size(size)
                .build(),
        )
    };
    let mut mappings = Vec::with_capacity(2 * own.len() + 1);
    let mut next = 0;
    // Root inside is nobody outside, also when the instance runs as root.
    for own in own.into_iter().filter(|own| *own > 0) {
        if own >= MAPPED_IDS {
            return Err(SpecificationError::IdNotMappable(own));
        }
        if own > next {
            mappings.push(range(next, first + next, own - next));
        }
        mappings.push(range(own, own, 1));
        next = own + 1;
    }
    if next < MAPPED_IDS {
        mappings.push(range(next, first + next, MAPPED_IDS - next));
    }
    Ok(mappings)
}

fn device(node: &DeviceNode) -> LinuxDevice {
    let kind = match node.is_block {
        true => LinuxDeviceType::B,
        false => LinuxDeviceType::C,
    };
    let device = LinuxDeviceBuilder::default()
        .path(node.path.clone())
        .typ(kind)
        .major(node.major)
        .minor(node.minor)
        .file_mode(node.mode & 0o777)
        .uid(node.uid)
        .gid(node.gid);
    built(device.build())
}

/// A value whose builder has a default for everything.
fn built<T>(built: Result<T, OciSpecError>) -> T {
    built.expect("every field of the specification's types has a default")
}
