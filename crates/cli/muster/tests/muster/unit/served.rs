//! The real server of the control interface: over its socket, and from afar as an operator.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::SystemTime;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use muster_api::common::v2::OsInfo;
use muster_api::domain::{InstanceIdent, InstanceState, ItemType, LogStatus, NodeId, NodeState};
use muster_api::iamanager::v6::NodeInfo;
use muster_balance::Explanation;
use muster_control_server::{
    Access, ControlServer, History, HistoryLimits, Limits, LogPart, LogRequest, Operation,
    OperationError, Operations, Parts, PlannedPlace, Previewed, SCHEMA, UnitAbout, UnitView,
};
use muster_desired::{
    Accepted, Condition, DesiredStatus, InstanceProgress, Origin, Progress, UpdateId, Version, diff,
};
use muster_rpc::ListenAddress;
use muster_store::{OnDamage, Store, StoreConfig};
use muster_tls::{CertStore, FileCertSource, IdentityPolicy, ServerOptions, ServerTls};
use serde_json::json;
use tokio::sync::{oneshot, watch};

use crate::rig::{Run, Site, run};

/// A Communication Manager that wants what it is told, and gets nothing done.
#[derive(Debug)]
struct Wishes {
    versions: Mutex<Vec<Arc<Version>>>,
    progress: watch::Sender<Arc<Progress>>,
    view: UnitView,
}

impl Wishes {
    fn newest(&self) -> Arc<DesiredStatus> {
        let versions = self.versions.lock().expect("not poisoned");
        versions
            .first()
            .map_or_else(Arc::default, |it| Arc::clone(&it.desired))
    }

    fn earlier(&self) -> Result<Arc<DesiredStatus>, OperationError> {
        let versions = self.versions.lock().expect("not poisoned");
        let earlier = versions.get(1).ok_or(OperationError::NothingEarlier)?;
        Ok(Arc::clone(&earlier.desired))
    }

    fn want(&self, desired: DesiredStatus, name: String) -> Accepted {
        let mut versions = self.versions.lock().expect("not poisoned");
        let id = UpdateId(u64::try_from(versions.len()).expect("few") + 1);
        self.view.wanted(&desired);
        let instances = running(&desired);
        let version = Version {
            id,
            applied: SystemTime::now(),
            origin: Origin::Operator,
            name,
            desired: Arc::new(desired),
            places: Default::default(),
        };
        versions.insert(0, Arc::new(version));
        let progress = Arc::new(Progress {
            update: Some(id),
            done: true,
            instances: instances.into_iter().collect(),
            ..Progress::default()
        });
        self.view.progress(&progress);
        self.progress.send_replace(progress);
        Accepted::New(id)
    }
}

/// Everything that is wanted, as if it ran on the only node.
fn running(desired: &DesiredStatus) -> BTreeMap<InstanceIdent, InstanceProgress> {
    let mut running = BTreeMap::new();
    for (key, instances) in desired.instances() {
        for instance in 0..instances.count {
            let ident = InstanceIdent {
                item_id: key.item.clone(),
                subject_id: key.subject.clone(),
                instance,
                item_type: ItemType::Service,
                preinstalled: false,
            };
            let progress = InstanceProgress {
                version: "1.0.0".into(),
                node: "main".parse().ok(),
                condition: Condition::Told(InstanceState::Active),
                error: None,
            };
            running.insert(ident, progress);
        }
    }
    running
}

