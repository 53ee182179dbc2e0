//! Items that may run on their own for a while only.

use std::time::Duration;

use muster_api::domain::InstanceState;

use super::super::*;
use super::info;
use super::world::World;

const TTL: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

/// One instance that may be on its own for [`TTL`], and runs.
fn limited(reach: Reach) -> World {
    let mut world = World::new();
    world.offline_ttl = Some(TTL);
    world.event(Event::Reach(reach));
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    assert_eq!(world.running.len(), 1);
    world
}

fn passes(world: &mut World, time: Duration) {
    world.pass(time);
    world.run_actions();
}

#[test]
fn an_item_may_limit_its_time_without_a_controller() {
    let mut world = limited(Reach::Controller);
    world.event(Event::Reach(Reach::Nobody));
    passes(&mut world, Duration::from_secs(200));
    // A restart does not begin to count anew, but for what was not written down yet.
    world.die();
    world.run_actions();
    assert_eq!(world.running.len(), 1);
    for _ in 0..3 {
        passes(&mut world, Duration::from_secs(61));
    }
    assert!(world.running.is_empty());
    let status = world.last_status(&info(1, 1).instance);
    assert_eq!(status.state, InstanceState::Inactive);
    assert!(status.error.is_some());
    world.event(Event::Reach(Reach::Controller));
    world.run_actions();
    assert_eq!(world.running.len(), 1);
}

#[test]
fn its_time_ends_to_the_second() {
    let mut world = limited(Reach::Controller);
    world.event(Event::Reach(Reach::Nobody));
    passes(&mut world, TTL - SECOND);
    assert_eq!(world.running.len(), 1);
    passes(&mut world, SECOND);
    assert!(world.running.is_empty());
}

#[test]
fn a_set_does_not_bring_anybody_back_and_a_controller_needs_no_set_to_be_there() {
    let mut world = limited(Reach::Nobody);
    // As if the stream had ended right after the set.
    world.event(Event::Update(vec![info(1, 1)].into()));
    passes(&mut world, TTL);
    assert!(world.running.is_empty(), "nobody was ever there");
    // Another launcher, whose controller has nothing new to say.
    let mut world = limited(Reach::Controller);
    world.die();
    world.event(Event::Reach(Reach::Controller));
    passes(&mut world, TTL * 2);
    assert_eq!(world.running.len(), 1, "the controller is there");
}

#[test]
fn where_there_is_a_cloud_time_without_it_counts_also_under_a_controller() {
    let mut world = limited(Reach::Controller);
    passes(&mut world, TTL * 2);
    assert_eq!(world.running.len(), 1, "there is no cloud");
    world.event(Event::Reach(Reach::Cloud));
    passes(&mut world, TTL * 2);
    assert_eq!(world.running.len(), 1, "the cloud is there");
    world.event(Event::Reach(Reach::Controller));
    passes(&mut world, TTL);
    assert!(world.running.is_empty(), "the cloud is away");
    // That there is a cloud is known to the next launcher, too.
    world.event(Event::Reach(Reach::Cloud));
    world.run_actions();
    world.die();
    world.event(Event::Reach(Reach::Controller));
    world.run_actions();
    assert_eq!(world.running.len(), 1);
    passes(&mut world, TTL);
    assert!(world.running.is_empty());
}

#[test]
fn what_runs_has_its_time_though_something_else_is_wanted() {
    let mut world = limited(Reach::Controller);
    world.event(Event::Update(vec![info(1, 2)].into()));
    assert!(matches!(world.actions.as_slice(), [Effect::Fetch(_)]));
    // The link goes before the new version has come.
    world.event(Event::Reach(Reach::Nobody));
    world.pass(TTL - SECOND);
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    world.pass(SECOND);
    assert_eq!(
        world.actions.len(),
        2,
        "it is stopped while the other is fetched"
    );
    world.finish(1);
    assert!(world.running.is_empty());
    world.event(Event::Reach(Reach::Controller));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 2.0.0"]);
}

#[test]
fn what_was_replaced_while_it_started_has_its_time_too() {
    let mut world = World::new();
    world.offline_ttl = Some(TTL);
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.finish_fetches();
    world.event(Event::Update(vec![info(1, 2)].into()));
    let start = |it: &Effect| matches!(it, Effect::Start { .. });
    let start = world
        .actions
        .iter()
        .position(start)
        .expect("it is being started");
    world.finish(start);
    world.pass(TTL);
    let stop = |it: &Effect| matches!(it, Effect::Stop { .. });
    assert!(world.actions.iter().any(stop));
}

#[test]
fn what_runs_has_its_time_though_its_image_is_damaged() {
    let mut world = limited(Reach::Controller);
    world.damaged = true;
    world.die();
    world.fail_next = true;
    world.finish_fetches();
    world.pass(TTL);
    let stop = |it: &Effect| matches!(it, Effect::Stop { .. });
    assert!(world.actions.iter().any(stop));
}
