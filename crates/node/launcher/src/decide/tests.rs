//! Single decisions, one by one. The laws that hold for all of them together are in [`laws`].

mod laws;
mod offline;
mod overrides;
mod setbacks;
mod turns;
mod waits;
mod world;

use std::time::Duration;

use muster_api::domain::{
    AlertRules, Digest, EnvVar, Gid, InstanceFilter, InstanceIdent, InstanceInfo, InstanceState,
    ItemType, Uid,
};
use muster_runtime::{Ended, RunState};

use self::world::World;
use super::*;
use crate::target::Refused;

/// The n-th instance, in some version.
pub(crate) fn info(number: u64, version: u8) -> InstanceInfo {
    InstanceInfo {
        instance: InstanceIdent {
            item_id: format!("item{number}").parse().unwrap(),
            subject_id: "subject".parse().unwrap(),
            instance: 0,
            item_type: ItemType::Service,
            preinstalled: false,
        },
        version: format!("{version}.0.0"),
        manifest_digest: Digest::from_sha256([version; 32]),
        owner_id: None,
        runtime_id: "runtime".parse().unwrap(),
        uid: Uid::new(5000).unwrap(),
        gid: Gid::new(5000).unwrap(),
        priority: 0,
        storage_path: None,
        state_path: None,
        env_vars: Vec::new(),
        network: None,
        alert_rules: AlertRules::default(),
    }
}

fn refused(number: u64, version: u8) -> DesiredSet {
    let info = info(number, version);
    DesiredSet {
        instances: Vec::new(),
        refused: vec![Refused {
            instance: info.instance,
            version: info.version,
            fault: failed("it makes no sense"),
        }],
        names_more: false,
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_what_runs_of_it_stays() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.event(Event::Update(refused(1, 2)));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    assert_eq!((world.starts, world.stops), (1, 0));
    let status = &world.settled.last().unwrap()[0];
    assert_eq!(status.state, InstanceState::Failed);
    assert_eq!(status.version, "2.0.0");
    // It is kept alive as it was.
    world.tell(&info(1, 1).instance, RunState::Ended(Ended::Exited(1)));
    world.run_actions();
    world.pass(Duration::from_secs(60));
    world.run_actions();
    assert_eq!((world.starts, world.stops), (2, 1));
    // Even by another launcher.
    world.die();
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    // The wish is mended.
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 2.0.0"]);
    let status = world.last_status(&info(1, 1).instance);
    assert_eq!((status.state, status.error), (InstanceState::Active, None));
}

#[test]
fn nothing_is_stopped_for_a_set_that_names_more_than_can_be_read() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1), info(2, 1)].into()));
    world.run_actions();
    let set = DesiredSet {
        names_more: true,
        ..vec![info(2, 2), info(3, 1)].into()
    };
    world.event(Event::Update(set));
    world.run_actions();
    let all = ["item1 1.0.0", "item2 2.0.0", "item3 1.0.0"];
    assert_eq!(world.running_versions(), all, "what can be read is done");
    assert_eq!(world.settled.last().unwrap().len(), 3, "and all is told");
    world.die();
    world.run_actions();
    assert_eq!(world.running_versions(), all);
    world.event(Event::Update(vec![info(3, 1)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item3 1.0.0"]);
}

#[test]
fn what_never_ran_and_makes_no_sense_is_told_and_forgotten_with_the_set() {
    let mut world = World::new();
    world.event(Event::Update(refused(1, 1)));
    assert_eq!(world.settled.len(), 1);
    assert_eq!(world.settled[0][0].state, InstanceState::Failed);
    assert_eq!(world.statuses().len(), 1);
    world.die();
    assert!(world.statuses().is_empty(), "nothing of it is on disk");
    world.event(Event::Update(refused(1, 1)));
    world.event(Event::Update(DesiredSet::default()));
    assert!(world.statuses().is_empty());
}

#[test]
fn a_start_that_waits_for_something_counts_nothing_and_holds_nobody_up() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(30));
    let mut urgent = info(1, 2);
    urgent.priority = 9;
    world.event(Event::Update(vec![urgent, info(2, 1)].into()));
    // Far more often than the three failures after which a version is given up.
    for _ in 0..20 {
        world.not_yet = Some(info(1, 2).instance);
        world.run_actions();
        let status = world.last_status(&info(1, 2).instance);
        assert_eq!(status.state, InstanceState::Activating);
        assert!(status.error.is_some());
        world.pass(Duration::from_secs(3));
    }
    assert!(world.running.contains_key(&info(2, 1).instance));
    world.not_yet = None;
    world.pass(Duration::from_secs(60));
    world.run_actions();
    let status = world.last_status(&info(1, 2).instance);
    assert_eq!((status.state, status.error), (InstanceState::Active, None));
    assert_eq!(status.version, "2.0.0", "it was not gone back");
}

