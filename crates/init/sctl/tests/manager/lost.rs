//! The manager is replaced while `sctl` waits.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::fake::{Answer, Fake};

#[test]
fn a_job_is_found_again_by_its_number() {
    let fake = Fake::new(|call| match call.name() {
        "Submit" => Answer::ThenRestart(vec![json!({"unit": "a.service", "job": 41})]),
        "WaitJob" => {
            assert_eq!(call.parameters["job"], 41);
            Answer::Replies(vec![
                json!({"unit": "a.service", "job": 41, "result": "done", "active": "active"}),
            ])
        }
        other => panic!("{other}"),
    });
    let (code, _, stderr) = fake.sctl(&["start", "a"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_eq!(
        fake.calls_of("Submit").len(),
        1,
        "it is not asked for twice"
    );
}

#[test]
fn a_job_that_ended_meanwhile_is_judged_by_its_unit() {
    for (active, code) in [("active", 0), ("failed", 1)] {
        let fake = Fake::new(move |call| match call.name() {
            "Submit" => Answer::ThenRestart(vec![json!({"unit": "a.service", "job": 41})]),
            "WaitJob" => Answer::Error("NoSuchJob", "Job 41 does not exist."),
            "Status" => Answer::Replies(vec![
                json!({"row": {"name": "a.service", "active": active}, "outcome": "exit-code"}),
            ]),
            _ => Answer::Replies(vec![json!({})]),
        });
        assert_eq!(fake.sctl(&["start", "-n0", "a"]).0, code, "{active}");
    }
}

#[test]
fn a_manager_that_is_replaced_again_and_again_is_asked_again() {
    let times = AtomicUsize::new(0);
    let fake = Fake::new(move |call| match call.name() {
        "Submit" => Answer::ThenRestart(vec![json!({"unit": "a.service", "job": 41})]),
        "WaitJob" if times.fetch_add(1, Ordering::Relaxed) < 3 => Answer::ThenRestart(vec![]),
        "WaitJob" => Answer::Replies(vec![
            json!({"unit": "a.service", "job": 41, "result": "canceled"}),
        ]),
        _ => Answer::Replies(vec![json!({})]),
    });
    let (code, _, stderr) = fake.sctl(&["start", "a"]);
    assert_eq!(code, 1);
    assert!(
        stderr.starts_with("Job for a.service was canceled.\n"),
        "{stderr}"
    );
    assert_eq!(fake.calls_of("WaitJob").len(), 4);
}

#[test]
fn a_request_that_was_not_answered_is_looked_for_before_it_is_made_again() {
    let times = AtomicUsize::new(0);
    let fake = Fake::new(move |call| match call.name() {
        "Submit" if times.fetch_add(1, Ordering::Relaxed) == 0 => Answer::ThenRestart(vec![]),
        "ListJobs" => Answer::Replies(vec![
            json!({"jobs": [{"id": 5, "unit": "a.service", "kind": "start"}]}),
        ]),
        "WaitJob" => Answer::Replies(vec![
            json!({"unit": "a.service", "job": 5, "result": "done"}),
        ]),
        other => panic!("{other}"),
    });
    assert_eq!(fake.sctl(&["start", "a"]).0, 0);
    assert_eq!(fake.calls_of("Submit").len(), 1);
}

#[test]
fn questions_are_asked_again() {
    let times = AtomicUsize::new(0);
    let fake = Fake::new(move |call| match call.name() {
        "Status" if times.fetch_add(1, Ordering::Relaxed) == 0 => Answer::ThenRestart(vec![]),
        "Status" => Answer::Replies(vec![
            json!({"row": {"name": "a.service", "active": "active"}}),
        ]),
        other => panic!("{other}"),
    });
    assert_eq!(fake.sctl(&["is-active", "a"]).0, 0);
}

#[test]
fn the_end_of_a_run_is_waited_for_across_a_restart() {
    let times = AtomicUsize::new(0);
    let fake = Fake::new(move |call| match call.name() {
        "Submit" => Answer::ThenRestart(vec![json!({"unit": "a.service", "job": 41})]),
        "WaitJob" => Answer::Replies(vec![
            json!({"unit": "a.service", "job": 41, "result": "done", "active": "active"}),
        ]),
        "Subscribe" => Answer::Replies(vec![json!({"sequence": 1}), json!({"sequence": 2})]),
        "Status" => {
            let active = if times.fetch_add(1, Ordering::Relaxed) == 0 {
                "active"
            } else {
                "inactive"
            };
            Answer::Replies(vec![
                json!({"row": {"name": "a.service", "active": active}}),
            ])
        }
        other => panic!("{other}"),
    });
    assert_eq!(fake.sctl(&["start", "--wait", "a"]).0, 0);
    assert_eq!(fake.calls_of("Status").len(), 2);
}

#[test]
fn replacing_the_manager_waits_until_the_new_one_answers() {
    let times = AtomicUsize::new(0);
    let fake = Fake::new(move |call| match call.name() {
        "Machine" => {
            let recoveries = times.fetch_add(1, Ordering::Relaxed) / 3;
            Answer::Replies(vec![
                json!({"state": "running", "recoveries": recoveries, "core_pid": 9}),
            ])
        }
        "Reexec" => Answer::ThenRestart(vec![]),
        other => panic!("{other}"),
    });
    let (code, _, stderr) = fake.sctl(&["daemon-reexec"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(fake.calls_of("Machine").len(), 4);
}

#[test]
fn ending_the_machine_needs_no_answer() {
    let fake = Fake::new(|_| Answer::ThenRestart(vec![]));
    assert_eq!(fake.sctl(&["poweroff"]).0, 0);
}
