//! A folder with a database and a resources file, and managers over it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_alert::AlertSink;
use muster_api::domain::{Alert, AlertKind, InstanceIdent, ItemId, ItemType, SubjectId};
use muster_item::{ItemConfig, ResourceRequest};
use muster_launcher::seams::{Resources as _, SeamError};
use muster_resource::{ResourceManager, SCHEMA, Settings};
use muster_runtime::ResourceGrant;
use muster_store::testing::Weakness;
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;

const TIME: Duration = Duration::from_secs(20);

pub(crate) fn instance(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

pub(crate) fn item(names: &[&str]) -> ItemConfig {
    let request = |name: &&str| ResourceRequest {
        name: (*name).to_owned(),
        mode: None,
    };
    ItemConfig {
        resources: names.iter().map(request).collect(),
        ..ItemConfig::default()
    }
}

#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<(InstanceIdent, String, String)>>);

impl AlertSink for Recorder {
    fn raise(&self, alert: Alert) {
        let AlertKind::ResourceAllocate {
            instance,
            resource,
            message,
        } = alert.kind
        else {
            panic!("{alert:?}")
        };
        self.0
            .lock()
            .expect("the alerts")
            .push((instance, resource, message));
    }
}

pub(crate) struct Rig {
    folder: TempDir,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("resources.json")
    }

    /// Writes the resources file in place.
    pub(crate) fn describe(&self, text: &str) {
        fs::write(self.file(), text).expect("the resources file");
    }

    /// Writes another file and gives it the name.
    pub(crate) fn replace_atomically(&self, text: &str) {
        let new = self.path().join("resources.json.new");
        fs::write(&new, text).expect("a file");
        fs::rename(new, self.file()).expect("the name");
    }

    /// A manager that knows that the instances below 100 are there.
    pub(crate) async fn start(&self) -> Node {
        let node = self.start_unsorted().await;
        let instances = (0..100).map(instance).collect();
        node.manager.keep_only(instances).await;
        node
    }

    /// A manager that does not know yet which instances are there.
    pub(crate) async fn start_unsorted(&self) -> Node {
        // These tests are about content; durability has tests of its own.
        let config = StoreConfig::new(self.path().join("db/sm.db"), "test 1", OnDamage::Refuse)
            .schema(&SCHEMA)
            .weakened(Weakness::NoFlush);
        let store = Store::open(&config).expect("the store").store;
        let alerts = Arc::new(Recorder::default());
        let settings = Settings {
            settle: Duration::from_millis(10),
            ..Settings::new(self.file())
        };
        let started = ResourceManager::start(store.clone(), settings, alerts.clone()).await;
        let (manager, task) = started.expect("a manager");
        Node {
            manager,
            store,
            alerts,
            task: tokio::spawn(task),
        }
    }
}

pub(crate) struct Node {
    pub(crate) manager: ResourceManager,
    pub(crate) store: Store,
    alerts: Arc<Recorder>,
    task: JoinHandle<()>,
}

impl Node {
    pub(crate) async fn take(
        &self,
        number: u64,
        names: &[&str],
    ) -> Result<Vec<ResourceGrant>, SeamError> {
        self.manager.take(&instance(number), &item(names)).await
    }

    pub(crate) async fn take_with_mode(
        &self,
        number: u64,
        name: &str,
        mode: &str,
    ) -> Result<Vec<ResourceGrant>, SeamError> {
        let mut item = item(&[name]);
        item.resources[0].mode = Some(mode.to_owned());
        self.manager.take(&instance(number), &item).await
    }

    /// The alerts since the last call.
    pub(crate) fn alerts(&self) -> Vec<(InstanceIdent, String, String)> {
        std::mem::take(&mut self.alerts.0.lock().expect("the alerts"))
    }

    /// Names of what is announced.
    pub(crate) fn names(&self) -> Vec<String> {
        let announced = self.manager.resources();
        announced.iter().map(|it| it.name().to_owned()).collect()
    }

    /// Waits until exactly these are announced, and everything that comes with it has been done.
    pub(crate) async fn until(&self, names: &[&str]) {
        let mut announced = self.manager.subscribe();
        let waiting = async {
            while self.names() != names {
                announced.changed().await.expect("the manager lives");
            }
            // Answered when the task is back at its queue.
            self.manager
                .release(&instance(u64::MAX))
                .await
                .expect("nothing to release");
        };
        let waited = tokio::time::timeout(TIME, waiting).await;
        waited.unwrap_or_else(|_| panic!("{names:?} announced, found {:?}", self.names()));
    }

    pub(crate) async fn stop(self) {
        let store = self.store.clone();
        self.stop_dirty().await;
        store.close().await.expect("a clean close");
    }

    /// Leaves the store as it is.
    pub(crate) async fn stop_dirty(self) {
        drop(self.manager);
        self.task.await.expect("the task ends with its last handle");
    }

    pub(crate) async fn abort(&self) {
        self.task.abort();
        while !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
