//! Settings changed by a request, and files read again.

use muster_control::manager::{
    Empty, ReloadReply, SetPropertyCall, ShowCall, ShowReply, error, method,
};

use crate::rig::Rig;

fn property(rig: &Rig, name: &str) -> String {
    let call = ShowCall {
        unit: "a.service".into(),
        properties: vec![name.to_owned()],
        ..ShowCall::default()
    };
    let reply: ShowReply = rig.ask(method::SHOW, &call);
    reply.properties[0].1.clone()
}

#[test]
fn a_setting_is_changed_until_the_next_boot_or_for_good() {
    let test = "a_setting_is_changed_until_the_next_boot_or_for_good";
    let Some(rig) = Rig::boot(test, |machine| {
        machine.unit("a.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    }) else {
        return;
    };
    rig.job("a.service", "start");
    let pid = rig.status("a.service").main_pid;
    let set = |runtime, name: &str, value: &str| SetPropertyCall {
        unit: "a.service".into(),
        runtime,
        properties: vec![(name.to_owned(), value.to_owned())],
    };
    let _: Empty = rig.ask(method::SET_PROPERTY, &set(true, "TimeoutStopSec", "7s"));
    assert_eq!(property(&rig, "TimeoutStopUSec"), "7s");
    assert!(
        rig.path("/run/muster/units/control/a.service.d/50-TimeoutStopSec.conf")
            .exists()
    );
    let _: Empty = rig.ask(
        method::SET_PROPERTY,
        &set(false, "Unit.Description", "Changed"),
    );
    assert_eq!(rig.status("a.service").row.description, "Changed");
    for (name, value) in [
        ("Nonsense", "1"),
        ("TimeoutStopSec", "soon"),
        ("Timer.OnBootSec", "1s"),
    ] {
        let (error, text) = rig.refused(method::SET_PROPERTY, &set(true, name, value));
        assert_eq!(error, error::INVALID, "{text}");
    }
    assert_eq!(property(&rig, "TimeoutStopUSec"), "7s");
    // It runs as it ran.
    assert_eq!(rig.status("a.service").main_pid, pid);
    let call = SetPropertyCall {
        unit: "nowhere.service".into(),
        ..set(true, "TimeoutStopSec", "7s")
    };
    assert_eq!(
        rig.refused(method::SET_PROPERTY, &call).0,
        error::NO_SUCH_UNIT
    );
}

#[test]
fn a_reload_reads_only_what_changed() {
    let Some(rig) = Rig::boot("a_reload_reads_only_what_changed", |machine| {
        machine
            .unit("a.service", "[Service]\nExecStart=/bin/sleep 1000\n")
            .unit("b.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    }) else {
        return;
    };
    rig.job("a.service", "start");
    rig.job("b.service", "start");
    let reload = || -> ReloadReply { rig.ask(method::RELOAD, &Empty {}) };
    let idle = reload();
    assert!(idle.looked > 2 && idle.read == 0, "{idle:?}");
    rig.write(
        "/etc/systemd/system/a.service",
        "[Unit]\nDescription=Other\n[Service]\nExecStart=/bin/sleep 1000\nNonsense=1\n",
    )
    .unwrap();
    let changed = reload();
    assert_eq!(changed.read, 1);
    assert!(
        changed
            .remarks
            .iter()
            .any(|remark| remark.contains("Nonsense")),
        "{changed:?}"
    );
    let status = rig.status("a.service");
    assert_eq!(
        (&*status.row.description, &*status.row.active),
        ("Other", "active")
    );
    std::fs::remove_file(rig.unit_folder().join("b.service")).unwrap();
    assert_eq!(reload().removed, 1);
    // What runs stays, and can be stopped.
    let gone = rig.status("b.service");
    assert_eq!(
        (&*gone.row.load, &*gone.row.active),
        ("not-found", "active")
    );
    assert_eq!(rig.job("b.service", "stop").result.as_deref(), Some("done"));
}
