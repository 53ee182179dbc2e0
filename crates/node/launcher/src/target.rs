//! What an instance shall be.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::{
    AosError, DataPath, EnvVar, InstanceFilter, InstanceIdent, InstanceInfo, NetworkId,
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
    /// The same with other variables over it.
    pub(crate) fn with(target: &Arc<Self>, env_override: &[EnvVar]) -> Arc<Self> {
        if target.env_override == env_override {
            return Arc::clone(target);
        }
        Arc::new(Self {
            info: target.info.clone(),
            env_override: env_override.to_vec(),
        })
    }

    /// Which instance.
    pub fn ident(&self) -> &InstanceIdent {
        &self.info.instance
    }

    /// What it uses that only one may use at a time.
    pub(crate) fn sole(&self) -> impl Iterator<Item = Sole<'_>> {
        let info = &self.info;
        let storage = info.storage_path.as_ref().map(Sole::Storage);
        let state = info.state_path.as_ref().map(Sole::State);
        let address = info.network.as_ref();
        let address = address.map(|network| Sole::Address(&network.network_id, network.ip));
        let name = Sole::Name(info.instance.instance_id().as_u128());
        [storage, state, address, Some(name)].into_iter().flatten()
    }

    /// Whether both use something that only one may use at a time.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        let has: Vec<Sole<'_>> = self.sole().collect();
        other.sole().any(|needed| has.contains(&needed))
    }
}

/// Something that only one instance may use at a time, or, of resources, only so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sole<'a> {
    Storage(&'a DataPath),
    State(&'a DataPath),
    Address(&'a NetworkId, IpAddr),
    /// What units, folders and networks of instances are called by.
    Name(u128),
    Resource(&'a str),
}

/// What the controller wants: exactly these instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredSet {
    /// Those that can be.
    pub instances: Vec<InstanceInfo>,
    /// Those that are wanted and make no sense. What runs of them is left alone.
    pub refused: Vec<Refused>,
    /// It names more, and nobody can tell which: what runs and is not named may be one of those, and is left alone.
    pub names_more: bool,
}

impl From<Vec<InstanceInfo>> for DesiredSet {
    fn from(instances: Vec<InstanceInfo>) -> Self {
        Self {
            instances,
            refused: Vec::new(),
            names_more: false,
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
