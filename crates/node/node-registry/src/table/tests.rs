use super::*;
use crate::samples::{at, id, node};
use NodeState::{Paused, Provisioned, Unprovisioned};

/// A table and what came out of it.
struct Bench {
    table: NodeTable,
    effects: Vec<Effect>,
    millis: u64,
    next: u64,
}

impl Bench {
    fn new() -> Self {
        Self::with(RegistryLimits::default(), Vec::new())
    }

    fn with(limits: RegistryLimits, stored: Vec<NodeInfo>) -> Self {
        let since = at(0).wall;
        let stored = stored.into_iter().map(|info| (info, since));
        Self {
            table: NodeTable::new(limits, node("main", Provisioned), stored),
            effects: Vec::new(),
            millis: 0,
            next: 0,
        }
    }

    fn handle(&mut self, event: Event) -> Vec<Effect> {
        self.table.handle(at(self.millis), event, &mut self.effects);
        std::mem::take(&mut self.effects)
    }

    fn join(&mut self, peer: PeerKind, info: NodeInfo) -> (StreamId, Vec<Effect>) {
        let stream = StreamId(self.next);
        self.next += 1;
        (stream, self.handle(Event::Join { stream, peer, info }))
    }

    fn admitted(&mut self, peer: PeerKind, info: NodeInfo) -> StreamId {
        let node = info.node_id.clone();
        let (stream, effects) = self.join(peer, info);
        assert_eq!(effects, [Effect::Admit { stream, node }]);
        stream
    }

    fn refused(&mut self, peer: PeerKind, info: NodeInfo) -> JoinRefused {
        match self.join(peer, info) {
            (stream, effects) if effects.len() == 1 => match &effects[0] {
                Effect::Close(closed, why) if *closed == stream => why.clone(),
                other => panic!("not refused: {other:?}"),
            },
            (_, effects) => panic!("not refused: {effects:?}"),
        }
    }

    fn record(&self, name: &str) -> NodeRecord {
        self.table.nodes[name].record()
    }

    fn state(&self, name: &str) -> NodeState {
        self.table.nodes[name].info.state
    }

    fn is_connected(&self, name: &str) -> bool {
        self.record(name).connection == Connection::Connected
    }

    /// Stores what is due, and gives what is then shown.
    fn write(&mut self) -> Vec<Publication> {
        let begun = self.table.begin_write(at(self.millis));
        let shown = self.table.end_write(at(self.millis), true);
        assert_eq!(begun.is_some(), !shown.is_empty());
        shown
    }
}

fn certified(node: &str) -> PeerKind {
    let node = muster_tls::NodeId::new(node).unwrap();
    PeerKind::Protected { node }
}

#[test]
fn nodes_join_and_leave_and_stay_known() {
    let mut bench = Bench::new();
    let stream = bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    assert!(bench.is_connected("a"));
    bench.handle(Event::Left { stream });
    let since = at(0).wall;
    assert_eq!(
        bench.record("a").connection,
        Connection::Disconnected { since }
    );
    bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    assert!(bench.is_connected("a"));
}

#[test]
fn what_was_stored_is_known_and_away() {
    let bench = Bench::with(RegistryLimits::default(), vec![node("a", Paused)]);
    assert_eq!(bench.state("a"), Paused);
    assert!(!bench.is_connected("a") && bench.is_connected("main"));
}

#[test]
fn a_second_node_with_the_id_of_one_that_answers_is_refused() {
    let mut bench = Bench::new();
    let present = bench.admitted(certified("a"), node("a", Provisioned));
    let (newcomer, effects) = bench.join(certified("a"), node("a", Provisioned));
    assert_eq!(effects, [Effect::Probe(present)]);
    let third = bench.refused(certified("a"), node("a", Provisioned));
    assert_eq!(third, JoinRefused::AlreadyConnected { node: id("a") });
    let effects = bench.handle(Event::Probed {
        stream: present,
        answers: true,
    });
    let refused = JoinRefused::AlreadyConnected { node: id("a") };
    assert_eq!(effects, [Effect::Close(newcomer, refused)]);
    assert!(bench.is_connected("a"));
    // It may try again.
    let (_, effects) = bench.join(certified("a"), node("a", Provisioned));
    assert_eq!(effects, [Effect::Probe(present)]);
}

