//! What readings mean: use, averages, alerts. Pure; the task around it reads and tells.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::domain::{
    AlertKind, AlertRules, InstanceIdent, InstanceMonitoring, NodeMonitoring, QuotaParameter,
    Timestamp,
};
use muster_cgroup::CgroupPath;

use crate::average::Averages;
use crate::cpu::{GroupCpu, NodeCpu};
use crate::disk::{Disks, PlaceKey};
use crate::profile::NodeProfile;
use crate::rules::{Change, Measured, RuleSet};
use crate::sample::{GroupSample, Sample};
use crate::settings::MonitorSettings;
use crate::snapshot::{InstanceUse, PartitionUse, ResourceUse, Snapshot};
use crate::traffic::TrafficSource;
use crate::watch::InstanceWatch;

/// Time between two polls, as far as it is believed.
#[derive(Debug)]
struct Pace {
    last: Option<Duration>,
    most: Duration,
}

impl Pace {
    /// The time since the last poll: none if the clock went back, and never more than a late poll can be.
    fn advance(&mut self, now: Duration) -> Duration {
        let last = self.last.replace(now).unwrap_or(now);
        now.saturating_sub(last).min(self.most)
    }
}

/// What cannot be read of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unread {
    pub(crate) cpu: bool,
    pub(crate) ram: bool,
    pub(crate) pids: bool,
}

impl Unread {
    fn of(sample: &GroupSample) -> Self {
        Self {
            cpu: sample.cpu.is_lost(),
            ram: sample.memory.is_lost(),
            pids: sample.pids.is_lost(),
        }
    }

    fn count(self) -> u64 {
        u64::from(self.cpu) + u64::from(self.ram) + u64::from(self.pids)
    }
}

#[derive(Debug)]
struct Instance {
    watch: InstanceWatch,
    cpu: GroupCpu,
    averages: Averages,
    rules: RuleSet,
    unread: Unread,
}

/// What a poll has brought.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) snapshot: Snapshot,
    pub(crate) alerts: Vec<AlertKind>,
    /// Instances of which other values cannot be read than before.
    pub(crate) remarks: Vec<(InstanceIdent, Unread)>,
    /// How many values could not be read.
    pub(crate) unread: u64,
}

/// Everything that is known; see the module's documentation.
#[derive(Debug)]
pub(crate) struct Engine {
    settings: MonitorSettings,
    node: NodeProfile,
    pace: Pace,
    cpu: NodeCpu,
    averages: Averages,
    rules: RuleSet,
    instances: BTreeMap<InstanceIdent, Instance>,
    pub(crate) disks: Disks,
}

fn node_alert(change: Change) -> AlertKind {
    AlertKind::SystemQuota {
        parameter: change.parameter,
        value: change.value,
        status: change.status,
    }
}

fn instance_alert(instance: &InstanceIdent, change: Change) -> AlertKind {
    AlertKind::InstanceQuota {
        instance: instance.clone(),
        parameter: change.parameter,
        value: change.value,
        status: change.status,
    }
}

/// The value that a rule is about; percentages refer to `cpu` and `ram`, or to a partition's size.
fn measured(
    data: &ResourceUse,
    parameter: &QuotaParameter,
    cpu: u64,
    ram: u64,
) -> Option<Measured> {
    let (value, whole) = match parameter {
        QuotaParameter::Cpu => (data.cpu?.dmips, Some(cpu)),
        QuotaParameter::Ram => (data.ram?, Some(ram)),
        QuotaParameter::Download => (data.traffic?.download, None),
        QuotaParameter::Upload => (data.traffic?.upload, None),
        QuotaParameter::Partition(name) => {
            let mut partitions = data.partitions.iter();
            let partition = partitions.find(|partition| partition.name == *name)?;
            (partition.used?, partition.size)
        }
    };
    Some(Measured { value, whole })
}

impl Engine {
    pub(crate) fn new(settings: MonitorSettings, node: NodeProfile) -> Self {
        let mut disks = Disks::new(settings.disk, settings.poll_period());
        for (name, path) in &node.partitions {
            disks.add_partition(name, path);
        }
        Self {
            settings,
            pace: Pace {
                last: None,
                most: settings.poll_period().saturating_mul(2),
            },
            cpu: NodeCpu::default(),
            averages: Averages::new(settings.samples()),
            rules: RuleSet::default(),
            instances: BTreeMap::new(),
            disks,
            node,
        }
    }

    /// From now on this instance, and so.
    #[must_use]
    pub(crate) fn watch(&mut self, watch: InstanceWatch) -> Vec<AlertKind> {
        self.disks.set_folders(&watch.ident, &watch.folders);
        let samples = self.settings.samples();
        let ident = watch.ident.clone();
        let instance = self.instances.entry(ident.clone());
        let instance = instance.or_insert_with(|| Instance {
            watch: watch.clone(),
            cpu: GroupCpu::default(),
            averages: Averages::new(samples),
            rules: RuleSet::default(),
            unread: Unread::default(),
        });
        if instance.watch.cgroup != watch.cgroup {
            instance.cpu = GroupCpu::default();
        }
        let changes = instance.rules.replace(&watch.rules);
        instance.watch = watch;
        let changes = changes.into_iter();
        changes
            .map(|change| instance_alert(&ident, change))
            .collect()
    }

