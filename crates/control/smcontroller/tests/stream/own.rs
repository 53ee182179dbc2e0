//! Muster's own service manager at the other end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::domain::{
    ConnectionState, Digest, InstanceInfo, NodeConfigState, NodeConfigStatus, SmInfo,
};
use muster_api::servicemanager::v5 as wire;
use muster_lab::proxy::TcpProxy;
use muster_launcher::seams::{Absent as NoPart, Images, InstalledImage, SeamError};
use muster_launcher::{Launcher, Parts, SCHEMA};
use muster_rpc::{StreamConfig, Target};
use muster_sm::seams::{LogRequest, Logs, Monitoring, Networks, NodeConfig};
use muster_sm::{ControllerLink, Services};
use muster_smcontroller::{InstanceRunner as _, LogProvider as _, LogQuery, NodeConfigs as _};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::rig::*;

#[derive(Debug)]
struct NoImages;

impl Images for NoImages {
    fn install(&self, _: Digest) -> BoxFuture<'_, Result<InstalledImage, SeamError>> {
        unreachable!("there is no runtime to install for")
    }

    fn installed(&self, _: Digest) -> BoxFuture<'_, Option<InstalledImage>> {
        Box::pin(async { None })
    }

    fn keep(&self, _: BTreeSet<Digest>) {}
}

/// Parts of the node that answer in a way that can be told from silence.
#[derive(Debug)]
struct Answers;

impl Answers {
    fn config(version: String) -> BoxFuture<'static, NodeConfigStatus> {
        Box::pin(async {
            NodeConfigStatus {
                state: NodeConfigState::Installed,
                version,
                error: None,
            }
        })
    }
}

impl NodeConfig for Answers {
    fn status(&self) -> BoxFuture<'_, NodeConfigStatus> {
        Self::config("1.0.0".into())
    }

    fn check(&self, version: String, _: String) -> BoxFuture<'_, NodeConfigStatus> {
        Self::config(version)
    }

    fn set(&self, version: String, _: String) -> BoxFuture<'_, NodeConfigStatus> {
        Self::config(version)
    }
}

impl Monitoring for Answers {
    fn average(&self) -> BoxFuture<'_, wire::AverageMonitoring> {
        Box::pin(async { wire::AverageMonitoring::default() })
    }
}

impl Logs for Answers {
    fn collect(
        &self,
        request: LogRequest,
        parts: mpsc::Sender<wire::LogData>,
    ) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let part = wire::LogData {
                correlation_id: request.correlation_id().to_owned(),
                part: 1,
                ..Default::default()
            };
            let _ = parts.send(part).await;
        })
    }
}

impl Networks for Answers {
    fn update(&self, _: wire::UpdateNetworks) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A service manager without runtimes: every instance fails, and that is reported.
async fn manager(site: &Site, address: std::net::SocketAddr, folder: &TempDir) -> ControllerLink {
    let config = StoreConfig::new(folder.path().join("sm.db"), "test", OnDamage::Refuse);
    let store = Store::open(&config.schema(&SCHEMA)).unwrap().store;
    let parts = Parts {
        store,
        runtimes: Vec::new(),
        images: Arc::new(NoImages),
        permissions: Arc::new(NoPart),
        network: Arc::new(NoPart),
        resources: Arc::new(NoPart),
        observers: Vec::new(),
        state_folder: folder.path().join("state"),
        storage_folder: folder.path().join("storage"),
    };
    let limits = muster_launcher::Limits::default();
    let (launcher, reports, task) = Launcher::start(parts, limits).await.unwrap();
    tokio::spawn(task);
    let services = Services {
        launcher,
        node_config: Arc::new(Answers),
        monitoring: Arc::new(Answers),
        logs: Arc::new(Answers),
        networks: Arc::new(Answers),
    };
    let tls = site.client_tls("node", "sm").await;
    let target = Target::new(tls, &address.to_string()).unwrap();
    let info = SmInfo {
        node_id: id("node"),
        runtimes: Vec::new(),
        resources: Vec::new(),
    };
    let mut config = StreamConfig::default();
    config.limits.backoff.floor = Duration::from_millis(10);
    config.limits.backoff.first = Duration::from_millis(30);
    let (_, info) = watch::channel(info);
    ControllerLink::start(target, config, info, services, reports, None)
}

fn wanted(item: &str) -> InstanceInfo {
    let wire = wire::InstanceInfo {
        instance: instance(item, "active").instance,
        version: "1.0.0".into(),
        manifest_digest: format!("sha256:{}", "0".repeat(64)),
        runtime_id: "nowhere".into(),
        uid: 5000,
        gid: 5000,
        ..Default::default()
    };
    wire.try_into().unwrap()
}

#[tokio::test]
async fn our_own_service_manager_registers_obeys_and_comes_back() {
    let mut site = Site::new(quick()).await;
    let folder = tempfile::tempdir().unwrap();
    let proxy = TcpProxy::new(site.address()).unwrap();
    let link = manager(&site, proxy.addr(), &folder).await;
    site.wait_for(&Event::Connected("node".into())).await;
    site.cloud.send_replace(ConnectionState::Connected);
    let mut cloud = link.cloud();
    let connected = cloud.wait_for(|state| *state == ConnectionState::Connected);
    timeout(TIME, connected).await.unwrap().unwrap();

    let (node, control) = (id("node"), site.controller.clone());
    let set = vec![wanted("one"), wanted("two")];
    control
        .update_instances(&node, set, Vec::new())
        .await
        .unwrap();
    let all = Event::All(
        "node".into(),
        vec!["one Failed".into(), "two Failed".into()],
    );
    site.wait_for(&all).await;
    let status = control.node_config_status(&node).await.unwrap();
    assert_eq!(status.version, "1.0.0");
    let query = LogQuery {
        correlation_id: "7".into(),
        from: None,
        till: None,
    };
    control.system_log(&node, query).await.unwrap();
    site.wait_for(&Event::Log("node".into(), 1)).await;

    // The connection breaks: the next stream begins with the same picture.
    proxy.reset();
    site.wait_for(&Event::gone("node")).await;
    site.wait_for(&Event::Connected("node".into())).await;
    site.wait_for(&all).await;
    link.stop().await;
    site.wait_for(&Event::gone("node")).await;
    site.end().await;
}
