//! Runs from the order of their machines to their end.

use std::time::Duration;

use muster_lifecycle::State;
use muster_orchestrate::{Job, RunOutcome, Stream, Why};
use muster_provider::sim::{SimFaults, SimSettings};

use crate::rig::{World, eventually, steps, work};

fn failed(job: Job, why: Why) -> RunOutcome {
    RunOutcome::Failed { job, why }
}

#[tokio::test]
async fn machines_are_made_used_and_gone() {
    let world = World::new();
    let manager = world.start().await;
    let text = "
name: fan-out
machines: {a: {template: t, count: 3}}
steps:
- {name: boot, actions: [{script: {text: 'x'}}, {file: {to: /etc/x, content: hello}}]}
- {name: work, parallel: 2, actions: [{run: {command: [do, say, done], env: {A: b}, cwd: /src}}]}
";
    let (run, outcome) = manager.carry_out(text).await;
    assert_eq!(outcome, RunOutcome::Succeeded);
    assert_eq!(world.machines(), 0);
    let begun = manager.begun(&run).await;
    let position = |text: &str| begun.iter().position(|it| it == text).unwrap();
    assert!(
        position("boot on a/2") < position("work on a/0"),
        "{begun:?}"
    );
    assert!(
        position("work on a/2") < position("clean up a/0"),
        "{begun:?}"
    );
    assert_eq!(begun.len(), 3 * 5);
    assert_eq!(world.deeds.count("say done"), 3);
    assert_eq!(world.deeds.count("/bin/sh"), 6, "a script and a file each");
    let page = manager.runs.log(&run, 0).await.unwrap();
    let said = page.records.iter().filter(|it| it.stream == Stream::Stdout);
    let said: Vec<_> = said
        .map(|it| (it.step.as_deref(), it.text.as_str()))
        .collect();
    assert_eq!(said, [(Some("work"), "done"); 3]);
}

#[tokio::test]
async fn the_code_of_a_command_that_fails_is_the_runs_and_all_is_cleaned_up() {
    let world = World::new();
    let manager = world.start().await;
    let (run, outcome) = manager.carry_out(&steps(&["exit 7", "say never"])).await;
    assert_eq!(
        outcome,
        failed(work("s0"), Why::Exit { action: 0, code: 7 })
    );
    assert_eq!(outcome.exit_code(), 7);
    assert_eq!(world.deeds.count("say never"), 0);
    assert_eq!(world.machines(), 0);
    assert!(manager.log(&run).await.contains("ended with code 7"));
    for (command, code) in [("kill", 137), ("missing", 127), ("plain", 126)] {
        let (_, outcome) = manager.carry_out(&steps(&[command])).await;
        assert_eq!(outcome.exit_code(), code, "{outcome}");
    }
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_and_cleaned_up_after() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["hang"]).replace("name: s0,", "name: s0, timeout: 50ms,");
    let (_, outcome) = manager.carry_out(&text).await;
    assert_eq!(outcome, failed(work("s0"), Why::TimedOut));
    assert_eq!(world.machines(), 0);
    let text = steps(&["hang"]).replace("name: test", "name: test\ntimeout: 50ms");
    let (_, outcome) = manager.carry_out(&text).await;
    // Wherever it was by then.
    assert_eq!(outcome, RunOutcome::Expired);
    assert_eq!(world.machines(), 0);
}

#[tokio::test]
async fn a_cancelled_run_kills_its_command_and_leaves_no_machine() {
    let world = World::new();
    let manager = world.start().await;
    let run = manager.begin(&steps(&["hang", "say never"])).await;
    manager.until_running(&run, &work("s0")).await;
    eventually(|| world.deeds.count("hang") == 1).await;
    let machine = manager.machine(&run, "a/0").await;
    assert_eq!(
        manager.machines.get(&machine).unwrap().work().commands,
        1,
        "it is busy"
    );
    manager.runs.cancel(&run).await.unwrap();
    assert_eq!(manager.wait(&run).await, RunOutcome::Cancelled);
    eventually(|| world.deeds.count("killed") == 1).await;
    assert_eq!(world.machines(), 0);
    assert_eq!(world.deeds.count("say never"), 0);
    assert_eq!(manager.machines.get(&machine).unwrap().work().commands, 0);
    assert!(manager.runs.cancel(&run).await.is_err(), "it is over");
}

