//! A Unit around the machine: a disk, downloads, a balancer and nodes, as good or bad as a test wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use muster_api::domain::{
    AlertRules, AosCode, AosError, Digest, Gid, InstanceIdent, InstanceInfo, InstanceState,
    InstanceStatus, NodeId, Uid,
};
use muster_balance::{Placement, Standing};

use super::super::*;
use crate::document::{
    DesiredStatus, Document, ImageEntry, InstancesEntry, Item, ItemEntry, NodeEntry,
};
use crate::seams::{Assignment, NodeShare, Question};

/// A version that can never be had.
pub(super) const BAD: u8 = 9;

pub(super) fn node(number: u8) -> NodeId {
    NodeId::new(&format!("n{number}")).unwrap()
}

/// Items by number, each with version and count; version 0 is "not wanted". Then nodes that are paused.
pub(super) fn desired(items: &[(u8, u64)], paused: &[u8]) -> Arc<DesiredStatus> {
    let mut document = Document::default();
    for ((version, count), number) in items.iter().zip(0u8..) {
        if *version == 0 {
            continue;
        }
        document.items.push(ItemEntry {
            id: format!("i{number}"),
            version: version.to_string(),
            image: ImageEntry {
                digest: Some(Digest::from_sha256([number * 16 + version; 32]).to_string()),
                ..ImageEntry::default()
            },
            ..ItemEntry::default()
        });
        document.instances.push(InstancesEntry {
            item: format!("i{number}"),
            count: *count,
            ..InstancesEntry::default()
        });
    }
    document.nodes = (paused.iter())
        .map(|number| NodeEntry {
            id: node(*number).to_string(),
            paused: true,
        })
        .collect();
    Arc::new(document.check().unwrap())
}

