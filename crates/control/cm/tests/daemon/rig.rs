//! A Unit to test: a folder, images, the daemon as a process, an operator's connection to it, and nodes.
//!
//! [`Site`] owns everything that outlives the daemon. [`Site::start`] starts it; simulated nodes ([`crate::node::Node`]) find it
//! wherever it listens, also after a restart.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_control_api::v1;
use muster_control_api::v1::control_service_client::ControlServiceClient;
use muster_image::build::{BuildOrder, Content, RunSettings, build};
use muster_item::{LayerFormat, Platform};
use muster_lab::program::{Line, Process, Program, Stream};
use muster_tls::ClientTls;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint};

use crate::node::Node;

/// For whatever takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
/// Between two looks at something.
const LOOK: Duration = Duration::from_millis(20);

/// Where the daemon listens for nodes; `None` while it does not.
pub(crate) type Address = watch::Receiver<Option<SocketAddr>>;

/// What outlives the daemon.
pub(crate) struct Site {
    folder: TempDir,
    config: Value,
    address: watch::Sender<Option<SocketAddr>>,
}

impl Site {
    /// Without TLS, and with instances that have no networks.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let config = json!({
            "insecure": "a test",
            "cmServerUrl": "127.0.0.1:0",
            "fileServerUrl": "127.0.0.1:0",
            "workingDir": at("work"),
            "storageDir": at("storages"),
            "stateDir": at("states"),
            "controlSocket": at("cm.sock"),
            "networks": {"mode": "off"},
        });
        Self {
            folder,
            config,
            address: watch::Sender::new(None),
        }
    }

    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program as it is started, to be armed.
    pub(crate) fn program(&self) -> Program {
        self.quiet_program()
            .arg("--log=debug,h2=info,hyper=info,tower=info,reqwest=info")
    }

    /// The same, saying as much as it does where it is installed.
    pub(crate) fn quiet_program(&self) -> Program {
        let config = self.path("cm.json");
        fs::write(&config, self.config.to_string()).unwrap();
        Program::new(env!("CARGO_BIN_EXE_muster-cm"))
            .arg("--config")
            .arg(config)
    }

    pub(crate) fn start(&self) -> Cm {
        self.start_as(&self.program())
    }

    pub(crate) fn start_as(&self, program: &Program) -> Cm {
        self.address.send_replace(None);
        let mut cm = self.started(program);
        self.wait_until_served(&mut cm);
        cm
    }

    /// Starts it where there is no certificate to serve nodes with.
    pub(crate) fn start_unserved(&self) -> Cm {
        self.started(&self.program())
    }

    fn started(&self, program: &Program) -> Cm {
        let mut process = program.start().unwrap();
        process.wait_for_line(" ready", TIME).unwrap();
        Cm {
            process,
            socket: self.path("cm.sock"),
        }
    }

    /// Waits until nodes can connect, and tells simulated ones where.
    pub(crate) fn wait_until_served(&self, cm: &mut Cm) {
        let served = cm.process.wait_for_line("nodes are served", TIME).unwrap();
        self.address
            .send_replace(Some(address(&served, "address=")));
    }

    /// Where nodes are served.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.borrow().unwrap()
    }

    /// A node that connects as soon as it can, and again whenever it can.
    pub(crate) fn node(&self, id: &str) -> Node {
        Node::start(id, self.address.subscribe(), None)
    }

    /// The same with a certificate.
    pub(crate) fn node_with_tls(&self, id: &str, tls: ClientTls) -> Node {
        Node::start(id, self.address.subscribe(), Some(tls))
    }

    /// An image in a layout of its own, for an item in a version; its content is its name.
    pub(crate) fn image(&self, item: &str, version: &str, config: &Value) -> PathBuf {
        let content = self.path(&format!("content-{item}-{version}"));
        fs::create_dir_all(&content).unwrap();
        fs::write(content.join("name"), format!("{item} {version}")).unwrap();
        let output = self.path(&format!("{item}-{version}"));
        let order = BuildOrder {
            content: Content::Folder(content),
            run: RunSettings {
                entrypoint: vec!["/name".into()],
                ..RunSettings::default()
            },
            item_config: Some(config.to_string().into_bytes()),
            platform: Platform::of_this_program(),
            format: LayerFormat::TarGzip,
            name: None,
            output: output.clone(),
            as_archive: false,
        };
        build(&order).unwrap();
        output
    }

    /// A document with these items in these versions, each in so many instances.
    pub(crate) fn document(&self, items: &[(&str, &str, u64)]) -> Value {
        let config = json!({"runtimes": [{"codename": "runc"}]});
        let mut entries = Vec::new();
        let mut instances = Vec::new();
        for (item, version, count) in items {
            let layout = self.path(&format!("{item}-{version}"));
            if !layout.exists() {
                self.image(item, version, &config);
            }
            entries.push(json!({"id": item, "version": version, "image": {"layout": layout}}));
            instances.push(json!({"item": item, "count": count}));
        }
        json!({"items": entries, "instances": instances})
    }
}