    /// From now on not this instance.
    #[must_use]
    pub(crate) fn unwatch(&mut self, ident: &InstanceIdent) -> Vec<AlertKind> {
        self.disks.set_folders(ident, &[]);
        let gone = self.instances.remove(ident);
        let changes = gone.map_or_else(Vec::new, |instance| instance.rules.end());
        let changes = changes.into_iter();
        changes
            .map(|change| instance_alert(ident, change))
            .collect()
    }

    /// From now on these for the node.
    #[must_use]
    pub(crate) fn set_node_rules(&mut self, rules: &AlertRules) -> Vec<AlertKind> {
        let changes = self.rules.replace(rules).into_iter();
        changes.map(node_alert).collect()
    }

    /// Nothing is watched any more.
    #[must_use]
    pub(crate) fn end(&mut self) -> Vec<AlertKind> {
        let mut alerts = self.set_node_rules(&AlertRules::default());
        let idents: Vec<InstanceIdent> = self.instances.keys().cloned().collect();
        for ident in idents {
            alerts.extend(self.unwatch(&ident));
        }
        alerts
    }

    /// The groups to read, in the order that [`step`](Self::step) expects.
    pub(crate) fn groups(&self) -> Vec<Option<CgroupPath>> {
        let instances = self.instances.values();
        instances
            .map(|instance| instance.watch.cgroup.clone())
            .collect()
    }

    /// A poll begins: how long after the one before.
    pub(crate) fn begin(&mut self, now: Duration) -> Duration {
        self.pace.advance(now)
    }

    /// What a poll has read, so long after the one before. `sample` is of the groups that [`groups`](Self::groups) told, and no
    /// instance has come or gone since.
    pub(crate) fn step(
        &mut self,
        elapsed: Duration,
        sample: &Sample,
        traffic: &dyn TrafficSource,
        timestamp: Timestamp,
    ) -> Outcome {
        let node = self.node_use(sample, traffic);
        self.averages.add(&node);
        let (dmips, ram) = (self.node.max_dmips, self.node.total_ram);
        let changes = self
            .rules
            .step(elapsed, |parameter| measured(&node, parameter, dmips, ram));
        let machine = [
            sample.machine.cpu.is_lost(),
            sample.machine.memory.is_lost(),
        ];
        let mut outcome = Outcome {
            snapshot: Snapshot {
                timestamp,
                node,
                instances: Vec::with_capacity(self.instances.len()),
            },
            alerts: changes.into_iter().map(node_alert).collect(),
            remarks: Vec::new(),
            unread: machine.into_iter().map(u64::from).sum(),
        };
        for ((ident, instance), sample) in self.instances.iter_mut().zip(&sample.groups) {
            let data = instance.read(ident, sample, &self.node, &self.disks, traffic);
            instance.averages.add(&data);
            let watch = &instance.watch;
            let cpu = watch.cpu_limit.unwrap_or(self.node.max_dmips);
            let ram = watch.ram_limit.unwrap_or(self.node.total_ram);
            let changes = instance
                .rules
                .step(elapsed, |parameter| measured(&data, parameter, cpu, ram));
            let alerts = changes.into_iter();
            outcome
                .alerts
                .extend(alerts.map(|change| instance_alert(ident, change)));
            let unread = Unread::of(sample);
            outcome.unread += unread.count();
            if std::mem::replace(&mut instance.unread, unread) != unread {
                outcome.remarks.push((ident.clone(), unread));
            }
            outcome.snapshot.instances.push(InstanceUse {
                ident: ident.clone(),
                runtime_id: watch.runtime_id.clone(),
                data,
            });
        }
        outcome
    }

    fn node_use(&mut self, sample: &Sample, traffic: &dyn TrafficSource) -> ResourceUse {
        let times = sample.machine.cpu.value();
        let partitions = self.node.partitions.iter().map(|(name, _)| {
            let found = self.disks.found(&PlaceKey {
                owner: None,
                name: name.clone(),
            });
            PartitionUse {
                name: name.clone(),
                used: found.map(|found| found.used),
                size: found.map(|found| found.size),
            }
        });
        ResourceUse {
            cpu: self.cpu.advance(times, self.node.max_dmips),
            ram: sample.machine.memory.value(),
            pids: None,
            partitions: partitions.collect(),
            traffic: traffic.node(),
        }
    }

    /// The running averages.
    pub(crate) fn average(&self, timestamp: Timestamp) -> NodeMonitoring {
        let instances = self.instances.iter();
        NodeMonitoring {
            node: self.averages.data(timestamp),
            instances: instances
                .map(|(ident, instance)| InstanceMonitoring {
                    instance: ident.clone(),
                    runtime_id: instance.watch.runtime_id.clone(),
                    data: instance.averages.data(timestamp),
                })
                .collect(),
        }
    }
}

impl Instance {
    fn read(
        &mut self,
        ident: &InstanceIdent,
        sample: &GroupSample,
        node: &NodeProfile,
        disks: &Disks,
        traffic: &dyn TrafficSource,
    ) -> ResourceUse {
        let cpu = self
            .cpu
            .advance(sample.cpu.value(), node.cores, node.max_dmips);
        let partitions = self.watch.folders.iter().map(|folder| {
            let found = disks.found(&PlaceKey {
                owner: Some(ident.clone()),
                name: folder.name.clone(),
            });
            PartitionUse {
                name: folder.name.clone(),
                used: found.map(|found| found.used),
                size: folder.limit.or(found.map(|found| found.size)),
            }
        });
        ResourceUse {
            cpu,
            ram: sample.memory.value(),
            pids: sample.pids.value(),
            partitions: partitions.collect(),
            traffic: traffic.instance(ident),
        }
    }
}

#[cfg(test)]
mod tests;
