//! What is true about the Unit now, pure: facts in, changes numbered, notes for the history out. No clock, no I/O.

mod instance;
mod instances;
mod items;
mod lists;
mod networks;
mod node;
mod nodes;
mod notes;
mod pages;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::domain::{InstanceIdent, ItemId, MonitoringData, NetworkId, NodeId};
use muster_desired::{Progress, UpdateId, UpdateStep};

pub(crate) use self::instance::InstanceRecord;
pub(crate) use self::items::{ItemFacts, ItemKey, ItemRecord, ProgressChanges};
pub(crate) use self::networks::NetworkRecord;
pub(crate) use self::node::NodeRecord;
pub(crate) use self::notes::Notes;
pub(crate) use self::pages::{Cursor, FellBehind, Kinds};
use self::table::{Revision, Table};
use crate::facts::{CloudFacts, Note, NoteKind, UnitAbout};

/// Which instances belong to a node, in one way or another.
type Index = BTreeMap<NodeId, BTreeSet<InstanceIdent>>;

/// Everything that an overview shows and that can change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) nodes: usize,
    pub(crate) connected: usize,
    pub(crate) instances: usize,
    pub(crate) active: usize,
    pub(crate) failed: usize,
    pub(crate) items: usize,
    pub(crate) cloud: CloudFacts,
    pub(crate) update: Option<UpdateId>,
    pub(crate) step: UpdateStep,
    pub(crate) done: bool,
}

#[derive(Debug)]
pub(crate) struct UnitState {
    /// Of the newest change.
    revision: Revision,
    pub(crate) about: UnitAbout,
    nodes: Table<NodeId, NodeRecord>,
    instances: Table<InstanceIdent, InstanceRecord>,
    items: Table<ItemKey, ItemRecord>,
    networks: Table<NetworkId, NetworkRecord>,
    usage: Table<NodeId, MonitoringData>,
    /// By the node of their place.
    placed: Index,
    /// By nodes that say something about them.
    told: Index,
    /// Networks that nodes have.
    networks_of: BTreeMap<NodeId, BTreeSet<NetworkId>>,
    item_facts: BTreeMap<ItemId, ItemFacts>,
    progress: Arc<Progress>,
    heard_of_updates: bool,
    /// What went wrong, the first few.
    failures: Vec<String>,
    tally: Tally,
    tally_changed: Revision,
    /// As of the last fact that was settled.
    shown: Tally,
    /// Something that is shown with the tally has changed.
    overview_stale: bool,
}

impl UnitState {
    /// `gone_kept`: how many objects of one kind that are gone are remembered.
    pub(crate) fn new(about: UnitAbout, gone_kept: usize) -> Self {
        Self {
            revision: 0,
            about,
            nodes: Table::new(gone_kept),
            instances: Table::new(gone_kept),
            items: Table::new(gone_kept),
            networks: Table::new(gone_kept),
            usage: Table::new(gone_kept),
            placed: Index::new(),
            told: Index::new(),
            networks_of: BTreeMap::new(),
            item_facts: BTreeMap::new(),
            progress: Arc::default(),
            heard_of_updates: false,
            failures: Vec::new(),
            tally: Tally::default(),
            tally_changed: 0,
            shown: Tally::default(),
            overview_stale: false,
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn shown_tally(&self) -> Tally {
        self.shown
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    pub(crate) fn node(&self, node: &NodeId) -> Option<&NodeRecord> {
        self.nodes.get(node)
    }

    pub(crate) fn node_usage(&self, node: &NodeId) -> Option<&MonitoringData> {
        self.usage.get(node)
    }

    pub(crate) fn instance(&self, ident: &InstanceIdent) -> Option<&InstanceRecord> {
        self.instances.get(ident)
    }

    pub(crate) fn item(&self, key: &ItemKey) -> Option<&ItemRecord> {
        self.items.get(key)
    }

    pub(crate) fn network(&self, network: &NetworkId) -> Option<&NetworkRecord> {
        self.networks.get(network)
    }

    /// How many instances have their place there.
    pub(crate) fn instances_of(&self, node: &NodeId) -> usize {
        self.placed.get(node).map_or(0, BTreeSet::len)
    }

    pub(crate) fn cloud(&mut self, cloud: CloudFacts, notes: &mut Notes) {
        let before = self.tally.cloud;
        self.tally.cloud = cloud;
        if cloud.configured && before.connected != cloud.connected {
            notes.add(match cloud.connected {
                true => Note::plain(NoteKind::Cloud, "", "the cloud is connected"),
                false => Note::warning(NoteKind::Cloud, "", "the cloud cannot be reached"),
            });
        }
    }

    /// Ends every fact: an overview that differs is a change.
    pub(crate) fn settle(&mut self) {
        self.tally.nodes = self.nodes.len();
        self.tally.instances = self.instances.len();
        self.tally.items = self.items.len();
        let stale = std::mem::take(&mut self.overview_stale);
        if stale || self.tally != self.shown {
            self.shown = self.tally;
            self.revision += 1;
            self.tally_changed = self.revision;
        }
    }
}

fn insert(index: &mut Index, node: &NodeId, ident: &InstanceIdent) {
    match index.get_mut(node) {
        Some(idents) => drop(idents.insert(ident.clone())),
        None => drop(index.insert(node.clone(), BTreeSet::from([ident.clone()]))),
    }
}

fn remove(index: &mut Index, node: &NodeId, ident: &InstanceIdent) {
    if let Some(idents) = index.get_mut(node) {
        idents.remove(ident);
        if idents.is_empty() {
            index.remove(node);
        }
    }
}

#[cfg(test)]
impl UnitState {
    /// Everything that is counted along, counted anew.
    fn check_counts(&self) {
        use muster_api::domain::InstanceState::{Active, Failed};

        let phase = |state| {
            let phases = self.instances.after(None).map(|(_, record)| record.phase);
            phases
                .filter(|it| *it == instance::Phase::Told(state))
                .count()
        };
        let tally = self.shown_tally();
        assert_eq!((tally.active, tally.failed), (phase(Active), phase(Failed)));
        let connected = self.nodes.after(None).filter(|(_, node)| node.connected);
        assert_eq!(tally.connected, connected.count());
        let (mut placed, mut told) = (Index::new(), Index::new());
        let mut attached: BTreeMap<&NetworkId, usize> = BTreeMap::new();
        for (ident, record) in self.instances.after(None) {
            assert!(!record.is_empty(), "{ident} is known for nothing");
            if let Some(node) = record.place() {
                insert(&mut placed, node, ident);
            }
            for by in &record.told {
                insert(&mut told, &by.node, ident);
            }
            if let Some(network) = record.given_there().and_then(|it| it.network.as_ref()) {
                *attached.entry(network).or_default() += 1;
            }
        }
        assert_eq!((&self.placed, &self.told), (&placed, &told));
        for (id, network) in self.networks.after(None) {
            assert_eq!(network.instances, attached.remove(id).unwrap_or(0), "{id}");
        }
        assert!(attached.is_empty(), "{attached:?}");
    }
}
