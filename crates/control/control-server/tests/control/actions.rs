use muster_api::common::v2 as common;
use muster_api::domain::{AosCode, AosError, LogStatus};
use muster_control_api::v1;
use muster_control_server::LogPart;
use tonic::Code;

use crate::rig::{Rig, ident, node, refused, rest, sm_info};

const DOCUMENT: &str = "
items:
- {id: web, version: 1.0.0, image: {layout: /srv/web.tar}}
instances:
- {item: web, count: 2}
";

fn apply(document: &str, dry_run: bool) -> v1::ApplyRequest {
    v1::ApplyRequest {
        document: document.as_bytes().to_vec(),
        format: v1::DocumentFormat::Yaml.into(),
        name: "unit.yaml".to_owned(),
        dry_run,
    }
}

#[tokio::test]
async fn a_document_is_shown_applied_and_gone_back_from() {
    let rig = Rig::new().await;
    let mut client = rig.client().await;
    let shown = client
        .apply(apply(DOCUMENT, true))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(shown.update_id, 0);
    let changes: Vec<_> = shown
        .changes
        .iter()
        .map(|it| (it.action.as_str(), it.kind.as_str(), it.name.as_str()))
        .collect();
    assert_eq!(
        changes,
        [("add", "item", "web"), ("add", "instance", "web for local")]
    );
    assert_eq!(
        shown.placements[0].reason, "no node can take it",
        "what has no place comes first"
    );
    assert_eq!(
        (
            shown.placements[1].node_id.as_str(),
            shown.placements[1].runtime_type.as_str()
        ),
        ("n1", "container")
    );
    assert_eq!(rig.fake.asked(), [""; 0], "only shown");

    let applied = client
        .apply(apply(DOCUMENT, false))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((applied.update_id, applied.changes.len()), (1, 2));
    assert_eq!(rig.fake.asked(), ["apply unit.yaml"]);
    let again = client
        .apply(apply(DOCUMENT, false))
        .await
        .unwrap()
        .into_inner();
    assert_eq!((again.update_id, again.changes.len()), (0, 0));

    let nothing_earlier = client.rollback(v1::RollbackRequest::default()).await;
    let why = refused(nothing_earlier, Code::FailedPrecondition);
    assert_eq!(why, "there is no earlier desired status to go back to");
    let other = DOCUMENT.replace("1.0.0", "2.0.0");
    assert_eq!(
        client
            .apply(apply(&other, false))
            .await
            .unwrap()
            .into_inner()
            .update_id,
        2
    );
    let request = v1::RollbackRequest {
        update_id: 0,
        dry_run: true,
    };
    let shown = client.rollback(request).await.unwrap().into_inner();
    assert_eq!(
        (shown.changes[0].before.contains("2.0.0"), shown.update_id),
        (true, 0)
    );
    assert_eq!(
        client
            .rollback(v1::RollbackRequest::default())
            .await
            .unwrap()
            .into_inner()
            .update_id,
        3
    );
    let unknown = v1::RollbackRequest {
        update_id: 77,
        dry_run: false,
    };
    let why = refused(client.rollback(unknown).await, Code::NotFound);
    assert_eq!(why, "the desired status of update 77 is not kept any more");

    let desired = client
        .get_desired(v1::GetDesiredRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(desired.document.contains("1.0.0"), "{}", desired.document);
    let ids: Vec<_> = desired.history.iter().map(|it| it.update_id).collect();
    assert_eq!((desired.update_id, ids), (3, vec![3, 2, 1]));
    assert_eq!(
        (
            desired.history[0].origin.as_str(),
            desired.history[0].name.as_str()
        ),
        ("operator", "unit.yaml")
    );
    rig.end().await;
}

#[tokio::test]
async fn a_wrong_document_is_refused_with_line_and_key() {
    let rig = Rig::new().await;
    let mut client = rig.client().await;
    let wrong = "items:\n- {id: web, version: 1.0.0, image: {layout: /srv/web.tar}}\ninstances:\n- item: web\n  count: many\n";
    let why = refused(
        client.apply(apply(wrong, true)).await,
        Code::InvalidArgument,
    );
    assert!(
        why.starts_with("unit.yaml is not a valid desired status\n"),
        "{why}"
    );
    assert!(
        why.contains("unit.yaml:5") && why.contains("instances[0].count"),
        "{why}"
    );
    for (document, format) in [("{", 2), ("a: [", 1), ("\u{0}", 1)] {
        let request = v1::ApplyRequest {
            document: document.into(),
            format,
            ..v1::ApplyRequest::default()
        };
        refused(client.apply(request).await, Code::InvalidArgument);
    }
    let many: String = (0..500)
        .map(|number| format!("nonsense{number}: 1\n"))
        .collect();
    let why = refused(
        client.apply(apply(&many, true)).await,
        Code::InvalidArgument,
    );
    assert!(why.len() <= 4096 && why.lines().count() <= 22, "{why}");
    let long = format!("# {}", "x".repeat(3 * 1024 * 1024));
    refused(
        client.apply(apply(&long, true)).await,
        Code::InvalidArgument,
    );
    let longer = format!("# {}", "x".repeat(5 * 1024 * 1024));
    refused(client.apply(apply(&longer, true)).await, Code::OutOfRange);
    assert_eq!(rig.fake.asked(), [""; 0]);
    rig.end().await;
}

#[tokio::test]
async fn an_explanation_has_every_node() {
    let rig = Rig::new().await;
    rig.view.node_connected(sm_info("n1"));
    let mut client = rig.client().await;
    let request = |number| v1::ExplainRequest {
        instance: Some(ident("web", number).into()),
    };
    let answer = client.explain(request(0)).await.unwrap().into_inner();
    assert_eq!(answer.node_id, "n1");
    assert_eq!(answer.summary, "runs on n1: no other node fits better");
    let candidates: Vec<_> = answer
        .candidates
        .iter()
        .map(|it| {
            (
                it.node_id.as_str(),
                it.runtime_type.as_str(),
                it.chosen,
                it.reasons.join(";"),
            )
        })
        .collect();
    let expected = [
        (
            "n1",
            "container",
            true,
            "no other node fits better".to_owned(),
        ),
        ("n2", "", false, "is paused".to_owned()),
    ];
    assert_eq!(candidates.len(), 2);
    assert_eq!(candidates[0], expected[0]);
    assert_eq!(
        (candidates[1].0, candidates[1].2),
        (expected[1].0, expected[1].2)
    );
    assert!(candidates[1].3.contains("paused"), "{candidates:?}");
    let why = refused(client.explain(request(5)).await, Code::NotFound);
    assert!(why.contains("web:local:5"), "{why}");
    let why = refused(
        client.explain(v1::ExplainRequest::default()).await,
        Code::InvalidArgument,
    );
    assert_eq!(why, "instance: missing");
    rig.end().await;
}

#[tokio::test]
async fn nodes_are_paused_and_drained() {
    let rig = Rig::new().await;
    let mut client = rig.client().await;
    let pause = |node: &str, paused| v1::SetNodePausedRequest {
        node_id: node.to_owned(),
        paused,
    };
    client.set_node_paused(pause("n1", true)).await.unwrap();
    client.set_node_paused(pause("n1", false)).await.unwrap();
    let why = refused(
        client.set_node_paused(pause("n9", true)).await,
        Code::NotFound,
    );
    assert_eq!(why, "there is no node n9; `muster get nodes` lists them");
    refused(
        client.set_node_paused(pause("a/b", true)).await,
        Code::InvalidArgument,
    );
    let drain = v1::DrainNodeRequest {
        node_id: "n1".to_owned(),
        dry_run: true,
    };
    let moves = client
        .drain_node(drain)
        .await
        .unwrap()
        .into_inner()
        .placements;
    assert_eq!(moves.len(), 2);
    assert_eq!(
        rig.fake.asked(),
        [
            "pause n1 true",
            "pause n1 false",
            "pause n9 true",
            "drain n1 true"
        ]
    );
    rig.end().await;
}

#[tokio::test]
async fn logs_come_in_pieces_with_their_end() {
    let rig = Rig::new().await;
    let mut client = rig.client().await;
    let empty = client
        .read_logs(v1::ReadLogsRequest::default())
        .await
        .unwrap();
    assert_eq!(rest(empty.into_inner()).await[0].status, "empty");
    assert!(rig.fake.asked()[0].contains("System"));
    rig.fake.log.lock().unwrap().extend([
        LogPart {
            node: node("n1"),
            data: vec![b'x'; 600 * 1024],
            status: LogStatus::Ok,
            error: None,
        },
        LogPart {
            node: node("n2"),
            data: b"half".to_vec(),
            status: LogStatus::Error,
            error: Some(AosError::new(AosCode::Timeout, "no answer")),
        },
    ]);
    let request = v1::ReadLogsRequest {
        filter: Some(common::InstanceFilter {
            item_id: "web".to_owned(),
            subject_id: String::new(),
            instance: -1,
        }),
        node_ids: vec!["n1".to_owned()],
        crash: true,
        follow: true,
        ..v1::ReadLogsRequest::default()
    };
    let chunks = rest(
        client
            .read_logs(request.clone())
            .await
            .unwrap()
            .into_inner(),
    )
    .await;
    let lengths: Vec<_> = chunks.iter().map(|it| it.data.len()).collect();
    assert_eq!(lengths, [262_144, 262_144, 90_112, 4]);
    assert_eq!(chunks[3].error.as_ref().unwrap().message, "no answer");
    assert!(rig.fake.asked()[0].contains("Crashes"));
    let unknown = v1::ReadLogsRequest {
        node_ids: vec!["n9".to_owned()],
        ..request.clone()
    };
    refused(client.read_logs(unknown).await, Code::NotFound);
    let wrong = v1::ReadLogsRequest {
        from: Some(prost_types::Timestamp {
            seconds: 0,
            nanos: -1,
        }),
        ..request
    };
    assert!(refused(client.read_logs(wrong).await, Code::InvalidArgument).starts_with("from: "));
    rig.end().await;
}
