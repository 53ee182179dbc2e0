//! The stream `RegisterNode`, for both of its ends.

use muster_api::iamanager::v6 as wire;
use muster_rpc::Protocol;
use muster_rpc::slots::ReplyKind;

use crate::command::{Answer, Command, CommandKind};

const REGISTER_NODE: &str = "/iamanager.v6.IAMPublicNodesService/RegisterNode";

/// The Main Node's end: it asks, the node answers.
#[derive(Debug)]
pub enum MainEnd {}

impl Protocol for MainEnd {
    type Out = wire::IamIncomingMessages;
    type In = wire::IamOutgoingMessages;
    const METHOD: &'static str = REGISTER_NODE;

    fn reply_kind(message: &Self::In) -> Option<ReplyKind> {
        let answer = message.iam_outgoing_message.as_ref()?;
        CommandKind::answered_by(answer).map(CommandKind::reply_kind)
    }
}

/// The Secondary Node's end: it describes itself and answers.
#[derive(Debug)]
pub enum NodeEnd {}

impl Protocol for NodeEnd {
    type Out = wire::IamOutgoingMessages;
    type In = wire::IamIncomingMessages;
    const METHOD: &'static str = REGISTER_NODE;

    fn reply_kind(_: &Self::In) -> Option<ReplyKind> {
        None
    }
}

pub(crate) fn to_node(command: Command) -> wire::IamIncomingMessages {
    wire::IamIncomingMessages {
        iam_incoming_message: Some(command),
    }
}

pub(crate) fn to_main(answer: Answer) -> wire::IamOutgoingMessages {
    wire::IamOutgoingMessages {
        iam_outgoing_message: Some(answer),
    }
}
