use std::sync::Arc;
use std::time::SystemTime;

use muster_api::domain::InstanceState::{Active, Failed};
use muster_api::domain::{
    Alert, AlertKind, InstanceMonitoring, ItemState, MonitoringData, NodeMonitoring, Timestamp,
};
use muster_control_api::v1;
use muster_control_server::{Limits, Note, NoteKind};
use muster_desired::{
    Bytes, Condition, InstanceProgress, ItemProgress, Progress, UpdateId, UpdateStep,
};
use tokio::time::timeout;
use tonic::Code;
use v1::watch_event::Event;

use crate::rig::{
    Rig, TIME, ident, next, next_event, node, node_info, refused, rest, sm_info, status,
};

fn watch(kinds: &[v1::Kind]) -> v1::WatchRequest {
    v1::WatchRequest {
        kinds: kinds.iter().map(|kind| (*kind).into()).collect(),
    }
}

#[tokio::test]
async fn a_watcher_gets_everything_then_synced_then_changes() {
    let rig = Rig::new().await;
    rig.view.node_info(node_info("n1"));
    let web = ident("web", 0);
    rig.view.node_connected(sm_info("n1"));
    rig.view
        .instances_all(&node("n1"), vec![status(&web, "n1", Active)]);
    let alert = |message: &str| Alert {
        timestamp: Timestamp::try_from(SystemTime::now()).unwrap(),
        kind: AlertKind::System {
            message: message.to_owned(),
        },
    };
    rig.view.alert(&node("n1"), alert("first"));
    rig.flush().await;

    let mut client = rig.client().await;
    let mut changes = client.watch(watch(&[])).await.unwrap().into_inner();
    let mut first = Vec::new();
    loop {
        match next_event(&mut changes).await {
            Event::Synced(_) => break,
            event => first.push(event),
        }
    }
    assert!(
        matches!(&first[0], Event::Alert(it) if it.message == "first"),
        "{first:?}"
    );
    let has = |wanted: fn(&Event) -> bool| first.iter().filter(|it| wanted(it)).count();
    assert_eq!(has(|it| matches!(it, Event::Node(_))), 1);
    assert_eq!(has(|it| matches!(it, Event::Instance(_))), 1);
    assert_eq!(first.len(), 3);

    rig.view
        .instances_changed(&node("n1"), vec![status(&web, "n1", Failed)]);
    let event = next_event(&mut changes).await;
    assert!(
        matches!(&event, Event::Instance(it) if it.state == "failed"),
        "{event:?}"
    );
    rig.view.alert(&node("n1"), alert("second"));
    let event = next_event(&mut changes).await;
    assert!(
        matches!(&event, Event::Alert(it) if it.message == "second"),
        "{event:?}"
    );
    rig.view.instances_all(&node("n1"), Vec::new());
    let mut events = [
        next_event(&mut changes).await,
        next_event(&mut changes).await,
    ];
    events.sort_by_key(|it| matches!(it, Event::Node(_)));
    assert!(
        matches!(&events[0], Event::InstanceGone(it) if it.item_id == "web"),
        "{events:?}"
    );
    rig.view.node_removed(&node("n1"));
    loop {
        if let Event::NodeGone(id) = next_event(&mut changes).await {
            assert_eq!(id, "n1");
            break;
        }
    }
    rig.end().await;
}

#[tokio::test]
async fn a_watcher_of_one_kind_hears_of_no_other() {
    let rig = Rig::new().await;
    let mut client = rig.client().await;
    let mut nodes = client
        .watch(watch(&[v1::Kind::Nodes]))
        .await
        .unwrap()
        .into_inner();
    assert!(matches!(
        next(&mut nodes).await.event,
        Some(Event::Synced(_))
    ));
    rig.view
        .instances_all(&node("n2"), vec![status(&ident("web", 0), "n2", Active)]);
    rig.view.node_info(node_info("n1"));
    let event = next(&mut nodes).await.event;
    assert!(
        matches!(&event, Some(Event::Node(it)) if it.node_id == "n1"),
        "{event:?}"
    );

    let mut overviews = client
        .watch(watch(&[v1::Kind::Overview]))
        .await
        .unwrap()
        .into_inner();
    let first = next(&mut overviews).await.event;
    assert!(
        matches!(&first, Some(Event::Overview(it)) if it.nodes == 1),
        "{first:?}"
    );
    assert!(matches!(
        next(&mut overviews).await.event,
        Some(Event::Synced(_))
    ));
    rig.view.node_connected(sm_info("n1"));
    let event = next(&mut overviews).await.event;
    assert!(
        matches!(&event, Some(Event::Overview(it)) if it.nodes_connected == 1),
        "{event:?}"
    );
    let why = refused(
        client.watch(v1::WatchRequest { kinds: vec![99] }).await,
        Code::InvalidArgument,
    );
    assert_eq!(why, "kinds: there is no kind 99");
    rig.end().await;
}

