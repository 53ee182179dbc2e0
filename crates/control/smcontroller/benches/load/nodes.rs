//! Simulated nodes: one connection, one certificate and one stream each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Uri;
use muster_api::servicemanager::v5 as wire;
use muster_lab::pki::{CertSpec, IssuedCert, Pki};
use muster_rpc::slots::ReplyKind;
use muster_rpc::{
    BoxFuture, Dial, DialError, Protocol, StreamBuilder, StreamConfig, StreamHandle, Target,
    Transport,
};
use muster_tls::rustls::RootCertStore;
use muster_tls::rustls::crypto::ring::sign::any_supported_type;
use muster_tls::rustls::sign::CertifiedKey;
use muster_tls::rustls_pki_types::pem::PemObject as _;
use muster_tls::rustls_pki_types::{CertificateDer, PrivateKeyDer};
use muster_tls::{
    CertMaterial, CertSource, CertStore, ClientOptions, ClientTls, ExpectedServer, LoadCertError,
    OwnCert, Role, ServerName, Trust,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

/// Connections that are being made at a time: more than the kernel's queue holds would be made by nobody sooner.
const DIALLING: usize = 256;

/// A node's end of the stream.
#[derive(Debug)]
enum NodeEnd {}

impl Protocol for NodeEnd {
    type Out = wire::SmOutgoingMessages;
    type In = wire::SmIncomingMessages;
    const METHOD: &'static str = "/servicemanager.v5.SMService/RegisterSM";

    fn reply_kind(_: &Self::In) -> Option<ReplyKind> {
        None
    }
}

/// A certificate that is in no file and never changes.
#[derive(Debug)]
struct InMemory(CertMaterial);

impl CertSource for InMemory {
    fn load(&self) -> Result<CertMaterial, LoadCertError> {
        Ok(self.0.clone())
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn rescans(&self) -> bool {
        false
    }
}

fn material(cert: &IssuedCert, trust: &Trust) -> CertMaterial {
    let chain = CertificateDer::pem_slice_iter(cert.cert_pem.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(cert.key_pem.as_bytes()).unwrap();
    let key = any_supported_type(&key).unwrap();
    CertMaterial {
        own: Some(OwnCert::new(CertifiedKey::new(chain, key)).unwrap()),
        trust: Some(trust.clone()),
        warnings: Vec::new(),
    }
}

/// Waits for its turn before it dials.
struct InTurn {
    target: Arc<Target>,
    turns: Arc<Semaphore>,
}

impl Dial for InTurn {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let (target, turns) = (Arc::clone(&self.target), Arc::clone(&self.turns));
        Box::pin(async move {
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            target.dial().await
        })
    }

    fn origin(&self) -> Uri {
        self.target.origin()
    }
}

/// All nodes.
pub(crate) struct Fleet {
    waiting: std::vec::IntoIter<(String, ClientTls)>,
    streams: Vec<StreamHandle<NodeEnd>>,
    turns: Arc<Semaphore>,
    updates: Arc<AtomicU64>,
    next: usize,
}

fn message(said: Said) -> wire::SmOutgoingMessages {
    wire::SmOutgoingMessages {
        sm_outgoing_message: Some(said),
    }
}

fn hello(node: &str) -> Vec<wire::SmOutgoingMessages> {
    let info = wire::SmInfo {
        node_id: node.to_owned(),
        runtimes: vec![wire::RuntimeInfo {
            runtime_id: "runc".into(),
            r#type: "runc".into(),
            max_instances: 100,
            os_info: Some(muster_api::common::v2::OsInfo {
                os: "linux".into(),
                ..Default::default()
            }),
            arch_info: Some(muster_api::common::v2::ArchInfo {
                architecture: "arm64".into(),
                ..Default::default()
            }),
            ..Default::default()
        }],
        resources: Vec::new(),
    };
    let none = wire::NodeInstancesStatus::default();
    vec![
        message(Said::SmInfo(info)),
        message(Said::NodeInstancesStatus(none)),
    ]
}

/// A node with four instances.
fn measurement() -> wire::SmOutgoingMessages {
    let data = || wire::MonitoringData {
        timestamp: Some(std::time::SystemTime::now().into()),
        ram: 1 << 28,
        cpu: 1000,
        ..Default::default()
    };
    let instance = |number: u64| wire::InstanceMonitoring {
        instance: Some(muster_api::common::v2::InstanceIdent {
            item_id: "service".into(),
            subject_id: "subject".into(),
            instance: number,
            ..Default::default()
        }),
        runtime_id: "runc".into(),
        monitoring_data: Some(data()),
    };
    message(Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(data()),
        instances_monitoring: (0..4).map(instance).collect(),
    }))
}

impl Fleet {
    /// Writes the controller's certificate into the folder, and makes one for every node.
    pub(crate) async fn prepare(folder: &Path, count: u32) -> Self {
        let pki = Pki::new("system-1").unwrap();
        pki.write_ca(folder, "ca").unwrap();
        let server = pki.issue(&CertSpec::node("main", "cm")).unwrap();
        server.write_to(folder, "server").unwrap();
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(pki.ca_pem().as_bytes());
        roots.add(root.unwrap()).unwrap();
        let trust = Trust::new(roots, Vec::new(), "the authority").unwrap();
        let mut nodes = Vec::new();
        for number in 0..count {
            let name = format!("node-{number}");
            let cert = pki.issue(&CertSpec::node(&name, "sm")).unwrap();
            let store = CertStore::open(InMemory(material(&cert, &trust))).await;
            let server = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
            let tls = ClientTls::mutual(&store.unwrap(), server, ClientOptions::default());
            nodes.push((name, tls.unwrap()));
        }
        Self {
            waiting: nodes.into_iter(),
            streams: Vec::new(),
            turns: Arc::new(Semaphore::new(DIALLING)),
            updates: Arc::default(),
            next: 0,
        }
    }

    /// Starts nodes until there are so many.
    pub(crate) fn start(&mut self, address: SocketAddr, count: u32) {
        let missing = (count as usize).saturating_sub(self.streams.len());
        let nodes: Vec<_> = self.waiting.by_ref().take(missing).collect();
        for (name, tls) in nodes {
            let dial = InTurn {
                target: Arc::new(Target::new(tls, &address.to_string()).unwrap()),
                turns: Arc::clone(&self.turns),
            };
            let (stream, mut incoming) =
                StreamBuilder::<NodeEnd>::new(dial, StreamConfig::default())
                    .hello(move || hello(&name))
                    .start();
            let updates = Arc::clone(&self.updates);
            tokio::spawn(async move {
                while let Some(received) = incoming.recv().await {
                    let command = received.message.sm_incoming_message;
                    if matches!(command, Some(Command::UpdateInstances(_))) {
                        updates.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
            self.streams.push(stream);
        }
    }

    /// Waits until so many updates have arrived.
    pub(crate) async fn updated(&self, count: u64) {
        while self.updates.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Sends measurements, of one node after the other, at this rate.
    pub(crate) async fn measure(&mut self, per_second: u32, messages: u32) {
        let began = Instant::now();
        for number in 0..messages {
            let due = began + Duration::from_secs(1) * number / per_second;
            if Instant::now() < due {
                sleep_until(due).await;
            }
            let stream = &self.streams[self.next];
            self.next = (self.next + 1) % self.streams.len();
            stream.send(&measurement()).await.unwrap();
        }
    }
}
