//! What nodes measure and complain about, in the cloud's words.

use std::time::{Duration, SystemTime};

use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use muster_cloud::message::telemetry::{Alert, MonitoringData};
use muster_cloud::message::{Identity, IdentityType, Outgoing, Timestamp};
use wire::alert::AlertItem;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use super::scene::{Scene, alerts};

/// A whole second, which no clock cuts.
fn at() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn ident() -> common::InstanceIdent {
    common::InstanceIdent {
        item_id: "web".to_owned(),
        subject_id: "driver".to_owned(),
        instance: 3,
        r#type: common::ItemType::Service.into(),
        preinstalled: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_alert_of_a_node_arrives_as_the_cloud_calls_it() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    cm.until_nodes(1).await;
    let timestamp = Timestamp::try_from(at()).unwrap();
    let (item, subject) = (
        Identity::id("web").of(IdentityType::Service),
        Identity::id("driver"),
    );
    let of_node = || Identity::codename("n1");
    let text = || "it burns".to_owned();
    let pairs = [
        (
            AlertItem::SystemAlert(wire::SystemAlert { message: text() }),
            Alert::SystemAlert {
                timestamp,
                node: of_node(),
                message: text(),
            },
        ),
        (
            AlertItem::CoreAlert(wire::CoreAlert {
                core_component: "muster-sm.service".to_owned(),
                message: text(),
            }),
            Alert::CoreAlert {
                timestamp,
                node: of_node(),
                core_component: "SM".to_owned(),
                message: text(),
            },
        ),
        (
            AlertItem::SystemQuotaAlert(wire::SystemQuotaAlert {
                parameter: "ram".to_owned(),
                value: 99,
                status: "raise".to_owned(),
            }),
            Alert::SystemQuotaAlert {
                timestamp,
                node: of_node(),
                parameter: "ram".to_owned(),
                value: 99,
            },
        ),
        (
            AlertItem::InstanceQuotaAlert(wire::InstanceQuotaAlert {
                instance: Some(ident()),
                parameter: "cpu".to_owned(),
                value: 98,
                status: "fall".to_owned(),
            }),
            Alert::InstanceQuotaAlert {
                timestamp,
                item: item.clone(),
                subject: subject.clone(),
                instance: 3,
                parameter: "cpu".to_owned(),
                value: 98,
            },
        ),
        (
            AlertItem::ResourceAllocateAlert(wire::ResourceAllocateAlert {
                instance: Some(ident()),
                resource: "camera".to_owned(),
                message: text(),
            }),
            Alert::ResourceAllocateAlert {
                timestamp,
                item: item.clone(),
                subject: subject.clone(),
                instance: 3,
                node: of_node(),
                device_id: "camera".to_owned(),
                message: text(),
            },
        ),
        (
            AlertItem::InstanceAlert(wire::InstanceAlert {
                instance: Some(ident()),
                service_version: "1.0.0".to_owned(),
                message: text(),
            }),
            Alert::UpdateItemInstanceAlert {
                timestamp,
                item: item.clone(),
                subject: subject.clone(),
                instance: 3,
                version: "1.0.0".to_owned(),
                message: text(),
            },
        ),
    ];
    for (said, _) in &pairs {
        let alert = wire::Alert {
            timestamp: Some(at().into()),
            alert_item: Some(said.clone()),
        };
        node.say(Said::Alert(alert)).await;
    }
    let arrived = cloud.wait("every alert", |seen| {
        let found = alerts(seen);
        (found.len() >= pairs.len()).then_some(found)
    });
    // All of them, once, in the order in which they were said.
    assert_eq!(arrived, pairs.map(|(_, told)| told));
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn measurements_of_nodes_and_instances_arrive() {
    let scene = Scene::new();
    let Scene { cloud, site, .. } = &scene;
    let cm = site.start();
    let node = site.node("n1");
    let usage = |ram| wire::MonitoringData {
        timestamp: Some(at().into()),
        ram,
        cpu: 2,
        partitions: vec![wire::PartitionUsage {
            name: "data".to_owned(),
            used_size: 5,
        }],
        download: 3,
        upload: 4,
    };
    node.say(Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(usage(100)),
        instances_monitoring: vec![wire::InstanceMonitoring {
            instance: Some(ident()),
            runtime_id: "runc-n1".to_owned(),
            monitoring_data: Some(usage(10)),
        }],
    }))
    .await;
    let told: MonitoringData = cloud.wait("measurements", |seen| {
        let received = seen.received.iter();
        let mut data = received.filter_map(|it| match &it.message {
            Outgoing::Monitoring(data) => Some(data.clone()),
            _ => None,
        });
        data.next()
    });
    let [of_node] = told.nodes.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(of_node.node.name(), Some("n1"));
    let [sample] = of_node.items.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(sample.timestamp, Timestamp::try_from(at()).unwrap());
    assert_eq!(
        (sample.ram, sample.cpu, sample.download, sample.upload),
        (100, 2, 3, 4)
    );
    assert_eq!(
        (
            sample.partitions[0].name.as_str(),
            sample.partitions[0].used_size
        ),
        ("data", 5)
    );
    let [of_instance] = told.instances.as_slice() else {
        panic!("{told:?}")
    };
    assert_eq!(
        (of_instance.item.name(), of_instance.instance),
        (Some("web"), 3)
    );
    assert_eq!(of_instance.items[0].ram, 10);
    cm.end();
}
