//! Any events in any order, and what must hold after each.

use proptest::prelude::*;

use super::*;
use crate::samples::{at, id, node};

const NAMES: [&str; 4] = ["main", "a", "b", "c"];

/// Streams are named by how long ago they were opened.
#[derive(Clone, Debug)]
enum Step {
    Join {
        public: bool,
        certified: usize,
        claimed: usize,
        state: NodeState,
    },
    Info {
        ago: u64,
        claimed: usize,
        state: NodeState,
    },
    Left {
        ago: u64,
    },
    Probed {
        ago: u64,
        answers: bool,
    },
    Began {
        ago: u64,
    },
    Ended {
        ago: u64,
        name: usize,
        state: Option<NodeState>,
    },
    Local {
        state: NodeState,
    },
    Forget {
        name: usize,
    },
    BeginWrite,
    EndWrite {
        stored: bool,
    },
    Wait {
        millis: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let state = || prop::sample::select(NodeState::ALL);
    let name = || 0..NAMES.len();
    // Mostly the newest streams: those are the ones that are still open.
    let ago = || 0_u64..6;
    let step = prop_oneof![
        4 => (any::<bool>(), name(), name(), state()).prop_map(|(public, certified, claimed, state)| {
            Step::Join { public, certified, claimed, state }
        }),
        // Honest nodes, or hardly anybody would ever be let in.
        4 => (any::<bool>(), 1..NAMES.len()).prop_map(|(public, claimed)| {
            let state = if public { NodeState::Unprovisioned } else { NodeState::Provisioned };
            Step::Join { public, certified: claimed, claimed, state }
        }),
        3 => (ago(), name(), state()).prop_map(|(ago, claimed, state)| Step::Info { ago, claimed, state }),
        3 => ago().prop_map(|ago| Step::Left { ago }),
        2 => (ago(), any::<bool>()).prop_map(|(ago, answers)| Step::Probed { ago, answers }),
        1 => ago().prop_map(|ago| Step::Began { ago }),
        2 => (ago(), name(), prop::option::of(state()))
            .prop_map(|(ago, name, state)| Step::Ended { ago, name, state }),
        1 => state().prop_map(|state| Step::Local { state }),
        1 => name().prop_map(|name| Step::Forget { name }),
        3 => Just(Step::BeginWrite),
        3 => prop::bool::weighted(0.8).prop_map(|stored| Step::EndWrite { stored }),
        3 => (0_u64..3000).prop_map(|millis| Step::Wait { millis }),
    ];
    prop::collection::vec(step, 0..120)
}

struct Model {
    table: NodeTable,
    effects: Vec<Effect>,
    millis: u64,
    opened: u64,
    /// Streams that were closed by the table, or that left.
    closed: BTreeSet<StreamId>,
    /// Probes that were asked for and not answered yet.
    probes: BTreeSet<StreamId>,
    /// What was given to be stored and is not shown yet.
    writing: Option<Batch>,
    /// What observers know, and since when.
    shown: BTreeMap<NodeId, NodeRecord>,
    shown_at: BTreeMap<NodeId, Duration>,
    /// How often a node may still be shown before its interval is over: once for each urgent change.
    urgent: BTreeMap<NodeId, u32>,
}

const LIMITS: fn() -> RegistryLimits = || RegistryLimits {
    public_burst: 8,
    public_interval: Duration::from_millis(50),
    remembered: 1,
    ..RegistryLimits::default()
};

impl Model {
    fn new() -> Self {
        let main = node("main", NodeState::Provisioned);
        let stored = [(node("a", NodeState::Provisioned), at(0).wall)];
        let table = NodeTable::new(LIMITS(), main, stored);
        let shown = table
            .records()
            .map(|record| (record.info.node_id.clone(), record))
            .collect();
        Self {
            table,
            effects: Vec::new(),
            millis: 0,
            opened: 0,
            closed: BTreeSet::new(),
            probes: BTreeSet::new(),
            writing: None,
            shown,
            shown_at: BTreeMap::new(),
            urgent: BTreeMap::new(),
        }
    }

    /// A stream that was never opened is as good as any: nothing of it may count.
    fn stream(&self, ago: u64) -> StreamId {
        StreamId(self.opened.checked_sub(ago + 1).unwrap_or(u64::MAX))
    }

