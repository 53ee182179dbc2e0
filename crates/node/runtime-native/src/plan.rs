//! What a sandbox is to be, decided before anything is done. Pure: an instance and facts about the host in, a plan out.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use muster_bundle::{environment, etc};
use muster_runtime::InstanceSpec;
use serde::{Deserialize, Serialize};

/// Of `/tmp` in bytes, where the item says nothing.
const TMP_SIZE: u64 = 64 << 20;
/// Open files of a process, where the item says nothing.
const OPEN_FILES: u64 = 1_024;
/// In microseconds: the time in which CPU use is measured.
pub(crate) const CPU_PERIOD: u64 = 100_000;
/// In microseconds: less than this of a period is not a share but a stop.
const LEAST_QUOTA: u64 = 1_000;

/// What has to be known about the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// How many processors it has.
    pub cores: u64,
    /// How much they can do together; unknown if absent.
    pub max_dmips: Option<u64>,
    /// Groups of the host by name.
    pub groups: HashMap<String, u32>,
    /// Folders of the host that programs see beside their image.
    pub beside: Vec<PathBuf>,
    /// Programs for which no network was made are in the host's.
    pub shares_network: bool,
}

/// Why an instance cannot be run natively here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The image names no program.
    #[error("its image names no program to run: set an entrypoint or cmd")]
    NoCommand,
    /// Only containers have capabilities.
    #[error("it asks for {0}, which the native runtime never gives")]
    Capability(String),
    /// Only containers have kernel settings.
    #[error("it asks for the kernel setting {0}, which the native runtime does not set")]
    Sysctl(String),
    /// Only containers have a root that can be written to.
    #[error(
        "it asks for a root that it can write to, which the native runtime never gives: its image is read-only, /tmp and its storage are not"
    )]
    WritableRoot,
    /// A CPU limit in DMIPS, and nobody knows how many the node has.
    #[error(
        "it has a CPU limit of {0} DMIPS, and it is not known how many this node has: set its maxDMIPS"
    )]
    UnknownDmips(u64),
    /// Something is to be mounted at a place that is none.
    #[error("something is to be mounted at {}, which is no absolute path without `..`", .0.display())]
    BadTarget(PathBuf),
    /// A group that the host does not have.
    #[error("resource {resource} needs the group {group}, which this machine does not have")]
    UnknownGroup {
        /// The resource.
        resource: String,
        /// The group.
        group: String,
    },
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The program and its arguments.
    pub args: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Where it starts.
    pub cwd: PathBuf,
    /// The name that it sees as its host's.
    pub hostname: String,
    /// Who it runs as.
    pub uid: u32,
    /// Who it runs as.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// The image's layers, the lowest first.
    pub layers: Vec<PathBuf>,
    /// Folders of the host below the image's own of the same name.
    pub beside: Vec<PathBuf>,
    /// Files and folders of the host at places of its own.
    pub binds: Vec<Bind>,
    /// Which network it is in.
    pub network: Network,
    /// Bytes of `/tmp`.
    pub tmp_size: u64,
    /// Open files of a process.
    pub open_files: u64,
    /// What its cgroup is held to.
    pub limits: Limits,
    /// It is to be in a user namespace.
    #[serde(default)]
    pub user_namespace: bool,
}

/// Which network a program is in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Network {
    /// One of its own with nothing in it.
    Empty,
    /// One that was made for it: the namespace.
    Namespace(PathBuf),
    /// The host's.
    Host,
}

/// A file or folder of the host in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub source: PathBuf,
    /// In the sandbox.
    pub target: PathBuf,
    /// It cannot be written to.
    pub read_only: bool,
    /// It is a device, and can be used as one.
    pub is_device: bool,
}

/// What a cgroup is held to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Microseconds of each period.
    pub cpu_quota: Option<u64>,
}

/// The sandbox of an instance whose folder is `folder`.
pub fn plan(instance: &InstanceSpec, host: &HostFacts, folder: &Path) -> Result<Plan, PlanError> {
    let item = &instance.item_config;
    let args: Vec<String> = instance.image_config.command().map(str::to_owned).collect();
    if args.is_empty() {
        return Err(PlanError::NoCommand);
    }
    if let Some(asked) = item.sandbox.capabilities.first() {
        return Err(PlanError::Capability(asked.clone()));
    }
    if item.sandbox.writable_rootfs {
        return Err(PlanError::WritableRoot);
    }
    if let Some(asked) = item.sysctl.keys().next() {
        return Err(PlanError::Sysctl(asked.clone()));
    }
    let is_limited = !item.skip_resource_limits;
    let tmp_size = item.quotas.tmp_limit.filter(|_| is_limited);
    let open_files = item.quotas.no_file_limit.filter(|_| is_limited);
    Ok(Plan {
        args,
        env: environment::variables(instance),
        cwd: PathBuf::from(&instance.image_config.working_dir),
        hostname: etc::hostname(instance),
        uid: instance.info.uid.as_raw(),
        gid: instance.info.gid.as_raw(),
        groups: groups(instance, host)?,
        layers: instance.image.layers.clone(),
        beside: host.beside.clone(),
        binds: binds(instance, folder)?,
        network: match &instance.network {
            Some(made) => Network::Namespace(made.namespace.clone()),
            None if host.shares_network => Network::Host,
            None => Network::Empty,
        },
        // To the kernel, none is no limit.
        tmp_size: tmp_size.unwrap_or(TMP_SIZE).max(1),
        open_files: open_files.unwrap_or(OPEN_FILES),
        limits: limits(instance, host)?,
        user_namespace: item.sandbox.user_namespace,
    })
}

