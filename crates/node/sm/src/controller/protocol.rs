//! What the stream carries.

use muster_api::domain::{Alert, InstanceStatus, NodeConfigStatus};
use muster_api::servicemanager::v5 as wire;
use muster_launcher::Directory;
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

fn statuses(statuses: Vec<InstanceStatus>, directory: &Directory) -> Vec<wire::InstanceStatus> {
    let told = |status: InstanceStatus| {
        let lacks = directory.lacks(&status.instance);
        noted(status, &lacks)
    };
    statuses.into_iter().map(told).collect()
}

/// A status whose message says what of its sandbox an instance runs without. Codes of zero still mean success.
fn noted(status: InstanceStatus, lacks: &[String]) -> wire::InstanceStatus {
    let is_well = status.error.is_none();
    let mut status = wire::InstanceStatus::from(status);
    if is_well && !lacks.is_empty() {
        let error = status.error.get_or_insert_default();
        error.message = format!("runs without {}", lacks.join("; "));
    }
    status
}

pub(super) fn info(info: wire::SmInfo) -> wire::SmOutgoingMessages {
    message(Out::SmInfo(info))
}

pub(super) fn all(all: Vec<InstanceStatus>, directory: &Directory) -> wire::SmOutgoingMessages {
    message(Out::NodeInstancesStatus(wire::NodeInstancesStatus {
        instances: statuses(all, directory),
    }))
}

pub(super) fn changed(
    changed: Vec<InstanceStatus>,
    directory: &Directory,
) -> wire::SmOutgoingMessages {
    message(Out::UpdateInstancesStatus(wire::UpdateInstancesStatus {
        instances: statuses(changed, directory),
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

#[cfg(test)]
mod tests {
    use muster_api::domain::{AosCode, AosError, InstanceIdent, InstanceState, ItemType};

    use super::*;

    fn status(error: Option<AosError>) -> InstanceStatus {
        InstanceStatus {
            instance: InstanceIdent {
                item_id: "item".parse().unwrap(),
                subject_id: "subject".parse().unwrap(),
                instance: 0,
                item_type: ItemType::Service,
                preinstalled: false,
            },
            version: "1.0.0".into(),
            runtime_id: None,
            manifest_digest: None,
            env_vars: Vec::new(),
            state: InstanceState::Active,
            error,
        }
    }

    #[test]
    fn a_status_lists_what_a_sandbox_lacks_and_is_a_success_all_the_same() {
        let lacks = ["PrivateNetwork: no".to_owned(), "its user: no".to_owned()];
        let told = noted(status(None), &lacks).error.unwrap();
        assert_eq!((told.aos_code, told.exit_code), (0, 0));
        assert_eq!(
            told.message,
            "runs without PrivateNetwork: no; its user: no"
        );
        // What is wrong is more important.
        let fault = AosError::new(AosCode::Failed, "broken");
        let told = noted(status(Some(fault)), &lacks).error.unwrap();
        assert_eq!(told.message, "broken");
        let told = noted(status(None), &[]).error.unwrap();
        assert_eq!(told.message, "");
    }
}
