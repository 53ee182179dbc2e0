//! What the instance sees beside its image.

use std::path::{Component, Path, PathBuf};

use muster_bundle::etc;
use muster_runtime::InstanceSpec;
use oci_spec::runtime::{Mount, MountBuilder};

use super::{HostFacts, SpecificationError, built};

/// Where an instance finds its state and its storage.
const STATE: &str = "/state.dat";
const STORAGE: &str = "/storage";
/// Of `/tmp` in bytes, where the item says nothing.
const TMP_SIZE: u64 = 64 << 20;
/// Of `/dev/shm`, as everywhere.
const SHM_SIZE: u64 = 64 << 20;

pub(super) fn mounts(
    instance: &InstanceSpec,
    host: &HostFacts,
    folder: &Path,
) -> Result<Vec<Mount>, SpecificationError> {
    let mut mounts = kernel(instance, host);
    mounts.push(tmp(instance));
    for (file, _) in etc::files(instance) {
        let shown = Path::new("/etc").join(file);
        mounts.push(bind(
            &folder.join(file),
            &shown,
            &["ro", "nosuid", "nodev", "noexec"],
        )?);
    }
    let read_only = [read_only(host), &["nosuid", "nodev"]].concat();
    for path in &host.binds {
        mounts.push(bind(path, path, &read_only)?);
    }
    for (source, target, is_read_only) in instance
        .resources
        .iter()
        .flat_map(|resource| &resource.mounts)
    {
        let options: &[&str] = match is_read_only {
            true => &read_only,
            false => &["rw", "nosuid", "nodev"],
        };
        mounts.push(bind(source, target, options)?);
    }
    if let Some(state) = &instance.state_file {
        mounts.push(bind(
            state,
            Path::new(STATE),
            &["rw", "nosuid", "nodev", "noexec"],
        )?);
    }
    if let Some(storage) = &instance.storage {
        mounts.push(bind(
            storage,
            Path::new(STORAGE),
            &["rw", "nosuid", "nodev"],
        )?);
    }
    Ok(mounts)
}

/// Options of something that is shown but not to be written to, whatever is mounted within it: `ro` alone leaves that writable.
fn read_only(host: &HostFacts) -> &'static [&'static str] {
    match host.has_mount_setattr {
        true => &["ro", "rro"],
        // The OCI runtime would fail at what the kernel does not know.
        false => &["ro"],
    }
}

/// What the kernel shows, and what programs expect in `/dev`.
fn kernel(instance: &InstanceSpec, host: &HostFacts) -> Vec<Mount> {
    let shm = format!("size={SHM_SIZE}");
    let mut pts = vec![
        "nosuid",
        "noexec",
        "newinstance",
        "ptmxmode=0666",
        "mode=0620",
    ];
    let has_own_users = instance.item_config.sandbox.user_namespace;
    if !has_own_users {
        // The group of terminals, as everywhere.
        pts.push("gid=5");
    }
    let sys = if has_own_users && instance.network.is_some() {
        // sysfs belongs to the network namespace's owner, who is not in the instance's user namespace. What the host has
        // mounted within comes along: in a user namespace the kernel takes nothing off that it hides.
        let options = [&["rbind", "nosuid", "noexec", "nodev"], read_only(host)].concat();
        bind_mount("/sys", "/sys", &options)
    } else {
        mount(
            "sysfs",
            "/sys",
            "sysfs",
            &["nosuid", "noexec", "nodev", "ro"],
        )
    };
    vec![
        mount("proc", "/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount(
            "tmpfs",
            "/dev",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"],
        ),
        mount("devpts", "/dev/pts", "devpts", &pts),
        mount(
            "shm",
            "/dev/shm",
            "tmpfs",
            &["nosuid", "noexec", "nodev", "mode=1777", &shm],
        ),
        mount(
            "mqueue",
            "/dev/mqueue",
            "mqueue",
            &["nosuid", "noexec", "nodev"],
        ),
        sys,
        mount(
            "cgroup",
            "/sys/fs/cgroup",
            "cgroup",
            &["nosuid", "noexec", "nodev", "relatime", "ro"],
        ),
    ]
}

/// What an item says about the size of `/tmp`.
pub(crate) fn tmp_limit(instance: &InstanceSpec) -> Option<u64> {
    let item = &instance.item_config;
    let asked = item.quotas.tmp_limit.filter(|_| !item.skip_resource_limits);
    // To the kernel, none is no limit.
    asked.map(|size| size.max(1))
}

fn tmp(instance: &InstanceSpec) -> Mount {
    let size = tmp_limit(instance).unwrap_or(TMP_SIZE);
    let size = format!("size={size}");
    mount(
        "tmpfs",
        "/tmp",
        "tmpfs",
        &["nosuid", "nodev", "mode=1777", &size],
    )
}

fn bind(source: &Path, target: &Path, options: &[&str]) -> Result<Mount, SpecificationError> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !target.has_root() || !target.components().all(plain) || target == Path::new("/") {
        return Err(SpecificationError::BadTarget(target.to_owned()));
    }
    for path in [source, target] {
        if path.to_str().is_none() {
            return Err(SpecificationError::NotText(path.to_owned()));
        }
    }
    let mut all = vec!["rbind", "rprivate"];
    all.extend(options);
    Ok(bind_mount(source, target, &all))
}

fn bind_mount(source: impl Into<PathBuf>, target: impl Into<PathBuf>, options: &[&str]) -> Mount {
    mount(source, target, "bind", options)
}

fn mount(
    source: impl Into<PathBuf>,
    target: impl Into<PathBuf>,
    kind: &str,
    options: &[&str],
) -> Mount {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    let mount = MountBuilder::default()
        .source(source)
        .destination(target)
        .typ(kind);
    built(mount.options(options).build())
}
