//! Runs that everybody should recognise.

use muster_lifecycle::Moment;

use super::world::{World, done, failed, workflow};
use crate::entry::{Entry, JobResult, RunOutcome, Why};
use crate::job::{Job, Slot};

const TWO: &str = "
name: w
timeout: 1h
machines: {a: {template: t, count: 2, provision: {attempts: 2, delay: 10s}}}
steps:
- {name: build, attempts: 2, delay: 1s, actions: [{script: {text: x}}]}
- {name: collect, when: always, actions: [{script: {text: x}}]}
- {name: report, actions: [{script: {text: x}}]}
";

fn work(step: &str, index: u32) -> Job {
    let slot = Slot::new("a", index);
    let step = step.into();
    Job::Work { step, slot }
}

fn begun(world: &World) -> Vec<String> {
    let entries = world.journal.iter().filter_map(|(_, entry)| match entry {
        Entry::Begun { job, .. } => Some(job.to_string()),
        _ => None,
    });
    entries.collect()
}

/// Ends everything under way well, until this job is under way.
fn advance(world: &mut World, until: &Job) {
    while !world.running().contains(until) {
        let job = world.running()[0].clone();
        world.end(&job, done(&job));
        world.settle();
    }
}

#[test]
fn everything_is_done_in_order_and_cleaned_up() {
    let mut world = World::new(&workflow(TWO));
    let outcome = world.finish(|_| 0, |job, _| done(job));
    assert_eq!(outcome, RunOutcome::Succeeded);
    assert_eq!(
        begun(&world),
        [
            "provision a/0",
            "provision a/1",
            "wait for a/0",
            "wait for a/1",
            "build on a/0",
            "build on a/1",
            "collect on a/0",
            "collect on a/1",
            "report on a/0",
            "report on a/1",
            "clean up a/0",
            "clean up a/1",
        ]
    );
}

#[test]
fn after_a_failure_only_what_is_done_always_begins_and_the_first_failure_counts() {
    let mut world = World::new(&workflow(TWO));
    let outcome = world.finish(
        |_| 0,
        |job, _| match job.step() {
            Some("build") if job.slot().index() == 1 => failed(),
            Some("collect") => failed(),
            _ => done(job),
        },
    );
    let why = Why::Exit { action: 0, code: 1 };
    assert_eq!(
        outcome,
        RunOutcome::Failed {
            job: work("build", 1),
            why
        }
    );
    let begun = begun(&world);
    assert_eq!(
        begun.iter().filter(|it| it.starts_with("collect")).count(),
        2
    );
    assert_eq!(
        begun.iter().filter(|it| it.starts_with("report")).count(),
        0
    );
    assert_eq!(
        begun.iter().filter(|it| *it == "build on a/1").count(),
        2,
        "two attempts"
    );
}

#[test]
fn a_failed_attempt_is_repeated_after_its_delay_and_not_before() {
    let mut world = World::new(&workflow(TWO));
    world.settle();
    let job = Job::Provision(Slot::new("a", 0));
    world.end(&job, failed());
    assert!(!world.settle().contains(&job));
    assert!(!world.running().contains(&job));
    let next = world.engine.next(world.now);
    assert_eq!(next.wake, Some(Moment::from_millis(11_000)));
    world.now = Moment::from_millis(11_000);
    world.settle();
    assert!(world.running().contains(&job));
}

#[test]
fn a_cancellation_aborts_what_is_under_way_and_cleans_up() {
    let mut world = World::new(&workflow(TWO));
    world.settle();
    advance(&mut world, &work("build", 0));
    world.write(Entry::CancelAsked);
    let abort = world.settle();
    let ready = Job::Ready(Slot::new("a", 1));
    assert_eq!(abort, [ready, work("build", 0)]);
    // One of them comes to its end before it hears of it.
    world.end(&work("build", 0), done(&work("build", 0)));
    let outcome = world.finish(|_| 0, |job, _| done(job));
    assert_eq!(outcome, RunOutcome::Cancelled);
    assert!(!begun(&world).iter().any(|it| it.starts_with("collect")));
}

#[test]
fn a_run_that_takes_too_long_is_ended_and_cleaning_takes_its_time() {
    let mut world = World::new(&workflow(TWO));
    world.settle();
    world.now = Moment::from_millis(1000 + 60 * 60 * 1000);
    assert_eq!(world.settle().len(), 2);
    for index in 0..2 {
        world.end(&Job::Provision(Slot::new("a", index)), JobResult::Aborted);
    }
    world.settle();
    world.now = Moment::from_millis(u64::MAX);
    let outcome = world.finish(|_| 0, |job, _| done(job));
    assert_eq!(outcome, RunOutcome::Expired);
}

#[test]
fn a_machine_that_cannot_be_cleaned_up_fails_the_run() {
    let mut world = World::new(&workflow(TWO));
    let outcome = world.finish(
        |_| 0,
        |job, _| match job.is_clean() {
            true => failed(),
            false => done(job),
        },
    );
    assert!(matches!(
        outcome,
        RunOutcome::Failed {
            job: Job::Clean(_),
            ..
        }
    ));
}

