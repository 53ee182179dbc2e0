use proptest::prelude::*;

use super::*;

fn unit(name: &str) -> UnitName {
    UnitName::new(format!("{name}.service")).unwrap()
}

fn look(active: &str, sub: &str) -> Observation {
    Observation {
        active: active.into(),
        sub: sub.into(),
        result: "success".into(),
        ..Observation::default()
    }
}

fn failed(code: i32, status: i32) -> Observation {
    Observation {
        result: "exit-code".into(),
        main_code: code,
        main_status: status,
        ..look("failed", "failed")
    }
}

#[test]
fn properties_mean_states() {
    assert_eq!(look("active", "running").state(), Some(UnitState::Running));
    assert_eq!(
        look("activating", "start").state(),
        Some(UnitState::Starting)
    );
    assert_eq!(
        look("deactivating", "stop-sigterm").state(),
        Some(UnitState::Stopping)
    );
    assert_eq!(look("inactive", "dead").state(), None);
    let ended = |look: &Observation| match look.state() {
        Some(UnitState::Ended(end)) => end,
        other => panic!("{other:?}"),
    };
    assert_eq!(ended(&failed(1, 3)), UnitEnd::Exited(3));
    assert_eq!(ended(&failed(2, 9)), UnitEnd::Signalled(9));
    assert_eq!(ended(&failed(3, 11)), UnitEnd::Signalled(11));
    assert_eq!(
        ended(&failed(0, 0)),
        UnitEnd::NotStarted("exit-code".into())
    );
    let oom = Observation {
        result: "oom-kill".into(),
        ..failed(2, 9)
    };
    assert_eq!(ended(&oom), UnitEnd::OutOfMemory);
    let waiting = Observation {
        active: "activating".into(),
        sub: "auto-restart".into(),
        restarts: 2,
        ..failed(1, 7)
    };
    assert_eq!(
        waiting.state(),
        Some(UnitState::Restarting {
            last: UnitEnd::Exited(7),
            restarts: 3
        })
    );
    assert!(waiting.is_alive() && !failed(1, 7).is_alive());
}

#[test]
fn the_same_is_told_once() {
    let mut tracker = Tracker::default();
    let a = unit("a");
    assert_eq!(tracker.look(&a, Some(&look("active", "running"))).len(), 1);
    assert_eq!(tracker.look(&a, Some(&look("active", "running"))), []);
}

#[test]
fn a_restart_between_two_looks_is_told() {
    let mut tracker = Tracker::default();
    let a = unit("a");
    tracker.look(&a, Some(&look("active", "running")));
    let again = Observation {
        restarts: 1,
        main_code: 1,
        main_status: 4,
        ..look("active", "running")
    };
    let states: Vec<_> = tracker
        .look(&a, Some(&again))
        .into_iter()
        .map(|event| event.state)
        .collect();
    assert_eq!(
        states,
        [
            UnitState::Restarting {
                last: UnitEnd::Exited(4),
                restarts: 1
            },
            UnitState::Running
        ]
    );
}

#[test]
fn an_end_is_told_once_however_the_counter_goes_on() {
    let wait = |restarts| Observation {
        restarts,
        ..Observation {
            active: "activating".into(),
            sub: "auto-restart".into(),
            ..failed(1, 7)
        }
    };
    let runs = |restarts| Observation {
        restarts,
        ..look("active", "running")
    };
    let mut tracker = Tracker::default();
    let a = unit("a");
    let mut told = Vec::new();
    // Twice, and once it is the counter that is seen first.
    for look in [runs(0), wait(0), runs(1), wait(1), wait(2), runs(2)] {
        let news = tracker.look(&a, Some(&look)).into_iter();
        told.extend(news.filter_map(|event| match event.state {
            UnitState::Restarting { restarts, .. } => Some(restarts),
            _ => None,
        }));
    }
    assert_eq!(told, [1, 2]);
}

