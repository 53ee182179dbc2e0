//! What simulated nodes say.

use std::time::SystemTime;

use muster_api::common::v2 as common;
use muster_api::servicemanager::v5 as wire;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

fn message(said: Said) -> wire::SmOutgoingMessages {
    wire::SmOutgoingMessages {
        sm_outgoing_message: Some(said),
    }
}

/// Who the node is, and what it runs.
pub(super) fn hello(
    node: &str,
    runtime: &wire::RuntimeInfo,
    given: &[wire::InstanceInfo],
) -> Vec<wire::SmOutgoingMessages> {
    let info = wire::SmInfo {
        node_id: node.to_owned(),
        runtimes: vec![runtime.clone()],
        resources: Vec::new(),
    };
    vec![message(Said::SmInfo(info)), running(given)]
}

/// Everything that it was told to run is active.
pub(super) fn running(given: &[wire::InstanceInfo]) -> wire::SmOutgoingMessages {
    let status = |it: &wire::InstanceInfo| wire::InstanceStatus {
        instance: it.instance.clone(),
        version: it.version.clone(),
        runtime_id: it.runtime_id.clone(),
        manifest_digest: it.manifest_digest.clone(),
        state: "active".to_owned(),
        error: Some(common::ErrorInfo::default()),
        ..Default::default()
    };
    message(Said::NodeInstancesStatus(wire::NodeInstancesStatus {
        instances: given.iter().map(status).collect(),
    }))
}

/// It has no configuration.
pub(super) fn config_status() -> wire::SmOutgoingMessages {
    message(Said::NodeConfigStatus(wire::NodeConfigStatus {
        error: Some(common::ErrorInfo::default()),
        version: String::new(),
        state: "absent".to_owned(),
    }))
}

/// What it and its instances use, of memory and of so many partitions each.
pub(super) fn measurement(
    given: &[wire::InstanceInfo],
    ram: u64,
    partitions: u64,
) -> wire::SmOutgoingMessages {
    let partition = |number: u64| wire::PartitionUsage {
        name: format!("partition-{number}"),
        used_size: ram,
    };
    let data = || wire::MonitoringData {
        timestamp: Some(SystemTime::now().into()),
        ram,
        cpu: 1000,
        partitions: (0..partitions).map(partition).collect(),
        ..Default::default()
    };
    let instance = |it: &wire::InstanceInfo| wire::InstanceMonitoring {
        instance: it.instance.clone(),
        runtime_id: it.runtime_id.clone(),
        monitoring_data: Some(data()),
    };
    message(Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(data()),
        instances_monitoring: given.iter().map(instance).collect(),
    }))
}
