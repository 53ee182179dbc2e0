//! How the Unit is, for the cloud.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{
    InstanceIdent, InstanceState, InstanceStatus, ItemId, ItemType, NodeId, RuntimeId, SubjectId,
};
use muster_cloud::Extent;
use muster_cloud::message::status as wire;
use muster_cloud::message::{Checksum, Identity};
use muster_desired::{Condition, InstanceProgress, Progress};
use muster_instance_data::Checksums;
use muster_unit_config::UnitConfig;
use tokio::sync::watch;

use super::CloudDesk;
use super::convert;
use crate::nodes::NodeDirectory;
use crate::nodes::table::NodeRecord;

/// Changes that come together are told together.
const TOGETHER: Duration = Duration::from_millis(100);

/// What is told from.
#[derive(Debug)]
pub(super) struct Sources {
    pub(super) desk: CloudDesk,
    pub(super) nodes: NodeDirectory,
    pub(super) progress: watch::Receiver<Arc<Progress>>,
    pub(super) config: watch::Receiver<Option<Arc<UnitConfig>>>,
    pub(super) subjects: watch::Receiver<BTreeSet<SubjectId>>,
    pub(super) checksums: watch::Receiver<Arc<Checksums>>,
}

/// Publishes how the Unit is whenever it may be different; all of it when an update has come to its end.
pub(super) async fn publish(mut sources: Sources) {
    let mut told = sources.desk.told();
    let mut ended = None;
    loop {
        told.mark_unchanged();
        let status = sources.now();
        let progress = sources.progress.borrow().clone();
        let end = progress.update.filter(|_| progress.done);
        let extent = match end.is_some() && end != ended {
            true => Extent::Full,
            false => Extent::Changes,
        };
        ended = end;
        sources.desk.link().publish(Arc::new(status), extent);
        tokio::select! {
            Ok(()) = told.changed() => {}
            Ok(()) = sources.progress.changed() => {}
            Ok(()) = sources.config.changed() => {}
            Ok(()) = sources.subjects.changed() => {}
            Ok(()) = sources.checksums.changed() => {}
            else => return,
        }
        tokio::time::sleep(TOGETHER).await;
    }
}

impl Sources {
    fn now(&mut self) -> wire::UnitStatus {
        let statuses = self.desk.statuses();
        let facts = Facts {
            progress: &self.progress.borrow_and_update().clone(),
            nodes: &self.nodes.all(),
            config: self.config.borrow_and_update().clone(),
            subjects: self.subjects.borrow_and_update().clone(),
            checksums: self.checksums.borrow_and_update().clone(),
            statuses: &statuses,
        };
        facts.status()
    }
}

/// What instances said last, by node.
pub(super) type Statuses = BTreeMap<NodeId, BTreeMap<InstanceIdent, InstanceStatus>>;

/// Everything that the status says something about.
struct Facts<'a> {
    progress: &'a Progress,
    nodes: &'a [(NodeId, NodeRecord)],
    config: Option<Arc<UnitConfig>>,
    subjects: BTreeSet<SubjectId>,
    checksums: Arc<Checksums>,
    statuses: &'a Statuses,
}

impl Facts<'_> {
    fn status(&self) -> wire::UnitStatus {
        let nodes = self.nodes.iter().map(|(id, record)| {
            convert::node_status(&record.described(id), record.sm.as_ref(), record.connected)
        });
        let subjects = self.subjects.iter();
        let subjects = subjects.map(|it| Identity::codename(it.as_str()));
        wire::UnitStatus {
            is_delta_info: false,
            unit_config: Some(self.unit_config()),
            nodes: Some(nodes.collect()),
            items: Some(self.items()),
            instances: Some(self.instances()),
            subjects: Some(subjects.collect()),
        }
    }

    fn unit_config(&self) -> Vec<wire::UnitConfigStatus> {
        let version = self.config.as_ref().map(|it| it.version.to_string());
        let failure = self.progress.configuration.as_ref();
        let state = match (&version, failure) {
            (_, Some(_)) => wire::UnitConfigState::Failed,
            (Some(_), None) => wire::UnitConfigState::Installed,
            (None, None) => wire::UnitConfigState::Absent,
        };
        vec![wire::UnitConfigStatus {
            version: version.unwrap_or_default(),
            state,
            error_info: failure.map(convert::error),
        }]
    }

    fn items(&self) -> Vec<wire::ItemStatus> {
        let kinds: BTreeMap<&ItemId, ItemType> = (self.progress.instances.keys())
            .map(|it| (&it.item_id, it.item_type))
            .collect();
        let items = self.progress.items.iter();
        let items = items.map(|(id, item)| wire::ItemStatus {
            item: convert::item(
                id.as_str(),
                kinds.get(id).copied().unwrap_or(ItemType::Service),
            ),
            version: item.version.clone(),
            state: convert::item_state(item.state),
            error_info: item.error.as_ref().map(convert::error),
        });
        items.collect()
    }

    fn instances(&self) -> Vec<wire::InstancesStatus> {
        let mut groups: BTreeMap<(InstanceIdent, String), Vec<wire::InstanceStatus>> =
            BTreeMap::new();
        let mut add = |instance: &InstanceIdent, version: &str, status| {
            let group = InstanceIdent {
                instance: 0,
                ..instance.clone()
            };
            let group = groups.entry((group, version.to_owned())).or_default();
            group.push(status);
        };
        for (instance, progress) in &self.progress.instances {
            add(
                instance,
                &progress.version,
                self.instance(instance, progress),
            );
        }
        // What came with a node was never wanted by anybody.
        for (node, statuses) in self.statuses {
            for (instance, status) in statuses.iter().filter(|(it, _)| it.preinstalled) {
                let state = wire::InstanceStatus {
                    node: convert::node(node),
                    runtime: runtime(status.runtime_id.as_ref()),
                    instance: instance.instance,
                    state_checksum: None,
                    state: convert::instance_state(status.state),
                    error_info: status.error.as_ref().map(convert::error),
                };
                add(instance, &status.version, state);
            }
        }
        let groups = groups.into_iter().map(|((group, version), instances)| {
            let (item, subject) = convert::names(&group);
            wire::InstancesStatus {
                item,
                subject,
                version,
                instances,
            }
        });
        groups.collect()
    }

    fn instance(
        &self,
        instance: &InstanceIdent,
        progress: &InstanceProgress,
    ) -> wire::InstanceStatus {
        let node = progress.node.as_ref();
        let told = node
            .and_then(|node| self.statuses.get(node))
            .and_then(|it| it.get(instance));
        let state = match progress.condition {
            Condition::Unplaced => InstanceState::Failed,
            Condition::Waiting => InstanceState::Activating,
            Condition::Paused | Condition::Away => InstanceState::Inactive,
            Condition::Told(state) => state,
        };
        let checksum = self.checksums.get(instance);
        wire::InstanceStatus {
            node: node.map(convert::node).unwrap_or_default(),
            runtime: runtime(told.and_then(|it| it.runtime_id.as_ref())),
            instance: instance.instance,
            state_checksum: checksum.map(|it| Checksum(it.as_bytes().to_vec())),
            state: convert::instance_state(state),
            error_info: progress.error.as_ref().map(convert::error),
        }
    }
}

