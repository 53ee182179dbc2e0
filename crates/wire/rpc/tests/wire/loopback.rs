//! A link and a session over a healthy connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use muster_rpc::server::ServerConfig;
use muster_rpc::session::SessionConfig;
use muster_rpc::slots::AskError;
use muster_rpc::{LinkStatus, StreamBuilder};

use crate::rig::*;

#[tokio::test]
async fn hello_opens_every_stream_and_messages_follow_in_order() {
    let (server, mut streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(server.address()), quick())
        .hello(hello)
        .start();
    for _ in 0..3 {
        let (session, mut incoming) = soon(streams.recv()).await.unwrap();
        let mut first = Vec::new();
        for _ in 0..2 {
            first.push(soon(incoming.recv()).await.unwrap());
        }
        assert_eq!(first, hello());
        for n in 0..100 {
            handle.send(&alert(&n.to_string())).await.unwrap();
        }
        for n in 0..100 {
            let text = alert_text(soon(incoming.recv()).await.unwrap());
            assert_eq!(text, Some(n.to_string()));
        }
        session.close(None);
    }
    handle.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn both_ends_ask_and_get_their_own_answers() {
    let (server, mut streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let (handle, mut incoming) =
        StreamBuilder::<SmEnd>::new(target(server.address()), quick()).start();
    let (session, mut from_sm) = soon(streams.recv()).await.unwrap();
    let answering = handle.clone();
    tokio::spawn(async move {
        while let Some(received) = incoming.recv().await {
            if let Some(In::CheckNodeConfig(check)) = received.message.sm_incoming_message {
                answering
                    .reply(received.stream, &config_status(&check.version))
                    .await
                    .unwrap();
            }
        }
    });
    let echoing = session.clone();
    tokio::spawn(async move {
        while let Some(message) = from_sm.recv().await {
            if let Some(Out::Log(log)) = message.sm_outgoing_message {
                echoing.send(echo_reply(&log.correlation_id)).await.unwrap();
            }
        }
    });
    let asks = (0..50).map(|n| {
        let (handle, session, tag) = (handle.clone(), session.clone(), n.to_string());
        tokio::spawn(async move {
            let from_cm = handle.ask(&echo_request(&tag), ECHO).await.unwrap();
            let from_sm = session
                .ask(check_config(&tag), CONFIG_STATUS)
                .await
                .unwrap();
            assert_eq!((echo_tag(from_cm), config_tag(from_sm)), (tag.clone(), tag));
        })
    });
    for ask in asks.collect::<Vec<_>>() {
        soon(ask).await.unwrap();
    }
    handle.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn durable_messages_are_confirmed_and_an_idle_link_makes_no_probes() {
    let (server, mut streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let spool = MemorySpool::new();
    for _ in 0..1000 {
        spool.append(|id| alert(&id.to_string()));
    }
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(server.address()), quick())
        .hello(hello)
        .spool(Arc::clone(&spool) as _)
        .start();
    let (_session, mut incoming) = soon(streams.recv()).await.unwrap();
    for message in hello() {
        assert_eq!(soon(incoming.recv()).await.unwrap(), message);
    }
    for id in 1..=1000_u64 {
        assert_eq!(
            alert_text(soon(incoming.recv()).await.unwrap()),
            Some(id.to_string())
        );
    }
    eventually("everything is confirmed", || spool.confirmed() == 1000).await;
    let probes = handle.stats().probes;
    spool.append(|id| alert(&id.to_string()));
    handle.spool_offered();
    soon(incoming.recv()).await.unwrap();
    eventually("the last one is confirmed", || spool.len() == 0).await;
    assert_eq!(handle.stats().probes, probes + 1);
    // Far longer than the probe delay: silence.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(handle.stats().probes, probes + 1);
    handle.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_request_without_a_stream_fails_at_once() {
    let nobody = "127.0.0.1:1".parse().unwrap();
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(nobody), quick()).start();
    assert_eq!(
        soon(handle.ask(&echo_request("x"), ECHO)).await,
        Err(AskError::Disconnected)
    );
    handle.send(&alert("dropped")).await.unwrap();
    eventually("it is counted", || handle.stats().ephemeral_dropped == 1).await;
    handle.stop().await;
    assert_eq!(
        soon(handle.ask(&echo_request("x"), ECHO)).await,
        Err(AskError::Stopped)
    );
}

#[tokio::test]
async fn a_request_under_way_fails_at_once_when_the_stream_ends() {
    let (server, mut streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let (handle, _incoming) =
        StreamBuilder::<SmEnd>::new(target(server.address()), quick()).start();
    let (session, mut from_sm) = soon(streams.recv()).await.unwrap();
    let asking = handle.clone();
    let ask = tokio::spawn(async move { asking.ask(&echo_request("x"), ECHO).await });
    soon(from_sm.recv()).await.unwrap();
    session.close(Some(tonic::Status::unavailable("restarting")));
    assert_eq!(soon(ask).await.unwrap(), Err(AskError::Disconnected));
    handle.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn the_hello_is_taken_anew_for_each_stream() {
    let (server, mut streams) = start_cm(ServerConfig::default(), SessionConfig::default()).await;
    let count = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&count);
    let (handle, _incoming) = StreamBuilder::<SmEnd>::new(target(server.address()), quick())
        .hello(move || vec![alert(&counter.fetch_add(1, Ordering::Relaxed).to_string())])
        .start();
    for n in 0..4_u32 {
        let (session, mut incoming) = soon(streams.recv()).await.unwrap();
        assert_eq!(
            alert_text(soon(incoming.recv()).await.unwrap()),
            Some(n.to_string())
        );
        session.close(None);
    }
    handle.stop().await;
    assert_eq!(*handle.status().borrow(), LinkStatus::Stopping);
    server.shutdown().await;
}
