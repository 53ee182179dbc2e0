//! What a node answers about its instances and its configuration.

use crate::common::v2::ErrorInfo;
use crate::servicemanager::v5 as wire;

use super::digest::Digest;
use super::enums::{InstanceState, NodeConfigState};
use super::env_var::EnvVarName;
use super::error::{ConvertError, each, optional_text, optional_to_text, required, text};
use super::fault::{AosError, fault_from_wire, fault_to_wire};
use super::id::RuntimeId;
use super::ident::InstanceIdent;

/// Whether an environment variable could be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVarStatus {
    /// Which one.
    pub name: EnvVarName,
    /// Why not.
    pub error: Option<AosError>,
}

/// How an instance is.
///
/// Runtime and manifest may be unknown to whoever reports: an instance can fail before either is
/// found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceStatus {
    /// Which instance.
    pub instance: InstanceIdent,
    /// Of the item.
    pub version: String,
    /// What runs it.
    pub runtime_id: Option<RuntimeId>,
    /// The image manifest it runs from.
    pub manifest_digest: Option<Digest>,
    /// Of the variables it was given.
    pub env_vars: Vec<EnvVarStatus>,
    /// How it is.
    pub state: InstanceState,
    /// Why it is not as it should be.
    pub error: Option<AosError>,
}

/// State of a node's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeConfigStatus {
    /// How it is.
    pub state: NodeConfigState,
    /// Which one.
    pub version: String,
    /// Why it was refused.
    pub error: Option<AosError>,
}

impl TryFrom<wire::EnvVarStatus> for EnvVarStatus {
    type Error = ConvertError;

    fn try_from(wire: wire::EnvVarStatus) -> Result<Self, ConvertError> {
        let name = text("EnvVarStatus", "name", &wire.name)?;
        Ok(Self {
            name,
            error: fault_from_wire(wire.error),
        })
    }
}

impl From<EnvVarStatus> for wire::EnvVarStatus {
    fn from(status: EnvVarStatus) -> Self {
        Self {
            name: status.name.to_string(),
            error: status.error.map(ErrorInfo::from),
        }
    }
}

impl TryFrom<wire::InstanceStatus> for InstanceStatus {
    type Error = ConvertError;

    fn try_from(wire: wire::InstanceStatus) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "InstanceStatus";
        Ok(Self {
            instance: required(MESSAGE, "instance", wire.instance)?,
            version: wire.version,
            runtime_id: optional_text(MESSAGE, "runtime_id", &wire.runtime_id)?,
            manifest_digest: optional_text(MESSAGE, "manifest_digest", &wire.manifest_digest)?,
            env_vars: each(MESSAGE, "env_vars", wire.env_vars)?,
            state: text(MESSAGE, "state", &wire.state)?,
            error: fault_from_wire(wire.error),
        })
    }
}

impl From<InstanceStatus> for wire::InstanceStatus {
    fn from(status: InstanceStatus) -> Self {
        Self {
            instance: Some(status.instance.into()),
            version: status.version,
            runtime_id: optional_to_text(status.runtime_id),
            manifest_digest: optional_to_text(status.manifest_digest),
            env_vars: status.env_vars.into_iter().map(Into::into).collect(),
            state: status.state.to_string(),
            error: Some(fault_to_wire(status.error)),
        }
    }
}

impl TryFrom<wire::NodeConfigStatus> for NodeConfigStatus {
    type Error = ConvertError;

    fn try_from(wire: wire::NodeConfigStatus) -> Result<Self, ConvertError> {
        let state = text("NodeConfigStatus", "state", &wire.state)?;
        Ok(Self {
            state,
            version: wire.version,
            error: fault_from_wire(wire.error),
        })
    }
}

impl From<NodeConfigStatus> for wire::NodeConfigStatus {
    fn from(status: NodeConfigStatus) -> Self {
        Self {
            state: status.state.to_string(),
            version: status.version,
            error: Some(fault_to_wire(status.error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{instance_status, node_config_status, round_trip};

    #[test]
    fn an_unknown_state_is_refused_by_name() {
        let status = wire::NodeConfigStatus {
            state: "lost".into(),
            ..Default::default()
        };
        assert_eq!(
            NodeConfigStatus::try_from(status).unwrap_err().to_string(),
            "NodeConfigStatus.state: \"lost\" is none of absent installed failed"
        );
    }

    proptest! {
        #[test]
        fn instance_status_survives_the_wire(status in instance_status()) {
            round_trip::<wire::InstanceStatus, _>(&status)?;
        }

        #[test]
        fn node_config_status_survives_the_wire(status in node_config_status()) {
            round_trip::<wire::NodeConfigStatus, _>(&status)?;
        }

        /// Peers read success from zeros, not from absence.
        #[test]
        fn the_error_is_always_set(
            status in instance_status(),
            config in node_config_status(),
        ) {
            prop_assert!(wire::InstanceStatus::from(status).error.is_some());
            prop_assert!(wire::NodeConfigStatus::from(config).error.is_some());
        }
    }
}