pub(super) fn wish(desired: Arc<DesiredStatus>) -> Wish {
    Wish {
        desired,
        origin: Origin::Operator,
        name: "test".into(),
        at: UNIX_EPOCH,
        places: Placement::new(),
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct FakeNode {
    pub(super) up: bool,
    pub(super) paused: bool,
    pub(super) running: BTreeMap<InstanceIdent, InstanceInfo>,
    /// Instances do not become active by themselves.
    pub(super) silent: bool,
}

pub(super) struct World {
    pub(super) machine: Machine,
    pub(super) disk: Saved,
    pub(super) limits: Limits,
    pub(super) now: Duration,
    pub(super) actions: Vec<Action>,
    pub(super) nodes: BTreeMap<NodeId, FakeNode>,
    pub(super) items: BTreeSet<Item>,
    pub(super) finished: usize,
    /// Every step that was written down, without repetitions in a row.
    pub(super) steps: Vec<UpdateStep>,
    pub(super) reasons: Vec<muster_balance::Reason>,
}

impl World {
    pub(super) fn new(nodes: u8) -> Self {
        let limits = Limits {
            history: 3,
            sends: 2,
            ..Limits::default()
        };
        let (machine, turn) =
            Machine::recover(limits.clone(), Saved::default(), Duration::ZERO).unwrap();
        let mut world = Self {
            machine,
            disk: Saved::default(),
            limits,
            now: Duration::ZERO,
            actions: Vec::new(),
            nodes: BTreeMap::new(),
            items: BTreeSet::new(),
            finished: 0,
            steps: Vec::new(),
            reasons: Vec::new(),
        };
        world.take(turn);
        for number in 0..nodes {
            world.connect(&node(number));
        }
        world
    }

    pub(super) fn wish(&mut self, desired: Arc<DesiredStatus>) -> Accepted {
        let (accepted, turn) = self.machine.accept(wish(desired), self.now);
        self.take(turn);
        accepted
    }

    pub(super) fn event(&mut self, event: Event) {
        let turn = self.machine.step(event, self.now);
        self.take(turn);
    }

    fn take(&mut self, turn: Turn) {
        for change in turn.changes {
            if let Change::State(state) = &change
                && self.steps.last() != Some(&state.step)
            {
                self.steps.push(state.step);
            }
            self.disk.apply(change);
        }
        assert_eq!(self.disk, self.machine.saved(), "something is not on disk");
        self.machine.audit();
        // Not after each, so that changes gather.
        if self.steps.len().is_multiple_of(2) {
            assert_eq!(self.machine.snapshot(), self.machine.progress());
        }
        for action in turn.actions {
            match action {
                Action::Cancel(cancelled) => self.actions.retain(
                    |it| !matches!(it, Action::Download { flight, .. } if *flight == cancelled),
                ),
                Action::Finished => self.finished += 1,
                action => {
                    if let Action::Send { node, .. } = &action {
                        assert!(!self.nodes[node].paused, "{node} is paused");
                        let wanted = self.machine.current.as_ref().unwrap();
                        assert_ne!(wanted.version.desired.pauses(node), Some(true));
                    }
                    self.actions.push(action);
                }
            }
        }
        self.check_that_one_update_acts();
    }

    fn check_that_one_update_acts(&self) {
        let mut updates = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        let mut downloads = 0;
        for action in &self.actions {
            let (update, kind) = match action {
                Action::Configure { update, .. } => (*update, "configure".to_owned()),
                Action::Plan(question) => (question.update, "plan".to_owned()),
                Action::Send { update, node, .. } => (*update, format!("send {node}")),
                Action::Retain { update, .. } => (*update, "retain".to_owned()),
                Action::Download { .. } => {
                    downloads += 1;
                    continue;
                }
                Action::Cancel(_) | Action::Finished => continue,
            };
            updates.insert(update);
            assert!(kinds.insert(kind), "twice at once: {:?}", self.actions);
        }
        assert!(updates.len() <= 1, "two updates act: {:?}", self.actions);
        assert!(downloads <= self.limits.downloads);
        let sends = kinds.iter().filter(|it| it.starts_with("send")).count();
        assert!(sends <= self.limits.sends);
    }

    pub(super) fn connect(&mut self, node: &NodeId) {
        let fake = self.nodes.entry(node.clone()).or_default();
        fake.up = true;
        let paused = fake.paused;
        self.event(Event::NodeUp {
            node: node.clone(),
            paused,
        });
        self.tell(node);
    }

    pub(super) fn cut(&mut self, node: &NodeId) {
        let fake = self.nodes.entry(node.clone()).or_default();
        if std::mem::take(&mut fake.up) {
            self.event(Event::NodeDown(node.clone()));
        }
    }

    /// It misbehaves: the controller says so, then that it is gone.
    pub(super) fn shut_out(&mut self, node: &NodeId) {
        self.event(Event::NodeShutOut(node.clone()));
        self.cut(node);
    }

    pub(super) fn pause(&mut self, node: &NodeId, paused: bool) {
        self.nodes.entry(node.clone()).or_default().paused = paused;
        self.event(Event::NodePaused {
            node: node.clone(),
            paused,
        });
    }

    /// The node tells how all of its instances are.
    pub(super) fn tell(&mut self, node: &NodeId) {
        let fake = &self.nodes[node];
        let state = match fake.silent {
            true => InstanceState::Activating,
            false => InstanceState::Active,
        };
        let statuses = fake.running.values().map(|it| status(it, state)).collect();
        self.event(Event::Instances {
            node: node.clone(),
            whole: true,
            statuses,
        });
    }

    /// Ends an action as it ends in a world without faults; what cannot be had or reached fails.
    pub(super) fn finish(&mut self, which: usize) {
        let action = self.actions.remove(which);
        let event = self.happen(action);
        self.event(event);
    }

    pub(super) fn fail(&mut self, which: usize) {
        let why = || AosError::new(AosCode::Timeout, "no answer");
        let event = match self.actions.remove(which) {
            Action::Download { flight, .. } => Event::Downloaded {
                flight,
                result: Err(why()),
            },
            Action::Configure { .. } => Event::Configured(Err(why())),
            Action::Plan(_) => Event::Planned(Err(why())),
            Action::Send { node, .. } => Event::Sent {
                node,
                result: Err(why()),
            },
            Action::Retain { .. } => Event::Retained,
            Action::Cancel(_) | Action::Finished => return,
        };
        self.event(event);
    }

    /// What an action does to the world, and its answer.
    fn happen(&mut self, action: Action) -> Event {
        match action {
            Action::Download { flight, item, .. } => {
                let is_bad = item.version == BAD.to_string();
                let result = match is_bad {
                    true => Err(AosError::new(AosCode::NotFound, "nobody has it")),
                    false => Ok(()),
                };
                if !is_bad {
                    self.items.insert(item);
                }
                Event::Downloaded { flight, result }
            }
            Action::Configure { desired, .. } => {
                for (node, paused) in desired.nodes() {
                    self.pause(node, *paused);
                }
                Event::Configured(Ok(()))
            }
            Action::Plan(question) => {
                self.reasons.push(question.reason.clone());
                for item in question.items.values() {
                    assert!(self.items.contains(item), "{item:?} is not here");
                }
                Event::Planned(Ok(place(&question)))
            }
            Action::Send { node, share, .. } => {
                let fake = &self.nodes[&node];
                if !fake.up {
                    let why = AosError::new(AosCode::NotFound, "not connected");
                    let result = Err(why);
                    return Event::Sent { node, result };
                }
                let running = share.instances.into_iter();
                let fake = self.nodes.entry(node.clone()).or_default();
                fake.running = running.map(|it| (it.instance.clone(), it)).collect();
                // What it says about them comes after.
                self.event(Event::Sent {
                    node: node.clone(),
                    result: Ok(()),
                });
                self.tell(&node);
                Event::Tick
            }
            Action::Retain { items, .. } => {
                self.items.retain(|it| items.contains(it));
                Event::Retained
            }
            Action::Cancel(_) | Action::Finished => Event::Tick,
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.event(Event::Tick);
    }

    /// The process dies; some of what was under way has happened nevertheless.
    pub(super) fn die(&mut self, mut happened: impl FnMut() -> bool) {
        let under_way = std::mem::take(&mut self.actions);
        for action in under_way {
            match action {
                Action::Download { item, .. } if happened() && item.version != BAD.to_string() => {
                    self.items.insert(item);
                }
                Action::Send { node, share, .. } if happened() && self.nodes[&node].up => {
                    let running = share.instances.into_iter();
                    let fake = self.nodes.entry(node.clone()).or_default();
                    fake.running = running.map(|it| (it.instance.clone(), it)).collect();
                }
                Action::Retain { items, .. } if happened() => {
                    self.items.retain(|it| items.contains(it));
                }
                Action::Configure { desired, .. } if happened() => {
                    for (node, paused) in desired.nodes() {
                        self.nodes.entry(node.clone()).or_default().paused = *paused;
                    }
                }
                _ => {}
            }
        }
        let (machine, turn) =
            Machine::recover(self.limits.clone(), self.disk.clone(), self.now).unwrap();
        self.machine = machine;
        self.take(turn);
        let up: Vec<NodeId> = (self.nodes.iter())
            .filter(|(_, fake)| fake.up)
            .map(|(node, _)| node.clone())
            .collect();
        for node in up {
            self.connect(&node);
        }
    }

    /// Everything that is under way ends, until nothing is.
    pub(super) fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.actions.is_empty() {
                self.finish(0);
            } else if self.machine.at() == UpdateStep::None {
                return;
            } else {
                let deadline = self.machine.deadline();
                let deadline = deadline.expect("it waits for something");
                let rest = deadline.saturating_sub(self.now);
                self.pass(rest);
            }
        }
        panic!("it does not come to its end: {:?}", self.machine.at());
    }

    pub(super) fn advance_to(&mut self, step: UpdateStep) {
        for _ in 0..1000 {
            if self.machine.at() == step {
                return;
            }
            self.finish(0);
        }
        panic!("{step} is not reached");
    }

    /// What runs, with its version.
    pub(super) fn running(&self) -> BTreeMap<String, String> {
        let all = self.nodes.values().flat_map(|it| it.running.values());
        all.map(|it| (it.instance.to_string(), it.version.clone()))
            .collect()
    }
}

pub(super) fn status(info: &InstanceInfo, state: InstanceState) -> InstanceStatus {
    InstanceStatus {
        instance: info.instance.clone(),
        version: info.version.clone(),
        runtime_id: Some(info.runtime_id.clone()),
        manifest_digest: None,
        env_vars: Vec::new(),
        state,
        error: None,
    }
}

/// A simple balancer: what has a place keeps it, the others go round.
fn place(question: &Question) -> Assignment {
    let mut assignment = Assignment::default();
    let ready: Vec<&NodeId> = (question.nodes.iter())
        .filter(|(_, standing)| **standing == Standing::Ready)
        .map(|(node, _)| node)
        .collect();
    let mut next = 0;
    for (key, wanted) in question.desired.instances() {
        let Some(item) = question.items.get(&key.item) else {
            continue;
        };
        for instance in 0..wanted.count {
            let ident = InstanceIdent {
                item_id: key.item.clone(),
                subject_id: key.subject.clone(),
                instance,
                item_type: item.kind,
                preinstalled: false,
            };
            let kept = question.running.get(&ident).map(|it| &it.node);
            let kept = kept.filter(|node| {
                let standing = question.nodes.get(*node);
                standing.is_some_and(|it| *it != Standing::Offline)
            });
            let place = kept.or_else(|| {
                next += 1;
                ready.get((next - 1) % ready.len().max(1)).copied()
            });
            let Some(node) = place else {
                let why = AosError::new(AosCode::NotFound, "no node");
                assignment.unplaced.insert(ident, why);
                continue;
            };
            let share: &mut NodeShare = assignment.nodes.entry(node.clone()).or_default();
            share.instances.push(InstanceInfo {
                instance: ident,
                version: item.version.clone(),
                manifest_digest: Digest::from_sha256([1; 32]),
                owner_id: None,
                runtime_id: "runtime".parse().unwrap(),
                uid: Uid::new(5000).unwrap(),
                gid: Gid::new(5000).unwrap(),
                priority: wanted.priority,
                storage_path: None,
                state_path: None,
                env_vars: Vec::new(),
                network: None,
                alert_rules: AlertRules::default(),
            });
        }
    }
    assignment
}
