//! `status`, `get`, `describe`, `explain`, `events`, `logs` and `top --once`: what they print, letter by letter.

use muster_control_api::v1;
use serde_json::json;
use tonic::Status;

use super::plant::{ident, plant};
use super::stub::Stub;

#[track_caller]
fn prints(stub: &Stub, arguments: &[&str], expected: &str) {
    let run = stub.run(arguments).ok();
    assert_eq!(run.stdout, expected, "{arguments:?}");
    for line in run.stdout.lines() {
        assert_eq!(line, line.trim_end(), "{arguments:?}");
    }
}

#[test]
fn status_is_the_unit_in_a_few_lines() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["status"],
        "\
Unit:       plant-7
Manager:    0.1.0, up 3h1m
Nodes:      1 of 2 connected
Instances:  1 of 3 active, 1 failed
Items:      2
Alerts:     1 in the last day
Cloud:      none
Update:     none yet; `muster apply FILE` begins one
",
    );
    stub.change(|script| {
        script.overview.cloud_configured = true;
        script.overview.update = Some(v1::UpdateProgress {
            update_id: 7,
            step: "none".into(),
            done: true,
            failures: vec!["web/local/1: no node has enough RAM".into()],
            ..v1::UpdateProgress::default()
        });
    });
    let text = stub.run(&["status"]).ok().stdout;
    assert!(text.ends_with(
        "\
Cloud:      disconnected
Update:     7, done, and not all of it succeeded
Failure:    web/local/1: no node has enough RAM
"
    ));
    let status = stub.run(&["status", "-o", "json"]).json();
    assert_eq!(
        status,
        json!({
            "system": "plant-7", "version": "0.1.0", "uptimeSeconds": 10860,
            "nodes": 2, "nodesConnected": 1, "instances": 3, "instancesActive": 1, "instancesFailed": 1,
            "items": 2, "alerts": 1, "cloud": "disconnected",
            "update": {"id": 7, "step": "none", "done": true, "failures": ["web/local/1: no node has enough RAM"]},
        })
    );
}

#[test]
fn nodes_are_listed() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["get", "nodes"],
        "\
NODE    STATE        LINK          TYPE   INSTANCES  CPU  RAM
node-1  provisioned  connected     board  2          25%  25%
node-2  paused       disconnected  board  0          -    -
",
    );
    prints(
        &stub,
        &["get", "nodes", "-o", "wide", "-l", "gpu", "-l", "fast"],
        "\
NODE    STATE        LINK       TYPE   INSTANCES  CPU  RAM  SYSTEM           RUNTIMES  LABELS    PRIORITY  CONFIG  TITLE         ERROR
node-1  provisioned  connected  board  2          25%  25%  linux 6.1 amd64  runc      gpu,fast  10        1.0.0   Board node-1
",
    );
    prints(
        &stub,
        &["get", "node", "-o", "name", "--state", "paused"],
        "node-2\n",
    );
    let nodes = stub.run(&["get", "nodes", "node-2", "-o", "json"]).json();
    assert_eq!(
        nodes,
        json!([{
            "id": "node-2", "type": "board", "title": "Board node-2", "state": "paused", "connected": false, "main": false,
            "os": "linux", "osVersion": "6.1", "architecture": "amd64", "maxDmips": 10000, "totalRam": 4294967296u64,
            "runtimes": [{"id": "r1", "type": "runc", "allowedDmips": 8000, "allowedRam": 2147483648u64, "maxInstances": 32}],
            "resources": [], "labels": [], "priority": 10, "instances": 0, "usage": null,
            "error": {"code": 1, "exitCode": 0, "message": "the disk is on fire\u{1b}[2J"},
            "configVersion": null, "attributes": {},
        }])
    );
    stub.run(&["get", "nodes", "nod-2"])
        .refused(4, &["there is no node nod-2; did you mean node-2?"]);
    let none = stub.run(&["get", "nodes", "-l", "none"]).ok();
    assert_eq!(none.stderr, "There are no such nodes.\n");
}

