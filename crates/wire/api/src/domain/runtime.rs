//! What a node can run, as its Service Manager announces it.

use std::num::NonZeroU64;

use crate::servicemanager::v5 as wire;

use super::error::{ConvertError, Problem, each, required, text};
use super::id::{NodeId, RuntimeId, RuntimeType};
use super::platform::{ArchInfo, OsInfo};

/// What runs instances on a node.
///
/// The wire has no other way than 0 to leave an amount out, so here an amount is never 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeInfo {
    /// Which one.
    pub runtime_id: RuntimeId,
    /// What kind.
    pub runtime_type: RuntimeType,
    /// Processing power.
    pub max_dmips: Option<NonZeroU64>,
    /// What instances may use of it.
    pub allowed_dmips: Option<NonZeroU64>,
    /// Memory in bytes.
    pub total_ram: Option<NonZeroU64>,
    /// What instances may use of it.
    pub allowed_ram: Option<NonZeroU64>,
    /// How many instances it runs at a time, as announced.
    pub max_instances: u64,
    /// What programs must be built for.
    pub os_info: OsInfo,
    /// What programs must be built for.
    pub arch_info: ArchInfo,
}

/// Something on a node that instances may ask for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceInfo {
    name: String,
    shared_count: Option<NonZeroU64>,
}

impl ResourceInfo {
    /// `shared_count` instances may use it at a time; any number if there is no count. An empty
    /// name is refused.
    pub fn new(
        name: impl Into<String>,
        shared_count: Option<NonZeroU64>,
    ) -> Result<Self, super::InvalidValue> {
        let name = name.into();
        if name.is_empty() {
            return Err(super::InvalidValue::new("resource name", Problem::Missing));
        }
        Ok(Self { name, shared_count })
    }

    /// What instances ask for.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many instances may use it at a time; any number if `None`.
    pub fn shared_count(&self) -> Option<NonZeroU64> {
        self.shared_count
    }
}

/// A node's Service Manager: first message of its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmInfo {
    /// The node it serves.
    pub node_id: NodeId,
    /// What it runs instances with.
    pub runtimes: Vec<RuntimeInfo>,
    /// What its instances may ask for.
    pub resources: Vec<ResourceInfo>,
}

fn amount(value: Option<NonZeroU64>) -> u64 {
    value.map_or(0, NonZeroU64::get)
}

impl TryFrom<wire::RuntimeInfo> for RuntimeInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::RuntimeInfo) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "RuntimeInfo";
        Ok(Self {
            runtime_id: text(MESSAGE, "runtime_id", &wire.runtime_id)?,
            runtime_type: text(MESSAGE, "type", &wire.r#type)?,
            max_dmips: NonZeroU64::new(wire.max_dmips),
            allowed_dmips: NonZeroU64::new(wire.allowed_dmips),
            total_ram: NonZeroU64::new(wire.total_ram),
            allowed_ram: NonZeroU64::new(wire.allowed_ram),
            max_instances: wire.max_instances,
            os_info: required(MESSAGE, "os_info", wire.os_info)?,
            arch_info: required(MESSAGE, "arch_info", wire.arch_info)?,
        })
    }
}

impl From<RuntimeInfo> for wire::RuntimeInfo {
    fn from(info: RuntimeInfo) -> Self {
        Self {
            runtime_id: info.runtime_id.into(),
            r#type: info.runtime_type.into(),
            max_dmips: amount(info.max_dmips),
            allowed_dmips: amount(info.allowed_dmips),
            total_ram: amount(info.total_ram),
            allowed_ram: amount(info.allowed_ram),
            max_instances: info.max_instances,
            os_info: Some(info.os_info.into()),
            arch_info: Some(info.arch_info.into()),
        }
    }
}

impl TryFrom<wire::ResourceInfo> for ResourceInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::ResourceInfo) -> Result<Self, ConvertError> {
        Self::new(wire.name, NonZeroU64::new(wire.shared_count))
            .map_err(|error| error.at("ResourceInfo", "name"))
    }
}

impl From<ResourceInfo> for wire::ResourceInfo {
    fn from(resource: ResourceInfo) -> Self {
        Self {
            name: resource.name,
            shared_count: amount(resource.shared_count),
        }
    }
}

impl TryFrom<wire::SmInfo> for SmInfo {
    type Error = ConvertError;

    fn try_from(wire: wire::SmInfo) -> Result<Self, ConvertError> {
        const MESSAGE: &str = "SMInfo";
        Ok(Self {
            node_id: text(MESSAGE, "node_id", &wire.node_id)?,
            runtimes: each(MESSAGE, "runtimes", wire.runtimes)?,
            resources: each(MESSAGE, "resources", wire.resources)?,
        })
    }
}

impl From<SmInfo> for wire::SmInfo {
    fn from(info: SmInfo) -> Self {
        Self {
            node_id: info.node_id.into(),
            runtimes: info.runtimes.into_iter().map(Into::into).collect(),
            resources: info.resources.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::strategies::{round_trip, sm_info};

    #[test]
    fn a_runtime_without_platform_is_refused_by_index() {
        let runtime = wire::RuntimeInfo {
            runtime_id: "r".into(),
            r#type: "container".into(),
            ..Default::default()
        };
        let info = wire::SmInfo {
            node_id: "n".into(),
            runtimes: vec![runtime],
            ..Default::default()
        };
        assert_eq!(
            SmInfo::try_from(info).unwrap_err().to_string(),
            "SMInfo.runtimes[0].os_info: missing"
        );
    }

    proptest! {
        #[test]
        fn survives_the_wire(info in sm_info()) {
            round_trip::<wire::SmInfo, _>(&info)?;
        }
    }
}
