//! The Unit that most tests look at: two nodes, two items, three instances.

use jiff::{SignedDuration, Timestamp};
use muster_api::common::v2 as common;
use muster_control_api::v1;

use super::stub::Script;

/// A time that many days ago, and a minute, so that a slow test still sees the same number of days.
pub(crate) fn days_ago(days: i64) -> prost_types::Timestamp {
    let time =
        Timestamp::now() - SignedDuration::from_hours(24 * days) - SignedDuration::from_mins(1);
    prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: 0,
    }
}

/// 2026-05-01 10:00:00 and so many seconds.
pub(crate) fn at(seconds: i64) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp {
        seconds: 1_777_629_600 + seconds,
        nanos: 0,
    })
}

pub(crate) fn ident(item: &str, number: u64) -> common::InstanceIdent {
    common::InstanceIdent {
        item_id: item.into(),
        subject_id: "local".into(),
        instance: number,
        ..common::InstanceIdent::default()
    }
}

pub(crate) fn instance(item: &str, number: u64, node: &str, state: &str) -> v1::Instance {
    v1::Instance {
        ident: Some(ident(item, number)),
        instance_id: format!("0000-{item}-{number}"),
        version: "1.2.0".into(),
        node_id: node.into(),
        runtime_id: "r1".into(),
        runtime_type: "runc".into(),
        state: state.into(),
        since: Some(days_ago(12)),
        ..v1::Instance::default()
    }
}

pub(crate) fn usage(cpu: u64, ram: u64) -> v1::Usage {
    v1::Usage {
        timestamp: at(0),
        cpu,
        ram,
        download: 1024,
        upload: 2048,
        partitions: vec![v1::PartitionUsage {
            name: "var".into(),
            used_size: 1 << 20,
        }],
    }
}

fn node(id: &str) -> v1::Node {
    v1::Node {
        node_id: id.into(),
        node_type: "board".into(),
        title: format!("Board {id}"),
        state: "provisioned".into(),
        connected: true,
        os_info: Some(common::OsInfo {
            os: "linux".into(),
            version: "6.1".into(),
            features: Vec::new(),
        }),
        architecture: "amd64".into(),
        max_dmips: 10_000,
        total_ram: 4 << 30,
        runtimes: vec![v1::Runtime {
            runtime_id: "r1".into(),
            r#type: "runc".into(),
            allowed_dmips: 8000,
            allowed_ram: 2 << 30,
            max_instances: 32,
        }],
        priority: 10,
        ..v1::Node::default()
    }
}

pub(crate) fn plant() -> Script {
    let first = v1::Node {
        is_main: true,
        instances: 2,
        labels: vec!["gpu".into(), "fast".into()],
        resources: vec![v1::Resource {
            name: "camera".into(),
            shared_count: 1,
        }],
        usage: Some(usage(2500, 1 << 30)),
        config_version: "1.0.0".into(),
        attributes: [("rack".to_owned(), "7".to_owned())].into(),
        ..node("node-1")
    };
    let second = v1::Node {
        state: "paused".into(),
        connected: false,
        error: Some(common::ErrorInfo {
            aos_code: 1,
            exit_code: 0,
            message: "the disk is on fire\x1b[2J".into(),
        }),
        ..node("node-2")
    };
    let mut web = instance("web", 0, "node-1", "active");
    web.address = "172.17.0.2".into();
    web.network_id = "net-1".into();
    web.usage = Some(usage(120, 64 << 20));
    let mut broken = instance("worker", 0, "node-1", "failed");
    broken.error = Some(common::ErrorInfo {
        aos_code: 1,
        exit_code: 137,
        message: "exit code 137".into(),
    });
    let mut nowhere = instance("web", 1, "", "unplaced");
    (nowhere.runtime_id, nowhere.runtime_type, nowhere.since) = Default::default();
    Script {
        overview: v1::Overview {
            system_id: "plant-7".into(),
            version: "0.1.0".into(),
            uptime: Some(prost_types::Duration {
                seconds: 3 * 3600 + 60,
                nanos: 0,
            }),
            nodes: 2,
            nodes_connected: 1,
            instances: 3,
            instances_active: 1,
            instances_failed: 1,
            items: 2,
            alerts: 1,
            ..v1::Overview::default()
        },
        nodes: vec![first, second],
        instances: vec![web, nowhere, broken],
        items: vec![
            v1::Item {
                item_id: "web".into(),
                version: "1.2.0".into(),
                r#type: "service".into(),
                owner_id: "acme".into(),
                state: "installed".into(),
                index_digest: "sha256:01".into(),
                total_size: 3 << 20,
                downloaded: 3 << 20,
                ..v1::Item::default()
            },
            v1::Item {
                item_id: "worker".into(),
                version: "1.2.0".into(),
                r#type: "service".into(),
                state: "downloading".into(),
                total_size: 8 << 20,
                downloaded: 2 << 20,
                ..v1::Item::default()
            },
        ],
        alerts: vec![v1::Alert {
            timestamp: at(0),
            node_id: "node-1".into(),
            kind: "instanceQuota".into(),
            instance: Some(ident("worker", 0)),
            subject: "ram".into(),
            message: "75% of 64 MiB".into(),
        }],
        networks: vec![v1::Network {
            network_id: "net-1".into(),
            subnet: "172.17.0.0/16".into(),
            vlan_id: 7,
            nodes: [("node-1".to_owned(), "172.17.0.1".to_owned())].into(),
            instances: 1,
        }],
        events: vec![
            v1::Event {
                timestamp: at(0),
                kind: "update".into(),
                name: "7".into(),
                message: "done".into(),
                warning: false,
            },
            v1::Event {
                timestamp: at(90),
                kind: "instance".into(),
                name: "worker:local:0".into(),
                message: "failed: exit code 137".into(),
                warning: true,
            },
        ],
        ..Script::default()
    }
}
