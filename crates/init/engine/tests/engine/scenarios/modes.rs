//! Job modes, settings that steer jobs, and explanations.

use muster_engine::dep::DepKind::*;
use muster_engine::event::{Answer, LoadState, LoadedUnit, What};
use muster_engine::explain::{Cause, Wait};
use muster_engine::ids::Span;
use muster_engine::job::{JobMode, JobResult, JobType, JobVerb};
use muster_engine::protocol::ActiveState::{Active, Failed, Inactive};
use muster_engine::protocol::ExecKind;
use muster_engine::spec::{Check, CommandSpec, RateLimit, Restart, ServiceType};
use muster_engine::transaction::Refusal;

use super::{kill_main, start, states, world, world_of};
use crate::sim::{Odds, Sim, service_of, settings_of, unit};

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
fn the_reload_of_an_idle_service_waits_until_it_is_really_up() {
    let mut idle = unit("a.service", &[]);
    let service = service_of(&mut idle);
    service.service_type = ServiceType::Idle;
    let mut commands = service.commands.to_vec();
    commands.push(CommandSpec {
        kind: ExecKind::Reload,
        ignore_failure: false,
    });
    service.commands = commands.into();
    let mut sim = world_of(vec![idle]);
    sim.start("a.service");
    // It counts as up already, and its process is still to come.
    states(&sim, &[("a.service", Active)]);
    sim.request("a.service", JobVerb::Reload, JobMode::Replace);
    sim.settle();
    assert_eq!(sim.result_of("a.service"), Some(JobResult::Done));
    states(&sim, &[("a.service", Active)]);
}

#[test]
fn a_restart_that_cannot_be_queued_ends_the_start_that_waits_for_it() {
    let mut flaky = unit("a.service", &[]);
    service_of(&mut flaky).restart = Restart::Always;
    // Whatever restarts a restarts b along, and b needs a down.
    let rival = unit(
        "b.service",
        &[
            (Requisite, "a.service"),
            (Wants, "a.service"),
            (Conflicts, "a.service"),
        ],
    );
    let mut sim = Sim::new(
        7,
        Odds {
            spawn_fails: 100,
            ..Odds::KIND
        },
    );
    sim.load(vec![flaky, rival]);
    sim.request("b.service", JobVerb::Restart, JobMode::IgnoreDependencies);
    sim.request("a.service", JobVerb::Start, JobMode::Fail);
    sim.settle();
    states(&sim, &[("a.service", Failed)]);
    assert_eq!(sim.result_of("a.service"), Some(JobResult::Failed));
}
