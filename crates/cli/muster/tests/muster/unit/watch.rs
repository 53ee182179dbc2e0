//! `--watch` and `--follow`: news as they come, and readers that go away.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use muster_control_api::v1::{self, watch_event::Event as News};
use serde_json::{Value, json};
use tonic::Status;

use super::plant::{ident, instance, plant};
use super::stub::Stub;

/// A command that goes on; it ends with the value.
struct Following {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Following {
    fn new(stub: &Stub, arguments: &[&str]) -> Self {
        let mut child = stub
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    /// The next line; a test that waits for ever is ended from outside.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("text");
        line
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn code(&mut self) -> Option<i32> {
        self.child.wait().expect("ended").code()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn changes_follow_the_table_in_its_columns() {
    let stub = Stub::new(plant());
    let mut watch = Following::new(&stub, &["get", "instances", "--watch"]);
    assert_eq!(
        watch.line(),
        "INSTANCE        VERSION  NODE    STATE     AGE  ERROR\n"
    );
    for _ in 0..3 {
        watch.line();
    }
    stub.tell(News::Instance(instance("web", 1, "node-2", "active")));
    assert_eq!(
        watch.line(),
        "web/local/1     1.2.0    node-2  active    12d\n"
    );
    stub.tell(News::InstanceGone(ident("worker", 0)));
    assert_eq!(
        watch.line(),
        "worker/local/0  1.2.0    node-1  gone      12d  exit code 137\n"
    );
    // Nobody was told that it is there.
    stub.tell(News::InstanceGone(ident("worker", 9)));
    stub.tell(News::Instance(instance(
        "a-name-that-is-longer",
        0,
        "node-2",
        "active",
    )));
    assert_eq!(
        watch.line(),
        "a-name-that-is-longer/local/0  1.2.0    node-2  active    12d\n"
    );
}

#[test]
fn programs_get_one_object_on_each_line() {
    let stub = Stub::new(plant());
    let mut watch = Following::new(
        &stub,
        &["get", "nodes", "-w", "-o", "json", "--state", "provisioned"],
    );
    let first = watch.json();
    assert_eq!(
        (&first["event"], &first["kind"], &first["key"]),
        (&json!("set"), &json!("node"), &json!("node-1"))
    );
    assert_eq!(first["object"]["maxDmips"], 10000);
    assert_eq!(watch.json(), json!({"event": "synced", "kind": "node"}));
    // It is still there, and is not what was asked for any more.
    let mut node = plant().nodes.remove(0);
    node.state = "paused".into();
    stub.tell(News::Node(node.clone()));
    assert_eq!(
        watch.json(),
        json!({"event": "gone", "kind": "node", "key": "node-1"})
    );
    node.state = "provisioned".into();
    stub.tell(News::Node(node));
    assert_eq!(watch.json()["event"], "set");
    stub.tell(News::NodeGone("node-1".into()));
    assert_eq!(watch.json()["event"], "gone");
}

#[test]
fn a_watcher_that_is_told_to_begin_again_does_so() {
    let stub = Stub::new(plant());
    let mut watch = Following::new(&stub, &["get", "networks", "-w", "-o", "json"]);
    for _ in 0..2 {
        assert_eq!(watch.json()["kind"], "network");
    }
    stub.end_watches(Status::aborted("too slow"));
    assert_eq!(watch.json()["key"], "net-1");
    assert_eq!(watch.json()["event"], "synced");
    stub.end_watches(Status::permission_denied("not any more"));
    assert_eq!(watch.line(), "");
    assert_eq!(watch.code(), Some(3));
}

#[test]
fn yaml_and_names_are_followed_too() {
    let stub = Stub::new(plant());
    let mut watch = Following::new(&stub, &["get", "networks", "-w", "-o", "yaml"]);
    let lines: Vec<String> = (0..4).map(|_| watch.line()).collect();
    assert_eq!(
        lines,
        ["---\n", "event: set\n", "key: net-1\n", "kind: network\n"]
    );
    let mut watch = Following::new(&stub, &["get", "items", "-w", "-o", "name"]);
    assert_eq!(
        (watch.line(), watch.line()),
        ("web@1.2.0\n".into(), "worker@1.2.0\n".into())
    );
}

#[test]
fn a_unit_that_goes_away_ends_a_watch_with_a_message() {
    let mut stub = Stub::new(plant());
    let mut watch = Following::new(&stub, &["get", "alerts", "-w", "-o", "json"]);
    assert_eq!(watch.json()["object"]["message"], "75% of 64 MiB");
    assert_eq!(watch.json()["event"], "synced");
    stub.end();
    assert_eq!(watch.line(), "");
    assert_eq!(watch.code(), Some(5));
}

#[test]
fn events_and_logs_are_followed() {
    let mut script = plant();
    script.logs = vec![v1::LogChunk {
        node_id: "node-1".into(),
        data: b"one\nhalf a li".to_vec(),
        status: "ok".into(),
        error: None,
    }];
    let stub = Stub::new(script);
    let mut events = Following::new(&stub, &["events", "-f"]);
    assert_eq!(
        events.line(),
        "2026-05-01 10:00:00  ok       update    7                         done\n"
    );
    assert_eq!(
        events.line(),
        "2026-05-01 10:01:30  warning  instance  worker/local/0            failed: exit code 137\n"
    );
    let mut logs = Following::new(&stub, &["logs", "worker", "-f"]);
    assert_eq!(logs.line(), "one\n");
}

#[test]
fn a_reader_that_has_enough_ends_a_watch_quietly() {
    let stub = Stub::new(plant());
    let mut child = stub
        .command(&["get", "instances", "-w", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
    for _ in 0..4 {
        lines.read_line(&mut String::new()).expect("text");
    }
    // As `head -4` does.
    drop(lines);
    stub.tell(News::InstanceGone(ident("web", 0)));
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty(), "{output:?}");
}
