use std::os::unix::process::ExitStatusExt as _;

use super::*;
use crate::poll_until;
use crate::procs::process_row;

const TIME: Duration = Duration::from_secs(30);

fn shell(script: &str) -> Program {
    Program::new("/bin/sh").args(["-c", script])
}

/// The pid that a script printed as `name=<pid>`.
fn printed_pid(process: &mut Process, name: &str) -> i32 {
    let line = process.wait_for_line(&format!("{name}="), TIME).unwrap();
    line.text.split_once('=').unwrap().1.parse().unwrap()
}

fn is_alive(pid: i32) -> bool {
    process_row(pid).is_some_and(|row| !row.is_zombie())
}

#[test]
fn program_gets_what_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = shell("pwd; echo \"$1 $LAB_TEST ${HOME-none}\"; cat; echo oops >&2; exit 3")
        .args(["sh", "first"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("LAB_TEST", "value")
        .cwd(dir.path())
        .stdin("typed\n")
        .start()
        .unwrap();
    assert_eq!(process.wait(TIME).unwrap().code(), Some(3));
    let dir = dir.path().display();
    assert_eq!(
        process.text(Stream::Stdout),
        format!("{dir}\nfirst value none\ntyped\n")
    );
    assert_eq!(process.text(Stream::Stderr), "oops\n");
    assert_eq!(
        process.wait(Duration::ZERO).unwrap().code(),
        Some(3),
        "the end is remembered"
    );
}

#[test]
fn program_runs_as_another_user() {
    crate::require!(Root);
    let mut process = Program::new("/usr/bin/id")
        .user(65_534, 65_533)
        .start()
        .unwrap();
    process.wait_for_line("uid=65534", TIME).unwrap();
    let line = &process.lines()[0].text;
    assert!(
        line.contains("gid=65533") && !line.contains("(root)"),
        "{line}"
    );
}

#[test]
fn missing_program_is_named() {
    let error = Program::new("/no/such/program").start().unwrap_err();
    assert_eq!(error.to_string(), "cannot start /no/such/program");
}

#[test]
fn line_that_does_not_come_is_reported_with_the_output_so_far() {
    let mut process = shell("for i in $(seq 60); do echo line $i; done; exec sleep 600")
        .start()
        .unwrap();
    process.wait_for_line("line 60", TIME).unwrap();
    let error = process
        .wait_for_line("absent", Duration::from_millis(50))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("/bin/sh did not print \"absent\" within 50ms (it still runs)\n"));
    assert!(
        error.contains("last 50 of 60 lines:\n  out| line 11\n"),
        "{error}"
    );

    let mut process = shell("echo only; exit 4").start().unwrap();
    let error = process
        .wait_for_line("absent", TIME)
        .unwrap_err()
        .to_string();
    assert!(error.contains("(it ended with exit status: 4)"), "{error}");
}

#[test]
fn lines_after_a_mark_are_told_from_earlier_ones() {
    let mut process = shell("echo ready; read -r _; echo ready two")
        .start()
        .unwrap();
    process.wait_for_line("ready", TIME).unwrap();
    process.wait(TIME).unwrap();
    let lines = process.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        process
            .wait_for_line_after(Mark(1), "ready", TIME)
            .unwrap()
            .text,
        "ready two"
    );
    assert!(
        process
            .wait_for_line_after(process.mark(), "ready", TIME)
            .is_err()
    );
}

#[test]
fn killed_program_reports_the_signal_and_its_children_live_until_the_handle_goes() {
    let mut process = shell("sleep 600 & echo child=$!; wait").start().unwrap();
    let child = printed_pid(&mut process, "child");
    let status = process.kill9().unwrap();
    assert_eq!(status.signal(), Some(9));
    assert!(
        is_alive(child),
        "a crash of the main process leaves its children"
    );
    drop(process);
    assert!(!is_alive(child));
}

#[test]
fn program_that_left_its_session_and_parent_is_found_by_its_marker() {
    let mut process = shell("setsid sh -c 'echo far=$$; exec sleep 600' & exit 0")
        .start()
        .unwrap();
    let far = printed_pid(&mut process, "far");
    process.wait(TIME).unwrap();
    assert!(is_alive(far));
    drop(process);
    assert!(!is_alive(far));
}

#[test]
fn child_without_environment_is_found_by_its_session() {
    let mut process = shell("env -i /bin/sleep 600 & echo child=$!; wait")
        .start()
        .unwrap();
    let child = printed_pid(&mut process, "child");
    drop(process);
    assert!(!is_alive(child));
}