#[test]
fn a_stream_that_no_longer_answers_is_replaced() {
    let mut bench = Bench::new();
    let present = bench.admitted(certified("a"), node("a", Provisioned));
    let (newcomer, _) = bench.join(certified("a"), node("a", Paused));
    let effects = bench.handle(Event::Probed {
        stream: present,
        answers: false,
    });
    let node = id("a");
    let expected = [
        Effect::Close(present, JoinRefused::Replaced { node: node.clone() }),
        Effect::Admit {
            stream: newcomer,
            node,
        },
    ];
    assert_eq!(effects, expected);
    assert_eq!(bench.state("a"), Paused);
    // The end of the old stream comes late and is nobody's.
    bench.handle(Event::Left { stream: present });
    assert!(bench.is_connected("a"));
}

#[test]
fn a_contender_takes_over_when_the_present_stream_ends_first() {
    let mut bench = Bench::new();
    let present = bench.admitted(certified("a"), node("a", Provisioned));
    let (newcomer, _) = bench.join(certified("a"), node("a", Provisioned));
    bench.handle(Event::Info {
        stream: newcomer,
        info: node("a", Paused),
    });
    let effects = bench.handle(Event::Left { stream: present });
    let admit = Effect::Admit {
        stream: newcomer,
        node: id("a"),
    };
    assert_eq!(effects, [admit]);
    assert_eq!(bench.state("a"), Paused);
    // The probe's outcome speaks of a stream that is gone.
    let effects = bench.handle(Event::Probed {
        stream: present,
        answers: false,
    });
    assert_eq!(effects, []);
    assert!(bench.is_connected("a"));
}

#[test]
fn a_contender_that_leaves_or_lies_is_no_contender() {
    let mut bench = Bench::new();
    let present = bench.admitted(certified("a"), node("a", Provisioned));
    let (newcomer, _) = bench.join(certified("a"), node("a", Provisioned));
    bench.handle(Event::Left { stream: newcomer });
    let (liar, effects) = bench.join(certified("a"), node("a", Provisioned));
    assert_eq!(effects, [Effect::Probe(present)]);
    let effects = bench.handle(Event::Info {
        stream: liar,
        info: node("b", Provisioned),
    });
    let why = JoinRefused::OtherNode {
        node: id("a"),
        claimed: id("b"),
    };
    assert_eq!(effects, [Effect::Close(liar, why)]);
    bench.handle(Event::Left { stream: present });
    assert!(!bench.is_connected("a"));
}

#[test]
fn a_node_at_work_is_not_asked_and_not_replaced() {
    let mut bench = Bench::new();
    let present = bench.admitted(certified("a"), node("a", Provisioned));
    bench.handle(Event::Began { stream: present });
    let refused = bench.refused(certified("a"), node("a", Provisioned));
    assert_eq!(refused, JoinRefused::AlreadyConnected { node: id("a") });
    bench.handle(Event::Ended {
        node: id("a"),
        stream: present,
        state: None,
    });
    let (_, effects) = bench.join(certified("a"), node("a", Provisioned));
    assert_eq!(effects, [Effect::Probe(present)]);
}

#[test]
fn a_certificate_outweighs_a_word() {
    let mut bench = Bench::new();
    let public = bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    let (protected, effects) = bench.join(certified("a"), node("a", Provisioned));
    let node_id = id("a");
    let expected = [
        Effect::Close(
            public,
            JoinRefused::Replaced {
                node: node_id.clone(),
            },
        ),
        Effect::Admit {
            stream: protected,
            node: node_id,
        },
    ];
    assert_eq!(effects, expected);
}

