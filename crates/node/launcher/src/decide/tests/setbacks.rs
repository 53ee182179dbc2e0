//! Failures are counted over the whole life of an instance, whoever counts.

use std::time::Duration;

use muster_api::domain::InstanceState;
use muster_runtime::RunState;

use super::super::*;
use super::world::World;
use super::{crash, info};

fn crashes(world: &mut World) {
    let ident = info(1, 1).instance;
    world.tell(&ident, crash());
    world.tell(&ident, RunState::Running);
    world.run_actions();
}

#[test]
fn ends_are_counted_across_restarts_of_the_launcher() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    for _ in 0..2 {
        crashes(&mut world);
        world.die();
        world.run_actions();
        assert_eq!(world.running.len(), 1);
    }
    crashes(&mut world);
    assert!(world.running.is_empty(), "three times are enough");
}

#[test]
fn a_wait_is_waited_for_by_the_next_launcher_and_grows_on() {
    let mut world = World::new();
    let ident = info(1, 1).instance;
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    for wait in [10, 20, 40] {
        for _ in 0..3 {
            crashes(&mut world);
        }
        assert!(world.running.is_empty());
        world.die();
        world.run_actions();
        assert!(world.running.is_empty(), "it is not tried at once");
        let status = world.last_status(&ident);
        assert_eq!(status.state, InstanceState::Failed);
        assert!(status.error.is_some(), "and still says why");
        world.pass(Duration::from_secs(wait - 1));
        world.run_actions();
        assert!(world.running.is_empty(), "{wait} s have not passed");
        world.pass(Duration::from_secs(1));
        world.run_actions();
        assert_eq!(world.running.len(), 1, "{wait} s have passed");
    }
    // Something else gets a fresh chance.
    for _ in 0..3 {
        crashes(&mut world);
    }
    world.die();
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 2.0.0"]);
}
