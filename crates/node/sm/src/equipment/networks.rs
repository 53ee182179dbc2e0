//! Networks and traffic: one part, since what has an address is counted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use muster_alert::AlertSink;
use muster_api::domain::{Alert, AlertKind, AosCode, InstanceIdent, InstanceInfo, Timestamp};
use muster_api::servicemanager::v5 as wire;
use muster_firewall::{Firewall, FirewallError};
use muster_item::ItemConfig;
use muster_launcher::seams::{InstalledImage, Network, SeamError};
use muster_network::{NetworkManager, NetworkSettings, OpenNetworksError};
use muster_runtime::NetworkAttachment;
use muster_store::Store;
use muster_telemetry::{ErrorChain, Shutdown, TaskSet};
use muster_traffic::{Limits, OpenTrafficError, Traffic};

use crate::config::Config;
use crate::config::parts::NetworkMode;
use crate::seams::Networks;

/// The plugin that every network of an instance begins with.
const BRIDGE: &str = "bridge";
/// The plugin of Muster's own.
const FIREWALL: &str = "muster-firewall";
/// Where the node's own name servers stand.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Why a node has no networks although it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkPartError {
    #[error("no packet filter can be used")]
    Firewall(#[source] FirewallError),
    #[error("the plugin {plugin} is in none of the folders {}", listed(folders))]
    Plugin {
        plugin: &'static str,
        folders: Vec<PathBuf>,
    },
    #[error("cannot take over the networks of this node")]
    Networks(#[source] OpenNetworksError),
    #[error("cannot count traffic")]
    Traffic(#[source] OpenTrafficError),
}

fn listed(folders: &[PathBuf]) -> String {
    let names = folders.iter().map(|it| it.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}

/// The networks of the node, or why it has none.
#[derive(Debug)]
pub(crate) enum NodeNetworks {
    On {
        manager: NetworkManager,
        traffic: Traffic,
        alerts: Arc<dyn AlertSink>,
    },
    Off {
        why: String,
    },
    /// Instances use the machine's own.
    Host,
}

impl NodeNetworks {
    pub(crate) async fn open(
        config: &Config,
        store: &Store,
        alerts: Arc<dyn AlertSink>,
        tasks: &mut TaskSet,
        shutdown: &Shutdown,
    ) -> Result<Self, NetworkPartError> {
        let mode = config.parts.network.mode;
        match mode {
            NetworkMode::Off => {
                return Ok(Self::Off {
                    why: "its configuration says so".into(),
                });
            }
            NetworkMode::Host => return Ok(Self::Host),
            NetworkMode::Auto | NetworkMode::On => {}
        }
        let settings = settings(config);
        // Asks programs, while nothing else runs yet.
        let firewall = match prerequisites(&settings) {
            Ok(firewall) => firewall,
            Err(missing) if mode == NetworkMode::Auto => {
                let why = ErrorChain(&missing).to_string();
                tracing::warn!(why, "this node has no networks for instances");
                return Ok(Self::Off { why });
            }
            Err(missing) => return Err(missing),
        };
        tracing::info!(backend = firewall.backend_name(), "networks");
        let opened = NetworkManager::open(settings, store.clone()).await;
        let (manager, task) = opened.map_err(NetworkPartError::Networks)?;
        tasks.spawn_until_shutdown("networks", task);
        let settings = muster_traffic::Settings::default();
        let opened = Traffic::open(store.clone(), firewall, settings).await;
        let (traffic, task) = opened.map_err(NetworkPartError::Traffic)?;
        tasks.spawn("traffic", task.run(shutdown.token()));
        Ok(Self::On {
            manager,
            traffic,
            alerts,
        })
    }

    pub(crate) fn traffic(&self) -> Option<Traffic> {
        match self {
            Self::On { traffic, .. } => Some(traffic.clone()),
            Self::Off { .. } | Self::Host => None,
        }
    }
}

fn settings(config: &Config) -> NetworkSettings {
    let network = &config.parts.network;
    let own = || {
        let program = std::env::current_exe().ok()?;
        program.parent().map(Path::to_owned)
    };
    let programs = config.program_dir.clone().or_else(own).unwrap_or_default();
    let mut settings = NetworkSettings::new(programs, config.runtime_dir.join("network"));
    if !network.plugin_dirs.is_empty() {
        settings.plugin_folders.clone_from(&network.plugin_dirs);
    }
    settings.uplink.clone_from(&network.uplink);
    settings
        .untagged_uplinks
        .clone_from(&network.untagged_uplinks);
    settings.same_subnet = network.same_subnet;
    if let Some(timeout) = network.plugin_timeout {
        settings.plugin_timeout = timeout;
    }
    let resolv_conf = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    settings.upstream_name_servers = muster_dns::upstreams(&resolv_conf);
    settings
}

/// What networks cannot do without.
fn prerequisites(settings: &NetworkSettings) -> Result<Firewall, NetworkPartError> {
    let own = [settings.program_folder.clone()];
    for (plugin, folders) in [
        (BRIDGE, settings.plugin_folders.as_slice()),
        (FIREWALL, own.as_slice()),
    ] {
        if !folders.iter().any(|it| it.join(plugin).is_file()) {
            return Err(NetworkPartError::Plugin {
                plugin,
                folders: folders.to_owned(),
            });
        }
    }
    Firewall::detect().map_err(NetworkPartError::Firewall)
}

/// What an item may exchange with the outside in a day.
pub(super) fn limits(item: &ItemConfig) -> Limits {
    if item.skip_resource_limits {
        return Limits::default();
    }
    Limits {
        daily_download: item.quotas.download_limit,
        daily_upload: item.quotas.upload_limit,
        ..Limits::default()
    }
}

impl Network for NodeNetworks {
    fn keep_only(&self, instances: BTreeSet<InstanceIdent>) -> BoxFuture<'_, ()> {
        match self {
            Self::On { manager, .. } => manager.keep_only(instances),
            Self::Off { .. } | Self::Host => Box::pin(async {}),
        }
    }

    fn attach<'a>(
        &'a self,
        info: &'a InstanceInfo,
        image: &'a InstalledImage,
    ) -> BoxFuture<'a, Result<Option<NetworkAttachment>, SeamError>> {
        Box::pin(async move {
            let (manager, traffic) = match self {
                Self::On {
                    manager, traffic, ..
                } => (manager, traffic),
                Self::Host => return Ok(None),
                Self::Off { .. } if info.network.is_none() => return Ok(None),
                Self::Off { why } => {
                    let error = format!("this node has no networks: {why}");
                    return Err(SeamError::new(AosCode::NotSupported, error));
                }
            };
            let Some(attachment) = manager.attach(info, image).await? else {
                return Ok(None);
            };
            // Counted from the first packet on: nothing of the instance runs yet.
            let metered = traffic.add_instance(
                &info.instance,
                attachment.address,
                limits(&image.item_config),
            );
            if let Err(error) = metered.await {
                if let Err(left) = manager.detach(&info.instance).await {
                    tracing::warn!(instance = %info.instance, error = %ErrorChain(&*left.source), "a failed network left something behind");
                }
                return Err(SeamError::new(AosCode::Failed, error));
            }
            Ok(Some(attachment))
        })
    }

    fn detach<'a>(&'a self, instance: &'a InstanceIdent) -> BoxFuture<'a, Result<(), SeamError>> {
        Box::pin(async move {
            let Self::On {
                manager, traffic, ..
            } = self
            else {
                return Ok(());
            };
            let unmetered = traffic.remove_instance(instance).await;
            manager.detach(instance).await?;
            unmetered.map_err(|error| SeamError::new(AosCode::Failed, error))
        })
    }
}

impl Networks for NodeNetworks {
    fn update(&self, networks: wire::UpdateNetworks) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match self {
                Self::On {
                    manager, alerts, ..
                } => {
                    if let Err(error) = manager.update(networks.networks).await {
                        let message = format!("networks: {}", ErrorChain(&error));
                        tracing::error!(error = %ErrorChain(&error), "not all networks are as they should be");
                        // A clock outside of all calendars: the log has it.
                        if let Ok(timestamp) = Timestamp::try_from(SystemTime::now()) {
                            let kind = AlertKind::System { message };
                            alerts.raise(Alert { timestamp, kind });
                        }
                    }
                }
                Self::Off { why } if !networks.networks.is_empty() => {
                    let count = networks.networks.len();
                    tracing::warn!(count, why, "networks are not made: this node has none");
                }
                // What the Unit plans for others does not concern the machine's own network.
                Self::Off { .. } | Self::Host => {}
            }
        })
    }
}
