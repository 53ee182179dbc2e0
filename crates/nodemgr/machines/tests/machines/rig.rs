//! A registry on a simulated cloud, with a clock that tests set.

use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::{Moment, State};
use muster_machines::{MachineOrder, Machines, Parts, Record, SCHEMA, Settings, testing};
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::testing::ManualClock;
use muster_provider::{MachineId, MachineSpec, ManagerId, Provider, ProviderId};
use muster_seed::ManagerKeys;
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(crate) use muster_machines::testing::{eventually, in_time};

pub(crate) const MANAGER: &str = "manager";
pub(crate) const SECRET: [u8; 32] = [5; 32];

/// Fast, so that a test need not wait.
pub(crate) fn quick() -> Settings {
    Settings {
        poll: Duration::from_millis(1),
        sweep: Duration::from_millis(20),
        retry: Duration::from_millis(1),
        retry_longest: Duration::from_millis(4),
        settle: Duration::ZERO,
        ..Settings::default()
    }
}

/// What outlives a manager.
pub(crate) struct World {
    folder: TempDir,
    pub(crate) cloud: SimCloud,
    pub(crate) clock: Arc<ManualClock>,
}

/// A manager.
pub(crate) struct Manager {
    pub(crate) machines: Machines,
    store: Store,
    task: JoinHandle<()>,
    ticker: JoinHandle<()>,
}

/// The time of day goes on by itself, a millisecond at a time, so that what is timed by the manual clock happens.
async fn tick(clock: Arc<ManualClock>) {
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        clock.advance(Duration::from_millis(1));
    }
}

impl World {
    pub(crate) fn new(settings: SimSettings) -> Self {
        let clock = Arc::new(ManualClock::new(Moment::from_millis(1_000_000)));
        Self {
            folder: tempfile::tempdir().unwrap(),
            cloud: SimCloud::with_clock(settings, clock.clone()),
            clock,
        }
    }

    pub(crate) async fn start(&self) -> Manager {
        self.start_with(quick()).await
    }

    pub(crate) async fn start_with(&self, settings: Settings) -> Manager {
        self.start_beside(settings, None).await
    }

    /// With one more provider.
    pub(crate) async fn start_beside(
        &self,
        settings: Settings,
        other: Option<Arc<dyn Provider>>,
    ) -> Manager {
        let path = self.folder.path().join("state/machines.db");
        let config = StoreConfig::new(path, "test", OnDamage::Refuse).schema(&SCHEMA);
        let store = Store::open(&config).unwrap().store;
        let parts = Parts {
            store: store.clone(),
            manager: ManagerId::new(MANAGER).unwrap(),
            providers: [
                Arc::new(self.cloud.provider()) as Arc<dyn Provider>,
                Arc::new(muster_provider::local::LocalProvider::new()),
            ]
            .into_iter()
            .chain(other)
            .collect(),
            clock: self.clock.clone(),
            keys: Some(Arc::new(ManagerKeys::from_secret(&SECRET))),
        };
        let (machines, task) = Machines::start(parts, settings).await.unwrap();
        Manager {
            machines,
            store,
            task: tokio::spawn(task),
            ticker: tokio::spawn(tick(self.clock.clone())),
        }
    }

    /// Removes what the manager knows, as a lost disk does.
    pub(crate) fn lose_database(&self) {
        std::fs::remove_dir_all(self.folder.path().join("state")).unwrap();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.ticker.abort();
        self.task.abort();
    }
}

impl Manager {
    /// Ends it in the middle of whatever it does.
    pub(crate) async fn die(self) {
        self.task.abort();
        self.ticker.abort();
        let store = self.store.clone();
        drop(self);
        store.close().await.unwrap();
    }

    pub(crate) async fn running(&self) -> MachineId {
        self.made(order()).await
    }

    pub(crate) async fn made(&self, order: MachineOrder) -> MachineId {
        let record = in_time(self.machines.provision(order)).await.unwrap();
        record.id.clone()
    }

    pub(crate) async fn wait(&self, id: &MachineId, state: State) -> Arc<Record> {
        let reached = self.machines.wait_until(id, |it| it == state);
        in_time(reached).await.unwrap()
    }

    pub(crate) fn state(&self, id: &MachineId) -> State {
        self.machines.get(id).unwrap().record().state()
    }

    /// Waits until something holds of all machines.
    pub(crate) async fn wait_for(
        &self,
        holds: impl FnMut(&Arc<muster_machines::Snapshot>) -> bool,
    ) {
        let mut watch = self.machines.watch();
        in_time(watch.wait_for(holds)).await.unwrap();
    }
}

pub(crate) fn order() -> MachineOrder {
    testing::order(ProviderId::Sim, MachineSpec::default(), None)
}
