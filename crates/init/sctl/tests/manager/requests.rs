//! What `sctl` asks a manager for.

use std::io::Write;
use std::os::fd::AsFd;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::fake::{Answer, Fake, Seen};

fn done(unit: &str, result: &str) -> Value {
    json!({"unit": unit, "job": 7, "result": result, "active": "active", "sub": "running"})
}

/// Jobs that end well, but for those of `bad.service`, and no such unit as `nope.service`.
fn jobs(call: &mut Seen) -> Answer {
    let unit = call.parameters["unit"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    match (call.name(), unit.as_str()) {
        ("Submit", "nope.service") => Answer::Error("NoSuchUnit", "Unit nope.service not found."),
        ("Submit", "no.service") => Answer::Error("Refused", "It is masked."),
        ("Submit", "bad.service") => Answer::Replies(vec![
            json!({"unit": unit, "job": 7}),
            json!({"unit": unit, "job": 7, "result": "failed", "active": "failed", "outcome": "exit-code",
                   "reason": "It exited with status 3."}),
        ]),
        ("Submit", "often.service") => Answer::Replies(vec![
            json!({"unit": unit, "job": 7, "result": "failed", "active": "failed", "outcome": "start-limit-hit"}),
        ]),
        ("Submit", _) if call.more => {
            Answer::Replies(vec![json!({"unit": unit, "job": 7}), done(&unit, "done")])
        }
        ("Submit", _) => Answer::Replies(vec![json!({"unit": unit, "job": 7})]),
        ("ListUnits", _) => Answer::Replies(vec![json!({"units": [
            {"name": "x1.service", "active": "active"}, {"name": "x2.service", "active": "active"}]})]),
        ("Machine", _) => Answer::Replies(vec![
            json!({"state": "running", "journal": ["/nonexistent"]}),
        ]),
        ("Cancel", _) if call.parameters["job"] == 99 => {
            Answer::Error("NoSuchJob", "Job 99 does not exist.")
        }
        _ => Answer::Replies(vec![json!({})]),
    }
}

#[test]
fn jobs_are_submitted_and_waited_for() {
    let fake = Fake::new(jobs);
    assert_eq!(fake.sctl(&["start", "a", "b.socket", "/mnt/x"]).0, 0);
    let calls = fake.calls_of("Submit");
    let units: Vec<&Value> = calls.iter().map(|call| &call["unit"]).collect();
    assert_eq!(units, ["a.service", "b.socket", "mnt-x.mount"]);
    for (words, verb, mode, wait) in [
        (
            &["restart", "--job-mode=fail", "a"][..],
            "restart",
            "fail",
            "job",
        ),
        (&["stop", "--fail", "a"], "stop", "fail", "job"),
        (&["start", "--wait", "a"], "start", "replace", "inactive"),
        (&["start", "--no-block", "a"], "start", "replace", "job"),
        (
            &["force-reload", "a"],
            "try-reload-or-restart",
            "replace",
            "job",
        ),
        (&["condrestart", "a"], "try-restart", "replace", "job"),
        (&["isolate", "rescue"], "isolate", "replace", "job"),
        (&["emergency"], "isolate", "replace", "job"),
    ] {
        assert_eq!(fake.sctl(words).0, 0, "{words:?}");
        let call = fake.calls_of("Submit").pop().unwrap();
        let got = (&call["verb"], &call["mode"], &call["wait"]);
        assert_eq!(got, (&json!(verb), &json!(mode), &json!(wait)), "{words:?}");
    }
    assert_eq!(
        fake.calls_of("Submit").pop().unwrap()["unit"],
        "emergency.target"
    );
}

#[test]
fn patterns_stand_for_loaded_units() {
    let fake = Fake::new(jobs);
    assert_eq!(fake.sctl(&["stop", "x*"]).0, 0);
    let units: Vec<Value> = fake
        .calls_of("Submit")
        .into_iter()
        .map(|call| call["unit"].clone())
        .collect();
    assert_eq!(units, ["x1.service", "x2.service"]);
}

#[test]
fn failures_are_explained() {
    let fake = Fake::new(jobs);
    let (code, _, stderr) = fake.sctl(&["start", "bad"]);
    assert_eq!(code, 1);
    assert!(
        stderr.starts_with("Job for bad.service failed: It exited with status 3.\n"),
        "{stderr}"
    );
    assert!(stderr.contains("sctl why bad.service"), "{stderr}");
    let (code, _, stderr) = fake.sctl(&["start", "nope", "a"]);
    assert_eq!(code, 5);
    assert_eq!(
        stderr,
        "Failed to start nope.service: Unit nope.service not found.\n"
    );
    assert_eq!(fake.calls_of("Submit").pop().unwrap()["unit"], "a.service");
    let (code, _, stderr) = fake.sctl(&["start", "no"]);
    assert_eq!(code, 4);
    assert!(
        stderr.starts_with("Failed to start no.service: It is masked.\n"),
        "{stderr}"
    );
    let (code, _, stderr) = fake.sctl(&["start", "often"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("sctl reset-failed often.service"),
        "{stderr}"
    );
    let (code, _, stderr) = fake.sctl(&["start", "-q", "bad"]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    let (code, _, stderr) = fake.sctl(&["cancel", "99", "5"]);
    assert_eq!(code, 1);
    assert_eq!(stderr, "Failed to cancel job 99: Job 99 does not exist.\n");
}

#[test]
fn everything_else_is_asked_for_as_it_was_said() {
    let fake = Fake::new(jobs);
    for (words, method, parameters) in [
        (
            &["kill", "-s", "HUP", "--kill-whom=main", "a"][..],
            "Kill",
            json!({"unit": "a.service", "whom": "main", "signal": 1}),
        ),
        (
            &["freeze", "a"],
            "Freeze",
            json!({"unit": "a.service", "frozen": true}),
        ),
        (
            &["thaw", "a"],
            "Freeze",
            json!({"unit": "a.service", "frozen": false}),
        ),
        (
            &["clean", "--what=cache,logs", "a"],
            "Clean",
            json!({"unit": "a.service", "what": ["cache", "logs"]}),
        ),
        (&["reset-failed"], "ResetFailed", json!({"unit": ""})),
        (
            &["reset-failed", "a"],
            "ResetFailed",
            json!({"unit": "a.service"}),
        ),
        (
            &["set-property", "--runtime", "a", "MemoryMax=1G", "After="],
            "SetProperty",
            json!({"unit": "a.service", "runtime": true, "properties": [["MemoryMax", "1G"], ["After", ""]]}),
        ),
        (&["cancel"], "Cancel", json!({})),
        (&["cancel", "5"], "Cancel", json!({"job": 5})),
        (&["daemon-reload"], "Reload", json!({})),
        (
            &["reboot", "--force", "firmware"],
            "Shutdown",
            json!({"how": "reboot", "force": true, "code": 0, "argument": "firmware"}),
        ),
        (
            &["exit", "9"],
            "Shutdown",
            json!({"how": "exit", "force": false, "code": 9}),
        ),
        (
            &["set-environment", "A=b", "C="],
            "Environment",
            json!({"set": ["A=b", "C="], "unset": []}),
        ),
        (
            &["unset-environment", "A"],
            "Environment",
            json!({"set": [], "unset": ["A"]}),
        ),
        (
            &["import-environment", "TZ"],
            "Environment",
            json!({"set": ["TZ=UTC"], "unset": []}),
        ),
    ] {
        let (code, _, stderr) = fake.sctl(words);
        assert_eq!(code, 0, "{words:?}: {stderr}");
        assert_eq!(
            fake.calls_of(method).pop().unwrap(),
            parameters,
            "{words:?}"
        );
    }
    let before = fake.calls().len();
    for words in [
        &["kill", "-s", "LOUD", "a"][..],
        &["set-property", "a", "MemoryMax"],
        &["exit", "256"],
        &["set-environment", "1A=x"],
        &["import-environment", "NOT_SET"],
        &["start", "--wait", "--no-block", "a"],
        &["start", ""],
    ] {
        assert_eq!(fake.sctl(words).0, 1, "{words:?}");
    }
    assert_eq!(
        fake.calls().len(),
        before,
        "what makes no sense is not asked for"
    );
}

/// The part of a service that writes what it reads to its standard output, in capitals.
fn service(call: &mut Seen) -> Answer {
    match call.name() {
        "StartTransient" => {
            let unit = call.parameters["unit"].clone();
            let mut exit = 0;
            if call.parameters["stdio"] == true {
                let [input, output, _] = &call.descriptors[..] else {
                    panic!("{} descriptors", call.descriptors.len());
                };
                let mut text = [0; 64];
                let length = rustix::io::read(input.as_fd(), &mut text).unwrap();
                rustix::io::write(output.as_fd(), &text[..length].to_ascii_uppercase()).unwrap();
                exit = 3;
            }
            call.descriptors.clear();
            Answer::Replies(vec![
                json!({"unit": unit, "job": 1}),
                json!({"unit": unit, "job": 1, "result": "done", "active": "inactive", "outcome": "success",
                       "exit_code": "exited", "exit_status": exit, "runtime": 2000}),
            ])
        }
        _ => Answer::Replies(vec![json!({})]),
    }
}

#[test]
fn a_piped_command_has_the_streams_and_gives_its_exit_code() {
    let fake = Fake::new(service);
    let mut child = fake
        .command(&["run", "--pipe", "-q", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"HELLO");
    assert_eq!(output.status.code(), Some(3));
    let call = fake.calls_of("StartTransient").pop().unwrap();
    assert_eq!(call["wait"], "inactive");
}

#[test]
fn run_says_what_it_runs_and_how_that_ended() {
    let fake = Fake::new(service);
    let (code, _, stderr) = fake.sctl(&["run", "--wait", "--unit=x", "true"]);
    assert_eq!(code, 0);
    assert_eq!(
        stderr,
        "Running as unit: x.service\nFinished with result: success\nMain processes terminated with: code=exited/status=0\nService runtime: 2ms\n"
    );
    let (code, stdout, stderr) = fake.sctl(&["run", "--scope", "sh", "-c", "echo in; exit 4"]);
    assert_eq!((code, stdout.as_str()), (4, "in\n"), "{stderr}");
    let call = fake.calls_of("StartTransient").pop().unwrap();
    assert_eq!(call["pids"].as_array().unwrap().len(), 1);
}
