//! Facts about instances.

use std::collections::BTreeSet;
use std::time::SystemTime;

use muster_api::domain::{InstanceIdent, InstanceState, InstanceStatus, NodeId, NodeMonitoring};
use muster_desired::seams::NodeShare;

use super::instance::{Given, InstanceRecord, Phase, Told};
use super::{Notes, UnitState, insert, remove};
use crate::facts::{Note, NoteKind};

impl UnitState {
    /// A node says how instances are; all of them if `whole`.
    pub(crate) fn statuses(
        &mut self,
        node: &NodeId,
        whole: bool,
        statuses: Vec<InstanceStatus>,
        now: SystemTime,
        notes: &mut Notes,
    ) {
        let mut silent = match whole {
            true => self.told.get(node).cloned().unwrap_or_default(),
            false => BTreeSet::new(),
        };
        for status in statuses {
            let ident = status.instance.clone();
            silent.remove(&ident);
            insert(&mut self.told, node, &ident);
            let told = Told::new(node, status);
            self.change_instance(&ident, now, notes, |it| it.tell(node, Some(told)));
        }
        for ident in silent {
            self.untell(node, &ident, now, notes);
        }
    }

    /// The node says nothing about the instance any more.
    pub(super) fn untell(
        &mut self,
        node: &NodeId,
        ident: &InstanceIdent,
        now: SystemTime,
        notes: &mut Notes,
    ) {
        remove(&mut self.told, node, ident);
        self.change_instance(ident, now, notes, |it| it.tell(node, None));
    }

    /// From now on the node has exactly this.
    pub(crate) fn share(
        &mut self,
        node: &NodeId,
        share: &NodeShare,
        now: SystemTime,
        notes: &mut Notes,
    ) {
        self.set_networks(node, &share.networks);
        let mut withdrawn = self.placed.get(node).cloned().unwrap_or_default();
        for info in &share.instances {
            withdrawn.remove(&info.instance);
            let given = Given::new(node, info);
            self.change_instance(&info.instance, now, notes, |it| it.give(Some(given)));
        }
        for ident in withdrawn {
            self.change_instance(&ident, now, notes, |it| {
                let is_its = it.given.as_ref().is_some_and(|given| given.node == *node);
                is_its && it.give(None)
            });
        }
    }

    /// What the node and its instances use. Of a node that is not connected it is what once was.
    pub(crate) fn measured(&mut self, node: &NodeId, monitoring: NodeMonitoring) {
        if !self.nodes.get(node).is_some_and(|it| it.connected) {
            return;
        }
        let mut unmeasured = self.placed.get(node).cloned().unwrap_or_default();
        for measured in monitoring.instances {
            if unmeasured.remove(&measured.instance)
                && let Some(record) = self.instances.get_mut(&measured.instance)
            {
                record.usage = Some(Box::new(measured.data));
            }
        }
        for ident in unmeasured {
            self.forget_usage(&ident);
        }
        self.usage.put(node, monitoring.node, &mut self.revision);
    }

    pub(super) fn forget_usage(&mut self, ident: &InstanceIdent) {
        if let Some(record) = self.instances.get_mut(ident) {
            record.usage = None;
        }
    }

    /// Changes an instance and everything that depends on it. `change` says whether there is anything new.
    pub(super) fn change_instance(
        &mut self,
        ident: &InstanceIdent,
        now: SystemTime,
        notes: &mut Notes,
        change: impl FnOnce(&mut InstanceRecord) -> bool,
    ) {
        let known = self.instances.get(ident);
        let before = known.map(|record| record.phase);
        let old_place = known.and_then(|record| record.place().cloned());
        let old_network = known.and_then(|it| it.given_there()?.network.clone());

        let revision = &mut self.revision;
        let record = self
            .instances
            .get_or_insert(ident, revision, || InstanceRecord::new(now));
        let mut changed = change(record);
        let empty = record.is_empty();
        let nodes = &self.nodes;
        let after = record.phase_now(|node| nodes.get(node).is_some_and(|it| it.connected));
        if before != Some(after) {
            record.phase = after;
            record.since = now;
            changed = true;
        }
        let place = record.place().cloned();
        let network = record.given_there().and_then(|given| given.network.clone());
        if place != old_place {
            record.usage = None;
        }
        if let Some(note) = note(ident, record, before, old_place.as_ref()) {
            notes.add(note);
        }

        let after = (!empty).then_some(after);
        if empty {
            self.instances.remove(ident, revision);
        } else if changed {
            self.instances.touch(ident, revision);
        }
        self.count(before, after);
        self.move_instance(ident, old_place.as_ref(), place.as_ref());
        if network != old_network {
            self.attach(old_network.as_ref(), network.as_ref());
        }
    }

    fn count(&mut self, before: Option<Phase>, after: Option<Phase>) {
        let is = |phase: Option<Phase>, state| usize::from(phase == Some(Phase::Told(state)));
        let tally = &mut self.tally;
        tally.active += is(after, InstanceState::Active);
        tally.active -= is(before, InstanceState::Active);
        tally.failed += is(after, InstanceState::Failed);
        tally.failed -= is(before, InstanceState::Failed);
    }

    fn move_instance(&mut self, ident: &InstanceIdent, old: Option<&NodeId>, new: Option<&NodeId>) {
        if old == new {
            return;
        }
        if let Some(node) = old {
            remove(&mut self.placed, node, ident);
            self.nodes.touch(node, &mut self.revision);
        }
        if let Some(node) = new {
            insert(&mut self.placed, node, ident);
            self.nodes.touch(node, &mut self.revision);
        }
    }
}

/// What is worth remembering about a change. What is only seen again (after a restart, or when a node comes back) is not.
fn note(
    ident: &InstanceIdent,
    record: &InstanceRecord,
    before: Option<Phase>,
    old_place: Option<&NodeId>,
) -> Option<Note> {
    use InstanceState::{Active, Failed, Inactive};
    let plain = |text: String| Some(Note::plain(NoteKind::Instance, ident.to_string(), text));
    let warning = |text: String| Some(Note::warning(NoteKind::Instance, ident.to_string(), text));
    let why = || match record.error() {
        Some(error) => format!(": {error}"),
        None => String::new(),
    };
    let place = record.place();
    if record.is_empty() {
        return plain(match old_place {
            Some(node) => format!("is gone from {node}"),
            None => "is not wanted any more".to_owned(),
        });
    }
    if let (Some(old), Some(new)) = (old_place, place)
        && old != new
    {
        return plain(format!("moves from {old} to {new}"));
    }
    if before == Some(record.phase) {
        return None;
    }
    let node = place.map_or("", |node| node.as_str());
    match (before, record.phase) {
        (_, Phase::Unplaced) => warning(format!("has no place{}", why())),
        (Some(Phase::Away), _) => None,
        (_, Phase::Told(Failed)) => warning(format!("failed on {node}{}", why())),
        (Some(_), Phase::Told(Active)) => {
            plain(format!("is active on {node}, version {}", record.version()))
        }
        (Some(Phase::Told(Active)), Phase::Told(Inactive)) => {
            plain(format!("is not active any more on {node}{}", why()))
        }
        _ => None,
    }
}
