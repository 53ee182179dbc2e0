use std::collections::BTreeSet;

use muster_api::common::v2 as common;
use muster_api::domain::InstanceState::{Active, Failed};
use muster_api::domain::{Alert, AlertKind, Timestamp};
use muster_control_api::v1;
use muster_control_server::{Access, CloudFacts, Limits, NodeConfigFacts, Note, NoteKind};
use tonic::Code;

use crate::rig::{Rig, ident, node, node_info, refused, rest, sm_info, status};

fn system_alert(message: &str) -> Alert {
    Alert {
        timestamp: Timestamp::try_from(std::time::SystemTime::now()).unwrap(),
        kind: AlertKind::System {
            message: message.to_owned(),
        },
    }
}

#[tokio::test]
async fn lists_and_numbers_say_what_was_told() {
    let rig = Rig::new().await;
    rig.view.node_info(node_info("n1"));
    rig.view.node_connected(sm_info("n1"));
    rig.view.node_config(
        &node("n1"),
        NodeConfigFacts {
            version: "2.0.0".to_owned(),
            labels: vec!["gpu".to_owned()],
            priority: 5,
        },
    );
    rig.view.node_info(node_info("n2"));
    let (web, db) = (ident("web", 0), ident("db", 0));
    rig.view.instances_all(
        &node("n1"),
        vec![status(&web, "n1", Active), status(&db, "n1", Failed)],
    );
    rig.view.cloud(CloudFacts {
        configured: true,
        connected: true,
    });
    rig.view
        .alert(&node("n1"), system_alert("the disk is full"));
    rig.view
        .download_alert(&"web".parse().unwrap(), "no route to the registry");
    rig.flush().await;

    let mut client = rig.client().await;
    let overview = client
        .get_overview(v1::GetOverviewRequest {})
        .await
        .unwrap()
        .into_inner();
    let counts = (
        overview.nodes,
        overview.nodes_connected,
        overview.instances,
        overview.instances_active,
        overview.instances_failed,
    );
    assert_eq!(counts, (2, 1, 2, 1, 1));
    assert_eq!(
        (
            overview.system_id.as_str(),
            overview.version.as_str(),
            overview.alerts
        ),
        ("system-1", "0.1.0", 2)
    );
    assert!(overview.cloud_connected && overview.uptime.is_some() && overview.update.is_none());

    let nodes = client
        .list_nodes(v1::ListNodesRequest::default())
        .await
        .unwrap()
        .into_inner()
        .nodes;
    let first = &nodes[0];
    assert_eq!(
        (
            first.node_id.as_str(),
            first.title.as_str(),
            first.state.as_str()
        ),
        ("n1", "the n1", "provisioned")
    );
    assert_eq!(
        (first.connected, first.is_main, first.instances),
        (true, true, 2)
    );
    assert_eq!(
        (
            first.runtimes[0].r#type.as_str(),
            first.architecture.as_str()
        ),
        ("container", "amd64")
    );
    assert_eq!(
        (
            first.labels[0].as_str(),
            first.priority,
            first.config_version.as_str()
        ),
        ("gpu", 5, "2.0.0")
    );
    assert_eq!(first.attributes["rack"], "7");
    assert!(!nodes[1].connected && !nodes[1].is_main);

    let of_web = v1::ListInstancesRequest {
        filter: Some(common::InstanceFilter {
            item_id: "web".to_owned(),
            subject_id: String::new(),
            instance: -1,
        }),
        ..v1::ListInstancesRequest::default()
    };
    let found = client
        .list_instances(of_web)
        .await
        .unwrap()
        .into_inner()
        .instances;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (
            found[0].state.as_str(),
            found[0].node_id.as_str(),
            found[0].version.as_str()
        ),
        ("active", "n1", "1.0.0")
    );
    assert_eq!(found[0].instance_id, web.instance_id().to_string());
    let of_n2 = v1::ListInstancesRequest {
        node_id: "n2".to_owned(),
        ..v1::ListInstancesRequest::default()
    };
    assert!(
        client
            .list_instances(of_n2)
            .await
            .unwrap()
            .into_inner()
            .instances
            .is_empty()
    );

    let alerts = client
        .list_alerts(v1::ListAlertsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .alerts;
    let kinds: Vec<_> = alerts
        .iter()
        .map(|it| (it.kind.as_str(), it.message.as_str()))
        .collect();
    assert_eq!(
        kinds,
        [
            ("system", "the disk is full"),
            ("download", "no route to the registry")
        ]
    );
    assert!(
        client
            .list_networks(v1::ListNetworksRequest::default())
            .await
            .unwrap()
            .into_inner()
            .networks
            .is_empty()
    );
    assert!(
        client
            .list_items(v1::ListItemsRequest::default())
            .await
            .unwrap()
            .into_inner()
            .items
            .is_empty()
    );
    rig.end().await;
}

