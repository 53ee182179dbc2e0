//! The resources that a node has, as its resources file describes them.

mod file;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use muster_api::domain::{EnvVar, ResourceInfo};
use muster_config::ConfigError;
use muster_runtime::{HostEntry, ResourceGrant};

use crate::access::Access;
use crate::presence::Missing;

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    info: ResourceInfo,
    groups: Vec<String>,
    devices: Vec<(PathBuf, PathBuf)>,
    mounts: Vec<(PathBuf, PathBuf, bool)>,
    env: Vec<EnvVar>,
    hosts: Vec<HostEntry>,
}

impl Resource {
    /// How many instances may have it at a time; `None` is any number.
    pub fn shares(&self) -> Option<NonZeroU64> {
        self.info.shared_count()
    }

    /// Its devices on the host.
    pub fn devices(&self) -> impl Iterator<Item = &Path> {
        self.devices.iter().map(|(host, _)| host.as_path())
    }

    /// What an instance gets.
    pub fn grant(&self, access: Access) -> ResourceGrant {
        let narrowed = access == Access::ReadOnly;
        let mount = |(source, target, read_only): &(PathBuf, PathBuf, bool)| {
            (source.clone(), target.clone(), *read_only || narrowed)
        };
        ResourceGrant {
            name: self.info.name().to_owned(),
            devices: self.devices.clone(),
            groups: self.groups.clone(),
            mounts: self.mounts.iter().map(mount).collect(),
            env: self.env.clone(),
            hosts: self.hosts.clone(),
        }
    }
}

/// All resources of a node, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceTable {
    resources: BTreeMap<String, Resource>,
}

impl ResourceTable {
    /// Reads a resources file, which is a JSON list whatever its extension. A node without the file has no resources.
    ///
    /// # Errors
    /// When it cannot be read, or everything that is wrong with it, each with its line.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        match file::read(path) {
            Ok(text) => file::parse(path, &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ConfigError::ReadFile {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// The resource of this name.
    pub fn get(&self, name: &str) -> Option<&Resource> {
        self.resources.get(name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The devices of all resources on the host.
    pub fn devices(&self) -> impl Iterator<Item = &Path> {
        self.resources.values().flat_map(Resource::devices)
    }

    /// What is announced: the resources all of whose devices are there.
    pub fn announced(&self, missing: &Missing) -> Vec<ResourceInfo> {
        let whole = |resource: &&Resource| {
            resource
                .devices()
                .all(|device| !missing.contains_key(device))
        };
        let whole = self.resources.values().filter(whole);
        whole.map(|resource| resource.info.clone()).collect()
    }
}

#[cfg(test)]
impl ResourceTable {
    /// Resources by name, number of shares (0 for any) and devices.
    pub(crate) fn of(resources: &[(String, u64, Vec<PathBuf>)]) -> Self {
        let resource = |(name, shares, devices): &(String, u64, Vec<PathBuf>)| Resource {
            info: ResourceInfo::new(name.as_str(), NonZeroU64::new(*shares)).expect("a name"),
            groups: Vec::new(),
            devices: devices.iter().map(|it| (it.clone(), it.clone())).collect(),
            mounts: vec![("/host".into(), "/inside".into(), false)],
            env: Vec::new(),
            hosts: Vec::new(),
        };
        let named = resources.iter().map(|it| (it.0.clone(), resource(it)));
        Self {
            resources: named.collect(),
        }
    }
}

#[cfg(test)]
mod tests;
