//! Any bytes as a message of the managers' streams, converted into the domain. The first byte
//! chooses the message. What is accepted must come back equal from the wire.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use muster_api::common::v2 as common;
use muster_api::domain::{
    Alert, CertType, ConnectionState, ConvertError, Digest, DownloadState, InstanceFilter,
    InstanceIdent, InstanceInfo, InstanceStatus, LogStatus, NodeConfigStatus, NodeId, NodeInfo,
    NodeMonitoring, SmInfo, Timestamp, fault_from_wire, fault_to_wire,
};
use muster_api::iamanager::v6 as iam;
use muster_api::iamanager::v6::iam_incoming_messages::IamIncomingMessage;
use muster_api::iamanager::v6::iam_outgoing_messages::IamOutgoingMessage;
use muster_api::servicemanager::v5 as sm;
use muster_api::servicemanager::v5::proxy_incoming_messages::ProxyIncomingMessage;
use muster_api::servicemanager::v5::proxy_outgoing_messages::ProxyOutgoingMessage;
use muster_api::servicemanager::v5::sm_incoming_messages::SmIncomingMessage;
use muster_api::servicemanager::v5::sm_outgoing_messages::SmOutgoingMessage;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    match choice % 8 {
        0 => decode::<sm::SmOutgoingMessages>(bytes)
            .and_then(|message| message.sm_outgoing_message)
            .map(sm_outgoing),
        1 => decode::<sm::SmIncomingMessages>(bytes)
            .and_then(|message| message.sm_incoming_message)
            .map(sm_incoming),
        2 => decode::<iam::IamOutgoingMessages>(bytes)
            .and_then(|message| message.iam_outgoing_message)
            .map(iam_outgoing),
        3 => decode::<iam::IamIncomingMessages>(bytes)
            .and_then(|message| message.iam_incoming_message)
            .map(iam_incoming),
        4 => decode::<sm::ProxyOutgoingMessages>(bytes)
            .and_then(|message| message.proxy_outgoing_message)
            .map(proxy_outgoing),
        5 => decode::<sm::ProxyIncomingMessages>(bytes)
            .and_then(|message| message.proxy_incoming_message)
            .map(proxy_incoming),
        6 => decode::<iam::RegisterInstanceRequest>(bytes)
            .and_then(|message| message.instance)
            .map(check::<_, InstanceIdent>),
        _ => decode::<sm::BlobsInfosRequest>(bytes).map(|message| {
            for digest in message.digests {
                check_text::<Digest>(&digest);
            }
        }),
    };
});

/// Decodes, and prints what was decoded: `Debug` of a message must not panic either.
fn decode<W: Message + Default + Debug>(bytes: &[u8]) -> Option<W> {
    let message = W::decode(bytes).ok()?;
    let _ = format!("{message:?}");
    Some(message)
}

