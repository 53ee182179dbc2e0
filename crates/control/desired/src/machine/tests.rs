//! Examples; what holds always is in `laws`.

mod laws;
mod world;

use std::time::Duration;

use muster_api::domain::{AosCode, AosError, InstanceState, ItemState};
use muster_balance::Reason;

use self::world::{BAD, World, desired, node, status};
use super::*;
use crate::progress::Condition;

const ALL_STEPS: [UpdateStep; 6] = [
    UpdateStep::Downloading,
    UpdateStep::Installing,
    UpdateStep::Launching,
    UpdateStep::Activating,
    UpdateStep::Finalizing,
    UpdateStep::None,
];

#[test]
fn an_update_goes_through_its_steps_and_tells_of_each_part() {
    let mut world = World::new(2);
    world.wish(desired(&[(1, 2), (2, 1)], &[]));
    assert_eq!(
        world.machine.progress().items["i0"].state,
        ItemState::Downloading
    );
    world.settle();
    assert_eq!(world.steps, ALL_STEPS);
    assert_eq!(world.finished, 1);
    let progress = world.machine.progress();
    assert_eq!((progress.done, progress.failures()), (true, Vec::new()));
    let told = Condition::Told(InstanceState::Active);
    assert_eq!(progress.instances.len(), 3);
    assert!(progress.instances.values().all(|it| it.condition == told));
}

#[test]
fn what_is_wanted_already_changes_nothing() {
    let mut world = World::new(1);
    let wanted = desired(&[(1, 1)], &[]);
    assert_eq!(world.wish(wanted.clone()), Accepted::New(UpdateId(1)));
    assert_eq!(world.wish(wanted.clone()), Accepted::Unchanged(UpdateId(1)));
    world.settle();
    assert_eq!(world.wish(wanted), Accepted::Unchanged(UpdateId(1)));
    assert!(world.actions.is_empty());
}

#[test]
fn an_item_that_cannot_be_had_leaves_the_others_and_its_own_earlier_version_alone() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1), (1, 1)], &[]));
    world.settle();
    world.wish(desired(&[(BAD, 1), (2, 1), (BAD, 1)], &[]));
    world.settle();
    let running = world.running();
    assert_eq!(
        (&*running["i0:local:0"], &*running["i1:local:0"]),
        ("1", "2")
    );
    assert!(!running.contains_key("i2:local:0"));
    let failures = world.machine.progress().failures();
    assert_eq!(failures.len(), 3, "{failures:?}");
    assert!(
        failures[0].starts_with("item i0 9: not found"),
        "{failures:?}"
    );
    assert!(
        failures[2].starts_with("instance i2:local:0"),
        "{failures:?}"
    );
    // Asking again tries again.
    let again = world.wish(desired(&[(BAD, 1), (2, 1), (BAD, 1)], &[]));
    assert_eq!(again, Accepted::New(UpdateId(3)));
    assert_eq!(world.actions.len(), 3, "what is there may be what failed");
}

#[test]
fn a_newer_wish_cancels_what_it_does_not_want_and_keeps_what_is_there() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1), (1, 1), (1, 1)], &[]));
    world.finish(0);
    assert_eq!(world.actions.len(), 2);
    world.wish(desired(&[(1, 1), (1, 1), (2, 1)], &[]));
    let items: Vec<String> = (world.actions.iter())
        .map(|it| match it {
            Action::Download { item, .. } => format!("{} {}", item.id, item.version),
            other => panic!("{other:?}"),
        })
        .collect();
    // i0 is there, i1 goes on, i2 is fetched in the other version.
    assert_eq!(items, ["i1 1", "i2 2"]);
    world.settle();
    assert_eq!(world.running()["i2:local:0"], "2");
}

#[test]
fn a_stuck_update_never_blocks_the_next() {
    for stuck_at in [
        UpdateStep::Downloading,
        UpdateStep::Installing,
        UpdateStep::Launching,
        UpdateStep::Activating,
        UpdateStep::Finalizing,
    ] {
        let mut world = World::new(1);
        world.nodes.get_mut(&node(0)).unwrap().silent = true;
        world.wish(desired(&[(1, 1)], &[]));
        if stuck_at == UpdateStep::Finalizing {
            world.advance_to(UpdateStep::Activating);
            world.pass(world.limits.activation_patience);
        }
        world.advance_to(stuck_at);
        world.nodes.get_mut(&node(0)).unwrap().silent = false;
        world.wish(desired(&[(2, 1)], &[]));
        // What hangs is given up by the driver.
        let hangs = |it: &Action| !matches!(it, Action::Download { .. });
        while let Some(which) = world.actions.iter().position(hangs) {
            world.fail(which);
        }
        world.settle();
        assert_eq!(world.running()["i0:local:0"], "2", "stuck at {stuck_at}");
        assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
    }
}

