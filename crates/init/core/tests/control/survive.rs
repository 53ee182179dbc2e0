//! The manager dies and comes back; what clients asked for stays.

use muster_control::manager::{
    Empty, EnvironmentCall, EnvironmentReply, StartTransientCall, SubmitCall, SubmitReply,
    UnitCall, WaitJobCall, WaitWhat, error, method,
};
use muster_varlink::CallError;
use rustix::process::{Pid, Signal, kill_process};

use crate::rig::Rig;

fn kill_core(rig: &Rig) {
    let recoveries = rig.machine_status().recoveries;
    let core = rig.manager();
    kill_process(Pid::from_raw(core.host_pid).expect("a pid"), Signal::KILL)
        .expect("it can be killed");
    rig.until("the manager is back", |rig| {
        let mut client = rig.client();
        let status =
            client.call::<_, muster_control::manager::MachineStatus>(method::MACHINE, &Empty {});
        status.is_ok_and(|machine| machine.recoveries > recoveries)
    });
}

#[test]
fn jobs_transient_units_and_the_environment_outlive_the_manager() {
    let test = "jobs_transient_units_and_the_environment_outlive_the_manager";
    let Some(rig) = Rig::boot(test, |machine| {
        machine.unit("slow.service", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'until [ -e /run/go ]; do sleep 0.05; done'\n")
    }) else {
        return;
    };
    let call = SubmitCall {
        unit: "slow.service".into(),
        verb: "start".into(),
        ..SubmitCall::default()
    };
    let mut waiting = rig
        .client()
        .call_more::<_, SubmitReply>(method::SUBMIT, &call)
        .unwrap();
    let job = waiting.next().unwrap().unwrap().job.unwrap();
    let transient = StartTransientCall {
        unit: "made.service".into(),
        properties: vec![("ExecStart".into(), "/bin/sleep 1000".into())],
        wait: WaitWhat::Job,
        ..StartTransientCall::default()
    };
    let made = rig
        .client()
        .call_more::<_, SubmitReply>(method::START_TRANSIENT, &transient)
        .unwrap();
    assert_eq!(
        made.map(Result::unwrap).last().unwrap().result.as_deref(),
        Some("done")
    );
    let pid = rig.status("made.service").main_pid;
    let set = EnvironmentCall {
        set: vec!["KEPT=yes".into()],
        unset: Vec::new(),
    };
    let _: EnvironmentReply = rig.ask(method::ENVIRONMENT, &set);
    kill_core(&rig);
    let end = waiting.next().unwrap().unwrap_err();
    assert!(matches!(end, CallError::Closed { .. }), "{end:?}");
    let made = rig.status("made.service");
    assert_eq!(
        (made.main_pid, made.transient, &*made.row.active),
        (pid, true, "active")
    );
    let environment: EnvironmentReply = rig.ask(method::ENVIRONMENT, &EnvironmentCall::default());
    assert!(environment.variables.contains(&"KEPT=yes".to_owned()));
    let waiter = {
        let mut client = rig.client();
        std::thread::spawn(move || {
            client
                .call::<_, SubmitReply>(method::WAIT_JOB, &WaitJobCall { job })
                .unwrap()
        })
    };
    rig.write("/run/go", "").unwrap();
    assert_eq!(waiter.join().unwrap().result.as_deref(), Some("done"));
    assert_eq!(
        rig.job("made.service", "stop").result.as_deref(),
        Some("done")
    );
    rig.until("the made unit is forgotten", |rig| {
        let call = UnitCall { unit: "made.service".into() };
        let answer = rig.client().call::<_, serde_json::Value>(method::STATUS, &call);
        matches!(answer, Err(CallError::Refused { error, .. }) if &*error.name == error::NO_SUCH_UNIT)
    });
}

#[test]
fn clients_that_connect_while_the_manager_is_away_are_served() {
    let test = "clients_that_connect_while_the_manager_is_away_are_served";
    let Some(rig) = Rig::boot(test, |machine| machine) else {
        return;
    };
    let core = rig.manager();
    let socket = rig.socket();
    let asker = std::thread::spawn(move || {
        let mut answered = 0;
        let end = std::time::Instant::now() + std::time::Duration::from_secs(2);
        while std::time::Instant::now() < end {
            // Connecting is never refused: the socket is kept while the manager is away.
            let mut client = muster_varlink::Client::connect("muster-core", &socket).unwrap();
            client.set_timeout(Some(crate::rig::TIME));
            match client.call::<_, serde_json::Value>(method::MACHINE, &Empty {}) {
                Ok(_) => answered += 1,
                Err(CallError::Closed { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        answered
    });
    kill_process(Pid::from_raw(core.host_pid).unwrap(), Signal::KILL).unwrap();
    rig.until("the manager is back", |rig| {
        let mut client = rig.client();
        let status =
            client.call::<_, muster_control::manager::MachineStatus>(method::MACHINE, &Empty {});
        status.is_ok_and(|machine| machine.recoveries == 1)
    });
    assert!(asker.join().unwrap() > 10);
}

#[test]
fn a_shutdown_by_request_ends_the_machine() {
    let Some(mut rig) = Rig::boot("a_shutdown_by_request_ends_the_machine", |machine| machine)
    else {
        return;
    };
    let nonsense = serde_json::json!({"how": "explode"});
    assert_eq!(rig.refused(method::SHUTDOWN, &nonsense).0, error::INVALID);
    let _: Empty = rig.ask(method::SHUTDOWN, &serde_json::json!({"how": "poweroff"}));
    rig.machine().wait_ended(crate::rig::TIME).unwrap();
}
