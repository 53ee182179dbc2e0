//! Wishes that cannot be met.

use std::collections::BTreeMap;

use muster_api::common::v2 as common;
use muster_control_api::v1;
use serde_json::json;

use crate::node::Node;
use crate::rig::{Cm, Instances, Site, TIME};

async fn explain(cm: &Cm, item: &str) -> v1::ExplainResponse {
    let request = v1::ExplainRequest {
        instance: Some(common::InstanceIdent {
            item_id: item.to_owned(),
            subject_id: "local".to_owned(),
            ..Default::default()
        }),
    };
    cm.control()
        .await
        .explain(request)
        .await
        .unwrap()
        .into_inner()
}

/// What an update says at its end.
async fn outcome(cm: &Cm, update_id: u64) -> v1::UpdateProgress {
    let request = v1::FollowUpdateRequest { update_id };
    let mut progress = cm
        .control()
        .await
        .follow_update(request)
        .await
        .unwrap()
        .into_inner();
    let end = async {
        loop {
            let message = progress.message().await.unwrap().unwrap();
            if message.done {
                return message;
            }
        }
    };
    let end = tokio::time::timeout(TIME, end).await;
    end.unwrap_or_else(|_| panic!("the update does not end\n{}", cm.last_words()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_that_cannot_be_met_says_why_and_leaves_the_rest_as_it_was() {
    let site = Site::new();
    let cm = site.start();
    let nodes = [site.node("n1"), site.node("n2")];
    cm.apply(&site.document(&[("web", "1.0.0", 2), ("db", "1.0.0", 1)]))
        .await;
    let before = cm.until_active(3).await;
    let running = || nodes.each_ref().map(Node::running);
    let running_before = running();

    // Everything that can be wrong about a wish, and one more instance that is fine.
    let greedy = json!({
        "runtimes": [{"codename": "runc"}], "requestedResources": {"ram": 1_u64 << 40}, "quotas": {"ramLimit": 1_u64 << 40},
    });
    site.image("greedy", "1.0.0", &greedy);
    site.image(
        "foreign",
        "1.0.0",
        &json!({"runtimes": [{"codename": "vm"}]}),
    );
    let mut document = site.document(&[
        ("web", "1.0.0", 3),
        ("pinned", "1.0.0", 1),
        ("labelled", "1.0.0", 1),
        ("greedy", "1.0.0", 1),
        ("foreign", "1.0.0", 1),
        ("broken", "1.0.0", 1),
    ]);
    document["instances"][1]["node"] = "nowhere".into();
    document["instances"][2]["labels"] = json!(["gpu"]);
    let missing = site.path("no-such-layout");
    let newer = json!({"id": "db", "version": "2.0.0", "image": {"layout": missing}});
    document["items"].as_array_mut().unwrap().push(newer);
    document["instances"]
        .as_array_mut()
        .unwrap()
        .push(json!({"item": "db"}));
    for node in &nodes {
        node.fail(&["broken"]);
    }
    let update_id = cm.apply(&document).await.update_id;
    let told = outcome(&cm, update_id).await;

    // Each failure is told with its object and its reason.
    assert!(told.done && !told.superseded, "{told:#?}");
    let failures = told.failures.join("\n");
    for object in ["pinned", "labelled", "greedy", "foreign", "broken", "db"] {
        assert!(
            told.failures.iter().any(|it| it.contains(object)),
            "{object} is not in:\n{failures}"
        );
    }
    assert!(!failures.contains("web"), "{failures}");
    assert!(
        failures.contains("no-such-layout") && failures.contains("told to fail"),
        "{failures}"
    );

    // Why there is no place: every node with its reason.
    let reasons = BTreeMap::from([
        ("pinned", "the instance is pinned to nowhere"),
        ("labelled", "lacks the label gpu"),
        ("greedy", "bytes of memory needed"),
        ("foreign", "not one of the wanted types (vm)"),
    ]);
    for (item, reason) in reasons {
        let explained = explain(&cm, item).await;
        assert_eq!(explained.node_id, "", "{explained:#?}");
        for node in ["n1", "n2"] {
            let refused = |it: &v1::Candidate| {
                it.node_id == node
                    && !it.chosen
                    && it.reasons.iter().any(|text| text.contains(reason))
            };
            assert!(
                explained.candidates.iter().any(refused),
                "{node}, {reason}: {explained:#?}"
            );
        }
    }

    // What ran runs, and what could be met is.
    let settled = |now: &Instances| {
        now.get("web:local:2")
            .is_some_and(|it| it.state == "active")
    };
    let now = cm.until("the third instance", settled).await;
    for (instance, seen) in &before {
        assert_eq!(&now[instance], seen, "{instance} was touched");
    }
    for (node, was) in nodes.iter().zip(running_before) {
        for (instance, it) in was {
            assert_eq!(
                node.start_of(&instance),
                Some(it.start),
                "{instance} was touched"
            );
        }
    }
    cm.end();
}