#[test]
fn a_download_that_brings_nothing_fails_and_one_that_crawls_does_not() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1), (1, 1)], &[]));
    let Action::Download { flight, .. } = world.actions[0] else {
        panic!("a download");
    };
    for done in 1..10 {
        world.pass(world.limits.download_stall / 2);
        let bytes = crate::progress::Bytes { done, total: 100 };
        world.event(Event::DownloadProgress { flight, bytes });
    }
    let progress = world.machine.progress();
    let of = |id: &str| &progress.items[id];
    assert_eq!(
        (of("i0").state, of("i0").bytes.done),
        (ItemState::Downloading, 9)
    );
    assert_eq!(of("i1").state, ItemState::Failed);
    assert_eq!(world.actions.len(), 1, "the other was cancelled");
}

#[test]
fn a_paused_node_keeps_what_it_runs_and_resuming_brings_it_up_to_date() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1)], &[]));
    world.settle();
    world.wish(desired(&[(2, 1)], &[0]));
    world.settle();
    assert_eq!(world.running()["i0:local:0"], "1");
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
    // By an operator, without a new desired status.
    world.wish(desired(&[(3, 1)], &[]));
    world.settle();
    assert_eq!(world.running()["i0:local:0"], "1", "nobody has resumed it");
    world.pause(&node(0), false);
    world.settle();
    assert_eq!(world.running()["i0:local:0"], "3");
}

#[test]
fn a_node_that_restarts_for_its_update_is_waited_for() {
    let mut world = World::new(2);
    world.nodes.get_mut(&node(0)).unwrap().silent = true;
    world.wish(desired(&[(1, 2)], &[]));
    world.advance_to(UpdateStep::Activating);
    world.cut(&node(0));
    world.pass(world.limits.node_loss / 2);
    assert_eq!(world.machine.at(), UpdateStep::Activating);
    let away = |world: &World| {
        let instances = world.machine.progress().instances;
        instances
            .values()
            .filter(|it| it.condition == Condition::Away)
            .count()
    };
    assert_eq!(away(&world), 1);
    world.nodes.get_mut(&node(0)).unwrap().silent = false;
    world.connect(&node(0));
    world.settle();
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
    assert_eq!(away(&world), 0);
}

#[test]
fn what_a_lost_node_ran_is_placed_elsewhere() {
    let mut world = World::new(2);
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    world.cut(&node(0));
    world.pass(world.limits.node_loss);
    world.settle();
    assert_eq!(world.reasons.last(), Some(&Reason::NodeLost(node(0))));
    assert_eq!(world.nodes[&node(1)].running.len(), 2);
    assert_eq!(world.finished, 2);
    // It comes back and is told that it has nothing to run.
    world.connect(&node(0));
    world.settle();
    assert!(world.nodes[&node(0)].running.is_empty());
}

#[test]
fn instances_without_a_place_get_one_when_a_node_comes() {
    let mut world = World::new(0);
    world.wish(desired(&[(1, 1)], &[]));
    world.settle();
    assert_eq!(world.machine.progress().failures().len(), 1);
    world.connect(&node(0));
    world.settle();
    assert_eq!(world.running().len(), 1);
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
}

#[test]
fn a_node_that_refuses_its_share_is_asked_again() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1)], &[]));
    world.advance_to(UpdateStep::Launching);
    world.finish(0);
    assert!(matches!(world.actions[0], Action::Send { .. }));
    world.fail(0);
    assert_eq!(world.machine.at(), UpdateStep::Activating);
    assert_eq!(world.machine.progress().failures().len(), 1);
    assert!(world.actions.is_empty());
    world.pass(world.limits.send_retry);
    world.settle();
    assert_eq!(world.running().len(), 1);
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
}

#[test]
fn a_balancer_that_fails_leaves_nodes_as_they_are() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1)], &[]));
    world.settle();
    world.wish(desired(&[(2, 1)], &[]));
    world.advance_to(UpdateStep::Launching);
    world.fail(0);
    world.settle();
    assert_eq!(world.running()["i0:local:0"], "1");
    let failures = world.machine.progress().failures();
    assert!(
        failures[0].starts_with("placement: timeout"),
        "{failures:?}"
    );
}