#[test]
fn program_that_keeps_forking_is_ended_with_all_it_forked() {
    let script = "echo up; while :; do setsid sleep 600 & sleep 0.002; done";
    let mut process = shell(script).start().unwrap();
    process.wait_for_line("up", TIME).unwrap();
    let marker = format!("MUSTER_LAB_PROGRAM={}", process_marker(process.pid()));
    let count = || {
        let table = crate::procs::process_table().unwrap();
        let alive = table.iter().filter(|row| !row.is_zombie());
        alive
            .filter(|row| crate::procs::environment_has(row.pid, &marker))
            .count()
    };
    poll_until(TIME, "a crowd", || count() > 20);
    drop(process);
    assert_eq!(count(), 0);
}

fn process_marker(pid: i32) -> String {
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let entry = |entry: &str| entry.strip_prefix("MUSTER_LAB_PROGRAM=").map(str::to_owned);
    environment.split('\0').find_map(entry).unwrap()
}

#[test]
fn stopped_program_does_nothing_until_it_goes_on() {
    let mut process = shell("trap 'echo hup' HUP; echo ready; while :; do sleep 0.01; done")
        .start()
        .unwrap();
    process.wait_for_line("ready", TIME).unwrap();
    process.sigstop().unwrap();
    let pid = process.pid();
    poll_until(TIME, "stopped", || {
        process_row(pid).is_some_and(|row| row.state == 'T')
    });
    process.signal(Signal::HUP).unwrap();
    assert!(
        process
            .wait_for_line("hup", Duration::from_millis(50))
            .is_err()
    );
    process.sigcont().unwrap();
    process.wait_for_line("hup", TIME).unwrap();
    assert!(process.is_running().unwrap());
}

#[test]
fn terminate_is_patient_then_final() {
    let mut polite = shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")
        .start()
        .unwrap();
    polite.wait_for_line("ready", TIME).unwrap();
    assert_eq!(polite.terminate(TIME).unwrap().code(), Some(7));

    let mut deaf = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")
        .start()
        .unwrap();
    deaf.wait_for_line("ready", TIME).unwrap();
    let error = deaf.terminate(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, ProgramError::StillRunning { .. }));
    assert_eq!(deaf.wait(Duration::ZERO).unwrap().signal(), Some(9));
}

#[test]
fn restart_runs_the_same_program_anew_and_keeps_its_earlier_children() {
    let mut process = shell("sleep 600 & echo child=$!; wait").start().unwrap();
    let (first, first_child) = (process.pid(), printed_pid(&mut process, "child"));
    process.restart().unwrap();
    let second_child = printed_pid(&mut process, "child");
    assert!(process.pid() != first && second_child != first_child);
    assert!(process.is_running().unwrap() && is_alive(first_child));
    assert_eq!(process.lines().len(), 1, "the output begins anew");
    drop(process);
    assert!(!is_alive(first_child) && !is_alive(second_child));
}

#[test]
fn program_outlives_the_thread_that_started_it() {
    let started = std::thread::spawn(|| shell("echo up; exec sleep 600").start().unwrap());
    let mut process = started.join().unwrap();
    process.wait_for_line("up", TIME).unwrap();
    assert!(
        process.wait(Duration::from_millis(100)).is_err(),
        "it must not die with the thread"
    );
}

#[test]
fn output_is_captured_beyond_what_a_pipe_holds() {
    let mut process = Program::new("/bin/cat")
        .stdin("0123456789\n".repeat(100_000))
        .start()
        .unwrap();
    process.wait(TIME).unwrap();
    assert!(process.output.wait_closed(TIME));
    assert_eq!(process.dropped_lines() + 20_000, 100_000);
}

/// Not a test of its own: a test process that is killed while programs of many kinds run.
#[test]
#[ignore = "run by nothing_outlives_a_test_process_that_is_killed"]
fn victim() {
    let script = "sleep 600 & echo near=$!; setsid sh -c 'echo far=$$; exec sleep 600' & \
                  echo main=$$; wait";
    let mut process = shell(script).start().unwrap();
    for name in ["near", "far", "main"] {
        println!("{name}={}", printed_pid(&mut process, name));
    }
    process.wait(Duration::from_secs(600)).unwrap();
}

#[test]
fn nothing_outlives_a_test_process_that_is_killed() {
    let mut victim = Program::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--ignored",
            "--nocapture",
            "program::tests::victim",
        ])
        .start()
        .unwrap();
    let pids = ["near", "far", "main"].map(|name| printed_pid(&mut victim, name));
    assert!(pids.into_iter().all(is_alive));
    victim.kill9().unwrap();
    // Not by dropping the handle: the victim's own guardian has to do it.
    poll_until(TIME, "all gone", || !pids.into_iter().any(is_alive));
}
