//! What the configuration says about the node.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;

use muster_api::domain::{NodeType, PartitionName};

/// What to gather, and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The folder that stands for `/`; another one in tests.
    pub root: PathBuf,
    /// The file that holds the node's id.
    pub node_id_path: PathBuf,
    /// Name for people; the host name when empty.
    pub node_name: String,
    /// What the node is meant for.
    pub node_type: NodeType,
    /// Processing power of the whole node; measured when there is none.
    pub max_dmips: Option<NonZeroU64>,
    /// Where measured processing power is kept, so that it is measured once. A path as it is, not
    /// below `root`.
    pub dmips_cache: Option<PathBuf>,
    /// Properties of the node.
    pub attrs: BTreeMap<String, String>,
    /// The partitions that instances may be told about.
    pub partitions: Vec<PartitionSpec>,
}

impl Options {
    /// A node of this type, with the defaults for everything else.
    #[must_use]
    pub fn new(node_type: NodeType) -> Self {
        Self {
            root: PathBuf::from("/"),
            node_id_path: PathBuf::from("/etc/machine-id"),
            node_name: String::new(),
            node_type,
            max_dmips: None,
            dmips_cache: None,
            attrs: BTreeMap::new(),
            partitions: Vec::new(),
        }
    }
}

/// A partition of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSpec {
    /// Which one.
    pub name: PartitionName,
    /// What it may be used for: `services`, `storages`, `states`, `generic` ...
    pub types: Vec<String>,
    /// Where it is mounted.
    pub path: PathBuf,
}
