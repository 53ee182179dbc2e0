//! Points in a real process: what dies, what stands still, what is refused.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use muster_fault::{Action, Trial, matrix, test_program};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

muster_fault::points! {
    /// As in the test program.
    FIRST = "probe.first",
    /// As in the test program.
    SECOND = "probe.second",
}

mod dead {
    muster_fault::points! {
        /// As in the test program, which never gets there.
        DEAD = "probe.dead",
    }
}

fn probe(arguments: &[&str]) -> Command {
    let mut command = Command::new(test_program("fault_probe"));
    command
        .args(arguments)
        .env_remove("MUSTER_FAULT")
        .env_remove("MUSTER_FAULT_REPORT")
        .env_remove("MUSTER_FAULT_FILE");
    command
}

fn text(output: &Output) -> (String, String) {
    let utf8 = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (utf8(&output.stdout), utf8(&output.stderr))
}

#[test]
fn unarmed_points_do_nothing() {
    let output = probe(&["rounds", "2"]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(
        text(&output),
        ("between\nbetween\nend\n".into(), String::new())
    );
}

#[test]
fn matrix_kills_at_every_point() {
    let mut said = Vec::new();
    matrix(FAULT_POINTS, |trial| {
        let mut command = probe(&["rounds", "2"]);
        trial.arm(&mut command);
        let output = command.output().unwrap();
        trial.assert_killed(output.status);
        said.push(text(&output).0);
    });
    assert_eq!(said, ["", "between\n"]);
}

#[test]
#[should_panic(expected = "never reached these fault points: [\"probe.dead\"]")]
fn matrix_finds_a_dead_point() {
    matrix(dead::FAULT_POINTS, |trial| {
        let mut command = probe(&["rounds", "2"]);
        trial.arm(&mut command);
        assert!(command.output().unwrap().status.success());
    });
}

#[test]
fn the_count_is_respected() {
    let trial = Trial::new(SECOND);
    let mut command = probe(&["rounds", "5"]);
    trial.arm_at(&mut command, 3, Action::Kill);
    let output = command.output().unwrap();
    trial.assert_killed(output.status);
    assert_eq!(text(&output).0, "between\n".repeat(3));

    let trial = Trial::new(SECOND);
    let mut command = probe(&["rounds", "5"]);
    trial.arm_at(&mut command, 6, Action::Kill);
    assert!(command.output().unwrap().status.success());
    assert!(!trial.reached());
}

/// Kills the child when the test fails half way.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the probe starts");
        let lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
        Self { child, lines }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn stop_stands_still_until_continued() {
    let trial = Trial::new(FIRST);
    let mut command = probe(&["rounds", "1"]);
    trial.arm_at(&mut command, 1, Action::Stop);
    let mut running = Running::start(&mut command);

    let (_, status) = waitpid(Some(running.pid()), WaitOptions::UNTRACED)
        .unwrap()
        .unwrap();
    assert!(status.stopped(), "{status:?}");
    assert!(trial.reached());

    kill_process(running.pid(), Signal::CONT).unwrap();
    let rest: Vec<String> = running.lines.by_ref().map(Result::unwrap).collect();
    assert_eq!(rest, ["between", "end"]);
    assert!(running.child.wait().unwrap().success());
}

#[test]
fn hang_holds_one_thread_only() {
    let trial = Trial::new(SECOND);
    let mut command = probe(&["thread"]);
    trial.arm_at(&mut command, 1, Action::Hang);
    let mut running = Running::start(&mut command);

    let mut first: Vec<String> = running.lines.by_ref().take(2).map(Result::unwrap).collect();
    first.sort();
    assert_eq!(first, ["between", "main"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while !trial.reached() {
        assert!(
            Instant::now() < deadline,
            "the worker never got to the point"
        );
        thread::sleep(Duration::from_millis(1));
    }
    drop(running.child.stdin.take());
    let rest: Vec<String> = running.lines.by_ref().map(Result::unwrap).collect();
    assert_eq!(
        rest,
        ["end"],
        "the main thread ends, the hanging one has not finished"
    );
    assert!(running.child.wait().unwrap().success());
}

#[test]
fn a_request_that_cannot_be_met_is_loud() {
    let cases = [
        (
            "probe.frist",
            "no fault point \"probe.frist\"; it has probe.first, probe.second",
        ),
        ("probe.first@x", "\"x\" is not a count"),
        ("probe.first=explode", "unknown action \"explode\""),
        ("", "no fault point \"\""),
    ];
    for (value, expected) in cases {
        let output = probe(&["rounds", "1"])
            .env("MUSTER_FAULT", value)
            .output()
            .unwrap();
        let (said, complaint) = text(&output);
        assert_eq!(output.status.signal(), Some(6), "{value}: {complaint}");
        assert_eq!(said, "", "{value}: nothing runs before the check");
        assert!(complaint.contains(expected), "{value}: {complaint}");
    }
}

#[test]
fn a_program_that_does_not_check_names_is_loud() {
    let output = probe(&["no-init"])
        .env("MUSTER_FAULT", "probe.frist")
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(6));
    assert!(
        text(&output)
            .1
            .contains("reached before muster_fault::init")
    );
}

#[test]
fn a_report_that_cannot_be_written_is_loud() {
    let output = probe(&["rounds", "1"])
        .env("MUSTER_FAULT", "probe.first")
        .env("MUSTER_FAULT_REPORT", "/nowhere/report")
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(6));
    assert!(text(&output).1.contains("cannot write /nowhere/report"));
}

#[test]
fn a_file_arms_a_program_whenever_it_appears_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fault");
    let run = || {
        let mut command = probe(&["rounds", "3"]);
        command.env("MUSTER_FAULT_FILE", &file);
        command.output().unwrap()
    };
    assert!(run().status.success(), "there is no file yet");

    std::fs::write(&file, "probe.second@2\n").unwrap();
    let killed = run();
    assert_eq!(killed.status.signal(), Some(9));
    assert_eq!(text(&killed).0, "between\nbetween\n");
    assert!(!file.exists() && folder.path().join("fault.reached").exists());
    assert!(run().status.success(), "it was used up");

    std::fs::write(&file, "probe.frist").unwrap();
    let refused = run();
    assert_eq!(refused.status.signal(), Some(6));
    assert!(text(&refused).1.contains("no fault point \"probe.frist\""));
}
