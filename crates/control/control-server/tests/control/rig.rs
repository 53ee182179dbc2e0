//! A server with a fake behind it, on a socket in a folder of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{
    InstanceIdent, InstanceState, InstanceStatus, ItemType, NodeId, NodeInfo, NodeState, OsInfo,
    RuntimeId, RuntimeInfo, SmInfo,
};
use muster_control_api::v1;
use muster_control_api::v1::control_service_client::ControlServiceClient;
use muster_control_server::{
    Access, ControlServer, ControlSocket, History, HistoryLimits, Limits, Parts, SCHEMA, UnitAbout,
    UnitView,
};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use v1::watch_event::Event;

use crate::fake::Fake;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);

pub(crate) type Client = ControlServiceClient<Channel>;

pub(crate) struct Rig {
    pub(crate) folder: TempDir,
    pub(crate) view: UnitView,
    pub(crate) fake: Arc<Fake>,
    pub(crate) server: ControlServer,
    pub(crate) socket: ControlSocket,
    store: Store,
    history: JoinHandle<()>,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    pub(crate) async fn with(limits: Limits) -> Self {
        Self::start(tempfile::tempdir().unwrap(), limits, Access::local_only()).await
    }

    pub(crate) async fn start(folder: TempDir, limits: Limits, access: Access) -> Self {
        let path = folder.path().join("servicemanager.db");
        let config = StoreConfig::new(path, "test", OnDamage::Refuse).schema(&SCHEMA);
        let store = Store::open(&config).unwrap().store;
        let opened = History::open(store.clone(), HistoryLimits::default()).await;
        let (history, task) = opened.unwrap();
        let about = UnitAbout {
            system_id: "system-1".to_owned(),
            version: "0.1.0".to_owned(),
            main_node: Some(node("n1")),
        };
        let view = UnitView::new(about, history, &limits);
        let fake = Arc::new(Fake::default());
        let parts = Parts {
            view: view.clone(),
            operations: Arc::clone(&fake) as _,
            access,
        };
        let server = ControlServer::new(parts, limits);
        let socket = server
            .serve_unix(&folder.path().join("run/control.sock"))
            .await;
        Self {
            socket: socket.unwrap(),
            folder,
            view,
            fake,
            server,
            store,
            history: tokio::spawn(task),
        }
    }

    pub(crate) async fn client(&self) -> Client {
        client(self.socket.path()).await
    }

    /// Ends the server; the folder may be started anew.
    pub(crate) async fn end(self) -> TempDir {
        timeout(TIME, self.socket.shutdown())
            .await
            .expect("it ends");
        drop((self.view, self.server));
        timeout(TIME, self.history).await.expect("it ends").unwrap();
        self.store.close().await.unwrap();
        self.folder
    }

    pub(crate) async fn flush(&self) {
        let flush = self.view.history().flush();
        timeout(TIME, flush).await.expect("it is written");
    }
}

pub(crate) async fn client(path: PathBuf) -> Client {
    let endpoint = Endpoint::try_from(format!("unix://{}", path.display())).unwrap();
    Client::new(endpoint.connect().await.unwrap())
}

/// The next message of a stream that goes on.
pub(crate) async fn next<T>(stream: &mut Streaming<T>) -> T {
    let message = timeout(TIME, stream.message()).await;
    message.expect("in time").unwrap().expect("it goes on")
}

/// Everything up to the end of a stream.
pub(crate) async fn rest<T>(mut stream: Streaming<T>) -> Vec<T> {
    let mut found = Vec::new();
    while let Some(message) = timeout(TIME, stream.message())
        .await
        .expect("in time")
        .unwrap()
    {
        found.push(message);
    }
    found
}

pub(crate) fn refused<T>(answer: Result<T, Status>, code: Code) -> String {
    let Err(status) = answer else {
        panic!("it was not refused");
    };
    assert_eq!(status.code(), code, "{status}");
    status.message().to_owned()
}

/// The next event that is not an overview.
pub(crate) async fn next_event(stream: &mut Streaming<v1::WatchEvent>) -> Event {
    loop {
        match next(stream).await.event.expect("an event") {
            Event::Overview(_) => {}
            event => return event,
        }
    }
}

pub(crate) fn node(name: &str) -> NodeId {
    name.parse().unwrap()
}

pub(crate) fn ident(item: &str, number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: item.parse().unwrap(),
        subject_id: "local".parse().unwrap(),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

pub(crate) fn node_info(name: &str) -> NodeInfo {
    NodeInfo {
        node_id: node(name),
        node_type: "board".parse().unwrap(),
        title: format!("the {name}"),
        max_dmips: 1000,
        total_ram: 4096,
        physical_ram: None,
        os_info: OsInfo::new("linux", "6.1", Vec::new()).unwrap(),
        cpus: Vec::new(),
        partitions: Vec::new(),
        attrs: [("rack".to_owned(), "7".to_owned())].into(),
        state: NodeState::Provisioned,
        error: None,
    }
}

pub(crate) fn runtime(name: &str) -> RuntimeId {
    format!("runtime-{name}").parse().unwrap()
}

pub(crate) fn sm_info(name: &str) -> SmInfo {
    let runtime = RuntimeInfo {
        runtime_id: runtime(name),
        runtime_type: "container".parse().unwrap(),
        max_dmips: None,
        allowed_dmips: None,
        total_ram: None,
        allowed_ram: None,
        max_instances: 9,
        os_info: OsInfo::new("linux", "", Vec::new()).unwrap(),
        arch_info: muster_api::domain::ArchInfo::new("amd64", "").unwrap(),
    };
    SmInfo {
        node_id: node(name),
        runtimes: vec![runtime],
        resources: Vec::new(),
    }
}

pub(crate) fn status(ident: &InstanceIdent, name: &str, state: InstanceState) -> InstanceStatus {
    InstanceStatus {
        instance: ident.clone(),
        version: "1.0.0".to_owned(),
        runtime_id: Some(runtime(name)),
        manifest_digest: None,
        env_vars: Vec::new(),
        state,
        error: None,
    }
}
