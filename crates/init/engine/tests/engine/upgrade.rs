//! States written by every released version can be read.
//!
//! `tests/data/state-vN.json` was written by version N and is never changed. When the format changes, raise the version and
//! run this test once with `MUSTER_FIXTURES=write` to add the new one.

use std::path::PathBuf;

use muster_engine::EngineState;
use muster_engine::dep::DepKind::*;
use muster_engine::ids::Span;
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::ActiveState;
use muster_engine::spec::{Restart, ServiceType};
use muster_engine::state::{DecodeStateError, STATE_VERSION};

use crate::sim::{Odds, Sim, service_of, settings_of, unit};

fn fixture(version: u32) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/state-v{version}.json"))
}

/// A machine in the middle of things: something up, something starting, something waiting, a failure, a pause.
fn sample() -> EngineState {
    let mut slow = unit(
        "slow.service",
        &[(Requires, "base.target"), (After, "base.target")],
    );
    service_of(&mut slow).service_type = ServiceType::Notify;
    settings_of(&mut slow).job_timeout = Span::secs(60);
    let mut looping = unit("looping.service", &[(OnFailure, "alarm.target")]);
    service_of(&mut looping).restart = Restart::Always;
    service_of(&mut looping).restart_sec = Span::secs(3600);
    let mut sim = Sim::new(11, Odds::KIND);
    sim.load(vec![
        slow,
        looping,
        unit("base.target", &[]),
        unit("alarm.target", &[]),
        unit(
            "last.service",
            &[(Requires, "slow.service"), (After, "slow.service")],
        ),
    ]);
    sim.start("looping.service");
    sim.settle();
    let looping = sim.state.find("looping.service").unwrap();
    let pid = sim.main_pid(looping);
    sim.end(pid, muster_engine::protocol::ExitStatus::Signal(11));
    while sim.has_replies() {
        sim.step();
    }
    sim.request("last.service", JobVerb::Start, JobMode::Replace);
    while sim.has_replies() {
        sim.step();
    }
    sim.state
}

#[test]
fn states_of_every_version_are_read() {
    if std::env::var_os("MUSTER_FIXTURES").is_some_and(|value| value == "write") {
        std::fs::write(fixture(STATE_VERSION), sample().encode()).unwrap();
    }
    for version in 1..=STATE_VERSION {
        let path = fixture(version);
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let mut state = EngineState::decode(&bytes).unwrap();
        let active =
            |state: &EngineState, name: &str| state.unit(state.find(name).unwrap()).active();
        assert_eq!(active(&state, "base.target"), ActiveState::Active);
        assert_eq!(active(&state, "slow.service"), ActiveState::Activating);
        assert_eq!(active(&state, "looping.service"), ActiveState::Activating);
        assert_eq!(
            state.jobs().count(),
            2,
            "slow is starting, last waits for it"
        );
        // It goes on where it was: the pause before the restart ends, and the start that hangs is given up.
        for _ in 0..4 {
            let Some(at) = state.next_deadline() else {
                break;
            };
            state.apply(&muster_engine::Event {
                clock: muster_engine::ids::Clock {
                    monotonic: at,
                    real: 0,
                },
                entropy: muster_engine::ids::InvocationId(1),
                what: muster_engine::event::What::Tick,
            });
        }
        assert_eq!(active(&state, "last.service"), ActiveState::Inactive);
    }
}

#[test]
fn the_sample_of_this_version_is_the_fixture() {
    let fixture = EngineState::decode(&std::fs::read(fixture(STATE_VERSION)).unwrap()).unwrap();
    assert_eq!(
        fixture,
        sample(),
        "the format or the engine changed: raise STATE_VERSION and add a fixture"
    );
}

#[test]
fn what_is_no_state_is_refused_in_words() {
    let refused = |text: &str| EngineState::decode(text.as_bytes()).unwrap_err();
    assert!(matches!(refused("{"), DecodeStateError::Malformed(_)));
    assert!(matches!(refused("[]"), DecodeStateError::Malformed(_)));
    let newer = refused(r#"{"version":99,"state":null}"#);
    assert_eq!(
        newer.to_string(),
        format!("the engine's state has version 99; this engine reads up to {STATE_VERSION}")
    );
    let text = String::from_utf8(sample().encode()).unwrap();
    let broken = text.replacen(r#""base.target":"#, r#""gone.target":"#, 1);
    assert!(matches!(
        refused(&broken),
        DecodeStateError::Inconsistent { .. }
    ));
}