fn groups(instance: &InstanceSpec, host: &HostFacts) -> Result<Vec<u32>, PlanError> {
    let mut gids = Vec::new();
    for resource in &instance.resources {
        for group in &resource.groups {
            let unknown = || PlanError::UnknownGroup {
                resource: resource.name.clone(),
                group: group.clone(),
            };
            gids.push(*host.groups.get(group).ok_or_else(unknown)?);
        }
    }
    gids.sort_unstable();
    gids.dedup();
    Ok(gids)
}

fn limits(instance: &InstanceSpec, host: &HostFacts) -> Result<Limits, PlanError> {
    let item = &instance.item_config;
    if item.skip_resource_limits {
        return Ok(Limits::default());
    }
    let share = |dmips: u64| {
        let all = host.max_dmips.filter(|all| *all > 0);
        let all = u128::from(all.ok_or(PlanError::UnknownDmips(dmips))?);
        let period = u128::from(CPU_PERIOD) * u128::from(host.cores.max(1));
        let quota = (u128::from(dmips) * period / all).min(period);
        Ok(u64::try_from(quota).unwrap_or(u64::MAX).max(LEAST_QUOTA))
    };
    Ok(Limits {
        memory: item.quotas.ram_limit,
        pids: item.quotas.pids_limit,
        cpu_quota: item.quotas.cpu_dmips_limit.map(share).transpose()?,
    })
}

fn binds(instance: &InstanceSpec, folder: &Path) -> Result<Vec<Bind>, PlanError> {
    let bind = |source: &Path, target: &Path, read_only: bool, is_device: bool| {
        let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        if !target.has_root() || !target.components().all(plain) || target == Path::new("/") {
            return Err(PlanError::BadTarget(target.to_owned()));
        }
        Ok(Bind {
            source: source.to_owned(),
            target: target.to_owned(),
            read_only,
            is_device,
        })
    };
    let mut binds = Vec::new();
    for (file, _) in etc::files(instance) {
        binds.push(bind(
            &folder.join(file),
            &Path::new("/etc").join(file),
            true,
            false,
        )?);
    }
    for resource in &instance.resources {
        for (source, target, read_only) in &resource.mounts {
            binds.push(bind(source, target, *read_only, false)?);
        }
        for (source, target) in &resource.devices {
            binds.push(bind(source, target, false, true)?);
        }
    }
    if let Some(state) = &instance.state_file {
        binds.push(bind(state, Path::new("/state.dat"), false, false)?);
    }
    if let Some(storage) = &instance.storage {
        binds.push(bind(storage, Path::new("/storage"), false, false)?);
    }
    Ok(binds)
}

#[cfg(test)]
mod tests {
    use muster_bundle::testing::{Options, spec};
    use muster_runtime::ResourceGrant;

    use super::*;

    fn host() -> HostFacts {
        HostFacts {
            cores: 4,
            max_dmips: Some(40_000),
            groups: [("video".to_owned(), 44)].into(),
            beside: vec!["/usr".into()],
            shares_network: false,
        }
    }

    fn planned(change: impl FnOnce(&mut InstanceSpec)) -> Result<Plan, PlanError> {
        let mut instance = spec("a", "true", Options::default());
        change(&mut instance);
        plan(&instance, &host(), Path::new("/f"))
    }

    #[test]
    fn the_closed_default_is_this() {
        let plan = planned(|_| {}).unwrap();
        assert_eq!(plan.args, ["/bin/sh", "-c", "true"]);
        assert_eq!(
            (plan.uid, plan.gid, plan.groups.as_slice()),
            (5001, 5001, &[][..])
        );
        assert_eq!((plan.tmp_size, plan.open_files), (64 << 20, 1024));
        assert_eq!(plan.limits, Limits::default());
        assert_eq!(plan.network, Network::Empty);
        let shown: Vec<_> = plan
            .binds
            .iter()
            .map(|bind| (bind.target.to_str().unwrap(), bind.read_only))
            .collect();
        assert_eq!(
            shown,
            [
                ("/etc/hosts", true),
                ("/etc/resolv.conf", true),
                ("/etc/hostname", true)
            ]
        );
        assert!(plan.env.iter().any(|variable| variable == "AOS_ITEM_ID=a"));
    }