fn runtime(id: Option<&RuntimeId>) -> Identity {
    id.map(|it| Identity::codename(it.as_str()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use muster_api::domain::{AosCode, AosError, ItemState};
    use muster_desired::{Bytes, ItemProgress};

    use super::*;

    fn ident(instance: u64, preinstalled: bool) -> InstanceIdent {
        InstanceIdent {
            item_id: ItemId::new("web").expect("an id"),
            subject_id: SubjectId::new("driver").expect("an id"),
            instance,
            item_type: ItemType::Service,
            preinstalled,
        }
    }

    fn told(instance: InstanceIdent, state: InstanceState) -> InstanceStatus {
        InstanceStatus {
            instance,
            version: "1".to_owned(),
            runtime_id: Some(RuntimeId::new("runc-1").expect("an id")),
            manifest_digest: None,
            env_vars: Vec::new(),
            state,
            error: None,
        }
    }

    #[test]
    fn every_instance_stands_in_the_status_as_it_is() {
        let node = NodeId::new("n1").expect("an id");
        let mut progress = Progress::default();
        let mut add = |index, condition, error: Option<AosError>| {
            let placed = condition != Condition::Unplaced;
            let instance = InstanceProgress {
                version: "1".to_owned(),
                node: placed.then(|| node.clone()),
                condition,
                error,
            };
            progress.instances.insert(ident(index, false), instance);
        };
        add(0, Condition::Told(InstanceState::Active), None);
        add(1, Condition::Waiting, None);
        let full = AosError::new(AosCode::NoMemory, "no node has room");
        add(2, Condition::Unplaced, Some(full));
        add(3, Condition::Away, None);
        let item = ItemProgress {
            version: "1".to_owned(),
            state: ItemState::Installed,
            bytes: Bytes::default(),
            error: None,
        };
        progress.items.insert(ident(0, false).item_id, item);
        let mut statuses = Statuses::new();
        let of_node = statuses.entry(node.clone()).or_default();
        of_node.insert(
            ident(0, false),
            told(ident(0, false), InstanceState::Active),
        );
        of_node.insert(ident(9, true), told(ident(9, true), InstanceState::Active));
        let facts = Facts {
            progress: &progress,
            nodes: &[(node, NodeRecord::default())],
            config: None,
            subjects: BTreeSet::new(),
            checksums: Arc::default(),
            statuses: &statuses,
        };
        let status = facts.status();
        assert_eq!(
            status.unit_config.expect("said")[0].state,
            wire::UnitConfigState::Absent
        );
        assert!(!status.nodes.expect("said")[0].is_connected);
        assert_eq!(
            status.items.expect("said")[0].state,
            wire::ItemState::Installed
        );
        let groups = status.instances.expect("said");
        assert_eq!(groups.len(), 2);
        let wanted = groups
            .iter()
            .find(|it| it.item.id.is_some())
            .expect("by id");
        let states: Vec<wire::InstanceState> = wanted.instances.iter().map(|it| it.state).collect();
        use wire::InstanceState::{Activating, Active, Failed, Inactive};
        assert_eq!(states, [Active, Activating, Failed, Inactive]);
        assert_eq!(wanted.instances[0].runtime.name(), Some("runc-1"));
        let why = wanted.instances[2].error_info.as_ref().expect("a reason");
        assert_eq!(
            (why.aos_code, why.message.as_str()),
            (3, "no node has room")
        );
        let came = groups
            .iter()
            .find(|it| it.item.codename.is_some())
            .expect("by codename");
        assert_eq!(came.instances[0].instance, 9);
    }
}
