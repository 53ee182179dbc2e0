//! What is different when somebody looks.

use std::fs;
use std::process::Command;

use muster_control_api::v1;
use muster_lab::screen::Screen;

use super::plant::{ident, instance, plant, usage};
use super::stub::Stub;

fn on_terminal(command: &Command) -> Screen {
    Screen::start(command, (100, 30)).expect("it starts")
}

#[test]
fn colours_are_for_terminals_and_for_those_who_want_them() {
    let stub = Stub::new(plant());
    let (status, seen) = on_terminal(&stub.command(&["get", "instances"])).end();
    assert!(status.success());
    assert!(seen.contains("\x1b[1mINSTANCE"), "{seen:?}");
    assert!(seen.contains("\x1b[31mfailed\x1b[0m"), "{seen:?}");
    let mut command = stub.command(&["get", "instances"]);
    command.env("NO_COLOR", "1");
    let (_, seen) = on_terminal(&command).end();
    assert!(
        !seen.contains('\x1b') && seen.contains("worker/local/0"),
        "{seen:?}"
    );
    let plain = stub.run(&["get", "instances"]).ok().stdout;
    assert!(!plain.contains('\x1b'));
}

#[test]
fn a_terminal_obeys_nothing_that_a_service_wrote() {
    let stub = Stub::new(plant());
    stub.change(|script| {
        script.logs = vec![v1::LogChunk {
            node_id: "node-1".into(),
            data: b"\x1b]0;owned\x07\x1b[2Jtext\n".to_vec(),
            status: "ok".into(),
            error: None,
        }];
    });
    let (_, seen) = on_terminal(&stub.command(&["logs", "worker"])).end();
    assert!(
        seen.contains("text") && !seen.contains(['\x1b', '\x07']),
        "{seen:?}"
    );
    let piped = stub.run(&["logs", "worker"]).ok().stdout;
    assert!(piped.contains("\x1b[2Jtext"), "a pipe gets all of it");
}

fn busy() -> Stub {
    let mut script = plant();
    let usage_of = |item: &str, cpu| v1::InstanceUsage {
        instance: Some(ident(item, 0)),
        node_id: "node-1".into(),
        state: "active".into(),
        usage: Some(usage(cpu, 1 << 20)),
    };
    script.usage = vec![v1::UsageSnapshot {
        nodes: vec![v1::NodeUsage {
            node_id: "node-1".into(),
            max_dmips: 10_000,
            total_ram: 4 << 30,
            usage: Some(usage(5000, 1 << 30)),
        }],
        instances: vec![usage_of("web", 100), usage_of("worker", 4000)],
        nodes_gone: Vec::new(),
    }];
    Stub::new(script)
}

#[test]
fn top_is_live_until_q_and_gives_the_terminal_back() {
    let stub = busy();
    for leave in [b"q".as_slice(), b"\x03"] {
        let mut top = on_terminal(&stub.command(&["top"]));
        top.wait_for("worker/local/0");
        assert!(top.seen().contains("\x1b[?1049h"), "another screen");
        top.press(b"n").expect("typed");
        // Only what changes is drawn again.
        top.wait_for("name");
        top.press(leave).expect("typed");
        let (status, seen) = top.end();
        assert!(status.success(), "{status:?}");
        assert!(
            seen.contains("\x1b[?1049l"),
            "the screen from before: {seen:?}"
        );
    }
}

#[test]
fn top_ends_with_the_unit_and_says_why_on_the_screen_from_before() {
    let mut stub = busy();
    let top = on_terminal(&stub.command(&["top"]));
    top.wait_for("worker/local/0");
    stub.end();
    let (status, seen) = top.end();
    assert_eq!(status.code(), Some(5), "{seen:?}");
    let (_, after) = seen
        .rsplit_once("\x1b[?1049l")
        .expect("the screen from before");
    assert!(
        after.contains("the connection to the Unit broke during FollowUsage"),
        "{after:?}"
    );
}

#[test]
fn bars_show_how_far_an_update_is() {
    let mut script = plant();
    script.plan.update_id = 7;
    let item = |state: &str, downloaded| v1::Item {
        item_id: "web".into(),
        version: "1.2.0".into(),
        state: state.into(),
        total_size: 4 << 20,
        downloaded,
        ..v1::Item::default()
    };
    let step = |step: &str, item, state: &str, done| v1::UpdateProgress {
        update_id: 7,
        step: step.into(),
        done,
        items: vec![item],
        instances: vec![instance("web", 0, "node-1", state)],
        ..v1::UpdateProgress::default()
    };
    script.progress = vec![vec![
        step(
            "downloading",
            item("downloading", 1 << 20),
            "inactive",
            false,
        ),
        step("none", item("installed", 4 << 20), "active", true),
    ]];
    let stub = Stub::new(script);
    fs::write(stub.site.path("unit.yaml"), "items: []\n").expect("written");
    let (status, seen) = on_terminal(&stub.command(&["apply", "unit.yaml", "--wait"])).end();
    assert!(status.success(), "{seen:?}");
    assert!(seen.contains("web 1.2.0"), "{seen:?}");
    assert!(seen.contains("4.00 MiB of 4.00 MiB"), "{seen:?}");
    assert!(seen.contains("1 of 1 active"), "{seen:?}");
    assert!(
        seen.ends_with("Update 7 is done: 1 of 1 instances active.\r\n"),
        "{seen:?}"
    );
}
