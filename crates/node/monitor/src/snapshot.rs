//! What was measured at one time.

use muster_api::domain::{
    InstanceIdent, InstanceMonitoring, MonitoringData, NodeMonitoring, PartitionName,
    PartitionUsage, RuntimeId, Timestamp,
};

use crate::traffic::TrafficUsage;

/// Use of processors since the poll before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUse {
    /// Processing power.
    pub dmips: u64,
    /// Of the whole node's, 0 to 100.
    pub percent: f64,
}

/// Use of one partition or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionUse {
    /// Which one.
    pub name: PartitionName,
    /// In bytes; `None` until it could be measured.
    pub used: Option<u64>,
    /// What can be used at most, in bytes, if known.
    pub size: Option<u64>,
}

/// What a node or an instance uses. Absent is what could not be measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceUse {
    /// Processors; absent at the first poll, since it takes two.
    pub cpu: Option<CpuUse>,
    /// Bytes of memory.
    pub ram: Option<u64>,
    /// Processes and threads; not counted for the node.
    pub pids: Option<u64>,
    /// Partitions, in the order they were given.
    pub partitions: Vec<PartitionUse>,
    /// Bytes received and sent.
    pub traffic: Option<TrafficUsage>,
}

/// What an instance uses.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceUse {
    /// Which instance.
    pub ident: InstanceIdent,
    /// What runs it.
    pub runtime_id: Option<RuntimeId>,
    /// What it uses.
    pub data: ResourceUse,
}

/// What was measured at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// When.
    pub timestamp: Timestamp,
    /// The node as a whole.
    pub node: ResourceUse,
    /// Each instance, in order.
    pub instances: Vec<InstanceUse>,
}

impl ResourceUse {
    fn to_wire(&self, timestamp: Timestamp) -> MonitoringData {
        let partitions = self.partitions.iter().filter_map(|partition| {
            Some(PartitionUsage {
                name: partition.name.clone(),
                used_size: partition.used?,
            })
        });
        let traffic = self.traffic.unwrap_or_default();
        MonitoringData {
            timestamp,
            ram: self.ram.unwrap_or_default(),
            cpu: self.cpu.map_or(0, |cpu| cpu.dmips),
            partitions: partitions.collect(),
            download: traffic.download,
            upload: traffic.upload,
        }
    }
}

/// As the controller is told; see the crate's documentation for what is absent.
impl From<&Snapshot> for NodeMonitoring {
    fn from(snapshot: &Snapshot) -> Self {
        let instances = snapshot.instances.iter();
        Self {
            node: snapshot.node.to_wire(snapshot.timestamp),
            instances: instances
                .map(|instance| InstanceMonitoring {
                    instance: instance.ident.clone(),
                    runtime_id: instance.runtime_id.clone(),
                    data: instance.data.to_wire(snapshot.timestamp),
                })
                .collect(),
        }
    }
}
