use muster_varlink::{CallMode, Server, ServerOptions};
use proptest::prelude::*;

use super::*;

/// A real call's id: there is no other way to get one.
fn call_id() -> CallId {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut server = Server::new(listener.into(), ServerOptions::default()).unwrap();
    let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    client
        .write_all(b"{\"method\":\"a.B\",\"more\":true}\0")
        .unwrap();
    let now = std::time::Duration::ZERO;
    loop {
        server.turn(now);
        if let Some(call) = server.next_call(now) {
            assert_eq!(call.mode, CallMode::More);
            return call.id;
        }
    }
}

fn subscribe(log: &EventLog, since: Option<u64>, units: &[&str]) -> Subscriber {
    let units = units.iter().map(|unit| (*unit).to_owned()).collect();
    Subscriber::new(call_id(), SubscribeCall { since, units }, log).unwrap()
}

fn unit(name: &str) -> Change {
    Change::Unit {
        unit: name.to_owned(),
        active: "active".to_owned(),
        sub: "running".to_owned(),
    }
}

/// Everything that a subscriber is told until it knows all.
fn told(subscriber: &mut Subscriber, log: &EventLog) -> Vec<SubscribeReply> {
    let mut replies = Vec::new();
    while let Some(reply) = subscriber.next_reply(log) {
        subscriber.told(reply.sequence);
        replies.push(reply);
    }
    replies
}

#[test]
fn a_new_subscriber_is_told_where_it_stands_and_then_what_happens() {
    let mut log = EventLog::default();
    log.begin(100);
    log.add(1, unit("a.service"));
    let mut subscriber = subscribe(&log, None, &[]);
    let first = told(&mut subscriber, &log);
    assert_eq!(first.len(), 1);
    assert_eq!(
        (first[0].resync, first[0].sequence, first[0].events.len()),
        (false, 101, 0)
    );
    assert!(told(&mut subscriber, &log).is_empty());
    log.add(2, unit("b.service"));
    let next = told(&mut subscriber, &log);
    assert_eq!(next[0].events[0].sequence, 102);
}

#[test]
fn who_comes_back_goes_on_or_reads_anew() {
    let mut log = EventLog::default();
    log.begin(100);
    for _ in 0..KEPT + 10 {
        log.add(1, unit("a.service"));
    }
    let oldest = log.last() - KEPT as u64;
    let known = told(&mut subscribe(&log, Some(oldest), &[]), &log);
    let events: usize = known.iter().map(|reply| reply.events.len()).sum();
    assert_eq!((known[0].resync, events), (false, KEPT));
    // Too old, and from another core.
    for since in [oldest - 1, 5, log.last() + 1] {
        let replies = told(&mut subscribe(&log, Some(since), &[]), &log);
        assert_eq!(replies.len(), 1);
        assert!(replies[0].resync && replies[0].sequence == log.last());
    }
}

#[test]
fn who_is_too_slow_reads_anew_once() {
    let mut log = EventLog::default();
    let mut subscriber = subscribe(&log, None, &[]);
    told(&mut subscriber, &log);
    for _ in 0..=KEPT {
        log.add(1, unit("a.service"));
    }
    let replies = told(&mut subscriber, &log);
    assert_eq!(replies.len(), 1);
    assert!(replies[0].resync);
    log.add(1, unit("a.service"));
    let next = told(&mut subscriber, &log);
    assert!(!next[0].resync && next[0].events.len() == 1);
}

#[test]
fn too_many_patterns_are_refused() {
    let units = vec!["*".to_owned(); MAX_PATTERNS + 1];
    let wanted = SubscribeCall { since: None, units };
    assert!(Subscriber::new(call_id(), wanted, &EventLog::default()).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is added and whenever it is told: each event that fits is told once, in order, or the subscriber must
    /// read anew after it.
    #[test]
    fn every_event_is_told_once_in_order(
        steps in prop::collection::vec((any::<bool>(), 0usize..3), 0..600),
        filtered in any::<bool>(),
    ) {
        let names = ["a.service", "b.service", "c.socket"];
        let patterns: &[&str] = if filtered { &["*.service"] } else { &[] };
        let mut log = EventLog::default();
        let mut subscriber = subscribe(&log, None, patterns);
        let mut expected = Vec::new();
        let mut found = Vec::new();
        for (tell, name) in steps {
            log.add(0, unit(names[name]));
            if !filtered || name < 2 {
                expected.push(log.last());
            }
            if tell {
                for reply in told(&mut subscriber, &log) {
                    prop_assert!(!reply.resync && reply.events.len() <= BATCH);
                    found.extend(reply.events.iter().map(|event| event.sequence));
                }
            }
        }
        for reply in told(&mut subscriber, &log) {
            found.extend(reply.events.iter().map(|event| event.sequence));
        }
        prop_assert_eq!(found, expected);
    }
}
