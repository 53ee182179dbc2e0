//! Jobs by request.

use muster_control::manager::{
    CancelCall, Empty, FreezeCall, ListJobsReply, SubmitCall, SubmitReply, WaitJobCall, WaitWhat,
    error, method,
};

use crate::rig::Rig;

const SLOW: &str = "[Service]\nType=oneshot\nExecStart=/bin/sleep 1000\n";

#[test]
fn a_job_is_answered_with_its_number_and_with_its_end() {
    let Some(rig) = Rig::boot(
        "a_job_is_answered_with_its_number_and_with_its_end",
        |machine| {
            machine
            .unit("a.service", "[Service]\nExecStart=/bin/sleep 1000\nExecReload=/bin/true\n")
            .unit("bad.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 3'\n")
            .unit("needs.service", "[Unit]\nRequires=bad.service\nAfter=bad.service\n[Service]\nExecStart=/bin/sleep 9\n")
            .unit("skipped.service", "[Unit]\nConditionPathExists=/nowhere\n[Service]\nExecStart=/bin/sleep 9\n")
            .unit("once.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'exit 7'\n")
        },
    ) else {
        return;
    };
    let call = SubmitCall {
        unit: "a.service".into(),
        verb: "start".into(),
        ..SubmitCall::default()
    };
    let replies = rig
        .client()
        .call_more::<_, SubmitReply>(method::SUBMIT, &call)
        .unwrap();
    let replies: Vec<SubmitReply> = replies.map(Result::unwrap).collect();
    assert_eq!(replies.len(), 2);
    assert!(replies[0].job.is_some() && replies[0].result.is_none());
    assert_eq!(replies[1].result.as_deref(), Some("done"));
    assert_eq!(
        (&*replies[1].active, &*replies[1].sub),
        ("active", "running")
    );
    for (verb, active) in [
        ("reload", "active"),
        ("restart", "active"),
        ("reload-or-restart", "active"),
        ("try-restart", "active"),
        ("stop", "inactive"),
    ] {
        let reply = rig.job("a.service", verb);
        assert_eq!(
            (reply.result.as_deref(), &*reply.active),
            (Some("done"), active),
            "{verb}"
        );
    }
    let nothing = rig.job("a.service", "try-restart");
    assert_eq!((nothing.job, nothing.result), (None, None));
    let bad = rig.job("bad.service", "start");
    assert_eq!(
        (bad.result.as_deref(), &*bad.outcome),
        (Some("failed"), "exit-code")
    );
    assert!(
        bad.reason.contains("exit 3") && bad.reason.contains("status 3"),
        "{}",
        bad.reason
    );
    let needs = rig.job("needs.service", "start");
    assert_eq!(needs.result.as_deref(), Some("dependency"));
    assert!(needs.reason.contains("bad.service"), "{}", needs.reason);
    let skipped = rig.job("skipped.service", "start");
    assert_eq!(skipped.result.as_deref(), Some("skipped"));
    let wait = SubmitCall {
        unit: "once.service".into(),
        verb: "start".into(),
        wait: WaitWhat::Inactive,
        ..SubmitCall::default()
    };
    let replies = rig
        .client()
        .call_more::<_, SubmitReply>(method::SUBMIT, &wait)
        .unwrap();
    let last = replies.map(Result::unwrap).last().unwrap();
    assert_eq!((&*last.exit_code, last.exit_status), ("exited", 7));
}

#[test]
fn jobs_are_listed_waited_for_and_cancelled() {
    let Some(rig) = Rig::boot("jobs_are_listed_waited_for_and_cancelled", |machine| {
        machine.unit("slow.service", SLOW).unit(
            "next.service",
            "[Unit]\nAfter=slow.service\n[Service]\nExecStart=/bin/sleep 1000\n",
        )
    }) else {
        return;
    };
    let submit = |unit: &str| -> SubmitReply {
        let call = SubmitCall {
            unit: unit.into(),
            verb: "start".into(),
            ..SubmitCall::default()
        };
        rig.ask(method::SUBMIT, &call)
    };
    let slow = submit("slow.service").job.unwrap();
    let next = submit("next.service").job.unwrap();
    let listed: ListJobsReply = rig.ask(method::LIST_JOBS, &Empty {});
    let find = |id| listed.jobs.iter().find(|job| job.id == id).unwrap();
    assert_eq!(find(next).after, [slow]);
    assert_eq!(find(slow).before, [next]);
    assert_eq!(
        (&*find(slow).state, &*find(next).state),
        ("running", "waiting")
    );
    let waiting = {
        let mut client = rig.client();
        std::thread::spawn(move || {
            client
                .call::<_, SubmitReply>(method::WAIT_JOB, &WaitJobCall { job: slow })
                .unwrap()
        })
    };
    let _: Empty = rig.ask(method::CANCEL, &CancelCall { job: Some(slow) });
    assert_eq!(waiting.join().unwrap().result.as_deref(), Some("canceled"));
    // Who asks later is told the same.
    let later: SubmitReply = rig.ask(method::WAIT_JOB, &WaitJobCall { job: slow });
    assert_eq!(later.result.as_deref(), Some("canceled"));
    let started: SubmitReply = rig.ask(method::WAIT_JOB, &WaitJobCall { job: next });
    assert_eq!(started.result.as_deref(), Some("done"));
    let unknown = rig.refused(method::WAIT_JOB, &WaitJobCall { job: 99_999 });
    assert_eq!(unknown.0, error::NO_SUCH_JOB);
}

