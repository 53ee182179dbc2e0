//! What waits for something around it that is not there yet.

use std::time::Duration;

use muster_api::domain::{EnvVar, InstanceInfo, InstanceState};

use super::super::*;
use super::info;
use super::world::World;

/// With something that its status tells.
fn waiting() -> InstanceInfo {
    let mut waiting = info(1, 1);
    let variable = EnvVar::new("COLOUR".parse().unwrap(), "red".into());
    waiting.env_vars = vec![variable.unwrap()];
    waiting
}

/// One that has looked once, in vain.
fn world() -> World {
    let mut world = World::new();
    world.event(Event::Update(vec![waiting()].into()));
    world.not_yet = Some(waiting().instance);
    world.run_actions();
    world
}

/// Nothing is tried before the time is over, and then it is.
fn looks_after(world: &mut World, seconds: u64) {
    world.pass(Duration::from_secs(seconds) - Duration::from_millis(1));
    assert!(world.pending_starts().is_empty(), "{seconds} s not over");
    world.pass(Duration::from_millis(1));
    assert_eq!(world.pending_starts().len(), 1, "{seconds} s are over");
    world.run_actions();
}

#[test]
fn what_is_not_there_yet_is_looked_for_less_and_less() {
    let mut world = world();
    let status = world.last_status(&waiting().instance);
    assert_eq!(status.state, InstanceState::Activating);
    assert!(status.error.is_some());
    let told = world.reports.len();
    for wait in [2, 4, 8, 16, 32, 60, 60, 60] {
        looks_after(&mut world, wait);
    }
    assert_eq!(world.reports.len(), told, "its status stays as it is");
    world.not_yet = None;
    looks_after(&mut world, 60);
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
}

#[test]
fn what_may_be_there_now_is_looked_for_at_once() {
    let news: [fn() -> Event; 3] = [
        || Event::LookAgain,
        || Event::Reach(Reach::Controller),
        || Event::Update(vec![waiting()].into()),
    ];
    for news in news {
        let mut world = world();
        for wait in [2, 4, 8] {
            looks_after(&mut world, wait);
        }
        let told = world.reports.len();
        world.event(news());
        assert_eq!(world.pending_starts().len(), 1);
        world.run_actions();
        // It was nothing after all.
        for wait in [2, 4, 8] {
            looks_after(&mut world, wait);
        }
        assert_eq!(world.reports.len(), told);
    }
}
