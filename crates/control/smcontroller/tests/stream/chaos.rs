//! Streams that are cut at random while commands fly: every command ends once, with its own answer or an error, and what
//! receivers get is never mixed up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use muster_api::servicemanager::v5 as wire;
use muster_lab::proxy::{Direction, TcpProxy};
use muster_rpc::{ChannelConfig, Target, channel};
use muster_smcontroller::{InstanceRunner as _, Limits, NodeConfigs as _};
use muster_tls::ClientTls;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use wire::sm_incoming_messages::SmIncomingMessage as Command;

use crate::rig::*;

const NODES: usize = 4;
const SEED: u64 = 0x5eed;

fn name(node: usize) -> String {
    format!("node-{node}")
}

fn limits() -> Limits {
    Limits {
        reply: Duration::from_millis(200),
        late_reply: Duration::from_millis(400),
        ..quick()
    }
}

/// A node that registers again and again, answers most questions (some late, some never) and counts in its alerts.
async fn play(node: usize, tls: ClientTls, proxy: std::net::SocketAddr, over: Arc<AtomicBool>) {
    let mut random = StdRng::seed_from_u64(SEED + node as u64);
    let mut streams = 0u64;
    while !over.load(Ordering::Relaxed) {
        let target = Target::new(tls.clone(), &proxy.to_string()).unwrap();
        let Ok(mut stream) = Node::open(channel(&target, ChannelConfig::default())).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        streams += 1;
        stream.try_say(info(&name(node))).await;
        let mut alerts = 0u64;
        while !over.load(Ordering::Relaxed) {
            let next = tokio::time::timeout(Duration::from_millis(5), stream.next()).await;
            let version = match next {
                Ok(Ok(Command::SetNodeConfig(set))) => Some(set.version),
                Ok(Ok(Command::GetNodeConfigStatus(_))) => Some("status".to_owned()),
                Ok(Ok(_)) => None,
                Ok(Err(_)) => break,
                Err(_) => {
                    alerts += 1;
                    let counted = alert(&format!("{streams} {alerts}"));
                    if !stream.try_say(counted).await {
                        break;
                    }
                    None
                }
            };
            if let Some(version) = version {
                match random.random_range(0..20) {
                    // Never answered.
                    0 => continue,
                    // Answered when nobody waits any more.
                    1 => tokio::time::sleep(limits().reply + Duration::from_millis(50)).await,
                    _ => {}
                }
                stream.try_say(config_status(&version)).await;
            }
        }
    }
}

#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
}

/// Gives commands to one node and checks what becomes of each.
async fn command(
    site: muster_smcontroller::SmController,
    node: usize,
    over: Arc<AtomicBool>,
    counts: Arc<Counts>,
) {
    let node = id(&name(node));
    let mut number = 0u64;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let began = Instant::now();
        let version = format!("{number}");
        let asked = site
            .set_node_config(&node, version.clone(), "{}".into())
            .await;
        assert!(
            began.elapsed() < limits().reply + Duration::from_secs(5),
            "a command hung"
        );
        match asked {
            Ok(status) => {
                assert_eq!(status.version, version, "another command's answer");
                counts.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        let _ = site.update_instances(&node, Vec::new(), Vec::new()).await;
    }
}

/// The life of one node as receivers saw it.
#[derive(Default)]
struct Life {
    connected: bool,
    /// Number of the stream, and of its last alert.
    stream: u64,
    alert: u64,
    alerts: u64,
    times: u64,
}

impl Life {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Connected(_) => {
                assert!(!self.connected, "connected twice");
                self.connected = true;
                self.times += 1;
                self.alert = 0;
            }
            Event::Disconnected(_, "nodes") => {
                assert!(self.connected, "disconnected twice");
                self.connected = false;
            }
            Event::Alert(_, text) => {
                assert!(self.connected, "something of a node that is gone");
                let (stream, alert) = text.split_once(' ').unwrap();
                let (stream, alert): (u64, u64) = (stream.parse().unwrap(), alert.parse().unwrap());
                if self.alert == 0 {
                    assert!(stream > self.stream, "an older stream after a newer one");
                    self.stream = stream;
                }
                assert_eq!(stream, self.stream, "two streams mixed up");
                assert_eq!(alert, self.alert + 1, "a gap or another order");
                self.alert = alert;
                self.alerts += 1;
            }
            Event::Disconnected(..) | Event::Incident(_) => {}
            other => panic!("nobody said {other:?}"),
        }
    }
}

fn node_of(event: &Event) -> Option<usize> {
    let name = match event {
        Event::Connected(node) | Event::Disconnected(node, _) | Event::Alert(node, _) => node,
        _ => return None,
    };
    name.strip_prefix("node-")?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_ends_once_and_no_stream_is_mixed_up_with_another() {
    let mut site = Site::new(limits()).await;
    let over = Arc::new(AtomicBool::new(false));
    let counts = Arc::new(Counts::default());
    let (mut tasks, mut proxies) = (Vec::new(), Vec::new());
    for node in 0..NODES {
        let tls = site.client_tls(&name(node), "sm").await;
        let proxy = TcpProxy::new(site.address()).unwrap();
        tasks.push(tokio::spawn(play(
            node,
            tls,
            proxy.addr(),
            Arc::clone(&over),
        )));
        for _ in 0..3 {
            let (over, counts) = (Arc::clone(&over), Arc::clone(&counts));
            tasks.push(tokio::spawn(command(
                site.controller.clone(),
                node,
                over,
                counts,
            )));
        }
        proxies.push(proxy);
    }
    let cutting = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut random = StdRng::seed_from_u64(SEED);
            let began = Instant::now();
            let mut cuts = 0;
            while began.elapsed() < Duration::from_secs(6) {
                tokio::time::sleep(Duration::from_millis(random.random_range(5..60))).await;
                let proxy = &proxies[random.random_range(0..NODES)];
                match random.random_range(0..4) {
                    0 => proxy.cut(),
                    1 => proxy.reset(),
                    2 => proxy.cut_after(Direction::ToServer, random.random_range(1..4000)),
                    _ => proxy.cut_after(Direction::ToClient, random.random_range(1..4000)),
                }
                cuts += 1;
            }
            over.store(true, Ordering::Relaxed);
            cuts
        }
    });
    let mut lives: [Life; NODES] = Default::default();
    while !cutting.is_finished() {
        if let Ok(event) = tokio::time::timeout(Duration::from_millis(100), site.event()).await
            && let Some(node) = node_of(&event)
        {
            lives[node].take(&event);
        }
    }
    let cuts = cutting.await.unwrap();
    for task in tasks {
        tokio::time::timeout(TIME, task)
            .await
            .expect("it ends")
            .unwrap();
    }
    site.end().await;
    let (answered, failed) = (&counts.answered, &counts.failed);
    let (answered, failed) = (
        answered.load(Ordering::Relaxed),
        failed.load(Ordering::Relaxed),
    );
    let times: Vec<u64> = lives.iter().map(|life| life.times).collect();
    let alerts: Vec<u64> = lives.iter().map(|life| life.alerts).collect();
    eprintln!(
        "{cuts} cuts, {answered} answers, {failed} errors, streams {times:?}, alerts {alerts:?}"
    );
    assert!(
        answered > 100 && failed > 10,
        "{answered} answers, {failed} errors"
    );
    assert!(times.iter().all(|times| *times > 3), "{times:?}");
}
