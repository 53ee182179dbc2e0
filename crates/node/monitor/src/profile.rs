//! What a node has, as far as use is a part of it.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::thread::available_parallelism;

use muster_api::domain::{NodeInfo, PartitionName};

/// What a node has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeProfile {
    /// Processing power of all processors.
    pub max_dmips: u64,
    /// Processors that the power is spread over.
    pub cores: NonZeroU64,
    /// Bytes of memory that the system may use.
    pub total_ram: u64,
    /// Partitions and where they are mounted.
    pub partitions: Vec<(PartitionName, PathBuf)>,
}

impl NodeProfile {
    /// Of this node. Partitions that the description has no place for are left out. The processors are counted as runtimes
    /// count them when they turn DMIPS into processor time, so that an instance at its limit is seen at its limit.
    #[must_use]
    pub fn of(node: &NodeInfo) -> Self {
        let cores = available_parallelism().ok();
        let cores = cores.and_then(|cores| NonZeroU64::try_from(cores).ok());
        let partitions = node.partitions.iter();
        Self {
            max_dmips: node.max_dmips,
            cores: cores.unwrap_or(NonZeroU64::MIN),
            total_ram: node.total_ram,
            partitions: partitions
                .filter(|partition| !partition.path.is_empty())
                .map(|partition| (partition.name.clone(), PathBuf::from(&partition.path)))
                .collect(),
        }
    }
}