#[test]
fn who_has_no_certificate_is_nobody_but_an_unprovisioned_node() {
    let stored = vec![node("member", Provisioned), node("resting", Paused)];
    let mut bench = Bench::with(RegistryLimits::default(), stored);
    for state in [Provisioned, Paused, NodeState::Error] {
        let refused = bench.refused(PeerKind::Public, node("new", state));
        let node = id("new");
        assert_eq!(refused, JoinRefused::NeedsCertificate { node, state });
    }
    for (name, known) in [("member", Provisioned), ("resting", Paused)] {
        let refused = bench.refused(PeerKind::Public, node(name, Unprovisioned));
        let node = id(name);
        assert_eq!(refused, JoinRefused::IsMember { node, known });
        assert!(!bench.is_connected(name) && bench.state(name) == known);
    }
    let refused = bench.refused(PeerKind::Public, node("main", Unprovisioned));
    assert_eq!(refused, JoinRefused::IsMainNode { node: id("main") });
    let refused = bench.refused(certified("member"), node("resting", Paused));
    let expected = JoinRefused::OtherCertificate {
        claimed: id("resting"),
        certified: "member".into(),
    };
    assert_eq!(refused, expected);
}

#[test]
fn a_word_makes_nobody_a_member() {
    let mut bench = Bench::new();
    let stream = bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    let effects = bench.handle(Event::Info {
        stream,
        info: node("a", Provisioned),
    });
    let why = JoinRefused::NeedsCertificate {
        node: id("a"),
        state: Provisioned,
    };
    assert_eq!(effects, [Effect::Close(stream, why)]);
    assert_eq!(bench.state("a"), Unprovisioned);
}

#[test]
fn provisioning_moves_a_node_to_the_protected_port_and_deprovisioning_back() {
    let mut bench = Bench::new();
    let public = bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    let moved = |stream, state, port| {
        let node = id("a");
        Effect::Close(stream, JoinRefused::Moved { node, state, port })
    };
    bench.handle(Event::Began { stream: public });
    let effects = bench.handle(Event::Ended {
        node: id("a"),
        stream: public,
        state: Some(Provisioned),
    });
    assert_eq!(effects, [moved(public, Provisioned, "protected")]);
    assert!(!bench.is_connected("a") && bench.state("a") == Provisioned);
    bench.refused(PeerKind::Public, node("a", Unprovisioned));
    let protected = bench.admitted(certified("a"), node("a", Provisioned));
    let effects = bench.handle(Event::Ended {
        node: id("a"),
        stream: protected,
        state: Some(Unprovisioned),
    });
    assert_eq!(effects, [moved(protected, Unprovisioned, "public")]);
    bench.admitted(PeerKind::Public, node("a", Unprovisioned));
}

#[test]
fn an_answer_counts_after_its_stream_has_left_but_not_after_the_next_has_come() {
    let mut bench = Bench::new();
    let first = bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    bench.handle(Event::Left { stream: first });
    let ended = |stream, state| Event::Ended {
        node: id("a"),
        stream,
        state: Some(state),
    };
    bench.handle(ended(first, Provisioned));
    assert_eq!(bench.state("a"), Provisioned);
    bench.admitted(certified("a"), node("a", Provisioned));
    bench.handle(ended(first, Unprovisioned));
    assert_eq!(bench.state("a"), Provisioned);
    assert!(bench.is_connected("a"));
}

#[test]
fn commands_go_where_their_node_is() {
    let mut bench = Bench::with(RegistryLimits::default(), vec![node("away", Provisioned)]);
    let stream = bench.admitted(PeerKind::Public, node("new", Unprovisioned));
    let table = &bench.table;
    let pause = CommandKind::PauseNode;
    for own in ["", "main"] {
        assert_eq!(
            table.route(own, pause),
            Ok(Route::Local { node: id("main") })
        );
    }
    let node = id("new");
    let route = Route::Stream { node, stream };
    assert_eq!(
        table.route("new", CommandKind::StartProvisioning),
        Ok(route)
    );
    let refusals = [
        ("new", "node new is in the wrong state"),
        ("away", "node away is not connected"),
        ("nobody", "there is no node \"nobody\""),
    ];
    for (name, text) in refusals {
        assert_eq!(table.route(name, pause).unwrap_err().to_string(), text);
    }
}

