//! A node with networks and nothing else, for tests: requests come as lines of JSON, and so go the answers.
//!
//! `network_node DATABASE RUN_FOLDER PROGRAM_FOLDER [SETTING=VALUE ...]`

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use muster_api::domain::{
    AlertRules, Digest, FirewallRule, Gid, InstanceIdent, InstanceInfo, ItemId, ItemType,
    NetworkParameters, RuntimeId, SubjectId, Uid,
};
use muster_api::servicemanager::v5 as wire;
use muster_firewall::Firewall;
use muster_item::{ExposedPort, ImageConfig, ItemConfig};
use muster_launcher::seams::{InstalledImage, Network as _, SeamError};
use muster_network::{LinkName, NetworkManager, NetworkSettings, SCHEMA};
use muster_runtime::ImagePaths;
use muster_store::{OnDamage, Store, StoreConfig};
use muster_telemetry::ErrorChain;
use muster_traffic::{Limits, Traffic};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Update(Vec<NetworkEntry>),
    Keep(Vec<String>),
    Attach(Box<Instance>),
    /// All at the same time.
    AttachAll(Vec<Instance>),
    Detach(String),
    Traffic(String),
}

#[derive(Deserialize)]
struct NetworkEntry {
    id: String,
    subnet: String,
    ip: String,
    #[serde(default)]
    vlan: u64,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Instance {
    item: String,
    network: String,
    subnet: String,
    ip: String,
    hostname: Option<String>,
    exposed: Vec<String>,
    /// `address port protocol`.
    allowed: Vec<(String, String, String)>,
    name_servers: Vec<String>,
    upload: Option<u64>,
    download: Option<u64>,
    /// Whether its traffic is counted.
    counted: bool,
}

fn ident(item: &str) -> Result<InstanceIdent, Failure> {
    Ok(InstanceIdent {
        item_id: ItemId::new(item)?,
        subject_id: SubjectId::new("lab")?,
        instance: 0,
        item_type: ItemType::Service,
        preinstalled: false,
    })
}

impl Instance {
    fn info(&self) -> Result<InstanceInfo, Failure> {
        let rule = |(address, port, protocol): &(String, String, String)| {
            Ok::<_, Failure>(FirewallRule {
                dst_ip: address.parse()?,
                dst_port: port.parse()?,
                proto: protocol.parse()?,
                src_ip: None,
            })
        };
        let servers = self.name_servers.iter().map(|it| it.parse());
        let network = NetworkParameters {
            network_id: self.network.parse()?,
            subnet: self.subnet.parse()?,
            ip: self.ip.parse()?,
            dns_servers: servers.collect::<Result<_, _>>()?,
            rules: self.allowed.iter().map(rule).collect::<Result<_, _>>()?,
        };
        Ok(InstanceInfo {
            instance: ident(&self.item)?,
            version: "1.0.0".into(),
            manifest_digest: Digest::from_sha256([0; 32]),
            owner_id: None,
            runtime_id: RuntimeId::new("runc")?,
            uid: Uid::new(5000)?,
            gid: Gid::new(5000)?,
            priority: 0,
            storage_path: None,
            state_path: None,
            env_vars: Vec::new(),
            network: Some(network),
            alert_rules: AlertRules::default(),
        })
    }

    fn image(&self) -> Result<InstalledImage, Failure> {
        let mut image_config = ImageConfig::default();
        for port in &self.exposed {
            let (ports, protocol) = port.split_once('/').unwrap_or((port, ""));
            image_config.exposed_ports.push(ExposedPort {
                ports: ports.parse()?,
                protocol: protocol.parse()?,
            });
        }
        let mut item_config = ItemConfig {
            hostname: self.hostname.clone(),
            ..ItemConfig::default()
        };
        item_config.quotas.upload_speed = self.upload;
        item_config.quotas.download_speed = self.download;
        Ok(InstalledImage {
            paths: ImagePaths { layers: Vec::new() },
            image_config,
            item_config,
        })
    }
}

struct Node {
    networks: NetworkManager,
    traffic: Traffic,
}

impl Node {
    async fn attach(&self, instance: &Instance) -> Result<Value, Failure> {
        let (info, image) = (instance.info()?, instance.image()?);
        let attached = self.networks.attach(&info, &image).await;
        let attached = attached.map_err(shown)?.ok_or("no network")?;
        if instance.counted {
            let limits = Limits::default();
            let added = self
                .traffic
                .add_instance(&info.instance, attached.address, limits);
            added.await?;
        }
        Ok(json!({
            "namespace": attached.namespace,
            "address": attached.address,
            "hostname": attached.hostname,
            "name_servers": attached.name_servers,
        }))
    }

