//! What `RegisterSM` carries, at the controller's end.

use muster_api::domain::{ConnectionState, NodeId};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::Protocol;
use muster_rpc::slots::ReplyKind;
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

/// The Communication Manager's end of `RegisterSM`: it commands and asks, the node reports and answers.
#[derive(Debug)]
pub enum ControllerEnd {}

/// Answers reading, checking and setting a node's configuration.
pub(crate) const NODE_CONFIG_STATUS: ReplyKind = ReplyKind("NodeConfigStatus");
/// Answers the question for averages.
pub(crate) const AVERAGE_MONITORING: ReplyKind = ReplyKind("AverageMonitoring");

impl Protocol for ControllerEnd {
    type Out = wire::SmIncomingMessages;
    type In = wire::SmOutgoingMessages;

    const METHOD: &'static str = "/servicemanager.v5.SMService/RegisterSM";

    fn reply_kind(message: &Self::In) -> Option<ReplyKind> {
        match message.sm_outgoing_message.as_ref()? {
            Said::NodeConfigStatus(_) => Some(NODE_CONFIG_STATUS),
            Said::AverageMonitoring(_) => Some(AVERAGE_MONITORING),
            Said::SmInfo(_)
            | Said::UpdateInstancesStatus(_)
            | Said::NodeInstancesStatus(_)
            | Said::Log(_)
            | Said::InstantMonitoring(_)
            | Said::Alert(_) => None,
        }
    }
}

pub(crate) fn to_node(command: Command) -> wire::SmIncomingMessages {
    wire::SmIncomingMessages {
        sm_incoming_message: Some(command),
    }
}

pub(crate) fn connection_status(state: ConnectionState) -> wire::SmIncomingMessages {
    let cloud_status = wire::ConnectionEnum::from(state).into();
    to_node(Command::ConnectionStatus(wire::ConnectionStatus {
        cloud_status,
    }))
}

/// The name of a message, for logs and refusals.
pub(crate) fn name_of(said: Option<&Said>) -> &'static str {
    match said {
        None => "a message that this version does not know",
        Some(Said::SmInfo(_)) => "SMInfo",
        Some(Said::NodeConfigStatus(_)) => NODE_CONFIG_STATUS.0,
        Some(Said::UpdateInstancesStatus(_)) => "UpdateInstancesStatus",
        Some(Said::NodeInstancesStatus(_)) => "NodeInstancesStatus",
        Some(Said::Log(_)) => "LogData",
        Some(Said::InstantMonitoring(_)) => "InstantMonitoring",
        Some(Said::AverageMonitoring(_)) => AVERAGE_MONITORING.0,
        Some(Said::Alert(_)) => "Alert",
    }
}

/// Whether a certificate's node is this one. Both kinds of id have one spelling.
pub(crate) fn certified(node: &muster_tls::NodeId) -> Option<NodeId> {
    node.as_str().parse().ok()
}