    fn event(&mut self, event: Event) -> Result<(), TestCaseError> {
        self.table.handle(at(self.millis), event, &mut self.effects);
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Admit { stream, .. } => prop_assert!(!self.closed.contains(&stream)),
                Effect::Close(stream, _) => {
                    prop_assert!(self.closed.insert(stream), "{stream:?} was closed twice");
                    self.probes.remove(&stream);
                }
                Effect::Probe(stream) => {
                    prop_assert!(!self.closed.contains(&stream));
                    self.probes.insert(stream);
                }
            }
        }
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Join {
                public,
                certified,
                claimed,
                state,
            } => {
                let stream = StreamId(self.opened);
                self.opened += 1;
                let peer = if public {
                    PeerKind::Public
                } else {
                    let node = muster_tls::NodeId::new(NAMES[certified]).unwrap();
                    PeerKind::Protected { node }
                };
                let members = self.members();
                let info = node(NAMES[claimed], state);
                self.event(Event::Join { stream, peer, info })?;
                if public {
                    prop_assert_eq!(members, self.members(), "a word changed a member");
                }
            }
            Step::Info {
                ago,
                claimed,
                state,
            } => {
                let stream = self.stream(ago);
                let info = node(NAMES[claimed], state);
                self.event(Event::Info { stream, info })?;
            }
            Step::Left { ago } => {
                let stream = self.stream(ago);
                self.closed.insert(stream);
                self.probes.remove(&stream);
                self.event(Event::Left { stream })?;
            }
            Step::Probed { ago, answers } => {
                let stream = self.stream(ago);
                self.probes.remove(&stream);
                self.event(Event::Probed { stream, answers })?;
            }
            Step::Began { ago } => self.event(Event::Began {
                stream: self.stream(ago),
            })?,
            Step::Ended { ago, name, state } => {
                let stream = self.stream(ago);
                *self.urgent.entry(id(NAMES[name])).or_default() += 1;
                self.event(Event::Ended {
                    node: id(NAMES[name]),
                    stream,
                    state,
                })?;
            }
            Step::Local { state } => {
                *self.urgent.entry(id("main")).or_default() += 1;
                self.event(Event::Local(node("main", state)))?;
            }
            // Refusals are tested one by one elsewhere.
            Step::Forget { name } => drop(self.table.forget(NAMES[name])),
            Step::BeginWrite => self.begin_write(),
            Step::EndWrite { stored } => self.end_write(stored)?,
            Step::Wait { millis } => self.millis += millis,
        }
        self.check()
    }

    fn begin_write(&mut self) {
        if let Some(batch) = self.table.begin_write(at(self.millis)) {
            assert!(self.writing.is_none(), "a second write began");
            self.writing = Some(batch);
        }
    }

    fn end_write(&mut self, stored: bool) -> Result<(), TestCaseError> {
        let batch = self.writing.take();
        for publication in self.table.end_write(at(self.millis), stored) {
            let batch = batch.as_ref().expect("shown without having been stored");
            prop_assert!(stored);
            match publication {
                Publication::Changed(record) => {
                    prop_assert!(batch.records().any(|written| *written == record));
                    self.note_shown(record)?;
                }
                Publication::Forgotten(id) => {
                    prop_assert!(batch.forget.contains(&id));
                    self.shown.remove(&id);
                    self.shown_at.remove(&id);
                }
            }
        }
        Ok(())
    }

    fn note_shown(&mut self, record: NodeRecord) -> Result<(), TestCaseError> {
        let id = record.info.node_id.clone();
        let now = at(self.millis).now;
        let last = self.shown_at.insert(id.clone(), now);
        if last.is_some_and(|last| now < last + LIMITS().damping) {
            let left = self.urgent.get_mut(&id).filter(|left| **left > 0);
            prop_assert!(left.is_some(), "{id} shown at {last:?} and {now:?}");
            left.into_iter().for_each(|left| *left -= 1);
        }
        let before = self.shown.insert(id, record.clone());
        prop_assert_ne!(before, Some(record), "nothing new was shown");
        Ok(())
    }

    /// Everything known of nodes that are more than unprovisioned.
    fn members(&self) -> Vec<Arc<NodeInfo>> {
        let infos = self.table.nodes.values().map(|node| &node.info);
        infos
            .filter(|info| info.state != NodeState::Unprovisioned)
            .cloned()
            .collect()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let table = &self.table;
        let mut of_nodes = BTreeMap::new();
        let mut away = 0;
        for (id, node) in &table.nodes {
            prop_assert_eq!(id, &node.info.node_id);
            match &node.link {
                Link::Local => prop_assert_eq!(id, &table.local),
                Link::Away { .. } => {
                    away += usize::from(node.info.state == NodeState::Unprovisioned);
                }
                Link::Joined {
                    claim, contender, ..
                } => {
                    of_nodes.insert(claim.stream, id.clone());
                    if claim.public {
                        prop_assert_eq!(node.info.state, NodeState::Unprovisioned);
                    }
                    if let Some(contender) = contender {
                        of_nodes.insert(contender.claim.stream, id.clone());
                        prop_assert!(self.probes.contains(&claim.stream), "nobody looks at {id}");
                    }
                }
            }
        }
        let streams: BTreeMap<_, _> = table.streams.clone().into_iter().collect();
        prop_assert_eq!(
            of_nodes,
            streams,
            "a stream without a node, or the other way round"
        );
        for stream in table.streams.keys() {
            prop_assert!(!self.closed.contains(stream), "{stream:?} is closed");
        }
        prop_assert!(
            away <= LIMITS().remembered,
            "{away} strangers are remembered"
        );
        let due = table
            .nodes
            .iter()
            .filter_map(|(id, node)| Some((node.outlet.due()?, id.clone())));
        prop_assert_eq!(due.collect::<BTreeSet<_>>(), table.due.clone());
        Ok(())
    }

    /// Lets time pass and writes succeed until nothing is left to do.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.end_write(true)?;
        for _ in 0..20 {
            self.begin_write();
            self.end_write(true)?;
            let Some(due) = self.table.next_due() else {
                break;
            };
            let millis = u64::try_from(due.as_millis()).unwrap() + 1;
            self.millis = self.millis.max(millis);
        }
        prop_assert_eq!(self.table.next_due(), None);
        let current: BTreeMap<NodeId, NodeRecord> = self
            .table
            .records()
            .map(|record| (record.info.node_id.clone(), record))
            .collect();
        prop_assert_eq!(&self.shown, &current, "somebody missed the final state");
        Ok(())
    }
}

proptest! {
    #[test]
    fn whatever_happens(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.step(step)?;
        }
        model.settle()?;
    }
}
