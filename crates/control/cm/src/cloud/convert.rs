//! What the Unit knows, in the cloud's words. Pure.

use std::time::SystemTime;

use muster_api::common::v2 as common;
use muster_api::domain::{
    Alert, AlertKind, AosError, ArchInfo, InstanceIdent, InstanceState, ItemState, ItemType,
    MonitoringData, NodeId, NodeInfo, NodeMonitoring, NodeState, OsInfo, RuntimeInfo, SmInfo,
    Timestamp,
};
use muster_cloud::message::status as wire;
use muster_cloud::message::telemetry as told;
use muster_cloud::message::{self, ErrorInfo, Identity, IdentityType};

/// The longest text of an alert, in characters.
const LONGEST_TEXT: usize = 32_768;

pub(super) fn time(at: Timestamp) -> message::Timestamp {
    message::Timestamp::try_from(SystemTime::from(at)).unwrap_or(message::Timestamp::UNIX_EPOCH)
}

pub(super) fn error(error: &AosError) -> ErrorInfo {
    let common::ErrorInfo {
        aos_code,
        exit_code,
        message,
    } = error.clone().into();
    ErrorInfo {
        aos_code,
        exit_code,
        message,
    }
}

pub(super) fn node(node: &NodeId) -> Identity {
    Identity::codename(node.as_str())
}

fn kind(kind: ItemType) -> IdentityType {
    match kind {
        ItemType::Service => IdentityType::Service,
        ItemType::Component => IdentityType::Component,
    }
}

/// What runs, and for whom.
pub(super) fn names(instance: &InstanceIdent) -> (Identity, Identity) {
    let (item, subject) = (instance.item_id.as_str(), instance.subject_id.as_str());
    let named: fn(&str) -> Identity = match instance.preinstalled {
        true => |name| Identity::codename(name),
        false => |name| Identity::id(name),
    };
    (named(item).of(kind(instance.item_type)), named(subject))
}

pub(super) fn item(id: &str, item_type: ItemType) -> Identity {
    Identity::id(id).of(kind(item_type))
}

pub(super) fn item_state(state: ItemState) -> wire::ItemState {
    match state {
        ItemState::Unknown => wire::ItemState::Unknown,
        ItemState::Downloading => wire::ItemState::Downloading,
        ItemState::Pending => wire::ItemState::Pending,
        ItemState::Installing => wire::ItemState::Installing,
        ItemState::Installed => wire::ItemState::Installed,
        ItemState::Removing => wire::ItemState::Removing,
        ItemState::Removed => wire::ItemState::Removed,
        ItemState::Failed => wire::ItemState::Failed,
    }
}

pub(super) fn instance_state(state: InstanceState) -> wire::InstanceState {
    match state {
        InstanceState::Activating => wire::InstanceState::Activating,
        InstanceState::Active => wire::InstanceState::Active,
        InstanceState::Inactive => wire::InstanceState::Inactive,
        InstanceState::Failed => wire::InstanceState::Failed,
    }
}

fn node_state(state: NodeState) -> wire::NodeState {
    match state {
        NodeState::Unprovisioned => wire::NodeState::Unprovisioned,
        NodeState::Provisioned => wire::NodeState::Provisioned,
        NodeState::Paused => wire::NodeState::Paused,
        NodeState::Error => wire::NodeState::Error,
    }
}

fn arch(info: &ArchInfo) -> wire::ArchInfo {
    wire::ArchInfo {
        architecture: info.architecture().to_owned(),
        variant: info.variant().map(str::to_owned),
    }
}

fn os(info: &OsInfo) -> wire::OsInfo {
    let features = info.features();
    wire::OsInfo {
        os: info.os().to_owned(),
        version: info.version().map(str::to_owned),
        features: (!features.is_empty()).then(|| features.to_vec()),
    }
}

fn runtime(info: &RuntimeInfo) -> wire::RuntimeInfo {
    wire::RuntimeInfo {
        identity: Identity::codename(info.runtime_id.as_str()),
        runtime_type: info.runtime_type.to_string(),
        arch_info: arch(&info.arch_info),
        os_info: os(&info.os_info),
        max_dmips: info.max_dmips.map(Into::into),
        allowed_dmips: info.allowed_dmips.map(Into::into),
        total_ram: info.total_ram.map(Into::into),
        allowed_ram: info.allowed_ram.map(Into::into),
        max_instances: info.max_instances,
    }
}

