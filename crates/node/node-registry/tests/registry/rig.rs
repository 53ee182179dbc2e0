//! A Main Node and Secondary Nodes reduced to what the registry needs of them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use muster_api::common::v2::OsInfo;
use muster_api::domain::{NodeInfo, NodeState};
use muster_api::iamanager::v6 as wire;
use muster_api::iamanager::v6::iam_public_nodes_service_server::{
    IamPublicNodesService, IamPublicNodesServiceServer,
};
use muster_node_registry::{
    Answer, Command, CommandDeadlines, CommandKind, JoinConfig, JoinLink, JoinPort, JoinTargets,
    MainEnd, NodeChanges, NodeCommands, NodeRecord, PeerKind, Registry, RegistryLimits, SCHEMA,
};
use muster_rpc::link::{BackoffLimits, LinkLimits};
use muster_rpc::server::{RunningServer, ServerBuilder, ServerConfig};
use muster_rpc::session::SessionOutgoing;
use muster_rpc::{Dial, Keepalive, StreamConfig, Target};
use muster_store::{OnDamage, OpenStoreError, Store, StoreConfig};
use muster_tls::{ClientOptions, ClientTls, Insecure, ServerOptions, ServerTls, TlsConnectInfo};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tonic::{Request, Response, Status, Streaming};

pub(crate) use NodeState::{Paused, Provisioned, Unprovisioned};

pub(crate) const KEEPALIVE: Keepalive = Keepalive {
    interval: Duration::from_millis(300),
    timeout: Duration::from_millis(300),
};

/// Short times, so that tests of what happens after them are short too.
pub(crate) fn quick() -> RegistryLimits {
    RegistryLimits {
        deadlines: CommandDeadlines {
            ordinary: Duration::from_millis(500),
            provisioning: Duration::from_secs(5),
        },
        damping: Duration::from_millis(50),
        hello: Duration::from_millis(300),
        probe: Duration::from_millis(300),
        ..RegistryLimits::default()
    }
}

pub(crate) fn wire_node(id: &str, state: NodeState) -> wire::NodeInfo {
    wire::NodeInfo {
        node_id: id.into(),
        node_type: "board".into(),
        os_info: Some(OsInfo {
            os: "linux".into(),
            ..Default::default()
        }),
        state: state.to_string(),
        ..Default::default()
    }
}

pub(crate) fn node(id: &str, state: NodeState) -> NodeInfo {
    wire_node(id, state).try_into().unwrap()
}

/// Opens the database. Where tests are threads of one process, a program that another test starts has the
/// lock of a store that was just closed until it begins; that passes.
pub(crate) fn open_store(folder: &Path) -> Store {
    let config = StoreConfig::new(folder.join("iam.db"), "test", OnDamage::Refuse).schema(&SCHEMA);
    muster_lab::poll_for(
        Duration::from_secs(20),
        "the database",
        || match Store::open(&config) {
            Err(OpenStoreError::InUse { .. }) => None,
            opened => Some(opened.unwrap().store),
        },
    )
}

/// A node whose provisioning takes no time.
pub(crate) struct Device {
    pub(crate) info: watch::Sender<NodeInfo>,
    /// The next command waits until the gate is open.
    pub(crate) gate: watch::Sender<bool>,
    pub(crate) begun: watch::Sender<Vec<CommandKind>>,
}

impl Device {
    pub(crate) fn new(id: &str, state: NodeState) -> Arc<Self> {
        Arc::new(Self {
            info: watch::Sender::new(node(id, state)),
            gate: watch::Sender::new(true),
            begun: watch::Sender::default(),
        })
    }

    pub(crate) fn set_state(&self, state: NodeState) {
        self.info.send_modify(|info| info.state = state);
    }
}

impl NodeCommands for Device {
    fn carry_out(&self, command: Command) -> BoxFuture<'_, Answer> {
        async move {
            let kind = CommandKind::of(&command);
            self.begun.send_modify(|begun| begun.push(kind));
            let mut gate = self.gate.subscribe();
            gate.wait_for(|open| *open).await.unwrap();
            if let Some(state) = kind.leads_to() {
                self.set_state(state);
            }
            answer_to(&command)
        }
        .boxed()
    }
}

pub(crate) fn answer_to(command: &Command) -> Answer {
    match command {
        Command::StartProvisioningRequest(_) => {
            Answer::StartProvisioningResponse(wire::StartProvisioningResponse::default())
        }
        Command::GetCertTypesRequest(_) => Answer::CertTypesResponse(wire::CertTypes {
            types: vec!["iam".into(), "sm".into()],
        }),
        Command::FinishProvisioningRequest(_) => {
            Answer::FinishProvisioningResponse(wire::FinishProvisioningResponse::default())
        }
        Command::DeprovisionRequest(_) => {
            Answer::DeprovisionResponse(wire::DeprovisionResponse::default())
        }
        Command::PauseNodeRequest(_) => {
            Answer::PauseNodeResponse(wire::PauseNodeResponse::default())
        }
        Command::ResumeNodeRequest(_) => {
            Answer::ResumeNodeResponse(wire::ResumeNodeResponse::default())
        }
        Command::CreateKeyRequest(request) => Answer::CreateKeyResponse(wire::CreateKeyResponse {
            node_id: request.node_id.clone(),
            r#type: request.r#type.clone(),
            csr: "request".into(),
            ..Default::default()
        }),
        Command::ApplyCertRequest(request) => Answer::ApplyCertResponse(wire::ApplyCertResponse {
            node_id: request.node_id.clone(),
            ..Default::default()
        }),
    }
}

