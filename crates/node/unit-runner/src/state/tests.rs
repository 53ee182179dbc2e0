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
            restarts: 2
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
    /// Whatever is seen in whatever order: the last thing told about a unit is what it was last seen as, and every growth
    /// of its restart counter is told as a restart.
    #[test]
    fn the_story_ends_with_the_last_look(looks in proptest::collection::vec(any_look(), 1..20)) {
        let mut tracker = Tracker::default();
        let a = unit("a");
        let mut told = None;
        let mut counted: Option<u32> = None;
        for look in &looks {
            let news = tracker.look(&a, look.as_ref());
            if let Some(look) = look {
                let meaning = look.state();
                if let (Some(before), Some(_)) = (counted, &meaning) {
                    let has_restart = news.iter().any(|event| matches!(event.state, UnitState::Restarting { .. }));
                    prop_assert!(look.restarts <= before || has_restart);
                }
                if meaning.is_some() {
                    counted = Some(counted.unwrap_or(0).max(look.restarts));
                }
                if let Some(event) = news.last() {
                    told = Some(event.state.clone());
                }
                if let Some(meaning) = meaning {
                    prop_assert_eq!(told.clone(), Some(meaning));
                }
            } else {
                counted = None;
                if let Some(event) = news.last() {
                    told = Some(event.state.clone());
                }
                prop_assert!(told.is_none() || matches!(told, Some(UnitState::Ended(_))));
            }
        }
    }
}
