//! Instances as the other parts see them: what is measured of one, what it exchanges, which unit is whose.

use std::path::PathBuf;

use muster_alert::{InstanceUnit, InstanceUnits};
use muster_api::domain::{AlertRules, InstanceFilter, InstanceIdent, PartitionName};
use muster_launcher::{Directory, Observer, Resident, RunningInstance};
use muster_monitor::{
    CgroupPath, InstanceWatch, MonitorHandle, TrafficSource, TrafficUsage, WatchedFolder,
};
use muster_telemetry::ErrorChain;
use muster_traffic::{Limits, Traffic};
use tokio::sync::mpsc;

use super::networks::limits;
use crate::config::Config;

/// Instances whose meters wait to be looked after.
const METERS: usize = 1024;
/// The names under which an instance's own files are told, as those of the node's partitions.
const STORAGES: &str = "storages";
const STATES: &str = "states";

/// What is exchanged, for the monitor.
#[derive(Debug)]
pub(super) struct Counted(pub(super) Option<Traffic>);

fn usage(usage: muster_traffic::Usage) -> TrafficUsage {
    TrafficUsage {
        download: usage.download,
        upload: usage.upload,
    }
}

impl TrafficSource for Counted {
    fn node(&self) -> Option<TrafficUsage> {
        self.0.as_ref().map(|traffic| usage(traffic.system()))
    }

    fn instance(&self, instance: &InstanceIdent) -> Option<TrafficUsage> {
        self.0.as_ref()?.instance(instance).map(usage)
    }
}

/// Which unit is whose, for alerts and logs.
#[derive(Debug)]
pub(super) struct Units(pub(super) Directory);

fn unit(resident: &Resident) -> Option<InstanceUnit> {
    Some(InstanceUnit {
        ident: resident.instance.clone(),
        version: resident.version.clone(),
        unit: resident.unit.clone()?,
    })
}

impl InstanceUnits for Units {
    fn by_unit(&self, name: &str) -> Option<InstanceUnit> {
        unit(&*self.0.by_unit(name)?)
    }

    fn find(&self, filter: &InstanceFilter) -> Vec<InstanceUnit> {
        let known = self.0.known(filter);
        known.iter().filter_map(|it| unit(it)).collect()
    }
}

/// An instance that was found running, whose meter may not know of it.
#[derive(Debug)]
struct Metered {
    instance: InstanceIdent,
    address: std::net::IpAddr,
    limits: Limits,
}

/// Has instances measured as they come and go.
#[derive(Debug)]
pub(super) struct Watcher {
    monitor: MonitorHandle,
    storage_dir: PathBuf,
    state_dir: PathBuf,
    meters: mpsc::Sender<Metered>,
}

impl Watcher {
    /// The observer, and the task that looks after meters for it.
    pub(super) fn new(
        config: &Config,
        monitor: MonitorHandle,
        traffic: Option<Traffic>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (meters, inbox) = mpsc::channel(METERS);
        let watcher = Self {
            monitor,
            storage_dir: config.storage_dir.clone(),
            state_dir: config.state_dir.clone(),
            meters,
        };
        (watcher, keep_metered(inbox, traffic))
    }

    fn watch(&self, instance: RunningInstance<'_>) -> InstanceWatch {
        let (info, place) = (instance.info, instance.place);
        // Groups below count, so the unit's has all of the instance, in every tree that has it.
        let group = place.and_then(|it| it.cgroup.as_deref().or(it.instance_cgroup.as_deref()));
        let cgroup = group.and_then(|group| match CgroupPath::parse(group) {
            Ok(cgroup) => Some(cgroup),
            Err(error) => {
                tracing::warn!(instance = %info.instance, %error, "an instance has a group that cannot be measured");
                None
            }
        });
        let item = instance.image.map(|image| &image.item_config);
        let quotas = item.map(|item| item.quotas).unwrap_or_default();
        let folder = |name: &str, path: Option<PathBuf>, limit| {
            let (name, path): (PartitionName, _) = (name.parse().ok()?, path?);
            Some(WatchedFolder { name, path, limit })
        };
        let storage = info
            .storage_path
            .as_ref()
            .map(|it| it.below(&self.storage_dir));
        let state = info.state_path.as_ref().map(|it| it.below(&self.state_dir));
        let folders = [
            folder(STORAGES, storage, quotas.storage_limit),
            folder(STATES, state, quotas.state_limit),
        ];
        // The controller's rules count; an item's own where it says nothing.
        let rules = if info.alert_rules == AlertRules::default() {
            item.map(|item| item.alert_rules.clone())
                .unwrap_or_default()
        } else {
            info.alert_rules.clone()
        };
        InstanceWatch {
            ident: info.instance.clone(),
            runtime_id: Some(info.runtime_id.clone()),
            cgroup,
            folders: folders.into_iter().flatten().collect(),
            rules,
            cpu_limit: quotas.cpu_dmips_limit,
            ram_limit: quotas.ram_limit,
        }
    }
}

impl Observer for Watcher {
    fn started(&self, instance: RunningInstance<'_>) {
        self.monitor.watch(self.watch(instance));
        if let (Some(network), Some(image)) = (&instance.info.network, instance.image) {
            let metered = Metered {
                instance: instance.info.instance.clone(),
                address: network.ip,
                limits: limits(&image.item_config),
            };
            if self.meters.try_send(metered).is_err() {
                tracing::warn!(instance = %instance.info.instance, "the limits of an instance's traffic are not looked after");
            }
        }
    }

    fn ended(&self, instance: &InstanceIdent) {
        self.monitor.unwatch(instance);
    }
}

/// After a restart of this daemon nobody attaches what runs, so meters are told of it here. For an instance that was just
/// attached this changes nothing.
async fn keep_metered(mut inbox: mpsc::Receiver<Metered>, traffic: Option<Traffic>) {
    while let Some(metered) = inbox.recv().await {
        let Some(traffic) = &traffic else {
            continue;
        };
        let added = traffic.add_instance(&metered.instance, metered.address, metered.limits);
        if let Err(error) = added.await {
            tracing::warn!(instance = %metered.instance, error = %ErrorChain(&error), "an instance's traffic is not counted");
        }
    }
}
