//! What is wanted runs, whatever dies on the way; and what is not touched by a wish is not touched.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use muster_api::servicemanager::v5::sm_outgoing_messages::SmOutgoingMessage as Said;
use muster_control_api::v1;
use serde_json::json;

use crate::node::info;
use crate::rig::{Cm, Instances, Site, TIME, replace, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_becomes_active_instances_and_a_change_touches_what_it_says() {
    let site = Site::new();
    let cm = site.start();
    let (one, other) = (site.node("n1"), site.node("n2"));
    cm.until_nodes(2).await;
    let document = site.document(&[("web", "1.0.0", 3), ("worker", "1.0.0", 1)]);
    let said = cm.apply(&document).await;
    assert_eq!(said.update_id, 1);
    let first = cm.until_active(4).await;
    let nodes: BTreeSet<&str> = first.values().map(|it| it.node.as_str()).collect();
    assert!(nodes.is_subset(&BTreeSet::from(["n1", "n2"])), "{nodes:?}");
    let start = |instance: &str| (one.start_of(instance), other.start_of(instance));
    let starts: Vec<_> = first.keys().map(|it| start(it)).collect();

    // The same again changes nothing.
    assert_eq!(cm.apply(&document).await.update_id, 0);

    // A dry run says what would change, and changes nothing.
    let changed = site.document(&[("web", "1.0.0", 3), ("worker", "2.0.0", 1)]);
    let dry = cm.ask_to_apply(&changed, true).await.unwrap();
    assert_eq!(dry.update_id, 0);
    let names: Vec<(&str, &str)> = (dry.changes.iter())
        .map(|it| (it.kind.as_str(), it.name.as_str()))
        .collect();
    assert_eq!(names, [("item", "worker")]);

    cm.apply(&changed).await;
    let is_new = |now: &Instances| now["worker:local:0"].version == "2.0.0";
    cm.until("the new worker", |now| is_new(now)).await;
    let second = cm.until_active(4).await;
    assert!(is_new(&second));
    for (nth, instance) in first.keys().enumerate() {
        if instance == "worker:local:0" {
            assert_ne!(
                start(instance),
                starts[nth],
                "{instance} runs the old version"
            );
        } else {
            assert_eq!(start(instance), starts[nth], "{instance} was touched");
        }
    }

    // Going back brings the old version back, to where it was.
    cm.rollback().await;
    cm.until("the old worker", |now| !is_new(now)).await;
    let third = cm.until_active(4).await;
    assert_eq!(third, first);

    // Everything goes.
    cm.apply(&json!({})).await;
    cm.until("nothing", Instances::is_empty).await;
    let nothing = || (one.running().is_empty() && other.running().is_empty()).then_some(());
    until("empty nodes", nothing).await;
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_daemon_goes_on_and_touches_nothing_that_runs() {
    let site = Site::new();
    let cm = site.start();
    let node = site.node("n1");
    cm.apply(&site.document(&[("web", "1.0.0", 2)])).await;
    let before = cm.until_active(2).await;
    let running = node.running();
    cm.kill9();
    let cm = site.start();
    assert_eq!(cm.until_active(2).await, before);
    assert_eq!(node.running(), running);
    // It can go on from there.
    cm.apply(&site.document(&[("web", "1.0.0", 3)])).await;
    cm.until_active(3).await;
    for (instance, it) in &running {
        assert_eq!(
            node.start_of(instance),
            Some(it.start),
            "{instance} was touched"
        );
    }
    cm.end();
}

/// Kills the daemon when it reaches each moment of an update, starts it again, and looks where that ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_that_is_killed_at_any_point_ends_where_it_should() {
    let site = Site::new();
    let node = site.node("n1");
    let cm = site.start();
    cm.apply(&site.document(&[("stays", "1.0.0", 1), ("web", "0.0.0", 1)]))
        .await;
    cm.until_active(2).await;
    let untouched = node.start_of("stays:local:0").unwrap();
    cm.end();
    // The step `pending` is passed through within one turn while every node is there.
    let points = [
        "desired.decided",
        "desired.written",
        "desired.begun",
        "desired.step.downloading",
        "desired.step.installing",
        "desired.step.launching",
        "desired.step.activating",
        "desired.step.finalizing",
        "desired.step.none",
        "desired.downloaded",
        "desired.configured",
        "desired.planned",
        "desired.sent",
        "desired.retained",
        "cm.placement.books-written",
    ];
    for (nth, point) in points.iter().enumerate() {
        let reached = site.path("reached");
        let _ = std::fs::remove_file(&reached);
        let fault = site.path("fault");
        let program = site.program().env("MUSTER_FAULT_FILE", &fault);
        let mut cm = site.start_as(&program);
        cm.until_active(if nth % 2 == 0 { 2 } else { 3 }).await;
        replace(&fault, point);
        // A version for each, and one instance more or less, so that something is given out.
        let (version, count) = (format!("{}.0.0", nth + 1), if nth % 2 == 0 { 2 } else { 1 });
        let document = site.document(&[("stays", "1.0.0", 1), ("web", &version, count)]);
        // The connection may break before it is answered.
        let accepted = cm.ask_to_apply(&document, false).await;
        let status = cm.process.wait(crate::rig::TIME);
        let status = status.unwrap_or_else(|error| panic!("{point}: {error}\n{}", cm.last_words()));
        assert!(!status.success(), "{point}: {status}");
        // It is taken away with the process that it kills.
        let _ = std::fs::remove_file(&fault);
        let cm = site.start();
        if accepted.is_err() {
            // Nobody was told that it is wanted, so it may not be.
            cm.apply(&document).await;
        }
        let is_new = |now: &Instances| {
            let web = now.iter().filter(|(name, _)| name.starts_with("web:"));
            web.clone().count() as u64 == count
                && web.into_iter().all(|(_, it)| it.version == version)
                && now.values().all(|it| it.state == "active")
        };
        cm.until(&format!("the update that died at {point}"), is_new)
            .await;
        assert_eq!(
            node.start_of("stays:local:0"),
            Some(untouched),
            "{point}: a bystander was touched"
        );
        cm.end();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_node_ran_is_placed_elsewhere_and_a_short_absence_moves_nothing() {
    let site = Site::new().set("launcher", json!({"nodeLossTimeout": "2s"}));
    let cm = site.start();
    let (one, other) = (site.node("n1"), site.node("n2"));
    cm.until_nodes(2).await;
    let mut document = site.document(&[("web", "1.0.0", 4)]);
    document["instances"][0]["distribution"] = "spread".into();
    cm.apply(&document).await;
    cm.until_active(4).await;
    let (of_one, of_other) = (one.running(), other.running());
    assert_eq!((of_one.len(), of_other.len()), (2, 2));

    // Away and back: nobody moves.
    other.set_online(false);
    let away = |now: &Instances| now.values().filter(|it| it.state == "away").count() == 2;
    cm.until("two away", away).await;
    other.set_online(true);
    cm.until_active(4).await;
    assert_eq!((one.running(), other.running()), (of_one.clone(), of_other));

    // Away for good.
    other.set_online(false);
    let here = |now: &Instances| {
        now.values()
            .all(|it| it.node == "n1" && it.state == "active")
    };
    cm.until("everything on the other node", here).await;
    for (instance, it) in of_one {
        assert_eq!(
            one.start_of(&instance),
            Some(it.start),
            "{instance} was touched"
        );
    }
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_node_keeps_what_it_runs_and_gets_nothing_new() {
    let site = Site::new();
    let cm = site.start();
    let (one, other) = (site.node("n1"), site.node("n2"));
    cm.until_nodes(2).await;
    let mut document = site.document(&[("web", "1.0.0", 2)]);
    document["instances"][0]["distribution"] = "spread".into();
    cm.apply(&document).await;
    cm.until_active(2).await;
    let kept = one.running();
    assert_eq!(kept.len(), 1);

    let mut more = site.document(&[("web", "1.0.0", 4)]);
    more["instances"][0]["distribution"] = "spread".into();
    more["nodes"] = json!([{"id": "n1", "paused": true}]);
    cm.apply(&more).await;
    let grown =
        |now: &Instances| now.len() == 4 && now.values().filter(|it| it.node == "n2").count() == 3;
    cm.until("three on the node in use", grown).await;
    until("three run there", || {
        (other.running().len() == 3).then_some(())
    })
    .await;
    assert_eq!(one.running(), kept);
    assert_eq!(cm.nodes().await["n1"].state, "paused");

    // Brought up to date when it is resumed.
    let mut newer = site.document(&[("web", "2.0.0", 4)]);
    newer["nodes"] = json!([{"id": "n1", "paused": false}]);
    cm.apply(&newer).await;
    let is_new = |now: &Instances| {
        now.values()
            .all(|it| it.version == "2.0.0" && it.state == "active")
    };
    cm.until("the new version everywhere", is_new).await;
    for (instance, it) in one.running() {
        assert_eq!(it.info.version, "2.0.0", "{instance}");
        assert!(kept.contains_key(&instance), "{instance} has moved");
    }
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_applied_when_it_changes_and_does_not_undo_a_later_wish() {
    let site = Site::new();
    let file = site.path("desired.json");
    replace(&file, &site.document(&[("web", "1.0.0", 1)]).to_string());
    let site = site.set("desiredStatusFile", json!(file));
    let node = site.node("n1");
    let cm = site.start();
    cm.until_active(1).await;
    cm.apply(&site.document(&[("web", "1.0.0", 2)])).await;
    cm.until_active(2).await;
    cm.kill9();

    let mut cm = site.start();
    cm.until_active(2).await;
    // What makes no sense is said and changes nothing.
    replace(&file, "{\"items\": 7}");
    cm.process.signal(rustix::process::Signal::HUP).unwrap();
    cm.process
        .wait_for_line("is not applied", crate::rig::TIME)
        .unwrap();
    replace(&file, &site.document(&[("web", "3.0.0", 1)]).to_string());
    cm.process.signal(rustix::process::Signal::HUP).unwrap();
    let is_new = |now: &Instances| now.len() == 1 && now.values().all(|it| it.version == "3.0.0");
    cm.until("what the file says", is_new).await;
    cm.until_active(1).await;
    drop(node);
    cm.end();
}

/// How often a node was kept out.
async fn kept_out(cm: &Cm) -> usize {
    let request = v1::ListAlertsRequest::default();
    let alerts = cm.control().await.list_alerts(request).await.unwrap();
    let alerts = alerts.into_inner().alerts.into_iter();
    alerts
        .filter(|it| it.message.contains("it is kept out for"))
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_kept_out_holds_no_update_up() {
    // Whoever waited would wait longer than this test.
    let site = Site::new().set("launcher", json!({"nodesConnectionTimeout": "10m"}));
    let cm = site.start();
    let (good, bad) = (site.node("good"), site.node("bad"));
    cm.until_nodes(2).await;
    let document = |version: &str| {
        let mut document = site.document(&[("web", version, 1), ("own", "1.0.0", 1)]);
        document["instances"][0]["node"] = "good".into();
        document["instances"][1]["node"] = "bad".into();
        document
    };
    cm.apply(&document("1.0.0")).await;
    cm.until_active(2).await;

    // It claims to be somebody else, again and again, and is kept out for longer each time. At the fourth, it stays away.
    let deadline = Instant::now() + TIME;
    while kept_out(&cm).await < 4 {
        assert!(Instant::now() < deadline, "it is not kept out");
        let claim = Said::SmInfo(info("somebody-else"));
        // Nobody hears it while it is not connected.
        let _ = tokio::time::timeout(Duration::from_millis(100), bad.say(claim)).await;
    }
    bad.set_online(false);
    cm.apply(&document("2.0.0")).await;
    let runs = || {
        let running = good.running();
        let web = running.get("web:local:0")?;
        (web.info.version == "2.0.0").then_some(())
    };
    until("the new version on the good node", runs).await;
    cm.end();
}
