use muster_api::domain::InstanceState::{Activating, Active, Failed};
use muster_api::domain::NodeState;

use super::world::{Model, ident, monitoring, node, node_info, progress, share};
use crate::facts::Note;
use crate::state::Cursor;

fn texts(notes: &[Note]) -> Vec<String> {
    let text = |it: &Note| format!("{} {} {}", it.kind, it.name, it.message);
    notes.iter().map(text).collect()
}

#[test]
fn an_instance_from_wish_to_end() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    model.progress(&progress(0, true, &[]));
    model.connect("n1");
    let wanted = [(web.clone(), Some(node("n1")))];
    assert_eq!(
        texts(&model.progress(&progress(1, false, &wanted))),
        ["update 1 begins"]
    );
    assert_eq!(model.instance(&web).state, "waiting");

    let given = share(&node("n1"), &[(web.clone(), Some("net"))]);
    model.fact(|it, now, notes| it.share(&node("n1"), &given, now, notes));
    let shown = model.instance(&web);
    assert_eq!(
        (shown.address.as_str(), shown.network_id.as_str()),
        ("172.17.0.5", "net")
    );
    assert_eq!(
        (shown.priority, shown.runtime_type.as_str()),
        (7, "container")
    );

    assert_eq!(model.told("n1", false, &[(web.clone(), Activating)]), []);
    let notes = model.told("n1", false, &[(web.clone(), Active)]);
    assert_eq!(
        texts(&notes),
        ["instance web:local:0 is active on n1, version 1.0.0"]
    );
    let since = model.instance(&web).since;
    assert_eq!(model.told("n1", false, &[(web.clone(), Active)]), []);
    assert_eq!(
        model.instance(&web).since,
        since,
        "the same again is no change"
    );
    assert_eq!(model.state.shown_tally().active, 1);

    let notes = model.told("n1", false, &[(web.clone(), Failed)]);
    assert_eq!(
        texts(&notes),
        ["instance web:local:0 failed on n1: failed: it crashed"]
    );
    assert!(notes[0].warning);
    assert_eq!(
        (
            model.state.shown_tally().active,
            model.state.shown_tally().failed
        ),
        (0, 1)
    );

    let notes = model.progress(&progress(1, true, &wanted));
    assert_eq!(
        texts(&notes),
        ["update 1 is done", "item web 1.0.0 is there"]
    );
    model.progress(&progress(2, false, &[]));
    assert_eq!(
        model.instance(&web).state,
        "failed",
        "it is there until its node says otherwise"
    );
    let notes = model.told("n1", true, &[]);
    assert_eq!(texts(&notes), ["instance web:local:0 is gone from n1"]);
    assert_eq!(model.state.shown_tally().instances, 0);
}

#[test]
fn a_node_that_goes_takes_its_instances_out_of_sight() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    model.connect("n1");
    model.progress(&progress(1, true, &[(web.clone(), Some(node("n1")))]));
    model.told("n1", true, &[(web.clone(), Active)]);
    let notes = model.fact(|it, now, notes| it.node_disconnected(&node("n1"), now, notes));
    assert_eq!(texts(&notes), ["node n1 is not connected any more"]);
    assert_eq!(model.instance(&web).state, "away");
    assert_eq!(
        model.instance(&web).version,
        "1.0.0",
        "what it said last is not forgotten"
    );
    let notes = model.connect("n1");
    assert_eq!(
        texts(&notes),
        ["node n1 is connected"],
        "nothing happened to the instance"
    );
    assert_eq!(model.instance(&web).state, "active");

    model.fact(|it, now, notes| it.node_removed(&node("n1"), now, notes));
    assert_eq!(model.instance(&web).state, "away");
    assert!(model.state.node(&node("n1")).is_none());
}