#[test]
fn what_makes_no_sense_is_refused_in_words() {
    let Some(rig) = Rig::boot("what_makes_no_sense_is_refused_in_words", |machine| {
        machine.unit("a.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    }) else {
        return;
    };
    let submit = |unit: &str, verb: &str, mode: &str| {
        let call = SubmitCall {
            unit: unit.into(),
            verb: verb.into(),
            mode: mode.into(),
            wait: WaitWhat::Job,
        };
        rig.refused(method::SUBMIT, &call)
    };
    assert_eq!(
        submit("nothing.service", "start", "").0,
        error::NO_SUCH_UNIT
    );
    assert_eq!(submit("a/b", "start", "").0, error::INVALID);
    assert_eq!(submit("a@.service", "start", "").0, error::INVALID);
    assert_eq!(submit("a.service", "frob", "").0, error::INVALID);
    assert_eq!(submit("a.service", "start", "frob").0, error::INVALID);
    assert_eq!(submit("a.service", "isolate", "").0, error::REFUSED);
    let (_, text) = submit("a.service", "reload", "");
    assert!(text.contains("a.service"), "{text}");
}

#[test]
fn a_file_that_is_younger_than_the_manager_is_found() {
    let Some(rig) = Rig::boot(
        "a_file_that_is_younger_than_the_manager_is_found",
        |machine| machine,
    ) else {
        return;
    };
    rig.write(
        "/etc/systemd/system/young.service",
        "[Service]\nExecStart=/bin/sleep 1000\n",
    )
    .unwrap();
    assert_eq!(
        rig.job("young.service", "start").result.as_deref(),
        Some("done")
    );
}

#[test]
fn a_job_thaws_the_unit_that_it_is_about() {
    let script = "trap 'echo told >/run/told; exit' TERM; trap 'echo again >/run/again' HUP; while :; do sleep 0.1; done";
    let unit = format!(
        "[Service]\nSlice=cold.slice\nExecStart=/bin/sh -c \"{script}\"\nExecReload=/bin/kill -HUP $MAINPID\n"
    );
    let Some(rig) = Rig::boot("a_job_thaws_the_unit_that_it_is_about", |machine| {
        machine
            .unit("a.service", unit)
            .unit("cold.slice", "[Slice]\n")
    }) else {
        return;
    };
    if matches!(&*rig.machine_status().cgroup_mode, "legacy" | "none") {
        println!("a_job_thaws_the_unit_that_it_is_about: skipped, this machine freezes nothing");
        return;
    }
    rig.job("a.service", "start");
    let freeze = |unit: &str, frozen| {
        let call = FreezeCall {
            unit: unit.to_owned(),
            frozen,
        };
        let _: Empty = rig.ask(method::FREEZE, &call);
    };
    freeze("a.service", true);
    let reloaded = rig.job("a.service", "reload");
    assert_eq!(reloaded.result.as_deref(), Some("done"));
    rig.until("it is told to reload", |rig| {
        rig.path("/run/again").exists()
    });
    assert_eq!(rig.status("a.service").freezer, "running");
    // What lies in a frozen slice is not started, and its slice is named; whoever runs there is not told, and ended in time.
    freeze("cold.slice", true);
    let refused = rig.job("a.service", "reload");
    assert_eq!(refused.result.as_deref(), Some("failed"));
    let failure = rig.status("a.service").setup_failure;
    assert!(
        failure.contains("cgroup /cold.slice is frozen"),
        "{failure}"
    );
    freeze("cold.slice", false);
    freeze("a.service", true);
    rig.job("a.service", "stop");
    assert!(rig.path("/run/told").exists(), "it ended by itself");
}