/// What a node is, as the identity manager and its Service Manager say.
pub(super) fn node_status(
    info: &NodeInfo,
    sm: Option<&SmInfo>,
    is_connected: bool,
) -> wire::NodeStatus {
    let list = |list: Vec<_>| (!list.is_empty()).then_some(list);
    let cpus = info.cpus.iter().map(|cpu| wire::CpuInfo {
        model_name: cpu.model_name.clone(),
        total_num_cores: cpu.num_cores,
        total_num_threads: cpu.num_threads,
        arch_info: arch(&cpu.arch_info),
        max_dmips: cpu.max_dmips.map(Into::into),
    });
    let partitions = info.partitions.iter().map(|partition| wire::PartitionInfo {
        name: partition.name.to_string(),
        path: (!partition.path.is_empty()).then(|| partition.path.clone()),
        types: partition.types.clone(),
        total_size: partition.total_size,
    });
    let partitions: Vec<_> = partitions.collect();
    let resources = sm.map(|sm| {
        let resource = |it: &muster_api::domain::ResourceInfo| wire::ResourceInfo {
            name: it.name().to_owned(),
            shared_count: it.shared_count().map_or(0, Into::into),
        };
        sm.resources.iter().map(resource).collect()
    });
    wire::NodeStatus {
        identity: Identity {
            title: (!info.title.is_empty()).then(|| info.title.clone()),
            ..node(&info.node_id)
        },
        node_group_subject: Identity::codename(info.node_type.as_str()),
        max_dmips: info.max_dmips,
        physical_ram: info.physical_ram.map(Into::into),
        total_ram: info.total_ram,
        os_info: os(&info.os_info),
        cpus: list(cpus.collect()),
        attrs: (!info.attrs.is_empty()).then(|| info.attrs.clone()),
        partitions: (!partitions.is_empty()).then_some(partitions),
        state: node_state(info.state),
        is_connected,
        error_info: info.error.as_ref().map(error),
        runtimes: sm.map(|sm| sm.runtimes.iter().map(runtime).collect()),
        resources,
    }
}

fn usage(data: &MonitoringData) -> told::Usage {
    let partitions = data.partitions.iter().map(|it| told::PartitionUsage {
        name: it.name.to_string(),
        used_size: it.used_size,
    });
    told::Usage {
        timestamp: time(data.timestamp),
        ram: data.ram,
        cpu: data.cpu,
        download: data.download,
        upload: data.upload,
        partitions: partitions.collect(),
    }
}

pub(super) fn monitoring(id: &NodeId, data: &NodeMonitoring) -> told::MonitoringData {
    let instances = data.instances.iter().map(|it| {
        let (item, subject) = names(&it.instance);
        told::InstanceMonitoring {
            item,
            subject,
            instance: it.instance.instance,
            node: node(id),
            item_states: Vec::new(),
            items: vec![usage(&it.data)],
        }
    });
    told::MonitoringData {
        nodes: vec![told::NodeMonitoring {
            node: node(id),
            node_states: Vec::new(),
            items: vec![usage(&data.node)],
        }],
        instances: instances.collect(),
    }
}

/// What the cloud calls a manager.
fn component(name: &str) -> String {
    let short = name.strip_prefix("muster-").unwrap_or(name);
    let short = short.strip_suffix(".service").unwrap_or(short);
    match short {
        "cm" | "sm" | "iam" | "mp" => short.to_ascii_uppercase(),
        _ => name.to_owned(),
    }
}

pub(super) fn alert(id: &NodeId, alert: &Alert) -> told::Alert {
    let timestamp = time(alert.timestamp);
    let text = |message: &str| message.chars().take(LONGEST_TEXT).collect::<String>();
    match &alert.kind {
        AlertKind::SystemQuota {
            parameter, value, ..
        } => told::Alert::SystemQuotaAlert {
            timestamp,
            node: node(id),
            parameter: parameter.as_str().to_owned(),
            value: *value,
        },
        AlertKind::InstanceQuota {
            instance,
            parameter,
            value,
            ..
        } => {
            let (item, subject) = names(instance);
            told::Alert::InstanceQuotaAlert {
                timestamp,
                item,
                subject,
                instance: instance.instance,
                parameter: parameter.as_str().to_owned(),
                value: *value,
            }
        }
        AlertKind::ResourceAllocate {
            instance,
            resource,
            message,
        } => {
            let (item, subject) = names(instance);
            told::Alert::ResourceAllocateAlert {
                timestamp,
                item,
                subject,
                instance: instance.instance,
                node: node(id),
                device_id: resource.clone(),
                message: text(message),
            }
        }
        AlertKind::System { message } => told::Alert::SystemAlert {
            timestamp,
            node: node(id),
            message: text(message),
        },
        AlertKind::Core {
            component: name,
            message,
        } => told::Alert::CoreAlert {
            timestamp,
            node: node(id),
            core_component: component(name),
            message: text(message),
        },
        AlertKind::Instance {
            instance,
            version,
            message,
        } => {
            let (item, subject) = names(instance);
            told::Alert::UpdateItemInstanceAlert {
                timestamp,
                item,
                subject,
                instance: instance.instance,
                version: version.clone(),
                message: text(message),
            }
        }
    }
}
