//! Real connections on this machine, and a proxy that hurts them.

use std::time::{Duration, Instant};

use muster_lab::proxy::TcpProxy;
use muster_node_registry::{CommandKind, JoinPort, RouteError, RouteRefused};
use muster_rpc::slots::AskError;

use crate::rig::*;

/// Two keepalives, and what a loaded machine adds.
const NOTICED: Duration = Duration::from_millis(1200 + 1500);

#[tokio::test]
async fn a_silent_node_is_disconnected_within_two_keepalives_and_comes_back() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let proxy = TcpProxy::new(server.address()).unwrap();
    let device = Device::new("a", Unprovisioned);
    let link = join_public(&device, proxy.addr());
    main.sees_connected("a").await;
    for _ in 0..3 {
        proxy.blackhole();
        let began = Instant::now();
        main.sees_away("a").await;
        assert!(began.elapsed() < NOTICED, "took {:?}", began.elapsed());
        proxy.forward();
        main.sees_connected("a").await;
    }
    link.stop().await;
    main.sees_away("a").await;
    server.shutdown().await;
}

/// The old stream is a black hole; the node comes up again and is not locked out.
#[tokio::test]
async fn a_rebooted_node_takes_its_place_again_at_once() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let proxy = TcpProxy::new(server.address()).unwrap();
    let before = join_public(&Device::new("a", Unprovisioned), proxy.addr());
    main.sees_connected("a").await;
    proxy.blackhole();
    let device = Device::new("a", Unprovisioned);
    device
        .info
        .send_modify(|info| info.title = "rebooted".into());
    let link = join_public(&device, server.address());
    let record = main
        .sees("a", |record| record.info.title == "rebooted")
        .await;
    assert!(is_here(&record));
    main.registry.command("a", cert_types()).await.unwrap();
    before.stop().await;
    link.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn of_two_nodes_with_one_id_the_second_gets_in_when_the_first_has_left() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let first = join_public(&Device::new("a", Unprovisioned), server.address());
    main.sees_connected("a").await;
    let other = Device::new("a", Unprovisioned);
    other.info.send_modify(|info| info.title = "other".into());
    let second = join_public(&other, server.address());
    // It is refused again and again, and each time the first has answered for itself.
    let mut status = second.status();
    for _ in 0..3 {
        soon("a stream", status.wait_for(|status| status.connected))
            .await
            .unwrap();
        soon("its end", status.wait_for(|status| !status.connected))
            .await
            .unwrap();
        assert!(main.registry.info("a").unwrap().info.title.is_empty());
    }
    first.stop().await;
    main.sees("a", |record| {
        record.info.title == "other" && is_here(record)
    })
    .await;
    second.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn changes_of_a_node_reach_the_main_node() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let device = Device::new("a", Unprovisioned);
    let link = join_public(&device, server.address());
    main.sees_connected("a").await;
    for round in 1..20 {
        device.info.send_modify(|info| info.max_dmips = round);
    }
    main.sees("a", |record| record.info.max_dmips == 19).await;
    link.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn commands_are_carried_out_one_at_a_time_and_to_their_end() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let proxy = TcpProxy::new(server.address()).unwrap();
    let device = Device::new("a", Unprovisioned);
    let link = join_public(&device, proxy.addr());
    main.sees_connected("a").await;
    device.gate.send_replace(false);
    let registry = main.registry.clone();
    let first = tokio::spawn(async move { registry.command("a", start_provisioning()).await });
    let mut begun = device.begun.subscribe();
    soon(
        "the first command",
        begun.wait_for(|begun| begun.len() == 1),
    )
    .await
    .unwrap();
    let registry = main.registry.clone();
    let second = tokio::spawn(async move { registry.command("a", deprovision()).await });
    // The stream breaks under both. Whoever asked is told at once.
    proxy.cut();
    for asked in [first, second] {
        let failed = soon("the end of the command", asked)
            .await
            .unwrap()
            .unwrap_err();
        let told = matches!(
            failed,
            RouteError::NoAnswer {
                source: AskError::Disconnected,
                ..
            } | RouteError::Refused {
                source: RouteRefused::NotConnected { .. },
                ..
            }
        );
        assert!(told, "{failed:?}");
    }
    // The first is still at work, so the next waits for it; its own answer is the one that arrives.
    let registry = main.registry.clone();
    let third = tokio::spawn(async move {
        loop {
            match registry.command("a", finish_provisioning()).await {
                Err(RouteError::Refused { .. }) => {
                    tokio::time::sleep(Duration::from_millis(1)).await
                }
                other => break other,
            }
        }
    });
    let mut status = link.status();
    soon("a new stream", status.wait_for(|status| status.connected))
        .await
        .unwrap();
    device.gate.send_replace(true);
    let answer = soon("an answer", third).await.unwrap().unwrap();
    assert_eq!(
        CommandKind::answered_by(&answer),
        Some(CommandKind::FinishProvisioning)
    );
    assert_eq!(device.begun.borrow()[0], CommandKind::StartProvisioning);
    link.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn nodes_come_and_go_while_commands_are_given() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let proxy = TcpProxy::new(server.address()).unwrap();
    let device = Device::new("a", Unprovisioned);
    let link = join_public(&device, proxy.addr());
    main.sees_connected("a").await;
    let (mut answered, mut failed) = (0, 0);
    let rounds = muster_lab::rounds(30, 500);
    for _ in 0..rounds {
        proxy.reset();
        // Each attempt has an outcome soon, whatever the stream does.
        let attempt = async {
            loop {
                match main.registry.command("a", cert_types()).await {
                    Ok(_) => break,
                    Err(_) => failed += 1,
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon("an answer", attempt).await;
        answered += 1;
    }
    assert_eq!(answered, rounds);
    assert!(failed > 0, "no command fell into a gap");
    link.stop().await;
    server.shutdown().await;
}

#[tokio::test]
async fn a_main_node_that_restarts_is_joined_again() {
    let main = Main::new(quick()).await;
    let server = main.serve(false, &plain_server()).await;
    let proxy = TcpProxy::new(server.address()).unwrap();
    let link = join_public(&Device::new("a", Unprovisioned), proxy.addr());
    main.sees_connected("a").await;
    let address = server.address().to_string();
    let main = {
        let restarted = main.restart(quick());
        server.shutdown().await;
        restarted.await
    };
    assert!(!is_here(&main.registry.info("a").unwrap()));
    let server = serve(&main.registry, &address, false, &plain_server()).await;
    main.sees_connected("a").await;
    joins_on(&link, JoinPort::Public).await;
    link.stop().await;
    server.shutdown().await;
}