#[test]
fn a_command_that_was_interrupted_is_done_again_only_if_it_says_so() {
    for (says, again) in [
        ("attempts: 1", false),
        ("attempts: 2", true),
        ("repeatable: true", true),
    ] {
        let text = format!(
            "name: w\nmachines: {{a: {{template: t}}}}\nsteps: [{{name: s, {says}, actions: [{{script: {{text: x}}}}]}}]"
        );
        let workflow = workflow(&text);
        let mut world = World::new(&workflow);
        world.settle();
        advance(&mut world, &work("s", 0));
        let mut next = World::resumed(&workflow, &world.journal);
        let clean = Job::Clean(Slot::new("a", 0));
        assert_eq!(left_over(&next, &work("s", 0)), ["s"], "{says}");
        assert_eq!(left_over(&next, &clean), ["s"], "{says}");
        let mut cancelled = next.clone();
        cancelled.write(Entry::CancelAsked);
        cancelled.finish(|_| 0, |job, _| done(job));
        assert_eq!(left_over(&cancelled, &clean), ["s"], "{says}");
        let outcome = next.finish(|_| 0, |job, _| done(job));
        assert_eq!(left_over(&next, &clean).is_empty(), again, "{says}");
        match again {
            true => assert_eq!(outcome, RunOutcome::Succeeded, "{says}"),
            false => {
                let (job, why) = (work("s", 0), Why::Interrupted);
                assert_eq!(outcome, RunOutcome::Failed { job, why }, "{says}");
            }
        }
    }
}

fn left_over(world: &World, job: &Job) -> Vec<String> {
    let left = world.engine.left_over(job).into_iter();
    left.map(Into::into).collect()
}

#[test]
fn what_nobody_saw_the_end_of_is_ended_before_anything_else_begins_on_its_machine() {
    let trouble = || Why::Trouble {
        text: "the connection was lost".to_owned(),
    };
    let not_started = || Why::NotStarted {
        action: 0,
        code: 127,
        text: String::new(),
    };
    let signal = || Why::Signal {
        action: 0,
        signal: "KILL".to_owned(),
    };
    for (result, goes_on) in [
        (JobResult::Failed(trouble()), true),
        (JobResult::Failed(Why::TimedOut), true),
        (failed(), false),
        (JobResult::Failed(signal()), false),
        (JobResult::Failed(not_started()), false),
        (done(&work("build", 0)), false),
    ] {
        let mut world = World::new(&workflow(TWO));
        world.settle();
        advance(&mut world, &work("build", 1));
        let expected: &[&str] = if goes_on { &["build"] } else { &[] };
        world.end(&work("build", 0), result.clone());
        assert_eq!(left_over(&world, &work("build", 0)), expected, "{result:?}");
        // What is under way sees to itself, and other machines have nothing to do with it.
        if goes_on {
            world.wait();
            world.settle();
            assert_eq!(left_over(&world, &work("build", 0)), expected);
            assert!(left_over(&world, &work("collect", 0)).is_empty());
            world.end(&work("build", 0), JobResult::Failed(trouble()));
        }
        for job in [work("collect", 0), Job::Clean(Slot::new("a", 0))] {
            assert_eq!(left_over(&world, &job), expected, "{result:?}");
        }
        for job in [work("collect", 1), Job::Clean(Slot::new("a", 1))] {
            assert!(left_over(&world, &job).is_empty(), "{result:?}");
        }
    }
}

#[test]
fn what_was_aborted_may_go_on_and_what_only_copies_may_not() {
    let text = "name: w\nmachines: {a: {template: t}}\nsteps: [{name: s, actions: [ACTION]}]";
    for (action, expected) in [
        ("{script: {text: x}}", &["s"][..]),
        ("{run: {command: [x]}}", &["s"]),
        ("{upload: {from: /x, to: /x}}", &[]),
        ("{file: {to: /x, content: x}}", &[]),
    ] {
        let mut world = World::new(&workflow(&text.replace("ACTION", action)));
        world.settle();
        advance(&mut world, &work("s", 0));
        world.write(Entry::CancelAsked);
        world.end(&work("s", 0), JobResult::Aborted);
        let clean = Job::Clean(Slot::new("a", 0));
        assert_eq!(left_over(&world, &clean), expected, "{action}");
    }
}

#[test]
fn entries_that_do_not_fit_change_nothing() {
    let workflow = workflow(TWO);
    let mut world = World::new(&workflow);
    world.settle();
    let before = world.engine.clone();
    let job = work("build", 0);
    let stale = Job::Provision(Slot::new("a", 0));
    for entry in [
        Entry::Ended {
            job: job.clone(),
            attempt: 1,
            result: failed(),
        },
        Entry::Ended {
            job: stale,
            attempt: 7,
            result: JobResult::Aborted,
        },
        Entry::Interrupted {
            job: Job::Ready(Slot::new("z", 9)),
            attempt: 1,
        },
        Entry::Begun {
            job: Job::Ready(Slot::new("z", 9)),
            attempt: 1,
        },
    ] {
        world.engine.apply(world.now, &entry);
        assert_eq!(world.engine.jobs, before.jobs, "{entry:?}");
    }
}
