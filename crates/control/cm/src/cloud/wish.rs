//! What the cloud wants, as a document. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_cloud::message::Identity;
use muster_cloud::message::incoming::{DesiredNodeState, DesiredStatus, EnvVars, SubjectType};
use muster_desired::{
    CertificateEntry, ChainEntry, Document, EnvEntry, EnvText, ImageEntry, InstancesEntry,
    ItemEntry, ItemKind, NodeEntry, SubjectEntry, SubjectKind,
};

/// What something is called; empty, which no document takes, if it has no name.
fn name(identity: &Identity) -> String {
    identity.name().unwrap_or_default().to_owned()
}

/// The document that says the same. `env` is what the cloud says apart from it.
pub(super) fn document(desired: DesiredStatus, env: Vec<EnvEntry>) -> Document {
    let nodes = desired.nodes.iter().map(|node| NodeEntry {
        id: name(&node.item),
        paused: node.state == DesiredNodeState::Paused,
    });
    let items = desired.items.iter().map(|item| ItemEntry {
        id: name(&item.item),
        kind: match item.is_component() {
            true => ItemKind::Component,
            false => ItemKind::Service,
        },
        version: item.version.clone(),
        owner: item.owner.name().map(str::to_owned),
        image: ImageEntry {
            digest: Some(item.index_digest.clone()),
            ..ImageEntry::default()
        },
    });
    let instances = desired.instances.iter().map(|instances| InstancesEntry {
        item: name(&instances.item),
        subject: Some(name(&instances.subject)),
        count: instances.num_instances,
        priority: instances.priority,
        labels: instances.labels.clone(),
        ..InstancesEntry::default()
    });
    let subjects = desired.subjects.iter().map(|subject| SubjectEntry {
        id: name(&subject.identity),
        kind: match subject.kind {
            SubjectType::Group => SubjectKind::Group,
            SubjectType::User => SubjectKind::User,
        },
        reported_from_unit: subject.is_reported_from_unit,
    });
    let certificates = desired.certificates.iter().map(|it| CertificateEntry {
        fingerprint: it.fingerprint.clone(),
        certificate: STANDARD.encode(&it.certificate.0),
    });
    let chains = desired.certificate_chains.iter().map(|it| ChainEntry {
        name: it.name.clone(),
        fingerprints: it.fingerprints.clone(),
    });
    Document {
        nodes: nodes.collect(),
        items: items.collect(),
        instances: instances.collect(),
        subjects: subjects.collect(),
        certificates: certificates.collect(),
        certificate_chains: chains.collect(),
        env,
        unit_config: desired.unit_config,
    }
}

/// Variables as a document says them. What has ended is left out.
pub(super) fn env(items: &[EnvVars], now: muster_cloud::message::Timestamp) -> Vec<EnvEntry> {
    let entries = items.iter().map(|entry| {
        let lasting = entry.variables.iter();
        let lasting = lasting.filter(|it| it.ttl.is_none_or(|end| end > now));
        let variable = lasting.map(|it| (it.name.clone(), EnvText(it.value.expose().to_owned())));
        EnvEntry {
            item: entry.item.as_ref().map(name),
            subject: entry.subject.as_ref().map(name),
            instance: entry.instance,
            variables: variable.collect(),
        }
    });
    entries.filter(|it| !it.variables.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use muster_cloud::message::Timestamp;
    use muster_cloud::message::incoming::EnvVar;
    use muster_cloud::testing::samples;
    use muster_desired::SubjectKind;

    use super::*;

    #[test]
    fn everything_that_the_cloud_wants_is_in_the_document() {
        let mut desired = samples::desired_status();
        desired.items[0].index_digest = format!("sha256:{}", "ab".repeat(32));
        let document = document(desired, Vec::new());
        assert_eq!(document.nodes[0].id, "node-1");
        assert!(document.nodes[0].paused);
        assert_eq!(document.items[0].id, "web");
        assert_eq!(document.items[0].owner.as_deref(), Some("owner"));
        assert_eq!(document.instances[0].count, 2);
        assert_eq!(document.instances[0].subject.as_deref(), Some("subject-1"));
        assert_eq!(document.subjects[0].kind, SubjectKind::User);
        assert_eq!(document.certificates[0].certificate, "AQID");
        let status = document.check().expect("it is valid");
        assert_eq!(status.items().len(), 1);
        assert_eq!(status.unit_config().map(|it| it.version()), Some("2.0.0"));
    }

    #[test]
    fn what_has_no_name_makes_no_valid_document() {
        let mut desired = samples::desired_status();
        desired.items[0].item = Identity::default();
        document(desired, Vec::new()).check().expect_err("no name");
    }

    #[test]
    fn variables_that_have_ended_are_left_out() {
        let variable = |name: &str, end: Option<i64>| EnvVar {
            name: name.to_owned(),
            value: "v".to_owned().into(),
            ttl: end.map(|it| Timestamp::from_second(it).expect("a time")),
        };
        let entry = |variables| EnvVars {
            item: Some(Identity::id("web")),
            subject: None,
            instance: None,
            variables,
        };
        let items = [
            entry(vec![variable("A", Some(10)), variable("B", None)]),
            entry(vec![variable("C", Some(5))]),
        ];
        let found = env(&items, Timestamp::from_second(7).expect("a time"));
        assert_eq!(found.len(), 1);
        let names: Vec<&String> = found[0].variables.keys().collect();
        assert_eq!(names, ["A", "B"]);
        assert_eq!(found[0].item.as_deref(), Some("web"));
    }
}
