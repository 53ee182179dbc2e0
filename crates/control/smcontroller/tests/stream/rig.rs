//! A controller behind mutual TLS, receivers that write down what they get, and nodes that say what a test wants.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use muster_api::domain::{
    Alert, AlertKind, ConnectionState, Digest, InstanceStatus, NodeId, NodeMonitoring, SmInfo,
};
use muster_api::servicemanager::v5 as wire;
use muster_lab::pki::{CertSpec, Pki};
use muster_rpc::server::RunningServer;
use muster_rpc::{ChannelConfig, Target, channel};
use muster_smcontroller::{
    AlertReceiver, BlobUrls, Incident, InstanceStatusReceiver, Limits, LogReceiver,
    MonitoringReceiver, NodeReceiver, Parts, Receivers, ResolveBlobError, SmController,
    StreamRefused, Taken,
};
use muster_tls::{
    CertField, CertMaterial, CertSource, CertStore, ClientOptions, ClientTls, Condition,
    ExpectedServer, FileCertSource, IdentityPolicy, Insecure, LoadCertError, MappedIdentity,
    MappingRule, Pattern, Role, ServerName, ServerOptions, ServerTls, Take,
};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;
use wire::sm_service_client::SmServiceClient;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(20);
/// What receivers got and a test has not looked at.
const EVENTS: usize = 64 * 1024;
const SYSTEM: &str = "system-1";

/// Limits at which a test does not take long.
pub(crate) fn quick() -> Limits {
    Limits {
        hello: Duration::from_secs(1),
        reply: Duration::from_secs(1),
        late_reply: Duration::from_secs(10),
        ping: Duration::from_millis(500),
        stall: Duration::from_millis(400),
        stop: Duration::from_millis(500),
        quarantine_first: Duration::from_millis(300),
        ..Limits::default()
    }
}

pub(crate) fn id(node: &str) -> NodeId {
    node.parse().unwrap()
}

/// What a receiver got.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Connected(String),
    /// Which receiver was told.
    Disconnected(String, &'static str),
    /// Item and state of each instance.
    Changed(String, Vec<String>),
    All(String, Vec<String>),
    Monitoring(String, u64),
    Alert(String, String),
    Log(String, u64),
    Incident(Incident),
    /// Something of the node has arrived and is not taken yet.
    Held(String),
}

impl Event {
    /// The node, and which one of several it was said to.
    pub(crate) fn gone(node: &str) -> Self {
        Self::Disconnected(node.to_owned(), "nodes")
    }
}

/// All receivers in one. Messages of `held` nodes are not taken until they are let go.
#[derive(Debug)]
struct Recorder {
    events: mpsc::Sender<Event>,
    held: watch::Receiver<Vec<String>>,
}

impl Recorder {
    fn put(&self, event: Event) {
        // Nobody reads any more when a test is over.
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            panic!("a test that does not read: {event:?}");
        }
    }

    fn note(&self, event: Event) -> Taken<'_> {
        self.put(event);
        Box::pin(async {})
    }

    fn take(&self, node: &NodeId, event: Event) -> Taken<'_> {
        let (node, mut held) = (node.to_string(), self.held.clone());
        if held.borrow().contains(&node) {
            self.put(Event::Held(node.clone()));
        }
        Box::pin(async move {
            let _ = held.wait_for(|held| !held.contains(&node)).await;
            self.put(event);
        })
    }
}

fn shown(instances: &[InstanceStatus]) -> Vec<String> {
    let show = |it: &InstanceStatus| {
        let env = it.env_vars.iter().map(|it| format!(" {:?}", it.name));
        format!(
            "{} {:?}{}",
            it.instance.item_id,
            it.state,
            env.collect::<String>()
        )
    };
    instances.iter().map(show).collect()
}

