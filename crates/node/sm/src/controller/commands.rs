//! What the controller asks for: orders are passed on, questions are answered at once.

use std::sync::Arc;

use muster_api::domain::{AosCode, AosError, ConnectionState, InstanceIdent, InstanceInfo};
use muster_api::servicemanager::v5 as wire;
use muster_launcher::{DesiredSet, Reach, Refused};
use muster_rpc::link::Epoch;
use muster_rpc::{LinkStatus, Received, StreamHandle, StreamIncoming};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use wire::sm_incoming_messages::SmIncomingMessage as In;

use super::Services;
use super::orders::{Order, Orders};
use super::protocol::{self, SmProtocol};
use crate::seams::LogRequest;

/// Requests for logs that are worked on at a time; more wait.
const LOG_REQUESTS: usize = 4;
/// Requests for logs that wait; more are refused.
const LOG_QUEUE: usize = 64;
/// Parts of a log that wait for the stream.
const LOG_PARTS: usize = 2;

pub(super) struct Commands {
    services: Services,
    stream: StreamHandle<SmProtocol>,
    orders: Orders,
    /// Read by whoever asks.
    cloud: watch::Sender<ConnectionState>,
    /// The stream that said last how the cloud is.
    cloud_of: Option<Epoch>,
    /// What the launcher was last told.
    reach: Reach,
    log_turns: Arc<Semaphore>,
    /// End with the stream that asked for them.
    logs: JoinSet<()>,
    logs_of: Option<Epoch>,
}

/// Whom the node reaches, by its stream and what the controller said of its cloud.
fn reach(connected: bool, cloud: ConnectionState) -> Reach {
    match (connected, cloud) {
        (false, _) => Reach::Nobody,
        (true, ConnectionState::Connected) => Reach::Cloud,
        (true, ConnectionState::Disconnected) => Reach::Controller,
    }
}

/// Each instance stands for itself: one that makes no sense is reported, the others run. One that does not even say which it is
/// may be any that runs, so none is stopped for not being named.
fn desired(update: wire::UpdateInstances) -> DesiredSet {
    let mut instances = Vec::with_capacity(update.start_instances.len());
    let (mut refused, mut nameless) = (Vec::new(), 0_usize);
    for instance in update.start_instances {
        let (ident, version) = (instance.instance.clone(), instance.version.clone());
        match InstanceInfo::try_from(instance) {
            Ok(info) => instances.push(info),
            Err(error) => {
                tracing::error!(%error, "the controller wants an instance that cannot be");
                let ident = ident.and_then(|ident| InstanceIdent::try_from(ident).ok());
                match ident {
                    Some(instance) => refused.push(Refused {
                        instance,
                        version,
                        fault: AosError::new(AosCode::InvalidArgument, error.to_string()),
                    }),
                    None => nameless += 1,
                }
            }
        }
    }
    tracing::info!(
        wanted = instances.len(),
        refused = refused.len(),
        nameless,
        "new set of instances"
    );
    DesiredSet {
        instances,
        refused,
        names_more: nameless > 0,
    }
}

impl Commands {
    pub(super) fn new(services: Services, stream: StreamHandle<SmProtocol>) -> Self {
        let networks = Arc::clone(&services.networks);
        Self {
            orders: Orders::start(services.launcher.clone(), networks),
            services,
            stream,
            cloud: watch::Sender::new(ConnectionState::Disconnected),
            cloud_of: None,
            reach: Reach::Nobody,
            log_turns: Arc::new(Semaphore::new(LOG_REQUESTS)),
            logs: JoinSet::new(),
            logs_of: None,
        }
    }

    /// Whether the device reaches the cloud, from now on.
    pub(super) fn cloud(&self) -> watch::Receiver<ConnectionState> {
        self.cloud.subscribe()
    }

