//! `apply`, `diff` and `rollback`: documents, plans, and updates that are waited for.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::thread;

use muster_control_api::v1;
use serde_json::json;

use super::plant::{at, ident, instance, plant};
use super::stub::Stub;
use crate::rig::{Run, run, until};

const DOCUMENT: &str = "\
items:
- id: web
  version: 1.2.0
  image: {layout: web.tar}
instances:
- {item: web, count: 2}
";

fn plan(update_id: u64) -> v1::ApplyResponse {
    let change = |action: &str, kind: &str, name: &str, before: &str, after: &str| v1::Change {
        action: action.into(),
        kind: kind.into(),
        name: name.into(),
        before: before.into(),
        after: after.into(),
    };
    v1::ApplyResponse {
        update_id,
        changes: vec![
            change("add", "item", "web", "", "1.2.0 from web.tar"),
            change(
                "change",
                "instance",
                "web for local",
                "1, priority 0",
                "2, priority 0",
            ),
            change("remove", "item", "old", "1 from old.tar", ""),
        ],
        placements: vec![
            v1::Placement {
                instance: Some(ident("web", 1)),
                reason: "no node has enough RAM".into(),
                ..v1::Placement::default()
            },
            v1::Placement {
                instance: Some(ident("web", 0)),
                node_id: "node-1".into(),
                runtime_type: "runc".into(),
                reason: String::new(),
            },
        ],
        more_placements: 0,
    }
}

fn stub() -> Stub {
    let mut script = plant();
    script.plan = plan(7);
    let stub = Stub::new(script);
    fs::write(stub.site.path("unit.yaml"), DOCUMENT).expect("written");
    stub
}

fn progress(step: &str, states: &[&str], done: bool) -> v1::UpdateProgress {
    let numbered = (0..).zip(states);
    v1::UpdateProgress {
        update_id: 7,
        step: step.into(),
        done,
        items: vec![v1::Item {
            item_id: "web".into(),
            version: "1.2.0".into(),
            state: if done { "installed" } else { "downloading" }.into(),
            total_size: 4 << 20,
            downloaded: 1 << 20,
            ..v1::Item::default()
        }],
        instances: numbered
            .map(|(number, state)| instance("web", number, "node-1", state))
            .collect(),
        ..v1::UpdateProgress::default()
    }
}

#[test]
fn a_plan_is_shown_before_anything_changes() {
    let stub = stub();
    stub.change(|script| script.plan.update_id = 0);
    let expected = "\
+ item web: 1.2.0 from web.tar
~ instance web for local: 1, priority 0 -> 2, priority 0
- item old: 1 from old.tar

INSTANCE     NODE    RUNTIME  WHY NOT
web/local/1  -       -        no node has enough RAM
web/local/0  node-1  runc

1 to add, 1 to change, 1 to remove; nothing was changed.
";
    assert_eq!(stub.run(&["diff", "unit.yaml"]).ok().stdout, expected);
    let dry = stub.run(&["apply", "--dry-run", "unit.yaml"]).ok();
    assert_eq!(dry.stdout, expected);
    let name = stub.site.path("unit.yaml");
    let name = fs::canonicalize(name).expect("there");
    let asked = stub.asked().pop().expect("a question");
    assert_eq!(asked, format!("Apply ({name:?}, Yaml, true)"));
    let coloured = stub
        .run(&["diff", "unit.yaml", "--color", "always"])
        .ok()
        .stdout;
    assert!(
        coloured.starts_with("\x1b[32m+ item web: 1.2.0 from web.tar\x1b[0m\n\x1b[33m~ "),
        "{coloured:?}"
    );
    let json = stub.run(&["diff", "unit.yaml", "-o", "json"]).json();
    assert_eq!(json["update"], json!(null));
    assert_eq!(
        json["changes"][0],
        json!({"action": "add", "kind": "item", "name": "web", "before": null, "after": "1.2.0 from web.tar"})
    );
    assert_eq!(
        json["placements"][0],
        json!({"instance": "web/local/1", "node": null, "runtimeType": null, "reason": "no node has enough RAM"})
    );
    stub.change(|script| script.plan = v1::ApplyResponse::default());
    assert_eq!(
        stub.run(&["diff", "unit.yaml"]).ok().stdout,
        "Nothing changes.\n"
    );
}

