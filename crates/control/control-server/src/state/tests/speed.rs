use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::domain::InstanceState::{Active, Inactive};
use muster_api::domain::{AosCode, AosError, NodeState};
use muster_desired::{InstanceProgress, Progress};

use super::world::{Model, Watcher, ident, node, node_info, progress, share};

/// A debug build takes ten times as long for each.
const NODES: usize = if cfg!(debug_assertions) {
    2_000
} else {
    10_000
};
const PER_NODE: usize = 10;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|it| it.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

/// Thousands of nodes with ten instances each: what it takes to hold them, to list them, and to change one. Bounds are for a
/// debug build on a busy machine.
#[test]
fn a_large_unit_is_no_problem() {
    let before = resident();
    let mut model = Model::new(1024);
    let name = |number: usize| format!("node-{number:05}");
    let of_node = |number: usize| {
        let first = number * PER_NODE;
        (first..first + PER_NODE).map(|number| ident("web", number as u64))
    };
    let began = Instant::now();
    let mut wanted = Vec::with_capacity(NODES * PER_NODE);
    for number in 0..NODES {
        let node = node(&name(number));
        let info = node_info(&name(number), NodeState::Provisioned);
        model.fact(|it, _, notes| it.node_info(info, notes));
        model.connect(&name(number));
        let given: Vec<_> = of_node(number).map(|it| (it, Some("net"))).collect();
        let given = share(&node, &given);
        model.fact(|it, now, notes| it.share(&node, &given, now, notes));
        let told: Vec<_> = of_node(number).map(|it| (it, Active)).collect();
        model.told(&name(number), true, &told);
        wanted.extend(of_node(number).map(|it| (it, Some(node.clone()))));
    }
    let filled = began.elapsed();
    let held = resident().saturating_sub(before) / (NODES * PER_NODE);
    let first = progress(1, true, &wanted);
    let began = Instant::now();
    model.progress(&first);
    let first_progress = began.elapsed();
    assert_eq!(model.state.shown_tally().active, NODES * PER_NODE);

    let mut watcher = Watcher::new(&model);
    let began = Instant::now();
    while !watcher.read(&model, 500) {}
    let watched = began.elapsed();

    // One change, told to one watcher.
    let rounds = 1000_u32;
    let began = Instant::now();
    for round in 0..rounds {
        let state = if round % 2 == 0 { Inactive } else { Active };
        model.told(&name(77), false, &[(ident("web", 770), state)]);
        assert!(watcher.read(&model, 500));
    }
    let one_change = began.elapsed() / rounds;
    let mut one_fails = Progress::clone(&first);
    let failing = InstanceProgress {
        error: Some(AosError::new(AosCode::Failed, "it broke")),
        ..one_fails
            .instances
            .get(&ident("web", 770))
            .expect("one")
            .clone()
    };
    one_fails.instances.insert(ident("web", 770), failing);
    let one_fails = Arc::new(one_fails);
    let began = Instant::now();
    model.progress(&one_fails);
    let one_progress = began.elapsed();
    assert!(watcher.read(&model, 500));
    assert_eq!(watcher.seen, model.listed());

    println!(
        "filled in {filled:?}, {held} bytes per instance with its share of nodes, first progress {first_progress:?}, \
         all watched in {watched:?}, one change {one_change:?}, progress with one change {one_progress:?}"
    );
    assert!(held < 8 * 1024, "{held} bytes per instance");
    assert!(one_change < Duration::from_millis(5), "{one_change:?}");
    assert!(one_progress < Duration::from_millis(50), "{one_progress:?}");
    assert!(watched < Duration::from_secs(60), "{watched:?}");
}
