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
    let stopped = |it: &Effect| match it {
        Effect::Stop { target, .. } => Some(target.ident().clone()),
        _ => None,
    };
    let last = world.actions.iter().filter_map(stopped).next_back();
    assert_eq!(last, Some(info(39, 1).instance));
    assert_eq!(world.actions.len(), 32);
    world.run_actions();
    assert_eq!(world.running_versions(), ["item39 2.0.0"]);
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
