//! A scenario per dependency kind, job mode and refusal.

use muster_engine::dep::DepKind::{self, *};
use muster_engine::event::{Answer, LoadState, LoadedUnit, What};
use muster_engine::explain::{Cause, Wait};
use muster_engine::ids::Span;
use muster_engine::job::{JobMode, JobResult, JobType, JobVerb};
use muster_engine::protocol::{ActiveState, ExecKind, ExitStatus, Input};
use muster_engine::spec::{Check, CommandSpec, RateLimit, Restart, ServiceType};
use muster_engine::transaction::Refusal;

use crate::sim::{Odds, Sim, service_of, settings_of, unit};

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

use ActiveState::{Active, Failed, Inactive};

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
fn mode_fail_is_refused_by_what_is_queued() {
    let mut slow = unit("a.service", &[]);
    service_of(&mut slow).service_type = ServiceType::Notify;
    let mut sim = world_of(vec![slow]);
    sim.start("a.service");
    sim.run(1);
    let answer = sim.request("a.service", JobVerb::Stop, JobMode::Fail);
    assert!(
        matches!(answer, Answer::Refused(Refusal::InTheWay { .. })),
        "{answer:?}"
    );
    assert!(matches!(
        sim.request("a.service", JobVerb::Stop, JobMode::Replace),
        Answer::Job(_)
    ));
    sim.settle();
    states(&sim, &[("a.service", Inactive)]);
}

#[test]
fn irreversible_jobs_cannot_be_replaced() {
    let mut slow = unit("a.service", &[]);
    service_of(&mut slow).service_type = ServiceType::Notify;
    let mut sim = world_of(vec![slow]);
    sim.request("a.service", JobVerb::Start, JobMode::ReplaceIrreversibly);
    sim.run(1);
    let answer = sim.request("a.service", JobVerb::Stop, JobMode::Replace);
    assert!(
        matches!(answer, Answer::Refused(Refusal::InTheWay { .. })),
        "{answer:?}"
    );
}

#[test]
fn isolate_stops_what_is_not_wanted() {
    let mut rescue = unit("rescue.target", &[(Requires, "shell.service")]);
    settings_of(&mut rescue).allow_isolate = true;
    let mut kept = unit("kept.service", &[]);
    settings_of(&mut kept).ignore_on_isolate = true;
    let mut sim = world_of(vec![
        rescue,
        kept,
        unit("shell.service", &[]),
        unit("web.service", &[]),
        unit("plain.target", &[]),
    ]);
    start(&mut sim, "web.service");
    start(&mut sim, "kept.service");
    sim.request("rescue.target", JobVerb::Start, JobMode::Isolate);
    sim.settle();
    states(
        &sim,
        &[
            ("rescue.target", Active),
            ("shell.service", Active),
            ("web.service", Inactive),
            ("kept.service", Active),
        ],
    );
    let answer = sim.request("plain.target", JobVerb::Start, JobMode::Isolate);
    assert_eq!(
        answer,
        Answer::Refused(Refusal::CannotIsolate("plain.target".into()))
    );
    let answer = sim.request("rescue.target", JobVerb::Stop, JobMode::Isolate);
    assert!(matches!(
        answer,
        Answer::Refused(Refusal::ModeMismatch { .. })
    ));
}

#[test]
fn flush_drops_other_jobs() {
    let mut slow = unit("slow.service", &[]);
    service_of(&mut slow).service_type = ServiceType::Notify;
    let mut sim = world_of(vec![slow, unit("a.service", &[])]);
    sim.start("slow.service");
    sim.run(1);
    sim.request("a.service", JobVerb::Start, JobMode::Flush);
    assert_eq!(sim.result_of("slow.service"), Some(JobResult::Canceled));
}

#[test]
fn ignoring_dependencies_starts_one_unit_in_no_order() {
    let mut sim = world(&[
        (
            "a.service",
            &[(Requires, "b.service"), (After, "b.service")],
        ),
        ("b.service", &[]),
    ]);
    sim.request("a.service", JobVerb::Start, JobMode::IgnoreDependencies);
    sim.settle();
    states(&sim, &[("a.service", Active), ("b.service", Inactive)]);
    sim.request("a.service", JobVerb::Stop, JobMode::IgnoreRequirements);
    sim.settle();
    sim.request("a.service", JobVerb::Start, JobMode::IgnoreRequirements);
    sim.settle();
    states(&sim, &[("a.service", Active), ("b.service", Inactive)]);
}

#[test]
fn restart_dependencies_restarts_what_needs_it() {
    let mut sim = world(&[
        ("a.service", &[(Requires, "b.service")]),
        ("b.service", &[]),
    ]);
    start(&mut sim, "a.service");
    kill_main(&mut sim, "b.service");
    let before = sim
        .state
        .unit(sim.state.find("a.service").unwrap())
        .invocation;
    sim.request("b.service", JobVerb::Start, JobMode::RestartDependencies);
    sim.settle();
    states(&sim, &[("a.service", Active), ("b.service", Active)]);
    assert_ne!(
        sim.state
            .unit(sim.state.find("a.service").unwrap())
            .invocation,
        before
    );
}