#[tokio::test]
async fn a_long_list_comes_in_pages() {
    let limits = Limits {
        page: 7,
        ..Limits::default()
    };
    let rig = Rig::with(limits).await;
    let idents: Vec<_> = (0..50).map(|number| ident("web", number)).collect();
    let all = idents.iter().map(|it| status(it, "n1", Active)).collect();
    rig.view.node_connected(sm_info("n1"));
    rig.view.instances_all(&node("n1"), all);
    for number in 0..20 {
        rig.view.node_info(node_info(&format!("n{number:02}")));
    }
    let mut client = rig.client().await;
    let (mut token, mut found, mut pages) = (Vec::new(), BTreeSet::new(), 0);
    loop {
        let request = v1::ListInstancesRequest {
            page_token: token,
            ..v1::ListInstancesRequest::default()
        };
        let page = client.list_instances(request).await.unwrap().into_inner();
        pages += 1;
        for instance in page.instances {
            assert!(found.insert(instance.instance_id), "listed twice");
        }
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!((found.len(), pages), (50, 8));
    let (mut token, mut count) = (Vec::new(), 0);
    loop {
        let request = v1::ListNodesRequest { page_token: token };
        let page = client.list_nodes(request).await.unwrap().into_inner();
        count += page.nodes.len();
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(count, 21);
    for token in [vec![0xff], b"a/b".to_vec()] {
        let nodes = v1::ListNodesRequest {
            page_token: token.clone(),
        };
        refused(client.list_nodes(nodes).await, Code::InvalidArgument);
        let instances = v1::ListInstancesRequest {
            page_token: token.clone(),
            ..v1::ListInstancesRequest::default()
        };
        refused(
            client.list_instances(instances).await,
            Code::InvalidArgument,
        );
        let items = v1::ListItemsRequest { page_token: token };
        refused(client.list_items(items).await, Code::InvalidArgument);
    }
    rig.end().await;
}

#[tokio::test]
async fn what_happened_is_read_after_a_restart() {
    let rig = Rig::new().await;
    rig.view.node_connected(sm_info("n1"));
    rig.view
        .alert(&node("n1"), system_alert("the disk is full"));
    rig.view.note(Note::plain(
        NoteKind::Config,
        "unit",
        "version 2.0.0 is installed",
    ));
    rig.flush().await;
    let folder = rig.end().await;

    let rig = Rig::start(folder, Limits::default(), Access::local_only()).await;
    let mut client = rig.client().await;
    let events = client
        .read_events(v1::ReadEventsRequest::default())
        .await
        .unwrap();
    let events = rest(events.into_inner()).await;
    let texts: Vec<_> = events
        .iter()
        .map(|it| format!("{} {} {} {}", it.kind, it.name, it.message, it.warning))
        .collect();
    assert_eq!(
        texts,
        [
            "node n1 is connected false",
            "alert system the disk is full true",
            "config unit version 2.0.0 is installed false",
        ]
    );
    let alerts = client
        .list_alerts(v1::ListAlertsRequest::default())
        .await
        .unwrap()
        .into_inner()
        .alerts;
    assert_eq!((alerts.len(), alerts[0].node_id.as_str()), (1, "n1"));
    let later = v1::ListAlertsRequest {
        limit: 5,
        from: Some(prost_types::Timestamp {
            seconds: 253_402_300_000,
            nanos: 0,
        }),
    };
    assert!(
        client
            .list_alerts(later)
            .await
            .unwrap()
            .into_inner()
            .alerts
            .is_empty()
    );
    rig.end().await;
}