impl NodeReceiver for Recorder {
    fn connected(&self, info: SmInfo) -> Taken<'_> {
        self.note(Event::Connected(info.node_id.to_string()))
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        self.note(Event::Disconnected(node.to_string(), "nodes"))
    }

    fn incident(&self, incident: Incident) {
        self.put(Event::Incident(incident));
    }
}

impl InstanceStatusReceiver for Recorder {
    fn changed(&self, node: &NodeId, instances: Vec<InstanceStatus>) -> Taken<'_> {
        self.take(node, Event::Changed(node.to_string(), shown(&instances)))
    }

    fn all(&self, node: &NodeId, instances: Vec<InstanceStatus>) -> Taken<'_> {
        self.take(node, Event::All(node.to_string(), shown(&instances)))
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        self.note(Event::Disconnected(node.to_string(), "instances"))
    }
}

impl MonitoringReceiver for Recorder {
    fn instant(&self, node: &NodeId, monitoring: NodeMonitoring) -> Taken<'_> {
        self.take(
            node,
            Event::Monitoring(node.to_string(), monitoring.node.ram),
        )
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        self.note(Event::Disconnected(node.to_string(), "monitoring"))
    }
}

impl AlertReceiver for Recorder {
    fn alert(&self, node: &NodeId, alert: Alert) -> Taken<'_> {
        let text = match alert.kind {
            AlertKind::System { message } => message,
            other => format!("{other:?}"),
        };
        self.take(node, Event::Alert(node.to_string(), text))
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        self.note(Event::Disconnected(node.to_string(), "alerts"))
    }
}

impl LogReceiver for Recorder {
    fn part(&self, node: &NodeId, part: wire::LogData) -> Taken<'_> {
        self.take(node, Event::Log(node.to_string(), part.part))
    }

    fn disconnected(&self, node: &NodeId) -> Taken<'_> {
        self.note(Event::Disconnected(node.to_string(), "logs"))
    }
}

/// Blobs whose digest begins with a digit are at a place that repeats the digest; the others are unknown.
#[derive(Debug)]
struct Digits;

impl BlobUrls for Digits {
    fn url(
        &self,
        _: Option<&NodeId>,
        digest: Digest,
    ) -> BoxFuture<'_, Result<String, ResolveBlobError>> {
        let known = digest
            .to_hex()
            .starts_with(|first: char| first.is_ascii_digit());
        let found = match known {
            true => Ok(format!("https://files/{digest}")),
            false => Err(ResolveBlobError::Unknown { digest }),
        };
        Box::pin(async { found })
    }
}

/// Certificates that are read once: no watch on the folder for each of many clients.
#[derive(Debug)]
struct Unwatched(FileCertSource);

impl CertSource for Unwatched {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        self.0.load()
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn rescans(&self) -> bool {
        false
    }
}

/// How the port is protected.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Port {
    Mutual,
    Insecure,
}

/// A controller that serves, and what its receivers got.
pub(crate) struct Site {
    pub(crate) controller: SmController,
    pub(crate) server: RunningServer,
    pub(crate) cloud: watch::Sender<ConnectionState>,
    pub(crate) pki: Pki,
    pub(crate) folder: TempDir,
    pub(crate) gate: tokio::task::JoinHandle<()>,
    hold: watch::Sender<Vec<String>>,
    events: mpsc::Receiver<Event>,
    port: Port,
}

fn why() -> Insecure {
    Insecure::because("a test of a port without certificates").unwrap()
}

/// The organization of a foreign authority's service managers.
pub(crate) const FOREIGN: &str = "service managers of somebody else";

/// Certificates without a SPIFFE id: the common name is the node.
fn foreign_managers() -> MappingRule {
    let condition = Condition {
        field: CertField::SubjectO,
        pattern: Pattern::Exact(FOREIGN.to_owned()),
    };
    let identity = MappedIdentity {
        system: Take::Fixed(SYSTEM.parse().unwrap()),
        node: Take::From(CertField::SubjectCn),
        role: Role::Sm,
    };
    MappingRule::new(condition, identity)
}

