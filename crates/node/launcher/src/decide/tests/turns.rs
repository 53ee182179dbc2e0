//! Who starts before whom, and who has to be gone before.

use std::time::Duration;

use muster_api::domain::{InstanceInfo, NetworkParameters};
use proptest::prelude::*;

use super::super::*;
use super::info;
use super::world::World;

fn with_address(number: u64, network: &str) -> InstanceInfo {
    let mut info = info(number, 1);
    info.network = Some(NetworkParameters {
        network_id: network.parse().unwrap(),
        subnet: "172.30.1.0/24".parse().unwrap(),
        ip: "172.30.1.2".parse().unwrap(),
        dns_servers: Vec::new(),
        rules: Vec::new(),
    });
    info
}

/// The second instance takes the place of the first. Whether it waits until that is gone, also for another launcher.
fn waits(mut world: World, first: InstanceInfo, second: &InstanceInfo) -> bool {
    world.event(Event::Update(vec![first].into()));
    world.run_actions();
    world.event(Event::Update(vec![second.clone()].into()));
    world.finish_fetches();
    let waits = world.pending_starts().is_empty();
    if waits {
        world.die();
        world.finish_fetches();
        assert!(world.pending_starts().is_empty(), "after a restart");
    }
    world.run_actions();
    assert_eq!(world.running.len(), 1);
    assert!(world.running.contains_key(&second.instance));
    waits
}

#[test]
fn a_dependency_whose_download_waits_for_a_place_is_waited_for() {
    let mut world = World::new();
    world.after.insert("item1".into(), vec!["item5".into()]);
    let set: Vec<_> = (1..=5).map(|number| info(number, 1)).collect();
    world.event(Event::Update(set.into()));
    // Three are being fetched, the fifth is not among them. Then the first is there.
    assert_eq!(world.actions.len(), 3);
    world.finish(0);
    assert!(world.pending_starts().is_empty(), "it waits for the fifth");
    // Not for ever: a download may hang.
    world.pass(Duration::from_secs(4));
    assert!(world.pending_starts().is_empty());
    world.pass(Duration::from_secs(1));
    assert_eq!(world.pending_starts(), [info(1, 1).instance]);
    world.run_actions();
    assert_eq!(world.running.len(), 5);
}

#[test]
fn who_waited_for_a_place_holds_nobody_up_for_longer_than_who_had_one() {
    let mut world = World::new();
    world.after.insert("item1".into(), vec!["item4".into()]);
    let set: Vec<_> = (1..=4).map(|number| info(number, 1)).collect();
    world.event(Event::Update(set.into()));
    world.pass(Duration::from_secs(4));
    // The fourth gets the first's place, and has waited long enough a second later.
    world.finish(0);
    assert!(world.pending_starts().is_empty());
    world.pass(Duration::from_secs(1));
    assert_eq!(world.pending_starts(), [info(1, 1).instance]);
}

#[test]
fn who_needs_what_few_may_have_waits_until_the_other_is_gone() {
    let camera = || {
        let mut world = World::new();
        for item in ["item1", "item2"] {
            world.scarce.insert(item.into(), vec!["camera".into()]);
        }
        world
    };
    assert!(waits(camera(), info(1, 1), &info(2, 1)));
    assert!(!waits(camera(), info(1, 1), &info(3, 1)), "it needs none");
}

#[test]
fn who_gets_an_address_waits_until_the_other_is_gone() {
    let first = with_address(1, "net");
    assert!(waits(World::new(), first.clone(), &with_address(2, "net")));
    let elsewhere = with_address(2, "other");
    assert!(!waits(World::new(), first, &elsewhere));
}

#[test]
fn what_something_urgent_depends_on_is_as_urgent() {
    let mut world = World::new();
    // 1 waits for 2, which waits for 3; 4 is in between.
    world.after.insert("item1".into(), vec!["item2".into()]);
    world.after.insert("item2".into(), vec!["item3".into()]);
    let with_priority = |number, priority| {
        let mut info = info(number, 1);
        info.priority = priority;
        info
    };
    let set = [(1, 10), (2, 0), (3, 0), (4, 5)];
    let set = set.map(|(number, priority)| with_priority(number, priority));
    world.event(Event::Update(set.to_vec().into()));
    world.finish_fetches();
    for number in [3, 2, 1, 4] {
        assert_eq!(world.pending_starts(), [info(number, 1).instance]);
        world.finish(0);
    }
    assert_eq!(world.running.len(), 4);
}