    pub(super) async fn run(mut self, mut incoming: StreamIncoming<SmProtocol>) {
        let mut link = self.stream.status();
        loop {
            tokio::select! {
                received = incoming.recv() => match received {
                    Some(received) => self.carry_out(received).await,
                    None => return,
                },
                changed = link.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    if *link.borrow_and_update() != LinkStatus::Connected {
                        self.logs.abort_all();
                        self.cloud_is(ConnectionState::Disconnected);
                    }
                    self.tell_reach().await;
                }
                Some(_) = self.logs.join_next() => {}
            }
        }
    }

    fn cloud_is(&mut self, state: ConnectionState) {
        if self.cloud.send_replace(state) != state {
            let connected = state == ConnectionState::Connected;
            tracing::info!(connected, "the connection to the cloud changed");
        }
    }

    /// The launcher hears whom the node reaches from here alone, and nothing but news.
    async fn tell_reach(&mut self) {
        let connected = *self.stream.status().borrow() == LinkStatus::Connected;
        let reach = reach(connected, *self.cloud.borrow());
        if reach != self.reach {
            self.reach = reach;
            // The launcher ends with the daemon, and the link with it.
            let _ = self.services.launcher.reaches(reach).await;
        }
    }

    async fn hear_of_cloud(&mut self, stream: Epoch, status: wire::ConnectionStatus) {
        match ConnectionState::try_from(status.cloud_status) {
            Ok(state) => {
                self.cloud_of = Some(stream);
                self.cloud_is(state);
            }
            Err(error) => tracing::warn!(%error, "the controller sent no connection state"),
        }
        self.tell_reach().await;
    }

    async fn carry_out(&mut self, received: Received<wire::SmIncomingMessages>) {
        let stream = received.stream;
        if self.cloud_of.is_some_and(|of| of != stream) {
            // Streams may change faster than their changes are seen: what the last one said is over.
            self.cloud_of = None;
            self.cloud_is(ConnectionState::Disconnected);
        }
        let Some(command) = received.message.sm_incoming_message else {
            tracing::warn!("the controller sent a command that this version does not know");
            return;
        };
        match command {
            In::UpdateInstances(update) => self.orders.give(Order::Set(desired(update))),
            In::ConnectionStatus(status) => self.hear_of_cloud(stream, status).await,
            In::UpdateNetworks(networks) => self.orders.give(Order::Networks(networks)),
            In::GetNodeConfigStatus(_) => {
                let status = self.services.node_config.status().await;
                self.reply(stream, protocol::node_config(status)).await;
            }
            In::CheckNodeConfig(it) => {
                let status = self.services.node_config.check(it.version, it.node_config);
                self.reply(stream, protocol::node_config(status.await))
                    .await;
            }
            In::SetNodeConfig(it) => {
                let status = self.services.node_config.set(it.version, it.node_config);
                self.reply(stream, protocol::node_config(status.await))
                    .await;
            }
            In::GetAverageMonitoring(_) => {
                let average = self.services.monitoring.average().await;
                self.reply(stream, protocol::average(average)).await;
            }
            In::SystemLogRequest(it) => self.collect(stream, LogRequest::System(it)).await,
            In::InstanceLogRequest(it) => self.collect(stream, LogRequest::Instance(it)).await,
            In::InstanceCrashLogRequest(it) => self.collect(stream, LogRequest::Crash(it)).await,
        }
    }

    async fn reply(&self, stream: Epoch, message: wire::SmOutgoingMessages) {
        if let Err(error) = self.stream.reply(stream, &message).await {
            tracing::warn!(%error, "cannot answer the controller");
        }
    }

    async fn collect(&mut self, stream: Epoch, request: LogRequest) {
        if self.logs_of != Some(stream) {
            self.logs.abort_all();
            self.logs_of = Some(stream);
        }
        if self.logs.len() >= LOG_QUEUE {
            let busy = AosError::new(AosCode::Failed, "too many requests for logs wait already");
            let part = wire::LogData {
                correlation_id: request.correlation_id().to_owned(),
                part_count: 1,
                part: 1,
                status: "error".into(),
                error: Some(busy.into()),
                ..wire::LogData::default()
            };
            self.reply(stream, protocol::log(part)).await;
            return;
        }
        let (logs, turns) = (Arc::clone(&self.services.logs), Arc::clone(&self.log_turns));
        let handle = self.stream.clone();
        self.logs.spawn(async move {
            // The semaphore is never closed.
            let _turn = turns.acquire_owned().await;
            let (parts_in, mut parts) = mpsc::channel(LOG_PARTS);
            let pass_on = async {
                while let Some(part) = parts.recv().await {
                    if handle.reply(stream, &protocol::log(part)).await.is_err() {
                        return;
                    }
                }
            };
            tokio::join!(logs.collect(request, parts_in), pass_on);
        });
    }
}
