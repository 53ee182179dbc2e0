//! Nodes: who is here, who is paused, and who has got what it shall run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosError, InstanceIdent, InstanceInfo, InstanceStatus, NodeId};
use muster_balance::{Reason, Standing};

use super::Machine;
use super::saved::Assigned;
use super::vocabulary::{Action, Change, UpdateStep};
use super::waiting::{self, Absence};
use crate::seams::NodeShare;

/// Whether a node is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// Not connected, but it may be restarting.
    Down {
        since: Duration,
    },
    Lost,
}

/// Whether a node has got its share of the assignment in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Not yet.
    Due,
    /// It did not take it, and is asked again.
    Refused {
        why: AosError,
        again: Duration,
    },
    Taken,
}

/// What is known of an instance by its node.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) status: InstanceStatus,
    /// It was said before the node could know what is wanted now.
    pub(super) is_stale: bool,
}

#[derive(Debug)]
pub(super) struct NodeView {
    pub(super) link: Link,
    pub(super) paused: bool,
    pub(super) delivery: Delivery,
    /// Changes whenever the node becomes due, so that the end of an earlier delivery is not taken for that of the next.
    pub(super) ticket: Ticket,
    pub(super) told: BTreeMap<InstanceIdent, Told>,
    /// When it came.
    came: Duration,
    /// From when its absence counts, or that before.
    pub(super) away_from: Option<Duration>,
    /// It misbehaved since it came, and is kept out.
    is_shut_out: bool,
}

/// Number of something that a node is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ticket(u64);

impl NodeView {
    pub(super) fn new(link: Link, ticket: Ticket) -> Self {
        Self {
            link,
            paused: false,
            delivery: Delivery::Due,
            ticket,
            told: BTreeMap::new(),
            came: Duration::ZERO,
            away_from: None,
            is_shut_out: false,
        }
    }

    /// One that was here before this process, and is away since its start.
    pub(super) fn recalled(now: Duration) -> Self {
        Self {
            away_from: Some(now),
            ..Self::new(Link::Down { since: now }, Ticket::default())
        }
    }

    /// As an update that would wait for it sees it; `None` if it is here, or lost.
    pub(super) fn absence(&self) -> Option<Absence> {
        match (self.link, self.away_from) {
            (Link::Down { .. }, Some(from)) => Some(Absence {
                from,
                is_shut_out: self.is_shut_out,
            }),
            _ => None,
        }
    }
}

impl Machine {
    /// Whether the node keeps what it runs and gets nothing new.
    pub(super) fn is_paused(&self, node: &NodeId) -> bool {
        let current = self.current.as_ref();
        let wanted = current.and_then(|it| it.version.desired.pauses(node));
        wanted == Some(true) || self.nodes.get(node).is_some_and(|it| it.paused)
    }

    pub(super) fn standings(&self) -> BTreeMap<NodeId, Standing> {
        let standing = |(node, view): (&NodeId, &NodeView)| {
            let standing = match view.link {
                _ if self.is_paused(node) => Standing::Paused,
                Link::Up => Standing::Ready,
                Link::Down { .. } => Standing::Away,
                Link::Lost => Standing::Offline,
            };
            (node.clone(), standing)
        };
        self.nodes.iter().map(standing).collect()
    }

    fn share(&self, node: &NodeId) -> Option<&NodeShare> {
        let assigned = self.assigned.as_ref()?;
        assigned.assignment.nodes.get(node)
    }

    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    pub(super) fn node_up(&mut self, node: NodeId, paused: bool, now: Duration) {
        let mut view = NodeView::new(Link::Up, self.next_ticket());
        view.paused = paused;
        view.came = now;
        if let Some(before) = self.nodes.remove(&node) {
            view.away_from = before.away_from;
            match before.link {
                Link::Up => {
                    // It only says anew what it has; what it said about instances holds.
                    view.came = before.came;
                    view.told = before.told;
                }
                Link::Down { since } => {
                    self.books.down.remove(&(since, node.clone()));
                    self.books.is_not_absent(&before, &node);
                }
                Link::Lost => {}
            }
        }
        self.books.touch(&node);
        self.nodes.insert(node, view);
        // Whoever has a place stays there: a node that comes matters only to those who have none.
        let assigned = self.assigned.as_ref();
        let current = self.current.as_ref();
        if assigned.is_some_and(|it| !it.assignment.unplaced.is_empty())
            || current.is_some_and(|it| it.state.placement.is_some())
        {
            self.replan(Reason::ConfigChange);
        }
    }

