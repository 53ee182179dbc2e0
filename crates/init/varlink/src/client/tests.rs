use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use serde_json::{Value, json};

use super::*;

/// A client whose daemon reads one call and then sends `answer`.
fn against(answer: &'static [u8]) -> (Client, thread::JoinHandle<String>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let daemon = thread::spawn(move || {
        let mut call = Vec::new();
        let mut byte = [0];
        while theirs.read(&mut byte).unwrap() == 1 && byte != [0] {
            call.push(byte[0]);
        }
        theirs.write_all(answer).unwrap();
        String::from_utf8(call).unwrap()
    });
    (Client::over(ours.into()), daemon)
}

#[test]
fn an_answer_is_given_as_a_value() {
    let (mut client, daemon) = against(b"{\"parameters\":{\"x\":3}}\0");
    let value: Value = client.call("a.B", &json!({"y": 1})).unwrap();
    assert_eq!(value, json!({"x": 3}));
    assert_eq!(
        daemon.join().unwrap(),
        r#"{"method":"a.B","parameters":{"y":1}}"#
    );
}

#[test]
fn an_error_of_the_daemon_is_told_apart() {
    let (mut client, _daemon) = against(b"{\"error\":\"a.Bad\",\"parameters\":{\"why\":\"no\"}}\0");
    match client.call::<_, Value>("a.B", &json!({})) {
        Err(CallError::Refused { error, .. }) => {
            assert_eq!(&*error.name, "a.Bad");
            assert_eq!(error.parameters.text(), r#"{"why":"no"}"#);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_answers_are_errors_that_name_the_method() {
    type Check = fn(&CallError) -> bool;
    let cases: [(&'static [u8], Check); 4] = [
        (b"garbage\0", |e| matches!(e, CallError::Malformed { .. })),
        (b"{\"parameters\":{\"x\":\"text\"}}\0", |e| {
            matches!(e, CallError::Unexpected { .. })
        }),
        (b"{\"para", |e| matches!(e, CallError::Closed { .. })),
        (b"", |e| matches!(e, CallError::Closed { .. })),
    ];
    #[derive(Debug, serde::Deserialize)]
    struct Wanted {
        #[expect(dead_code, reason = "only reading it is tested")]
        x: u32,
    }
    for (answer, check) in cases {
        let (mut client, _daemon) = against(answer);
        let error = client.call::<_, Wanted>("a.B", &json!({})).unwrap_err();
        assert!(check(&error), "{error:?}");
        assert!(error.to_string().contains("a.B"), "{error}");
    }
}

#[test]
fn a_late_answer_is_never_taken_for_the_next() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut client = Client::over(ours.into());
    client.set_timeout(Some(Duration::from_millis(20)));
    let late = client.call::<_, Value>("a.Slow", &json!({})).unwrap_err();
    assert!(matches!(late, CallError::TimedOut { .. }), "{late:?}");
    // Whether the answer can still be written does not matter.
    let _ = theirs.write_all(b"{\"parameters\":{\"x\":1}}\0");
    let next = client.call::<_, Value>("a.Next", &json!({})).unwrap_err();
    assert!(matches!(next, CallError::Closed { .. }), "{next:?}");
}

#[test]
fn answers_go_on_until_the_last() {
    let (client, _daemon) = against(
        b"{\"parameters\":{\"n\":1},\"continues\":true}\0{\"parameters\":{\"n\":2},\"continues\":true}\0{\"parameters\":{\"n\":3}}\0",
    );
    let replies = client.call_more::<_, Value>("a.Watch", &json!({})).unwrap();
    let numbers: Vec<_> = replies
        .map(|reply| reply.unwrap()["n"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_daemon_that_does_not_run_is_named_with_its_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let expected = format!(
        "muster-core is not running (no socket at {})",
        path.display()
    );
    let error = Client::connect("muster-core", &path).unwrap_err();
    assert_eq!(error.to_string(), expected);
    // A socket that nobody listens at any more is as good as none.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let error = Client::connect("muster-core", &path).unwrap_err();
    assert_eq!(error.to_string(), expected);
}
