//! What is to be looked at again, so that an event costs what it touches and not how much there is: a Unit may have thousands
//! of nodes, and every one of them tells something.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::domain::NodeId;

use super::Machine;
use super::nodes::NodeView;

#[derive(Debug, Default)]
pub(super) struct Books {
    /// Everybody who is due a share is among these, or has one under way.
    pub(super) due: BTreeSet<NodeId>,
    /// Who refused its share is due again then.
    pub(super) retries: BTreeSet<(Duration, NodeId)>,
    /// Exactly those that are away and not lost, and since when.
    pub(super) down: BTreeSet<(Duration, NodeId)>,
    /// The same, with the times from when their absence counts.
    pub(super) absent: BTreeSet<(Duration, NodeId)>,
    /// Nodes whose instances are to be counted again.
    recount: BTreeSet<NodeId>,
    /// Nodes whose instances are to be told of again.
    unreported: BTreeSet<NodeId>,
    /// Those of all nodes are.
    all_unreported: bool,
    /// How many instances of a node are not settled; those without any are left out.
    unsettled: BTreeMap<NodeId, usize>,
    total: usize,
}

impl Books {
    pub(super) fn is_not_absent(&mut self, before: &NodeView, node: &NodeId) {
        if let Some(absence) = before.absence() {
            self.absent.remove(&(absence.from, node.clone()));
        }
    }

    pub(super) fn touch(&mut self, node: &NodeId) {
        self.due.insert(node.clone());
        self.recount.insert(node.clone());
        self.unreported.insert(node.clone());
    }

    /// Nodes about whose instances something may have changed; `None` for all of them.
    pub(super) fn take_unreported(&mut self) -> Option<BTreeSet<NodeId>> {
        let nodes = std::mem::take(&mut self.unreported);
        (!std::mem::take(&mut self.all_unreported)).then_some(nodes)
    }
}

impl Machine {
    /// Something that concerns everybody has changed.
    pub(super) fn touch_all(&mut self) {
        self.books.all_unreported = true;
        for node in self.nodes.keys() {
            self.books.touch(node);
        }
        if let Some(assigned) = &self.assigned {
            let nodes = assigned.assignment.nodes.keys();
            self.books.recount.extend(nodes.cloned());
        }
        // Who had something before and has nothing now.
        let counted = self.books.unsettled.keys();
        self.books.recount.extend(counted.cloned());
    }

    /// How many instances are not settled.
    pub(super) fn count_unsettled(&mut self) -> usize {
        for node in std::mem::take(&mut self.books.recount) {
            let count = self.unsettled_of(&node);
            let before = match count {
                0 => self.books.unsettled.remove(&node),
                count => self.books.unsettled.insert(node, count),
            };
            self.books.total = self.books.total - before.unwrap_or_default() + count;
        }
        self.books.total
    }

    fn unsettled_of(&self, node: &NodeId) -> usize {
        let assigned = self.assigned.as_deref();
        let share = assigned.and_then(|it| it.assignment.nodes.get(node));
        let infos = share.into_iter().flat_map(|it| &it.instances);
        infos
            .filter(|info| !self.verdict(node, info).is_settled)
            .count()
    }

    /// Compares the books with what they are about.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        use super::nodes::{Delivery, Link};
        let (mut down, mut absent) = (BTreeSet::new(), BTreeSet::new());
        for (node, view) in &self.nodes {
            absent.extend(view.absence().map(|it| (it.from, node.clone())));
            if let Link::Down { since } = view.link {
                down.insert((since, node.clone()));
            }
            let is_reachable = view.link == Link::Up && !self.is_paused(node);
            if !is_reachable || self.acting.sends.contains_key(node) {
                continue;
            }
            let is_noted = match &view.delivery {
                Delivery::Taken => true,
                Delivery::Due => self.books.due.contains(node),
                Delivery::Refused { again, .. } => {
                    self.books.due.contains(node)
                        || self.books.retries.contains(&(*again, node.clone()))
                }
            };
            assert!(is_noted, "{node} would be forgotten");
        }
        assert_eq!(down, self.books.down);
        assert_eq!(absent, self.books.absent);
        let assigned = self.assigned.iter();
        for node in assigned.flat_map(|it| it.assignment.nodes.keys()) {
            if !self.books.recount.contains(node) {
                let counted = self.books.unsettled.get(node).copied().unwrap_or_default();
                assert_eq!(counted, self.unsettled_of(node), "{node}");
            }
        }
        let total: usize = self.books.unsettled.values().sum();
        assert_eq!(self.books.total, total);
    }
}
