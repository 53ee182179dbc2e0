//! Variables that are set over an instance for a while.

use std::time::{Duration, UNIX_EPOCH};

use muster_api::domain::{EnvVar, InstanceFilter, InstanceState};

use super::super::*;
use super::info;
use super::world::World;

#[test]
fn an_override_restarts_what_it_is_for_and_ends_by_itself() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1), info(2, 1)].into()));
    world.run_actions();
    let only_first = InstanceFilter::new(Some("item1".parse().unwrap()), None, None).unwrap();
    let it = EnvOverride {
        filter: only_first,
        variable: EnvVar::new("LEVEL".parse().unwrap(), "debug".into()).unwrap(),
        expires: Some(UNIX_EPOCH + Duration::from_secs(1100)),
    };
    let before = world.starts;
    world.event(Event::Overrides(vec![it]));
    world.run_actions();
    assert_eq!(world.starts, before + 1);
    world.die();
    world.run_actions();
    assert_eq!(world.starts, before + 1, "it outlives the launcher");
    world.pass(Duration::from_secs(101));
    world.run_actions();
    assert_eq!(world.starts, before + 2, "it has expired");
    // The clock is set back to where it was in force.
    world.set_clock_back(Duration::from_secs(101));
    world.die();
    world.run_actions();
    assert_eq!(world.starts, before + 2, "it stays so");
}

/// Set for everybody, until this second of the clock on the wall.
fn level(until: u64) -> EnvOverride {
    EnvOverride {
        filter: InstanceFilter::new(None, None, None).unwrap(),
        variable: EnvVar::new("LEVEL".parse().unwrap(), "debug".into()).unwrap(),
        expires: Some(UNIX_EPOCH + Duration::from_secs(until)),
    }
}

fn crash_until_given_up(world: &mut World) {
    for _ in 0..3 {
        world.crash(&info(1, 1).instance);
    }
    world.run_actions();
}

/// What is set over the one instance that runs.
fn set(world: &World) -> usize {
    world.running[&info(1, 1).instance].0.env_override.len()
}

#[test]
fn an_override_that_is_over_does_not_come_back_with_the_version_before() {
    for is_taken_back in [false, true] {
        let mut world = World::new();
        world.event(Event::Overrides(vec![level(1030)]));
        world.event(Event::Update(vec![info(1, 1)].into()));
        world.run_actions();
        world.pass(Duration::from_secs(11));
        assert_eq!(set(&world), 1, "it is good with it");
        world.event(Event::Update(vec![info(1, 2)].into()));
        world.run_actions();
        match is_taken_back {
            true => world.event(Event::Overrides(Vec::new())),
            false => world.pass(Duration::from_secs(20)),
        }
        world.run_actions();
        assert_eq!(set(&world), 0);
        // It had time to become good, or had not: what failed is another version.
        world.event(Event::Update(vec![info(1, 3)].into()));
        world.run_actions();
        crash_until_given_up(&mut world);
        assert_ne!(world.running_versions(), ["item1 3.0.0"]);
        assert_eq!(set(&world), 0);
        world.die();
        world.run_actions();
        assert_eq!(set(&world), 0);
    }
}

#[test]
fn an_override_in_force_is_set_over_what_is_gone_back_to() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(11));
    world.event(Event::Overrides(vec![level(9000)]));
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    crash_until_given_up(&mut world);
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    assert_eq!(set(&world), 1);
    // And stays so: it is what was good, whatever is set over it.
    let starts = world.starts;
    world.pass(Duration::from_secs(60));
    world.die();
    world.run_actions();
    assert_eq!((world.starts, set(&world)), (starts, 1));
}

#[test]
fn where_only_an_override_is_new_there_is_nothing_to_go_back_to() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(11));
    world.event(Event::Overrides(vec![level(9000)]));
    world.run_actions();
    crash_until_given_up(&mut world);
    assert!(world.running.is_empty(), "it waits");
    let status = world.last_status(&info(1, 1).instance);
    assert_eq!(status.state, InstanceState::Failed);
    let why = status.error.unwrap().message;
    assert!(!why.contains("version"), "{why}");
    world.pass(Duration::from_secs(10));
    world.run_actions();
    assert_eq!(set(&world), 1, "it is tried again as it is wanted");
    crash_until_given_up(&mut world);
    world.event(Event::Overrides(Vec::new()));
    world.run_actions();
    assert_eq!(set(&world), 0, "without it there is a fresh chance");
}