#[test]
fn the_first_change_is_shown_at_once_and_then_the_last_one_per_interval() {
    let mut bench = Bench::new();
    let stream = bench.admitted(certified("a"), node("a", Provisioned));
    assert_eq!(bench.write(), [Publication::Changed(bench.record("a"))]);
    for (millis, state) in [(100, Paused), (200, Provisioned), (300, Paused)] {
        bench.millis = millis;
        let info = node("a", state);
        bench.handle(Event::Info { stream, info });
        assert_eq!(bench.write(), []);
    }
    assert_eq!(bench.table.next_due(), Some(Duration::from_secs(2)));
    bench.millis = 2000;
    assert_eq!(bench.write(), [Publication::Changed(bench.record("a"))]);
    assert_eq!(bench.table.next_due(), None);
    // A flap that is over before it is due is not shown at all.
    bench.millis = 2100;
    bench.handle(Event::Left { stream });
    assert_eq!(bench.table.next_due(), Some(Duration::from_secs(4)));
    bench.admitted(certified("a"), node("a", Paused));
    assert_eq!(bench.table.next_due(), None);
    // After a quiet interval the next change is a first one again.
    bench.millis = 9000;
    let stream = StreamId(bench.next - 1);
    bench.handle(Event::Left { stream });
    assert_eq!(bench.write().len(), 1);
}

#[test]
fn what_a_command_changed_does_not_wait() {
    let mut bench = Bench::new();
    let stream = bench.admitted(certified("a"), node("a", Provisioned));
    bench.write();
    bench.millis = 10;
    bench.handle(Event::Ended {
        node: id("a"),
        stream,
        state: Some(Paused),
    });
    assert!(bench.table.is_due(&id("a"), at(10).now));
    assert_eq!(bench.write(), [Publication::Changed(bench.record("a"))]);
}

/// The node describes its new state before it answers; the answer makes that urgent.
#[test]
fn an_answer_that_comes_second_still_hurries() {
    let mut bench = Bench::new();
    let stream = bench.admitted(certified("a"), node("a", Provisioned));
    bench.write();
    let info = node("a", Paused);
    bench.handle(Event::Info { stream, info });
    assert!(!bench.table.is_due(&id("a"), at(0).now));
    bench.handle(Event::Ended {
        node: id("a"),
        stream,
        state: Some(Paused),
    });
    assert!(bench.table.is_due(&id("a"), at(0).now));
}

#[test]
fn a_certificate_ends_a_quarrel_of_words() {
    let mut bench = Bench::new();
    let first = bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    let (second, effects) = bench.join(PeerKind::Public, node("a", Unprovisioned));
    assert_eq!(effects, [Effect::Probe(first)]);
    let (third, effects) = bench.join(certified("a"), node("a", Provisioned));
    let replaced = JoinRefused::Replaced { node: id("a") };
    let expected = [
        Effect::Close(second, replaced.clone()),
        Effect::Close(first, replaced),
        Effect::Admit {
            stream: third,
            node: id("a"),
        },
    ];
    assert_eq!(effects, expected);
}

#[test]
fn what_changes_during_a_write_is_shown_after_the_interval_or_at_once_if_urgent() {
    let mut bench = Bench::new();
    let stream = bench.admitted(certified("a"), node("a", Provisioned));
    assert!(bench.table.begin_write(at(0)).is_some());
    let mut ill = node("a", Provisioned);
    ill.title = "ill".into();
    bench.handle(Event::Info { stream, info: ill });
    assert_eq!(bench.table.begin_write(at(0)), None, "one write at a time");
    let shown = bench.table.end_write(at(5), true);
    assert!(matches!(&shown[..], [Publication::Changed(record)] if record.info.title.is_empty()));
    assert_eq!(bench.table.next_due(), Some(Duration::from_millis(2005)));
    bench.millis = 5;
    bench.handle(Event::Ended {
        node: id("a"),
        stream,
        state: Some(Paused),
    });
    assert_eq!(bench.write(), [Publication::Changed(bench.record("a"))]);
}

