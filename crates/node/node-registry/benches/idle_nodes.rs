//! Memory of a Main Node per idle node, each joined over mutual TLS, and how long joining takes.
//!
//! `cargo bench -p muster-node-registry`. The Main Node is a process of its own, so that its memory and
//! processor time are its alone.
#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the measurement, which is the report"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use muster_api::common::v2::{ArchInfo, OsInfo};
use muster_api::iamanager::v6 as wire;
use muster_api::iamanager::v6::iam_public_nodes_service_server::{
    IamPublicNodesService, IamPublicNodesServiceServer,
};
use muster_lab::pki::{CertSpec, Pki};
use muster_node_registry::{
    Answer, Command as NodeCommand, Connection, JoinConfig, JoinLink, JoinTargets, MainEnd,
    NodeCommands, PeerKind, Registry, RegistryLimits, SCHEMA,
};
use muster_rpc::Target;
use muster_rpc::server::{ServerBuilder, ServerConfig};
use muster_rpc::session::SessionOutgoing;
use muster_store::{OnDamage, Store, StoreConfig};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, IdentityPolicy, Role,
    ServerName, ServerOptions, ServerTls,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

const FOLDER: &str = "MUSTER_REGISTRY_BENCH_FOLDER";
const NODES: u32 = 1_000;
/// The limit that the project has set itself, in KiB.
const LIMIT: u64 = 48;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var_os(FOLDER) {
        Some(folder) => runtime.block_on(serve(Path::new(&folder))),
        None => runtime.block_on(measure()),
    }
}

struct NoCommands;

impl NodeCommands for NoCommands {
    fn carry_out(&self, _: NodeCommand) -> BoxFuture<'_, Answer> {
        async { Answer::CertTypesResponse(wire::CertTypes::default()) }.boxed()
    }
}

/// A description of usual length.
fn node(id: &str) -> wire::NodeInfo {
    let partition = |name: &str| wire::PartitionInfo {
        name: name.into(),
        types: vec!["services".into(), "layers".into()],
        total_size: 1 << 33,
        path: format!("/var/aos/{name}"),
    };
    wire::NodeInfo {
        node_id: id.into(),
        node_type: "main-board".into(),
        title: "a node of this benchmark".into(),
        max_dmips: 20_000,
        total_ram: 1 << 33,
        os_info: Some(OsInfo {
            os: "linux".into(),
            version: "6.1".into(),
            ..Default::default()
        }),
        cpus: vec![wire::CpuInfo {
            model_name: "Cortex-A57".into(),
            num_cores: 4,
            num_threads: 4,
            arch_info: Some(ArchInfo {
                architecture: "arm64".into(),
                ..Default::default()
            }),
            ..Default::default()
        }],
        partitions: ["services", "layers", "states", "storages"]
            .map(partition)
            .into(),
        attrs: vec![wire::NodeAttribute {
            name: "NodeRunners".into(),
            value: "runc".into(),
        }],
        state: "provisioned".into(),
        ..Default::default()
    }
}

struct Port(Registry);

#[tonic::async_trait]
impl IamPublicNodesService for Port {
    type RegisterNodeStream = SessionOutgoing<MainEnd>;
    type SubscribeNodeChangedStream = stream::Empty<Result<wire::NodeInfo, Status>>;

    /// All nodes of the benchmark show one certificate, so each is taken at its word.
    async fn register_node(
        &self,
        request: Request<Streaming<wire::IamOutgoingMessages>>,
    ) -> Result<Response<Self::RegisterNodeStream>, Status> {
        let mut inbound = request.into_inner();
        let hello = inbound.message().await?.unwrap();
        let Some(Answer::NodeInfo(info)) = &hello.iam_outgoing_message else {
            return Err(Status::invalid_argument("not a node's description"));
        };
        let node = muster_tls::NodeId::new(info.node_id.as_str()).unwrap();
        let inbound = stream::iter([Ok(hello)]).chain(inbound);
        let outgoing = self.0.accept(inbound, PeerKind::Protected { node });
        outgoing
            .map(Response::new)
            .map_err(|why| Status::from(&why))
    }

    async fn get_all_node_i_ds(&self, _: Request<()>) -> Result<Response<wire::NodesId>, Status> {
        Err(Status::unimplemented("not part of this benchmark"))
    }

    async fn get_node_info(
        &self,
        _: Request<wire::GetNodeInfoRequest>,
    ) -> Result<Response<wire::NodeInfo>, Status> {
        Err(Status::unimplemented("not part of this benchmark"))
    }

    async fn subscribe_node_changed(
        &self,
        _: Request<()>,
    ) -> Result<Response<Self::SubscribeNodeChangedStream>, Status> {
        Err(Status::unimplemented("not part of this benchmark"))
    }
}