#[test]
fn instances_that_come_and_go_for_ever_do_not_keep_an_update_from_its_end() {
    let mut world = World::new(1);
    world.nodes.get_mut(&node(0)).unwrap().silent = true;
    world.wish(desired(&[(1, 2)], &[]));
    world.advance_to(UpdateStep::Activating);
    let infos: Vec<_> = world.nodes[&node(0)].running.values().cloned().collect();
    let mut told = 0;
    while world.machine.at() == UpdateStep::Activating {
        let failed = told % 2;
        for (nth, info) in infos.iter().enumerate() {
            let state = match nth == failed {
                true => InstanceState::Failed,
                false => InstanceState::Activating,
            };
            world.event(Event::Instances {
                node: node(0),
                whole: false,
                statuses: vec![status(info, state)],
            });
            if world.machine.at() != UpdateStep::Activating {
                break;
            }
        }
        world.pass(Duration::from_secs(60));
        told += 1;
        assert!(told < 30, "it never ends");
    }
    world.settle();
    assert!(!world.machine.progress().failures().is_empty());
}

#[test]
fn an_instance_that_went_back_to_its_earlier_version_is_told_as_failed() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1)], &[]));
    world.settle();
    world.nodes.get_mut(&node(0)).unwrap().silent = true;
    world.wish(desired(&[(2, 1)], &[]));
    world.advance_to(UpdateStep::Activating);
    let info = world.nodes[&node(0)]
        .running
        .values()
        .next()
        .unwrap()
        .clone();
    let mut told = status(&info, InstanceState::Active);
    told.version = "1".into();
    told.error = Some(AosError::new(AosCode::Failed, "2 did not start"));
    world.event(Event::Instances {
        node: node(0),
        whole: true,
        statuses: vec![told],
    });
    world.settle();
    let failures = world.machine.progress().failures();
    assert_eq!(failures, ["instance i0:local:0: failed: 2 did not start"]);
}

#[test]
fn going_back_wants_what_was_wanted_and_where_it_was() {
    let mut world = World::new(2);
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    let places = world.disk.versions[&UpdateId(1)].places.clone();
    assert_eq!(places.len(), 2);
    assert_eq!(
        world.machine.earlier(None).unwrap_err(),
        RollbackError::NoEarlier
    );
    world.wish(desired(&[(2, 1)], &[]));
    world.settle();
    assert!(world.items.len() == 2, "to go back needs no network");
    let earlier = world.machine.earlier(None).unwrap().clone();
    let mut back = world::wish(earlier.desired.clone());
    back.places = earlier.places.clone();
    let (accepted, turn) = world.machine.accept(back, world.now);
    assert_eq!(accepted, Accepted::New(UpdateId(3)));
    for change in turn.changes {
        world.disk.apply(change);
    }
    world.actions.extend(turn.actions);
    world.settle();
    assert_eq!(world.reasons.last(), Some(&Reason::Rollback(places)));
    assert_eq!(world.running().len(), 2);
    let missing = RollbackError::NotKept {
        update: UpdateId(7),
    };
    assert_eq!(
        world.machine.earlier(Some(UpdateId(7))).unwrap_err(),
        missing
    );
}

#[test]
fn old_versions_go_but_never_the_one_that_nodes_have() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1)], &[]));
    world.settle();
    for count in 2..9 {
        world.wish(desired(&[(1, count)], &[]));
    }
    let kept: Vec<u64> = world.disk.versions.keys().map(|it| it.0).collect();
    assert_eq!(kept, [1, 5, 6, 7, 8]);
}

#[test]
fn an_instance_that_does_not_come_up_in_time_is_told_and_may_come_later() {
    let mut world = World::new(1);
    world.nodes.get_mut(&node(0)).unwrap().silent = true;
    let wanted = desired(&[(1, 1)], &[]);
    world.wish(wanted.clone());
    world.settle();
    let failures = world.machine.progress().failures();
    assert_eq!(
        failures,
        ["instance i0:local:0: timeout: it is still activating"]
    );
    world.nodes.get_mut(&node(0)).unwrap().silent = false;
    world.tell(&node(0));
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
    assert_eq!(world.wish(wanted), Accepted::Unchanged(UpdateId(1)));
}

