//! What a provider is asked to make, typed.

mod read;
mod same;

pub(crate) use read::{ami, digest};

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use muster_template::field::{ENV, USER_DATA};
use muster_template::{Arch, Value, show};
use serde::{Deserialize, Serialize};

use crate::lock::{Inputs, PinFor};
use crate::resolve::{Provenance, Resolved};

/// A machine as a provider makes it. What is `None` nobody set: the provider's default holds.
///
/// It is made from [`Resolved`] fields by [`MachineSpec::from_resolved`], and is a serde value that can be kept.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSpec {
    /// The image, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What the image is, where the provider has several kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_type: Option<ImageType>,
    /// The checksum of the image as it is downloaded, `sha256:` and 64 hexadecimal digits, or `sha512:` and 128.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The user that commands are run as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Virtual processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<NonZeroU32>,
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<NonZeroU64>,
    /// Disk in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<NonZeroU64>,
    /// The architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<Arch>,
    /// The region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Public keys that may log in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssh_keys: Vec<String>,
    /// What cloud-init is given. It may hold secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Environment variables. They may hold secrets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// A network that the provider knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// An image to install from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iso: Option<String>,
    /// An image of EC2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami: Option<String>,
    /// How an image of EC2 is found, in the region and for the architecture above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_lookup: Option<AmiLookup>,
    /// What the lock file shall say once the image is found: nothing where it says so already, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin_for: Option<PinFor>,
    /// From what the image is found, or was before it was pinned. Specs from before this was kept have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found_from: Option<Inputs>,
    /// The fields that this provider alone knows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Value>,
}

/// What an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageType {
    /// An image of EC2.
    Ami,
    /// An image of a container registry. Also read as `docker` and `oci`.
    Container,
    /// A disk with a system on it. Also read as `qcow2`.
    Disk,
    /// A disc that a system is installed from.
    Iso,
}

/// How an image of EC2 is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum AmiLookup {
    /// The newest image of an owner whose name fits a pattern of EC2's.
    Newest {
        /// An account, or an alias such as `amazon`.
        owner: String,
        /// The pattern.
        name: String,
    },
    /// What a parameter of the Systems Manager says.
    Ssm {
        /// The parameter's path.
        parameter: String,
    },
}

/// A resolved field that a machine cannot have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldProblem {
    /// The field.
    pub field: String,
    /// Who set it.
    pub provenance: Provenance,
    /// Where that is written, if it is.
    pub origin: Option<muster_config::Origin>,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        write!(
            f,
            "{}: {} (set by {})",
            self.field, self.message, self.provenance
        )
    }
}

/// Why resolved fields make no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("template {template} makes no machine for {provider}:{}", problems.iter().map(|it| format!("\n{it}")).collect::<String>())]
pub struct SpecError {
    /// The template.
    pub template: muster_template::TemplateName,
    /// For whom it was resolved.
    pub provider: muster_template::ProviderId,
    /// Everything that is wrong, at least one.
    pub problems: Vec<FieldProblem>,
}

impl MachineSpec {
    /// Types the fields that have a meaning, and keeps what the provider alone knows in [`extra`](Self::extra).
    ///
    /// # Errors
    /// Every field whose value is not of its type, that no provider knows, or that was set for this one and is unknown to it, with
    /// who set it.
    pub fn from_resolved(resolved: &Resolved) -> Result<Self, SpecError> {
        read::read(resolved)
    }
}

/// Without what may be secret.
impl fmt::Debug for MachineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user_data = self.user_data.clone().map(Value::String);
        let env: Vec<String> = self.env.keys().map(|name| format!("{name}=…")).collect();
        let extra = self.extra.iter().map(|(name, it)| (name, show(name, it)));
        f.debug_struct("MachineSpec")
            .field("image", &self.image)
            .field("image_type", &self.image_type)
            .field("digest", &self.digest)
            .field("user", &self.user)
            .field("cpus", &self.cpus)
            .field("memory_mb", &self.memory_mb)
            .field("disk_mb", &self.disk_mb)
            .field("arch", &self.arch)
            .field("region", &self.region)
            .field("labels", &self.labels)
            .field("ssh_keys", &self.ssh_keys.len())
            .field(USER_DATA, &user_data.map(|it| show(USER_DATA, &it)))
            .field(ENV, &env)
            .field("network", &self.network)
            .field("iso", &self.iso)
            .field("ami", &self.ami)
            .field("ami_lookup", &self.ami_lookup)
            .field("pin_for", &self.pin_for)
            .field("found_from", &self.found_from)
            .field("extra", &extra.collect::<BTreeMap<_, _>>())
            .finish()
    }
}

#[cfg(test)]
mod tests;
