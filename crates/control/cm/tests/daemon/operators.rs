//! What operators ask for beside updates.

use muster_api::common::v2 as common;
use muster_control_api::v1;
use serde_json::json;

use crate::rig::{Instances, Site, until};

fn ident(item: &str) -> common::InstanceIdent {
    common::InstanceIdent {
        item_id: item.to_owned(),
        subject_id: "local".to_owned(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_run_says_why_and_does_not_hold_others_up() {
    let site = Site::new().set("launcher", json!({"activationTimeout": "5s"}));
    let cm = site.start();
    let node = site.node("n1");
    node.fail(&["broken"]);
    let mut document = site.document(&[
        ("web", "1.0.0", 1),
        ("pinned", "1.0.0", 1),
        ("broken", "1.0.0", 1),
    ]);
    document["instances"][1]["node"] = "nowhere".into();
    document["items"].as_array_mut().unwrap().push(json!(
        {"id": "absent", "version": "1.0.0", "image": {"layout": site.path("no-such-layout")}}
    ));
    document["instances"]
        .as_array_mut()
        .unwrap()
        .push(json!({"item": "absent"}));
    cm.apply(&document).await;
    let settled = |now: &Instances| {
        now.len() == 4
            && now["web:local:0"].state == "active"
            && now["broken:local:0"].state == "failed"
            && now["pinned:local:0"].state == "unplaced"
            && now["absent:local:0"].state == "unplaced"
    };
    let now = cm.until("settled", settled).await;
    assert!(
        now["pinned:local:0"].why.contains("no node can take it"),
        "{now:#?}"
    );
    assert!(
        now["broken:local:0"].why.contains("told to fail"),
        "{now:#?}"
    );

    let explain = async |item: &str| {
        let request = v1::ExplainRequest {
            instance: Some(ident(item)),
        };
        cm.control().await.explain(request).await
    };
    let web = explain("web").await.unwrap().into_inner();
    assert_eq!(web.node_id, "n1");
    assert!(
        web.candidates
            .iter()
            .any(|it| it.chosen && it.node_id == "n1"),
        "{web:#?}"
    );
    let pinned = explain("pinned").await.unwrap().into_inner();
    assert_eq!(pinned.node_id, "");
    assert!(pinned.candidates.iter().all(|it| !it.chosen), "{pinned:#?}");
    let unknown = explain("nobody").await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::NotFound, "{unknown}");

    // A document that makes no sense is refused with its key.
    let wrong = cm
        .ask_to_apply(&json!({"instances": [{"item": "missing"}]}), false)
        .await;
    let wrong = wrong.unwrap_err();
    assert_eq!(wrong.code(), tonic::Code::InvalidArgument, "{wrong}");
    assert!(wrong.message().contains("missing"), "{wrong}");
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_is_empty_and_paused() {
    let site = Site::new();
    let cm = site.start();
    let (one, other) = (site.node("n1"), site.node("n2"));
    cm.until_nodes(2).await;
    let mut document = site.document(&[("web", "1.0.0", 4)]);
    document["instances"][0]["distribution"] = "spread".into();
    cm.apply(&document).await;
    cm.until_active(4).await;
    let stays = other.running();

    let drain = async |dry_run| {
        let request = v1::DrainNodeRequest {
            node_id: "n1".to_owned(),
            dry_run,
        };
        let answer = cm.control().await.drain_node(request).await;
        answer.unwrap().into_inner().placements
    };
    let dry = drain(true).await;
    assert_eq!(dry.len(), 2, "{dry:#?}");
    assert!(dry.iter().all(|it| it.node_id == "n2"), "{dry:#?}");
    assert_eq!(one.running().len(), 2, "a dry run moves nothing");

    drain(false).await;
    until("an empty node", || one.running().is_empty().then_some(())).await;
    let moved = cm.until_active(4).await;
    assert!(moved.values().all(|it| it.node == "n2"), "{moved:#?}");
    assert_eq!(cm.nodes().await["n1"].state, "paused");
    for (instance, it) in stays {
        assert_eq!(
            other.start_of(&instance),
            Some(it.start),
            "{instance} was touched"
        );
    }
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_come_from_every_node_and_unpacked() {
    let site = Site::new();
    let cm = site.start();
    let nodes = [site.node("n1"), site.node("n2")];
    let mut control = cm.control().await;
    cm.until_nodes(nodes.len()).await;
    let mut stream = control
        .read_logs(v1::ReadLogsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut texts = Vec::new();
    while let Some(chunk) = stream.message().await.unwrap() {
        texts.push(String::from_utf8(chunk.data).unwrap());
    }
    texts.sort();
    assert_eq!(texts, ["the log of n1\n", "the log of n2\n"]);
    let request = v1::ReadLogsRequest {
        node_ids: vec!["nobody".to_owned()],
        ..Default::default()
    };
    let refused = control.read_logs(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused}");
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_places_what_was_never_downloaded_and_brings_nothing_here() {
    let site = Site::new();
    let cm = site.start();
    let _node = site.node("n1");
    cm.until_nodes(1).await;
    let mut document = site.document(&[("web", "1.0.0", 2), ("picky", "1.0.0", 1)]);
    let image = site.image(
        "picky",
        "2.0.0",
        &json!({"runtimes": [{"codename": "nowhere"}]}),
    );
    document["items"][1] = json!({"id": "picky", "version": "2.0.0", "image": {"layout": image}});
    let absent = json!({"id": "absent", "version": "1.0.0", "image": {"layout": site.path("no-such-layout")}});
    document["items"].as_array_mut().unwrap().push(absent);
    let instances = document["instances"].as_array_mut().unwrap();
    instances.push(json!({"item": "absent"}));

    let dry = cm.ask_to_apply(&document, true).await.unwrap();
    assert_eq!(dry.update_id, 0);
    let of = |item: &str| {
        let placements = dry.placements.iter();
        let own = placements.filter(|it| it.instance.as_ref().unwrap().item_id == item);
        own.map(|it| (it.node_id.as_str(), it.reason.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("web"), [("n1", ""), ("n1", "")]);
    // What it needs is known, so it is known that nobody has it.
    let [("", reason)] = of("picky")[..] else {
        panic!("{dry:#?}");
    };
    assert!(reason.contains("no node can take it"), "{reason}");
    let [("", reason)] = of("absent")[..] else {
        panic!("{dry:#?}");
    };
    assert!(
        reason.starts_with("where it would run is not known: ")
            && reason.contains("no-such-layout"),
        "{reason}"
    );
    // Nothing was wanted, and nothing came.
    assert!(cm.instances().await.is_empty());
    let blobs = site.path("work/items/blobs");
    let count = walk(&blobs);
    assert_eq!(count, 0, "files below {}", blobs.display());
    cm.end();
}

/// How many files there are below a folder.
fn walk(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path()),
            _ => 1,
        })
        .sum()
}