#[test]
fn conditions_skip_and_asserts_fail() {
    for (assert, result, dependent) in [
        (false, JobResult::Skipped, Active),
        (true, JobResult::Assert, Inactive),
    ] {
        let mut checked = unit("b.service", &[]);
        checked.spec.as_mut().unwrap().checks = [Check {
            text: "ConditionPathExists=/x".into(),
            assert,
            trigger: false,
        }]
        .into();
        let mut sim = Sim::new(
            7,
            Odds {
                check_fails: 100,
                ..Odds::KIND
            },
        );
        sim.load(vec![
            checked,
            unit(
                "a.service",
                &[(Requires, "b.service"), (After, "b.service")],
            ),
        ]);
        start(&mut sim, "a.service");
        assert_eq!(sim.result_of("b.service"), Some(result));
        states(&sim, &[("a.service", dependent), ("b.service", Inactive)]);
    }
}

#[test]
fn stop_when_unneeded_follows_the_last_user() {
    let mut helper = unit("helper.service", &[]);
    settings_of(&mut helper).stop_when_unneeded = true;
    let mut sim = world_of(vec![
        helper,
        unit("a.service", &[(Requires, "helper.service")]),
    ]);
    start(&mut sim, "a.service");
    states(&sim, &[("helper.service", Active)]);
    sim.request("a.service", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    states(
        &sim,
        &[("a.service", Inactive), ("helper.service", Inactive)],
    );
}

#[test]
fn restart_policy_restarts_and_the_start_limit_ends_it() {
    let mut loop_unit = unit("a.service", &[]);
    service_of(&mut loop_unit).restart = Restart::Always;
    service_of(&mut loop_unit).restart_sec = Span(0);
    settings_of(&mut loop_unit).start_limit = RateLimit {
        interval: Span::secs(3600),
        burst: 3,
    };
    let mut sim = world_of(vec![loop_unit]);
    start(&mut sim, "a.service");
    for _ in 0..5 {
        if sim.active("a.service") == Active {
            kill_main(&mut sim, "a.service");
        }
        sim.run(50);
    }
    states(&sim, &[("a.service", Failed)]);
    // A person who starts it by hand is not refused.
    start(&mut sim, "a.service");
    states(&sim, &[("a.service", Active)]);
}

#[test]
fn job_timeout_ends_a_job_that_gets_nowhere() {
    let mut slow = unit("a.service", &[(OnFailure, "f.target")]);
    service_of(&mut slow).service_type = ServiceType::Notify;
    service_of(&mut slow).timeout_start = Span::INFINITY;
    settings_of(&mut slow).job_timeout = Span::secs(5);
    let mut sim = world_of(vec![slow, unit("f.target", &[])]);
    start(&mut sim, "a.service");
    assert_eq!(sim.result_of("a.service"), Some(JobResult::Timeout));
    states(&sim, &[("f.target", Active)]);
}

#[test]
fn manual_refusals_say_so() {
    let mut a = unit("a.service", &[]);
    settings_of(&mut a).refuse_manual_start = true;
    let mut sim = world_of(vec![a, unit("b.service", &[(Requires, "a.service")])]);
    assert!(matches!(
        sim.start("a.service"),
        Answer::Refused(Refusal::ManualRefused { .. })
    ));
    start(&mut sim, "b.service");
    states(&sim, &[("a.service", Active)]);
    assert!(matches!(
        sim.start("nobody.service"),
        Answer::Refused(Refusal::UnknownUnit(_))
    ));
}

#[test]
fn masked_units_are_refused_but_can_be_stopped() {
    let mut sim = world(&[("a.service", &[])]);
    start(&mut sim, "a.service");
    sim.event(What::Loaded(vec![LoadedUnit {
        name: "a.service".into(),
        aliases: Vec::new(),
        load: LoadState::Masked,
        spec: None,
    }]));
    states(&sim, &[("a.service", Active)]);
    let Answer::Refused(refusal) = sim.request("a.service", JobVerb::Restart, JobMode::Replace)
    else {
        panic!("not refused")
    };
    assert_eq!(refusal.to_string(), "Unit a.service is masked.");
    sim.request("a.service", JobVerb::Stop, JobMode::Replace);
    sim.settle();
    states(&sim, &[("a.service", Inactive)]);
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
fn why_names_the_waits_and_the_cause() {
    let mut slow = unit("db.service", &[]);
    service_of(&mut slow).service_type = ServiceType::Notify;
    let mut sim = world_of(vec![
        slow,
        unit(
            "web.service",
            &[(Requires, "db.service"), (After, "db.service")],
        ),
        unit(
            "all.target",
            &[(Wants, "web.service"), (After, "web.service")],
        ),
    ]);
    sim.start("all.target");
    let why = sim.state.why(sim.state.find("web.service").unwrap());
    let job = why.job.clone().unwrap();
    assert_eq!(
        job.wanted_by,
        [
            Cause::Dependency {
                unit: "all.target".into(),
                kind: Wants
            },
            Cause::Request(1)
        ]
    );
    assert_eq!(
        job.waits_for,
        [Wait::Job {
            unit: "db.service".into(),
            job_type: JobType::Start,
            kind: After
        }]
    );
    assert!(
        why.to_string()
            .contains("waits for the start job of db.service (After)"),
        "{why}"
    );
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
