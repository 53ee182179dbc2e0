//! Hosts in network namespaces: the cable is pulled, two hosts stop hearing each other.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use muster_lab::net::{Host, Net};
use muster_lab::require;
use tokio::sync::oneshot;

use crate::rig::*;

/// Runs a Secondary Node on its host until the sender is dropped.
fn run_node(host: &Host, id: &'static str, main: SocketAddr, stop: oneshot::Receiver<()>) {
    host.run(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let link = join_public(&Device::new(id, Unprovisioned), main);
            // Either way the test is over.
            let _ = stop.await;
            link.stop().await;
        });
    })
    .unwrap();
}

/// What the test asks of the Main Node's host, which has a runtime of its own.
enum Ask {
    Here(&'static str),
    Away(&'static str),
    End,
}

/// Runs the Main Node on its host; every question is answered when it holds.
fn run_main(host: &Host, asks: mpsc::Receiver<Ask>, answers: mpsc::SyncSender<SocketAddr>) {
    let address = format!("{}:0", host.ip());
    host.run(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        // Namespaces are per thread: the listener is made on this one.
        let (main, server) = runtime.block_on(async {
            let main = Main::new(quick()).await;
            let server = serve(&main.registry, &address, false, &plain_server()).await;
            (main, server)
        });
        let address = server.address();
        answers.send(address).unwrap();
        while let Ok(ask) = asks.recv() {
            match ask {
                Ask::Here(id) => runtime.block_on(main.sees_connected(id)),
                Ask::Away(id) => runtime.block_on(main.sees_away(id)),
                Ask::End => break,
            };
            answers.send(address).unwrap();
        }
        runtime.block_on(server.shutdown());
    })
    .unwrap();
}

#[test]
fn cut_off_nodes_are_disconnected_and_come_back() {
    muster_lab::alone!();
    require!(Root, NetNs);
    let net = Net::new(&["main", "a", "b"]).unwrap();
    let (ask, asks) = mpsc::sync_channel(1);
    let (answer, answers) = mpsc::sync_channel(1);
    let (stop_a, a_stopped) = oneshot::channel();
    let (stop_b, b_stopped) = oneshot::channel();
    std::thread::scope(|scope| {
        // In the scope, so that they end the others also when the test panics.
        let (ask, _stop_a, _stop_b) = (ask, stop_a, stop_b);
        let answers = answers;
        let main = net.host("main");
        scope.spawn(move || run_main(main, asks, answer));
        let patience = Duration::from_secs(30);
        let address = answers.recv_timeout(patience).unwrap();
        let (a, b) = (net.host("a"), net.host("b"));
        scope.spawn(move || run_node(a, "a", address, a_stopped));
        scope.spawn(move || run_node(b, "b", address, b_stopped));
        let until = |what| {
            ask.send(what).unwrap();
            answers.recv_timeout(patience).unwrap();
        };
        until(Ask::Here("a"));
        until(Ask::Here("b"));
        net.link("a").cut().unwrap();
        until(Ask::Away("a"));
        until(Ask::Here("b"));
        net.link("a").restore().unwrap();
        until(Ask::Here("a"));
        net.partition("main", "b").unwrap();
        until(Ask::Away("b"));
        until(Ask::Here("a"));
        net.heal("main", "b").unwrap();
        until(Ask::Here("b"));
        ask.send(Ask::End).unwrap();
    });
}