    pub(super) fn node_down(&mut self, node: &NodeId, now: Duration) {
        if let Some(view) = self.nodes.get_mut(node)
            && view.link == Link::Up
        {
            view.link = Link::Down { since: now };
            view.told.clear();
            let patience = self.limits.nodes_patience;
            let from = waiting::counts_from(view.away_from, view.came, now, patience);
            view.away_from = Some(from);
            self.books.down.insert((now, node.clone()));
            self.books.absent.insert((from, node.clone()));
            self.books.touch(node);
        }
    }

    /// It is kept out for what it did, whether it was here or not.
    pub(super) fn node_shut_out(&mut self, node: &NodeId) {
        if let Some(view) = self.nodes.get_mut(node) {
            view.is_shut_out = true;
        }
    }

    pub(super) fn node_paused(&mut self, node: &NodeId, paused: bool) {
        let ticket = self.next_ticket();
        if let Some(view) = self.nodes.get_mut(node)
            && view.paused != paused
        {
            view.paused = paused;
            // What was wanted meanwhile has not reached it.
            view.delivery = Delivery::Due;
            view.ticket = ticket;
            self.books.touch(node);
            if !paused {
                self.replan(Reason::ConfigChange);
            }
        }
    }

    pub(super) fn told(&mut self, node: &NodeId, whole: bool, statuses: Vec<InstanceStatus>) {
        let Some(view) = self.nodes.get_mut(node) else {
            return;
        };
        self.books.touch(node);
        if whole {
            view.told.clear();
        }
        view.told.extend(statuses.into_iter().map(|status| {
            let told = Told {
                status,
                is_stale: false,
            };
            (told.status.instance.clone(), told)
        }));
    }

    /// Nodes that are away for too long are lost; whoever had nothing is forgotten.
    pub(super) fn lose_nodes(&mut self, now: Duration) {
        while let Some((since, _)) = self.books.down.first()
            && *since + self.limits.node_loss <= now
            && let Some((_, node)) = self.books.down.pop_first()
        {
            self.books.touch(&node);
            if let Some(view) = self.nodes.get(&node) {
                self.books.is_not_absent(view, &node);
            }
            let has_something = self.share(&node).is_some_and(|it| !it.instances.is_empty());
            if !has_something {
                self.nodes.remove(&node);
                continue;
            }
            if let Some(view) = self.nodes.get_mut(&node) {
                view.link = Link::Lost;
            }
            if !self.is_paused(&node) {
                self.replan(Reason::NodeLost(node));
            }
        }
    }

    /// Whether everybody who is expected is here, or was waited for long enough.
    pub(super) fn nodes_are_here(&self, now: Duration) -> bool {
        let wait = waiting::Wait {
            since: self.waiting_since,
            is_anybody_here: self.nodes.values().any(|it| it.link == Link::Up),
            expected_until: self.expected_until(),
        };
        waiting::is_over(wait, now, self.limits.nodes_patience)
    }

    /// How long somebody who is not here is expected.
    pub(super) fn expected_until(&self) -> Option<Duration> {
        let mut newest_first = self.books.absent.iter().rev();
        newest_first.find_map(|(_, node)| {
            let absence = self.nodes.get(node)?.absence()?;
            let patience = self.limits.nodes_patience;
            waiting::expected_until(absence, self.is_paused(node), patience)
        })
    }

    /// Whether what nodes shall have was placed by the newest update.
    pub(super) fn is_own(&self) -> bool {
        match (&self.current, &self.assigned) {
            (Some(current), Some(assigned)) => current.version.id == assigned.by,
            _ => false,
        }
    }

