//! What a node says, one message after the other, to whom it concerns.

use std::fmt::Display;
use std::net::SocketAddr;

use muster_api::domain::{Alert, InstanceStatus, NodeId, NodeMonitoring, SmInfo};
use muster_api::servicemanager::v5 as wire;
use prost::Message as _;
use tokio::time::sleep;
use tracing::{debug, warn};
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::bucket::Bucket;
use crate::protocol::name_of;
use crate::receivers::Incident;
use crate::refusal::StreamRefused;
use crate::shared::Shared;

/// What is longer counts as several messages: reading it takes as long.
const COUNTS_ONCE: usize = 4096;

/// The messages of one admitted stream.
pub(super) struct Dispatch<'a> {
    shared: &'a Shared,
    node: &'a NodeId,
    address: SocketAddr,
    messages: Bucket,
    nonsense: Bucket,
    slowed: bool,
    /// Messages that nobody waits for; told about when their number doubles.
    unasked: u64,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(shared: &'a Shared, node: &'a NodeId, address: SocketAddr) -> Self {
        let now = shared.now();
        Self {
            shared,
            node,
            address,
            messages: Bucket::new(shared.limits.messages, now),
            nonsense: Bucket::new(shared.limits.nonsense, now),
            slowed: false,
            unasked: 0,
        }
    }

    /// Hands a message to its receiver. What is wrong with a message concerns the message; what is wrong with too many of them,
    /// the stream.
    pub(super) async fn take(
        &mut self,
        message: wire::SmOutgoingMessages,
    ) -> Result<(), StreamRefused> {
        self.keep_pace(message.encoded_len()).await;
        let receivers = &self.shared.receivers;
        match message.sm_outgoing_message {
            Some(Said::UpdateInstancesStatus(it)) => {
                let instances = self.instances(it.instances)?;
                receivers.instances.changed(self.node, instances).await;
            }
            Some(Said::NodeInstancesStatus(it)) => {
                let instances = self.instances(it.instances)?;
                receivers.instances.all(self.node, instances).await;
            }
            Some(Said::InstantMonitoring(it)) => match NodeMonitoring::try_from(it) {
                Ok(it) => receivers.monitoring.instant(self.node, it).await,
                Err(problem) => self.nonsense(&problem)?,
            },
            Some(Said::Alert(it)) => match Alert::try_from(it) {
                Ok(it) => receivers.alerts.alert(self.node, it).await,
                Err(problem) => self.nonsense(&problem)?,
            },
            Some(Said::Log(part)) => receivers.logs.part(self.node, part).await,
            Some(Said::SmInfo(info)) => self.info(info).await?,
            unasked @ (Some(Said::NodeConfigStatus(_) | Said::AverageMonitoring(_)) | None) => {
                self.drop_unasked(name_of(unasked.as_ref()));
            }
        }
        Ok(())
    }

    /// Holds a node back that sends more than it may. Meanwhile its queue fills, and then its stream does.
    async fn keep_pace(&mut self, len: usize) {
        let count = u32::try_from(1 + len / COUNTS_ONCE).unwrap_or(u32::MAX);
        while let Err(wait) = self.messages.take(count, self.shared.now()) {
            if !std::mem::replace(&mut self.slowed, true) {
                warn!(node = %self.node, address = %self.address, "a node sends more than is taken and is slowed down");
                self.shared.receivers.nodes.incident(Incident::Slowed {
                    node: self.node.clone(),
                    address: self.address,
                });
            }
            sleep(wait).await;
        }
    }

    /// Each instance stands for itself: one that makes no sense is left out, the others are passed on.
    fn instances(
        &mut self,
        instances: Vec<wire::InstanceStatus>,
    ) -> Result<Vec<InstanceStatus>, StreamRefused> {
        let mut good = Vec::with_capacity(instances.len());
        for instance in instances {
            match InstanceStatus::try_from(instance) {
                Ok(instance) => good.push(instance),
                Err(problem) => self.nonsense(&problem)?,
            }
        }
        Ok(good)
    }

    /// A node may say anew what it has, but not become another.
    async fn info(&mut self, info: wire::SmInfo) -> Result<(), StreamRefused> {
        match SmInfo::try_from(info) {
            Ok(info) if info.node_id == *self.node => {
                self.shared.receivers.nodes.connected(info).await;
                Ok(())
            }
            Ok(info) => Err(StreamRefused::OtherNode {
                node: self.node.clone(),
                claimed: info.node_id,
            }),
            Err(problem) => self.nonsense(&problem),
        }
    }

    fn nonsense(&mut self, problem: &dyn Display) -> Result<(), StreamRefused> {
        if self.nonsense.take(1, self.shared.now()).is_ok() {
            warn!(node = %self.node, %problem, "threw something away that a node said and that makes no sense");
            return Ok(());
        }
        Err(StreamRefused::Nonsense {
            problem: problem.to_string(),
        })
    }

    fn drop_unasked(&mut self, message: &'static str) {
        self.unasked += 1;
        if self.unasked.is_power_of_two() {
            let count = self.unasked;
            warn!(node = %self.node, message, count, "threw a message away that nobody waits for");
        } else {
            debug!(node = %self.node, message, "threw a message away that nobody waits for");
        }
    }
}
