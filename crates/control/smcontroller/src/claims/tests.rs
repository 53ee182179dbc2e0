use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn node(name: &str) -> NodeId {
    name.parse().expect("an id")
}

fn already(name: &str) -> StreamRefused {
    StreamRefused::AlreadyConnected { node: node(name) }
}

fn replaced(name: &str) -> StreamRefused {
    StreamRefused::Replaced { node: node(name) }
}

/// A table of which every step shows its effects.
#[derive(Default)]
struct Table(Claims);

impl Table {
    fn join(&mut self, stream: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.0.join(&node("a"), StreamId(stream), &mut effects);
        effects
    }

    fn pinged(&mut self, stream: u64, answers: bool) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.0
            .pinged(&node("a"), StreamId(stream), answers, &mut effects);
        effects
    }

    fn left(&mut self, stream: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.0.left(&node("a"), StreamId(stream), &mut effects);
        effects
    }
}

#[test]
fn the_first_stream_of_a_node_is_admitted_and_its_end_makes_room() {
    let mut table = Table::default();
    assert_eq!(table.join(1), [Effect::Admit(StreamId(1))]);
    assert_eq!(table.left(1), []);
    assert!(table.0.nodes.is_empty());
    assert_eq!(table.join(2), [Effect::Admit(StreamId(2))]);
}

#[test]
fn a_second_stream_is_refused_when_the_first_answers() {
    let mut table = Table::default();
    table.join(1);
    assert_eq!(table.join(2), [Effect::Ping(StreamId(1))]);
    let refused = Effect::Refuse(StreamId(2), already("a"));
    assert_eq!(table.pinged(1, true), [refused]);
    assert_eq!(table.left(2), [], "the refused one has no say");
    assert_eq!(
        table.join(3),
        [Effect::Ping(StreamId(1))],
        "the first is still the node's"
    );
}

#[test]
fn a_second_stream_takes_over_from_a_silent_one_only_when_that_is_emptied() {
    let mut table = Table::default();
    table.join(1);
    table.join(2);
    let closed = Effect::Close(StreamId(1), replaced("a"));
    assert_eq!(table.pinged(1, false), [closed]);
    assert_eq!(table.left(1), [Effect::Admit(StreamId(2))]);
}

#[test]
fn a_first_stream_that_ends_by_itself_does_not_wait_for_the_ping() {
    let mut table = Table::default();
    table.join(1);
    table.join(2);
    assert_eq!(table.left(1), [Effect::Admit(StreamId(2))]);
    assert_eq!(
        table.pinged(1, true),
        [],
        "the ping is of no interest any more"
    );
    assert_eq!(table.pinged(1, false), []);
}

#[test]
fn the_latest_newcomer_is_the_one_that_waits() {
    let mut table = Table::default();
    table.join(1);
    table.join(2);
    let superseded = |stream| Effect::Refuse(StreamId(stream), replaced("a"));
    assert_eq!(table.join(3), [superseded(2)]);
    table.pinged(1, false);
    assert_eq!(table.join(4), [superseded(3)]);
    assert_eq!(table.left(1), [Effect::Admit(StreamId(4))]);
}

#[test]
fn a_newcomer_that_gives_up_leaves_everything_as_it_was() {
    let mut table = Table::default();
    table.join(1);
    table.join(2);
    assert_eq!(table.left(2), []);
    assert_eq!(
        table.pinged(1, false),
        [],
        "nobody asks for the place any more"
    );
    assert_eq!(table.join(3), [Effect::Ping(StreamId(1))]);
    table.pinged(1, false);
    table.left(3);
    assert_eq!(table.left(1), []);
    assert!(table.0.nodes.is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Join {
        node: usize,
    },
    /// The oldest ping under way is answered, or not.
    Pinged {
        answers: bool,
    },
    /// Some stream that has not left leaves.
    Left {
        pick: prop::sample::Index,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3usize).prop_map(|node| Step::Join { node }),
        2 => any::<bool>().prop_map(|answers| Step::Pinged { answers }),
        2 => any::<prop::sample::Index>().prop_map(|pick| Step::Left { pick }),
    ]
}

/// What the outside knows.
#[derive(Default)]
struct World {
    claims: Claims,
    /// Streams that have not left, with their node.
    streams: BTreeMap<StreamId, NodeId>,
    admitted: BTreeMap<NodeId, StreamId>,
    refused: BTreeSet<StreamId>,
    waiting: BTreeSet<StreamId>,
    closed: BTreeSet<StreamId>,
    pings: Vec<(NodeId, StreamId)>,
    next: u64,
}

impl World {
    fn apply(&mut self, node: &NodeId, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Admit(stream) => {
                    assert!(self.waiting.remove(&stream), "{stream:?} did not wait");
                    let before = self.admitted.insert(node.clone(), stream);
                    assert_eq!(before, None, "two streams of one node");
                }
                Effect::Refuse(stream, _) => {
                    assert!(self.waiting.remove(&stream), "{stream:?} did not wait");
                    self.refused.insert(stream);
                }
                Effect::Ping(stream) => {
                    assert_eq!(self.admitted.get(node), Some(&stream));
                    self.pings.push((node.clone(), stream));
                }
                Effect::Close(stream, _) => {
                    assert_eq!(self.admitted.get(node), Some(&stream));
                    assert!(self.closed.insert(stream), "closed twice");
                }
            }
        }
    }

    fn step(&mut self, step: &Step) {
        let mut effects = Vec::new();
        match step {
            Step::Join { node: name } => {
                let node = node(["a", "b", "c"][*name]);
                let stream = StreamId(self.next);
                self.next += 1;
                self.streams.insert(stream, node.clone());
                self.waiting.insert(stream);
                self.claims.join(&node, stream, &mut effects);
                self.apply(&node, effects);
            }
            Step::Pinged { answers } => {
                if self.pings.is_empty() {
                    return;
                }
                let (node, stream) = self.pings.remove(0);
                self.claims.pinged(&node, stream, *answers, &mut effects);
                self.apply(&node, effects);
            }
            Step::Left { pick } => {
                if self.streams.is_empty() {
                    return;
                }
                let stream = *pick.get(&self.streams.keys().copied().collect::<Vec<_>>());
                self.leave(stream);
            }
        }
    }

    fn leave(&mut self, stream: StreamId) {
        let Some(node) = self.streams.remove(&stream) else {
            return;
        };
        self.waiting.remove(&stream);
        if self.admitted.get(&node) == Some(&stream) {
            self.admitted.remove(&node);
        }
        let mut effects = Vec::new();
        self.claims.left(&node, stream, &mut effects);
        self.apply(&node, effects);
    }

    /// Everybody who waits waits for something that will happen: a ping that is under way, or a closed stream that leaves.
    fn check(&self) {
        for stream in &self.waiting {
            let node = &self.streams[stream];
            let holder = self.admitted.get(node).expect("nobody waits for nothing");
            let will_be_known =
                self.closed.contains(holder) || self.pings.contains(&(node.clone(), *holder));
            assert!(will_be_known, "{stream:?} waits for ever");
        }
    }
}

proptest! {
    #[test]
    fn every_stream_is_decided_about_and_no_node_has_two(steps in prop::collection::vec(step(), 1..200)) {
        let mut world = World::default();
        for step in &steps {
            world.step(step);
            world.check();
        }
        while !world.pings.is_empty() {
            world.step(&Step::Pinged { answers: true });
        }
        while let Some(stream) = world.streams.keys().next().copied() {
            world.leave(stream);
        }
        prop_assert!(world.claims.nodes.is_empty(), "nothing is left behind");
        prop_assert!(world.waiting.is_empty());
    }
}