    #[test]
    fn the_hosts_network_is_for_those_that_have_none_where_it_is_shared() {
        let host = HostFacts {
            shares_network: true,
            ..host()
        };
        let instance = spec("a", "true", Options::default());
        assert_eq!(plan_with(&instance, &host).unwrap().network, Network::Host);
    }

    #[test]
    fn quotas_are_limits_unless_they_are_to_be_skipped() {
        let ask = |instance: &mut InstanceSpec| {
            let quotas = &mut instance.item_config.quotas;
            quotas.ram_limit = Some(1);
            quotas.pids_limit = Some(2);
            quotas.cpu_dmips_limit = Some(5_000);
            quotas.tmp_limit = Some(3);
            quotas.no_file_limit = Some(4);
        };
        let plan = planned(ask).unwrap();
        let limits = Limits {
            memory: Some(1),
            pids: Some(2),
            cpu_quota: Some(50_000),
        };
        assert_eq!(
            (plan.limits, plan.tmp_size, plan.open_files),
            (limits, 3, 4)
        );
        let plan = planned(|instance| {
            ask(instance);
            instance.item_config.skip_resource_limits = true;
        });
        let plan = plan.unwrap();
        assert_eq!(
            (plan.limits, plan.tmp_size, plan.open_files),
            (Limits::default(), 64 << 20, 1024)
        );
        let none = planned(|instance| instance.item_config.quotas.tmp_limit = Some(0));
        assert_eq!(none.unwrap().tmp_size, 1, "zero would be no limit");
        let tiny = planned(|instance| instance.item_config.quotas.cpu_dmips_limit = Some(1));
        assert_eq!(tiny.unwrap().limits.cpu_quota, Some(LEAST_QUOTA));
        let unknown = HostFacts {
            max_dmips: None,
            ..host()
        };
        let mut instance = spec("a", "true", Options::default());
        instance.item_config.quotas.cpu_dmips_limit = Some(7);
        assert_eq!(
            plan_with(&instance, &unknown),
            Err(PlanError::UnknownDmips(7))
        );
    }

    fn plan_with(instance: &InstanceSpec, host: &HostFacts) -> Result<Plan, PlanError> {
        plan(instance, host, Path::new("/f"))
    }

    #[test]
    fn what_is_not_given_is_refused_by_name() {
        let capability = planned(|instance| {
            instance.item_config.sandbox.capabilities = vec!["CAP_NET_ADMIN".into()];
        });
        assert_eq!(
            capability,
            Err(PlanError::Capability("CAP_NET_ADMIN".into()))
        );
        let sysctl = planned(|instance| {
            instance.item_config.sysctl =
                [("net.core.somaxconn".to_owned(), "1".to_owned())].into();
        });
        assert_eq!(sysctl, Err(PlanError::Sysctl("net.core.somaxconn".into())));
        let writable = planned(|instance| instance.item_config.sandbox.writable_rootfs = true);
        assert_eq!(writable, Err(PlanError::WritableRoot));
        let nothing = planned(|instance| instance.image_config.entrypoint.clear());
        assert_eq!(nothing, Err(PlanError::NoCommand));
    }

    #[test]
    fn resources_are_shown_and_their_groups_joined() {
        let grant = ResourceGrant {
            name: "camera".into(),
            devices: vec![("/dev/video0".into(), "/dev/cam".into())],
            groups: vec!["video".into()],
            mounts: vec![("/host/a".into(), "/a".into(), true)],
            ..ResourceGrant::default()
        };
        let with =
            |grant: &ResourceGrant| planned(|instance| instance.resources = vec![grant.clone()]);
        let plan = with(&grant).unwrap();
        assert_eq!(plan.groups, [44]);
        let device = Bind {
            source: "/dev/video0".into(),
            target: "/dev/cam".into(),
            read_only: false,
            is_device: true,
        };
        assert!(plan.binds.contains(&device));
        let odd = ResourceGrant {
            mounts: vec![("/x".into(), "/../x".into(), true)],
            ..ResourceGrant::default()
        };
        assert_eq!(with(&odd), Err(PlanError::BadTarget("/../x".into())));
        let missing = ResourceGrant {
            name: "r".into(),
            groups: vec!["none".into()],
            ..ResourceGrant::default()
        };
        let refusal = PlanError::UnknownGroup {
            resource: "r".into(),
            group: "none".into(),
        };
        assert_eq!(with(&missing), Err(refusal));
    }
}
