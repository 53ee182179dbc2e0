//! Units made by a request.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use muster_control::manager::{
    AuxiliaryUnit, CleanCall, Cleanable, Empty, FreezeCall, KillCall, ListUnitsCall,
    StartTransientCall, SubmitReply, UnitCall, WaitWhat, error, method,
};

use crate::rig::Rig;

const TRANSIENT: &str = "/run/muster/units/transient";

fn properties(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn service(unit: &str, pairs: &[(&str, &str)]) -> StartTransientCall {
    StartTransientCall {
        unit: unit.into(),
        properties: properties(pairs),
        ..StartTransientCall::default()
    }
}

/// Starts it and waits for the end of what the call waits for.
#[track_caller]
fn start(rig: &Rig, call: &StartTransientCall) -> SubmitReply {
    let replies = rig
        .client()
        .call_more::<_, SubmitReply>(method::START_TRANSIENT, call)
        .expect("the call is sent");
    replies
        .map(|reply| reply.expect("a reply"))
        .last()
        .expect("one at least")
}

fn exists(rig: &Rig, unit: &str) -> bool {
    let call = ListUnitsCall {
        patterns: vec![unit.to_owned()],
        all: true,
        ..ListUnitsCall::default()
    };
    !rig.units(&call).is_empty() || rig.path(format!("{TRANSIENT}/{unit}")).exists()
}

#[test]
fn a_transient_service_runs_and_is_forgotten() {
    let Some(rig) = Rig::boot("a_transient_service_runs_and_is_forgotten", |machine| {
        machine
    }) else {
        return;
    };
    let mut good = service(
        "good.service",
        &[("ExecStart", "/bin/true"), ("Type", "oneshot")],
    );
    good.wait = WaitWhat::Inactive;
    let ended = start(&rig, &good);
    assert_eq!(
        (
            ended.result.as_deref(),
            &*ended.exit_code,
            ended.exit_status
        ),
        (Some("done"), "exited", 0)
    );
    rig.until("it is forgotten", |rig| !exists(rig, "good.service"));
    // A failed one stays until its failure is reset.
    let mut bad = service(
        "bad.service",
        &[("ExecStart", "/bin/sh -c 'exit 5'"), ("Type", "exec")],
    );
    bad.wait = WaitWhat::Inactive;
    let ended = start(&rig, &bad);
    assert_eq!((&*ended.active, ended.exit_status), ("failed", 5));
    let status = rig.status("bad.service");
    assert!(status.transient && status.file_state == "transient");
    for path in [TRANSIENT.to_owned(), format!("{TRANSIENT}/bad.service")] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(rig.path(&path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o022, 0, "{path} may be written by others: {mode:o}");
    }
    let again = rig.refused(method::START_TRANSIENT, &bad);
    assert_eq!(again.0, error::REFUSED);
    assert!(again.1.contains("reset-failed"), "{}", again.1);
    let _: Empty = rig.ask(
        method::RESET_FAILED,
        &UnitCall {
            unit: "bad.service".into(),
        },
    );
    rig.until("it is forgotten", |rig| !exists(rig, "bad.service"));
    // One that is to be collected does not stay.
    let mut bad = service("bad.service", &[("ExecStart", "/bin/false")]);
    bad.wait = WaitWhat::Inactive;
    bad.collect = true;
    start(&rig, &bad);
    rig.until("it is forgotten", |rig| !exists(rig, "bad.service"));
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let Some(rig) = Rig::boot("what_cannot_be_made_leaves_nothing_behind", |machine| {
        machine.unit("there.service", "[Service]\nExecStart=/bin/true\n")
    }) else {
        return;
    };
    for (unit, pairs) in [
        ("a.service", &[("Nonsense", "1")][..]),
        ("a.service", &[("ExecStart", "relative/path")]),
        (
            "a.service",
            &[("Service.Restart", "sometimes"), ("ExecStart", "/bin/true")],
        ),
        ("a.service", &[("ExecStart", "/bin/true\nUser=nobody")]),
        ("a.service", &[("Description", "no command")]),
        ("a.timer", &[("Service.ExecStart", "/bin/true")]),
        ("a.device", &[("Description", "x")]),
        ("a@.service", &[("ExecStart", "/bin/true")]),
        ("not a name", &[("ExecStart", "/bin/true")]),
        ("x/../../etc.service", &[("ExecStart", "/bin/true")]),
    ] {
        let (error, text) = rig.refused(method::START_TRANSIENT, &service(unit, pairs));
        assert_eq!(error, error::INVALID, "{unit} {pairs:?}: {text}");
        assert!(
            unit.contains('/') || !rig.path(format!("{TRANSIENT}/{unit}")).exists(),
            "{unit}"
        );
    }
    let taken = service("there.service", &[("ExecStart", "/bin/true")]);
    assert_eq!(
        rig.refused(method::START_TRANSIENT, &taken).0,
        error::REFUSED
    );
    let mut streams = service("s.service", &[("ExecStart", "/bin/true")]);
    streams.stdio = true;
    assert_eq!(
        rig.refused(method::START_TRANSIENT, &streams).0,
        error::INVALID
    );
}

#[test]
fn a_transient_service_has_the_callers_streams() {
    let Some(rig) = Rig::boot("a_transient_service_has_the_callers_streams", |machine| {
        machine
    }) else {
        return;
    };
    let (mut near, far) = UnixStream::pair().unwrap();
    let mut call = service(
        "cat.service",
        &[("ExecStart", "/bin/cat"), ("Type", "exec")],
    );
    call.stdio = true;
    call.wait = WaitWhat::Inactive;
    let fds = [far.as_fd(), far.as_fd(), far.as_fd()];
    let mut replies = rig
        .client()
        .call_more_with_fds::<_, SubmitReply>(method::START_TRANSIENT, &call, &fds)
        .unwrap();
    replies.next().unwrap().unwrap();
    drop(far);
    near.write_all(b"over there").unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    near.read_to_string(&mut text).unwrap();
    // The end came, so nobody but the service had the streams at last.
    assert_eq!(text, "over there");
    assert_eq!(replies.last().unwrap().unwrap().exit_status, 0);
}

#[test]
fn a_transient_timer_brings_its_service_and_takes_it_along() {
    let Some(rig) = Rig::boot(
        "a_transient_timer_brings_its_service_and_takes_it_along",
        |machine| machine,
    ) else {
        return;
    };
    let mut call = service(
        "tick.timer",
        &[
            ("Timer.OnActiveSec", "1ms"),
            ("Timer.AccuracySec", "1us"),
            ("Timer.RemainAfterElapse", "no"),
        ],
    );
    let marker = "/run/ticked";
    call.auxiliary = vec![AuxiliaryUnit {
        unit: "tick.service".into(),
        properties: properties(&[("ExecStart", &format!("/bin/touch {marker}"))]),
    }];
    start(&rig, &call);
    rig.wait_for_path(marker, crate::rig::TIME).unwrap();
    rig.until("both are forgotten", |rig| {
        !exists(rig, "tick.timer") && !exists(rig, "tick.service")
    });
}

#[test]
fn a_scope_holds_processes_that_run_already() {
    let Some(rig) = Rig::boot("a_scope_holds_processes_that_run_already", |machine| {
        machine
    }) else {
        return;
    };
    // A child of another unit, which is then in both: the cgroup is the scope's.
    let parent = service(
        "parent.service",
        &[("ExecStart", "/bin/sh -c 'sleep 1000 & wait'")],
    );
    start(&rig, &parent);
    rig.until("it sleeps", |rig| {
        rig.processes()
            .unwrap()
            .iter()
            .any(|one| one.name == "sleep")
    });
    let inside = rig.processes().unwrap();
    let inside = inside.iter().find(|one| one.name == "sleep").unwrap();
    let pid = u32::try_from(inside.pid).unwrap();
    let mut call = service(
        "held.scope",
        &[("Description", "Held"), ("Scope.TimeoutStopSec", "5s")],
    );
    call.pids = vec![pid];
    assert_eq!(start(&rig, &call).result.as_deref(), Some("done"));
    let status = rig.status("held.scope");
    assert_eq!(
        status
            .processes
            .iter()
            .map(|one| one.pid)
            .collect::<Vec<_>>(),
        [pid]
    );
    assert_eq!(
        rig.job("held.scope", "stop").result.as_deref(),
        Some("done")
    );
    rig.until("it is forgotten", |rig| {
        !rig.path(format!("{TRANSIENT}/held.scope")).exists()
    });
    let mut call = service("none.scope", &[("Description", "None")]);
    call.pids = vec![4_000_000];
    assert_eq!(
        rig.refused(method::START_TRANSIENT, &call).0,
        error::INVALID
    );
}

#[test]
fn processes_are_signalled_frozen_and_cleaned_after() {
    let Some(rig) = Rig::boot(
        "processes_are_signalled_frozen_and_cleaned_after",
        |machine| {
            machine.unit(
            "a.service",
            "[Service]\nExecStart=/bin/sh -c 'trap \"echo >/run/usr1\" USR1; while :; do sleep 0.1; done'\n\
             StateDirectory=a-state\nCacheDirectory=a-cache\n",
        )
        },
    ) else {
        return;
    };
    rig.job("a.service", "start");
    let kill = |whom: &str, signal: i32| KillCall {
        unit: "a.service".into(),
        whom: whom.into(),
        signal,
    };
    // The trap is set a moment after the start; a signal before that would end the service.
    rig.until("the shell waits", |rig| {
        rig.status("a.service").processes.len() == 2
    });
    let _: Empty = rig.ask(method::KILL, &kill("main", 10));
    rig.wait_for_path("/run/usr1", crate::rig::TIME).unwrap();
    assert_eq!(
        rig.refused(method::KILL, &kill("control", 10)).0,
        error::FAILED
    );
    assert_eq!(
        rig.refused(method::KILL, &kill("main", 99)).0,
        error::INVALID
    );
    assert_eq!(
        rig.refused(method::KILL, &kill("whoever", 9)).0,
        error::INVALID
    );
    let freeze = |frozen| FreezeCall {
        unit: "a.service".into(),
        frozen,
    };
    let _: Empty = rig.ask(method::FREEZE, &freeze(true));
    assert_eq!(rig.status("a.service").freezer, "frozen");
    let _: Empty = rig.ask(method::FREEZE, &freeze(false));
    assert_eq!(rig.status("a.service").freezer, "running");
    let clean = |what: &[Cleanable]| CleanCall {
        unit: "a.service".into(),
        what: what.to_vec(),
    };
    assert_eq!(rig.refused(method::CLEAN, &clean(&[])).0, error::REFUSED);
    rig.job("a.service", "stop");
    assert_eq!(rig.refused(method::FREEZE, &freeze(true)).0, error::REFUSED);
    for folder in ["/var/lib/a-state", "/var/cache/a-cache"] {
        rig.write(format!("{folder}/deep/file"), "x").unwrap();
    }
    let _: Empty = rig.ask(method::CLEAN, &clean(&[]));
    assert!(!rig.path("/var/cache/a-cache").exists());
    assert!(rig.path("/var/lib/a-state/deep/file").exists());
    let _: Empty = rig.ask(method::CLEAN, &clean(&[Cleanable::All]));
    assert!(!rig.path("/var/lib/a-state").exists());
}