#[test]
fn instances_are_listed() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["get", "instances"],
        "\
INSTANCE        VERSION  NODE    STATE     AGE  ERROR
web/local/0     1.2.0    node-1  active    12d
web/local/1     1.2.0    -       unplaced
worker/local/0  1.2.0    node-1  failed    12d  exit code 137
",
    );
    prints(
        &stub,
        &["get", "instances", "web", "-o", "wide", "--node", "node-1"],
        "\
INSTANCE     VERSION  NODE    STATE   AGE  ERROR  RUNTIME  ADDRESS     NETWORK  PRIORITY  CPU  RAM       ID
web/local/0  1.2.0    node-1  active  12d         runc     172.17.0.2  net-1    0         120  64.0 MiB  0000-web-0
",
    );
    prints(
        &stub,
        &["get", "instances", "--state", "failed", "-o", "name"],
        "worker/local/0\n",
    );
    prints(
        &stub,
        &["get", "instances", "web/local/1", "-o", "yaml"],
        "\
- address: null
  error: null
  id: \"0000-web-1\"
  instance: 1
  item: web
  name: web/local/1
  network: null
  node: null
  priority: 0
  runtime: null
  runtimeType: null
  since: null
  state: unplaced
  subject: local
  type: service
  usage: null
  version: \"1.2.0\"
",
    );
    let all = stub.run(&["get", "instances", "-o", "json"]).json();
    assert_eq!(all.as_array().map(Vec::len), Some(3), "all pages");
}

#[test]
fn items_alerts_and_networks_are_listed() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["get", "items"],
        "\
ITEM    VERSION  TYPE     STATE        SIZE                ERROR
web     1.2.0    service  installed    3.0 MiB
worker  1.2.0    service  downloading  2.0 MiB of 8.0 MiB
",
    );
    prints(
        &stub,
        &["get", "alerts"],
        "\
TIME                 NODE    KIND           ABOUT               MESSAGE
2026-05-01 10:00:00  node-1  instanceQuota  worker/local/0 ram  75% of 64 MiB
",
    );
    prints(
        &stub,
        &["get", "networks", "-o", "wide"],
        "\
NETWORK  SUBNET         VLAN  NODES  INSTANCES  BRIDGES
net-1    172.17.0.0/16  7     1      1          node-1=172.17.0.1
",
    );
    let alerts = stub
        .run(&[
            "get",
            "alerts",
            "--since",
            "2026-05-01T09:00:00Z",
            "-o",
            "json",
        ])
        .json();
    assert_eq!(
        alerts,
        json!([{
            "time": "2026-05-01T10:00:00Z", "node": "node-1", "kind": "instanceQuota", "instance": "worker/local/0",
            "subject": "ram", "message": "75% of 64 MiB",
        }])
    );
    let asked = stub.asked().pop().expect("a question");
    assert!(
        asked.contains("limit: 100") && asked.contains("1777626000"),
        "{asked}"
    );
    let items = stub.run(&["get", "items", "worker", "-o", "json"]).json();
    assert_eq!(
        items,
        json!([{
            "id": "worker", "version": "1.2.0", "type": "service", "owner": null, "state": "downloading", "error": null,
            "indexDigest": null, "totalSize": 8388608, "downloaded": 2097152,
        }])
    );
    stub.run(&["get", "networks", "net-2"])
        .refused(4, &["net-2", "did you mean net-1?"]);
}

#[test]
fn a_thing_is_described_with_what_belongs_to_it() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["describe", "node", "node-1"],
        "\
Node:           node-1
Title:          Board node-1
Role:           Main Node
Type:           board
State:          provisioned, connected
System:         linux 6.1 amd64
CPU:            10000 DMIPS
RAM:            4.0 GiB
Priority:       10
Labels:         gpu, fast
Configuration:  1.0.0
Runtime:        runc (r1), 8000 DMIPS, 2.0 GiB, at most 32 instances
Resource:       camera, for 1 at a time
Attribute:      rack=7
CPU used:       2500 DMIPS
RAM used:       1.0 GiB
Traffic:        1.0 KiB in, 2.0 KiB out
Disk used:      var 1.0 MiB

Instances
INSTANCE        VERSION  NODE    STATE   AGE  ERROR
web/local/0     1.2.0    node-1  active  12d
worker/local/0  1.2.0    node-1  failed  12d  exit code 137

