//! The daemon and a cloud: its wishes run, and it is told how the Unit is; also when it is away for a while.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use muster_api::servicemanager::v5 as wire;
use muster_cloud::message::incoming::{
    BlobInfo, DesiredInstances, DesiredItem, DesiredStatus, EnvVar, EnvVars, LogFilter, LogType,
    OverrideEnvVars, RequestLog,
};
use muster_cloud::message::status::{InstanceState, UnitStatus};
use muster_cloud::message::telemetry::{Alert, LogStatus};
use muster_cloud::message::{Checksum, Identity, IdentityType, Outgoing};
use muster_cloud::testing::{Seen, TestCloud};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::rig::{Site, TIME, until};

const SYSTEM: &str = "unit-1";

/// Serves blobs by name over HTTP until it is dropped.
struct Blobs {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Blobs {
    fn start(blobs: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A client that leaves early is its own business.
                let _ = stream.and_then(|stream| serve(stream, &blobs));
            }
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _woken = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

fn serve(mut stream: TcpStream, blobs: &BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let name = head
        .split(' ')
        .nth(1)
        .unwrap_or_default()
        .trim_start_matches('/');
    let (status, body) = match blobs.get(name) {
        Some(blob) => ("200 OK", blob.as_slice()),
        None => ("404 Not Found", &b""[..]),
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

/// What a cloud has of an image: its blobs, and its index by digest.
fn published(layout: &Path) -> (BTreeMap<String, Vec<u8>>, String) {
    let mut blobs = BTreeMap::new();
    for entry in fs::read_dir(layout.join("blobs/sha256")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        blobs.insert(name, fs::read(entry.path()).unwrap());
    }
    let index = fs::read(layout.join("index.json")).unwrap();
    let name: String = Sha256::digest(&index)
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    blobs.insert(name.clone(), index);
    (blobs, format!("sha256:{name}"))
}

fn wish(version: &str, index: &str, count: u64) -> DesiredStatus {
    let item = Identity::id("web").of(IdentityType::Service);
    DesiredStatus {
        items: vec![DesiredItem {
            item: item.clone(),
            version: version.to_owned(),
            owner: Identity::id("acme"),
            index_digest: index.to_owned(),
        }],
        instances: vec![DesiredInstances {
            item,
            subject: Identity::id("driver"),
            priority: 1,
            num_instances: count,
            labels: Vec::new(),
        }],
        ..DesiredStatus::default()
    }
}

/// What a cloud knows after everything that it was told.
fn known(seen: &Seen) -> UnitStatus {
    let mut known = UnitStatus::default();
    for received in &seen.received {
        let Outgoing::UnitStatus(status) = &received.message else {
            continue;
        };
        if !status.is_delta_info {
            known = status.clone();
            continue;
        }
        for new in status.instances.iter().flatten() {
            let all = known.instances.get_or_insert_default();
            all.retain(|it| {
                (&it.item, &it.subject, &it.version) != (&new.item, &new.subject, &new.version)
            });
            all.push(new.clone());
        }
    }
    known
}

/// Whether exactly so many instances of the version are active.
fn active(seen: &Seen, version: &str, count: usize) -> Option<()> {
    let known = known(seen);
    let instances: Vec<_> = known
        .instances
        .iter()
        .flatten()
        .filter(|it| it.version == version)
        .collect();
    let [group] = instances.as_slice() else {
        return None;
    };
    let all = group
        .instances
        .iter()
        .all(|it| it.state == InstanceState::Active);
    (all && group.instances.len() == count).then_some(())
}

struct Scene {
    cloud: TestCloud,
    site: Site,
    index: String,
    _blobs: Blobs,
}

fn scene() -> Scene {
    let cloud = TestCloud::start(SYSTEM, None);
    let site = Site::new()
        .set("serviceDiscoveryUrl", json!(cloud.discovery().to_string()))
        .set("systemId", json!(SYSTEM))
        .set("unitStatusSendTimeout", json!("100ms"))
        .set("monitoring", json!({"sendPeriod": "100ms"}))
        .set("alerts", json!({"sendPeriod": "100ms"}));
    let config = json!({"runtimes": [{"codename": "runc"}]});
    let (blobs, index) = published(&site.image("web", "1.0.0", &config));
    let infos: Vec<(String, Vec<u8>)> = blobs.clone().into_iter().collect();
    let blobs = Blobs::start(blobs);
    cloud.behave(|it| {
        for (name, content) in infos {
            let digest = format!("sha256:{name}");
            let info = BlobInfo {
                digest: digest.clone(),
                urls: vec![format!("http://{}/{name}", blobs.address)],
                sha256: Checksum(Sha256::digest(&content).to_vec()),
                size: content.len() as u64,
                decrypt_info: None,
                sign_info: None,
            };
            it.blobs.insert(digest, info);
        }
    });
    Scene {
        cloud,
        site,
        index,
        _blobs: blobs,
    }
}

/// What the node was last told about the cloud.
fn told(node: &crate::node::Node) -> Option<i32> {
    let commands = node.commands().into_iter().rev();
    let mut states = commands.filter_map(|it| match it {
        Command::ConnectionStatus(status) => Some(status.cloud_status),
        _ => None,
    });
    states.next()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_of_the_cloud_becomes_active_instances_in_the_status_it_is_told() {
    let Scene {
        cloud, site, index, ..
    } = &scene();
    let cm = site.start();
    let node = site.node("n1");
    let txn = cloud.send(wish("1.0.0", index, 2), None);
    cloud.wait("active instances", |seen| active(seen, "1.0.0", 2));
    let seen = cloud.seen();
    assert!(seen.acknowledged.contains(&txn));
    assert_eq!(seen.problems, Vec::<String>::new());
    let status = known(&seen);
    let nodes = status.nodes.unwrap();
    assert_eq!(nodes[0].identity.name(), Some("n1"));
    assert!(nodes[0].is_connected);
    let instances = &status.instances.unwrap()[0];
    assert_eq!(instances.subject.name(), Some("driver"));
    assert_eq!(instances.instances[0].runtime.name(), Some("runc-n1"));
    until("the node knows", || (told(&node) == Some(1)).then_some(())).await;

    // A wish that makes no sense changes nothing, and the cloud is told.
    let mut wrong = wish("1.0.0", index, 2);
    wrong.instances[0].item = Identity::id("nobody");
    cloud.send(wrong, None);
    cloud.wait("a complaint", |seen| alerted(seen, "desiredStatus"));
    assert_eq!(node.running().len(), 2);

    // Variables over those of the image reach the instances.
    let variables = EnvVars {
        item: Some(Identity::id("web")),
        subject: None,
        instance: None,
        variables: vec![EnvVar {
            name: "COLOUR".to_owned(),
            value: "red".to_owned().into(),
            ttl: None,
        }],
    };
    cloud.send(
        OverrideEnvVars {
            items: vec![variables],
        },
        None,
    );
    until("the variable", || {
        let running = node.running();
        let set = |it: &crate::node::Running| {
            it.info
                .env_vars
                .iter()
                .any(|it| it.name == "COLOUR" && it.value == "red")
        };
        (running.len() == 2 && running.values().all(set)).then_some(())
    })
    .await;

    // Logs come back under the name of the request.
    let request = RequestLog {
        log_type: LogType::SystemLog,
        filter: LogFilter::default(),
        upload_options: None,
    };
    cloud.send(request, Some("log-1"));
    cloud.wait("a log", |seen| {
        seen.received.iter().find_map(|it| match &it.message {
            Outgoing::PushLog(log) => {
                assert_eq!(it.correlation.as_deref(), Some("log-1"));
                assert_eq!(log.status, LogStatus::Ok);
                assert_eq!(log.node.name(), Some("n1"));
                Some(())
            }
            _ => None,
        })
    });
    cm.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_while_the_cloud_is_away_is_told_when_it_is_back() {
    let Scene {
        cloud, site, index, ..
    } = &scene();
    let cm = site.start();
    let node = site.node("n1");
    cloud.send(wish("1.0.0", index, 1), None);
    cloud.wait("an active instance", |seen| active(seen, "1.0.0", 1));
    let running = node.running();

    // It is away, and something happens.
    leave(cloud);
    until("the node knows", || (told(&node) == Some(0)).then_some(())).await;
    let usage = wire::MonitoringData {
        timestamp: Some(std::time::SystemTime::now().into()),
        ram: 4711,
        ..Default::default()
    };
    node.say(Said::InstantMonitoring(wire::InstantMonitoring {
        node_monitoring: Some(usage),
        ..Default::default()
    }))
    .await;
    node.say(system_alert("the disk is on fire")).await;
    come_back(cloud);
    cloud.wait("the alert", |seen| alerted(seen, "on fire"));
    cloud.wait("the measurement", |seen| {
        let usage = seen.received.iter().filter_map(|it| match &it.message {
            Outgoing::Monitoring(data) => Some(&data.nodes),
            _ => None,
        });
        let mut found = usage.flatten().flat_map(|it| &it.items);
        found.any(|it| it.ram == 4711).then_some(())
    });
    until("the node knows", || (told(&node) == Some(1)).then_some(())).await;

    // It is away, something happens, and the daemon dies.
    leave(cloud);
    until("the node knows", || (told(&node) == Some(0)).then_some(())).await;
    node.say(system_alert("the roof is on fire")).await;
    let deadline = tokio::time::Instant::now() + TIME;
    loop {
        // What operators see is kept for the cloud.
        let request = muster_control_api::v1::ListAlertsRequest::default();
        let alerts = cm.control().await.list_alerts(request).await.unwrap();
        if format!("{:?}", alerts.into_inner()).contains("the roof") {
            break;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "{}",
            cm.last_words()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cm.kill9();
    let cm = site.start();
    let before = cloud.seen().received.len();
    come_back(cloud);
    cloud.wait("the alert", |seen| alerted(seen, "the roof"));
    cloud.wait("the status again", |seen| {
        let again = Seen {
            received: seen.received[before..].to_vec(),
            ..Seen::default()
        };
        active(&again, "1.0.0", 1)
    });
    assert_eq!(node.running(), running, "nothing was touched");
    cm.end();
}

fn leave(cloud: &TestCloud) {
    cloud.behave(|it| {
        it.discovery_status = Some(503);
        it.refuse_websocket = Some(503);
    });
    cloud.cut();
}

fn come_back(cloud: &TestCloud) {
    cloud.behave(|it| {
        it.discovery_status = None;
        it.refuse_websocket = None;
    });
}

fn system_alert(message: &str) -> Said {
    let alert = wire::SystemAlert {
        message: message.to_owned(),
    };
    Said::Alert(wire::Alert {
        timestamp: Some(std::time::SystemTime::now().into()),
        alert_item: Some(wire::alert::AlertItem::SystemAlert(alert)),
    })
}

fn alerted(seen: &Seen, text: &str) -> Option<()> {
    let alerts = seen.received.iter().filter_map(|it| match &it.message {
        Outgoing::Alerts(alerts) => Some(&alerts.items),
        _ => None,
    });
    let is_it = |it: &Alert| match it {
        Alert::SystemAlert { message, .. } | Alert::CoreAlert { message, .. } => {
            message.contains(text)
        }
        _ => false,
    };
    alerts.flatten().any(is_it).then_some(())
}
