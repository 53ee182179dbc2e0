//! Peers that hang, vanish or do not read.

use std::sync::Arc;
use std::time::Duration;

use muster_lab::proxy::TcpProxy;
use muster_rpc::server::ServerConfig;
use muster_rpc::session::SessionConfig;
use muster_rpc::slots::AskError;
use muster_rpc::{Keepalive, LinkStatus, StreamBuilder, StreamConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::rig::*;

const KEEPALIVE: Keepalive = Keepalive {
    interval: Duration::from_millis(200),
    timeout: Duration::from_millis(200),
};
/// Keepalive interval and timeout, and what a loaded machine adds.
const DETECTED: Duration = Duration::from_millis(400 + 600);

/// No durable messages, so only the keepalive can notice.
#[tokio::test]
async fn a_black_hole_is_noticed_by_an_idle_client_and_by_the_server() {
    let config = ServerConfig {
        keepalive: KEEPALIVE,
        ..ServerConfig::default()
    };
    let (server, mut streams) = start_cm(config, SessionConfig::default()).await;
    let proxy = TcpProxy::new(server.address()).unwrap();
    let stream = StreamConfig {
        keepalive: KEEPALIVE,
        ..quick()
    };
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(proxy.addr()), stream).start();
    let (session, mut from_sm) = soon(streams.recv()).await.unwrap();
    let asking = handle.clone();
    let patience = Duration::from_secs(60);
    let from_client =
        tokio::spawn(async move { asking.ask_within(&echo_request("x"), ECHO, patience).await });
    soon(from_sm.recv()).await.unwrap();
    let mut status = handle.status();
    soon(status.wait_for(|status| *status == LinkStatus::Connected))
        .await
        .unwrap();
    proxy.blackhole();
    let begin = Instant::now();
    let from_server = tokio::spawn(async move {
        session
            .ask_within(check_config("x"), CONFIG_STATUS, patience)
            .await
    });
    soon(status.wait_for(|status| *status == LinkStatus::Disconnected))
        .await
        .unwrap();
    let client_took = begin.elapsed();
    assert_eq!(
        soon(from_client).await.unwrap(),
        Err(AskError::Disconnected)
    );
    assert_eq!(
        soon(from_server).await.unwrap(),
        Err(AskError::Disconnected)
    );
    let server_took = begin.elapsed();
    assert!(client_took < DETECTED, "client: {client_took:?}");
    assert!(server_took < DETECTED, "server: {server_took:?}");
    proxy.forward();
    let (_session, _from_sm) = soon(streams.recv()).await.unwrap();
    handle.stop().await;
    server.shutdown().await;
}

/// A peer that accepts and then never reads a byte: TCP buffers fill, nothing is answered.
#[tokio::test]
async fn a_peer_that_never_reads_blocks_neither_keepalive_nor_stop() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = StreamConfig {
        keepalive: KEEPALIVE,
        ..quick()
    };
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(address), config)
        .hello(hello)
        .start();
    let silent = soon(listener.accept()).await.unwrap();
    eventually("the silent peer is given up", || {
        handle.stats().broken + handle.stats().dials_failed >= 1
    })
    .await;
    drop(silent);
    let begin = Instant::now();
    soon(handle.stop()).await;
    assert!(
        begin.elapsed() < config.linger + Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
}

/// The server's transport lives, its application does not read: flow control holds us back.
#[tokio::test]
async fn a_stalled_application_holds_senders_back_and_stop_is_bounded() {
    let sessions = SessionConfig {
        incoming: 1,
        ..SessionConfig::default()
    };
    let (server, mut streams) = start_cm(ServerConfig::default(), sessions).await;
    let spool = MemorySpool::new();
    let config = quick();
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(server.address()), config)
        .spool(Arc::clone(&spool) as _)
        .start();
    let (_session, mut from_sm) = soon(streams.recv()).await.unwrap();
    let big = "x".repeat(64 * 1024);
    let mut sent = 0;
    while tokio::time::timeout(Duration::from_millis(300), handle.send(&alert(&big)))
        .await
        .is_ok()
    {
        sent += 1;
        assert!(sent < 400, "nothing holds the sender back");
    }
    // A durable message behind all that is not flushed, so it must not be confirmed, although the
    // peer's transport answers every ping and probe.
    let id = spool.append(|id| alert(&id.to_string()));
    handle.spool_offered();
    let request = echo_request("x");
    let ask = handle.ask_within(&request, ECHO, Duration::from_millis(300));
    assert_eq!(soon(ask).await, Err(AskError::NotSent { kind: ECHO }));
    assert_eq!(spool.confirmed(), 0);
    // The owner takes up reading again: the message arrives, and is confirmed.
    let mut arrived = false;
    while !(arrived && spool.confirmed() == id) {
        if let Ok(message) = tokio::time::timeout(Duration::from_millis(20), from_sm.recv()).await {
            arrived |= alert_text(message.unwrap()) == Some(id.to_string());
        }
        assert_eq!(handle.stats().broken, 0);
    }
    // Stalled again, for good.
    while tokio::time::timeout(Duration::from_millis(300), handle.send(&alert(&big)))
        .await
        .is_ok()
    {}
    let begin = Instant::now();
    soon(handle.stop()).await;
    assert!(
        begin.elapsed() < config.linger + Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
    server.shutdown().await;
}

/// A server that counts pings on an idle stream (here with a short interval) sees one per interval
/// and never more, so one that tolerates the default 10 s has no reason to close.
#[tokio::test]
async fn keepalives_stay_below_what_a_strict_server_forgives() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let interval = Duration::from_millis(100);
    let keepalive = Keepalive {
        interval,
        timeout: Duration::from_secs(5),
    };
    let config = StreamConfig {
        keepalive,
        ..quick()
    };
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(address), config).start();
    let (mut peer, _) = soon(listener.accept()).await.unwrap();
    let mut raw = vec![0; 24];
    soon(peer.read_exact(&mut raw)).await.unwrap();
    let mut pings = Vec::new();
    // Empty settings: a client sends nothing else before it has seen them.
    peer.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let begin = Instant::now();
    while pings.len() < 8 {
        let mut header = [0; 9];
        soon(peer.read_exact(&mut header)).await.unwrap();
        let length = usize::from(header[1]) << 8 | usize::from(header[2]);
        let mut payload = vec![0; length];
        soon(peer.read_exact(&mut payload)).await.unwrap();
        if header[3] == 6 && header[4] & 1 == 0 {
            pings.push(begin.elapsed());
            let mut acknowledgement = vec![0, 0, 8, 6, 1, 0, 0, 0, 0];
            acknowledgement.extend(payload);
            peer.write_all(&acknowledgement).await.unwrap();
        }
    }
    for pair in pings.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(
            gap >= interval - Duration::from_millis(20),
            "pings {gap:?} apart: {pings:?}"
        );
    }
    assert_eq!(handle.stats().broken, 0);
    handle.stop().await;
}
