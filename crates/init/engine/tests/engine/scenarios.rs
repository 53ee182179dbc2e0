//! A scenario per dependency kind, job mode and refusal.

mod dependencies;
mod modes;

use muster_engine::dep::DepKind;
use muster_engine::event::{Answer, LoadedUnit};
use muster_engine::protocol::{ActiveState, ExitStatus};
use muster_engine::spec::ServiceType;

use crate::sim::{Odds, Sim, service_of, unit};

fn world(units: &[(&str, &[(DepKind, &str)])]) -> Sim {
    let mut sim = Sim::new(7, Odds::KIND);
    sim.load(units.iter().map(|(name, deps)| unit(name, deps)).collect());
    sim
}

fn world_of(units: Vec<LoadedUnit>) -> Sim {
    let mut sim = Sim::new(7, Odds::KIND);
    sim.load(units);
    sim
}

/// A unit whose start command fails.
fn failing(name: &str, deps: &[(DepKind, &str)]) -> LoadedUnit {
    let mut unit = unit(name, deps);
    service_of(&mut unit).service_type = ServiceType::Oneshot;
    unit
}

fn start(sim: &mut Sim, name: &str) {
    let answer = sim.start(name);
    assert!(matches!(answer, Answer::Job(_)), "{name}: {answer:?}");
    sim.settle();
}

fn kill_main(sim: &mut Sim, name: &str) {
    let id = sim.state.find(name).unwrap();
    let pid = sim.main_pid(id);
    sim.end(pid, ExitStatus::Signal(9));
    while sim.has_replies() {
        sim.step();
    }
}

#[track_caller]
fn states(sim: &Sim, expected: &[(&str, ActiveState)]) {
    for (name, state) in expected {
        assert_eq!(sim.active(name), *state, "{name}");
    }
}
