//! Back to a document: for the database, and for people who ask what is wanted.

use muster_api::common::v2 as common;
use muster_api::domain::ItemType;
use muster_balance::Distribution;

use super::raw::{
    CertificateEntry, ChainEntry, DistributionName, Document, EnvEntry, EnvText, ImageEntry,
    InstancesEntry, ItemEntry, ItemKind, NodeEntry, SubjectEntry,
};
use super::yaml::to_yaml;
use super::{DesiredStatus, EnvOverride, ImageSource, Instances, InstancesKey, Item};

impl DesiredStatus {
    /// The document that means this.
    pub fn document(&self) -> Document {
        let certificates = self.trust.certificates.iter();
        let chains = self.trust.chains.iter();
        Document {
            nodes: (self.paused.iter())
                .map(|(id, paused)| NodeEntry {
                    id: id.to_string(),
                    paused: *paused,
                })
                .collect(),
            // It was made from a value.
            unit_config: (self.unit_config.as_ref())
                .and_then(|config| serde_json::from_str(&config.json).ok()),
            items: self.items.values().map(ItemEntry::from).collect(),
            instances: self.instances.iter().map(instances).collect(),
            subjects: (self.subjects.iter())
                .map(|(id, subject)| SubjectEntry {
                    id: id.to_string(),
                    kind: subject.kind,
                    reported_from_unit: subject.reported_from_unit,
                })
                .collect(),
            env: self.env.iter().map(env).collect(),
            certificates: certificates
                .map(|(fingerprint, certificate)| CertificateEntry {
                    fingerprint: fingerprint.clone(),
                    certificate: certificate.clone(),
                })
                .collect(),
            certificate_chains: chains
                .map(|(name, fingerprints)| ChainEntry {
                    name: name.clone(),
                    fingerprints: fingerprints.clone(),
                })
                .collect(),
        }
    }

    /// The document as YAML, for people. Values of variables are in it.
    pub fn to_yaml(&self) -> String {
        // A document has neither keys that are no texts nor numbers that are none.
        let value = serde_json::to_value(self.document()).unwrap_or_default();
        to_yaml(&value)
    }
}

impl From<&Item> for ItemEntry {
    fn from(item: &Item) -> Self {
        entry(item)
    }
}

fn entry(item: &Item) -> ItemEntry {
    let mut image = ImageEntry::default();
    let index = match &item.image {
        ImageSource::Cloud { index } => Some(index),
        ImageSource::Layout { path, name, index } => {
            image.layout = Some(path.clone());
            image.name.clone_from(name);
            index.as_ref()
        }
        ImageSource::Registry {
            reference,
            access,
            index,
        } => {
            image.registry = Some(reference.clone());
            (image.user, image.password_file) = access.login.clone().unzip();
            image.ca.clone_from(&access.ca);
            image.insecure = access.insecure;
            index.as_ref()
        }
    };
    image.digest = index.map(ToString::to_string);
    ItemEntry {
        id: item.id.to_string(),
        kind: match item.kind {
            ItemType::Service => ItemKind::Service,
            ItemType::Component => ItemKind::Component,
        },
        version: item.version.clone(),
        owner: item.owner.as_ref().map(ToString::to_string),
        image,
    }
}

fn instances((key, instances): (&InstancesKey, &Instances)) -> InstancesEntry {
    InstancesEntry {
        item: key.item.to_string(),
        subject: Some(key.subject.to_string()),
        count: instances.count,
        priority: instances.priority,
        labels: instances.labels.iter().cloned().collect(),
        node: instances.pin.as_ref().map(ToString::to_string),
        distribution: match instances.distribution {
            Distribution::Best => DistributionName::Best,
            Distribution::Spread => DistributionName::Spread,
        },
    }
}

fn env(entry: &EnvOverride) -> EnvEntry {
    let filter = common::InstanceFilter::from(entry.filter.clone());
    let given = |text: String| (!text.is_empty()).then_some(text);
    EnvEntry {
        item: given(filter.item_id),
        subject: given(filter.subject_id),
        // A negative number stands for all.
        instance: u64::try_from(filter.instance).ok(),
        variables: (entry.variables.iter())
            .map(|it| (it.name().to_string(), EnvText(it.value().to_owned())))
            .collect(),
    }
}
