//! What a Unit shall run, as a value that cannot contradict itself.

mod check;
mod raw;
#[cfg(test)]
pub(crate) mod tests;
mod write;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use muster_api::domain::{
    Digest, EnvVar, InstanceFilter, InstanceIdent, ItemId, ItemType, NodeId, OwnerId, SubjectId,
};
use muster_balance::Distribution;

pub use self::check::{DocumentProblem, InvalidDocument};
pub use self::raw::{
    CertificateEntry, ChainEntry, DistributionName, Document, EnvEntry, EnvText, ImageEntry,
    InstancesEntry, ItemEntry, ItemKind, NodeEntry, SubjectEntry, SubjectKind,
};
pub use self::yaml::to_yaml;

/// The subject of instances that name none.
pub const LOCAL_SUBJECT: &str = "local";

/// What a Unit shall run. Sorted and without repetitions, so that two of them are equal when they mean the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesiredStatus {
    paused: BTreeMap<NodeId, bool>,
    unit_config: Option<UnitConfigText>,
    items: BTreeMap<ItemId, Item>,
    instances: BTreeMap<InstancesKey, Instances>,
    subjects: BTreeMap<SubjectId, Subject>,
    env: Vec<EnvOverride>,
    trust: Trust,
}

impl DesiredStatus {
    /// Nodes that something is said about, and whether they are to be paused.
    pub fn nodes(&self) -> &BTreeMap<NodeId, bool> {
        &self.paused
    }

    /// Whether the node shall keep what it runs and get nothing new. `None` if nothing is said about it.
    pub fn pauses(&self, node: &NodeId) -> Option<bool> {
        self.paused.get(node).copied()
    }

    /// The configuration of the Unit, if it shall have one.
    pub fn unit_config(&self) -> Option<&UnitConfigText> {
        self.unit_config.as_ref()
    }

    /// What can run.
    pub fn items(&self) -> &BTreeMap<ItemId, Item> {
        &self.items
    }

    /// What shall run. Every item of it is one of [`items`](Self::items).
    pub fn instances(&self) -> &BTreeMap<InstancesKey, Instances> {
        &self.instances
    }

    /// Subjects of which more than the name is known.
    pub fn subjects(&self) -> &BTreeMap<SubjectId, Subject> {
        &self.subjects
    }

    /// Variables over those of the images; of several for one name, the last counts.
    pub fn env(&self) -> &[EnvOverride] {
        &self.env
    }

    /// The variables of an instance.
    pub fn env_of(&self, instance: &InstanceIdent) -> Vec<EnvVar> {
        let mut variables: BTreeMap<&str, &EnvVar> = BTreeMap::new();
        for entry in self.env.iter().filter(|it| it.filter.matches(instance)) {
            let named = entry.variables.iter();
            variables.extend(named.map(|variable| (variable.name().as_str(), variable)));
        }
        variables.into_values().cloned().collect()
    }

    /// Whom signatures may be from.
    pub fn trust(&self) -> &Trust {
        &self.trust
    }
}

/// The configuration of a Unit, as text. Whoever installs it knows its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitConfigText {
    version: String,
    json: String,
}

impl UnitConfigText {
    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// All of it, with sorted keys.
    pub fn json(&self) -> &str {
        &self.json
    }
}

/// An item in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Which one.
    pub id: ItemId,
    /// What kind of thing.
    pub kind: ItemType,
    /// In which version.
    pub version: String,
    /// Whose it is.
    pub owner: Option<OwnerId>,
    /// Where it comes from.
    pub image: ImageSource,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.version, self.image)?;
        if self.kind == ItemType::Component {
            f.write_str(", component")?;
        }
        match &self.owner {
            Some(owner) => write!(f, ", owner {owner}"),
            None => Ok(()),
        }
    }
}

/// Where an item comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageSource {
    /// The cloud says where its blobs are.
    Cloud {
        /// Its index.
        index: Digest,
    },
    /// An OCI image layout on the Main Node.
    Layout {
        /// Folder or tar archive, absolute.
        path: PathBuf,
        /// Which of its images.
        name: Option<String>,
        /// What it must be.
        index: Option<Digest>,
    },
    /// A registry.
    Registry {
        /// `HOST[:PORT]/NAME[:TAG]`.
        reference: String,
        /// How it is reached.
        access: RegistryAccess,
        /// What it must be.
        index: Option<Digest>,
    },
}

impl fmt::Display for ImageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = match self {
            Self::Cloud { index } => return write!(f, "{index}"),
            Self::Layout { path, name, index } => {
                write!(f, "{}", path.display())?;
                if let Some(name) = name {
                    write!(f, " ({name})")?;
                }
                index
            }
            Self::Registry {
                reference, index, ..
            } => {
                f.write_str(reference)?;
                index
            }
        };
        match index {
            Some(index) => write!(f, " as {index}"),
            None => Ok(()),
        }
    }
}

/// How a registry is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryAccess {
    /// The user, and the file with the password in its first line.
    pub login: Option<(String, PathBuf)>,
    /// Certificates (PEM files) to trust beside the system's.
    pub ca: Vec<PathBuf>,
    /// HTTP without protection.
    pub insecure: bool,
}

/// What runs for whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstancesKey {
    /// What.
    pub item: ItemId,
    /// For whom.
    pub subject: SubjectId,
}

/// How an item runs for a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instances {
    /// How many, numbered from 0.
    pub count: u64,
    /// Higher is more important.
    pub priority: u64,
    /// A node must have all of them.
    pub labels: BTreeSet<String>,
    /// The only node that may run them.
    pub pin: Option<NodeId>,
    /// How they are laid over nodes.
    pub distribution: Distribution,
}

impl fmt::Display for Instances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, priority {}", self.count, self.priority)?;
        if !self.labels.is_empty() {
            let labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
            write!(f, ", labels {}", labels.join(" "))?;
        }
        if let Some(node) = &self.pin {
            write!(f, ", on {node}")?;
        }
        match self.distribution {
            Distribution::Best => Ok(()),
            Distribution::Spread => f.write_str(", spread"),
        }
    }
}

/// A subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// What kind.
    pub kind: SubjectKind,
    /// It counts only while the Unit itself says that it is there.
    pub reported_from_unit: bool,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            SubjectKind::Group => "group",
            SubjectKind::User => "user",
        })?;
        match self.reported_from_unit {
            true => f.write_str(", reported from the Unit"),
            false => Ok(()),
        }
    }
}

/// Variables that are set for some instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvOverride {
    /// For which.
    pub filter: InstanceFilter,
    /// Sorted by name.
    pub variables: Vec<EnvVar>,
}

/// Certificates that items may be signed with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// By fingerprint, DER in base 64.
    pub certificates: BTreeMap<String, String>,
    /// By name, the signer's fingerprint first.
    pub chains: BTreeMap<String, Vec<String>>,
}
