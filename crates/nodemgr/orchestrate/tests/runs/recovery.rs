//! A manager that ends in the middle, and the next one.

use std::time::Duration;

use muster_orchestrate::{Entry, RunOutcome, Why};
use muster_provider::sim::SimSettings;

use crate::rig::{World, eventually, steps, work};

#[tokio::test]
async fn a_command_that_was_under_way_is_reported_and_not_repeated() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["hang"]);
    let run = manager.begin(&text).await;
    eventually(|| world.deeds.count("hang") == 1).await;
    manager.die().await;

    let manager = world.start().await;
    let outcome = manager.wait(&run).await;
    let (job, why) = (work("s0"), Why::Interrupted);
    assert_eq!(
        outcome,
        RunOutcome::Failed {
            job: job.clone(),
            why
        }
    );
    assert_eq!(outcome.exit_code(), 125);
    let journal = manager.journal(&run).await;
    assert!(
        journal.contains(&Entry::Interrupted { job, attempt: 1 }),
        "{journal:?}"
    );
    assert_eq!(world.deeds.count("hang"), 1);
    // What goes on in the machine is ended first.
    assert_eq!(world.deeds.count("/bin/sh"), 1);
    assert_eq!(world.machines(), 0);
}

#[tokio::test]
async fn a_repeatable_command_is_done_again_on_the_same_machine() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["say first", "hang", "say last"]).replace(
        "name: s1,",
        "name: s1, timeout: 1h, attempts: 2, delay: 1ms,",
    );
    let run = manager.begin(&text).await;
    eventually(|| world.deeds.count("hang") == 1).await;
    let machine = manager.machine(&run, "a/0").await;
    manager.die().await;

    let manager = world.start().await;
    eventually(|| world.deeds.count("hang") == 2).await;
    // What is left of the first attempt is ended before the second begins.
    assert_eq!(done(&world), ["say first", "hang", "/bin/sh", "hang"]);
    assert_eq!(manager.machine(&run, "a/0").await, machine);
    assert_eq!(
        manager.machines.get(&machine).unwrap().work().commands,
        1,
        "busy again"
    );
    assert_eq!(world.deeds.count("say first"), 1, "what is done stays done");
    assert_eq!(world.machines(), 1);
    manager.runs.cancel(&run).await.unwrap();
    assert_eq!(manager.wait(&run).await, RunOutcome::Cancelled);
    assert_eq!(world.machines(), 0);
    assert!(
        manager.log(&run).await.contains("first"),
        "the log goes on where it was"
    );
}

/// What was done, but for the words of executors themselves.
fn done(world: &World) -> Vec<String> {
    let lines = world.deeds.lines();
    let done = lines.iter().filter_map(|it| it.split_once(' '));
    let done = done.map(|(_, words)| words.to_owned());
    done.filter(|words| words != "killed").collect()
}

#[tokio::test]
async fn what_is_done_always_does_not_run_beside_what_was_interrupted() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["hang", "ok"]).replace("name: s1,", "name: s1, when: always,");
    let run = manager.begin(&text).await;
    eventually(|| world.deeds.count("hang") == 1).await;
    manager.die().await;

    let manager = world.start().await;
    assert!(!manager.wait(&run).await.is_success());
    // Once more before the machine is put away: of what was ended, nobody hears.
    assert_eq!(done(&world), ["hang", "/bin/sh", "ok", "/bin/sh"]);
}

#[tokio::test]
async fn a_command_whose_connection_was_lost_is_ended_before_it_is_done_again() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["lose"]).replace("name: s0,", "name: s0, attempts: 2, delay: 1ms,");
    let (_, outcome) = manager.carry_out(&text).await;
    assert_eq!(outcome.exit_code(), 125, "{outcome}");
    assert_eq!(done(&world), ["lose", "/bin/sh", "lose", "/bin/sh"]);
    // Of one that ended by itself, nothing is left.
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["exit 3"]).replace("name: s0,", "name: s0, attempts: 2, delay: 1ms,");
    manager.carry_out(&text).await;
    assert_eq!(done(&world), ["exit 3", "exit 3"]);
}

