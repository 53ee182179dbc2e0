//! What holds whatever happens, in whatever order.

use std::time::Duration;

use muster_api::domain::InstanceInfo;
use muster_runtime::{Ended, RunState};
use proptest::prelude::*;

use super::super::*;
use super::info;
use super::world::World;

#[derive(Debug, Clone)]
enum Happens {
    /// Version by instance; 0 is "not wanted".
    Wanted(Vec<u8>),
    Ends {
        which: usize,
        fails: bool,
    },
    Crashes(u64),
    EndsForGood(u64),
    Passes(u64),
    Reaches(Reach),
    Dies(Vec<bool>),
    Reboots,
}

const INSTANCES: u64 = 5;
const SET_SIZE: usize = 5;

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        3 => prop::collection::vec(0u8..4, SET_SIZE).prop_map(Happens::Wanted),
        12 => (0usize..8, prop::bool::weighted(0.2)).prop_map(|(which, fails)| Happens::Ends { which, fails }),
        3 => (0..INSTANCES).prop_map(Happens::Crashes),
        1 => (0..INSTANCES).prop_map(Happens::EndsForGood),
        3 => (0u64..40).prop_map(Happens::Passes),
        1 => prop::sample::select(vec![Reach::Nobody, Reach::Controller, Reach::Cloud]).prop_map(Happens::Reaches),
        1 => prop::collection::vec(any::<bool>(), 8).prop_map(Happens::Dies),
        1 => Just(Happens::Reboots),
    ]
}

fn wanted(versions: &[u8]) -> Vec<InstanceInfo> {
    let numbered = versions.iter().zip(0u64..);
    numbered
        .filter(|(version, _)| **version > 0)
        .map(|(version, number)| {
            let mut info = info(number, *version);
            info.priority = number % 3;
            if number < 2 {
                info.storage_path = Some("shared".parse().expect("a path"));
            }
            info
        })
        .collect()
}

fn apply(world: &mut World, it: Happens, goal: &mut Vec<InstanceInfo>) {
    match it {
        Happens::Wanted(versions) => {
            *goal = wanted(&versions);
            world.event(Event::Update(goal.clone().into()));
        }
        Happens::Ends { which, fails } => {
            if !world.actions.is_empty() {
                world.fail_next = fails;
                world.finish(which % world.actions.len());
                world.fail_next = false;
            }
        }
        Happens::Crashes(number) => {
            world.crash(&info(number, 1).instance);
        }
        Happens::EndsForGood(number) => {
            let ident = info(number, 1).instance;
            world.tell(&ident, RunState::Ended(Ended::Exited(1)));
        }
        Happens::Passes(seconds) => world.pass(Duration::from_secs(seconds)),
        Happens::Reaches(reach) => world.event(Event::Reach(reach)),
        Happens::Dies(happened) => {
            let mut happened = happened.into_iter().cycle();
            world.die_with(|_| happened.next().unwrap_or_default());
        }
        Happens::Reboots => {
            world.running.clear();
            world.die();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Once nothing fails any more, what runs is what is wanted (or the version that was gone back to), and nothing else.
    #[test]
    fn in_the_end_the_wanted_set_runs(script in prop::collection::vec(happens(), 1..60)) {
        let mut world = World::with(Limits {
            stops: 1,
            ..Limits::default()
        });
        world.after.insert("item1".into(), vec!["item4".into()]);
        world.after.insert("item4".into(), vec!["item1".into()]);
        let mut goal = Vec::new();
        for it in script {
            apply(&mut world, it, &mut goal);
        }
        for _ in 0..20 {
            world.run_actions();
            world.pass(Duration::from_secs(601));
        }
        world.run_actions();
        let running: Vec<_> = world.running.keys().cloned().collect();
        let mut expected: Vec<_> = goal.iter().map(|it| it.instance.clone()).collect();
        expected.sort();
        prop_assert_eq!(running, expected);
        let statuses = world.statuses();
        prop_assert_eq!(statuses.len(), goal.len());
        for status in statuses {
            let wanted = goal.iter().find(|it| it.instance == status.instance).expect("a goal");
            prop_assert_eq!(status.state, muster_api::domain::InstanceState::Active);
            let gone_back = status.version != wanted.version;
            prop_assert_eq!(gone_back, status.error.is_some());
        }
    }

    /// What runs well and is wanted as it is, is not touched, whoever dies and whatever is wanted of others.
    #[test]
    fn the_healthy_are_left_alone(script in prop::collection::vec(happens(), 1..40)) {
        let mut world = World::new();
        let mut goal = vec![info(9, 1)];
        world.event(Event::Update(goal.clone().into()));
        world.run_actions();
        let before = world.running[&info(9, 1).instance].clone();
        for it in script {
            match it {
                Happens::Reboots => continue,
                Happens::Wanted(versions) => {
                    goal = wanted(&versions);
                    goal.push(info(9, 1));
                    world.event(Event::Update(goal.clone().into()));
                }
                other => apply(&mut world, other, &mut goal),
            }
            prop_assert_eq!(&world.running[&info(9, 1).instance], &before);
        }
    }

    /// A healthy period after the last failure everything has settled, and the controller was told exactly once per set.
    #[test]
    fn every_set_settles(sets in prop::collection::vec(prop::collection::vec(0u8..4, SET_SIZE), 1..10)) {
        let mut world = World::new();
        for versions in sets {
            let told = world.settled.len();
            world.event(Event::Update(wanted(&versions).into()));
            world.run_actions();
            prop_assert_eq!(world.settled.len(), told + 1);
        }
    }
}