#[test]
fn a_controller_that_is_back_lets_failed_downloads_begin_at_once() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.fail_next = true;
    world.run_actions();
    assert!(world.running.is_empty());
    world.event(Event::Reach(Reach::Nobody));
    assert!(world.actions.is_empty(), "it waits");
    world.event(Event::Reach(Reach::Controller));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
}

#[test]
fn an_update_starts_everything_and_settles_once() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1), info(2, 1)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0", "item2 1.0.0"]);
    assert_eq!(world.settled.len(), 1);
    assert!(
        world.settled[0]
            .iter()
            .all(|it| it.state == InstanceState::Active && it.error.is_none())
    );
    let seen: Vec<_> = world.states_of(&info(1, 1).instance);
    assert_eq!(seen, [InstanceState::Activating, InstanceState::Active]);
}

#[test]
fn equal_instances_are_left_alone_and_only_changed_ones_are_touched() {
    let mut world = World::new();
    world.event(Event::Update(
        vec![info(1, 1), info(2, 1), info(3, 1)].into(),
    ));
    world.run_actions();
    let touched = world.starts;
    world.event(Event::Update(vec![info(1, 1), info(2, 2)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0", "item2 2.0.0"]);
    assert_eq!(world.starts, touched + 1);
    assert_eq!(world.stops, 2);
    world.event(Event::Update(vec![info(1, 1), info(2, 2)].into()));
    assert!(world.actions.is_empty(), "an equal set changes nothing");
    assert_eq!(world.settled.len(), 3, "but it is answered");
}

#[test]
fn the_old_version_runs_until_the_new_one_is_there() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.event(Event::Update(vec![info(1, 2)].into()));
    assert!(matches!(world.actions.as_slice(), [Effect::Fetch(_)]));
    world.fail_next = true;
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    let status = &world.settled.last().unwrap()[0];
    assert_eq!(status.version, "1.0.0");
    assert!(status.error.is_some(), "it says why it is not newer");
    world.pass(Duration::from_secs(11));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 2.0.0"]);
}

#[test]
fn a_newer_set_does_not_wait_for_a_download_that_hangs() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    assert!(matches!(world.actions.as_slice(), [Effect::Fetch(_)]));
    world.event(Event::Update(vec![info(2, 1)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item2 1.0.0"]);
}

#[test]
fn a_version_that_fails_its_first_health_period_is_gone_back_from() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(11));
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    let ident = info(1, 2).instance;
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
        world.crash(&ident);
    }
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    let last = world.last_status(&ident);
    assert_eq!(last.state, InstanceState::Active);
    assert_eq!(last.version, "1.0.0");
    let why = last.error.unwrap().message;
    assert!(
        why.contains("2.0.0") && why.contains("exit code 7"),
        "{why}"
    );
    // The controller says the same again: it is not tried again.
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    // Nor after a restart.
    world.die();
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
    world.event(Event::Update(vec![info(1, 3)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 3.0.0"]);
}

#[test]
fn a_crash_loop_ends_however_slow_and_is_tried_again_later() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    let ident = info(1, 1).instance;
    for _ in 0..3 {
        assert_eq!(world.running.len(), 1);
        world.pass(Duration::from_secs(9));
        world.crash(&ident);
        world.run_actions();
    }
    assert_eq!(world.last_status(&ident).state, InstanceState::Failed);
    assert!(world.running.is_empty());
    world.pass(Duration::from_secs(9));
    assert!(world.actions.is_empty(), "not yet");
    world.pass(Duration::from_secs(2));
    world.run_actions();
    assert_eq!(world.last_status(&ident).state, InstanceState::Active);
}

#[test]
fn how_an_old_version_ends_does_not_hold_the_new_one_up() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.event(Event::Update(vec![info(1, 2)].into()));
    world.finish_fetches();
    // It is being stopped, and ends, while the launcher dies: the next one finds that it was killed.
    assert!(matches!(world.actions.as_slice(), [Effect::Stop { .. }]));
    world.die();
    world.tell(&info(1, 1).instance, RunState::Ended(Ended::Signalled(9)));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 2.0.0"]);
    assert_eq!(
        world.last_status(&info(1, 2).instance).state,
        InstanceState::Active
    );
}

#[test]
fn higher_priority_runs_before_lower_is_started() {
    let mut world = World::new();
    let mut first = info(1, 1);
    first.priority = 10;
    world.event(Event::Update(vec![info(2, 1), first.clone()].into()));
    world.finish_fetches();
    let starts: Vec<_> = world.pending_starts();
    assert_eq!(starts, [first.instance.clone()]);
    world.run_actions();
    assert_eq!(world.running.len(), 2);
}

#[test]
fn dependencies_start_first_and_circles_are_broken() {
    let mut world = World::new();
    world.after.insert("item1".into(), vec!["item2".into()]);
    world.event(Event::Update(vec![info(1, 1), info(2, 1)].into()));
    world.finish_fetches();
    assert_eq!(world.pending_starts(), [info(2, 1).instance]);
    world.run_actions();
    assert_eq!(world.running.len(), 2);

    let mut circle = World::new();
    circle.after.insert("item1".into(), vec!["item2".into()]);
    circle.after.insert("item2".into(), vec!["item1".into()]);
    circle.event(Event::Update(vec![info(1, 1), info(2, 1)].into()));
    circle.run_actions();
    assert_eq!(circle.running.len(), 2);
}

#[test]
fn who_shares_storage_waits_until_the_other_is_gone() {
    let mut world = World::new();
    let with_storage = |number| {
        let mut info = info(number, 1);
        info.storage_path = Some("shared".parse().unwrap());
        info
    };
    world.event(Event::Update(vec![with_storage(1)].into()));
    world.run_actions();
    world.event(Event::Update(vec![with_storage(2)].into()));
    world.finish_fetches();
    assert!(world.pending_starts().is_empty());
    world.run_actions();
    assert_eq!(world.running_versions(), ["item2 1.0.0"]);
}

#[test]
fn a_stop_that_fails_is_repeated_and_said() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.event(Event::Update(DesiredSet::default()));
    world.fail_next = true;
    world.run_actions();
    let status = world.last_status(&info(1, 1).instance);
    assert_eq!(status.state, InstanceState::Failed);
    assert_eq!(status.error.unwrap().message, "it was made to fail");
    world.pass(Duration::from_secs(11));
    world.run_actions();
    assert!(world.running.is_empty());
    assert_eq!(
        world.last_status(&info(1, 1).instance).state,
        InstanceState::Inactive
    );
}

#[test]
fn after_a_reboot_everything_starts_again_and_leftovers_go_first() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1), info(2, 1)].into()));
    world.run_actions();
    world.running.clear();
    world.die();
    let stops = world.stops;
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0", "item2 1.0.0"]);
    assert_eq!(world.stops, stops + 2);
}