#[test]
fn a_new_placement_is_sent_only_to_nodes_whose_share_changed() {
    let mut world = World::new(3);
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    world.wish(desired(&[(1, 3)], &[]));
    world.advance_to(UpdateStep::Launching);
    world.finish(0);
    let sent: Vec<&NodeId> = (world.actions.iter())
        .map(|it| match it {
            Action::Send { node, .. } => node,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sent.len(), 1);
}

#[test]
fn after_a_restart_a_finished_update_is_finished_and_nodes_get_their_share_again() {
    let mut world = World::new(2);
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    world.die(|| false);
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
    assert!(world.machine.progress().done);
    assert_eq!(world.actions.len(), 2, "one share for each node");
    world.settle();
    assert_eq!(world.finished, 1, "nothing was placed anew");
}

#[test]
fn a_share_that_went_into_a_dead_stream_is_sent_again() {
    let mut world = World::new(1);
    world.wish(desired(&[(1, 1)], &[]));
    world.advance_to(UpdateStep::Launching);
    world.finish(0);
    assert!(matches!(world.actions[..], [Action::Send { .. }]));
    world.cut(&node(0));
    world.connect(&node(0));
    // The old stream took it, and the node never read it.
    world.actions.clear();
    world.event(Event::Sent {
        node: node(0),
        result: Ok(()),
    });
    assert!(matches!(world.actions[..], [Action::Send { .. }]));
    world.settle();
    assert_eq!(world.running().len(), 1);
}

#[test]
fn placing_waits_for_nodes_that_are_expected_but_not_for_ever() {
    for comes in [true, false] {
        let mut world = World::new(2);
        world.wish(desired(&[(1, 2)], &[]));
        world.settle();
        world.cut(&node(0));
        world.wish(desired(&[(2, 2)], &[]));
        world.finish(0);
        assert_eq!(world.machine.at(), UpdateStep::Pending);
        assert!(world.actions.is_empty());
        match comes {
            true => world.connect(&node(0)),
            false => world.pass(world.limits.nodes_patience),
        }
        assert_eq!(world.machine.at(), UpdateStep::Installing);
        world.settle();
        assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
        assert_eq!(
            world.nodes[&node(1)].running.len(),
            if comes { 1 } else { 2 }
        );
    }
}

#[test]
fn a_node_that_has_been_away_for_long_holds_no_update_up() {
    let mut world = World::new(2);
    let half = world.limits.nodes_patience / 2;
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    world.cut(&node(0));
    world.pass(half);
    world.wish(desired(&[(2, 2)], &[]));
    world.finish(0);
    assert_eq!(world.machine.at(), UpdateStep::Pending);
    world.pass(half);
    assert_eq!(world.machine.at(), UpdateStep::Installing);
    world.settle();

    world.wish(desired(&[(3, 2)], &[]));
    world.finish(0);
    assert_eq!(world.machine.at(), UpdateStep::Installing);
}

#[test]
fn a_node_that_is_shut_out_holds_no_update_up_however_often_it_comes_back() {
    let mut world = World::new(2);
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    for version in 2..6 {
        world.shut_out(&node(0));
        world.wish(desired(&[(version, 2)], &[]));
        world.finish(0);
        assert_eq!(world.machine.at(), UpdateStep::Installing, "nobody waits");
        world.settle();
        world.pass(Duration::from_secs(1));
        world.connect(&node(0));
        world.settle();
    }
    assert_eq!(world.machine.progress().failures(), Vec::<String>::new());
}

#[test]
fn a_node_that_comes_and_goes_is_waited_for_once() {
    let mut world = World::new(2);
    let patience = world.limits.nodes_patience;
    world.wish(desired(&[(1, 2)], &[]));
    world.settle();
    world.cut(&node(0));
    world.pass(patience);
    for version in 2..5 {
        world.connect(&node(0));
        world.settle();
        world.pass(patience / 3);
        world.cut(&node(0));
        world.wish(desired(&[(version, 2)], &[]));
        world.finish(0);
        assert_eq!(world.machine.at(), UpdateStep::Installing, "nobody waits");
    }
    // Once it has stayed, it is a node like any other.
    world.connect(&node(0));
    world.settle();
    world.pass(patience);
    world.cut(&node(0));
    world.wish(desired(&[(5, 2)], &[]));
    world.finish(0);
    assert_eq!(world.machine.at(), UpdateStep::Pending);
}