#[test]
fn only_so_many_are_stopped_at_a_time_and_those_that_are_replaced_first() {
    let mut world = World::new();
    let set: Vec<_> = (0..40).map(|number| info(number, 1)).collect();
    world.event(Event::Update(set.into()));
    world.run_actions();
    // The last one is replaced, all others go.
    world.event(Event::Update(vec![info(39, 2)].into()));
    assert_eq!(world.actions.len(), 1 + 32, "a download and stops");
    world.finish_fetches();
    assert_eq!(world.actions.len(), 32);
    world.finish(0);
    let last = world.pending_stops().into_iter().next_back();
    assert_eq!(last, Some(info(39, 1).instance));
    assert_eq!(world.actions.len(), 32);
    world.run_actions();
    assert_eq!(world.running_versions(), ["item39 2.0.0"]);
}

fn limited(stops: usize) -> Limits {
    Limits {
        stops,
        ..Limits::default()
    }
}

#[test]
fn who_has_what_somebody_waits_for_is_stopped_first() {
    let mut storage = info(7, 1);
    storage.storage_path = Some("shared".parse().unwrap());
    let mut heir = info(20, 1);
    heir.storage_path.clone_from(&storage.storage_path);
    let cases = [
        (storage, heir, false),
        (with_address(7, "net"), with_address(20, "net"), false),
        (info(7, 1), info(20, 1), true),
    ];
    for (last, heir, is_scarce) in cases {
        let mut world = World::with(limited(2));
        for item in ["item7", "item20"].into_iter().filter(|_| is_scarce) {
            world.scarce.insert(item.into(), vec!["camera".into()]);
        }
        let before: Vec<_> = (0..7).map(|number| info(number, 1)).collect();
        world.event(Event::Update([before, vec![last.clone()]].concat().into()));
        world.run_actions();
        // Everything goes. Somebody needs what the last one has, and somebody urgent needs nothing of the kind.
        let mut urgent = info(21, 1);
        urgent.priority = 9;
        world.event(Event::Update(vec![heir, urgent].into()));
        world.finish_fetches();
        assert_eq!(world.pending_stops().len(), 2);
        let is_other = |it: &Effect| matches!(it, Effect::Stop { target, .. } if *target.ident() != last.instance);
        let other = world.actions.iter().position(is_other);
        world.finish(other.expect("a stop is under way"));
        let stopping = world.pending_stops();
        assert!(stopping.contains(&last.instance), "{stopping:?}");
        world.run_actions();
        assert_eq!(world.running.len(), 2);
    }
}

#[test]
fn programs_that_do_not_want_to_end_do_not_keep_others_from_being_asked() {
    let mut world = World::with(limited(2));
    let set: Vec<_> = (0..10).map(|number| info(number, 1)).collect();
    world.event(Event::Update(set.into()));
    world.run_actions();
    world.event(Event::Update(DesiredSet::default()));
    for asked in [2, 4, 6, 8, 10] {
        assert_eq!(world.pending_stops().len(), asked, "two at a time");
        world.pass(Duration::from_millis(499));
        assert_eq!(world.pending_stops().len(), asked, "they may be at work");
        world.pass(Duration::from_millis(1));
    }
    world.run_actions();
    assert!(world.running.is_empty());
}