#[test]
fn ends_are_told_on_though_the_counter_begins_anew() {
    let wait = |restarts| Observation {
        active: "activating".into(),
        sub: "auto-restart".into(),
        restarts,
        ..failed(1, 7)
    };
    let runs = |restarts| Observation {
        restarts,
        ..look("active", "running")
    };
    let story = |looks: &[Observation]| -> Vec<u32> {
        let (mut tracker, a) = (Tracker::default(), unit("a"));
        let news = looks.iter().flat_map(|look| tracker.look(&a, Some(look)));
        let ends = news.filter_map(|event| match event.state {
            UnitState::Restarting { restarts, .. } => Some(restarts),
            _ => None,
        });
        ends.collect()
    };
    // Reset while it runs, and ended once more.
    let looks = [runs(2), wait(2), runs(3), runs(0), wait(0), runs(1)];
    assert_eq!(story(&looks), [3, 4]);
    // The next end was not seen.
    assert_eq!(story(&[runs(3), runs(0), runs(1)]), [4]);
    // Started by hand while it waits: that is no end.
    assert_eq!(story(&[runs(2), wait(2), runs(0), wait(0)]), [3, 4]);
    // Reset while it waits.
    let looks = [runs(2), wait(2), wait(0), runs(1), wait(1)];
    assert_eq!(story(&looks), [3, 4]);
    // Twice.
    let looks = [runs(1), runs(0), wait(0), runs(1), runs(0), wait(0)];
    assert_eq!(story(&looks), [2, 3]);
}

#[test]
fn what_is_gone_ended_well_unless_it_was_told_otherwise() {
    let mut tracker = Tracker::default();
    let (a, b) = (unit("a"), unit("b"));
    tracker.look(&a, Some(&look("active", "running")));
    tracker.look(&b, Some(&failed(1, 1)));
    assert_eq!(
        tracker.look_at_all(&[]),
        [UnitEvent {
            unit: a,
            state: UnitState::Ended(UnitEnd::Exited(0))
        }]
    );
    assert_eq!(tracker.look(&b, None), []);
}

#[test]
fn a_unit_that_came_and_went_unseen_is_told() {
    let mut tracker = Tracker::default();
    let a = unit("a");
    let told = Observation::told("activating".into(), "start".into());
    assert_eq!(tracker.look(&a, Some(&told)).len(), 1);
    let end = UnitState::Ended(UnitEnd::Exited(0));
    assert_eq!(tracker.look(&a, None)[0].state, end);
    // What was told of its end, or of a restart whose cause is not known, adds nothing.
    for (active, sub) in [("inactive", "dead"), ("activating", "auto-restart")] {
        let told = Observation::told(active.into(), sub.into());
        assert_eq!(tracker.look(&a, Some(&told)), []);
    }
}

fn any_look() -> impl Strategy<Value = Option<Observation>> {
    let word = prop_oneof![
        Just("active"),
        Just("activating"),
        Just("deactivating"),
        Just("failed"),
        Just("inactive"),
        Just("strange")
    ];
    let sub = prop_oneof![
        Just("running"),
        Just("auto-restart"),
        Just("start"),
        Just("")
    ];
    proptest::option::weighted(
        0.9,
        (word, sub, 0..4_i32, 0..70_i32, 0..4_u32).prop_map(
            |(active, sub, main_code, main_status, restarts)| Observation {
                active: active.into(),
                sub: sub.into(),
                result: "success".into(),
                main_code,
                main_status,
                restarts,
                main_pid: 0,
            },
        ),
    )
}

proptest! {
    /// Whatever is seen in whatever order: the last thing told about a unit is what it was last seen as, and of every end that
    /// its restart counter knows of since it was first seen, the number was told.
    #[test]
    fn the_story_ends_with_the_last_look(looks in proptest::collection::vec(any_look(), 1..20)) {
        let mut tracker = Tracker::default();
        let a = unit("a");
        let mut told = None;
        let mut counted: Option<u32> = None;
        for look in &looks {
            let news = tracker.look(&a, look.as_ref());
            let numbers = news.iter().filter_map(|event| match event.state {
                UnitState::Restarting { restarts, .. } => Some(restarts),
                _ => None,
            });
            counted = counted.into_iter().chain(numbers).max();
            if let Some(event) = news.last() {
                told = Some(event.state.clone());
            }
            let Some(look) = look else {
                counted = None;
                prop_assert!(told.is_none() || matches!(told, Some(UnitState::Ended(_))));
                continue;
            };
            match (look.state(), &told) {
                (None, _) => continue,
                // How often is for the story to say.
                (Some(UnitState::Restarting { last, .. }), Some(UnitState::Restarting { last: said, .. })) => {
                    prop_assert_eq!(&last, said);
                }
                (Some(meaning), told) => prop_assert_eq!(Some(&meaning), told.as_ref()),
            }
            let known = *counted.get_or_insert(look.restarts);
            prop_assert!(known >= look.restarts, "{known} of {look:?}");
        }
    }
}
