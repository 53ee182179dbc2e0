//! Ordinary and extraordinary conversations.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use muster_varlink::{CallError, Limits, ServerOptions};
use serde_json::{Value, json};

use crate::rig::Daemon;

#[test]
fn calls_are_answered_with_what_they_ask_for() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut client = daemon.client();
    for n in 0..100 {
        let value: Value = client.call("test.Echo", &json!({"n": n})).unwrap();
        assert_eq!(value, json!({"n": n}));
    }
    let refused = client
        .call::<_, Value>("test.Nope", &json!({}))
        .unwrap_err();
    assert!(matches!(refused, CallError::Refused { .. }));
    let who: Value = client.call("test.Who", &json!({})).unwrap();
    assert_eq!(who["pid"], std::process::id());
}

#[test]
fn replies_longer_than_the_queue_arrive_whole() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut client = daemon.client();
    for _ in 0..3 {
        let value: Value = client.call("test.Big", &json!({})).unwrap();
        assert_eq!(value["text"].as_str().unwrap().len(), 3_000_000);
    }
}

#[test]
fn calls_sent_at_once_are_answered_in_order_and_others_are_served_meanwhile() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut stream = daemon.stream();
    let count = 5000;
    let mut text = String::new();
    for n in 0..count {
        text += &format!("{{\"method\":\"test.Echo\",\"parameters\":{{\"n\":{n}}}}}\0");
    }
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(text.as_bytes()).unwrap());
    let mut client = daemon.client();
    let _: Value = client.call("test.Echo", &json!({})).unwrap();
    let expected: String = (0..count)
        .map(|n| format!("{{\"parameters\":{{\"n\":{n}}}}}\0"))
        .collect();
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found).unwrap();
    assert!(found == expected.as_bytes());
    sender.join().unwrap();
}

#[test]
fn a_subscriber_is_told_everything_in_order() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut events = daemon
        .client()
        .call_more::<_, Value>("test.Watch", &json!({}))
        .unwrap();
    assert_eq!(events.next().unwrap().unwrap()["n"], 0);
    let _: Value = daemon
        .client()
        .call("test.Publish", &json!({"n": 1000}))
        .unwrap();
    for n in 1..=1000 {
        assert_eq!(events.next().unwrap().unwrap()["n"], n);
    }
    assert_eq!(daemon.report().dropped, 0);
    drop(events);
    daemon.until(|report| report.connections == 1);
}

#[test]
fn a_subscriber_that_reads_nothing_costs_a_bounded_queue_and_is_cut() {
    let daemon = Daemon::start(ServerOptions {
        limits: Limits {
            unread: Duration::from_secs(1),
            ..Limits::default()
        },
        ..ServerOptions::default()
    });
    let mut lazy = daemon
        .client()
        .call_more::<_, Value>("test.Watch", &json!({}))
        .unwrap();
    let mut eager = daemon
        .client()
        .call_more::<_, Value>("test.Watch", &json!({}))
        .unwrap();
    assert_eq!(lazy.next().unwrap().unwrap()["n"], 0);
    assert_eq!(eager.next().unwrap().unwrap()["n"], 0);
    let count = Arc::new(AtomicU64::new(0));
    let reader = {
        let count = Arc::clone(&count);
        std::thread::spawn(move || {
            for event in eager {
                match event {
                    Ok(_) => count.fetch_add(1, Ordering::Relaxed),
                    Err(CallError::Closed { .. }) => return,
                    Err(error) => panic!("{error:?}"),
                };
            }
        })
    };
    let mut publisher = daemon.client();
    for _ in 0..100 {
        let _: Value = publisher.call("test.Publish", &json!({"n": 100})).unwrap();
    }
    let report = daemon.until(|report| report.counters.too_slow == 1);
    assert!(report.dropped > 0);
    let before = count.load(Ordering::Relaxed);
    assert!(before > 0);
    let end = Instant::now() + Duration::from_secs(20);
    while count.load(Ordering::Relaxed) == before {
        let _: Value = publisher.call("test.Publish", &json!({"n": 1})).unwrap();
        assert!(Instant::now() < end && !reader.is_finished());
    }
    // What was queued for the lazy one still arrives, then the end.
    let last = lazy.by_ref().find_map(Result::err).unwrap();
    assert!(matches!(last, CallError::Closed { .. }), "{last:?}");
    drop(daemon);
    reader.join().unwrap();
}

#[test]
fn half_sent_calls_time_out_and_stop_nobody() {
    let daemon = Daemon::start(ServerOptions {
        limits: Limits {
            half_sent: Duration::from_millis(200),
            ..Limits::default()
        },
        ..ServerOptions::default()
    });
    let mut halves: Vec<_> = (0..50).map(|_| daemon.stream()).collect();
    for half in &mut halves {
        half.write_all(b"{\"method\":\"test.Ec").unwrap();
    }
    let from = Instant::now();
    let _: Value = daemon.client().call("test.Echo", &json!({})).unwrap();
    assert!(from.elapsed() < Duration::from_secs(1));
    daemon.until(|report| report.counters.too_slow == 50);
    for half in &mut halves {
        assert_eq!(half.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut client = daemon.client();
    for garbage in [
        &b"\0"[..],
        b"{}\0",
        b"GET / HTTP/1.1\r\n\r\n\0",
        b"{\"method\":\"a.b\",\"parameters\":\"x\"}\0",
        &[0xff; 5000],
    ] {
        let mut stream = daemon.stream();
        stream.write_all(garbage).unwrap();
        if garbage.contains(&0) {
            let mut told = String::new();
            stream.read_to_string(&mut told).unwrap();
            assert!(told.contains("MalformedCall"), "{told}");
        }
        let _: Value = client.call("test.Echo", &json!({})).unwrap();
    }
    daemon.until(|report| report.counters.malformed == 4);
}

#[test]
fn a_message_without_end_is_cut_at_the_limit() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut stream = daemon.stream();
    let chunk = [b'x'; 65536];
    let mut sent = 0usize;
    // At the latest when the socket's own buffers are full too, the server must have hung up.
    while sent < 64 << 20 && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    assert!(sent < 8 << 20, "{sent} bytes were taken");
    daemon.until(|report| report.counters.malformed == 1);
}

#[test]
fn whole_calls_of_a_client_that_hangs_up_at_once_are_carried_out() {
    let daemon = Daemon::start(ServerOptions::default());
    let mut events = daemon
        .client()
        .call_more::<_, Value>("test.Watch", &json!({}))
        .unwrap();
    assert_eq!(events.next().unwrap().unwrap()["n"], 0);
    let mut stream = daemon.stream();
    let publish = "{\"method\":\"test.Publish\",\"parameters\":{\"n\":2}}\0".repeat(100);
    stream.write_all(publish.as_bytes()).unwrap();
    drop(stream);
    for _ in 0..100 {
        assert_eq!(events.next().unwrap().unwrap()["n"], 1);
        assert_eq!(events.next().unwrap().unwrap()["n"], 2);
    }
}

#[test]
fn a_server_at_rest_does_not_turn() {
    let daemon = Daemon::start(ServerOptions::default());
    let _open: Vec<_> = (0..20).map(|_| daemon.stream()).collect();
    let before = daemon.until(|report| report.connections == 21).turns;
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_millis(100) {
        std::thread::yield_now();
    }
    // A report costs a few turns: accept, call, hang-up.
    assert!(daemon.report().turns - before < 20);
}