#[tokio::test]
async fn a_cancellation_while_machines_are_made_leaves_none() {
    let world = World::with(SimSettings {
        boot: Duration::from_secs(3600),
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let text = steps(&["ok"]).replace("template: t", "template: t, count: 5");
    let run = manager.begin(&text).await;
    eventually(|| world.machines() == 5).await;
    manager.runs.cancel(&run).await.unwrap();
    assert_eq!(manager.wait(&run).await, RunOutcome::Cancelled);
    assert_eq!(world.machines(), 0);
}

#[tokio::test]
async fn a_machine_is_waited_for_until_it_answers_and_not_for_ever() {
    let mut world = World::new();
    world.silent = 7;
    let manager = world.start().await;
    let (_, outcome) = manager.carry_out(&steps(&["ok"])).await;
    assert_eq!(outcome, RunOutcome::Succeeded);
    drop(manager);
    let mut world = World::new();
    world.silent = u32::MAX;
    let manager = world.start().await;
    let text = steps(&["ok"]).replace("template: t", "template: t, ready: {timeout: 30ms}");
    let (_, outcome) = manager.carry_out(&text).await;
    let RunOutcome::Failed {
        job: Job::Ready(_),
        why,
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert!(why.to_string().contains("not ready in time"), "{why}");
    assert_eq!(world.machines(), 0);
    assert_eq!(world.deeds.count("ok"), 0);
}

#[tokio::test]
async fn what_fails_is_tried_again_as_often_as_it_says() {
    let world = World::new();
    let manager = world.start().await;
    let flaky = |attempts: u32| {
        steps(&["flaky 3"]).replace(
            "name: s0,",
            &format!("name: s0, attempts: {attempts}, delay: 1ms,"),
        )
    };
    let (_, outcome) = manager.carry_out(&flaky(2)).await;
    assert_eq!(
        outcome,
        failed(work("s0"), Why::Exit { action: 0, code: 1 })
    );
    assert_eq!(world.deeds.count("flaky 3"), 2);
    let (_, outcome) = manager.carry_out(&flaky(2)).await;
    assert_eq!(
        outcome,
        RunOutcome::Succeeded,
        "the third time it goes well"
    );
    assert_eq!(world.deeds.count("flaky 3"), 3);
}

#[tokio::test]
async fn machines_that_cannot_be_made_fail_the_run_and_leave_nothing() {
    let world = World::with(SimSettings {
        faults: SimFaults {
            fail: 1000,
            ..SimFaults::default()
        },
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let text = steps(&["ok"]).replace(
        "template: t",
        "template: t, provision: {attempts: 2, delay: 1ms}",
    );
    let run = manager.begin(&text).await;
    eventually(|| {
        let all = manager.machines.all();
        all.values()
            .filter(|it| it.record().state().is_ending())
            .count()
            == 2
    })
    .await;
    // What may have been made is looked for until the cloud answers.
    world.cloud.set(SimSettings::default());
    let outcome = manager.wait(&run).await;
    assert!(
        matches!(
            outcome,
            RunOutcome::Failed {
                job: Job::Provision(_),
                ..
            }
        ),
        "{outcome:?}"
    );
    assert_eq!(world.machines(), 0);
    assert_eq!(outcome.exit_code(), 125);
    let unknown = steps(&["ok"]).replace("template: t", "template: unknown");
    let (_, outcome) = manager.carry_out(&unknown).await;
    assert!(outcome.to_string().contains("there is none"), "{outcome}");
}

#[tokio::test]
async fn machines_are_stopped_or_kept_as_the_workflow_says() {
    let world = World::new();
    let manager = world.start().await;
    let ends = "template: t, end: stop, endOnFailure: keep";
    let (run, outcome) = manager
        .carry_out(&steps(&["ok"]).replace("template: t", ends))
        .await;
    assert_eq!(outcome, RunOutcome::Succeeded);
    let stopped = manager.machine(&run, "a/0").await;
    assert!(matches!(manager.state(&stopped), State::Stopped(_)));
    let (run, _) = manager
        .carry_out(&steps(&["exit 1"]).replace("template: t", ends))
        .await;
    let kept = manager.machine(&run, "a/0").await;
    assert_eq!(manager.state(&kept), State::Running);
    assert_eq!(
        manager.machines.get(&kept).unwrap().work().commands,
        0,
        "nobody works on it"
    );

    // One that is stopped is started for another run, and stays.
    let again = format!("machine: {stopped}");
    let (_, outcome) = manager
        .carry_out(&steps(&["ok"]).replace("template: t", &again))
        .await;
    assert_eq!(outcome, RunOutcome::Succeeded);
    assert_eq!(manager.state(&stopped), State::Running);
    let unknown = steps(&["ok"]).replace("template: t", "machine: m-unknown");
    let (_, outcome) = manager.carry_out(&unknown).await;
    assert!(outcome.to_string().contains("m-unknown"), "{outcome}");
    assert_eq!(world.machines(), 2);
}

#[tokio::test]
async fn what_is_done_always_is_done_after_a_failure() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["exit 3", "say collected", "say never"])
        .replace("name: s1,", "name: s1, when: always,");
    let (_, outcome) = manager.carry_out(&text).await;
    assert_eq!(outcome.exit_code(), 3);
    assert_eq!(world.deeds.count("say collected"), 1);
    assert_eq!(world.deeds.count("say never"), 0);
}

#[tokio::test]
async fn hundreds_of_machines_work_at_once_and_are_gone() {
    let world = World::new();
    let manager = world.start().await;
    let text = "
name: many
parallel: 64
machines: {a: {template: t, count: 200}}
steps:
- {name: first, actions: [{run: {command: [do, ok, first]}}]}
- {name: second, parallel: 7, actions: [{run: {command: [do, ok, second]}}]}
";
    let (run, outcome) = manager.carry_out(text).await;
    assert_eq!(outcome, RunOutcome::Succeeded);
    assert_eq!(manager.begun(&run).await.len(), 5 * 200);
    assert_eq!(world.deeds.count("ok second"), 200);
    assert_eq!(world.machines(), 0);
}

#[tokio::test]
async fn a_machine_that_is_free_is_taken_if_that_is_wanted() {
    let world = World::new();
    let manager = world.start().await;
    let order = crate::fake::sim_order("t");
    let free = manager.machines.provision(order).await.unwrap().id.clone();
    let text = format!(
        "name: w\nmachines: {{a: {{template: free, reuse: true, set: {{id: {free}}}, end: keep}}}}\nsteps: [{{name: s0, actions: [{{run: {{command: [do, hang]}}}}]}}]"
    );
    let run = manager.begin(&text).await;
    manager.until_running(&run, &work("s0")).await;
    assert_eq!(manager.machine(&run, "a/0").await, free);
    let now = muster_provider::Clock::now(&muster_provider::SystemClock);
    let machine = manager.machines.get(&free).unwrap();
    assert!(machine.work().is_busy(now), "nobody else takes it");
    manager.runs.cancel(&run).await.unwrap();
    manager.wait(&run).await;
    assert_eq!(manager.state(&free), State::Running);
    assert_eq!(world.machines(), 1, "none was made");
}
