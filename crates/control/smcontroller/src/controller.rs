//! The controller as the rest of the Communication Manager uses it.

use std::sync::Arc;

use muster_api::domain::{
    ConnectionState, ConvertError, InstanceFilter, InstanceIdent, InstanceInfo, NodeConfigStatus,
    NodeId, NodeMonitoring,
};
use muster_api::servicemanager::v5 as wire;
use muster_rpc::ListenAddress;
use muster_rpc::server::{RunningServer, ServerBuilder, StartServerError};
use muster_rpc::slots::{AskError, ReplyKind};
use muster_tls::ServerTls;
use prost::Message as _;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tracing::warn;
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;
use wire::sm_service_server::SmServiceServer;

use crate::endpoint::SmEndpoint;
use crate::gate::{GATE_QUEUE, Gate, GateRequest};
use crate::interfaces::{
    CommandKind, Commanded, InstanceRunner, LogProvider, LogQuery, MonitoringProvider,
    NodeCommandError, NodeConfigs, NodeNetworks,
};
use crate::limits::Limits;
use crate::protocol::{AVERAGE_MONITORING, NODE_CONFIG_STATUS, to_node};
use crate::receivers::{BlobUrls, Receivers};
use crate::refusal::StreamRefused;
use crate::shared::Shared;
use crate::stream::NodeStream;

/// What a controller is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Whether the device can reach the cloud; every node is told.
    pub cloud: watch::Receiver<ConnectionState>,
    /// Where blobs are.
    pub blobs: Arc<dyn BlobUrls>,
    /// Who gets what nodes say.
    pub receivers: Receivers,
}

/// Commands nodes and knows which ones are connected. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SmController {
    shared: Arc<Shared>,
}

impl SmController {
    /// A controller, and the future of the task that owns the decision about second streams. Spawn it before the service is
    /// served; it ends after [`stop`](Self::stop), when every stream has left.
    pub fn new(parts: Parts, limits: Limits) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (gate, requests) = mpsc::channel(GATE_QUEUE);
        let Parts {
            cloud,
            blobs,
            receivers,
        } = parts;
        let shared = Arc::new(Shared::new(limits, cloud, blobs, receivers, gate));
        let gate = Gate::new(Arc::clone(&shared)).run(requests);
        (Self { shared }, gate)
    }

    /// The service, for a server that carries others too. [`Limits::server`] is the configuration that suits it.
    pub fn service(&self) -> SmServiceServer<SmEndpoint> {
        let limit = self.shared.limits.message_bytes;
        SmServiceServer::new(SmEndpoint::new(Arc::clone(&self.shared)))
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit)
    }

    /// A server with this service alone. Shut it down after [`stop`](Self::stop), so that nodes learn why.
    pub async fn serve(
        &self,
        listen: ListenAddress,
        tls: &ServerTls,
    ) -> Result<RunningServer, StartServerError> {
        let config = self.shared.limits.server();
        ServerBuilder::new(config, muster_api::FILE_DESCRIPTOR_SET)
            .service(self.service())
            .start(listen, tls)
            .await
    }

    /// The nodes that are connected, in no order.
    pub fn nodes(&self) -> Vec<NodeId> {
        self.shared.routes.nodes()
    }

    /// Ends every stream and takes no further one. Receivers get what has arrived, as long as they take it within
    /// [`Limits::stop`]. Afterwards no receiver is called any more.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        // A gate that has ended has no streams.
        let _ = self.shared.gate.send(GateRequest::Stop).await;
        let handlers = &self.shared.handlers;
        handlers.close();
        let grace = self.shared.limits.stop;
        if timeout(grace, handlers.wait()).await.is_err() {
            let left = handlers.len();
            warn!(
                left,
                ?grace,
                "handlers of nodes did not end in time and are dropped"
            );
            self.shared.kill.cancel();
            handlers.wait().await;
            // Handlers that were dropped took nothing out.
            self.shared.routes.clear();
        }
    }

    fn route(
        &self,
        node: &NodeId,
        command: CommandKind,
    ) -> Result<Arc<NodeStream>, NodeCommandError> {
        self.shared
            .routes
            .get(node)
            .ok_or_else(|| NodeCommandError::NotFound {
                node: node.clone(),
                command,
            })
    }

    fn check_length(
        &self,
        node: &NodeId,
        command: CommandKind,
        message: &wire::SmIncomingMessages,
    ) -> Result<(), NodeCommandError> {
        let (len, limit) = (message.encoded_len(), self.shared.limits.message_bytes);
        if len <= limit {
            return Ok(());
        }
        Err(NodeCommandError::TooLong {
            node: node.clone(),
            command,
            len,
            limit,
        })
    }

    /// A command that the wire has no answer to.
    async fn tell(
        &self,
        node: NodeId,
        kind: CommandKind,
        command: Command,
    ) -> Result<(), NodeCommandError> {
        let stream = self.route(&node, kind)?;
        let message = to_node(command);
        self.check_length(&node, kind, &message)?;
        let waited = self.shared.limits.stall;
        match timeout(waited, stream.session.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(NodeCommandError::Disconnected {
                node,
                command: kind,
            }),
            Err(_) => {
                self.shared
                    .refuse(&stream, StreamRefused::Stalled { waited });
                Err(NodeCommandError::Stalled {
                    node,
                    command: kind,
                })
            }
        }
    }

    /// A command that the node answers.
    async fn ask<T>(
        &self,
        node: NodeId,
        kind: CommandKind,
        command: Command,
        reply: ReplyKind,
        read: impl FnOnce(Said) -> Option<Result<T, ConvertError>>,
    ) -> Result<T, NodeCommandError> {
        let stream = self.route(&node, kind)?;
        let message = to_node(command);
        self.check_length(&node, kind, &message)?;
        let no_answer = |node: &NodeId, source| NodeCommandError::NoAnswer {
            node: node.clone(),
            command: kind,
            source,
        };
        let answer = stream.session.ask(message, reply).await;
        let answer = answer.map_err(|source| no_answer(&node, source))?;
        // The session matched the answer by its type, so there is always one of the right type.
        let answer = answer.sm_outgoing_message.and_then(read);
        let answer = answer.ok_or_else(|| no_answer(&node, AskError::Disconnected))?;
        answer.map_err(|source| NodeCommandError::InvalidAnswer {
            node,
            command: kind,
            source,
        })
    }

    fn ask_config(
        &self,
        node: &NodeId,
        kind: CommandKind,
        command: Command,
    ) -> Commanded<'_, NodeConfigStatus> {
        let node = node.clone();
        Box::pin(
            self.ask(node, kind, command, NODE_CONFIG_STATUS, |said| match said {
                Said::NodeConfigStatus(status) => Some(NodeConfigStatus::try_from(status)),
                _ => None,
            }),
        )
    }
}

