//! How the Unit is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::common::{Checksum, ErrorInfo, Identity, or_default};

/// How the Unit is: all of it, or what is different from what was said last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitStatus {
    /// Only what is different. Set by the link.
    pub is_delta_info: bool,
    /// Its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_config: Option<Vec<UnitConfigStatus>>,
    /// Its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeStatus>>,
    /// Its items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<ItemStatus>>,
    /// Its instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instances: Option<Vec<InstancesStatus>>,
    /// For whom it works, by codename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subjects: Option<Vec<Identity>>,
}

/// How the Unit's configuration is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitConfigStatus {
    /// Which one.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// How it is.
    pub state: UnitConfigState,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// How the Unit's configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum UnitConfigState {
    Absent,
    Installed,
    Failed,
}

/// What a node is and how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Which one, by codename and title.
    pub identity: Identity,
    /// What kind of node, by codename.
    pub node_group_subject: Identity,
    /// How fast it is.
    pub max_dmips: u64,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_ram: Option<u64>,
    /// In bytes.
    pub total_ram: u64,
    /// Its operating system.
    pub os_info: OsInfo,
    /// Its processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<Vec<CpuInfo>>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attrs: Option<BTreeMap<String, String>>,
    /// Its partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<Vec<PartitionInfo>>,
    /// How it is.
    pub state: NodeState,
    /// Whether it can be reached.
    pub is_connected: bool,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
    /// What can run instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtimes: Option<Vec<RuntimeInfo>>,
    /// What instances can ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<ResourceInfo>>,
}

/// How a node is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum NodeState {
    #[default]
    Unprovisioned,
    Provisioned,
    Paused,
    Error,
}

/// An operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsInfo {
    /// Its name.
    pub os: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Vec<String>>,
}

/// What a processor's programs must be built for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchInfo {
    /// Its name.
    pub architecture: String,
    /// Which variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// A processor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuInfo {
    /// What it is called.
    #[serde(default, deserialize_with = "or_default")]
    pub model_name: String,
    /// Cores.
    #[serde(default)]
    pub total_num_cores: u64,
    /// Threads.
    #[serde(default)]
    pub total_num_threads: u64,
    /// What its programs must be built for.
    pub arch_info: ArchInfo,
    /// How fast it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dmips: Option<u64>,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionInfo {
    /// Which one.
    pub name: String,
    /// Where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What it is used for.
    pub types: Vec<String>,
    /// In bytes.
    pub total_size: u64,
}

/// What can run instances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeInfo {
    /// Which one, by codename.
    pub identity: Identity,
    /// Of which kind.
    pub runtime_type: String,
    /// What its programs must be built for.
    pub arch_info: ArchInfo,
    /// For which system.
    pub os_info: OsInfo,
    /// How fast it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dmips: Option<u64>,
    /// How much of that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_dmips: Option<u64>,
    /// In bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_ram: Option<u64>,
    /// How much of that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_ram: Option<u64>,
    /// How many instances.
    pub max_instances: u64,
}

/// What instances can ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInfo {
    /// Which one.
    pub name: String,
    /// How many can have it; 0 is no limit.
    pub shared_count: u64,
}

/// How an item is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemStatus {
    /// Which one, by id, or by codename if it is pre-installed; and of which kind.
    pub item: Identity,
    /// In which version.
    pub version: String,
    /// How.
    pub state: ItemState,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// How an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum ItemState {
    Unknown,
    Downloading,
    Pending,
    Installing,
    Installed,
    Removing,
    Removed,
    Failed,
}

/// How an item's instances for a subject are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstancesStatus {
    /// What runs, by id, or by codename if it is pre-installed.
    pub item: Identity,
    /// For whom.
    pub subject: Identity,
    /// In which version.
    pub version: String,
    /// How each is.
    pub instances: Vec<InstanceStatus>,
}

/// How an instance is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Where, by codename.
    pub node: Identity,
    /// What runs it, by codename.
    pub runtime: Identity,
    /// The how manieth.
    pub instance: u64,
    /// Of its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_checksum: Option<Checksum>,
    /// How.
    pub state: InstanceState,
    /// What is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// How an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum InstanceState {
    Activating,
    Active,
    Inactive,
    Failed,
}