Alerts
TIME                 NODE    KIND           ABOUT               MESSAGE
2026-05-01 10:00:00  node-1  instanceQuota  worker/local/0 ram  75% of 64 MiB
",
    );
    let text = stub.run(&["describe", "instance", "worker"]).ok().stdout;
    assert!(
        text.contains("State:     failed, for 12d (since "),
        "{text}"
    );
    assert!(
        text.ends_with(
            "\
Events
TIME                 STATE    KIND      NAME            MESSAGE
2026-05-01 10:01:30  warning  instance  worker/local/0  failed: exit code 137
"
        ),
        "{text}"
    );
    prints(
        &stub,
        &["describe", "item", "worker"],
        "\
Item:     worker
Version:  1.2.0
Type:     service
State:    downloading
Size:     2.0 MiB of 8.0 MiB

Instances
INSTANCE        VERSION  NODE    STATE   AGE  ERROR
worker/local/0  1.2.0    node-1  failed  12d  exit code 137
",
    );
    let network = stub
        .run(&["describe", "network", "net-1", "-o", "json"])
        .json();
    assert_eq!(network["subnet"], "172.17.0.0/16");
    assert_eq!(network["instanceList"][0]["name"], "web/local/0");
    stub.run(&["describe", "node", "node-3"])
        .refused(4, &["node-3", "did you mean node-1?"]);
    stub.run(&["describe", "thing", "x"])
        .refused(2, &["--help"]);
    let node = stub.run(&["describe", "node", "node-2"]).ok().stdout;
    assert!(
        node.contains("the disk is on fire [2J") && !node.contains('\x1b'),
        "{node:?}"
    );
}

#[test]
fn a_place_is_explained_with_every_node() {
    let stub = Stub::new(plant());
    stub.change(|script| {
        script.explanation = v1::ExplainResponse {
            instance: Some(ident("web", 1)),
            node_id: String::new(),
            summary: "no node fits".into(),
            candidates: vec![
                v1::Candidate {
                    node_id: "node-1".into(),
                    runtime_type: "runc".into(),
                    chosen: false,
                    reasons: vec![
                        "has the label gpu".into(),
                        "64.0 MiB of RAM are missing".into(),
                    ],
                },
                v1::Candidate {
                    node_id: "node-2".into(),
                    runtime_type: "runc".into(),
                    chosen: false,
                    reasons: vec!["is paused".into()],
                },
            ],
        };
    });
    prints(
        &stub,
        &["explain", "web/local/1"],
        "\
web/local/1 has no place: no node fits

NODE    RUNTIME  CHOSEN  WHY
node-1  runc     no      has the label gpu
                         64.0 MiB of RAM are missing
node-2  runc     no      is paused
",
    );
    let json = stub.run(&["explain", "web:local:1", "-o", "json"]).json();
    assert_eq!(
        json,
        json!({
            "instance": "web/local/1", "node": null, "summary": "no node fits", "candidates": [
                {"node": "node-1", "runtimeType": "runc", "chosen": false,
                 "reasons": ["has the label gpu", "64.0 MiB of RAM are missing"]},
                {"node": "node-2", "runtimeType": "runc", "chosen": false, "reasons": ["is paused"]},
            ],
        })
    );
    stub.run(&["explain", "web"]).refused(
        2,
        &["web may be web/local/0, web/local/1; name one of them"],
    );
    stub.run(&["explain", "wbe/local/0"])
        .refused(4, &["did you mean web/local/0?"]);
}

#[test]
fn events_are_listed_and_filtered() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["events"],
        "\
TIME                 STATE    KIND      NAME            MESSAGE
2026-05-01 10:00:00  ok       update    7               done
2026-05-01 10:01:30  warning  instance  worker/local/0  failed: exit code 137
",
    );
    let events = stub.run(&["events", "--warnings", "-o", "json"]).json();
    assert_eq!(
        events,
        json!([{
            "time": "2026-05-01T10:01:30Z", "kind": "instance", "name": "worker/local/0",
            "message": "failed: exit code 137", "warning": true,
        }])
    );
    stub.run(&["events", "--since", "soon"])
        .refused(2, &["--help"]);
}

#[test]
fn logs_are_put_together_to_lines() {
    let stub = Stub::new(plant());
    let chunk = |node: &str, text: &[u8]| v1::LogChunk {
        node_id: node.into(),
        data: text.to_vec(),
        status: "ok".into(),
        error: None,
    };
    stub.change(|script| {
        script.logs = vec![chunk("node-1", b"one\ntw"), chunk("node-1", b"o\nlast\xff")];
    });
    prints(&stub, &["logs", "worker"], "one\ntwo\nlast\u{fffd}\n");
    let asked = stub.asked().pop().expect("a question");
    assert!(
        asked.contains("item_id: \"worker\"") && asked.contains("crash: false"),
        "{asked}"
    );
    let lines = stub.run(&["logs", "worker", "-o", "json"]).ok().stdout;
    assert!(
        lines.starts_with("{\"node\":\"node-1\",\"line\":\"one\"}\n"),
        "{lines}"
    );

    stub.change(|script| {
        script.logs = vec![
            chunk("node-1", b"a\n"),
            v1::LogChunk {
                node_id: "node-2".into(),
                status: "error".into(),
                error: Some(muster_api::common::v2::ErrorInfo {
                    message: "not connected".into(),
                    ..Default::default()
                }),
                ..v1::LogChunk::default()
            },
        ];
    });
    let run = stub
        .run(&[
            "logs", "--node", "node-1", "--node", "node-2", "--since", "10m", "--crash",
        ])
        .refused(1, &["1 node could not tell"]);
    assert_eq!(run.stdout, "node-1: a\n");
    assert!(
        run.stderr.starts_with("muster: node-2: not connected\n"),
        "{}",
        run.stderr
    );
    stub.change(|script| script.logs.clear());
    let run = stub.run(&["logs", "--node", "node-1"]).ok();
    assert_eq!(
        (run.stdout.as_str(), run.stderr.as_str()),
        ("", "Nothing was logged.\n")
    );
    stub.run(&["logs"]).refused(2, &["--help"]);
}

