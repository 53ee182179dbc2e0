use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: Duration = Duration::from_secs(100);

fn pair(limits: Limits) -> (UnixStream, Connection) {
    let (client, server) = UnixStream::pair().unwrap();
    let peer = Peer::of(&server).unwrap();
    (client, Connection::new(server.into(), peer, limits, NOW))
}

fn call(method: &str) -> String {
    format!("{{\"method\":\"{method}\"}}\0")
}

fn taken(connection: &mut Connection) -> Option<(u64, String)> {
    connection
        .take_call(NOW)
        .map(|(number, call)| (number, call.method.into()))
}

/// Everything that the client can read at this moment.
fn received(client: &mut UnixStream) -> String {
    client.set_nonblocking(true).unwrap();
    let mut bytes = Vec::new();
    let _ = client.read_to_end(&mut bytes);
    client.set_nonblocking(false).unwrap();
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_calls(cuts in prop::collection::vec(1usize..60, 0..12)) {
        let (mut client, mut connection) = pair(Limits::default());
        let methods = ["a.One", "a.Two", "a.Three", "a.Four"];
        let text: String = methods.iter().map(|method| call(method)).collect();
        let mut rest = text.as_bytes();
        let mut found = Vec::new();
        for cut in cuts.into_iter().chain([usize::MAX]) {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            rest = later;
            client.write_all(now).unwrap();
            connection.on_readable(NOW).unwrap();
            while let Some((number, method)) = taken(&mut connection) {
                found.push(method);
                connection.reply(number, Reply::empty()).unwrap();
                connection.flush(NOW).unwrap();
                connection.on_readable(NOW).unwrap();
            }
        }
        prop_assert_eq!(found, methods);
        prop_assert_eq!(received(&mut client).matches('\0').count(), methods.len());
    }

    #[test]
    fn no_bytes_make_it_panic_and_garbage_ends_it(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (mut client, mut connection) = pair(Limits::default());
        client.write_all(&bytes).unwrap();
        connection.on_readable(NOW).unwrap();
        let call = connection.take_call(NOW);
        prop_assert!(call.is_none());
        let refused = connection.flush(NOW).is_err();
        prop_assert_eq!(refused, bytes.contains(&0));
        prop_assert_eq!(received(&mut client).contains("MalformedCall"), refused);
    }
}

#[test]
fn calls_are_handed_out_one_after_the_other() {
    let (mut client, mut connection) = pair(Limits::default());
    client
        .write_all((call("a.One") + &call("a.Two")).as_bytes())
        .unwrap();
    connection.on_readable(NOW).unwrap();
    assert_eq!(taken(&mut connection).unwrap(), (1, "a.One".into()));
    assert!(taken(&mut connection).is_none());
    assert_eq!(
        connection.reply(2, Reply::empty()),
        Err(ReplyError::NobodyWaits)
    );
    connection.reply(1, Reply::empty()).unwrap();
    assert_eq!(taken(&mut connection).unwrap(), (2, "a.Two".into()));
    assert_eq!(
        connection.reply(1, Reply::empty()),
        Err(ReplyError::NobodyWaits)
    );
}

#[test]
fn later_calls_wait_while_a_call_for_more_is_open() {
    let (mut client, mut connection) = pair(Limits::default());
    let watch = "{\"method\":\"a.Watch\",\"more\":true}\0";
    client
        .write_all((watch.to_owned() + &call("a.Next")).as_bytes())
        .unwrap();
    connection.on_readable(NOW).unwrap();
    let (number, _) = taken(&mut connection).unwrap();
    for _ in 0..3 {
        connection
            .reply(number, Reply::of(&json!({"n": 1})).and_more())
            .unwrap();
        assert!(taken(&mut connection).is_none());
    }
    assert!(!connection.interest().read);
    connection.reply(number, Reply::empty()).unwrap();
    assert_eq!(taken(&mut connection).unwrap().1, "a.Next");
    let more = Reply::empty().and_more();
    assert_eq!(connection.reply(number + 1, more), Err(ReplyError::NotMore));
}

#[test]
fn a_call_that_wants_no_reply_gets_none() {
    let (mut client, mut connection) = pair(Limits::default());
    let text = "{\"method\":\"a.Do\",\"oneway\":true}\0".to_owned() + &call("a.Next");
    client.write_all(text.as_bytes()).unwrap();
    connection.on_readable(NOW).unwrap();
    let (number, _) = taken(&mut connection).unwrap();
    assert_eq!(
        connection.reply(number, Reply::empty()),
        Err(ReplyError::NobodyWaits)
    );
    assert_eq!(taken(&mut connection).unwrap().1, "a.Next");
    connection.flush(NOW).unwrap();
    assert_eq!(received(&mut client), "");
}

#[test]
fn a_half_sent_call_has_a_deadline_that_more_bytes_do_not_move() {
    let (mut client, mut connection) = pair(Limits::default());
    let due = NOW + Limits::default().half_sent;
    client.write_all(b"{\"meth").unwrap();
    connection.on_readable(NOW).unwrap();
    assert_eq!(connection.deadline(), Some(due));
    client.write_all(b"od\":").unwrap();
    connection
        .on_readable(NOW + Duration::from_secs(5))
        .unwrap();
    assert_eq!(connection.deadline(), Some(due));
    client.write_all(b"\"a.B\"}\0").unwrap();
    connection
        .on_readable(NOW + Duration::from_secs(6))
        .unwrap();
    assert_eq!(connection.deadline(), None);
}