#[test]
fn after_a_reboot_whoever_waits_to_be_cleared_away_is_waited_for() {
    let mut world = World::with(limited(1));
    // The most urgent one depends on the one whose turn would be the last.
    world.after.insert("item4".into(), vec!["item5".into()]);
    let mut set: Vec<_> = (0..6).map(|number| info(number, 1)).collect();
    set[4].priority = 9;
    world.event(Event::Update(set.into()));
    world.run_actions();
    world.running.clear();
    world.die();
    world.finish_fetches();
    let waiting = world.last_status(&info(5, 1).instance);
    assert_eq!(
        (waiting.state, waiting.error),
        (muster_api::domain::InstanceState::Activating, None)
    );
    // The urgent one comes first, and then what it turned out to depend on.
    assert_eq!(world.pending_stops(), [info(4, 1).instance]);
    world.finish(0);
    assert_eq!(world.pending_stops(), [info(5, 1).instance]);
    assert!(world.pending_starts().is_empty());
    world.finish(0);
    assert_eq!(world.pending_starts(), [info(5, 1).instance]);
    world.run_actions();
    assert_eq!(world.running.len(), 6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// After a reboot nobody starts before those that it depends on run again, in whatever order things are done, and however few
    /// may be cleared away at a time.
    #[test]
    fn after_a_reboot_dependencies_start_first_however_few_are_cleared_away_at_a_time(
        stops in 1usize..5,
        needs in prop::collection::vec(prop::collection::vec(0usize..10, 0..3), 10),
        order in prop::collection::vec(0usize..16, 64),
    ) {
        let mut world = World::with(limited(stops));
        for (number, needs) in needs.iter().enumerate() {
            // Without circles: everybody depends on later ones only.
            let later = needs.iter().filter(|other| **other > number);
            let names = later.map(|other| format!("item{other}"));
            world.after.insert(format!("item{number}"), names.collect());
        }
        let set: Vec<_> = (0..10).map(|number| info(number, 1)).collect();
        world.event(Event::Update(set.into()));
        world.run_actions();
        world.running.clear();
        world.die();
        let mut order = order.into_iter().cycle();
        while !world.actions.is_empty() {
            prop_assert!(world.pending_stops().len() <= stops);
            for ident in world.pending_starts() {
                for needed in &world.after[ident.item_id.as_str()] {
                    let runs = world.running.keys().any(|it| it.item_id.as_str() == needed);
                    prop_assert!(runs, "{ident} starts before {needed}");
                }
            }
            let next = order.next().unwrap_or_default();
            world.finish(next % world.actions.len());
        }
        prop_assert_eq!(world.running.len(), 10);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whoever waits for others starts after them, whatever the priorities; and of two that do not wait for each other, nobody who
    /// is less urgent starts before who is more.
    #[test]
    fn dependencies_start_first_whatever_the_priorities(
        priorities in prop::collection::vec(0u64..4, 8),
        needs in prop::collection::vec(prop::collection::vec(0usize..8, 0..3), 8),
    ) {
        let mut world = World::new();
        // Without circles: everybody depends on later ones only.
        let needs: Vec<Vec<usize>> = needs
            .into_iter()
            .enumerate()
            .map(|(number, needs)| needs.into_iter().filter(|other| *other > number).collect())
            .collect();
        for (number, needs) in needs.iter().enumerate() {
            let names = needs.iter().map(|other| format!("item{other}"));
            world.after.insert(format!("item{number}"), names.collect());
        }
        let mut urgency = priorities.clone();
        for number in 0..8 {
            for other in &needs[number] {
                urgency[*other] = urgency[*other].max(urgency[number]);
            }
        }
        let set = priorities.iter().zip(0u64..).map(|(priority, number)| {
            let mut info = info(number, 1);
            info.priority = *priority;
            info
        });
        world.event(Event::Update(set.collect::<Vec<_>>().into()));
        world.finish_fetches();
        let mut order = Vec::new();
        while let [Effect::Start { target, .. }, ..] = world.actions.as_slice() {
            let name = target.ident().item_id.as_str();
            order.push(name.trim_start_matches("item").parse::<usize>().expect("a number"));
            world.finish(0);
        }
        prop_assert_eq!(order.len(), 8);
        let place = |number: usize| order.iter().position(|it| *it == number);
        for (number, needs) in needs.iter().enumerate() {
            for other in needs {
                prop_assert!(place(*other) < place(number), "{} needs {}: {:?}", number, other, order);
            }
        }
        prop_assert!(order.is_sorted_by_key(|number| std::cmp::Reverse(urgency[*number])), "{order:?}");
    }
}
