//! A node of the device, as IAM describes it.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crate::common::v2::ErrorInfo;
use crate::iamanager::v6 as wire;

use super::enums::NodeState;
use super::error::{ConvertError, Excerpt, Problem, each, required, text};
use super::fault::{AosError, fault_from_wire};
use super::id::{NodeId, NodeType, PartitionName};
use super::platform::{ArchInfo, OsInfo};

/// A partition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Which one.
    pub name: PartitionName,
    /// What it may be used for.
    pub types: Vec<String>,
    /// In bytes.
    pub total_size: u64,
    /// Where the node has mounted it; empty when it does not tell. For display only.
    pub path: String,
}

/// A processor package of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuInfo {
    /// As the processor calls itself.
    pub model_name: String,
    /// Cores in the package.
    pub num_cores: u64,
    /// Hardware threads in the package.
    pub num_threads: u64,
    /// What programs must be built for.
    pub arch_info: ArchInfo,
    /// Processing power, if measured.
    pub max_dmips: Option<NonZeroU64>,
}

/// A node and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// Which one.
    pub node_id: NodeId,
    /// What it is meant for.
    pub node_type: NodeType,
    /// Name for people.
    pub title: String,
    /// Processing power.
    pub max_dmips: u64,
    /// Bytes that the system may use.
    pub total_ram: u64,
    /// Bytes built in, if known.
    pub physical_ram: Option<NonZeroU64>,
    /// What programs must be built for.
    pub os_info: OsInfo,
    /// Its processors.
    pub cpus: Vec<CpuInfo>,
    /// Its partitions.
    pub partitions: Vec<PartitionInfo>,
    /// Its properties; no name stands twice.
    pub attrs: BTreeMap<String, String>,
    /// Its membership.
    pub state: NodeState,
    /// What is wrong with it.
    pub error: Option<AosError>,
}

impl TryFrom<wire::PartitionInfo> for PartitionInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::PartitionInfo) -> Result<Self, ConvertError> {
        Ok(Self {
            name: text("PartitionInfo", "name", &wire.name)?,
            types: wire.types,
            total_size: wire.total_size,
            path: wire.path,
        })
    }
}

impl From<PartitionInfo> for wire::PartitionInfo {
    fn from(partition: PartitionInfo) -> Self {
        Self {
            name: partition.name.into(),
            types: partition.types,
            total_size: partition.total_size,
            path: partition.path,
        }
    }
}

impl TryFrom<wire::CpuInfo> for CpuInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::CpuInfo) -> Result<Self, ConvertError> {
        Ok(Self {
            model_name: wire.model_name,
            num_cores: wire.num_cores,
            num_threads: wire.num_threads,
            arch_info: required("CPUInfo", "arch_info", wire.arch_info)?,
            max_dmips: NonZeroU64::new(wire.max_dmips),
        })
    }
}

impl From<CpuInfo> for wire::CpuInfo {
    fn from(cpu: CpuInfo) -> Self {
        Self {
            model_name: cpu.model_name,
            num_cores: cpu.num_cores,
            num_threads: cpu.num_threads,
            arch_info: Some(cpu.arch_info.into()),
            max_dmips: cpu.max_dmips.map_or(0, NonZeroU64::get),
        }
    }
}

fn attributes(wire: Vec<wire::NodeAttribute>) -> Result<BTreeMap<String, String>, ConvertError> {
    let mut attributes = BTreeMap::new();
    for (index, attribute) in wire.into_iter().enumerate() {
        let refuse = |problem| {
            let error = ConvertError::new("NodeAttribute", "name", problem);
            Err(error.within_item("NodeInfo", "attrs", index))
        };
        if attribute.name.is_empty() {
            return refuse(Problem::Missing);
        }
        if attributes.contains_key(&attribute.name) {
            return refuse(Problem::Duplicate {
                value: Excerpt::new(&attribute.name),
            });
        }
        attributes.insert(attribute.name, attribute.value);
    }
    Ok(attributes)
}

impl TryFrom<wire::NodeInfo> for NodeInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::NodeInfo) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "NodeInfo";
        Ok(Self {
            node_id: text(MESSAGE, "node_id", &wire.node_id)?,
            node_type: text(MESSAGE, "node_type", &wire.node_type)?,
            title: wire.title,
            max_dmips: wire.max_dmips,
            total_ram: wire.total_ram,
            physical_ram: NonZeroU64::new(wire.physical_ram),
            os_info: required(MESSAGE, "os_info", wire.os_info)?,
            cpus: each(MESSAGE, "cpus", wire.cpus)?,
            partitions: each(MESSAGE, "partitions", wire.partitions)?,
            attrs: attributes(wire.attrs)?,
            state: text(MESSAGE, "state", &wire.state)?,
            error: fault_from_wire(wire.error),
        })
    }
}

impl From<NodeInfo> for wire::NodeInfo {
    fn from(node: NodeInfo) -> Self {
        let attribute = |(name, value)| wire::NodeAttribute { name, value };
        Self {
            node_id: node.node_id.into(),
            node_type: node.node_type.into(),
            title: node.title,
            max_dmips: node.max_dmips,
            total_ram: node.total_ram,
            physical_ram: node.physical_ram.map_or(0, NonZeroU64::get),
            os_info: Some(node.os_info.into()),
            cpus: node.cpus.into_iter().map(Into::into).collect(),
            partitions: node.partitions.into_iter().map(Into::into).collect(),
            attrs: node.attrs.into_iter().map(attribute).collect(),
            state: node.state.to_string(),
            error: node.error.map(ErrorInfo::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{node_info, round_trip};

    #[test]
    fn an_attribute_that_stands_twice_is_refused_by_index() {
        let attribute = |value: &str| wire::NodeAttribute {
            name: "a".into(),
            value: value.into(),
        };
        assert_eq!(
            attributes(vec![attribute("1"), attribute("2")])
                .unwrap_err()
                .to_string(),
            "NodeInfo.attrs[1].name: \"a\" stands twice"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(node in node_info()) {
            round_trip::<wire::NodeInfo, _>(&node)?;
        }
    }
}
