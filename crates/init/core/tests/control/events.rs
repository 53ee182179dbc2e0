//! Subscriptions.

use muster_control::manager::{Change, Empty, SubscribeCall, SubscribeReply, method};
use muster_varlink::{CallError, Replies};

use crate::rig::{Rig, TIME};

const DAEMON: &str = "[Service]\nExecStart=/bin/sleep 1000\n";

fn subscribe(rig: &Rig, since: Option<u64>, units: &[&str]) -> Replies<SubscribeReply> {
    let units = units.iter().map(|unit| (*unit).to_owned()).collect();
    let call = SubscribeCall { since, units };
    let mut replies = rig
        .client()
        .call_more(method::SUBSCRIBE, &call)
        .expect("the call is sent");
    replies.set_timeout(Some(TIME));
    replies
}

/// Reads until a job of the unit ended; gives all that was told.
fn until_job_gone(replies: &mut Replies<SubscribeReply>, unit: &str) -> Vec<SubscribeReply> {
    let mut told = Vec::new();
    loop {
        let reply = replies.next().expect("no last reply").expect("a reply");
        let gone = reply
            .events
            .iter()
            .any(|event| matches!(&event.change, Change::JobGone(gone) if gone.unit == unit));
        told.push(reply);
        if gone {
            return told;
        }
    }
}

#[test]
fn what_happens_is_told_in_order_and_again_to_who_comes_back() {
    let test = "what_happens_is_told_in_order_and_again_to_who_comes_back";
    let Some(rig) = Rig::boot(test, |machine| {
        machine.unit("a.service", DAEMON).unit("b.service", DAEMON)
    }) else {
        return;
    };
    let mut all = subscribe(&rig, None, &[]);
    let first = all.next().unwrap().unwrap();
    assert!(!first.resync && first.events.is_empty());
    let mut only_b = subscribe(&rig, None, &["b.*"]);
    only_b.next().unwrap().unwrap();
    rig.job("a.service", "start");
    rig.job("b.service", "start");
    let told = until_job_gone(&mut all, "b.service");
    let numbers: Vec<u64> = told
        .iter()
        .flat_map(|reply| reply.events.iter().map(|event| event.sequence))
        .collect();
    let expected: Vec<u64> = (first.sequence + 1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
    let b = until_job_gone(&mut only_b, "b.service");
    assert!(
        b.iter()
            .flat_map(|reply| &reply.events)
            .all(|event| match &event.change {
                Change::Unit { unit, .. } | Change::JobNew { unit, .. } => unit == "b.service",
                Change::JobGone(gone) => gone.unit == "b.service",
                Change::Machine { .. } | Change::Reloaded {} => true,
            })
    );
    // Somebody who was away is told what it missed.
    let mut back = subscribe(&rig, Some(first.sequence), &[]);
    let missed = until_job_gone(&mut back, "b.service");
    assert!(!missed[0].resync);
    assert_eq!(missed[0].events[0].sequence, first.sequence + 1);
    let mut lost = subscribe(&rig, Some(first.sequence + 1_000_000), &[]);
    assert!(lost.next().unwrap().unwrap().resync);
}

#[test]
fn a_subscriber_of_another_manager_reads_anew() {
    let Some(rig) = Rig::boot("a_subscriber_of_another_manager_reads_anew", |machine| {
        machine.unit("a.service", DAEMON)
    }) else {
        return;
    };
    let mut events = subscribe(&rig, None, &[]);
    let before = events.next().unwrap().unwrap().sequence;
    let _: Empty = rig.ask(method::REEXEC, &Empty {});
    let end = events.find_map(Result::err).unwrap();
    assert!(matches!(end, CallError::Closed { .. }), "{end:?}");
    rig.until("the manager is back", |rig| {
        rig.machine_status().recoveries == 1
    });
    let mut events = subscribe(&rig, Some(before), &[]);
    let first = events.next().unwrap().unwrap();
    assert!(first.resync && first.sequence > before);
    rig.job("a.service", "start");
    until_job_gone(&mut events, "a.service");
}

#[test]
fn a_subscriber_that_does_not_read_is_told_to_read_anew() {
    let test = "a_subscriber_that_does_not_read_is_told_to_read_anew";
    let Some(rig) = Rig::boot(test, |machine| {
        let many: Vec<String> = (0..200).map(|n| format!("t{n}.target")).collect();
        let all = format!("[Unit]\nWants={}\n", many.join(" "));
        many.iter()
            .fold(machine.unit("all.target", all), |machine, name| {
                machine.unit(name.clone(), "[Unit]\nPartOf=all.target\n")
            })
    }) else {
        return;
    };
    let mut lazy = subscribe(&rig, None, &[]);
    lazy.next().unwrap().unwrap();
    // More than the socket, the queue and the manager's memory of events hold together.
    let mut missed = false;
    for _ in 0..60 {
        rig.job("all.target", "start");
        rig.job("all.target", "stop");
    }
    let until = rig.machine_status().sequence;
    let mut told = 0;
    while told < until {
        let reply = lazy.next().unwrap().unwrap();
        missed |= reply.resync;
        told = reply.sequence;
    }
    assert!(missed);
}