pub(crate) fn pause() -> Command {
    Command::PauseNodeRequest(wire::PauseNodeRequest::default())
}

pub(crate) fn resume() -> Command {
    Command::ResumeNodeRequest(wire::ResumeNodeRequest::default())
}

pub(crate) fn cert_types() -> Command {
    Command::GetCertTypesRequest(wire::GetCertTypesRequest::default())
}

pub(crate) fn start_provisioning() -> Command {
    Command::StartProvisioningRequest(wire::StartProvisioningRequest::default())
}

pub(crate) fn finish_provisioning() -> Command {
    Command::FinishProvisioningRequest(wire::FinishProvisioningRequest::default())
}

pub(crate) fn deprovision() -> Command {
    Command::DeprovisionRequest(wire::DeprovisionRequest::default())
}

/// A Main Node: its registry, and the folder of its database.
pub(crate) struct Main {
    pub(crate) registry: Registry,
    pub(crate) local: Arc<Device>,
    pub(crate) folder: TempDir,
}

impl Main {
    pub(crate) async fn new(limits: RegistryLimits) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), limits).await
    }

    pub(crate) async fn in_folder(folder: TempDir, limits: RegistryLimits) -> Self {
        Self::with_store(open_store(folder.path()), folder, limits).await
    }

    pub(crate) async fn with_store(store: Store, folder: TempDir, limits: RegistryLimits) -> Self {
        let local = Device::new("main", Provisioned);
        let info = local.info.subscribe();
        let registry = Registry::open(store, Arc::clone(&local) as _, info, limits).await;
        Self {
            registry: registry.unwrap(),
            local,
            folder,
        }
    }

    /// Ends the registry and starts it again from its database.
    pub(crate) async fn restart(self, limits: RegistryLimits) -> Self {
        self.registry.shutdown().await;
        let Self {
            registry, folder, ..
        } = self;
        drop(registry);
        Self::in_folder(folder, limits).await
    }

    /// Waits until a node is shown as expected.
    pub(crate) async fn sees(&self, id: &str, what: impl Fn(&NodeRecord) -> bool) -> NodeRecord {
        let changes = self.registry.subscribe();
        soon(&format!("{id} as expected"), see(changes, id, what)).await
    }

    pub(crate) async fn sees_connected(&self, id: &str) -> NodeRecord {
        self.sees(id, is_here).await
    }

    pub(crate) async fn sees_away(&self, id: &str) -> NodeRecord {
        self.sees(id, |record| !is_here(record)).await
    }

    pub(crate) async fn serve(&self, protected: bool, tls: &ServerTls) -> RunningServer {
        serve(&self.registry, "127.0.0.1:0", protected, tls).await
    }
}

pub(crate) fn is_here(record: &NodeRecord) -> bool {
    record.connection == muster_node_registry::Connection::Connected
}

async fn see(mut changes: NodeChanges, id: &str, what: impl Fn(&NodeRecord) -> bool) -> NodeRecord {
    loop {
        let record = changes.next().await.expect("the registry lives");
        if record.info.node_id.as_str() == id && what(&record) {
            return record;
        }
    }
}

/// A node's stream in memory, driven by hand.
pub(crate) struct HandNode {
    pub(crate) to_main: mpsc::Sender<Result<wire::IamOutgoingMessages, Status>>,
    pub(crate) from_main: SessionOutgoing<MainEnd>,
}

impl HandNode {
    pub(crate) fn open(registry: &Registry, peer: PeerKind) -> Self {
        Self::try_open(registry, peer).unwrap()
    }

    pub(crate) fn try_open(
        registry: &Registry,
        peer: PeerKind,
    ) -> Result<Self, muster_node_registry::JoinRefused> {
        let (to_main, mut incoming) = mpsc::channel(4);
        let inbound = stream::poll_fn(move |cx| incoming.poll_recv(cx));
        let from_main = registry.accept(inbound, peer)?;
        Ok(Self { to_main, from_main })
    }

    pub(crate) async fn join(registry: &Registry, peer: PeerKind, info: wire::NodeInfo) -> Self {
        let node = Self::open(registry, peer);
        node.describe(info).await;
        node
    }

    pub(crate) async fn describe(&self, info: wire::NodeInfo) {
        self.send(Answer::NodeInfo(info)).await;
    }

