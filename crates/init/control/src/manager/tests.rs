//! The description and the types agree: every method, every error, every field.

use std::collections::{BTreeMap, BTreeSet};

use muster_varlink::idl::{Field, Interface, MemberKind, Type};
use serde::Serialize;
use serde_json::{Value, json, to_value};

use super::*;

fn described() -> Interface {
    Interface::parse(DESCRIPTION).expect("the description can be read")
}

fn value<T: Serialize>(of: T) -> Value {
    to_value(of).expect("it has a JSON form")
}

fn row() -> UnitRow {
    UnitRow {
        following: "b.device".into(),
        job: Some(1),
        job_kind: "start".into(),
        triggers: vec!["a.service".into()],
        listens: vec![ListenView::default()],
        timer: Some(TimerView::default()),
        paths: vec![PathView::default()],
        ..UnitRow::default()
    }
}

fn status() -> UnitStatus {
    UnitStatus {
        row: row(),
        fragment: "/a".into(),
        drop_ins: vec!["/b".into()],
        failed_check: Some("ConditionPathExists=/a".into()),
        commands: vec![CommandRun::default()],
        status_text: "x".into(),
        processes: vec![ProcessView {
            cgroup: "sub".into(),
            ..ProcessView::default()
        }],
        tasks: Some(1),
        tasks_max: Some(1),
        memory: Some(1),
        memory_peak: Some(1),
        memory_max: Some(1),
        cpu: Some(1),
        disk_read: Some(1),
        disk_written: Some(1),
        network_in: Some(1),
        network_out: Some(1),
        limits_reached: vec!["TasksMax=1".into()],
        health: Some(HealthView::default()),
        dropped: vec!["PrivateUsers: why".into()],
        setup_failure: "namespace: /a".into(),
        not_applied: vec!["Nice".into()],
        remarks: vec!["x".into()],
        ..UnitStatus::default()
    }
}

fn submitted() -> SubmitReply {
    SubmitReply {
        job: Some(1),
        result: Some("done".into()),
        exit_code: "exited".into(),
        cpu: Some(1),
        ..SubmitReply::default()
    }
}

fn changes() -> Vec<Change> {
    vec![
        Change::Unit {
            unit: "a".into(),
            active: "active".into(),
            sub: "running".into(),
        },
        Change::JobNew {
            job: 1,
            unit: "a".into(),
            kind: "start".into(),
        },
        Change::JobGone(JobGone::default()),
        Change::Reloaded {},
        Change::Machine {
            state: "running".into(),
        },
    ]
}

/// For each method, what it takes and gives, with nothing left out.
fn samples() -> BTreeMap<&'static str, (Value, Value)> {
    let empty = || value(Empty {});
    let job = Job {
        after: vec![1],
        before: vec![2],
        ..Job::default()
    };
    let events = changes().into_iter().map(|change| Event {
        sequence: 1,
        real: 1,
        change,
    });
    let pair = || vec![("Service.Type".to_owned(), "exec".to_owned())];
    let transient = StartTransientCall {
        properties: pair(),
        auxiliary: vec![AuxiliaryUnit {
            unit: "a.service".into(),
            properties: pair(),
        }],
        ..StartTransientCall::default()
    };
    let clean = CleanCall {
        unit: "a".into(),
        what: vec![
            Cleanable::Configuration,
            Cleanable::State,
            Cleanable::Cache,
            Cleanable::Logs,
            Cleanable::Runtime,
            Cleanable::Fdstore,
            Cleanable::All,
        ],
    };
    let why = WhyReply {
        needed_by: pair(),
        facts: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ..WhyReply::default()
    };
    let machine = MachineStatus {
        last_recovery: "x".into(),
        ..MachineStatus::default()
    };
    let shutdown = ShutdownCall {
        argument: "x".into(),
        ..ShutdownCall::default()
    };
    let properties = SetPropertyCall {
        properties: pair(),
        ..SetPropertyCall::default()
    };
    let inactive = SubmitCall {
        wait: WaitWhat::Inactive,
        ..SubmitCall::default()
    };
    let subscribe = SubscribeCall {
        since: Some(1),
        units: Vec::new(),
    };
    let subscribed = SubscribeReply {
        events: events.collect(),
        ..SubscribeReply::default()
    };
    BTreeMap::from([
        (method::SUBMIT, (value(inactive), value(submitted()))),
        (
            method::WAIT_JOB,
            (value(WaitJobCall::default()), value(submitted())),
        ),
        (
            method::CANCEL,
            (value(CancelCall { job: Some(1) }), empty()),
        ),
        (
            method::LIST_JOBS,
            (empty(), value(ListJobsReply { jobs: vec![job] })),
        ),
        (
            method::LIST_UNITS,
            (
                value(ListUnitsCall::default()),
                value(ListUnitsReply { units: vec![row()] }),
            ),
        ),
        (
            method::STATUS,
            (value(UnitCall::default()), value(status())),
        ),
        (
            method::SHOW,
            (
                value(ShowCall::default()),
                value(ShowReply { properties: pair() }),
            ),
        ),
        (method::WHY, (value(UnitCall::default()), value(why))),
        (method::KILL, (value(KillCall::default()), empty())),
        (method::FREEZE, (value(FreezeCall::default()), empty())),
        (method::CLEAN, (value(clean), empty())),
        (method::RESET_FAILED, (value(UnitCall::default()), empty())),
        (method::SET_PROPERTY, (value(properties), empty())),
        (
            method::START_TRANSIENT,
            (value(transient), value(submitted())),
        ),
        (method::RELOAD, (empty(), value(ReloadReply::default()))),
        (method::REEXEC, (empty(), empty())),
        (method::MACHINE, (empty(), value(machine))),
        (method::SHUTDOWN, (value(shutdown), empty())),
        (
            method::ENVIRONMENT,
            (
                value(EnvironmentCall::default()),
                value(EnvironmentReply::default()),
            ),
        ),
        (method::SUBSCRIBE, (value(subscribe), value(subscribed))),
    ])
}

