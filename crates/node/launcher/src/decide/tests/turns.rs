//! Who starts before whom, and who has to be gone before.

use std::time::Duration;

use muster_api::domain::{InstanceInfo, NetworkParameters};

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