fn address(line: &Line, key: &str) -> SocketAddr {
    let (_, rest) = line.text.split_once(key).unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// How an operator sees an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: String,
    pub(crate) version: String,
    pub(crate) state: String,
    pub(crate) why: String,
}

/// Instances as `item:subject:number`.
pub(crate) type Instances = BTreeMap<String, Seen>;

/// A running daemon.
pub(crate) struct Cm {
    pub(crate) process: Process,
    socket: PathBuf,
}

impl Cm {
    pub(crate) async fn control(&self) -> ControlServiceClient<Channel> {
        self.connect().await.unwrap()
    }

    async fn connect(&self) -> Result<ControlServiceClient<Channel>, tonic::transport::Error> {
        let endpoint = Endpoint::try_from(format!("unix://{}", self.socket.display())).unwrap();
        endpoint.connect().await.map(ControlServiceClient::new)
    }

    /// Applies a document, and answers what is said to that.
    pub(crate) async fn apply(&self, document: &Value) -> v1::ApplyResponse {
        self.ask_to_apply(document, false).await.unwrap()
    }

    pub(crate) async fn ask_to_apply(
        &self,
        document: &Value,
        dry_run: bool,
    ) -> Result<v1::ApplyResponse, tonic::Status> {
        let request = v1::ApplyRequest {
            document: document.to_string().into_bytes(),
            format: v1::DocumentFormat::Json.into(),
            name: "/test.json".to_owned(),
            dry_run,
        };
        // A daemon that is about to be killed may die before it is reached.
        let control = self.connect().await;
        let mut control = control.map_err(|gone| tonic::Status::unavailable(gone.to_string()))?;
        let answer = control.apply(request).await;
        answer.map(tonic::Response::into_inner)
    }

    pub(crate) async fn rollback(&self) -> v1::ApplyResponse {
        let request = v1::RollbackRequest::default();
        let answer = self.control().await.rollback(request).await;
        answer.unwrap().into_inner()
    }

    pub(crate) async fn instances(&self) -> Instances {
        let request = v1::ListInstancesRequest::default();
        let answer = self.control().await.list_instances(request).await.unwrap();
        let instances = answer.into_inner().instances.into_iter();
        instances
            .map(|it| {
                let ident = it.ident.unwrap();
                let name = format!("{}:{}:{}", ident.item_id, ident.subject_id, ident.instance);
                let seen = Seen {
                    node: it.node_id,
                    version: it.version,
                    state: it.state,
                    why: it.error.map_or_else(String::new, |it| it.message),
                };
                (name, seen)
            })
            .collect()
    }

    pub(crate) async fn nodes(&self) -> BTreeMap<String, v1::Node> {
        let request = v1::ListNodesRequest::default();
        let answer = self.control().await.list_nodes(request).await.unwrap();
        let nodes = answer.into_inner().nodes.into_iter();
        nodes.map(|it| (it.node_id.clone(), it)).collect()
    }

    /// Waits until instances are as `are` wants them.
    pub(crate) async fn until(&self, what: &str, are: impl Fn(&Instances) -> bool) -> Instances {
        let deadline = Instant::now() + TIME;
        loop {
            let now = self.instances().await;
            if are(&now) {
                return now;
            }
            assert!(
                Instant::now() < deadline,
                "not {what}: {now:#?}\n{}",
                self.last_words()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until so many nodes are connected.
    pub(crate) async fn until_nodes(&self, count: usize) {
        let deadline = Instant::now() + TIME;
        loop {
            let nodes = self.nodes().await;
            if nodes.values().filter(|it| it.connected).count() == count {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{nodes:#?}\n{}",
                self.last_words()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until exactly these are active.
    pub(crate) async fn until_active(&self, count: usize) -> Instances {
        let all =
            |now: &Instances| now.len() == count && now.values().all(|it| it.state == "active");
        self.until(&format!("{count} active"), all).await
    }

    /// All that it has said so far.
    pub(crate) fn log(&self) -> String {
        self.process.text(Stream::Stderr) + &self.process.text(Stream::Stdout)
    }

    /// The end of the log.
    pub(crate) fn last_words(&self) -> String {
        let text = self.log();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    pub(crate) fn kill9(mut self) {
        self.process.kill9().unwrap();
    }

    pub(crate) fn end(mut self) {
        let status = self.process.terminate(TIME).unwrap();
        assert!(status.success(), "{status}\n{}", self.last_words());
        assert!(!self.socket.exists(), "the socket is left behind");
    }
}

/// Waits until `is` gives something.
pub(crate) async fn until<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIME;
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(Instant::now() < deadline, "not {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Replaces a file whole: others may look at any moment.
pub(crate) fn replace(path: &Path, content: &str) {
    let beside = path.with_extension("beside");
    fs::write(&beside, content).unwrap();
    fs::rename(beside, path).unwrap();
}
