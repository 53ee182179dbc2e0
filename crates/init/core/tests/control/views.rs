//! What can be looked at.

use std::collections::BTreeMap;

use muster_control::manager::{
    EnvironmentCall, EnvironmentReply, ListUnitsCall, ShowCall, ShowReply, UnitCall, WhyReply,
    error, method,
};
use muster_varlink::idl::Interface;
use muster_varlink::service::{DescriptionCall, DescriptionReply, InfoReply};

use crate::rig::Rig;

fn rig(test: &str) -> Option<Rig> {
    Rig::boot(test, |machine| {
        machine
            .unit(
                "a.service",
                "[Unit]\nDescription=A daemon\nDocumentation=man:a(8)\nWants=b.target\n[Service]\n\
                 ExecStartPre=/bin/true\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n",
            )
            .unit("a.service.d/more.conf", "[Unit]\nDescription=A daemon with more\n")
            .unit("b.target", "[Unit]\nDescription=B\n")
            .unit("bad.service", "[Service]\nType=oneshot\nExecStart=/nowhere/program\n")
            .unit("broken.service", "[Service]\nType=oneshot\n")
            .unit("needs.service", "[Unit]\nRequires=bad.service\nAfter=bad.service\n[Service]\nExecStart=/bin/true\n")
            .unit("t.timer", "[Timer]\nOnActiveSec=1h\nUnit=a.service\n")
            .unit("unused.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    })
}

fn shown(rig: &Rig, unit: &str) -> BTreeMap<String, String> {
    let call = ShowCall {
        unit: unit.into(),
        all: true,
        ..ShowCall::default()
    };
    let reply: ShowReply = rig.ask(method::SHOW, &call);
    reply.properties.into_iter().collect()
}

#[test]
fn a_unit_is_shown_in_full() {
    let Some(rig) = rig("a_unit_is_shown_in_full") else {
        return;
    };
    rig.job("a.service", "start");
    // For a moment after a program was executed the kernel has its name and not yet its words.
    let has_words = |rig: &Rig| {
        !rig.status("a.service").processes[0]
            .command
            .starts_with('[')
    };
    rig.until("the program has its words", has_words);
    let status = rig.status("a.service");
    assert_eq!(status.row.description, "A daemon with more");
    assert_eq!(
        (&*status.row.active, &*status.row.sub),
        ("active", "running")
    );
    assert!(
        status.fragment.ends_with("/a.service"),
        "{}",
        status.fragment
    );
    assert_eq!(status.drop_ins.len(), 1);
    assert_eq!(
        (&*status.file_state, &*status.preset),
        ("disabled", "enabled")
    );
    assert_eq!(status.documentation, ["man:a(8)"]);
    assert_eq!(status.processes.len(), 1);
    assert_eq!(status.processes[0].pid, status.main_pid);
    assert_eq!(status.processes[0].command, "/bin/sleep 1000");
    let phases: Vec<(&str, &str)> = status
        .commands
        .iter()
        .map(|run| (&*run.phase, &*run.code))
        .collect();
    assert_eq!(phases, [("ExecStartPre", "exited"), ("ExecStart", "")]);
    assert!(status.row.active_enter.real > 0 && !status.needs_reload && !status.transient);
    let properties = shown(&rig, "a.service");
    for (name, value) in [
        ("ActiveState", "active"),
        ("SubState", "running"),
        ("MainPID", &*status.main_pid.to_string()),
        ("UnitFileState", "disabled"),
        ("Description", "A daemon with more"),
        ("NRestarts", "0"),
    ] {
        assert_eq!(properties[name], value, "{name}");
    }
    assert!(
        properties["Wants"]
            .split(' ')
            .any(|unit| unit == "b.target")
    );
    let target = shown(&rig, "b.target");
    assert!(
        target["WantedBy"]
            .split(' ')
            .any(|unit| unit == "a.service"),
        "{}",
        target["WantedBy"]
    );
    assert_eq!(shown(&rig, "")["NFailedUnits"], "0");
    rig.write(
        "/etc/systemd/system/a.service.d/more.conf",
        "[Unit]\nDescription=Changed\n",
    )
    .unwrap();
    rig.until("the change is seen", |rig| {
        rig.status("a.service").needs_reload
    });
}

#[test]
fn looking_at_a_unit_does_not_load_it() {
    let Some(rig) = rig("looking_at_a_unit_does_not_load_it") else {
        return;
    };
    let everything = ListUnitsCall {
        all: true,
        ..ListUnitsCall::default()
    };
    let before = rig.units(&everything).len();
    for n in 0..50 {
        let (error, _) = rig.refused(
            method::STATUS,
            &UnitCall {
                unit: format!("x{n}.service"),
            },
        );
        assert_eq!(error, error::NO_SUCH_UNIT);
        assert_eq!(
            shown(&rig, &format!("x{n}.service"))["LoadState"],
            "not-found"
        );
    }
    let unused = rig.status("unused.service");
    assert_eq!(
        (&*unused.row.active, &*unused.row.load),
        ("inactive", "loaded")
    );
    let why: WhyReply = rig.ask(
        method::WHY,
        &UnitCall {
            unit: "unused.service".into(),
        },
    );
    assert_eq!(why.lines.len(), 1);
    assert_eq!(rig.units(&everything).len(), before);
}

#[test]
fn why_names_the_cause() {
    let Some(rig) = rig("why_names_the_cause") else {
        return;
    };
    let why = |unit: &str| -> WhyReply { rig.ask(method::WHY, &UnitCall { unit: unit.into() }) };
    rig.job("needs.service", "start");
    let needs = why("needs.service");
    assert!(
        needs.lines.iter().any(|line| line.contains("bad.service")),
        "{needs:?}"
    );
    let bad = why("bad.service");
    assert_eq!(bad.state, "failed (failed)");
    assert!(
        bad.lines
            .iter()
            .any(|line| line.contains("/nowhere/program") && line.contains("203")),
        "{bad:?}"
    );
    assert!(!bad.advice.is_empty());
    let _ = rig.client().call::<_, serde_json::Value>(
        method::SUBMIT,
        &muster_control::manager::SubmitCall {
            unit: "broken.service".into(),
            verb: "start".into(),
            ..Default::default()
        },
    );
    let broken = why("broken.service");
    assert!(
        broken
            .lines
            .iter()
            .any(|line| line.contains("cannot be used")),
        "{broken:?}"
    );
}

#[test]
fn the_machine_and_the_interface_describe_themselves() {
    let Some(rig) = rig("the_machine_and_the_interface_describe_themselves") else {
        return;
    };
    let machine = rig.machine_status();
    assert_eq!(
        (&*machine.state, machine.recoveries, machine.safe_mode),
        ("running", 0, false)
    );
    assert_eq!(machine.default_target, "default.target");
    assert!(machine.units > 5 && machine.finish.monotonic > 0);
    let info: InfoReply = rig.ask("org.varlink.service.GetInfo", &serde_json::json!({}));
    assert_eq!(&*info.product, "muster-core");
    for interface in info.interfaces {
        let call = DescriptionCall {
            interface: interface.clone(),
        };
        let reply: DescriptionReply = rig.ask("org.varlink.service.GetInterfaceDescription", &call);
        assert_eq!(
            Interface::parse(&reply.description).unwrap().name,
            interface
        );
    }
    // What is answered is as described.
    let text = muster_control::manager::DESCRIPTION;
    let described = Interface::parse(text).unwrap();
    rig.job("t.timer", "start");
    for (name, call) in [
        ("Machine", serde_json::json!({})),
        ("ListUnits", serde_json::json!({"all": true})),
        ("ListJobs", serde_json::json!({})),
        ("Status", serde_json::json!({"unit": "t.timer"})),
        ("Status", serde_json::json!({"unit": "system.slice"})),
        ("Show", serde_json::json!({"unit": "t.timer"})),
        ("Why", serde_json::json!({"unit": "t.timer"})),
        ("Environment", serde_json::json!({})),
        ("Reload", serde_json::json!({})),
    ] {
        let reply: serde_json::Value = rig.ask(&format!("io.muster.Manager.{name}"), &call);
        described.check_reply(name, &reply).unwrap();
    }
    let timer = rig.status("t.timer").row.timer.unwrap();
    assert!(timer.next.real > machine.finish.real, "{timer:?}");
}

#[test]
fn the_environment_is_changed_and_kept() {
    let Some(rig) = rig("the_environment_is_changed_and_kept") else {
        return;
    };
    let change = |set: &[&str], unset: &[&str]| -> EnvironmentReply {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        rig.ask(
            method::ENVIRONMENT,
            &EnvironmentCall {
                set: owned(set),
                unset: owned(unset),
            },
        )
    };
    assert!(
        change(&["A=1", "B=x=y"], &[])
            .variables
            .contains(&"B=x=y".to_owned())
    );
    let now = change(&[], &["A"]).variables;
    assert!(now.contains(&"B=x=y".to_owned()) && !now.iter().any(|text| text.starts_with("A=")));
    for bad in ["noequals", "1A=x", "=x", "A=\n"] {
        let call = EnvironmentCall {
            set: vec![bad.to_owned()],
            unset: Vec::new(),
        };
        assert_eq!(rig.refused(method::ENVIRONMENT, &call).0, error::INVALID);
    }
}
