//! A Unit's end of the link, in a folder of its own.

use std::path::Path;
use std::time::Duration;

use muster_cloud::testing::TestCloud;
use muster_cloud::{Access, CloudLink, ConnectionState, Delivery, SCHEMA, Settings, Started};
use muster_store::{OnDamage, Store, StoreConfig};
use muster_tls::{Alpn, ClientOptions, ClientTls, Insecure};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub(crate) const SYSTEM: &str = "unit-1";

/// Nothing honest takes as long.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Unit {
    pub(crate) link: CloudLink,
    pub(crate) deliveries: mpsc::Receiver<Delivery>,
    worker: JoinHandle<()>,
    store: Store,
    pub(crate) folder: TempDir,
}

/// Short times, so that tests are quick.
pub(crate) fn settings(cloud: &TestCloud) -> Settings {
    Settings {
        response_timeout: Duration::from_millis(300),
        request_timeout: LONG,
        pauses: (Duration::from_millis(10), Duration::from_millis(50)),
        status_period: Duration::from_millis(20),
        alerts_period: Duration::from_millis(20),
        monitoring_period: Duration::from_millis(20),
        monitoring_kept_after: Duration::from_millis(10),
        ..Settings::new(cloud.discovery())
    }
}

pub(crate) fn plain() -> ClientTls {
    let reason = Insecure::because("a cloud on loopback").expect("a reason");
    ClientTls::insecure(&reason, options())
}

pub(crate) fn options() -> ClientOptions {
    ClientOptions {
        alpn: Alpn::Http1,
        ..ClientOptions::default()
    }
}

pub(crate) fn open(folder: &Path) -> Store {
    let config = StoreConfig::new(folder.join("cm.db"), "test", OnDamage::Refuse);
    Store::open(&config.schema(&SCHEMA))
        .expect("a database")
        .store
}

impl Unit {
    pub(crate) async fn start(settings: Settings, tls: ClientTls) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::start_in(folder, settings, tls).await
    }

    pub(crate) async fn start_in(folder: TempDir, settings: Settings, tls: ClientTls) -> Self {
        let store = open(folder.path());
        let started = CloudLink::start(settings, store.clone()).await;
        let Started {
            link,
            deliveries,
            worker,
        } = started.expect("a link");
        let access = Access {
            system_id: SYSTEM.to_owned(),
            node: "main".to_owned(),
            tls,
        };
        Self {
            link,
            deliveries,
            worker: tokio::spawn(worker.run(std::future::ready(access))),
            store,
            folder,
        }
    }

    /// Ends it in the middle of whatever it does; its folder stays.
    pub(crate) async fn stop(self) -> TempDir {
        self.worker.abort();
        let _aborted = self.worker.await;
        drop((self.link, self.deliveries));
        self.store.close().await.expect("closed");
        self.folder
    }

    pub(crate) async fn connected(&self) {
        let mut connection = self.link.connection();
        let state = connection.wait_for(|it| *it == ConnectionState::Connected);
        let state = tokio::time::timeout(LONG, state).await;
        state.expect("in time").expect("the link runs");
    }

    pub(crate) async fn delivery(&mut self) -> Delivery {
        let delivery = tokio::time::timeout(LONG, self.deliveries.recv()).await;
        delivery.expect("in time").expect("the link runs")
    }

    /// Waits until nothing waits for the cloud.
    pub(crate) async fn drained(&self) {
        let deadline = tokio::time::Instant::now() + LONG;
        while self.link.kept().await.expect("a count") > 0 {
            assert!(tokio::time::Instant::now() < deadline, "it is not taken");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