    async fn carry_out(&self, request: Request) -> Result<Value, Failure> {
        match request {
            Request::Update(entries) => {
                let list = entries.into_iter().map(|it| wire::UpdateNetworkParameters {
                    network_id: it.id,
                    subnet: it.subnet,
                    ip: it.ip,
                    vlan_id: it.vlan,
                });
                self.networks.update(list.collect()).await?;
                Ok(Value::Null)
            }
            Request::Keep(items) => {
                let idents = items.iter().map(|item| ident(item));
                let idents = idents.collect::<Result<BTreeSet<_>, _>>()?;
                self.networks.keep_only(idents).await;
                Ok(Value::Null)
            }
            Request::Attach(instance) => self.attach(&instance).await,
            Request::AttachAll(instances) => {
                let attached = join_all(instances.iter().map(|it| self.attach(it))).await;
                let outcome = |it: Result<Value, Failure>| {
                    it.unwrap_or_else(|error| json!(error.to_string()))
                };
                Ok(attached.into_iter().map(outcome).collect())
            }
            Request::Detach(item) => {
                let ident = ident(&item)?;
                if self.traffic.instance(&ident).is_some() {
                    self.traffic.remove_instance(&ident).await?;
                }
                self.networks.detach(&ident).await.map_err(shown)?;
                Ok(Value::Null)
            }
            Request::Traffic(item) => {
                self.traffic.poll().await?;
                let usage = self.traffic.instance(&ident(&item)?).ok_or("not counted")?;
                Ok(json!({"download": usage.download, "upload": usage.upload}))
            }
        }
    }
}

fn shown(error: SeamError) -> Failure {
    format!("{:?}: {}", error.code, ErrorChain(&*error.source)).into()
}

async fn answer(node: &Node, line: &str) -> Value {
    let request = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => return json!({"error": format!("no request: {error}")}),
    };
    match node.carry_out(request).await {
        Ok(value) => json!({"ok": value}),
        Err(error) => json!({"error": ErrorChain(&*error).to_string()}),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    muster_fault::init(&[
        muster_network::FAULT_POINTS,
        muster_cni::FAULT_POINTS,
        muster_store::FAULT_POINTS,
        muster_traffic::FAULT_POINTS,
    ]);
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .map(PathBuf::from)
            .ok_or("too few arguments")
    };
    let (database, run, programs) = (next()?, next()?, next()?);
    let mut settings = NetworkSettings::new(programs, run);
    let given: BTreeMap<String, String> = arguments
        .filter_map(|it| {
            it.split_once('=')
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
        })
        .collect();
    if let Some(policy) = given.get("same-subnet") {
        settings.same_subnet = policy.parse()?;
    }
    if let Some(link) = given.get("uplink") {
        settings.uplink = Some(LinkName::new(link)?);
    }
    if let Some((network, link)) = given.get("untagged").and_then(|it| it.split_once('@')) {
        settings
            .untagged_uplinks
            .insert(network.parse()?, LinkName::new(link)?);
    }
    if let Some(folder) = given.get("plugins") {
        settings.plugin_folders.insert(0, folder.into());
    }
    if let Some(milliseconds) = given.get("look-ms") {
        settings.look_period = Duration::from_millis(milliseconds.parse()?);
    }
    if let Some(milliseconds) = given.get("timeout-ms") {
        settings.plugin_timeout = Duration::from_millis(milliseconds.parse()?);
    }
    let config = StoreConfig::new(database, "network_node", OnDamage::StartEmpty)
        .schema(&SCHEMA)
        .schema(&muster_traffic::SCHEMA);
    let store = Store::open(&config)?.store;
    let (networks, task) = NetworkManager::open(settings, store.clone()).await?;
    tokio::spawn(task);
    let firewall = Firewall::detect()?;
    let (traffic, counting) =
        Traffic::open(store, firewall, muster_traffic::Settings::default()).await?;
    tokio::spawn(counting.run(CancellationToken::new()));
    let node = Node { networks, traffic };
    println!("{}", json!({"ok": "ready"}));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{}", answer(&node, &line).await);
    }
    Ok(())
}