#[test]
fn what_follows_an_open_call_has_no_deadline_until_its_turn() {
    let (mut client, mut connection) = pair(Limits::default());
    client
        .write_all((call("a.One") + "{\"half").as_bytes())
        .unwrap();
    connection.on_readable(NOW).unwrap();
    assert_eq!(connection.deadline(), None);
    let later = NOW + Duration::from_secs(3600);
    assert!(connection.take_call(later).is_some());
    assert_eq!(
        connection.deadline(),
        Some(later + Limits::default().half_sent)
    );
}

#[test]
fn a_reader_that_reads_nothing_has_a_deadline_and_a_bound() {
    let limits = Limits {
        queued_bytes: 100_000,
        ..Limits::default()
    };
    let (mut client, mut connection) = pair(limits);
    client
        .write_all(b"{\"method\":\"a.Watch\",\"more\":true}\0")
        .unwrap();
    connection.on_readable(NOW).unwrap();
    let (number, _) = taken(&mut connection).unwrap();
    let event = || Reply::of(&json!({"text": "x".repeat(1000)})).and_more();
    let mut queued = 0;
    let full = loop {
        match connection.reply(number, event()) {
            Ok(()) => queued += 1,
            Err(error) => break error,
        }
        connection.flush(NOW).unwrap();
        assert!(queued < 10_000);
    };
    assert_eq!(full, ReplyError::Full(QueueFull { limit: 100_000 }));
    assert!(connection.queued_bytes() <= 100_000);
    assert!(connection.interest().write);
    assert_eq!(connection.deadline(), Some(NOW + limits.unread));
    // Whoever reads again gets everything, in order, and then what comes next.
    let mut read = 0;
    while connection.queued_bytes() > 0 {
        read += received(&mut client).matches('\0').count();
        connection.flush(NOW).unwrap();
    }
    read += received(&mut client).matches('\0').count();
    assert_eq!(read, queued);
    assert_eq!(connection.deadline(), None);
    connection.reply(number, event()).unwrap();
}

#[test]
fn what_is_malformed_too_long_or_too_deep_is_said_before_the_end() {
    let limits = Limits {
        message_bytes: 500,
        ..Limits::default()
    };
    let long = "x".repeat(600);
    let deep = format!("{{\"method\":\"a.B\",\"parameters\":{}\0", "[".repeat(400));
    for (text, words) in [
        ("nonsense\0", "JSON"),
        (long.as_str(), "longer than 500"),
        (deep.as_str(), "deeper"),
        ("{\"method\":\"a.B\",\"parameters\":3}\0", "not an object"),
    ] {
        let (mut client, mut connection) = pair(limits);
        client.write_all(text.as_bytes()).unwrap();
        connection.on_readable(NOW).unwrap();
        assert!(connection.take_call(NOW).is_none());
        assert!(matches!(connection.flush(NOW), Err(ConnectionEnd::Refused)));
        let told = received(&mut client);
        assert!(told.contains("io.muster.Protocol.MalformedCall"), "{told}");
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn earlier_calls_are_answered_before_garbage_ends_the_connection() {
    let (mut client, mut connection) = pair(Limits::default());
    client
        .write_all((call("a.One") + "nonsense\0").as_bytes())
        .unwrap();
    connection.on_readable(NOW).unwrap();
    let (number, _) = taken(&mut connection).unwrap();
    connection
        .reply(number, Reply::of(&json!({"n": 1})))
        .unwrap();
    assert!(connection.take_call(NOW).is_none());
    assert!(connection.flush(NOW).is_err());
    let told = received(&mut client);
    assert!(
        told.starts_with("{\"parameters\":{\"n\":1}}\0{\"error\":"),
        "{told}"
    );
}

#[test]
fn a_client_that_only_stops_sending_is_answered() {
    let (mut client, mut connection) = pair(Limits::default());
    client.write_all(call("a.One").as_bytes()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    connection.on_readable(NOW).unwrap();
    let (number, _) = taken(&mut connection).unwrap();
    connection.on_readable(NOW).unwrap();
    connection.flush(NOW).unwrap();
    connection.reply(number, Reply::empty()).unwrap();
    assert!(matches!(connection.flush(NOW), Err(ConnectionEnd::Gone)));
    assert_eq!(received(&mut client), "{\"parameters\":{}}\0");
}

#[test]
fn whole_calls_of_a_client_that_has_gone_are_handed_out() {
    let (mut client, mut connection) = pair(Limits::default());
    client
        .write_all((call("a.One") + &call("a.Two") + "{\"half").as_bytes())
        .unwrap();
    drop(client);
    connection.on_hangup(NOW);
    for method in ["a.One", "a.Two"] {
        connection.flush(NOW).unwrap();
        let (number, found) = taken(&mut connection).unwrap();
        assert_eq!(found, method);
        assert_eq!(
            connection.reply(number, Reply::empty()),
            Err(ReplyError::NobodyWaits)
        );
    }
    assert!(matches!(connection.flush(NOW), Err(ConnectionEnd::Gone)));
}
