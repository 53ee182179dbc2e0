//! Clients that say nothing, and servers that run out of something, hold nobody up for long.

use std::time::{Duration, Instant};

use crate::common::{Folder, Logs, PATIENCE, TestServer, client, server_cert};
use muster_lab::pki::{CertSpec, Pki};
use muster_tls::{IdentityPolicy, ServerOptions, ServerTls};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

async fn server(folder: &Folder, deadline: Duration, handshakes: usize) -> TestServer {
    let options = ServerOptions {
        handshake_deadline: deadline,
        handshakes,
        ..ServerOptions::default()
    };
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&folder.store().await, policy, options).unwrap();
    TestServer::start(&tls, Ok).await
}

/// Reads until the server closes; gives how long that took.
async fn dropped_after(mut tcp: TcpStream, since: Instant) -> Duration {
    let mut rest = Vec::new();
    let read = tcp.read_to_end(&mut rest);
    let _ = tokio::time::timeout(PATIENCE, read)
        .await
        .expect("the server keeps a silent client");
    since.elapsed()
}

#[tokio::test]
async fn a_silent_client_blocks_nobody_and_is_dropped_at_the_deadline() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let deadline = Duration::from_secs(5);
    let server = server(&folder, deadline, 256).await;
    let client = client(&pki, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap()).await;

    let start = Instant::now();
    let silent = TcpStream::connect(server.address).await.unwrap();
    let address = silent.local_addr().unwrap();
    let calls = (0..50).map(|_| server.call(&client));
    for call in futures_join(calls).await {
        call.unwrap();
    }
    assert!(
        logs.with("TLS peer refused").is_empty(),
        "the 50 were to be done before the deadline"
    );

    let took = dropped_after(silent, start).await;
    assert!(took >= deadline, "dropped after {took:?}");
    let line = logs
        .wait_for("it did not finish the TLS handshake within 5s")
        .await;
    assert!(line.contains(&format!("peer={address}")), "{line}");
}

#[tokio::test]
async fn silent_clients_in_every_place_delay_others_by_a_fraction_of_the_deadline() {
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let deadline = Duration::from_secs(12);
    let server = server(&folder, deadline, 4).await;
    let client = client(&pki, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap()).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let start = Instant::now();
    server.call(&client).await.unwrap();
    assert!(start.elapsed() < deadline, "waited {:?}", start.elapsed());
}

#[tokio::test]
async fn a_client_that_connects_and_leaves_is_no_refusal() {
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = server(&folder, Duration::from_secs(10), 16).await;
    drop(TcpStream::connect(server.address).await.unwrap());
    let line = logs.wait_for("peer left during the TLS handshake").await;
    assert!(line.contains("DEBUG"), "{line}");
    assert!(logs.with("TLS peer refused").is_empty());
}

#[tokio::test]
async fn a_dropped_listener_is_closed_and_taken_connections_go_on() {
    use tokio::io::AsyncWriteExt as _;
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let store = folder.store().await;
    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&store, policy, ServerOptions::default()).unwrap();
    let mut incoming = tls.incoming(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    let address = incoming.local_addr().unwrap();
    let client = client(&pki, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap()).await;
    let mut near = client.connect("127.0.0.1", address.port()).await.unwrap();
    let mut far = incoming.accept().await.unwrap();
    drop(incoming);
    crate::common::until("the listener's end", || {
        std::net::TcpStream::connect(address).is_err().then_some(())
    })
    .await;
    near.write_all(b"still here").await.unwrap();
    near.flush().await.unwrap();
    let mut heard = [0; 10];
    far.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"still here");
}

/// Re-runs itself as a process of its own, since the limit on descriptors is the whole process's.
#[test]
fn running_out_of_descriptors_pauses_accepting_and_loses_no_later_client() {
    const CHILD: &str = "MUSTER_TLS_TEST_DESCRIPTORS";
    if std::env::var_os(CHILD).is_none() {
        let name = "stalls::running_out_of_descriptors_pauses_accepting_and_loses_no_later_client";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run_out_of_descriptors());
}

async fn run_out_of_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (logs, _guard) = Logs::capture();
    let pki = Pki::new("system-1").unwrap();
    let folder = Folder::new(&pki, &server_cert(&pki));
    let server = server(&folder, Duration::from_secs(30), 1024).await;
    let client = client(&pki, &pki.issue(&CertSpec::node("node-1", "sm")).unwrap()).await;
    server.call(&client).await.unwrap();

    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(open + 20),
            ..limit
        },
    )
    .unwrap();
    // Clients take descriptors until none is left, and the server's accepts fail.
    let mut silent = Vec::new();
    while let Ok(Ok(tcp)) = tokio::time::timeout(PATIENCE, TcpStream::connect(server.address)).await
    {
        silent.push(tcp);
    }
    let line = logs.wait_for("cannot accept connections").await;
    assert!(
        line.contains("WARN") && line.contains("os error 24"),
        "{line}"
    );
    // Pauses double from 10 ms on, so the fourth failure is more than a second before the eighth.
    logs.wait_for("failures=4").await;
    let start = Instant::now();
    logs.wait_for("failures=8").await;
    assert!(
        start.elapsed() > Duration::from_millis(500),
        "it spins: {:?}",
        start.elapsed()
    );

    drop(silent);
    server.call(&client).await.unwrap();
}

async fn futures_join<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    use tokio_stream::StreamExt as _;
    let mut running: futures_util::stream::FuturesUnordered<F> = all.collect();
    let mut done = Vec::new();
    while let Some(output) = running.next().await {
        done.push(output);
    }
    done
}
