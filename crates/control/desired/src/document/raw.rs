//! The document as it is written: by people in YAML or JSON, by the cloud's converter, and in the database.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a Unit shall run, not yet checked. [`Document::check`](super::Document::check) makes a
/// [`DesiredStatus`](crate::DesiredStatus) of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Nodes that something is said about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeEntry>,
    /// The configuration of the Unit, as its own format says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_config: Option<serde_json::Value>,
    /// What can run, each in one version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemEntry>,
    /// What shall run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstancesEntry>,
    /// Whom items run for, where more than the name is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<SubjectEntry>,
    /// Variables over those of the images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvEntry>,
    /// Certificates that items may be signed with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateEntry>,
    /// Chains of those certificates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificate_chains: Vec<ChainEntry>,
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeEntry {
    /// Which one.
    pub id: String,
    /// It keeps what it runs and gets nothing new.
    #[serde(default)]
    pub paused: bool,
}

/// An item in the version that is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemEntry {
    /// Its name.
    pub id: String,
    /// Service where absent.
    #[serde(rename = "type", default)]
    pub kind: ItemKind,
    /// Which version.
    pub version: String,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Where it comes from.
    pub image: ImageEntry,
}

/// What kind of thing an item is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ItemKind {
    /// A program for subjects.
    #[default]
    Service,
    /// A part of a node.
    Component,
}

/// Where an image comes from: a layout, a registry, or, with a digest alone, the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageEntry {
    /// An OCI image layout on the Main Node, folder or tar archive; relative to the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<PathBuf>,
    /// Which of the layout's images; the only one where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `HOST[:PORT]/NAME[:TAG]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<String>,
    /// The registry's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A file whose first line is the user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Certificates (PEM files) to trust beside the system's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ca: Vec<PathBuf>,
    /// Speak HTTP without protection.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Of the item's index. What a layout or a registry has must be this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// An item that shall run for a subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstancesEntry {
    /// What.
    pub item: String,
    /// For whom; `local` where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// How many; one where absent.
    #[serde(default = "one")]
    pub count: u64,
    /// Higher is more important.
    #[serde(default)]
    pub priority: u64,
    /// A node must have all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The only node that may run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How they are laid over nodes.
    #[serde(default)]
    pub distribution: DistributionName,
}

impl Default for InstancesEntry {
    fn default() -> Self {
        Self {
            item: String::new(),
            subject: None,
            count: one(),
            priority: 0,
            labels: Vec::new(),
            node: None,
            distribution: DistributionName::default(),
        }
    }
}

fn one() -> u64 {
    1
}

/// How instances are laid over nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DistributionName {
    /// Each on the best node.
    #[default]
    Best,
    /// As few as possible on the same node.
    Spread,
}

/// A subject.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubjectEntry {
    /// Which one.
    pub id: String,
    /// Group where absent.
    #[serde(rename = "type", default)]
    pub kind: SubjectKind,
    /// It counts only while the Unit itself says that it is there.
    #[serde(default)]
    pub reported_from_unit: bool,
}

/// What kind of subject.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SubjectKind {
    /// Several.
    #[default]
    Group,
    /// One person.
    User,
}

/// Variables for some instances. What is absent does not narrow the choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvEntry {
    /// Of this item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// For this subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// With this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<u64>,
    /// By name.
    pub variables: BTreeMap<String, EnvText>,
}

/// The value of a variable. It may be a secret, so it is not printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EnvText(pub String);

impl fmt::Debug for EnvText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(redacted)")
    }
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateEntry {
    /// Its name in chains.
    pub fingerprint: String,
    /// DER, in base 64.
    pub certificate: String,
}

/// A chain of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainEntry {
    /// What signatures call it.
    pub name: String,
    /// Its certificates, the signer's first.
    pub fingerprints: Vec<String>,
}
