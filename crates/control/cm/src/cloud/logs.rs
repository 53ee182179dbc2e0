//! Logs that the cloud asks for: every node's parts as they come, compressed as they are.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use muster_api::domain::{
    AosCode, AosError, InstanceFilter, InvalidValue, ItemId, NodeId, SubjectId, Timestamp,
    fault_from_wire,
};
use muster_api::servicemanager::v5 as wire;
use muster_cloud::CloudLink;
use muster_cloud::message::incoming::{LogFilter, LogType, RequestLog, UploadType};
use muster_cloud::message::telemetry::{LogStatus, PushLog};
use muster_cloud::message::{self, Base64, Identity};
use muster_smcontroller::{LogProvider as _, LogQuery, SmController};
use muster_telemetry::ErrorChain;

use super::{CloudDesk, convert};
use crate::logs::LogNews;
use crate::switchboard::Switchboard;

/// A node that sends no part for so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks the nodes one after the other, and sends what they answer.
pub(super) async fn answer(
    desk: CloudDesk,
    controller: SmController,
    switchboard: Arc<Switchboard>,
    request: RequestLog,
    correlation: Option<String>,
) {
    let to = To {
        link: desk.link().clone(),
        correlation,
    };
    let elsewhere = request.upload_options.as_ref();
    if elsewhere.is_some_and(|it| it.kind != UploadType::Wss) {
        let text = "logs are sent over this link only";
        let error = AosError::new(AosCode::NotSupported, text);
        return to.failed(Identity::default(), &error).await;
    }
    let filter = match instances(&request.filter) {
        Ok(filter) => filter,
        Err(error) => {
            let error = AosError::new(AosCode::InvalidArgument, error.to_string());
            return to.failed(Identity::default(), &error).await;
        }
    };
    for node in nodes(&request.filter, &switchboard) {
        let answer = switchboard.logs().expect(node.clone());
        let query = LogQuery {
            correlation_id: answer.id().to_owned(),
            from: request.filter.from.and_then(at),
            till: request.filter.till.and_then(at),
        };
        let asked = match request.log_type {
            LogType::SystemLog => controller.system_log(&node, query).await,
            LogType::InstanceLog => controller.instance_log(&node, filter.clone(), query).await,
            LogType::CrashLog => {
                controller
                    .instance_crash_log(&node, filter.clone(), query)
                    .await
            }
        };
        match asked {
            Ok(()) => to.parts(&node, answer).await,
            Err(error) => {
                let error = AosError::new(AosCode::Failed, ErrorChain(&error).to_string());
                to.failed(convert::node(&node), &error).await;
            }
        }
    }
}

/// Those that are named, else all that are connected.
fn nodes(filter: &LogFilter, switchboard: &Switchboard) -> Vec<NodeId> {
    let named = filter.node_ids.iter().filter_map(Identity::name);
    let named: Vec<NodeId> = named.filter_map(|it| it.parse().ok()).collect();
    if !filter.node_ids.is_empty() {
        return named;
    }
    let connected = switchboard.nodes().connected_nodes();
    connected.into_iter().map(|(node, _)| node).collect()
}

fn instances(filter: &LogFilter) -> Result<InstanceFilter, InvalidValue> {
    let item = filter.item.as_ref().and_then(Identity::name);
    let subject = filter.subject.as_ref().and_then(Identity::name);
    InstanceFilter::new(
        item.map(ItemId::new).transpose()?,
        subject.map(SubjectId::new).transpose()?,
        filter.instance,
    )
}

fn at(time: message::Timestamp) -> Option<Timestamp> {
    SystemTime::from(time).try_into().ok()
}

/// Where the parts go.
struct To {
    link: CloudLink,
    correlation: Option<String>,
}

impl To {
    async fn parts(&self, node: &NodeId, mut answer: crate::logs::LogAnswer) {
        loop {
            let why = match tokio::time::timeout(PATIENCE, answer.next()).await {
                Ok(Some(LogNews::Part(part))) => {
                    let is_last = part.part >= part.part_count || part.status != "ok";
                    self.send(push(node, part)).await;
                    match is_last {
                        true => return,
                        false => continue,
                    }
                }
                Ok(Some(LogNews::Gone)) => "it has disconnected",
                Ok(None) => "more came than could be kept",
                Err(_) => "it does not answer",
            };
            let error = AosError::new(AosCode::Failed, format!("no log of node {node}: {why}"));
            return self.failed(convert::node(node), &error).await;
        }
    }

    async fn failed(&self, node: Identity, error: &AosError) {
        let part = PushLog {
            node,
            part: 1,
            parts_count: 1,
            content: Base64::default(),
            status: LogStatus::Error,
            error_info: Some(convert::error(error)),
        };
        self.send(part).await;
    }

    async fn send(&self, part: PushLog) {
        if let Err(error) = self.link.send(part, self.correlation.as_deref()).await {
            tracing::warn!(error = %ErrorChain(&error), "a part of a log for the cloud is lost");
        }
    }
}

fn push(node: &NodeId, part: wire::LogData) -> PushLog {
    let status = match part.status.as_str() {
        "ok" => LogStatus::Ok,
        "empty" => LogStatus::Empty,
        "absent" => LogStatus::Absent,
        _ => LogStatus::Error,
    };
    PushLog {
        node: convert::node(node),
        part: part.part,
        parts_count: part.part_count,
        content: Base64(part.data.to_vec()),
        status,
        error_info: fault_from_wire(part.error).as_ref().map(convert::error),
    }
}
