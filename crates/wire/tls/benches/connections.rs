//! Handshakes per second, and memory per idle connection, of mutual TLS with P-256 certificates.
//!
//! `cargo bench -p muster-tls`. The server is a process of its own, so that its memory and processor
//! time are its alone.
#![expect(
    clippy::unwrap_used,
    reason = "a panic ends the measurement, which is the report"
)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, IdentityPolicy, Role,
    ServerName, ServerOptions, ServerTls,
};
use tokio::net::TcpListener;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const FOLDER: &str = "MUSTER_TLS_BENCH_FOLDER";
const HANDSHAKES: u32 = 2_000;
const IDLE: u64 = 1_000;
const CLIENTS: u32 = 8;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match std::env::var_os(FOLDER) {
        Some(folder) => runtime.block_on(serve(Path::new(&folder))),
        None => runtime.block_on(measure()),
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

/// The server: gRPC with a health service, until its standard input ends.
async fn serve(folder: &Path) {
    let store = store(folder, "server").await;
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&store, policy, ServerOptions::default()).unwrap();
    let incoming = tls.incoming(TcpListener::bind("127.0.0.1:0").await.unwrap());
    println!("{}", incoming.local_addr().unwrap().port());
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(
        Server::builder()
            .add_service(health)
            .serve_with_incoming(incoming),
    );
    let end = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    // Either way the measurement is over.
    let _ = end.await;
}

struct ServerProcess {
    child: Child,
    port: u16,
}

impl ServerProcess {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            port: line.trim().parse().unwrap(),
            child,
        }
    }

    fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        line.split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
            * 1024
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}

impl Drop for ServerProcess {
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
    for (stem, role) in [("server", "cm"), ("client", "sm")] {
        let cert = pki.issue(&CertSpec::node("node-1", role)).unwrap();
        cert.write_to(folder.path(), stem).unwrap();
    }
    let server = ServerProcess::start(folder.path());
    let name = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
    let store = store(folder.path(), "client").await;
    let client = ClientTls::mutual(&store, name, ClientOptions::default()).unwrap();

    let (start, cpu) = (Instant::now(), server.cpu_seconds());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, port) = (client.clone(), server.port);
        tasks.spawn(async move {
            for _ in 0..HANDSHAKES / CLIENTS {
                client.connect("127.0.0.1", port).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let seconds = start.elapsed().as_secs_f64();
    let cpu = server.cpu_seconds() - cpu;
    println!(
        "handshakes/s, both sides on this machine:  {:8.0}",
        f64::from(HANDSHAKES) / seconds
    );
    println!(
        "server processor time per handshake:       {:8.2} ms",
        cpu * 1e3 / f64::from(HANDSHAKES)
    );

    let before = server.resident_bytes();
    let endpoint = Endpoint::from_shared(format!("https://localhost:{}", server.port)).unwrap();
    let mut channels = Vec::new();
    for _ in 0..IDLE {
        let channel = endpoint
            .connect_with_connector(client.connector())
            .await
            .unwrap();
        // One call: the connection is then set up on both sides, and idle from here on.
        let mut health = HealthClient::new(channel);
        health.check(HealthCheckRequest::default()).await.unwrap();
        channels.push(health);
    }
    let after = server.resident_bytes();
    println!(
        "server memory per idle gRPC connection:    {:8} bytes",
        (after - before) / IDLE
    );
    drop(channels);
}
