//! A namespace of processes: what is in it, what gets through to it, and how it ends.

use muster_exec::ExecContext;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::{eventually, failure, is_root, run, sandboxed, start};

fn with_pids(script: &str) -> ExecContext {
    sandboxed(script, |sandbox| sandbox.namespaces.pids = true)
}

/// The children of a process.
fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let numbers = text.split_whitespace().map(|n| n.parse().unwrap());
    numbers.filter_map(Pid::from_raw).collect()
}

/// A process's number in the innermost namespace that it is in.
fn inner_number(pid: Pid) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
    line.split_whitespace().last().map(str::to_owned)
}

#[test]
fn the_program_is_the_second_of_its_own() {
    if !is_root("the_program_is_the_second_of_its_own") {
        return;
    }
    let mut context = with_pids("echo $$ $OWN");
    context.pid_variables = vec!["OWN".into()];
    let ran = run(&context);
    assert_eq!(ran.output, "2 2\n");
    assert_eq!(ran.status.exit_status(), Some(0));
    assert!(ran.report.program.is_some_and(|pid| pid > 2));
}

#[test]
fn it_ends_as_the_program_ends() {
    if !is_root("it_ends_as_the_program_ends") {
        return;
    }
    assert_eq!(run(&with_pids("exit 7")).status.exit_status(), Some(7));
    let killed = run(&with_pids("kill -9 $$")).status;
    assert_eq!(killed.terminating_signal(), Some(libc::SIGKILL));
    let killed = run(&with_pids("kill -TERM $$")).status;
    assert_eq!(killed.terminating_signal(), Some(libc::SIGTERM));
}

#[test]
fn signals_are_passed_on() {
    if !is_root("signals_are_passed_on") {
        return;
    }
    let script = "trap 'echo heard; exit 5' USR1; echo ready; while :; do sleep 0.01; done";
    let mut running = start(&with_pids(script));
    assert_eq!(running.line(), "ready");
    kill_process(running.pid(), Signal::USR1).unwrap();
    let ran = running.finish();
    assert_eq!(
        (&*ran.output, ran.status.exit_status()),
        ("heard\n", Some(5))
    );
    // One that it has no handler for is deadly, as everywhere.
    let mut running = start(&with_pids("echo ready; exec sleep 1000"));
    assert_eq!(running.line(), "ready");
    kill_process(running.pid(), Signal::TERM).unwrap();
    let ran = running.finish();
    assert_eq!(ran.status.terminating_signal(), Some(libc::SIGTERM));
}

#[test]
fn nothing_outlives_the_program() {
    if !is_root("nothing_outlives_the_program") {
        return;
    }
    // The pipe ends only when nobody has it any more.
    let ran = run(&with_pids("setsid sh -c 'sleep 1000' & echo started"));
    assert_eq!(ran.output, "started\n");
    assert_eq!(ran.status.exit_status(), Some(0));
}

#[test]
fn nothing_outlives_the_process_that_the_manager_knows() {
    if !is_root("nothing_outlives_the_process_that_the_manager_knows") {
        return;
    }
    let mut running = start(&with_pids(
        "trap '' TERM; echo ready; sleep 1000; sleep 1000",
    ));
    assert_eq!(running.line(), "ready");
    let report = running.report();
    let program = report.program.unwrap().cast_signed();
    kill_process(running.pid(), Signal::KILL).unwrap();
    let ran = running.finish();
    assert_eq!(ran.status.terminating_signal(), Some(libc::SIGKILL));
    let program = Pid::from_raw(program).unwrap();
    eventually("the program ends", || inner_number(program).is_none());
}

#[test]
fn orphans_are_taken_in() {
    if !is_root("orphans_are_taken_in") {
        return;
    }
    let mut running = start(&with_pids(
        "sh -c 'sleep 0.01 & :'; echo ready; read end < /dev/zero; sleep 1000",
    ));
    assert_eq!(running.line(), "ready");
    let inside = children(running.pid());
    let first = inside
        .iter()
        .find(|pid| inner_number(**pid).as_deref() == Some("1"));
    let first = *first.expect("there is a first process");
    eventually("no orphan is left", || children(first).is_empty());
    kill_process(running.pid(), Signal::KILL).unwrap();
    running.finish();
}

/// The first process is the one that every other of the namespace can see.
#[test]
fn the_first_process_has_nothing_to_give() {
    if !is_root("the_first_process_has_nothing_to_give") {
        return;
    }
    let mut running = start(&with_pids("echo ready; sleep 1000"));
    assert_eq!(running.line(), "ready");
    running.report();
    let inside = children(running.pid());
    assert_eq!(inside.len(), 2);
    let first = inside
        .iter()
        .find(|pid| inner_number(**pid).as_deref() == Some("1"));
    let folder = format!("/proc/{}", first.unwrap().as_raw_nonzero());
    let status = std::fs::read_to_string(format!("{folder}/status")).unwrap();
    assert_eq!(crate::rig::mask(&status, "CapPrm"), 0);
    let entries = |name: &str| {
        std::fs::read_dir(format!("{folder}/{name}"))
            .unwrap()
            .count()
    };
    assert_eq!((entries("root"), entries("fd")), (0, 0));
    let mounts = std::fs::read_to_string(format!("{folder}/mountinfo")).unwrap();
    assert_eq!(mounts.lines().count(), 1, "{mounts}");
    kill_process(running.pid(), Signal::TERM).unwrap();
    running.finish();
}

#[test]
fn a_failure_inside_is_the_exit_code_outside() {
    if !is_root("a_failure_inside_is_the_exit_code_outside") {
        return;
    }
    let mut context = with_pids("echo ran");
    context.program = "/no/such".into();
    let (step, _) = failure(&context);
    assert_eq!(step, muster_exec::Step::Exec);
}
