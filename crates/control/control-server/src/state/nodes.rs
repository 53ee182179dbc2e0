//! Facts about nodes.

use std::time::SystemTime;

use muster_api::domain::{NodeId, NodeInfo, NodeState, SmInfo};

use super::{NodeRecord, Notes, UnitState};
use crate::facts::{NodeConfigFacts, Note, NoteKind};

impl UnitState {
    /// Which Unit this is, and its Main Node.
    pub(crate) fn identified(&mut self, system_id: String, main_node: NodeId) {
        self.about.system_id = system_id;
        let before = self.about.main_node.replace(main_node.clone());
        if before.as_ref() == Some(&main_node) {
            return;
        }
        for node in before.into_iter().chain([main_node]) {
            if self.nodes.get(&node).is_some() {
                self.nodes.touch(&node, &mut self.revision);
            }
        }
    }

    /// The identity manager describes a node.
    pub(crate) fn node_info(&mut self, info: NodeInfo, notes: &mut Notes) {
        let node = info.node_id.clone();
        let record = self.node_record(&node);
        if record.info.as_ref() == Some(&info) {
            return;
        }
        let before = record.info.as_ref().map(|info| info.state);
        if before.is_some_and(|before| before != info.state) {
            let text = match &info.error {
                Some(error) => format!("is {}: {error}", info.state),
                None => format!("is {}", info.state),
            };
            let name = node.to_string();
            notes.add(match info.state {
                NodeState::Error => Note::warning(NoteKind::Node, name, text),
                _ => Note::plain(NoteKind::Node, name, text),
            });
        }
        record.info = Some(info);
        self.nodes.touch(&node, &mut self.revision);
    }

    /// A node is connected, or says anew what it has.
    pub(crate) fn node_connected(&mut self, info: SmInfo, now: SystemTime, notes: &mut Notes) {
        let node = info.node_id.clone();
        let record = self.node_record(&node);
        if record.connected && record.sm.as_ref() == Some(&info) {
            return;
        }
        if !record.connected {
            notes.add(Note::plain(
                NoteKind::Node,
                node.to_string(),
                "is connected",
            ));
        }
        record.sm = Some(info);
        let was_connected = std::mem::replace(&mut record.connected, true);
        self.tally.connected += usize::from(!was_connected);
        self.nodes.touch(&node, &mut self.revision);
        self.look_again(&node, now, notes);
    }

    /// A node is gone; it may come back.
    pub(crate) fn node_disconnected(&mut self, node: &NodeId, now: SystemTime, notes: &mut Notes) {
        let Some(record) = self.nodes.get_mut(node).filter(|it| it.connected) else {
            return;
        };
        record.connected = false;
        self.tally.connected -= 1;
        notes.add(Note::warning(
            NoteKind::Node,
            node.to_string(),
            "is not connected any more",
        ));
        self.nodes.touch(node, &mut self.revision);
        self.usage.remove(node, &mut self.revision);
        self.look_again(node, now, notes);
    }

    /// A node is no part of the Unit any more.
    pub(crate) fn node_removed(&mut self, node: &NodeId, now: SystemTime, notes: &mut Notes) {
        self.node_disconnected(node, now, notes);
        for ident in self.told.get(node).cloned().unwrap_or_default() {
            self.untell(node, &ident, now, notes);
        }
        self.set_networks(node, &[]);
        if self.nodes.remove(node, &mut self.revision).is_some() {
            notes.add(Note::plain(
                NoteKind::Node,
                node.to_string(),
                "is no part of the Unit any more",
            ));
            self.look_again(node, now, notes);
        }
    }

    pub(crate) fn node_config(
        &mut self,
        node: &NodeId,
        config: NodeConfigFacts,
        notes: &mut Notes,
    ) {
        let record = self.node_record(node);
        if record.config == config {
            return;
        }
        // The first is what it has had all along.
        let is_first = record.config.version.is_empty();
        if !is_first && record.config.version != config.version {
            let text = format!("node {node} has configuration {}", config.version);
            notes.add(Note::plain(NoteKind::Config, node.to_string(), text));
        }
        record.config = config;
        self.nodes.touch(node, &mut self.revision);
    }

    fn node_record(&mut self, node: &NodeId) -> &mut NodeRecord {
        self.nodes
            .get_or_insert(node, &mut self.revision, NodeRecord::default)
    }

    /// Instances of a node show whether it is connected, and names that it gave.
    fn look_again(&mut self, node: &NodeId, now: SystemTime, notes: &mut Notes) {
        for ident in self.placed.get(node).cloned().unwrap_or_default() {
            self.change_instance(&ident, now, notes, |record| {
                record.usage = None;
                true
            });
        }
    }
}