async fn store(folder: &Path, stem: &str) -> CertStore {
    let source = FileCertSource::mutual(
        folder.join(format!("{stem}.crt.pem")),
        folder.join(format!("{stem}.key.pem")),
        folder.join("ca.pem"),
    );
    CertStore::open(source).await.unwrap()
}

/// The Main Node, until its standard input ends. Prints its address, and how many nodes are connected
/// whenever that changes.
async fn serve(folder: &Path) {
    let certs = store(folder, "server").await;
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&certs, policy, ServerOptions::default()).unwrap();
    let config = StoreConfig::new(folder.join("iam.db"), "idle_nodes", OnDamage::Refuse);
    let database = Store::open(&config.schema(&SCHEMA)).unwrap().store;
    let (_local, local) = watch::channel(node("main").try_into().unwrap());
    let limits = RegistryLimits::default();
    let registry = Registry::open(database, Arc::new(NoCommands), local, limits)
        .await
        .unwrap();
    let server = ServerBuilder::new(ServerConfig::default(), muster_api::FILE_DESCRIPTOR_SET)
        .service(IamPublicNodesServiceServer::new(Port(registry.clone())))
        .start("127.0.0.1:0".parse().unwrap(), &tls)
        .await
        .unwrap();
    println!("{}", server.address());
    let counting = tokio::spawn(async move {
        let mut changes = registry.subscribe();
        let mut connected = std::collections::BTreeSet::new();
        while let Some(record) = changes.next().await {
            let id = record.info.node_id.clone();
            if record.connection == Connection::Connected {
                connected.insert(id);
            } else {
                connected.remove(&id);
            }
            // Without the Main Node itself.
            println!("{}", connected.len() - 1);
        }
    });
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    // Either way the measurement is over.
    let _ = end.await;
    counting.abort();
    server.shutdown().await;
}

struct MainNode {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    address: SocketAddr,
}

impl MainNode {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Self {
            child,
            output,
            address: line.trim().parse().unwrap(),
        }
    }

    fn wait_for(&mut self, nodes: u32) {
        let mut line = String::new();
        while line.trim() != nodes.to_string() {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the Main Node has ended");
        }
    }

    /// Resident memory of the process, in KiB.
    fn resident(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse().unwrap()
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}

impl Drop for MainNode {
    fn drop(&mut self) {
        // It is a child of this process and waited for, so its id is still its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn measure() {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::new("system-1").unwrap();
    pki.write_ca(folder.path(), "ca").unwrap();
    for stem in ["server", "client"] {
        let cert = pki.issue(&CertSpec::node(stem, "iam")).unwrap();
        cert.write_to(folder.path(), stem).unwrap();
    }
    let certs = store(folder.path(), "client").await;
    let name = ServerName::Spiffe(ExpectedServer::role(Role::Iam));
    let tls = ClientTls::mutual(&certs, name, ClientOptions::default()).unwrap();
    let mut main = MainNode::start(folder.path());
    let target = Arc::new(Target::new(tls, &main.address.to_string()).unwrap());
    let join = |number: u32| {
        let info = node(&format!("node-{number}")).try_into().unwrap();
        let (keep, info) = watch::channel(info);
        let targets = JoinTargets {
            public: Arc::clone(&target) as _,
            protected: Arc::clone(&target) as _,
        };
        let link = JoinLink::start(targets, info, Arc::new(NoCommands), JoinConfig::default());
        (keep, link)
    };

    // What the first one costs is the server's, not the node's.
    let mut links = vec![join(0)];
    main.wait_for(1);
    let (before, cpu, began) = (main.resident(), main.cpu_seconds(), Instant::now());
    links.extend((1..=NODES).map(join));
    main.wait_for(NODES + 1);
    let (took, cpu) = (began.elapsed(), main.cpu_seconds() - cpu);
    let per_node = (main.resident() - before) / u64::from(NODES);
    println!("nodes joined over mutual TLS:            {NODES:8}");
    println!(
        "until all are stored and shown:          {:8.2} s",
        took.as_secs_f64()
    );
    println!(
        "Main Node's processor time per join:     {:8.2} ms",
        cpu * 1e3 / f64::from(NODES)
    );
    println!("Main Node's memory per idle node:        {per_node:8} KiB (limit {LIMIT})");
    let idle = main.cpu_seconds();
    let watched = Duration::from_secs(20);
    tokio::time::sleep(watched).await;
    let share = (main.cpu_seconds() - idle) / watched.as_secs_f64();
    println!(
        "processor for all of them, keepalives:   {:8.2} %",
        share * 100.0
    );
    let after = (main.resident() - before) / u64::from(NODES);
    println!("memory per idle node after keepalives:   {after:8} KiB");
    drop(links);
    assert!(after <= LIMIT, "more than {LIMIT} KiB per node");
}