impl NodeConfigs for SmController {
    fn node_config_status(&self, node: &NodeId) -> Commanded<'_, NodeConfigStatus> {
        let command = Command::GetNodeConfigStatus(wire::GetNodeConfigStatus {});
        self.ask_config(node, CommandKind::GetNodeConfigStatus, command)
    }

    fn check_node_config(
        &self,
        node: &NodeId,
        version: String,
        config: String,
    ) -> Commanded<'_, NodeConfigStatus> {
        let command = Command::CheckNodeConfig(wire::CheckNodeConfig {
            node_config: config,
            version,
        });
        self.ask_config(node, CommandKind::CheckNodeConfig, command)
    }

    fn set_node_config(
        &self,
        node: &NodeId,
        version: String,
        config: String,
    ) -> Commanded<'_, NodeConfigStatus> {
        let command = Command::SetNodeConfig(wire::SetNodeConfig {
            node_config: config,
            version,
        });
        self.ask_config(node, CommandKind::SetNodeConfig, command)
    }
}

impl InstanceRunner for SmController {
    fn update_instances(
        &self,
        node: &NodeId,
        start: Vec<InstanceInfo>,
        stop: Vec<InstanceIdent>,
    ) -> Commanded<'_, ()> {
        let update = wire::UpdateInstances {
            start_instances: start.into_iter().map(Into::into).collect(),
            stop_instances: stop.into_iter().map(Into::into).collect(),
        };
        let command = Command::UpdateInstances(update);
        Box::pin(self.tell(node.clone(), CommandKind::UpdateInstances, command))
    }
}

impl MonitoringProvider for SmController {
    fn average_monitoring(&self, node: &NodeId) -> Commanded<'_, NodeMonitoring> {
        let command = Command::GetAverageMonitoring(wire::GetAverageMonitoring {});
        let kind = CommandKind::GetAverageMonitoring;
        let node = node.clone();
        Box::pin(
            self.ask(node, kind, command, AVERAGE_MONITORING, |said| match said {
                Said::AverageMonitoring(average) => Some(NodeMonitoring::try_from(average)),
                _ => None,
            }),
        )
    }
}

impl NodeNetworks for SmController {
    fn update_networks(
        &self,
        node: &NodeId,
        networks: Vec<wire::UpdateNetworkParameters>,
    ) -> Commanded<'_, ()> {
        let command = Command::UpdateNetworks(wire::UpdateNetworks { networks });
        Box::pin(self.tell(node.clone(), CommandKind::UpdateNetworks, command))
    }
}

impl LogProvider for SmController {
    fn system_log(&self, node: &NodeId, query: LogQuery) -> Commanded<'_, ()> {
        let command = Command::SystemLogRequest(wire::SystemLogRequest {
            correlation_id: query.correlation_id,
            from: query.from.map(Into::into),
            till: query.till.map(Into::into),
        });
        Box::pin(self.tell(node.clone(), CommandKind::SystemLogRequest, command))
    }

    fn instance_log(
        &self,
        node: &NodeId,
        filter: InstanceFilter,
        query: LogQuery,
    ) -> Commanded<'_, ()> {
        let command = Command::InstanceLogRequest(wire::InstanceLogRequest {
            correlation_id: query.correlation_id,
            filter: Some(filter.into()),
            from: query.from.map(Into::into),
            till: query.till.map(Into::into),
        });
        Box::pin(self.tell(node.clone(), CommandKind::InstanceLogRequest, command))
    }

    fn instance_crash_log(
        &self,
        node: &NodeId,
        filter: InstanceFilter,
        query: LogQuery,
    ) -> Commanded<'_, ()> {
        let command = Command::InstanceCrashLogRequest(wire::InstanceCrashLogRequest {
            correlation_id: query.correlation_id,
            filter: Some(filter.into()),
            from: query.from.map(Into::into),
            till: query.till.map(Into::into),
        });
        Box::pin(self.tell(node.clone(), CommandKind::InstanceCrashLogRequest, command))
    }
}