/// Converts; what is refused must say why on one line, what is accepted must survive the wire.
fn check<W, D>(wire: W)
where
    W: From<D>,
    D: TryFrom<W, Error = ConvertError> + Clone + PartialEq + Debug,
{
    match D::try_from(wire) {
        Ok(value) => {
            let again = D::try_from(W::from(value.clone())).expect("accepted before");
            assert_eq!(again, value);
        }
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
}

fn check_text<T>(text: &str)
where
    T: std::str::FromStr + ToString + PartialEq + Debug,
    T::Err: ToString,
{
    match text.parse::<T>() {
        Ok(value) => assert_eq!(value.to_string(), text),
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
}

fn check_fault(wire: Option<common::ErrorInfo>) {
    let fault = fault_from_wire(wire);
    assert_eq!(fault_from_wire(Some(fault_to_wire(fault.clone()))), fault);
}

fn check_time(wire: Option<prost_types::Timestamp>) {
    if let Some(wire) = wire {
        check::<_, Timestamp>(wire);
        if let Ok(time) = Timestamp::try_from(wire) {
            assert_eq!(
                Timestamp::try_from(std::time::SystemTime::from(time)),
                Ok(time)
            );
            let _ = time.to_string();
        }
    }
}

fn check_filter(filter: Option<common::InstanceFilter>) {
    if let Some(filter) = filter {
        check::<_, InstanceFilter>(filter);
    }
}

fn sm_outgoing(message: SmOutgoingMessage) {
    match message {
        SmOutgoingMessage::SmInfo(info) => check::<_, SmInfo>(info),
        SmOutgoingMessage::NodeConfigStatus(status) => check::<_, NodeConfigStatus>(status),
        SmOutgoingMessage::UpdateInstancesStatus(status) => {
            status
                .instances
                .into_iter()
                .for_each(check::<_, InstanceStatus>);
        }
        SmOutgoingMessage::NodeInstancesStatus(status) => {
            status
                .instances
                .into_iter()
                .for_each(check::<_, InstanceStatus>);
        }
        SmOutgoingMessage::Log(part) => {
            check_text::<LogStatus>(&part.status);
            check_fault(part.error);
        }
        SmOutgoingMessage::InstantMonitoring(sample) => check::<_, NodeMonitoring>(sample),
        SmOutgoingMessage::AverageMonitoring(average) => check::<_, NodeMonitoring>(average),
        SmOutgoingMessage::Alert(alert) => check::<_, Alert>(alert),
    }
}

fn sm_incoming(message: SmIncomingMessage) {
    match message {
        SmIncomingMessage::UpdateInstances(update) => {
            for info in update.start_instances {
                if let Ok(info) = InstanceInfo::try_from(info.clone()) {
                    let _ = (info.instance.instance_id(), format!("{info:?}"));
                    for path in info.storage_path.iter().chain(&info.state_path) {
                        let root = std::path::Path::new("/root");
                        assert!(path.below(root).starts_with(root));
                    }
                }
                check::<_, InstanceInfo>(info);
            }
            update
                .stop_instances
                .into_iter()
                .for_each(check::<_, InstanceIdent>);
        }
        SmIncomingMessage::SystemLogRequest(request) => {
            check_time(request.from);
            check_time(request.till);
        }
        SmIncomingMessage::InstanceLogRequest(request) => check_filter(request.filter),
        SmIncomingMessage::InstanceCrashLogRequest(request) => check_filter(request.filter),
        SmIncomingMessage::ConnectionStatus(status) => {
            if let Ok(state) = ConnectionState::try_from(status.cloud_status) {
                assert_eq!(i32::from(state), status.cloud_status);
            }
        }
        SmIncomingMessage::GetNodeConfigStatus(_)
        | SmIncomingMessage::CheckNodeConfig(_)
        | SmIncomingMessage::SetNodeConfig(_)
        | SmIncomingMessage::GetAverageMonitoring(_)
        | SmIncomingMessage::UpdateNetworks(_) => {}
    }
}

fn iam_outgoing(message: IamOutgoingMessage) {
    match message {
        IamOutgoingMessage::NodeInfo(node) => check::<_, NodeInfo>(node),
        IamOutgoingMessage::CertTypesResponse(types) => {
            types
                .types
                .iter()
                .for_each(|name| check_text::<CertType>(name));
        }
        IamOutgoingMessage::StartProvisioningResponse(response) => check_fault(response.error),
        IamOutgoingMessage::FinishProvisioningResponse(response) => check_fault(response.error),
        IamOutgoingMessage::DeprovisionResponse(response) => check_fault(response.error),
        IamOutgoingMessage::PauseNodeResponse(response) => check_fault(response.error),
        IamOutgoingMessage::ResumeNodeResponse(response) => check_fault(response.error),
        IamOutgoingMessage::CreateKeyResponse(response) => check_fault(response.error),
        IamOutgoingMessage::ApplyCertResponse(response) => check_fault(response.error),
    }
}

fn iam_incoming(message: IamIncomingMessage) {
    let node_id = match message {
        IamIncomingMessage::StartProvisioningRequest(request) => request.node_id,
        IamIncomingMessage::GetCertTypesRequest(request) => request.node_id,
        IamIncomingMessage::FinishProvisioningRequest(request) => request.node_id,
        IamIncomingMessage::DeprovisionRequest(request) => request.node_id,
        IamIncomingMessage::PauseNodeRequest(request) => request.node_id,
        IamIncomingMessage::ResumeNodeRequest(request) => request.node_id,
        IamIncomingMessage::CreateKeyRequest(request) => request.node_id,
        IamIncomingMessage::ApplyCertRequest(request) => request.node_id,
    };
    check_text::<NodeId>(&node_id);
}

fn proxy_outgoing(message: ProxyOutgoingMessage) {
    if let ProxyOutgoingMessage::NodeId(node_id) = message {
        check_text::<NodeId>(&node_id);
    }
}

fn proxy_incoming(message: ProxyIncomingMessage) {
    match message {
        ProxyIncomingMessage::DownloadContent(content) => {
            if let Ok(state) = DownloadState::try_from(content.state) {
                assert_eq!(i32::from(state), content.state);
            }
            check_fault(content.error);
        }
        ProxyIncomingMessage::ClockSync(sync) => check_time(sync.current_time),
    }
}
