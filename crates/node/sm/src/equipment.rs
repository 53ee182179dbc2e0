//! What a node has beside its instances: networks, traffic, measurements, alerts, logs, resources, its configuration.
//!
//! Opened in two steps, because some parts are needed by the launcher and others need it: [`Equipment::open`] before it, then
//! [`Equipment::begin`] with the directory of its instances and the stream to the controller.

mod networks;
mod telling;
mod watching;

use std::sync::Arc;

use muster_alert::{AlertSink, Alerts, JournalSettingsError, OpenAlertsError};
use muster_api::domain::{NodeInfo, ResourceInfo};
use muster_config::Limits;
use muster_launcher::{Directory, Observer};
use muster_logs::LogCollector;
use muster_monitor::{Monitor, MonitorHandle, NodeProfile, SystemClock, UseMetrics};
use muster_node_config::{Identity, NodeConfigKeeper, StartNodeConfigError};
use muster_resource::{ResourceManager, StartResourcesError};
use muster_rpc::{Spool, StreamHandle};
use muster_store::{Store, StoreConfig};
use muster_telemetry::prometheus_client::registry::Registry;
use muster_telemetry::{LogMetrics, MetricsServer, ServeMetricsError, Shutdown, TaskSet};
use tokio::sync::watch;

pub(crate) use self::networks::NetworkPartError;
use self::networks::NodeNetworks;
use self::watching::{Counted, Units, Watcher};
use crate::config::Config;
use crate::controller::SmProtocol;
use crate::seams;

