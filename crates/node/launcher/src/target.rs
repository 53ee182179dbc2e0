//! What an instance shall be.

use std::net::IpAddr;
use std::time::SystemTime;

use muster_api::domain::{
    AosError, EnvVar, InstanceFilter, InstanceIdent, InstanceInfo, NetworkId,
};

/// Everything whose change means that an instance has to be started anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What the controller said.
    pub info: InstanceInfo,
    /// Variables that are set over it for a while.
    pub env_override: Vec<EnvVar>,
}

impl Target {
    /// Which instance.
    pub fn ident(&self) -> &InstanceIdent {
        &self.info.instance
    }

    /// Whether both use something that only one may use at a time.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        fn same<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.is_some() && one == other
        }
        let (one, other) = (&self.info, &other.info);
        same(one.storage_path.as_ref(), other.storage_path.as_ref())
            || same(one.state_path.as_ref(), other.state_path.as_ref())
            || same(address(one).as_ref(), address(other).as_ref())
            || one.instance.instance_id() == other.instance.instance_id()
    }
}

fn address(info: &InstanceInfo) -> Option<(&NetworkId, IpAddr)> {
    let network = info.network.as_ref()?;
    Some((&network.network_id, network.ip))
}

/// What the controller wants: exactly these instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredSet {
    /// Those that can be.
    pub instances: Vec<InstanceInfo>,
    /// Those that are wanted and make no sense. What runs of them is left alone.
    pub refused: Vec<Refused>,
}

impl From<Vec<InstanceInfo>> for DesiredSet {
    fn from(instances: Vec<InstanceInfo>) -> Self {
        Self {
            instances,
            refused: Vec::new(),
        }
    }
}

/// An instance that is wanted as it cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which instance.
    pub instance: InstanceIdent,
    /// In which version.
    pub version: String,
    /// What is wrong.
    pub fault: AosError,
}

/// A variable that is set for some instances, for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvOverride {
    /// For which instances.
    pub filter: InstanceFilter,
    /// What is set.
    pub variable: EnvVar,
    /// Until when; for ever if not said.
    pub expires: Option<SystemTime>,
}

/// The overrides in force for an instance; of several for one name, the last counts.
pub(crate) fn overrides_for(
    overrides: &[EnvOverride],
    ident: &InstanceIdent,
    wall: SystemTime,
) -> Vec<EnvVar> {
    let mut variables: Vec<EnvVar> = Vec::new();
    let valid = |it: &&EnvOverride| {
        it.filter.matches(ident) && it.expires.is_none_or(|expires| wall < expires)
    };
    for it in overrides.iter().filter(valid) {
        variables.retain(|variable| variable.name() != it.variable.name());
        variables.push(it.variable.clone());
    }
    variables
}
