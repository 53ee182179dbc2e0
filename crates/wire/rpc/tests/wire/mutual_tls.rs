//! The same over mutual TLS, where the ledger sits above the encryption.

use std::path::Path;
use std::sync::Arc;

use muster_lab::pki::{CertSpec, Pki};
use muster_rpc::server::ServerConfig;
use muster_rpc::session::SessionConfig;
use muster_rpc::{StreamBuilder, Target};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, IdentityPolicy, Role,
    ServerName, ServerOptions, ServerTls,
};

use crate::rig::*;

async fn store(pki: &Pki, dir: &Path, node: &str, role: &str) -> CertStore {
    let files = pki
        .issue(&CertSpec::node(node, role))
        .unwrap()
        .write_to(dir, role)
        .unwrap();
    let ca = pki.write_ca(dir, "ca").unwrap();
    CertStore::open(FileCertSource::mutual(files.cert, files.key, ca))
        .await
        .unwrap()
}

fn to_cm_server(store: &CertStore, address: std::net::SocketAddr) -> Target {
    let cm = ServerName::Spiffe(ExpectedServer::role(Role::Cm));
    let tls = ClientTls::mutual(store, cm, ClientOptions::default()).unwrap();
    Target::new(tls, &address.to_string()).unwrap()
}

#[tokio::test]
async fn durable_messages_are_confirmed_over_mutual_tls_and_strangers_stay_out() {
    let dir = tempfile::tempdir().unwrap();
    let (pki, other_pki) = (Pki::new("system-1").unwrap(), Pki::new("system-1").unwrap());
    let cm = store(&pki, dir.path(), "main", "cm").await;
    let sm = store(&pki, dir.path(), "node-1", "sm").await;
    let elsewhere = tempfile::tempdir().unwrap();
    let stranger = store(&other_pki, elsewhere.path(), "node-1", "sm").await;

    let policy = IdentityPolicy::spiffe_only();
    let tls = ServerTls::mutual(&cm, policy, ServerOptions::default()).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let (server, mut streams) =
        start_cm_at(any, &tls, ServerConfig::default(), SessionConfig::default()).await;

    let spool = MemorySpool::new();
    for _ in 0..500 {
        spool.append(|id| alert(&format!("{id} {}", "x".repeat(1000))));
    }
    let (handle, _incoming) =
        StreamBuilder::<SmEnd>::new(to_cm_server(&sm, server.address()), quick())
            .hello(hello)
            .spool(Arc::clone(&spool) as _)
            .start();
    let (_session, mut incoming) = soon(streams.recv()).await.unwrap();
    for message in hello() {
        assert_eq!(soon(incoming.recv()).await.unwrap(), message);
    }
    for id in 1..=500_u64 {
        let text = alert_text(soon(incoming.recv()).await.unwrap()).unwrap();
        assert_eq!(text.split(' ').next(), Some(id.to_string().as_str()));
    }
    eventually("everything is confirmed", || spool.len() == 0).await;

    let (outside, _outside_incoming) =
        StreamBuilder::<SmEnd>::new(to_cm_server(&stranger, server.address()), quick()).start();
    eventually("the stranger is refused", || {
        outside.stats().dials_failed >= 2
    })
    .await;
    assert_eq!(outside.stats().opened, 0);
    outside.stop().await;
    handle.stop().await;
    server.shutdown().await;
}