#[test]
fn what_cannot_be_stored_is_held_back_and_tried_again() {
    let mut bench = Bench::with(RegistryLimits::default(), vec![node("old", Provisioned)]);
    bench.table.forget("old").unwrap();
    bench.admitted(certified("a"), node("a", Provisioned));
    let first = bench.table.begin_write(at(0)).unwrap();
    assert_eq!(bench.table.end_write(at(0), false), []);
    // The forgotten one is tried with whatever is stored next, the node when it is due again.
    bench.millis = 1000;
    assert_eq!(bench.table.begin_write(at(1000)).unwrap(), first);
    let expected = [
        Publication::Forgotten(id("old")),
        Publication::Changed(bench.record("a")),
    ];
    assert_eq!(bench.table.end_write(at(1000), true), expected);
}

#[test]
fn the_main_node_is_shown_but_not_stored() {
    let mut bench = Bench::new();
    bench.handle(Event::Local(node("main", Paused)));
    let batch = bench.table.begin_write(at(0)).unwrap();
    assert_eq!((batch.store.len(), batch.local.len()), (0, 1));
    let shown = bench.table.end_write(at(0), true);
    assert_eq!(shown, [Publication::Changed(bench.record("main"))]);
    bench.handle(Event::Local(node("other", Paused)));
    assert_eq!(bench.table.next_due(), None);
}

#[test]
fn forgetting_makes_room_for_another() {
    let mut bench = Bench::with(RegistryLimits::default(), vec![node("a", Provisioned)]);
    bench.refused(PeerKind::Public, node("a", Unprovisioned));
    assert_eq!(bench.table.forget("a"), Ok(()));
    bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    let shown = bench.write();
    let expected = [
        Publication::Forgotten(id("a")),
        Publication::Changed(bench.record("a")),
    ];
    assert_eq!(shown, expected);
    let node = id("a");
    assert_eq!(
        bench.table.forget("a"),
        Err(ForgetError::Connected { node })
    );
    let node = id("main");
    assert_eq!(
        bench.table.forget("main"),
        Err(ForgetError::IsMainNode { node })
    );
    assert!(bench.table.forget("nobody").is_err());
}

#[test]
fn unprovisioned_nodes_that_are_away_are_remembered_up_to_a_number() {
    let limits = RegistryLimits {
        remembered: 2,
        ..RegistryLimits::default()
    };
    let mut bench = Bench::with(limits, vec![node("member", Provisioned)]);
    for (millis, name) in (0..).zip(["a", "b", "c", "d"]) {
        bench.millis = millis;
        let stream = bench.admitted(PeerKind::Public, node(name, Unprovisioned));
        bench.handle(Event::Left { stream });
    }
    let known: Vec<&str> = bench.table.nodes.keys().map(NodeId::as_str).collect();
    assert_eq!(known, ["c", "d", "main", "member"]);
}

#[test]
fn unauthenticated_peers_join_at_a_bounded_rate() {
    let limits = RegistryLimits {
        public_burst: 2,
        public_interval: Duration::from_secs(1),
        ..RegistryLimits::default()
    };
    let mut bench = Bench::with(limits, Vec::new());
    bench.admitted(PeerKind::Public, node("a", Unprovisioned));
    bench.admitted(PeerKind::Public, node("b", Unprovisioned));
    let refused = bench.refused(PeerKind::Public, node("c", Unprovisioned));
    assert_eq!(refused, JoinRefused::TooFast);
    bench.admitted(certified("d"), node("d", Provisioned));
    bench.millis = 1000;
    bench.admitted(PeerKind::Public, node("c", Unprovisioned));
}
