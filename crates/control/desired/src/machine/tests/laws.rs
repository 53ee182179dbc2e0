//! What holds whatever happens, in whatever order. `World` itself checks after every event that one update acts at a time,
//! that everything is on disk, and that paused nodes are sent nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::*;
use super::world::{BAD, World, desired, node};
use crate::database::tests::written_and_read;
use crate::document::DesiredStatus;

const NODES: u8 = 3;

#[derive(Debug, Clone)]
enum Happens {
    Wish(Vec<(u8, u64)>, Vec<u8>),
    Ends(usize),
    Fails(usize),
    Passes(u64),
    Comes(u8),
    Goes(u8),
    IsShutOut(u8),
    Told(u8),
    Replan,
    Dies(Vec<bool>),
}

fn version() -> impl Strategy<Value = u8> {
    prop_oneof![1 => Just(0u8), 6 => 1u8..4, 1 => Just(BAD)]
}

fn happens() -> impl Strategy<Value = Happens> {
    let items = prop::collection::vec((version(), 0u64..3), 4);
    let paused = prop::collection::vec(0..NODES, 0..2);
    prop_oneof![
        3 => (items, paused).prop_map(|(items, paused)| Happens::Wish(items, paused)),
        14 => (0usize..6).prop_map(Happens::Ends),
        2 => (0usize..6).prop_map(Happens::Fails),
        3 => (0u64..700).prop_map(Happens::Passes),
        2 => (0..NODES).prop_map(Happens::Comes),
        2 => (0..NODES).prop_map(Happens::Goes),
        1 => (0..NODES).prop_map(Happens::IsShutOut),
        1 => (0..NODES).prop_map(Happens::Told),
        1 => Just(Happens::Replan),
        2 => prop::collection::vec(any::<bool>(), 6).prop_map(Happens::Dies),
    ]
}

fn apply(world: &mut World, it: &Happens, newest: &mut Option<Arc<DesiredStatus>>) {
    match it {
        Happens::Wish(items, paused) => {
            let wanted = desired(items, paused);
            *newest = Some(Arc::clone(&wanted));
            world.wish(wanted);
        }
        Happens::Ends(which) if !world.actions.is_empty() => {
            world.finish(which % world.actions.len());
        }
        Happens::Fails(which) if !world.actions.is_empty() => {
            world.fail(which % world.actions.len());
        }
        Happens::Ends(_) | Happens::Fails(_) => {}
        Happens::Passes(seconds) => world.pass(Duration::from_secs(*seconds)),
        Happens::Comes(number) => world.connect(&node(*number)),
        Happens::Goes(number) => world.cut(&node(*number)),
        Happens::IsShutOut(number) => world.shut_out(&node(*number)),
        Happens::Told(number) => {
            if world.nodes[&node(*number)].up {
                world.tell(&node(*number));
            }
        }
        Happens::Replan => world.event(Event::Replan(muster_balance::Reason::ConfigChange)),
        Happens::Dies(happened) => {
            let mut happened = happened.iter().cycle();
            world.die(|| happened.next().copied().unwrap_or_default());
        }
    }
}

/// Everybody comes back, and what failed by accident is tried again.
fn calm(world: &mut World, newest: &Arc<DesiredStatus>) {
    world.settle();
    for number in 0..NODES {
        world.connect(&node(number));
    }
    world.settle();
    for number in 0..NODES {
        if newest.pauses(&node(number)) != Some(true) {
            world.pause(&node(number), false);
        }
    }
    world.settle();
    world.wish(Arc::clone(newest));
    world.settle();
}

fn run(script: &[Happens]) -> (World, Option<Arc<DesiredStatus>>) {
    let mut world = World::new(NODES);
    let mut newest = None;
    for it in script {
        apply(&mut world, it, &mut newest);
    }
    (world, newest)
}

/// What an observer sees in the end. Numbers of updates may differ by a try that one of them had to repeat.
fn end(world: &World) -> (BTreeMap<String, String>, Vec<(String, bool)>, UpdateStep) {
    let state = world.disk.state.as_ref();
    let items = state.map(|it| &it.items).into_iter().flatten();
    let items = items.map(|(id, it)| (id.to_string(), it.fetch == Fetch::Ready));
    (world.running(), items.collect(), world.machine.at())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Every wish that is accepted comes to its end if the world answers, and the newest is the one in force.
    #[test]
    fn the_newest_wish_comes_to_its_end(script in prop::collection::vec(happens(), 1..80)) {
        let (mut world, newest) = run(&script);
        world.settle();
        let Some(newest) = newest else { return Ok(()) };
        let progress = world.machine.progress();
        prop_assert!(progress.done);
        let last = world.machine.versions().next_back().unwrap();
        prop_assert_eq!(&last.desired, &newest);
        prop_assert_eq!(progress.update, Some(last.id));
        prop_assert!(world.machine.versions().count() <= world.limits.history + 2);

        calm(&mut world, &newest);
        let progress = world.machine.progress();
        let pauses = newest.nodes().values().any(|paused| *paused);
        for (id, item) in newest.items() {
            let is_bad = item.version == BAD.to_string();
            prop_assert_eq!(progress.items[id].error.is_some(), is_bad);
            if is_bad || pauses {
                continue;
            }
            let key = newest.instances().keys().find(|it| it.item == *id).unwrap();
            for number in 0..newest.instances()[key].count {
                let running = world.running();
                let name = format!("{id}:local:{number}");
                prop_assert_eq!(running.get(&name), Some(&item.version), "{}", name);
            }
        }
        if !pauses {
            for name in world.running().keys() {
                let (item, rest) = name.split_once(':').unwrap();
                let number: u64 = rest.rsplit(':').next().unwrap().parse().unwrap();
                let key = newest.instances().iter().find(|(it, _)| it.item.as_str() == item);
                prop_assert!(key.is_some_and(|(_, it)| number < it.count), "{} is not wanted", name);
            }
        }
    }

    /// After any events, a death changes nothing in the end.
    #[test]
    fn a_death_changes_nothing_in_the_end(
        script in prop::collection::vec(happens(), 1..60),
        happened in prop::collection::vec(any::<bool>(), 6),
    ) {
        let (mut alive, newest) = run(&script);
        let (mut dead, _) = run(&script);
        let mut happened = happened.into_iter().cycle();
        dead.die(|| happened.next().unwrap_or_default());
        let Some(newest) = newest else { return Ok(()) };
        calm(&mut alive, &newest);
        calm(&mut dead, &newest);
        let (mut one, mut other) = (end(&alive), end(&dead));
        if newest.nodes().values().any(|paused| *paused) {
            // What a paused node keeps is a matter of when it was paused.
            one.0.clear();
            other.0.clear();
        }
        prop_assert_eq!(one, other);
    }

    /// The database gives back what was written down.
    #[test]
    fn what_is_on_disk_reads_back(script in prop::collection::vec(happens(), 1..60)) {
        let (world, _) = run(&script);
        prop_assert_eq!(&written_and_read(&world.disk), &world.disk);
    }

    /// While the process dies again and again, the newest wish is never lost.
    #[test]
    fn no_wish_is_lost(script in prop::collection::vec(happens(), 1..60)) {
        let mut world = World::new(NODES);
        let mut newest = None;
        for it in &script {
            apply(&mut world, it, &mut newest);
            let kept = world.disk.versions.values().next_back().map(|it| Arc::clone(&it.desired));
            prop_assert_eq!(&kept, &newest);
        }
    }
}