#[test]
fn a_set_that_names_an_instance_twice_does_not_make_it_restart() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1), info(1, 2)].into()));
    world.run_actions();
    assert_eq!(world.running_versions(), ["item1 1.0.0"]);
}

#[test]
fn the_image_of_the_version_before_is_kept_until_the_new_one_is_good() {
    let mut world = World::new();
    world.event(Event::Update(vec![info(1, 1)].into()));
    world.run_actions();
    world.pass(Duration::from_secs(11));
    world.event(Event::Update(vec![info(1, 2)].into()));
    let (one, two) = (info(1, 1).manifest_digest, info(1, 2).manifest_digest);
    let both = BTreeSet::from([one, two]);
    assert_eq!(world.kept, both, "also before it has come");
    world.run_actions();
    world.pass(Duration::from_secs(9));
    world.die();
    world.pass(Duration::from_secs(9));
    assert_eq!(world.kept, both, "it may have to be gone back to");
    world.pass(Duration::from_secs(1));
    assert_eq!(world.kept, BTreeSet::from([two]));
    world.event(Event::Update(DesiredSet::default()));
    assert_eq!(world.kept, BTreeSet::from([two]), "it still runs");
    world.run_actions();
    assert!(world.kept.is_empty());
}

#[test]
fn a_status_names_the_variables_that_were_set_and_says_why_others_were_not() {
    let variable = |name: &str| EnvVar::new(name.parse().unwrap(), "1".into()).unwrap();
    let mut wanted = info(1, 1);
    wanted.env_vars = vec![variable("COLOUR"), variable("LEVEL")];
    let mut world = World::new();
    world.event(Event::Overrides(vec![EnvOverride {
        filter: InstanceFilter::new(None, None, None).unwrap(),
        variable: variable("LEVEL"),
        expires: None,
    }]));
    world.event(Event::Update(vec![wanted.clone()].into()));
    let said = |world: &World| {
        let status = world.last_status(&info(1, 1).instance);
        let one = |it: muster_api::domain::EnvVarStatus| (it.name.to_string(), it.error.is_some());
        status.env_vars.into_iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(said(&world), [], "nothing is set yet");
    world.fail_next = true;
    world.run_actions();
    let names = |fails| ["COLOUR", "LEVEL"].map(|name| (name.to_owned(), fails));
    assert_eq!(said(&world), names(true));
    world.event(Event::Reach(Reach::Controller));
    world.run_actions();
    assert_eq!(said(&world), names(false));
    // Others are ordered, and it still has these.
    wanted.env_vars.push(variable("SIZE"));
    world.event(Event::Update(vec![wanted].into()));
    assert_eq!(said(&world), names(false));
    world.run_actions();
    assert_eq!(said(&world).len(), 3);
}