/// The certificate and key files of a stem in the folder, beside the authority's.
pub(crate) fn issue(pki: &Pki, folder: &Path, stem: &str, spec: &CertSpec) -> FileCertSource {
    let files = pki.issue(spec).unwrap().write_to(folder, stem).unwrap();
    FileCertSource::mutual(files.cert, files.key, folder.join("ca.pem"))
}

impl Site {
    pub(crate) async fn new(limits: Limits) -> Self {
        Self::on(Port::Mutual, limits).await
    }

    pub(crate) async fn on(port: Port, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new(SYSTEM).unwrap();
        pki.write_ca(folder.path(), "ca").unwrap();
        let own = CertSpec::node("main", "cm").localhost();
        let own = issue(&pki, folder.path(), "cm", &own);
        let tls = match port {
            Port::Mutual => {
                let store = CertStore::open(own).await.unwrap();
                let policy = IdentityPolicy::spiffe_only().with_rules([foreign_managers()]);
                ServerTls::mutual(&store, policy, ServerOptions::default()).unwrap()
            }
            Port::Insecure => ServerTls::insecure(why(), ServerOptions::default()),
        };
        let (cloud, cloud_state) = watch::channel(ConnectionState::Disconnected);
        let (events_in, events) = mpsc::channel(EVENTS);
        let (hold, held) = watch::channel(Vec::new());
        let recorder = Arc::new(Recorder {
            events: events_in,
            held,
        });
        let parts = Parts {
            cloud: cloud_state,
            blobs: Arc::new(Digits),
            receivers: Receivers {
                nodes: Arc::clone(&recorder) as _,
                instances: Arc::clone(&recorder) as _,
                monitoring: Arc::clone(&recorder) as _,
                alerts: Arc::clone(&recorder) as _,
                logs: recorder,
            },
        };
        let (controller, gate) = SmController::new(parts, limits);
        let gate = tokio::spawn(gate);
        let server = controller.serve("127.0.0.1:0".parse().unwrap(), &tls);
        let server = server.await.unwrap();
        Self {
            controller,
            server,
            cloud,
            pki,
            folder,
            gate,
            hold,
            events,
            port,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A client with the certificate of a node's manager, at an address that may be a proxy's.
    pub(crate) async fn client_tls(&self, node: &str, role: &str) -> ClientTls {
        self.client_tls_as(&CertSpec::node(node, role), &format!("{node}-{role}"))
            .await
    }

    /// A client with such a certificate, under this name in the folder.
    pub(crate) async fn client_tls_as(&self, spec: &CertSpec, stem: &str) -> ClientTls {
        if self.port == Port::Insecure {
            return ClientTls::insecure(&why(), ClientOptions::default());
        }
        let source = issue(&self.pki, self.folder.path(), stem, spec);
        let store = CertStore::open(Unwatched(source)).await.unwrap();
        let server = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
        ClientTls::mutual(&store, server, ClientOptions::default()).unwrap()
    }

    /// A client that trusts only the authority of a file in the folder.
    pub(crate) async fn client_tls_trusting(&self, node: &str, ca: &str) -> ClientTls {
        let issued = self.pki.issue(&CertSpec::node(node, "sm")).unwrap();
        let files = issued.write_to(self.folder.path(), node).unwrap();
        let ca = self.folder.path().join(ca);
        let source = Unwatched(FileCertSource::mutual(files.cert, files.key, ca));
        let store = CertStore::open(source).await.unwrap();
        let server = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
        ClientTls::mutual(&store, server, ClientOptions::default()).unwrap()
    }

    /// A connection of its own.
    pub(crate) async fn channel(&self, node: &str, role: &str) -> Channel {
        let tls = self.client_tls(node, role).await;
        let target = Target::new(tls, &self.address().to_string()).unwrap();
        channel(&target, ChannelConfig::default())
    }

    /// A stream with the node's certificate on which nothing was said.
    pub(crate) async fn open(&self, node: &str) -> Node {
        Node::open(self.channel(node, "sm").await).await.unwrap()
    }

    /// A node that is connected.
    pub(crate) async fn node(&mut self, node: &str) -> Node {
        let stream = self.open(node).await;
        stream.say(info(node)).await;
        self.wait_for(&Event::Connected(node.to_owned())).await;
        stream
    }

    /// A stream of a node that may be kept out for a while.
    pub(crate) async fn open_when_let_in(&self, node: &str) -> Node {
        let began = Instant::now();
        loop {
            match Node::open(self.channel(node, "sm").await).await {
                Ok(node) => return node,
                Err(status) if status.code() == Code::ResourceExhausted => {}
                Err(status) => panic!("{status}"),
            }
            assert!(began.elapsed() < TIME, "it is kept out for ever");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The same, connected.
    pub(crate) async fn node_when_let_in(&mut self, node: &str) -> Node {
        let stream = self.open_when_let_in(node).await;
        stream.say(info(node)).await;
        self.wait_for(&Event::Connected(node.to_owned())).await;
        stream
    }

    /// The next thing that a receiver got.
    pub(crate) async fn event(&mut self) -> Event {
        let event = timeout(TIME, self.events.recv()).await;
        event.expect("an event in time").expect("receivers live")
    }

    /// What receivers got up to this, which is the last of it.
    pub(crate) async fn wait_for(&mut self, wanted: &Event) -> Vec<Event> {
        let mut seen = Vec::new();
        loop {
            let event = self.event().await;
            let found = event == *wanted;
            seen.push(event);
            if found {
                return seen;
            }
        }
    }

    /// What was reported next.
    pub(crate) async fn incident(&mut self) -> Incident {
        loop {
            if let Event::Incident(incident) = self.event().await {
                return incident;
            }
        }
    }

    /// Why a stream was refused that is reported next.
    pub(crate) async fn refusal(&mut self) -> StreamRefused {
        loop {
            if let Incident::Refused { why, .. } = self.incident().await {
                return why;
            }
        }
    }

    /// Receivers take no message of these until the next call.
    pub(crate) fn hold(&self, nodes: &[&str]) {
        self.hold
            .send_replace(nodes.iter().map(|it| (*it).to_owned()).collect());
    }

    pub(crate) async fn end(self) {
        timeout(TIME, async {
            self.controller.stop().await;
            self.server.shutdown().await;
            self.gate.await.unwrap();
        })
        .await
        .expect("the controller ends");
    }
}

pub(crate) fn message(said: Said) -> wire::SmOutgoingMessages {
    wire::SmOutgoingMessages {
        sm_outgoing_message: Some(said),
    }
}

pub(crate) fn info(node: &str) -> Said {
    Said::SmInfo(wire::SmInfo {
        node_id: node.to_owned(),
        ..Default::default()
    })
}

pub(crate) fn instance(item: &str, state: &str) -> wire::InstanceStatus {
    wire::InstanceStatus {
        instance: Some(muster_api::common::v2::InstanceIdent {
            item_id: item.to_owned(),
            subject_id: "subject".to_owned(),
            ..Default::default()
        }),
        version: "1.0.0".to_owned(),
        state: state.to_owned(),
        error: Some(Default::default()),
        ..Default::default()
    }
}

pub(crate) fn alert(text: &str) -> Said {
    let item = wire::alert::AlertItem::SystemAlert(wire::SystemAlert {
        message: text.to_owned(),
    });
    Said::Alert(wire::Alert {
        timestamp: Some(Default::default()),
        alert_item: Some(item),
    })
}

pub(crate) fn monitoring_data(ram: u64) -> wire::MonitoringData {
    wire::MonitoringData {
        timestamp: Some(Default::default()),
        ram,
        ..Default::default()
    }
}

pub(crate) fn monitoring(ram: u64) -> Said {
    Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(monitoring_data(ram)),
        instances_monitoring: Vec::new(),
    })
}

pub(crate) fn config_status(version: &str) -> Said {
    Said::NodeConfigStatus(wire::NodeConfigStatus {
        state: "installed".to_owned(),
        version: version.to_owned(),
        error: Some(Default::default()),
    })
}

pub(crate) fn average(ram: u64) -> Said {
    Said::AverageMonitoring(wire::AverageMonitoring {
        node_monitoring: Some(monitoring_data(ram)),
        instances_monitoring: Vec::new(),
    })
}

/// One stream, from the node's side.
pub(crate) struct Node {
    outgoing: mpsc::Sender<wire::SmOutgoingMessages>,
    incoming: Streaming<wire::SmIncomingMessages>,
}

impl Node {
    pub(crate) async fn open(channel: Channel) -> Result<Self, Status> {
        let (outgoing, messages) = mpsc::channel(4);
        let mut client = SmServiceClient::new(channel).max_decoding_message_size(16 << 20);
        let call = client.register_sm(ReceiverStream::new(messages));
        let incoming = timeout(TIME, call).await.expect("headers")?.into_inner();
        Ok(Self { outgoing, incoming })
    }

    pub(crate) async fn say(&self, said: Said) {
        let sent = self.outgoing.send(message(said)).await;
        sent.expect("the stream lives");
    }

    /// The same for a node that may have been cut off.
    pub(crate) async fn try_say(&self, said: Said) -> bool {
        self.outgoing.send(message(said)).await.is_ok()
    }

    /// The next command, or how the stream ended.
    pub(crate) async fn next(&mut self) -> Result<Command, Status> {
        let next = timeout(TIME, self.incoming.message()).await;
        let message = next.expect("something in time")?;
        let message = message.ok_or_else(|| Status::ok("the stream ended"))?;
        Ok(message.sm_incoming_message.expect("one of the known"))
    }

    /// The next command that is not the state of the cloud.
    pub(crate) async fn command(&mut self) -> Command {
        loop {
            match self.next().await.expect("a command") {
                Command::ConnectionStatus(_) => {}
                command => return command,
            }
        }
    }

    /// How the stream ends; what comes before is thrown away.
    pub(crate) async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }

    /// Says no more, and waits for the controller's end of it; what was said before arrives.
    pub(crate) async fn finish(self) {
        let Self {
            outgoing,
            mut incoming,
        } = self;
        drop(outgoing);
        let end = async { while let Ok(Some(_)) = incoming.message().await {} };
        timeout(TIME, end).await.expect("an end");
    }

    pub(crate) async fn cloud_state(&mut self) -> ConnectionState {
        match self.next().await.expect("a message") {
            Command::ConnectionStatus(it) => ConnectionState::try_from(it.cloud_status).unwrap(),
            other => panic!("not the state of the cloud: {other:?}"),
        }
    }

    /// The node answers whatever it is asked from now on, as `version`, until its stream ends.
    pub(crate) fn answer_all(mut self, version: &'static str) -> tokio::task::JoinHandle<Status> {
        tokio::spawn(async move {
            loop {
                let answer = match self.next_for_ever().await {
                    Ok(Command::GetNodeConfigStatus(_)) => config_status(version),
                    Ok(Command::CheckNodeConfig(it)) => config_status(&it.version),
                    Ok(Command::SetNodeConfig(it)) => config_status(&it.version),
                    Ok(Command::GetAverageMonitoring(_)) => average(7),
                    Ok(_) => continue,
                    Err(status) => return status,
                };
                self.try_say(answer).await;
            }
        })
    }

    async fn next_for_ever(&mut self) -> Result<Command, Status> {
        let message = self.incoming.message().await?;
        let message = message.ok_or_else(|| Status::ok("the stream ended"))?;
        Ok(message.sm_incoming_message.expect("one of the known"))
    }
}
