//! What the contract's messages say about the state.

use std::time::SystemTime;

use muster_api::common::v2::ErrorInfo;
use muster_api::domain::{
    Alert, AlertKind, AosError, InstanceIdent, ItemId, ItemType, MonitoringData, NetworkId, NodeId,
};
use muster_control_api::v1;
use muster_desired::{InstanceProgress, ItemProgress, Progress};

use crate::operations::PlannedPlace;
use crate::state::{ItemKey, NodeRecord, UnitState};

/// Longest text of an error in a message: a page of errors fits into one.
pub(crate) const ERROR_BYTES: usize = 2 * 1024;

/// The text, or its beginning.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push_str("...");
    }
    text
}

fn error(error: Option<&AosError>) -> Option<ErrorInfo> {
    let mut shown = ErrorInfo::from(error?.clone());
    shown.message = cut(shown.message, ERROR_BYTES);
    Some(shown)
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn number(value: usize) -> u64 {
    value.try_into().unwrap_or(u64::MAX)
}

pub(crate) fn usage(data: &MonitoringData) -> v1::Usage {
    let partitions = data.partitions.iter().map(|partition| v1::PartitionUsage {
        name: partition.name.to_string(),
        used_size: partition.used_size,
    });
    v1::Usage {
        timestamp: Some(data.timestamp.into()),
        cpu: data.cpu,
        ram: data.ram,
        download: data.download,
        upload: data.upload,
        partitions: partitions.collect(),
    }
}

pub(crate) fn node(state: &UnitState, id: &NodeId) -> Option<v1::Node> {
    let record = state.node(id)?;
    let info = record.info.as_ref();
    let runtimes = record.sm.iter().flat_map(|sm| &sm.runtimes);
    let runtimes = runtimes.map(|runtime| v1::Runtime {
        runtime_id: runtime.runtime_id.to_string(),
        r#type: runtime.runtime_type.to_string(),
        allowed_dmips: runtime.allowed_dmips.map_or(0, Into::into),
        allowed_ram: runtime.allowed_ram.map_or(0, Into::into),
        max_instances: runtime.max_instances,
    });
    let resources = record.sm.iter().flat_map(|sm| &sm.resources);
    let resources = resources.map(|resource| v1::Resource {
        name: resource.name().to_owned(),
        shared_count: resource.shared_count().map_or(0, Into::into),
    });
    Some(v1::Node {
        node_id: id.to_string(),
        node_type: text(info.map(|info| &info.node_type)),
        title: text(info.map(|info| &info.title)),
        state: text(info.map(|info| info.state)),
        connected: record.connected,
        is_main: state.about.main_node.as_ref() == Some(id),
        os_info: info.map(|info| info.os_info.clone().into()),
        architecture: architecture(record),
        max_dmips: info.map_or(0, |info| info.max_dmips),
        total_ram: info.map_or(0, |info| info.total_ram),
        runtimes: runtimes.collect(),
        resources: resources.collect(),
        labels: record.config.labels.clone(),
        priority: record.config.priority,
        instances: number(state.instances_of(id)),
        usage: state.node_usage(id).map(usage),
        error: error(record.error()),
        config_version: record.config.version.clone(),
        attributes: info.map(|info| info.attrs.clone()).unwrap_or_default(),
    })
}

fn architecture(record: &NodeRecord) -> String {
    let cpu = record.info.iter().flat_map(|info| &info.cpus).next();
    let runtime = record.sm.iter().flat_map(|sm| &sm.runtimes).next();
    let arch = cpu.map(|cpu| &cpu.arch_info);
    let arch = arch.or_else(|| runtime.map(|runtime| &runtime.arch_info));
    arch.map(|arch| arch.architecture().to_owned())
        .unwrap_or_default()
}

pub(crate) fn instance(state: &UnitState, ident: &InstanceIdent) -> Option<v1::Instance> {
    let record = state.instance(ident)?;
    let (place, runtime) = (record.place(), record.runtime());
    let node = place.and_then(|node| state.node(node));
    let runtime_type = runtime.and_then(|runtime| node?.runtime_type(runtime));
    let given = record.given_there();
    Some(v1::Instance {
        ident: Some(ident.clone().into()),
        instance_id: ident.instance_id().to_string(),
        version: record.version().to_owned(),
        node_id: text(place),
        runtime_id: text(runtime),
        runtime_type: text(runtime_type),
        state: record.phase.as_str().to_owned(),
        error: error(record.error()),
        priority: given.map_or(0, |given| given.priority),
        address: text(given.and_then(|given| given.address)),
        network_id: text(given.and_then(|given| given.network.as_ref())),
        since: Some(record.since.into()),
        usage: record.usage.as_deref().map(usage),
    })
}

pub(crate) fn item_version(key: &ItemKey) -> v1::ItemVersion {
    v1::ItemVersion {
        item_id: key.id.to_string(),
        version: key.version.clone(),
    }
}

fn kind(kind: ItemType) -> String {
    match kind {
        ItemType::Service => "service",
        ItemType::Component => "component",
    }
    .to_owned()
}

pub(crate) fn item(state: &UnitState, key: &ItemKey) -> Option<v1::Item> {
    let record = state.item(key)?;
    let facts = record.facts.as_ref();
    Some(v1::Item {
        item_id: key.id.to_string(),
        version: key.version.clone(),
        r#type: facts.map(|facts| kind(facts.kind)).unwrap_or_default(),
        owner_id: text(facts.and_then(|facts| facts.owner.as_ref())),
        state: record.state.to_string(),
        error: error(record.error.as_ref()),
        index_digest: text(facts.and_then(|facts| facts.index.as_ref())),
        total_size: record.bytes.total,
        downloaded: record.bytes.done,
    })
}

pub(crate) fn network(state: &UnitState, id: &NetworkId) -> Option<v1::Network> {
    let record = state.network(id)?;
    let nodes = record.nodes.iter();
    Some(v1::Network {
        network_id: id.to_string(),
        subnet: record.subnet.clone(),
        vlan_id: record.vlan,
        nodes: nodes
            .map(|(node, ip)| (node.to_string(), ip.clone()))
            .collect(),
        instances: number(record.instances),
    })
}

pub(crate) fn node_usage(state: &UnitState, id: &NodeId) -> Option<v1::NodeUsage> {
    let data = state.node_usage(id)?;
    let info = state.node(id).and_then(|record| record.info.as_ref());
    Some(v1::NodeUsage {
        node_id: id.to_string(),
        max_dmips: info.map_or(0, |info| info.max_dmips),
        total_ram: info.map_or(0, |info| info.total_ram),
        usage: Some(usage(data)),
    })
}

pub(crate) fn instance_usage(
    state: &UnitState,
    ident: &InstanceIdent,
) -> Option<v1::InstanceUsage> {
    let record = state.instance(ident)?;
    let data = record.usage.as_deref()?;
    Some(v1::InstanceUsage {
        instance: Some(ident.clone().into()),
        node_id: text(record.place()),
        state: record.phase.as_str().to_owned(),
        usage: Some(usage(data)),
    })
}

/// The numbers of an overview; uptime and alerts are known elsewhere.
pub(crate) fn overview(state: &UnitState) -> v1::Overview {
    let tally = state.shown_tally();
    let update = tally.update.map(|update| v1::UpdateProgress {
        update_id: update.0,
        step: tally.step.as_str().to_owned(),
        done: tally.done,
        superseded: false,
        items: Vec::new(),
        instances: Vec::new(),
        failures: state.failures().to_vec(),
    });
    v1::Overview {
        system_id: state.about.system_id.clone(),
        version: state.about.version.clone(),
        uptime: None,
        nodes: number(tally.nodes),
        nodes_connected: number(tally.connected),
        instances: number(tally.instances),
        instances_active: number(tally.active),
        instances_failed: number(tally.failed),
        items: number(tally.items),
        alerts: 0,
        cloud_configured: tally.cloud.configured,
        cloud_connected: tally.cloud.connected,
        update,
    }
}

/// An item of an update.
pub(crate) fn item_progress(id: &ItemId, item: &ItemProgress) -> v1::Item {
    v1::Item {
        item_id: id.to_string(),
        version: item.version.clone(),
        state: item.state.to_string(),
        error: error(item.error.as_ref()),
        total_size: item.bytes.total,
        downloaded: item.bytes.done,
        ..v1::Item::default()
    }
}

/// An instance of an update.
pub(crate) fn instance_progress(
    ident: &InstanceIdent,
    instance: &InstanceProgress,
) -> v1::Instance {
    v1::Instance {
        ident: Some(ident.clone().into()),
        instance_id: ident.instance_id().to_string(),
        version: instance.version.clone(),
        node_id: text(instance.node.as_ref()),
        state: instance.condition.to_string(),
        error: error(instance.error.as_ref()),
        ..v1::Instance::default()
    }
}

pub(crate) fn placement(place: PlannedPlace) -> v1::Placement {
    match place {
        PlannedPlace::Placed {
            instance,
            node,
            runtime,
        } => v1::Placement {
            instance: Some(instance.into()),
            node_id: node.to_string(),
            runtime_type: text(runtime),
            reason: String::new(),
        },
        PlannedPlace::Unplaced { instance, reason } => v1::Placement {
            instance: Some(instance.into()),
            reason,
            ..v1::Placement::default()
        },
    }
}

/// An alert of a node.
pub(crate) fn alert(node: &NodeId, alert: Alert) -> v1::Alert {
    let timestamp = Some(SystemTime::from(alert.timestamp).into());
    let (kind, instance, subject, message) = match alert.kind {
        AlertKind::SystemQuota {
            parameter,
            value,
            status,
        } => (
            "systemQuota",
            None,
            format!("{parameter} {status}"),
            format!("the node's {parameter} is at {value}"),
        ),
        AlertKind::InstanceQuota {
            instance,
            parameter,
            value,
            status,
        } => {
            let message = format!("the {parameter} of {instance} is at {value}");
            (
                "instanceQuota",
                Some(instance),
                format!("{parameter} {status}"),
                message,
            )
        }
        AlertKind::ResourceAllocate {
            instance,
            resource,
            message,
        } => ("resourceAllocate", Some(instance), resource, message),
        AlertKind::System { message } => ("system", None, String::new(), message),
        AlertKind::Core { component, message } => ("core", None, component, message),
        AlertKind::Instance {
            instance,
            version,
            message,
        } => ("instance", Some(instance), version, message),
    };
    v1::Alert {
        timestamp,
        node_id: node.to_string(),
        kind: kind.to_owned(),
        instance: instance.map(Into::into),
        subject,
        message,
    }
}

/// What went wrong with an update, the first few.
pub(crate) fn failures(progress: &Progress, count: usize) -> Vec<String> {
    let failures = progress.first_failures(count).into_iter();
    failures.map(|text| cut(text, ERROR_BYTES)).collect()
}
