//! What each dependency does, and what cannot be planned.

use muster_engine::dep::DepKind::*;
use muster_engine::event::{Answer, What};
use muster_engine::job::{JobMode, JobResult, JobType, JobVerb};
use muster_engine::protocol::ActiveState::{Active, Failed, Inactive};
use muster_engine::protocol::{ExecKind, Input};
use muster_engine::spec::CommandSpec;
use muster_engine::transaction::Refusal;

use super::{failing, kill_main, start, states, world, world_of};
use crate::sim::{Odds, Sim, service_of, unit};

#[test]
fn requires_pulls_in_and_fails_with_it() {
    let mut sim = world(&[
        (
            "a.service",
            &[(Requires, "b.service"), (After, "b.service")],
        ),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Active)]);

    let mut sim = Sim::new(
        7,
        Odds {
            exits_badly: 100,
            ..Odds::KIND
        },
    );
    sim.load(vec![
        unit(
            "a.service",
            &[(Requires, "b.service"), (After, "b.service")],
        ),
        failing("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Inactive), ("b.service", Failed)]);
    assert_eq!(sim.result_of("a.service"), Some(JobResult::Dependency));
}

#[test]
fn a_restart_whose_requirement_fails_ends_down() {
    let mut sim = Sim::new(7, Odds::KIND);
    sim.load(vec![
        unit(
            "a.service",
            &[(Requires, "b.service"), (After, "b.service")],
        ),
        unit(
            "b.service",
            &[(Requisite, "c.service"), (After, "c.service")],
        ),
        unit("c.service", &[]),
    ]);
    start(&mut sim, "c.service");
    start(&mut sim, "a.service");
    sim.request("c.service", JobVerb::Stop, JobMode::IgnoreDependencies);
    sim.settle();
    sim.request("b.service", JobVerb::Restart, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
}

#[test]
fn requires_stops_with_it() {
    let mut sim = world(&[
        ("a.service", &[(Requires, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    sim.request("b.service", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
}

#[test]
fn requires_of_a_missing_unit_is_refused_with_the_path() {
    let mut sim = world(&[
        ("a.service", &[(Requires, "b.service")]),
        ("b.service", &[(Requires, "gone.service")]),
    ]);
    let Answer::Refused(refusal) = sim.start("a.service") else {
        panic!("not refused")
    };
    assert_eq!(
        refusal.to_string(),
        "Unit gone.service not found, and is needed: a.service -> b.service -> gone.service."
    );
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
}

#[test]
fn wants_pulls_in_and_does_not_mind() {
    let mut sim = Sim::new(
        7,
        Odds {
            exits_badly: 100,
            ..Odds::KIND
        },
    );
    sim.load(vec![
        unit(
            "a.service",
            &[
                (Wants, "b.service"),
                (Wants, "gone.service"),
                (After, "b.service"),
            ],
        ),
        failing("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Failed)]);
    assert!(
        sim.logs
            .iter()
            .any(|line| line.contains("gone.service not found")),
        "{:?}",
        sim.logs
    );
}

#[test]
fn wanted_unit_that_cannot_be_planned_is_left_out_whole() {
    let mut sim = world(&[
        ("a.service", &[(Wants, "b.service")]),
        (
            "b.service",
            &[(Requires, "gone.service"), (Requires, "c.service")],
        ),
        ("c.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(
        &sim,
        &[
            ("a.service", Active),
            ("b.service", Inactive),
            ("c.service", Inactive),
        ],
    );
}

#[test]
fn requisite_demands_that_it_is_up_already() {
    let mut sim = world(&[
        (
            "a.service",
            &[(Requisite, "b.service"), (After, "b.service")],
        ),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
    assert_eq!(sim.result_of("a.service"), Some(JobResult::Dependency));
    start(&mut sim, "b.service");
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Active)]);
}

#[test]
fn binds_to_goes_down_when_the_other_dies() {
    let mut sim = world(&[
        ("a.service", &[(BindsTo, "b.service"), (After, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    kill_main(&mut sim, "b.service");
    sim.settle();
    states(&sim, &[("a.service", Inactive), ("b.service", Failed)]);
}

#[test]
fn requires_stays_up_when_the_other_dies() {
    let mut sim = world(&[
        ("a.service", &[(Requires, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    kill_main(&mut sim, "b.service");
    sim.settle();
    states(&sim, &[("a.service", Active), ("b.service", Failed)]);
}

#[test]
fn part_of_follows_stop_and_restart_but_not_start() {
    let mut sim = world(&[("a.service", &[(PartOf, "b.service")]), ("b.service", &[])]);
    start(&mut sim, "b.service");
    states(&sim, &[("a.service", Inactive)]);
    start(&mut sim, "a.service");
    let before = sim
        .state
        .unit(sim.state.find("a.service").unwrap())
        .invocation;
    sim.request("b.service", JobVerb::Restart, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Active), ("b.service", Active)]);
    assert_ne!(
        sim.state
            .unit(sim.state.find("a.service").unwrap())
            .invocation,
        before
    );
    sim.request("b.service", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
}

#[test]
fn upholds_starts_the_other_again() {
    let mut sim = world(&[("a.service", &[(Upholds, "b.service")]), ("b.service", &[])]);
    start(&mut sim, "a.service");
    kill_main(&mut sim, "b.service");
    sim.settle();
    states(&sim, &[("a.service", Active), ("b.service", Active)]);
}

#[test]
fn upholding_a_unit_that_always_fails_ends_at_the_start_limit() {
    let mut sim = Sim::new(
        7,
        Odds {
            exits_badly: 100,
            ..Odds::KIND
        },
    );
    sim.load(vec![
        unit("a.service", &[(Upholds, "b.service")]),
        failing("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Failed)]);
    assert!(
        sim.logs
            .iter()
            .any(|line| line.starts_with("Start limit hit")),
        "{:?}",
        sim.logs
    );
}

#[test]
fn upholding_what_can_never_start_ends() {
    let mut sim = world(&[
        ("a.target", &[(Upholds, "b.service")]),
        (
            "b.service",
            &[(Requisite, "down.service"), (After, "down.service")],
        ),
        ("down.service", &[]),
    ]);
    start(&mut sim, "a.target");
    states(&sim, &[("a.target", Active), ("b.service", Inactive)]);
    assert!(
        sim.logs
            .iter()
            .any(|line| line.contains("failed too often")),
        "{:?}",
        sim.logs
    );
}

#[test]
fn failing_units_that_start_each_other_end() {
    let mut sim = world(&[
        (
            "a.service",
            &[
                (Requires, "b.service"),
                (After, "b.service"),
                (OnFailure, "c.service"),
            ],
        ),
        (
            "b.service",
            &[(Requisite, "down.service"), (After, "down.service")],
        ),
        (
            "c.service",
            &[(Requires, "a.service"), (After, "a.service")],
        ),
        ("down.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Inactive), ("c.service", Inactive)]);
}

#[test]
fn conflicts_stops_the_other_both_ways() {
    let mut sim = world(&[
        ("a.service", &[(Conflicts, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "b.service");
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Inactive)]);
    start(&mut sim, "b.service");
    states(&sim, &[("a.service", Inactive), ("b.service", Active)]);
}

#[test]
fn needing_a_unit_up_and_down_is_a_contradiction() {
    let mut sim = world(&[
        (
            "a.service",
            &[(Requires, "b.service"), (Requires, "c.service")],
        ),
        ("b.service", &[(Conflicts, "c.service")]),
        ("c.service", &[]),
    ]);
    let Answer::Refused(refusal) = sim.start("a.service") else {
        panic!("not refused")
    };
    assert!(
        matches!(refusal, Refusal::Contradiction { .. }),
        "{refusal}"
    );
}

#[test]
fn an_optional_contradiction_is_dropped() {
    let mut sim = world(&[
        (
            "a.service",
            &[(Wants, "b.service"), (Requires, "c.service")],
        ),
        ("b.service", &[(Conflicts, "c.service")]),
        ("c.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(
        &sim,
        &[
            ("a.service", Active),
            ("b.service", Inactive),
            ("c.service", Active),
        ],
    );
}

#[test]
fn on_failure_and_on_success_start_their_units() {
    let mut sim = Sim::new(
        7,
        Odds {
            exits_badly: 100,
            ..Odds::KIND
        },
    );
    sim.load(vec![
        failing(
            "a.service",
            &[(OnFailure, "f.target"), (OnSuccess, "s.target")],
        ),
        unit("f.target", &[]),
        unit("s.target", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("f.target", Active), ("s.target", Inactive)]);

    let mut sim = world_of(vec![
        failing(
            "a.service",
            &[(OnFailure, "f.target"), (OnSuccess, "s.target")],
        ),
        unit("f.target", &[]),
        unit("s.target", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("f.target", Inactive), ("s.target", Active)]);
}

#[test]
fn reload_is_propagated() {
    let mut a = unit("a.service", &[(PropagatesReloadTo, "b.service")]);
    let mut b = unit("b.service", &[]);
    for unit in [&mut a, &mut b] {
        service_of(unit).commands = [
            CommandSpec {
                kind: ExecKind::Start,
                ignore_failure: false,
            },
            CommandSpec {
                kind: ExecKind::Reload,
                ignore_failure: false,
            },
        ]
        .into();
    }
    let mut sim = world_of(vec![a, b]);
    start(&mut sim, "a.service");
    start(&mut sim, "b.service");
    sim.request("a.service", JobVerb::Reload, JobMode::Replace);
    sim.settle();
    let reloads = sim
        .ended
        .iter()
        .filter(|(_, _, kind, result)| *kind == JobType::Reload && *result == JobResult::Done);
    assert_eq!(reloads.count(), 2);
}

#[test]
fn stop_is_propagated_without_any_other_tie() {
    let mut sim = world(&[
        ("a.service", &[(PropagatesStopTo, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    start(&mut sim, "b.service");
    sim.request("a.service", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
}

#[test]
fn a_cycle_is_broken_at_its_weakest_job_and_named_whole() {
    let mut sim = world(&[
        (
            "a.target",
            &[
                (Requires, "b.service"),
                (Wants, "c.service"),
                (After, "b.service"),
            ],
        ),
        ("b.service", &[(After, "c.service")]),
        ("c.service", &[(After, "b.service")]),
    ]);
    start(&mut sim, "a.target");
    states(
        &sim,
        &[
            ("a.target", Active),
            ("b.service", Active),
            ("c.service", Inactive),
        ],
    );
    let line = sim
        .logs
        .iter()
        .find(|line| line.starts_with("Ordering cycle"))
        .unwrap();
    assert!(
        line.contains("b.service -> c.service -> b.service"),
        "{line}"
    );
    assert!(
        line.ends_with("The start job of c.service is dropped to break it."),
        "{line}"
    );
}

#[test]
fn what_is_down_already_is_in_no_cycle() {
    let mut sim = world(&[
        (
            "off.target",
            &[(Conflicts, "a.service"), (Conflicts, "b.service")],
        ),
        ("a.service", &[(After, "b.service")]),
        ("b.service", &[(After, "a.service")]),
    ]);
    start(&mut sim, "off.target");
    states(&sim, &[("off.target", Active)]);
    assert!(sim.logs.is_empty(), "{:?}", sim.logs);
}

#[test]
fn a_cycle_of_needed_jobs_is_refused() {
    let mut sim = world(&[
        (
            "a.service",
            &[(Requires, "b.service"), (After, "b.service")],
        ),
        ("b.service", &[(After, "a.service")]),
    ]);
    let Answer::Refused(Refusal::Cycle(units)) = sim.start("a.service") else {
        panic!("not refused")
    };
    assert_eq!(units.len(), 3, "{units:?}");
    assert_eq!(units.first(), units.last());
}

#[test]
fn an_alias_joins_what_was_said_of_it_before() {
    let mut sim = world(&[("a.service", &[(Requires, "alias.service")])]);
    let mut real = unit("real.service", &[]);
    real.aliases = vec!["alias.service".into()];
    sim.event(What::Loaded(vec![real]));
    assert_eq!(
        sim.state.find("alias.service"),
        sim.state.find("real.service")
    );
    start(&mut sim, "a.service");
    states(&sim, &[("real.service", Active)]);
}

#[test]
fn reloading_files_takes_back_what_they_no_longer_say() {
    let mut sim = world(&[
        ("a.service", &[(Requires, "b.service")]),
        ("b.service", &[]),
    ]);
    sim.event(What::Loaded(vec![unit("a.service", &[])]));
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Inactive)]);
}

#[test]
fn events_about_forgotten_units_are_ignored() {
    let mut sim = world(&[("a.service", &[])]);
    let id = sim.state.find("a.service").unwrap();
    sim.event(What::Unloaded(vec!["a.service".into()]));
    assert!(sim.state.get(id).is_none());
    sim.event(What::Unit {
        unit: id,
        input: Input::CgroupEmpty,
    });
    sim.event(What::Checked {
        unit: id,
        verdicts: vec![true],
    });
}

#[test]
fn a_chain_of_ten_thousand_needs_no_stack() {
    let names: Vec<String> = (0..10_000).map(|at| format!("t{at}.target")).collect();
    let units = (0..names.len())
        .map(|at| match at {
            0 => unit(&names[0], &[]),
            _ => unit(
                &names[at],
                &[(Requires, &names[at - 1]), (After, &names[at - 1])],
            ),
        })
        .collect();
    let mut state = muster_engine::EngineState::new();
    let event = |what| muster_engine::Event {
        clock: muster_engine::ids::Clock::default(),
        entropy: muster_engine::ids::InvocationId(1),
        what,
    };
    state.apply(&event(What::Loaded(units)));
    state.apply(&event(What::Request(muster_engine::event::Request {
        id: muster_engine::ids::RequestId(1),
        unit: "t9999.target".into(),
        verb: JobVerb::Start,
        mode: JobMode::Replace,
        manual: true,
    })));
    assert!(state.units().all(|(_, unit)| unit.active() == Active));
}

fn ends(sim: &Sim, job_type: JobType) -> Vec<String> {
    sim.ended
        .iter()
        .filter(|(_, _, of, _)| *of == job_type)
        .map(|(_, unit, ..)| sim.state.unit(*unit).name.to_string())
        .collect()
}

#[test]
fn after_and_before_order_starts_and_reverse_stops() {
    let mut sim = world(&[
        (
            "all.target",
            &[
                (Wants, "a.service"),
                (Wants, "b.service"),
                (Wants, "c.service"),
            ],
        ),
        ("a.service", &[(After, "b.service"), (PartOf, "all.target")]),
        (
            "b.service",
            &[
                (Before, "a.service"),
                (After, "c.service"),
                (PartOf, "all.target"),
            ],
        ),
        ("c.service", &[(PartOf, "all.target")]),
    ]);
    start(&mut sim, "all.target");
    let services = |names: Vec<String>| -> Vec<String> {
        names
            .into_iter()
            .filter(|name| name.ends_with(".service"))
            .collect()
    };
    assert_eq!(
        services(ends(&sim, JobType::Start)),
        ["c.service", "b.service", "a.service"]
    );
    sim.request("all.target", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    assert_eq!(
        services(ends(&sim, JobType::Stop)),
        ["a.service", "b.service", "c.service"]
    );
}

#[test]
fn propagation_may_be_stated_at_the_other_end() {
    let mut a = unit("a.service", &[]);
    let mut b = unit(
        "b.service",
        &[
            (ReloadPropagatedFrom, "a.service"),
            (StopPropagatedFrom, "a.service"),
        ],
    );
    for unit in [&mut a, &mut b] {
        service_of(unit).commands = [
            CommandSpec {
                kind: ExecKind::Start,
                ignore_failure: false,
            },
            CommandSpec {
                kind: ExecKind::Reload,
                ignore_failure: false,
            },
        ]
        .into();
    }
    let mut sim = world_of(vec![a, b]);
    start(&mut sim, "a.service");
    start(&mut sim, "b.service");
    sim.request("a.service", JobVerb::Reload, JobMode::Replace);
    sim.settle();
    assert_eq!(ends(&sim, JobType::Reload).len(), 2);
    sim.request("a.service", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Inactive), ("b.service", Inactive)]);
}

#[test]
fn joining_a_namespace_pulls_nothing_in_and_is_known_at_both_ends() {
    let mut sim = world(&[
        ("a.service", &[(JoinsNamespaceOf, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active), ("b.service", Inactive)]);
    let (a, b) = (
        sim.state.find("a.service").unwrap(),
        sim.state.find("b.service").unwrap(),
    );
    assert!(sim.state.unit(a).deps(JoinsNamespaceOf).eq([b]));
    assert!(sim.state.unit(b).deps(JoinsNamespaceOf).eq([a]));
}
