//! A Unit with a cloud: what the cloud has to give, and what it knows of the Unit.

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
use muster_cloud::message::incoming::{BlobInfo, DesiredInstances, DesiredItem, DesiredStatus};
use muster_cloud::message::status::{InstanceState, UnitStatus};
use muster_cloud::message::telemetry::Alert;
use muster_cloud::message::{Checksum, Identity, IdentityType, Outgoing};
use muster_cloud::testing::{Received, Seen, TestCloud};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wire::sm_incoming_messages::SmIncomingMessage as Command;
use wire::sm_outgoing_messages::SmOutgoingMessage as Said;

use crate::rig::Site;

pub(super) const SYSTEM: &str = "unit-1";

/// Serves blobs by name over HTTP until it is dropped.
pub(super) struct Blobs {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Blobs {
    /// Thinks for so long before each answer.
    fn start(blobs: BTreeMap<String, Vec<u8>>, pace: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(pace);
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

/// Items in version 1.0.0, each with its index and so many instances.
pub(super) fn wishes(items: &[(&str, &str, u64)]) -> DesiredStatus {
    let mut desired = DesiredStatus::default();
    for (name, index, count) in items {
        let item = Identity::id(*name).of(IdentityType::Service);
        desired.items.push(DesiredItem {
            item: item.clone(),
            version: "1.0.0".to_owned(),
            owner: Identity::id("acme"),
            index_digest: (*index).to_owned(),
        });
        desired.instances.push(DesiredInstances {
            item,
            subject: Identity::id("driver"),
            priority: 1,
            num_instances: *count,
            labels: Vec::new(),
        });
    }
    desired
}

/// What a cloud knows after everything that it was told.
pub(super) fn known(seen: &Seen) -> UnitStatus {
    let mut known = UnitStatus::default();
    for received in &seen.received {
        let Outgoing::UnitStatus(status) = &received.message else {
            continue;
        };
        if !status.is_delta_info {
            known = status.clone();
            continue;
        }
        for new in status.nodes.iter().flatten() {
            let all = known.nodes.get_or_insert_default();
            all.retain(|it| it.identity != new.identity);
            all.push(new.clone());
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

/// Whether exactly so many instances of the item are there, all active.
pub(super) fn active(seen: &Seen, item: &str, count: usize) -> Option<()> {
    let known = known(seen);
    let groups = known.instances.iter().flatten();
    let of_item: Vec<_> = groups.filter(|it| it.item.name() == Some(item)).collect();
    let [group] = of_item.as_slice() else {
        return None;
    };
    let mut instances = group.instances.iter();
    let all = instances.all(|it| it.state == InstanceState::Active);
    (all && group.instances.len() == count).then_some(())
}

pub(super) struct Scene {
    pub(super) cloud: TestCloud,
    pub(super) site: Site,
    /// Of items, by name.
    indexes: BTreeMap<String, String>,
    _blobs: Blobs,
}

/// What an item needs that runs anywhere.
pub(super) fn plain_item() -> Value {
    json!({"runtimes": [{"codename": "runc"}]})
}

impl Scene {
    /// With an item `web`.
    pub(super) fn new() -> Self {
        Self::with(&[("web", plain_item())], Duration::ZERO)
    }

    /// With these items; whoever serves their blobs thinks for so long before each.
    pub(super) fn with(items: &[(&str, Value)], pace: Duration) -> Self {
        let cloud = TestCloud::start(SYSTEM, None);
        let site = Site::new()
            .set("serviceDiscoveryUrl", json!(cloud.discovery().to_string()))
            .set("systemId", json!(SYSTEM))
            .set("unitStatusSendTimeout", json!("100ms"))
            .set("monitoring", json!({"sendPeriod": "100ms"}))
            .set("alerts", json!({"sendPeriod": "100ms"}));
        let mut all = BTreeMap::new();
        let mut indexes = BTreeMap::new();
        for (name, config) in items {
            let (blobs, index) = published(&site.image(name, "1.0.0", config));
            all.extend(blobs);
            indexes.insert((*name).to_owned(), index);
        }
        let infos: Vec<(String, Vec<u8>)> = all.clone().into_iter().collect();
        let blobs = Blobs::start(all, pace);
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
        Self {
            cloud,
            site,
            indexes,
            _blobs: blobs,
        }
    }

    /// Sets a key of the daemon's configuration.
    pub(super) fn set(mut self, key: &str, value: Value) -> Self {
        self.site = self.site.set(key, value);
        self
    }

    /// So many instances of each of these items.
    pub(super) fn wish(&self, items: &[(&str, u64)]) -> DesiredStatus {
        let indexed = items.iter().map(|(name, count)| {
            let index = self.indexes[*name].as_str();
            (*name, index, *count)
        });
        wishes(&indexed.collect::<Vec<_>>())
    }
}

/// What the node was last told about the cloud.
pub(super) fn told(node: &crate::node::Node) -> Option<i32> {
    let commands = node.commands().into_iter().rev();
    let mut states = commands.filter_map(|it| match it {
        Command::ConnectionStatus(status) => Some(status.cloud_status),
        _ => None,
    });
    states.next()
}

/// Messages of a type under the name of a request, without repetitions.
pub(super) fn answers(seen: &Seen, message_type: &str, correlation: &str) -> Vec<Received> {
    let of_type = seen.once(message_type).into_iter();
    of_type
        .filter(|it| it.correlation.as_deref() == Some(correlation))
        .cloned()
        .collect()
}

/// The one answer of a type to a request, when it is there.
pub(super) fn answer(cloud: &TestCloud, message_type: &str, correlation: &str) -> Outgoing {
    let mut found = cloud.wait(&format!("{message_type} for {correlation}"), |seen| {
        let found = answers(seen, message_type, correlation);
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0).message
}

/// Every alert that has arrived, without repetitions.
pub(super) fn alerts(seen: &Seen) -> Vec<Alert> {
    let messages = seen.once("alerts").into_iter();
    let items = messages.filter_map(|it| match &it.message {
        Outgoing::Alerts(alerts) => Some(alerts.items.clone()),
        _ => None,
    });
    items.flatten().collect()
}

pub(super) fn leave(cloud: &TestCloud) {
    cloud.behave(|it| {
        it.discovery_status = Some(503);
        it.refuse_websocket = Some(503);
    });
    cloud.cut();
}

pub(super) fn come_back(cloud: &TestCloud) {
    cloud.behave(|it| {
        it.discovery_status = None;
        it.refuse_websocket = None;
    });
}

pub(super) fn system_alert(message: &str) -> Said {
    let alert = wire::SystemAlert {
        message: message.to_owned(),
    };
    Said::Alert(wire::Alert {
        timestamp: Some(std::time::SystemTime::now().into()),
        alert_item: Some(wire::alert::AlertItem::SystemAlert(alert)),
    })
}

/// Whether there is an alert with these words.
pub(super) fn alerted(seen: &Seen, text: &str) -> Option<()> {
    let is_it = |it: &Alert| match it {
        Alert::SystemAlert { message, .. } | Alert::CoreAlert { message, .. } => {
            message.contains(text)
        }
        _ => false,
    };
    alerts(seen).iter().any(is_it).then_some(())
}