/// The watcher does not read while far more goes than is remembered, and far more than fits into windows.
#[tokio::test]
async fn a_watcher_that_is_too_slow_starts_again() {
    let limits = Limits {
        gone: 16,
        ..Limits::default()
    };
    let rig = Rig::with(limits).await;
    let mut client = rig.client().await;
    let mut changes = client
        .watch(watch(&[v1::Kind::Instances]))
        .await
        .unwrap()
        .into_inner();
    assert!(matches!(
        next(&mut changes).await.event,
        Some(Event::Synced(_))
    ));
    let all = |count: u64| {
        (0..count)
            .map(|number| status(&ident("web", number), "n1", Active))
            .collect()
    };
    rig.view.instances_all(&node("n1"), all(20_000));
    // The first has arrived, so the watcher is in the middle of them, and its client reads no further.
    next(&mut changes).await;
    rig.view.instances_all(&node("n1"), all(100));
    let end = async {
        loop {
            if let Err(status) = changes.message().await {
                return status;
            }
        }
    };
    let status = timeout(TIME, end).await.expect("it ends");
    assert_eq!(status.code(), Code::Aborted, "{status}");
    let mut again = client
        .watch(watch(&[v1::Kind::Instances]))
        .await
        .unwrap()
        .into_inner();
    let mut seen = 0;
    while !matches!(next(&mut again).await.event, Some(Event::Synced(_))) {
        seen += 1;
    }
    assert_eq!(seen, 100);
    rig.end().await;
}

#[tokio::test]
async fn there_are_only_so_many_streams() {
    let limits = Limits {
        streams: 2,
        ..Limits::default()
    };
    let rig = Rig::with(limits).await;
    let mut client = rig.client().await;
    let mut first = client.watch(watch(&[])).await.unwrap().into_inner();
    let second = client.watch(watch(&[])).await.unwrap();
    refused(client.watch(watch(&[])).await, Code::ResourceExhausted);
    client
        .get_overview(v1::GetOverviewRequest {})
        .await
        .expect("plain calls go on");
    drop(second);
    next(&mut first).await;
    // The server learns of it a moment later.
    let freed = async {
        while client.watch(watch(&[])).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIME, freed).await.expect("the place is free again");
    rig.end().await;
}

fn measured(cpu: u64, instances: u64) -> NodeMonitoring {
    let data = MonitoringData {
        timestamp: Timestamp::try_from(SystemTime::now()).unwrap(),
        ram: 1,
        cpu,
        partitions: Vec::new(),
        download: 2,
        upload: 3,
    };
    let instance = |number| InstanceMonitoring {
        instance: ident("web", number),
        runtime_id: None,
        data: data.clone(),
    };
    NodeMonitoring {
        instances: (0..instances).map(instance).collect(),
        node: data,
    }
}

#[tokio::test]
async fn usage_is_followed() {
    let rig = Rig::new().await;
    rig.view.node_info(node_info("n1"));
    rig.view.node_connected(sm_info("n1"));
    rig.view
        .instances_all(&node("n1"), vec![status(&ident("web", 0), "n1", Active)]);
    rig.view.measured(&node("n1"), measured(10, 1));
    let mut client = rig.client().await;
    let mut usage = client
        .follow_usage(v1::FollowUsageRequest {})
        .await
        .unwrap()
        .into_inner();
    let first = next(&mut usage).await;
    assert_eq!(
        (
            first.nodes[0].max_dmips,
            first.nodes[0].usage.as_ref().unwrap().cpu
        ),
        (1000, 10)
    );
    assert_eq!(
        (first.instances.len(), first.instances[0].state.as_str()),
        (1, "active")
    );
    rig.view.measured(&node("n1"), measured(20, 0));
    let second = next(&mut usage).await;
    assert_eq!(
        (
            second.nodes[0].usage.as_ref().unwrap().cpu,
            second.instances.len()
        ),
        (20, 0)
    );
    rig.view.node_disconnected(&node("n1"));
    assert_eq!(next(&mut usage).await.nodes_gone, ["n1"]);
    rig.end().await;
}

#[tokio::test]
async fn events_are_followed_from_a_time_on() {
    let rig = Rig::new().await;
    let note = |name: &str| Note::plain(NoteKind::Config, name, "changed");
    rig.view.note(note("1"));
    rig.flush().await;
    let mut client = rig.client().await;
    let request = v1::ReadEventsRequest {
        from: Some(prost_types::Timestamp::from(SystemTime::now())),
        follow: true,
    };
    let mut later = client.read_events(request).await.unwrap().into_inner();
    let request = v1::ReadEventsRequest {
        from: None,
        follow: true,
    };
    let mut all = client.read_events(request).await.unwrap().into_inner();
    assert_eq!(next(&mut all).await.name, "1");
    rig.view.note(note("2"));
    assert_eq!(next(&mut later).await.name, "2");
    assert_eq!(next(&mut all).await.name, "2");
    rig.end().await;
}

