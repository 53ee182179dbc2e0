//! Failures are counted over the whole life of an instance, whoever counts.

use std::time::Duration;

use muster_api::domain::InstanceState;
use muster_runtime::{Ended, RunPolicy, RunState};

use super::super::*;
use super::info;
use super::world::World;

fn crashes(world: &mut World) {
    world.crash(&info(1, 1).instance);
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

#[test]
fn a_loop_that_is_slower_than_the_health_period_is_given_up_for_longer_and_longer() {
    for period in [11, 60] {
        let mut world = World::new();
        world.event(Event::Update(vec![info(1, 1)].into()));
        world.run_actions();
        for wait in [10, 20, 40, 80, 160, 320, 600, 600] {
            for _ in 0..3 {
                assert_eq!(world.running.len(), 1, "every {period} s, before {wait} s");
                world.pass(Duration::from_secs(period));
                crashes(&mut world);
            }
            let status = world.last_status(&info(1, 1).instance);
            assert_eq!(status.state, InstanceState::Failed);
            world.pass(Duration::from_secs(wait - 1));
            world.run_actions();
            assert!(world.running.is_empty(), "{wait} s have not passed");
            world.pass(Duration::from_secs(1));
            world.run_actions();
        }
        // Ten minutes without an end, and it is as if nothing had been. That is on disk.
        world.pass(Duration::from_secs(600));
        world.die();
        for _ in 0..2 {
            crashes(&mut world);
        }
        assert_eq!(world.running.len(), 1);
        crashes(&mut world);
        world.pass(Duration::from_secs(10));
        world.run_actions();
        assert_eq!(world.running.len(), 1, "the first wait is short again");
    }
}

#[test]
fn what_ran_for_a_health_period_is_good_though_it_ends_later() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(11));
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    for _ in 0..3 {
        world.pass(Duration::from_secs(11));
        crashes(&mut world);
    }
    world.pass(Duration::from_secs(10));
    world.run_actions();
    assert_eq!(
        world.running_versions(),
        ["item1 2.0.0"],
        "it is not gone back from"
    );
}

#[test]
fn ends_are_counted_while_no_launcher_is_there_and_what_runs_is_left_alone() {
    let ident = info(1, 1).instance;
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    crashes(&mut world);
    world.crash_unseen(&ident);
    world.die();
    crashes(&mut world);
    assert!(
        world.running.is_empty(),
        "one, one that nobody saw, and one"
    );
    world.pass(Duration::from_secs(10));
    world.run_actions();
    // However many there were: it runs when it is found, and nobody touches it.
    for _ in 0..9 {
        world.crash_unseen(&ident);
    }
    let stops = world.stops;
    for _ in 0..3 {
        world.die();
        world.run_actions();
        assert_eq!((world.running.len(), world.stops), (1, stops));
    }
    crashes(&mut world);
    assert!(world.running.is_empty());
}

#[test]
fn an_end_that_is_told_twice_is_one() {
    let ident = info(1, 1).instance;
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    for restarts in [1, 1, 2, 2, 2] {
        let last = Ended::Exited(7);
        world.tell(&ident, RunState::Restarting { last, restarts });
        world.tell(&ident, RunState::Running);
    }
    world.run_actions();
    assert_eq!(world.running.len(), 1);
    crashes(&mut world);
    assert_eq!(
        world.running.len(),
        1,
        "the world counts from the beginning"
    );
    // One that nobody told is in the next one's number.
    let last = Ended::Exited(7);
    world.tell(&ident, RunState::Restarting { last, restarts: 4 });
    world.run_actions();
    assert!(world.running.is_empty());
}

#[test]
fn after_its_counter_began_anew_ends_are_counted_from_there() {
    let ident = info(1, 1).instance;
    let mut world = World::new();
    world.policy = Some(RunPolicy {
        start_burst: 6,
        ..Facts::unknown().policy
    });
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    for _ in 0..3 {
        crashes(&mut world);
    }
    // An operator resets it; how often it has ended since is not known to be more than was counted.
    world.reset_counter(&ident);
    world.crash_unseen(&ident);
    world.die();
    for _ in 0..2 {
        crashes(&mut world);
    }
    assert_eq!(world.running.len(), 1, "five were counted");
    crashes(&mut world);
    assert!(world.running.is_empty(), "six are enough");
}

#[test]
fn how_ends_are_counted_is_known_though_the_image_is_damaged() {
    for burst in [1, 5] {
        let mut world = World::new();
        world.policy = Some(RunPolicy {
            start_burst: burst,
            ..Facts::unknown().policy
        });
        world.event(Event::Update(vec![info(1, 1)].into()));
        world.run_actions();
        world.damaged = true;
        world.die();
        let ident = info(1, 1).instance;
        for _ in 1..burst {
            world.crash(&ident);
        }
        assert!(world.pending_stops().is_empty());
        world.crash(&ident);
        assert_eq!(world.pending_stops(), [ident], "{burst} are enough");
    }
}

#[test]
fn the_sleep_of_the_machine_says_nothing_about_a_version() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(11));
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(1));
    world.sleep(Duration::from_secs(3600));
    for _ in 0..3 {
        crashes(&mut world);
    }
    assert_eq!(
        world.running_versions(),
        ["item1 1.0.0"],
        "an hour asleep is no healthy period"
    );
}

#[test]
fn the_sleep_of_the_machine_forgives_nothing_and_shortens_no_wait() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    for _ in 0..2 {
        crashes(&mut world);
    }
    world.sleep(Duration::from_secs(3600));
    crashes(&mut world);
    assert!(world.running.is_empty(), "three are three");
    world.pass(Duration::from_secs(9));
    world.sleep(Duration::from_secs(3600));
    world.run_actions();
    assert!(world.running.is_empty(), "ten seconds awake");
    world.pass(Duration::from_secs(1));
    world.run_actions();
    assert_eq!(world.running.len(), 1);
}