#[tokio::test]
async fn what_goes_on_is_ended_as_everybody_whom_it_ran_as() {
    let world = World::new();
    let manager = world.start().await;
    let text = "
name: w
machines: {a: {template: t}}
steps:
- name: s
  attempts: 2
  delay: 1ms
  actions:
  - run: {command: [do, ok], user: you}
  - run: {command: [do, lose], user: me}
";
    let (_, outcome) = manager.carry_out(text).await;
    assert_eq!(outcome.exit_code(), 125, "{outcome}");
    let step = ["you: ok", "me: lose"];
    let ended = ["/bin/sh", "me: /bin/sh", "you: /bin/sh"];
    assert_eq!(done(&world), [&step[..], &ended, &step, &ended].concat());
}

#[tokio::test]
async fn a_step_of_which_something_may_go_on_is_not_done_again_unless_that_does_no_harm() {
    let text = |says: &str, user: &str| {
        format!(
            "name: w\nmachines: {{a: {{template: t}}}}\nsteps: [{{name: s, attempts: 2, delay: 1ms, {says}actions: \
             [{{run: {{command: [do, lose]}}}}, {{run: {{command: [do, ok], user: {user}}}}}]}}]"
        )
    };
    let unsure = "s: what was interrupted may go on in the machine: as closed:";
    for (says, user, times, notes) in [
        ("", "closed", 1, 2),
        ("repeatable: true, ", "closed", 2, 2),
        // Nothing runs as somebody whom the machine does not know.
        ("", "stranger", 2, 0),
    ] {
        let world = World::new();
        let manager = world.start().await;
        let (run, outcome) = manager.carry_out(&text(says, user)).await;
        let log = manager.log(&run).await;
        assert_eq!(outcome.exit_code(), 125, "{log}");
        assert_eq!(world.deeds.count("lose"), times, "{says}{user}: {log}");
        assert_eq!(log.contains(unsure), user == "closed", "{log}");
        let told = log.matches("may go on in the machine").count();
        assert_eq!(told, notes, "{says}{user}: {log}");
    }
}

#[tokio::test]
async fn a_cancelled_run_that_was_taken_over_leaves_nothing_at_work_in_a_machine_that_stays() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["hang"])
        .replace("name: s0,", "name: s0, attempts: 2, delay: 1h,")
        .replace("template: t", "template: t, end: keep, endOnFailure: keep");
    let run = manager.begin(&text).await;
    eventually(|| world.deeds.count("hang") == 1).await;
    manager.die().await;

    let manager = world.start().await;
    manager.runs.cancel(&run).await.unwrap();
    assert_eq!(manager.wait(&run).await, RunOutcome::Cancelled);
    assert_eq!(world.machines(), 1);
    assert_eq!(world.deeds.count("hang"), 1);
    assert_eq!(world.deeds.count("/bin/sh"), 1, "what went on was ended");
}

#[tokio::test]
async fn a_machine_that_was_being_made_is_the_runs_after_a_restart() {
    let world = World::with(SimSettings {
        boot: Duration::from_millis(300),
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let text = steps(&["ok"]).replace("template: t", "template: t, count: 3");
    let run = manager.begin(&text).await;
    eventually(|| world.machines() >= 1).await;
    manager.die().await;

    let manager = world.start().await;
    assert_eq!(manager.wait(&run).await, RunOutcome::Succeeded);
    assert_eq!(world.deeds.count("ok"), 3);
    assert_eq!(world.machines(), 0);
    assert_eq!(
        manager.machines.all().len(),
        3,
        "no machine was ordered twice"
    );
}

#[tokio::test]
async fn a_cancellation_is_not_forgotten() {
    let world = World::new();
    let manager = world.start().await;
    let run = manager.begin(&steps(&["hang"])).await;
    eventually(|| world.deeds.count("hang") == 1).await;
    manager.runs.cancel(&run).await.unwrap();
    manager.die().await;

    let manager = world.start().await;
    assert_eq!(manager.wait(&run).await, RunOutcome::Cancelled);
    assert_eq!(world.machines(), 0);
}
