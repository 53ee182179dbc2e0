//! What the instance may do beyond what everybody may.

use std::collections::{BTreeSet, HashSet};

use muster_runtime::InstanceSpec;
use oci_spec::runtime::{Capability, LinuxCapabilities};

use super::{HostFacts, SpecificationError};

/// The same in all five sets: a program that is not root has only what is ambient, and nobody can get more.
pub(super) fn capabilities(
    instance: &InstanceSpec,
    host: &HostFacts,
) -> Result<LinuxCapabilities, SpecificationError> {
    let mut kept = HashSet::new();
    let asked: BTreeSet<&String> = instance.item_config.sandbox.capabilities.iter().collect();
    for name in asked {
        if !host.granted_capabilities.contains(name) {
            return Err(SpecificationError::CapabilityNotGranted(name.clone()));
        }
        kept.insert(
            capability(name).ok_or_else(|| SpecificationError::UnknownCapability(name.clone()))?,
        );
    }
    let mut capabilities = LinuxCapabilities::default();
    capabilities.set_bounding(Some(kept.clone()));
    capabilities.set_permitted(Some(kept.clone()));
    capabilities.set_effective(Some(kept.clone()));
    capabilities.set_inheritable(Some(kept.clone()));
    capabilities.set_ambient(Some(kept));
    Ok(capabilities)
}

fn capability(name: &str) -> Option<Capability> {
    serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
}