#[test]
fn an_instance_that_moves_is_where_it_shall_be() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    model.connect("n1");
    model.connect("n2");
    model.progress(&progress(1, true, &[(web.clone(), Some(node("n1")))]));
    model.told("n1", true, &[(web.clone(), Active)]);
    // The new node may be faster than whoever tells about places.
    model.told("n2", false, &[(web.clone(), Active)]);
    assert_eq!(model.instance(&web).node_id, "n1");
    let notes = model.progress(&progress(1, true, &[(web.clone(), Some(node("n2")))]));
    assert_eq!(texts(&notes), ["instance web:local:0 moves from n1 to n2"]);
    let shown = model.instance(&web);
    assert_eq!(
        (shown.node_id.as_str(), shown.state.as_str()),
        ("n2", "active")
    );
    assert_eq!(
        (
            model.state.instances_of(&node("n1")),
            model.state.instances_of(&node("n2"))
        ),
        (0, 1)
    );
    assert_eq!(
        model.told("n1", true, &[]),
        [],
        "that the old node is rid of it is no news"
    );
}

#[test]
fn what_has_no_place_says_so() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    let notes = model.progress(&progress(1, false, &[(web.clone(), None)]));
    assert_eq!(texts(&notes), ["instance web:local:0 has no place"]);
    assert_eq!(model.instance(&web).state, "unplaced");
    let notes = model.progress(&progress(1, false, &[]));
    assert_eq!(
        texts(&notes),
        ["instance web:local:0 is not wanted any more"]
    );
}

#[test]
fn a_network_lives_as_long_as_a_node_or_an_instance_has_it() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    for name in ["n1", "n2"] {
        let given = share(&node(name), &[(web.clone(), Some("net"))]);
        model.fact(|it, now, notes| it.share(&node(name), &given, now, notes));
    }
    let id = "net".parse().unwrap();
    let network = model.state.network(&id).unwrap();
    assert_eq!(
        (network.nodes.len(), network.instances, network.vlan),
        (2, 1, 5)
    );
    for name in ["n2", "n1"] {
        let nothing = share(&node(name), &[]);
        model.fact(|it, now, notes| it.share(&node(name), &nothing, now, notes));
    }
    assert!(model.state.network(&id).is_none());
}

#[test]
fn a_first_look_after_a_start_is_no_news() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    model.fact(|it, _, notes| it.node_info(node_info("n1", NodeState::Provisioned), notes));
    assert_eq!(
        model.progress(&progress(3, true, &[(web.clone(), Some(node("n1")))])),
        []
    );
    assert_eq!(texts(&model.connect("n1")), ["node n1 is connected"]);
    let paused = node_info("n1", NodeState::Paused);
    let notes = model.fact(|it, _, notes| it.node_info(paused, notes));
    assert_eq!(texts(&notes), ["node n1 is paused"]);
}

#[test]
fn usage_is_told_by_the_node_and_forgotten_with_it() {
    let (mut model, web) = (Model::new(8), ident("web", 0));
    model.connect("n1");
    model.progress(&progress(1, true, &[(web.clone(), Some(node("n1")))]));
    let mut cursor: Cursor = model.state.begin();
    let all = [web.clone(), ident("unknown", 0)];
    model.fact(|it, _, _| it.measured(&node("n1"), monitoring(40, &all)));
    let turn = model.state.usage_turn(&mut cursor, 10).unwrap();
    assert_eq!(
        (turn.snapshot.nodes.len(), turn.snapshot.instances.len()),
        (1, 1)
    );
    assert_eq!(turn.snapshot.nodes[0].usage.as_ref().unwrap().cpu, 40);
    let turn = model.state.usage_turn(&mut cursor, 10).unwrap();
    assert_eq!(turn.snapshot, Default::default(), "told once");
    model.fact(|it, now, notes| it.node_disconnected(&node("n1"), now, notes));
    let turn = model.state.usage_turn(&mut cursor, 10).unwrap();
    assert_eq!(turn.snapshot.nodes_gone, ["n1"]);
    assert_eq!(model.instance(&web).usage, None);
}

#[test]
fn the_main_node_is_shown_when_the_identity_manager_has_said_which_it_is() {
    let mut model = Model::new(8);
    model.connect("n1");
    let before = model.state.revision();
    let say = |model: &mut Model| {
        model.fact(|it, _, _| it.identified("unit-7".to_owned(), node("n1")));
    };
    say(&mut model);
    assert_eq!(model.state.about.system_id, "unit-7");
    assert_eq!(model.state.about.main_node, Some(node("n1")));
    assert_eq!(
        model.state.revision(),
        before + 1,
        "whoever watches is told"
    );
    say(&mut model);
    assert_eq!(
        model.state.revision(),
        before + 1,
        "the same again is no change"
    );
}