/// Why a part cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EquipmentError {
    #[error("cannot keep alerts")]
    Alerts(#[source] OpenAlertsError),
    #[error("cannot use the settings of journal alerts")]
    Journal(#[source] JournalSettingsError),
    #[error("cannot keep the node's configuration")]
    NodeConfig(#[source] StartNodeConfigError),
    #[error("cannot give out resources")]
    Resources(#[source] StartResourcesError),
    #[error("cannot have networks")]
    Network(#[source] NetworkPartError),
    #[error("cannot serve metrics")]
    Metrics(#[source] ServeMetricsError),
}

/// The tables of all parts.
pub(crate) fn schemas(config: StoreConfig) -> StoreConfig {
    config
        .schema(&muster_store::spool::SCHEMA)
        .schema(&muster_alert::SCHEMA)
        .schema(&muster_node_config::SCHEMA)
        .schema(&muster_resource::SCHEMA)
        .schema(&muster_network::SCHEMA)
        .schema(&muster_traffic::SCHEMA)
}

/// All parts, running as far as they can without the launcher.
#[derive(Debug)]
pub(crate) struct Equipment {
    config: crate::config::parts::PartsConfig,
    alerts: Alerts,
    node_config: NodeConfigKeeper,
    resources: ResourceManager,
    networks: Arc<NodeNetworks>,
    monitor: MonitorHandle,
    watcher: Arc<Watcher>,
}

impl Equipment {
    /// Opens every part and spawns what runs by itself.
    pub(crate) async fn open(
        config: &Config,
        node: &NodeInfo,
        store: &Store,
        tasks: &mut TaskSet,
        shutdown: &Shutdown,
    ) -> Result<Self, EquipmentError> {
        let parts = config.parts.clone();
        let alerts = Alerts::open(store.clone(), parts.alerts.clone()).await;
        let alerts = alerts.map_err(EquipmentError::Alerts)?;
        let sink: Arc<dyn AlertSink> = Arc::new(alerts.handle());

        let mut settings = muster_node_config::Settings::new(Identity {
            node_id: node.node_id.clone(),
            node_type: node.node_type.clone(),
        });
        settings.limits = Limits::default();
        let started = NodeConfigKeeper::start(store.clone(), settings).await;
        let (node_config, task) = started.map_err(EquipmentError::NodeConfig)?;
        tasks.spawn_until_shutdown("node configuration", task);

        let settings = muster_resource::Settings::new(&parts.resources);
        let started = ResourceManager::start(store.clone(), settings, Arc::clone(&sink)).await;
        let (resources, task) = started.map_err(EquipmentError::Resources)?;
        tasks.spawn_until_shutdown("resources", task);

        let networks = NodeNetworks::open(config, store, Arc::clone(&sink), tasks, shutdown).await;
        let networks = Arc::new(networks.map_err(EquipmentError::Network)?);

        let counted = Arc::new(Counted(networks.traffic()));
        let clock = Arc::new(SystemClock);
        let profile = NodeProfile::of(node);
        let (monitor, task) = Monitor::new(parts.monitor, profile, counted, sink, clock);
        tasks.spawn_until_shutdown("monitoring", task.run());
        tasks.spawn_until_shutdown(
            "alert rules of the node",
            telling::follow_rules(node_config.subscribe(), monitor.clone()),
        );
        let (watcher, metering) = Watcher::new(config, monitor.clone(), networks.traffic());
        tasks.spawn_until_shutdown("meters of instances", metering);
        if let Some(address) = &parts.metrics {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(UseMetrics::new(monitor.clone())));
            registry.register_collector(Box::new(LogMetrics::default()));
            let server = MetricsServer::bind(address, Arc::new(registry)).await;
            let server = server.map_err(EquipmentError::Metrics)?;
            tasks.spawn_until_shutdown("metrics", server.serve(shutdown.token()));
        }
        Ok(Self {
            config: parts,
            alerts,
            node_config,
            resources,
            networks,
            monitor,
            watcher: Arc::new(watcher),
        })
    }

    /// For the launcher.
    pub(crate) fn network(&self) -> Arc<dyn muster_launcher::seams::Network> {
        self.networks.clone()
    }

    /// For the launcher.
    pub(crate) fn resources(&self) -> Arc<dyn muster_launcher::seams::Resources> {
        Arc::new(self.resources.clone())
    }

    /// For the launcher.
    pub(crate) fn observers(&self) -> Vec<Arc<dyn Observer>> {
        vec![self.watcher.clone()]
    }

    /// What the node announces, as it changes.
    pub(crate) fn announced(&self) -> watch::Receiver<Vec<ResourceInfo>> {
        self.resources.subscribe()
    }

    /// Alerts that wait for the controller.
    pub(crate) fn spool(&self) -> Arc<dyn Spool> {
        Arc::new(telling::AlertSpool(self.alerts.outbox()))
    }

    /// Who carries out the controller's commands.
    pub(crate) fn seams(&self, directory: &Directory) -> Seams {
        let units = Arc::new(Units(directory.clone()));
        Seams {
            node_config: Arc::new(self.node_config.clone()),
            monitoring: Arc::new(self.monitor.clone()),
            logs: Arc::new(LogCollector::new(self.config.logs.clone(), units)),
            networks: self.networks.clone(),
        }
    }

    /// Follows the journal and tells the controller from now on.
    pub(crate) fn begin(
        self,
        directory: &Directory,
        stream: &StreamHandle<SmProtocol>,
        tasks: &mut TaskSet,
        shutdown: &Shutdown,
    ) -> Result<(), EquipmentError> {
        let units = Arc::new(Units(directory.clone()));
        let journal = self.alerts.journal(self.config.journal, units);
        let journal = journal.map_err(EquipmentError::Journal)?;
        let news = self.alerts.outbox().news();
        tasks.spawn("journal", journal.run(shutdown.token()));
        tasks.spawn("alerts", self.alerts.run(shutdown.token()));
        tasks.spawn_until_shutdown("news of alerts", telling::offer(news, stream.clone()));
        tasks.spawn_until_shutdown(
            "measurements",
            telling::measurements(self.monitor.subscribe(), stream.clone()),
        );
        Ok(())
    }
}

/// What the link to the controller is given.
pub(crate) struct Seams {
    pub(crate) node_config: Arc<dyn seams::NodeConfig>,
    pub(crate) monitoring: Arc<dyn seams::Monitoring>,
    pub(crate) logs: Arc<dyn seams::Logs>,
    pub(crate) networks: Arc<dyn seams::Networks>,
}
