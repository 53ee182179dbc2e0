//! What nodes and instances use.

use crate::servicemanager::v5 as wire;

use super::error::{ConvertError, each, optional_text, optional_to_text, required, text};
use super::id::{PartitionName, RuntimeId};
use super::ident::InstanceIdent;
use super::time::Timestamp;

/// Use of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionUsage {
    /// Which one.
    pub name: PartitionName,
    /// In bytes.
    pub used_size: u64,
}

/// What a node or an instance used at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitoringData {
    /// When.
    pub timestamp: Timestamp,
    /// In bytes.
    pub ram: u64,
    /// In DMIPS.
    pub cpu: u64,
    /// By partition.
    pub partitions: Vec<PartitionUsage>,
    /// Bytes received.
    pub download: u64,
    /// Bytes sent.
    pub upload: u64,
}

/// What one instance used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceMonitoring {
    /// Which instance.
    pub instance: InstanceIdent,
    /// What runs it, if whoever reports knows.
    pub runtime_id: Option<RuntimeId>,
    /// What it used.
    pub data: MonitoringData,
}

/// What a node and all its instances used: latest samples or running averages, depending on the
/// wire message it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMonitoring {
    /// The node as a whole.
    pub node: MonitoringData,
    /// Each instance.
    pub instances: Vec<InstanceMonitoring>,
}

impl TryFrom<wire::PartitionUsage> for PartitionUsage {
    type Error = ConvertError;

    fn try_from(wire: wire::PartitionUsage) -> Result<Self, ConvertError> {
        let name = text("PartitionUsage", "name", &wire.name)?;
        Ok(Self {
            name,
            used_size: wire.used_size,
        })
    }
}

impl From<PartitionUsage> for wire::PartitionUsage {
    fn from(usage: PartitionUsage) -> Self {
        Self {
            name: usage.name.into(),
            used_size: usage.used_size,
        }
    }
}

impl TryFrom<wire::MonitoringData> for MonitoringData {
    type Error = ConvertError;

    fn try_from(wire: wire::MonitoringData) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "MonitoringData";
        Ok(Self {
            timestamp: required(MESSAGE, "timestamp", wire.timestamp)?,
            ram: wire.ram,
            cpu: wire.cpu,
            partitions: each(MESSAGE, "partitions", wire.partitions)?,
            download: wire.download,
            upload: wire.upload,
        })
    }
}

impl From<MonitoringData> for wire::MonitoringData {
    fn from(data: MonitoringData) -> Self {
        Self {
            timestamp: Some(data.timestamp.into()),
            ram: data.ram,
            cpu: data.cpu,
            partitions: data.partitions.into_iter().map(Into::into).collect(),
            download: data.download,
            upload: data.upload,
        }
    }
}

impl TryFrom<wire::InstanceMonitoring> for InstanceMonitoring {
    type Error = ConvertError;

    fn try_from(wire: wire::InstanceMonitoring) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "InstanceMonitoring";
        Ok(Self {
            instance: required(MESSAGE, "instance", wire.instance)?,
            runtime_id: optional_text(MESSAGE, "runtime_id", &wire.runtime_id)?,
            data: required(MESSAGE, "monitoring_data", wire.monitoring_data)?,
        })
    }
}

impl From<InstanceMonitoring> for wire::InstanceMonitoring {
    fn from(monitoring: InstanceMonitoring) -> Self {
        Self {
            instance: Some(monitoring.instance.into()),
            runtime_id: optional_to_text(monitoring.runtime_id),
            monitoring_data: Some(monitoring.data.into()),
        }
    }
}

/// The two wire messages have the same fields and differ in meaning only.
macro_rules! node_monitoring {
    ($($message:ident),+) => {$(
        impl TryFrom<wire::$message> for NodeMonitoring {
            type Error = ConvertError;

            fn try_from(wire: wire::$message) -> Result<Self, ConvertError> {
                const MESSAGE: &str = stringify!($message);
                Ok(Self {
                    node: required(MESSAGE, "node_monitoring", wire.node_monitoring)?,
                    instances: each(MESSAGE, "instances_monitoring", wire.instances_monitoring)?,
                })
            }
        }

        impl From<NodeMonitoring> for wire::$message {
            fn from(monitoring: NodeMonitoring) -> Self {
                Self {
                    node_monitoring: Some(monitoring.node.into()),
                    instances_monitoring:
                        monitoring.instances.into_iter().map(Into::into).collect(),
                }
            }
        }
    )+};
}

node_monitoring!(InstantMonitoring, AverageMonitoring);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{node_monitoring, round_trip};

    #[test]
    fn a_sample_without_a_time_is_refused_by_name() {
        let wire = wire::InstantMonitoring {
            node_monitoring: Some(wire::MonitoringData::default()),
            ..Default::default()
        };
        assert_eq!(
            NodeMonitoring::try_from(wire).unwrap_err().to_string(),
            "InstantMonitoring.node_monitoring.timestamp: missing"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(monitoring in node_monitoring()) {
            round_trip::<wire::InstantMonitoring, _>(&monitoring)?;
            round_trip::<wire::AverageMonitoring, _>(&monitoring)?;
        }
    }
}