fn progress(update: u64, active: u64, wanted: u64) -> Arc<Progress> {
    let instance = |number| {
        let is_active = number < active;
        let progress = InstanceProgress {
            version: "1.0.0".to_owned(),
            node: Some(node("n1")),
            condition: if is_active {
                Condition::Told(Active)
            } else {
                Condition::Waiting
            },
            error: None,
        };
        (ident("web", number), progress)
    };
    let item = ItemProgress {
        version: "1.0.0".to_owned(),
        state: ItemState::Downloading,
        bytes: Bytes { done: 5, total: 10 },
        error: None,
    };
    Arc::new(Progress {
        update: Some(UpdateId(update)),
        step: UpdateStep::Activating,
        done: active == wanted,
        items: [("web".parse().unwrap(), item)].into(),
        instances: (0..wanted).map(instance).collect(),
        configuration: None,
        placement: None,
    })
}

#[tokio::test]
async fn an_update_is_followed_to_its_end() {
    let rig = Rig::new().await;
    let mut client = rig.client().await;
    let follow = |update_id| v1::FollowUpdateRequest { update_id };
    refused(client.follow_update(follow(0)).await, Code::NotFound);
    rig.fake.progress.send_replace(progress(1, 0, 2));
    let mut update = client.follow_update(follow(0)).await.unwrap().into_inner();
    let first = next(&mut update).await;
    assert_eq!(
        (first.update_id, first.step.as_str(), first.done),
        (1, "activating", false)
    );
    assert_eq!(
        (first.items[0].downloaded, first.items[0].total_size),
        (5, 10)
    );
    assert_eq!(
        (first.instances.len(), first.instances[0].state.as_str()),
        (2, "waiting")
    );
    rig.fake.progress.send_replace(progress(1, 1, 2));
    let second = next(&mut update).await;
    assert_eq!(
        (second.items.len(), second.instances.len()),
        (0, 1),
        "only what changed"
    );
    assert_eq!(second.instances[0].state, "active");
    rig.fake.progress.send_replace(progress(1, 2, 2));
    assert!(next(&mut update).await.done);
    assert!(rest(update).await.is_empty(), "and then it ends");

    let mut update = client.follow_update(follow(1)).await.unwrap().into_inner();
    assert!(
        next(&mut update).await.done,
        "one that is over says so at once"
    );
    rig.fake.progress.send_replace(progress(2, 0, 2));
    let told = rest(client.follow_update(follow(1)).await.unwrap().into_inner()).await;
    assert_eq!(
        (told.len(), told[0].superseded, told[0].update_id),
        (1, true, 1)
    );
    let mut update = client.follow_update(follow(2)).await.unwrap().into_inner();
    next(&mut update).await;
    rig.fake.progress.send_replace(progress(3, 0, 1));
    assert!(next(&mut update).await.superseded);
    let why = refused(client.follow_update(follow(9)).await, Code::NotFound);
    assert_eq!(why, "there is no update 9; the newest is 3");
    rig.end().await;
}

#[tokio::test]
async fn a_large_update_comes_in_several_messages() {
    let rig = Rig::new().await;
    rig.fake.progress.send_replace(progress(1, 1200, 1200));
    let mut client = rig.client().await;
    let update = client
        .follow_update(v1::FollowUpdateRequest::default())
        .await
        .unwrap();
    let messages = rest(update.into_inner()).await;
    let sizes: Vec<_> = messages
        .iter()
        .map(|it| (it.instances.len(), it.done))
        .collect();
    assert_eq!(sizes, [(500, false), (500, false), (200, true)]);
    rig.end().await;
}

#[tokio::test]
async fn what_an_update_wants_is_in_the_lists() {
    let rig = Rig::new().await;
    rig.view.node_connected(sm_info("n1"));
    rig.view.progress(&progress(1, 0, 2));
    let mut client = rig.client().await;
    let request = v1::ListInstancesRequest::default();
    let found = client
        .list_instances(request)
        .await
        .unwrap()
        .into_inner()
        .instances;
    assert_eq!((found.len(), found[0].state.as_str()), (2, "waiting"));
    let items = client
        .list_items(v1::ListItemsRequest::default())
        .await
        .unwrap();
    assert_eq!(items.into_inner().items[0].state, "downloading");
    let overview = client
        .get_overview(v1::GetOverviewRequest {})
        .await
        .unwrap()
        .into_inner();
    let update = overview.update.expect("an update");
    assert_eq!(
        (
            update.update_id,
            update.step.as_str(),
            update.instances.len()
        ),
        (1, "activating", 0)
    );
    rig.end().await;
}
