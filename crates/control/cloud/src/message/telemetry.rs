//! What the Unit uses, what goes wrong in it, and its logs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::common::{Base64, ErrorInfo, Identity, or_default};
use super::status::{InstanceState, NodeState};

/// What nodes and instances used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitoringData {
    /// By node.
    pub nodes: Vec<NodeMonitoring>,
    /// By instance.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub instances: Vec<InstanceMonitoring>,
}

/// What a node used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMonitoring {
    /// Which one, by codename.
    pub node: Identity,
    /// How it was.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub node_states: Vec<NodeStateAt>,
    /// What it used.
    pub items: Vec<Usage>,
}

/// How a node was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStateAt {
    /// When.
    pub timestamp: Timestamp,
    /// How.
    pub state: NodeState,
    /// Whether it could be reached.
    #[serde(alias = "connected")]
    pub is_connected: bool,
}

/// What an instance used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceMonitoring {
    /// What runs.
    pub item: Identity,
    /// For whom.
    pub subject: Identity,
    /// The how manieth.
    pub instance: u64,
    /// Where, by codename.
    pub node: Identity,
    /// How it was.
    pub item_states: Vec<InstanceStateAt>,
    /// What it used.
    pub items: Vec<Usage>,
}

/// How an instance was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceStateAt {
    /// When.
    pub timestamp: Timestamp,
    /// How.
    pub state: InstanceState,
}

/// What was used at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// When.
    pub timestamp: Timestamp,
    /// In bytes.
    pub ram: u64,
    /// In DMIPS.
    pub cpu: u64,
    /// Bytes received.
    #[serde(default)]
    pub download: u64,
    /// Bytes sent.
    #[serde(default)]
    pub upload: u64,
    /// By partition.
    #[serde(
        default,
        deserialize_with = "or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub partitions: Vec<PartitionUsage>,
}

/// What is used of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionUsage {
    /// Which one.
    pub name: String,
    /// In bytes.
    pub used_size: u64,
}

/// What went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alerts {
    /// In order.
    pub items: Vec<Alert>,
}

/// Something that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "tag", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Alert {
    /// A node's log holds an error.
    SystemAlert {
        /// When.
        timestamp: Timestamp,
        /// Which node, by codename.
        node: Identity,
        /// The log entry.
        message: String,
    },
    /// A manager logged an error.
    CoreAlert {
        /// When.
        timestamp: Timestamp,
        /// Which node, by codename.
        node: Identity,
        /// CM, SM, IAM, MP.
        core_component: String,
        /// The log entry.
        message: String,
    },
    /// An instance could not get a resource.
    #[serde(alias = "deviceAllocateAlert")]
    ResourceAllocateAlert {
        /// When.
        timestamp: Timestamp,
        /// What runs.
        item: Identity,
        /// For whom.
        subject: Identity,
        /// The how manieth.
        instance: u64,
        /// Which node, by codename.
        node: Identity,
        /// Name of the resource.
        device_id: String,
        /// Why.
        message: String,
    },
    /// A node passed a threshold.
    SystemQuotaAlert {
        /// When.
        timestamp: Timestamp,
        /// Which node, by codename.
        node: Identity,
        /// Which threshold.
        parameter: String,
        /// The value then.
        value: u64,
    },
    /// An instance passed a threshold.
    InstanceQuotaAlert {
        /// When.
        timestamp: Timestamp,
        /// What runs.
        item: Identity,
        /// For whom.
        subject: Identity,
        /// The how manieth.
        instance: u64,
        /// Which threshold.
        parameter: String,
        /// The value then.
        value: u64,
    },
    /// How a download goes.
    DownloadProgressAlert {
        /// When.
        timestamp: Timestamp,
        /// Which blob.
        digest: String,
        /// From where.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        url: Option<String>,
        /// So much is there.
        downloaded_bytes: u64,
        /// Of so much.
        total_bytes: u64,
        /// How it goes.
        state: DownloadState,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error_info: Option<ErrorInfo>,
    },
    /// An instance logged an error.
    UpdateItemInstanceAlert {
        /// When.
        timestamp: Timestamp,
        /// What runs.
        item: Identity,
        /// For whom.
        #[serde(alias = "subjectId")]
        subject: Identity,
        /// The how manieth.
        instance: u64,
        /// In which version.
        version: String,
        /// The log entry.
        message: String,
    },
}

/// How a download goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the words say it")]
pub enum DownloadState {
    Started,
    Paused,
    Interrupted,
    Finished,
}

/// A part of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushLog {
    /// Whose, by codename.
    pub node: Identity,
    /// Which part, from 1.
    #[serde(default)]
    pub part: u64,
    /// Of how many.
    #[serde(default)]
    pub parts_count: u64,
    /// Compressed with gzip.
    #[serde(default)]
    pub content: Base64,
    /// What became of the request.
    pub status: LogStatus,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_info: Option<ErrorInfo>,
}

/// What became of a request for a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LogStatus {
    /// Here it is.
    Ok,
    /// It could not be read. The published schema says `failed`.
    #[serde(alias = "failed")]
    Error,
    /// There is nothing.
    Empty,
    /// There is no such instance.
    Absent,
}