impl Operations for Wishes {
    fn apply(&self, desired: DesiredStatus, name: String) -> Operation<'_, Accepted> {
        let accepted = self.want(desired, name);
        Box::pin(async move { Ok(accepted) })
    }

    fn preview(&self, desired: DesiredStatus) -> Operation<'_, Previewed> {
        let differences = diff(&self.newest(), &desired);
        let placements = Vec::new();
        let previewed = Previewed {
            differences,
            placements,
        };
        Box::pin(async move { Ok(previewed) })
    }

    fn rollback(&self, _: Option<UpdateId>) -> Operation<'_, Accepted> {
        let accepted = self
            .earlier()
            .map(|desired| self.want((*desired).clone(), "before".into()));
        Box::pin(async move { accepted })
    }

    fn preview_rollback(&self, _: Option<UpdateId>) -> Operation<'_, Previewed> {
        let previewed = self.earlier().map(|desired| Previewed {
            differences: diff(&self.newest(), &desired),
            placements: Vec::new(),
        });
        Box::pin(async move { previewed })
    }

    fn versions(&self) -> Operation<'_, Vec<Arc<Version>>> {
        let versions = self.versions.lock().expect("not poisoned").clone();
        Box::pin(async move { Ok(versions) })
    }

    fn progress(&self) -> watch::Receiver<Arc<Progress>> {
        self.progress.subscribe()
    }

    fn explain(&self, instance: InstanceIdent) -> Operation<'_, Explanation> {
        Box::pin(async move { Err(OperationError::UnknownInstance { instance }) })
    }

    fn read_logs(
        &self,
        request: LogRequest,
    ) -> Operation<'_, BoxStream<'static, Result<LogPart, OperationError>>> {
        let part = |node| LogPart {
            node,
            data: b"hello\n".to_vec(),
            status: LogStatus::Ok,
            error: None,
        };
        let parts = request.nodes.into_iter().map(part).map(Ok);
        let parts: Vec<_> = parts.collect();
        Box::pin(async move { Ok(stream::iter(parts).boxed()) })
    }

    fn set_paused(&self, node: NodeId, _: bool) -> Operation<'_, ()> {
        Box::pin(async move { Err(OperationError::UnknownNode { node }) })
    }

    fn drain(&self, _: NodeId, _: bool) -> Operation<'_, Vec<PlannedPlace>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// A server of system `unit-7` with one node; it ends with the value.
struct Served {
    site: Site,
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn new() -> Self {
        let site = Site::new();
        for (node, role) in [("main", "cm"), ("desk", "operator"), ("main", "sm")] {
            site.run(&["pki", "issue", "--node", node, "--role", role])
                .ok();
        }
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
        let (socket, database) = (site.path("cm.sock"), site.path("cm.db"));
        let own = FileCertSource::mutual(
            site.path("main-cm.crt.pem"),
            site.path("main-cm.key.pem"),
            site.path("ca.pem"),
        );
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let config = StoreConfig::new(database, "test", OnDamage::StartEmpty);
                let opened = Store::open(&config.schema(&SCHEMA)).expect("a database");
                let store = opened.store;
                let (history, writing) = History::open(store, HistoryLimits::default())
                    .await
                    .expect("a history");
                tokio::spawn(writing);
                let limits = Limits::default();
                let about = UnitAbout {
                    system_id: "unit-7".into(),
                    version: "0.1.0".into(),
                    main_node: "main".parse().ok(),
                };
                let view = UnitView::new(about, history, &limits);
                let info = NodeInfo {
                    node_id: "main".into(),
                    node_type: "board".into(),
                    state: NodeState::Provisioned.to_string(),
                    os_info: Some(OsInfo {
                        os: "linux".into(),
                        ..OsInfo::default()
                    }),
                    ..NodeInfo::default()
                };
                view.node_info(info.try_into().expect("a node"));
                let operations = Wishes {
                    versions: Mutex::default(),
                    progress: watch::Sender::new(Arc::default()),
                    view: view.clone(),
                };
                let parts = Parts {
                    view,
                    operations: Arc::new(operations),
                    access: Access::local_only()
                        .operators_of("unit-7".parse().expect("a name"), Vec::new()),
                };
                let server = ControlServer::new(parts, limits);
                let on_socket = server.serve_unix(&socket).await.expect("a socket");
                let certs = CertStore::open(own).await.expect("certificates");
                let policy = IdentityPolicy::spiffe_only();
                let tls = ServerTls::mutual(&certs, policy, ServerOptions::default());
                let local = ListenAddress("127.0.0.1:0".parse().expect("an address"));
                let on_port = server
                    .serve_tcp(local, &tls.expect("TLS"))
                    .await
                    .expect("a port");
                ready
                    .send(on_port.address().port())
                    .expect("somebody waits");
                let _ = stopped.await;
                drop((on_socket, on_port));
            });
        });
        let port = is_ready.recv().expect("the server starts");
        Self {
            site,
            port,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let mut command = self.site.command(arguments);
        run(command.env("MUSTER_UNIT", self.site.path("cm.sock")))
    }

    /// From afar, with the certificate of a stem.
    fn run_as(&self, stem: &str, arguments: &[&str]) -> Run {
        let mut command = self.site.command(arguments);
        let unit = format!("https://127.0.0.1:{}", self.port);
        command
            .env("MUSTER_UNIT", unit)
            .env("MUSTER_CA", self.site.path("ca.pem"))
            .env("MUSTER_CERT", self.site.path(&format!("{stem}.crt.pem")))
            .env("MUSTER_KEY", self.site.path(&format!("{stem}.key.pem")));
        run(&mut command)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported, and this one may be on the way already.
            let _ = thread.join();
        }
    }
}