    pub(crate) async fn send(&self, answer: Answer) {
        let message = wire::IamOutgoingMessages {
            iam_outgoing_message: Some(answer),
        };
        // The stream may have been closed, which the test then sees.
        let _ = self.to_main.send(Ok(message)).await;
    }

    pub(crate) async fn command(&mut self) -> Command {
        let message = soon("a command", self.from_main.next()).await;
        let message = message.expect("the stream is open").unwrap();
        message.iam_incoming_message.expect("a command")
    }

    /// Waits for the end of the stream and gives its status.
    pub(crate) async fn end(mut self) -> Option<Status> {
        loop {
            match soon("the end of the stream", self.from_main.next()).await {
                Some(Ok(_)) => {}
                Some(Err(status)) => return Some(status),
                None => return None,
            }
        }
    }
}

pub(crate) fn certified(node: &str) -> PeerKind {
    let node = muster_tls::NodeId::new(node).unwrap();
    PeerKind::Protected { node }
}

/// The service of one port.
struct Port {
    registry: Registry,
    protected: bool,
}

#[tonic::async_trait]
impl IamPublicNodesService for Port {
    type RegisterNodeStream = SessionOutgoing<MainEnd>;
    type SubscribeNodeChangedStream = stream::Empty<Result<wire::NodeInfo, Status>>;

    async fn register_node(
        &self,
        request: Request<Streaming<wire::IamOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterNodeStream>, Status> {
        let peer = if self.protected {
            let info = request.extensions().get::<TlsConnectInfo>().unwrap();
            let identity = info.peer().identity().unwrap();
            PeerKind::Protected {
                node: identity.id.node.clone(),
            }
        } else {
            PeerKind::Public
        };
        let outgoing = self.registry.accept(request.into_inner(), peer);
        outgoing
            .map(Response::new)
            .map_err(|why| Status::from(&why))
    }

    async fn get_all_node_i_ds(&self, _: Request<()>) -> Result<Response<wire::NodesId>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn get_node_info(
        &self,
        _: Request<wire::GetNodeInfoRequest>,
    ) -> Result<Response<wire::NodeInfo>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }

    async fn subscribe_node_changed(
        &self,
        _: Request<()>,
    ) -> Result<Response<Self::SubscribeNodeChangedStream>, Status> {
        Err(Status::unimplemented("not part of this test"))
    }
}

pub(crate) async fn serve(
    registry: &Registry,
    address: &str,
    protected: bool,
    tls: &ServerTls,
) -> RunningServer {
    let config = ServerConfig {
        keepalive: KEEPALIVE,
        shutdown_grace: Duration::from_millis(200),
        ..ServerConfig::default()
    };
    let port = Port {
        registry: registry.clone(),
        protected,
    };
    ServerBuilder::new(config, muster_api::FILE_DESCRIPTOR_SET)
        .service(IamPublicNodesServiceServer::new(port))
        .start(address.parse().unwrap(), tls)
        .await
        .unwrap()
}

fn insecure() -> Insecure {
    Insecure::because("a test on loopback").unwrap()
}

pub(crate) fn plain_server() -> ServerTls {
    ServerTls::insecure(insecure(), ServerOptions::default())
}

pub(crate) fn plain_target(address: SocketAddr) -> Arc<dyn Dial> {
    let tls = ClientTls::insecure(&insecure(), ClientOptions::default());
    Arc::new(Target::new(tls, &address.to_string()).unwrap())
}

pub(crate) fn join_config() -> JoinConfig {
    let limits = LinkLimits {
        backoff: BackoffLimits {
            floor: Duration::from_millis(2),
            first: Duration::from_millis(10),
            ceiling: Duration::from_millis(30),
            healthy_after: Duration::from_millis(100),
        },
        dial_timeout: Duration::from_millis(500),
        ..LinkLimits::default()
    };
    JoinConfig {
        stream: StreamConfig {
            limits,
            keepalive: KEEPALIVE,
            linger: Duration::from_millis(200),
            ..JoinConfig::default().stream
        },
        ..JoinConfig::default()
    }
}

pub(crate) fn join(device: &Arc<Device>, targets: JoinTargets) -> JoinLink {
    let info = device.info.subscribe();
    JoinLink::start(targets, info, Arc::clone(device) as _, join_config())
}

/// Both ports are the same: for tests that are not about certificates.
pub(crate) fn join_public(device: &Arc<Device>, address: SocketAddr) -> JoinLink {
    let target = plain_target(address);
    join(
        device,
        JoinTargets {
            public: Arc::clone(&target),
            protected: target,
        },
    )
}

pub(crate) async fn joins_on(link: &JoinLink, port: JoinPort) {
    let mut status = link.status();
    let there = status.wait_for(|status| status.port == port && status.connected);
    soon(&format!("a stream on the {port} port"), there)
        .await
        .unwrap();
}

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let patience = Duration::from_secs(20);
    match tokio::time::timeout(patience, future).await {
        Ok(done) => done,
        Err(_) => panic!("not within {patience:?}: {what}"),
    }
}