#[test]
fn a_document_is_applied_from_a_file_or_standard_input() {
    let stub = stub();
    let applied = stub.run(&["apply", "unit.yaml"]).ok();
    assert!(
        applied.stdout.ends_with("- item old: 1 from old.tar\n"),
        "{}",
        applied.stdout
    );
    assert!(
        applied.stderr.starts_with("Update 7 has begun"),
        "{}",
        applied.stderr
    );
    let mut child = stub
        .command(&["apply", "-", "-o", "name"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"{\"items\": []}").expect("written");
    drop(stdin);
    let output = child.wait_with_output().expect("ended");
    assert_eq!(
        output.stdout,
        b"item/web\ninstance/web for local\nitem/old\n"
    );
    let asked = stub.asked().pop().expect("a question");
    assert!(asked.contains("standard-input\", Json, false"), "{asked}");
}

#[test]
fn mistakes_are_shown_where_they_are_and_nothing_is_sent() {
    let stub = stub();
    let check = |name: &str, text: &str, expected: &str| {
        fs::write(stub.site.path(name), text).expect("written");
        let run = stub.run(&["apply", name]);
        assert_eq!(run.status.code(), Some(2), "{}", run.stderr);
        assert_eq!(run.stderr, expected, "{name}");
    };
    check(
        "two.yaml",
        "items:\n- id: web\n  version: ''\n  image: {layout: web.tar}\ninstances:\n- {item: wep, count: 2}\n",
        "\
two.yaml:3:12: error: items[0].version: `` must not be empty
   |
 3 |   version: ''
   |            ^^
two.yaml:6:10: error: instances[0].item: `wep` is not one of the items
   |
 6 | - {item: wep, count: 2}
   |          ^^^
muster: two.yaml has 2 mistakes; nothing was changed
",
    );
    check(
        "syntax.json",
        "{\"items\": [\n  {\"id\": }\n]}\n",
        "\
syntax.json:2:10: error: expected a value, found `}`
   |
 2 |   {\"id\": }
   |          ^
muster: syntax.json has 1 mistake; nothing was changed
",
    );
    stub.run(&["apply", "none.yaml"])
        .refused(4, &["cannot read none.yaml"]);
    fs::write(stub.site.path("unit.toml"), "").expect("written");
    stub.run(&["apply", "unit.toml"])
        .refused(2, &["unit.toml", ".yaml or .json"]);
    assert_eq!(stub.asked(), [""; 0]);
}

#[test]
fn an_update_is_waited_for_over_a_restart_of_the_unit() {
    let stub = stub();
    stub.change(|script| {
        script.progress = vec![
            vec![progress("downloading", &[], false)],
            vec![
                progress("launching", &["activating", "active"], false),
                progress("none", &["active", "active"], true),
            ],
        ];
    });
    let run = stub.run(&["apply", "unit.yaml", "--wait"]).ok();
    assert_eq!(
        run.stderr,
        "\
downloading
item web 1.2.0: downloading
the Unit does not answer; trying again
launching
instance web/local/0: activating on node-1
instance web/local/1: active on node-1
item web 1.2.0: installed
instance web/local/0: active on node-1
Update 7 is done: 2 of 2 instances active.
"
    );
}

fn waited(progress: v1::UpdateProgress) -> Run {
    let stub = stub();
    stub.change(|script| {
        script.progress = vec![vec![progress]];
        script.endless = true;
    });
    stub.run(&["apply", "unit.yaml", "--wait", "--timeout", "1s"])
}

#[test]
fn the_exit_code_tells_how_a_wait_ended() {
    let failed = v1::UpdateProgress {
        failures: vec!["web/local/1: no node has enough RAM".into()],
        ..progress("none", &["active"], true)
    };
    waited(failed).refused(1, &["update 7", "web/local/1: no node has enough RAM"]);
    let replaced = v1::UpdateProgress {
        superseded: true,
        ..progress("launching", &[], false)
    };
    waited(replaced).refused(1, &["update 7 was replaced by a newer one"]);
    waited(progress("launching", &["activating"], false))
        .refused(6, &["update 7 is not finished after 1s; it goes on"]);
}

#[test]
fn whoever_stops_waiting_is_told_that_the_update_goes_on() {
    let stub = stub();
    stub.change(|script| {
        script.progress = vec![vec![progress("launching", &["activating"], false)]];
        script.endless = true;
    });
    let child = stub
        .command(&["apply", "unit.yaml", "--wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    until("it waits", || {
        stub.asked().iter().any(|it| it.starts_with("FollowUpdate"))
    });
    let pid = rustix::process::Pid::from_child(&child);
    // The question is asked just before signals are listened to.
    let waiting = thread::spawn(move || child.wait_with_output().expect("ended"));
    until("it has ended", || {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        waiting.is_finished()
    });
    let output = waiting.join().expect("joined");
    let stderr = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(code) => {
            assert_eq!(code, 130, "{stderr}");
            assert!(stderr.contains("update 7 goes on"), "{stderr}");
        }
        None => panic!("ended by the signal: {:?}", output.status),
    }
}

#[test]
fn what_was_wanted_before_is_wanted_again() {
    let stub = stub();
    let dry = stub.run(&["rollback", "--dry-run"]).ok();
    assert!(
        dry.stdout.ends_with("nothing was changed.\n"),
        "{}",
        dry.stdout
    );
    stub.run(&["rollback", "5"]).ok();
    assert_eq!(
        stub.asked(),
        [
            "Rollback RollbackRequest { update_id: 0, dry_run: true }",
            "Rollback RollbackRequest { update_id: 5, dry_run: false }",
        ]
    );
    let version = |update_id, seconds, name: &str| v1::DesiredVersion {
        update_id,
        applied: at(seconds),
        origin: "operator".into(),
        name: name.into(),
    };
    stub.change(|script| {
        script.desired = v1::GetDesiredResponse {
            document: DOCUMENT.into(),
            update_id: 7,
            history: vec![
                version(7, 60, "/srv/unit.yaml"),
                version(5, 0, "/srv/old.yaml"),
            ],
        };
    });
    assert_eq!(
        stub.run(&["rollback", "--list"]).ok().stdout,
        "\
UPDATE  APPLIED              ORIGIN    CURRENT  FROM
7       2026-05-01 10:01:00  operator  yes      /srv/unit.yaml
5       2026-05-01 10:00:00  operator           /srv/old.yaml
"
    );
    assert_eq!(stub.run(&["get", "desired"]).ok().stdout, DOCUMENT);
    let json = stub.run(&["get", "desired", "-o", "json"]).json();
    assert_eq!(
        (&json["update"], &json["history"][1]["update"]),
        (&json!(7), &json!(5))
    );
    stub.run(&["rollback", "--list", "--dry-run"])
        .refused(2, &["--help"]);
}

#[test]
fn waiting_without_a_change_waits_for_what_is_under_way() {
    let stub = stub();
    stub.change(|script| {
        script.plan = v1::ApplyResponse::default();
        script.progress = vec![vec![progress("none", &["active"], true)]];
    });
    let done = run(&mut stub.command(&["apply", "unit.yaml", "--wait"])).ok();
    assert_eq!(done.stdout, "Nothing changes.\n");
    assert!(
        done.stderr
            .ends_with("Update 7 is done: 1 of 1 instances active.\n"),
        "{}",
        done.stderr
    );
    assert_eq!(
        stub.asked().last().map(String::as_str),
        Some("FollowUpdate FollowUpdateRequest { update_id: 0 }")
    );
}