fn document(count: u64) -> String {
    format!(
        "items:\n- {{id: web, version: 1.0.0, image: {{layout: web.tar}}}}\ninstances:\n- {{item: web, count: {count}}}\n"
    )
}

#[test]
fn the_real_server_is_looked_at_and_steered() {
    let served = Served::new();
    let status = served.run(&["status", "-o", "json"]).json();
    assert_eq!(
        (&status["system"], &status["nodes"]),
        (&json!("unit-7"), &json!(1))
    );
    assert_eq!(
        served.run(&["get", "nodes", "-o", "name"]).ok().stdout,
        "main\n"
    );

    fs::write(served.site.path("one.yaml"), document(1)).expect("written");
    fs::write(served.site.path("two.yaml"), document(2)).expect("written");
    served.run(&["apply", "one.yaml", "--wait"]).ok();
    let instances = served.run(&["get", "instances", "-o", "json"]).json();
    assert_eq!(instances[0]["name"], "web/local/0");
    let diff = served.run(&["diff", "two.yaml"]).ok().stdout;
    assert!(
        diff.starts_with("~ instance web for local: 1, priority 0 -> 2, priority 0\n"),
        "{diff}"
    );
    served.run(&["apply", "two.yaml"]).ok();
    let back = served.run(&["rollback", "--dry-run"]).ok().stdout;
    assert!(back.contains("2, priority 0 -> 1, priority 0"), "{back}");
    served.run(&["rollback", "-w"]).ok();
    let desired = served.run(&["get", "desired"]).ok().stdout;
    let layout = fs::canonicalize(served.site.path(""))
        .expect("there")
        .join("web.tar");
    assert!(
        desired.contains(layout.to_str().expect("text")),
        "paths are absolute: {desired}"
    );
    assert_eq!(
        served
            .run(&["rollback", "--list", "-o", "json"])
            .json()
            .as_array()
            .map(Vec::len),
        Some(3)
    );

    served
        .run(&["explain", "web"])
        .refused(4, &["the Unit refused: instance web:local:0 is not wanted"]);
    served
        .run(&["node", "pause", "nobody"])
        .refused(4, &["there is no node nobody"]);
    assert_eq!(
        served.run(&["logs", "--node", "main"]).ok().stdout,
        "hello\n"
    );
    let events = served.run(&["events", "-o", "json"]).json();
    assert!(
        events.as_array().is_some_and(|it| !it.is_empty()),
        "{events}"
    );
}

#[test]
fn operators_come_from_afar_and_others_are_turned_away() {
    let served = Served::new();
    let nodes = served.run_as("desk-operator", &["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.ok().stdout, "main\n");
    served
        .run_as("main-sm", &["get", "nodes"])
        .refused(3, &["the Unit refused"]);
    // A server that is no Communication Manager is not talked to.
    let other = Served::new();
    let mut command = served.site.command(&[
        "status",
        "--unit",
        &format!("https://127.0.0.1:{}", other.port),
    ]);
    command
        .env("MUSTER_CA", served.site.path("ca.pem"))
        .env("MUSTER_CERT", served.site.path("desk-operator.crt.pem"))
        .env("MUSTER_KEY", served.site.path("desk-operator.key.pem"));
    run(&mut command).refused(5, &["GetOverview"]);
}