    /// From now on nodes shall have this.
    pub(super) fn assign(&mut self, assigned: Assigned) {
        let before = self.assigned.take();
        let before = before.as_deref().map(|it| &it.assignment.nodes);
        let ticket = self.next_ticket();
        let nothing = NodeShare::default();
        for (node, view) in &mut self.nodes {
            let old = before.and_then(|it| it.get(node)).unwrap_or(&nothing);
            let new = assigned.assignment.nodes.get(node).unwrap_or(&nothing);
            if old == new {
                // It has what it shall have, or is about to get it.
                continue;
            }
            view.delivery = Delivery::Due;
            view.ticket = ticket;
            let old = by_instance(old);
            for (ident, info) in by_instance(new) {
                if old.get(ident) != Some(&info)
                    && let Some(told) = view.told.get_mut(ident)
                {
                    told.is_stale = true;
                }
            }
        }
        // Whoever is lost and has nothing any more is not expected.
        let nodes = &assigned.assignment.nodes;
        self.nodes
            .retain(|node, view| view.link != Link::Lost || nodes.contains_key(node));
        let assigned = Arc::new(assigned);
        self.turn
            .changes
            .push(Change::Assigned(Arc::clone(&assigned)));
        self.assigned = Some(assigned);
        self.touch_all();
    }

    /// Gives nodes what they have not got, where no other update is at work.
    pub(super) fn send_shares(&mut self, now: Duration) {
        while let Some((again, _)) = self.books.retries.first()
            && *again <= now
            && let Some((_, node)) = self.books.retries.pop_first()
        {
            self.books.due.insert(node);
        }
        let Some(assigned) = self.assigned.clone() else {
            return;
        };
        let is_own = self.is_own();
        let may_send = match self.at() {
            UpdateStep::None | UpdateStep::Downloading => self.acting.asks_nothing(),
            UpdateStep::Pending | UpdateStep::Installing => false,
            UpdateStep::Launching => is_own && self.acting.plan.is_none(),
            UpdateStep::Activating | UpdateStep::Finalizing => is_own,
        };
        if !may_send {
            return;
        }
        while self.acting.sends.len() < self.limits.sends.max(1)
            && let Some(node) = self.books.due.pop_first()
        {
            // Whoever cannot be given anything now is noted again when that changes.
            if self.acting.sends.contains_key(&node) || self.is_paused(&node) {
                continue;
            }
            let Some(view) = self.nodes.get_mut(&node) else {
                continue;
            };
            let is_due = match view.delivery {
                Delivery::Due => true,
                Delivery::Refused { again, .. } => again <= now,
                Delivery::Taken => false,
            };
            if !is_due || view.link != Link::Up {
                continue;
            }
            let share = assigned.assignment.nodes.get(&node);
            let share = share.cloned().unwrap_or_default();
            let stop = prepare(view, &share);
            self.acting.sends.insert(node.clone(), view.ticket);
            self.turn.actions.push(Action::Send {
                update: assigned.by,
                node,
                share,
                stop,
            });
        }
    }

    pub(super) fn sent(&mut self, node: &NodeId, result: Result<(), AosError>, now: Duration) {
        let ticket = self.acting.sends.remove(node);
        self.books.touch(node);
        let Some(view) = self.nodes.get_mut(node) else {
            return;
        };
        // Whoever came back, was paused or got another share meanwhile is due again.
        if ticket != Some(view.ticket) {
            return;
        }
        view.delivery = match result {
            Ok(()) => Delivery::Taken,
            Err(why) => {
                let again = now + self.limits.send_retry;
                self.books.retries.insert((again, node.clone()));
                Delivery::Refused { why, again }
            }
        };
    }

    /// Whether everybody who could be given its share was.
    pub(super) fn shares_are_out(&self) -> bool {
        // What could not be placed is given to nobody.
        !self.is_own() || (self.acting.sends.is_empty() && self.books.due.is_empty())
    }
}

fn by_instance(share: &NodeShare) -> BTreeMap<&InstanceIdent, &InstanceInfo> {
    let infos = share.instances.iter();
    infos.map(|info| (&info.instance, info)).collect()
}

/// What runs on the node and is not wanted there. Statuses of other versions than the wanted ones do not count any more.
fn prepare(view: &mut NodeView, share: &NodeShare) -> Vec<InstanceIdent> {
    let wanted = by_instance(share);
    let mut stop = BTreeSet::new();
    for (ident, told) in &mut view.told {
        match wanted.get(ident) {
            Some(info) if info.version != told.status.version => told.is_stale = true,
            Some(_) => {}
            // What came with the node is not the Unit's to stop.
            None if ident.preinstalled => {}
            None => {
                stop.insert(ident.clone());
            }
        }
    }
    stop.into_iter().collect()
}