#[test]
fn what_is_used_is_printed_once_where_nobody_looks() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["top"],
        "\
NAME            NODE    CPU   RAM
node-1          -       2500  1.0 GiB
node-2          -       -     -
web/local/0     node-1  120   64.0 MiB
web/local/1     -       -     -
worker/local/0  node-1  -     -
",
    );
    let json = stub.run(&["top", "--once", "-o", "json"]).json();
    assert_eq!(json["nodes"][0]["usage"]["cpu"], 2500);
    assert_eq!(
        json["instances"][0]["usage"]["partitions"],
        json!([{"name": "var", "usedSize": 1048576}])
    );
}

#[test]
fn a_unit_that_is_not_there_is_told_from_one_that_refuses() {
    let mut stub = Stub::new(plant());
    stub.change(|script| {
        script.refusal = Some(Status::permission_denied("only operators may look"))
    });
    stub.run(&["get", "nodes"])
        .refused(3, &["the Unit refused: only operators may look"]);
    stub.change(|script| script.refusal = Some(Status::not_found("there is no update 9")));
    stub.run(&["rollback", "9"])
        .refused(4, &["there is no update 9"]);
    stub.end();
    stub.run(&["get", "nodes"]).refused(
        5,
        &["cm.sock (there is no such socket); is muster-cm running? start it with `muster up`, or name it with --unit"],
    );
    let mut default = stub.site.command(&["status"]);
    default.env("XDG_RUNTIME_DIR", stub.site.path("run"));
    crate::rig::run(&mut default).refused(
        5,
        &[
            "tried /run/muster/cm.sock",
            "run/muster/cm.sock (there is no such socket)",
        ],
    );
    for (unit, words) in [
        ("main", "neither a socket nor"),
        ("http://main:1", "without protection"),
        ("https://main:1", "--ca, --cert and --key"),
    ] {
        stub.run(&["status", "--unit", unit]).refused(2, &[words]);
    }
}

#[test]
fn nodes_are_paused_and_drained_through_the_unit() {
    let stub = Stub::new(plant());
    prints(
        &stub,
        &["node", "pause", "node-1", "node-2"],
        "NODE    STATE\nnode-1  paused\nnode-2  paused\n",
    );
    stub.run(&["node", "resume", "node-2"]).ok();
    assert_eq!(
        stub.asked(),
        [
            "SetNodePaused SetNodePausedRequest { node_id: \"node-1\", paused: true }",
            "SetNodePaused SetNodePausedRequest { node_id: \"node-2\", paused: true }",
            "SetNodePaused SetNodePausedRequest { node_id: \"node-2\", paused: false }",
        ]
    );
    let run = stub.run(&["node", "drain", "node-1"]).ok();
    assert_eq!(run.stdout, "Nothing runs on node-1 that has to move.\n");
    assert!(
        run.stderr.contains("muster node resume node-1"),
        "{}",
        run.stderr
    );
    stub.change(|script| {
        script.drain.placements = vec![
            v1::Placement {
                instance: Some(ident("web", 0)),
                node_id: "node-2".into(),
                runtime_type: "runc".into(),
                reason: String::new(),
            },
            v1::Placement {
                instance: Some(ident("worker", 0)),
                reason: "is pinned to node-1".into(),
                ..v1::Placement::default()
            },
        ];
    });
    prints(
        &stub,
        &["node", "drain", "node-1", "--dry-run"],
        "\
INSTANCE        NODE    RUNTIME  WHY NOT
web/local/0     node-2  runc
worker/local/0  -       -        is pinned to node-1
",
    );
}
