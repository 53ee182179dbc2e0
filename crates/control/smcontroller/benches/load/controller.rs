//! The controller's process: serves, counts, and does what it is told on its standard input.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, ready};
use muster_api::domain::{
    Alert, ConnectionState, Digest, InstanceInfo, InstanceStatus, NodeId, NodeMonitoring, SmInfo,
};
use muster_api::servicemanager::v5 as wire;
use muster_smcontroller::{
    AlertReceiver, BlobUrls, Incident, InstanceRunner as _, InstanceStatusReceiver, Limits,
    LogReceiver, MonitoringReceiver, NodeReceiver, Parts, Receivers, ResolveBlobError,
    SmController, Taken,
};
use muster_tls::{CertStore, FileCertSource, IdentityPolicy, ServerOptions, ServerTls};
use tokio::sync::{mpsc, watch};

/// Counts what it gets.
#[derive(Debug, Default)]
struct Counter {
    connected: AtomicU64,
    measurements: AtomicU64,
}

fn done<'a>() -> Taken<'a> {
    Box::pin(ready(()))
}

impl NodeReceiver for Counter {
    fn connected(&self, _: SmInfo) -> Taken<'_> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        done()
    }

    fn disconnected(&self, _: &NodeId) -> Taken<'_> {
        self.connected.fetch_sub(1, Ordering::Relaxed);
        done()
    }

    fn incident(&self, incident: Incident) {
        eprintln!("{incident:?}");
    }
}

impl InstanceStatusReceiver for Counter {
    fn changed(&self, _: &NodeId, _: Vec<InstanceStatus>) -> Taken<'_> {
        done()
    }

    fn all(&self, _: &NodeId, _: Vec<InstanceStatus>) -> Taken<'_> {
        done()
    }

    fn disconnected(&self, _: &NodeId) -> Taken<'_> {
        done()
    }
}

impl MonitoringReceiver for Counter {
    fn instant(&self, _: &NodeId, _: NodeMonitoring) -> Taken<'_> {
        self.measurements.fetch_add(1, Ordering::Relaxed);
        done()
    }
}

impl AlertReceiver for Counter {
    fn alert(&self, _: &NodeId, _: Alert) -> Taken<'_> {
        done()
    }
}

impl LogReceiver for Counter {
    fn part(&self, _: &NodeId, _: wire::LogData) -> Taken<'_> {
        done()
    }
}

#[derive(Debug)]
struct NoBlobs;

impl BlobUrls for NoBlobs {
    fn url(
        &self,
        _: Option<&NodeId>,
        digest: Digest,
    ) -> BoxFuture<'_, Result<String, ResolveBlobError>> {
        Box::pin(ready(Err(ResolveBlobError::Unknown { digest })))
    }
}

/// A set of usual size.
fn instances() -> Vec<InstanceInfo> {
    let instance = |number: u64| wire::InstanceInfo {
        instance: Some(muster_api::common::v2::InstanceIdent {
            item_id: "service".into(),
            subject_id: "subject".into(),
            instance: number,
            ..Default::default()
        }),
        version: "1.0.0".into(),
        manifest_digest: format!("sha256:{}", "0".repeat(64)),
        runtime_id: "runc".into(),
        uid: 5000,
        gid: 5000,
        env_vars: vec![wire::EnvVarInfo {
            name: "NUMBER".into(),
            value: number.to_string(),
        }],
        ..Default::default()
    };
    (0..4).map(|it| instance(it).try_into().unwrap()).collect()
}

async fn reaches(counter: &AtomicU64, wanted: u64) -> u64 {
    while counter.load(Ordering::Relaxed) < wanted {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    counter.load(Ordering::Relaxed)
}

/// Prints its address, then answers every line with a number, until there are no more.
pub(crate) async fn run(folder: &Path) {
    let source = FileCertSource::mutual(
        folder.join("server.crt.pem"),
        folder.join("server.key.pem"),
        folder.join("ca.pem"),
    );
    let certs = CertStore::open(source).await.unwrap();
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&certs, policy, ServerOptions::default()).unwrap();
    let counter = Arc::new(Counter::default());
    let (_cloud, cloud) = watch::channel(ConnectionState::Connected);
    let receivers = Receivers {
        nodes: Arc::clone(&counter) as _,
        instances: Arc::clone(&counter) as _,
        monitoring: Arc::clone(&counter) as _,
        alerts: Arc::clone(&counter) as _,
        logs: Arc::clone(&counter) as _,
    };
    let parts = Parts {
        cloud,
        blobs: Arc::new(NoBlobs),
        receivers,
    };
    let (controller, gate) = SmController::new(parts, Limits::default());
    let gate = tokio::spawn(gate);
    let server = controller.serve("127.0.0.1:0".parse().unwrap(), &tls);
    let server = server.await.unwrap();
    println!("{}", server.address());
    let (lines_in, mut lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            if lines_in.blocking_send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        let (order, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number = number.parse().unwrap();
        let answer = match order {
            "wait" => reaches(&counter.connected, number).await,
            "take" => reaches(&counter.measurements, number).await,
            "update" => {
                let set = instances();
                for node in controller.nodes() {
                    let update = controller.update_instances(&node, set.clone(), Vec::new());
                    update.await.unwrap();
                }
                0
            }
            other => panic!("no such order: {other}"),
        };
        println!("{answer}");
    }
    controller.stop().await;
    server.shutdown().await;
    gate.await.unwrap();
}
