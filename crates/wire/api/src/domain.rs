//! Values that cannot be invalid, made from wire messages and turned back into them.
//!
//! Every type here holds its rules in its constructor, so whoever has a value need not check it
//! again. `TryFrom<wire message>` refuses what breaks a rule with a [`ConvertError`] that names the
//! place (`InstanceInfo.instance.item_id`); `From<domain type> for wire message` cannot fail, and
//! converting back gives an equal value.

mod alert;
mod alert_rules;
mod digest;
mod enums;
mod env_var;
mod error;
mod fault;
mod filter;
mod id;
mod ident;
mod instance;
mod monitoring;
mod network;
mod node;
mod path;
mod platform;
mod runtime;
mod status;
#[cfg(test)]
mod strategies;
mod time;

pub use self::alert::{Alert, AlertKind, QuotaParameter};
pub use self::alert_rules::{AlertRule, AlertRules, InvertedThresholds, Percent};
pub use self::digest::{Digest, DigestAlgorithm};
pub use self::enums::{
    AlertStatus, CertType, CertTypeName, ConnectionState, DownloadState, InstanceState, ItemState,
    ItemType, LogStatus, NodeConfigState, NodeState,
};
pub use self::env_var::{EnvVar, EnvVarName};
pub use self::error::{ConvertError, Excerpt, FieldPath, InvalidValue, Problem};
pub use self::fault::{AosCode, AosError, Cause, UnlistedCode, fault_from_wire, fault_to_wire};
pub use self::filter::InstanceFilter;
pub use self::id::{
    Gid, ItemId, MAX_ID_BYTES, NetworkId, NodeId, NodeType, OwnerId, PartitionName, RuntimeId,
    RuntimeType, SubjectId, Uid,
};
pub use self::ident::InstanceIdent;
pub use self::instance::InstanceInfo;
pub use self::monitoring::{InstanceMonitoring, MonitoringData, NodeMonitoring, PartitionUsage};
pub use self::network::{FirewallRule, NetworkParameters, PortRange, Subnet, TransportProtocol};
pub use self::node::{CpuInfo, NodeInfo, PartitionInfo};
pub use self::path::DataPath;
pub use self::platform::{ArchInfo, OsInfo};
pub use self::runtime::{ResourceInfo, RuntimeInfo, SmInfo};
pub use self::status::{EnvVarStatus, InstanceStatus, NodeConfigStatus};
pub use self::time::{Interval, Timestamp};
/// What [`InstanceIdent::instance_id`] answers.
pub use uuid::Uuid;
