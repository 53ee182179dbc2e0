//! What the stream carries.

use muster_api::domain::{Alert, InstanceStatus, NodeConfigStatus};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::Protocol;
use muster_rpc::slots::ReplyKind;
use wire::sm_outgoing_messages::SmOutgoingMessage as Out;

/// The Service Manager's end of `RegisterSM`.
#[derive(Debug)]
pub struct SmProtocol;

impl Protocol for SmProtocol {
    type Out = wire::SmOutgoingMessages;
    type In = wire::SmIncomingMessages;

    const METHOD: &'static str = "/servicemanager.v5.SMService/RegisterSM";

    /// A Service Manager asks nothing on this stream.
    fn reply_kind(_: &Self::In) -> Option<ReplyKind> {
        None
    }
}

fn message(message: Out) -> wire::SmOutgoingMessages {
    wire::SmOutgoingMessages {
        sm_outgoing_message: Some(message),
    }
}

fn statuses(statuses: Vec<InstanceStatus>) -> Vec<wire::InstanceStatus> {
    statuses.into_iter().map(Into::into).collect()
}

pub(super) fn info(info: wire::SmInfo) -> wire::SmOutgoingMessages {
    message(Out::SmInfo(info))
}

pub(super) fn all(all: Vec<InstanceStatus>) -> wire::SmOutgoingMessages {
    message(Out::NodeInstancesStatus(wire::NodeInstancesStatus {
        instances: statuses(all),
    }))
}

pub(super) fn changed(changed: Vec<InstanceStatus>) -> wire::SmOutgoingMessages {
    message(Out::UpdateInstancesStatus(wire::UpdateInstancesStatus {
        instances: statuses(changed),
    }))
}

pub(super) fn node_config(status: NodeConfigStatus) -> wire::SmOutgoingMessages {
    message(Out::NodeConfigStatus(status.into()))
}

pub(super) fn average(average: wire::AverageMonitoring) -> wire::SmOutgoingMessages {
    message(Out::AverageMonitoring(average))
}

pub(crate) fn instant(instant: wire::InstantMonitoring) -> wire::SmOutgoingMessages {
    message(Out::InstantMonitoring(instant))
}

pub(crate) fn alert(alert: Alert) -> wire::SmOutgoingMessages {
    message(Out::Alert(alert.into()))
}

pub(super) fn log(part: wire::LogData) -> wire::SmOutgoingMessages {
    message(Out::Log(part))
}