/// Fields of the description that the value does not have, in all structures that the value reaches.
fn left_out(
    interface: &Interface,
    of: &Type,
    value: &Value,
    path: &str,
    found: &mut BTreeSet<String>,
) {
    match (of, value) {
        (Type::Named(name), value) => {
            // Exactly one field of a change is there, by its nature.
            let member = interface.members.iter().find(|member| member.name == *name);
            if let Some(MemberKind::Type(of)) = member.map(|member| &member.kind)
                && &**name != "Change"
            {
                left_out(interface, of, value, name, found);
            }
        }
        (Type::Optional(inner), value) => left_out(interface, inner, value, path, found),
        (Type::Array(inner), Value::Array(items)) => {
            for item in items {
                left_out(interface, inner, item, path, found);
            }
        }
        (Type::Struct(fields), value) => left_out_of(interface, fields, value, path, found),
        _ => {}
    }
}

fn left_out_of(
    interface: &Interface,
    fields: &[Field],
    value: &Value,
    path: &str,
    found: &mut BTreeSet<String>,
) {
    for field in fields {
        let path = format!("{path}.{}", field.name);
        match value.get(&*field.name) {
            Some(value) => left_out(interface, &field.of, value, &path, found),
            None => {
                found.insert(path);
            }
        }
    }
}

#[test]
fn every_method_takes_and_gives_what_is_described() {
    let interface = described();
    assert_eq!(&*interface.name, INTERFACE);
    let samples = samples();
    let mut left = BTreeSet::new();
    for (full, (call, reply)) in &samples {
        let name = full
            .strip_prefix("io.muster.Manager.")
            .expect("a method of this interface");
        interface
            .check_call(name, call)
            .expect("the call is as described");
        interface
            .check_reply(name, reply)
            .expect("the reply is as described");
        let (_, input, output) = interface
            .methods()
            .find(|(method, ..)| *method == name)
            .expect("it is described");
        left_out_of(&interface, input, call, name, &mut left);
        left_out_of(&interface, output, reply, name, &mut left);
    }
    assert_eq!(left, BTreeSet::new(), "described, and not in the types");
    let described: BTreeSet<String> = interface
        .methods()
        .map(|(name, ..)| format!("{INTERFACE}.{name}"))
        .collect();
    let known: BTreeSet<String> = samples.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(described, known);
}

#[test]
fn a_status_is_the_type_of_that_name() {
    let interface = described();
    interface
        .check_type("UnitStatus", &value(status()))
        .expect("it is as described");
    let fields = |kind: &MemberKind| match kind {
        MemberKind::Type(Type::Struct(fields)) => {
            fields.iter().map(|field| field.name.clone()).collect()
        }
        MemberKind::Method { output, .. } => {
            output.iter().map(|field| field.name.clone()).collect()
        }
        _ => Vec::new(),
    };
    let of = |name: &str| {
        let member = interface
            .members
            .iter()
            .find(|member| &*member.name == name);
        fields(&member.expect("it is described").kind)
    };
    assert_eq!(of("UnitStatus"), of("Status"));
    assert_eq!(of("WaitJob"), of("Submit"));
    assert_eq!(of("StartTransient"), of("Submit"));
}

#[test]
fn every_error_carries_a_failure() {
    let interface = described();
    let failure = value(Failure {
        errno: Some(2),
        ..Failure::default()
    });
    for name in [
        error::NO_SUCH_UNIT,
        error::NO_SUCH_JOB,
        error::REFUSED,
        error::NOT_PERMITTED,
        error::INVALID,
        error::FAILED,
        error::SAFE_MODE,
    ] {
        let name = name
            .strip_prefix("io.muster.Manager.")
            .expect("an error of this interface");
        interface
            .check_error(name, &failure)
            .expect("it is as described");
    }
}

#[test]
fn a_newer_manager_and_an_older_client_understand_each_other() {
    let newer = json!({"unit": "a.service", "job": 3, "result": null, "invented": {"x": 1}});
    let reply: SubmitReply = serde_json::from_value(newer).expect("unknown fields are ignored");
    assert_eq!(
        (reply.job, reply.result.as_deref(), &*reply.active),
        (Some(3), None, "")
    );
    for change in changes() {
        let text = value(change.clone());
        assert_eq!(
            serde_json::from_value::<Change>(text).expect("a change"),
            change
        );
    }
}
