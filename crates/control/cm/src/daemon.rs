//! The daemon: puts the parts together, and takes them down again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use muster_api::domain::ConnectionState;
use muster_control_server::{
    History, HistoryError, HistoryLimits, ServeControlError, UnitAbout, UnitView,
};
use muster_desired::seams::Reports;
use muster_desired::{Progress, StartUpdatesError, Updates};
use muster_instance_data::{InstanceData, NoCloud, StateCloud};
use muster_items::{Items, ItemsSettings, OpenItemsError};
use muster_program::{Start, footprint};
use muster_smcontroller::{Limits, Parts, SmController};
use muster_store::{OnDamage, OpenStoreError, Outcome, Store, StoreConfig, StoreError};
use muster_telemetry::{ErrorChain, Notifier, Shutdown, TaskSet};
use muster_unit_config::{KeepFileError, UnitConfigManager};
use tokio::sync::{oneshot, watch};

use crate::blob_places::BlobPlaces;
use crate::cloud::{self, Around, CloudDesk, CloudPart};
use crate::config::{Config, Trust};
use crate::identity::{IamLink, LateIdentity};
use crate::nodes::{self, NodeDirectory};
use crate::operations::UnitOperations;
use crate::operators::Operators;
use crate::placement::{self, LoadBooksError, Placer};
use crate::receivers::receivers;
use crate::servers::{ServeNodesError, Servers};
use crate::switchboard::{Later, Switchboard};
use crate::unit_nodes::{Pauses, UnitNodes};
use crate::{desired_file, follow, names};

/// How long tasks get to end.
const GRACE: Duration = Duration::from_secs(10);
/// Nodes are served within this time, or it is said what is waited for.
const SERVED_SOON: Duration = Duration::from_secs(3);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// A folder cannot be made.
    #[error("cannot make the folder {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database cannot be opened.
    #[error("cannot open the database")]
    Store(#[source] Box<OpenStoreError>),
    /// What is known of nodes cannot be read.
    #[error("cannot read what is known of nodes")]
    Nodes(#[source] StoreError),
    /// Items cannot be used.
    #[error("cannot open the items")]
    Items(#[source] OpenItemsError),
    /// What instances keep cannot be used.
    #[error("cannot open what instances keep")]
    InstanceData(#[source] StoreError),
    /// What is kept for the cloud cannot be read.
    #[error("cannot open the link to the cloud")]
    Cloud(#[source] StoreError),
    /// The Unit's configuration cannot be read.
    #[error("cannot open the unit configuration")]
    UnitConfig(#[source] KeepFileError),
    /// What was given out is not known.
    #[error("cannot place instances")]
    Placement(#[source] LoadBooksError),
    /// What happened cannot be remembered.
    #[error("cannot open the history")]
    History(#[source] HistoryError),
    /// Operators cannot be served.
    #[error("cannot serve operators")]
    Operators(#[source] ServeControlError),
    /// What shall run is not known.
    #[error("cannot go on with updates")]
    Updates(#[source] StartUpdatesError),
}

async fn open_store(config: &Config) -> Result<Store, StartError> {
    for path in [&config.working_dir, &config.storage_dir, &config.state_dir] {
        fs::create_dir_all(path).map_err(|source| StartError::Folder {
            path: path.clone(),
            source,
        })?;
    }
    let owner = concat!("muster-cm ", env!("CARGO_PKG_VERSION"));
    let path = config.working_dir.join("communicationmanager.db");
    let store = StoreConfig::new(path, owner, OnDamage::StartEmpty)
        .schema(&nodes::SCHEMA)
        .schema(&cloud::SCHEMA)
        .schema(&muster_cloud::SCHEMA)
        .schema(&placement::SCHEMA)
        .schema(&desired_file::SCHEMA)
        .schema(&muster_control_server::SCHEMA)
        .schema(&muster_desired::SCHEMA)
        .schema(&muster_instance_data::SCHEMA)
        .schema(&muster_image::SCHEMA)
        .schema(&muster_items::SCHEMA);
    let opened = Store::open(&store).map_err(|error| StartError::Store(Box::new(error)))?;
    if let Outcome::SetAside { .. } = opened.outcome {
        tracing::error!(
            outcome = ?opened.outcome,
            "the database was damaged and set aside: what the Unit shall run has to be applied again"
        );
    }
    Ok(opened.store)
}

/// Opens the ports for nodes when there is a certificate, and closes them at the shutdown.
async fn serve_nodes(
    config: Config,
    identity: LateIdentity,
    controller: SmController,
    blobs: Arc<BlobPlaces>,
    blob_folder: PathBuf,
    shutdown: Shutdown,
    served: oneshot::Sender<()>,
) -> Result<(), ServeNodesError> {
    let stop = shutdown.token();
    let open = Servers::open(&config, identity, &controller, &blobs, &blob_folder);
    let Some(servers) = stop.run_until_cancelled(open).await else {
        controller.stop().await;
        return Ok(());
    };
    match servers {
        Ok(servers) => {
            // Whoever waits may have gone on.
            let _ = served.send(());
            stop.cancelled().await;
            servers.close(&controller).await;
            Ok(())
        }
        Err(error) => {
            controller.stop().await;
            Err(error)
        }
    }
}

/// Tells how far it is: ready, whether or not nodes can be served yet.
async fn tell_ready(config: &Config, served: oneshot::Receiver<()>, notifier: &Notifier) {
    if tokio::time::timeout(SERVED_SOON, served).await.is_err()
        && let Trust::Iam(iam) = &config.trust
    {
        let waits = format!(
            "waiting for the identity manager at {} to serve nodes",
            iam.public
        );
        tracing::warn!("{waits}");
        notifier.status(&waits);
    }
    notifier.ready();
    tracing::info!("ready");
}

/// Runs until the shutdown.
pub(crate) async fn run(config: Config, start: Start) -> Result<ExitCode, StartError> {
    let Start {
        shutdown, notifier, ..
    } = start;
    let mut tasks = TaskSet::new(&shutdown);
    tasks.watch_over(&notifier);
    tasks.spawn_until_shutdown("memory", footprint::give_back_at_rest());
    let store = open_store(&config).await?;

    let (identity_in, identity) = watch::channel(None);
    let pauses = match &config.trust {
        Trust::Iam(iam) => {
            let link = IamLink::new(iam.clone(), identity_in);
            tasks.spawn_until_shutdown("identity", link.run());
            Pauses::Iam(identity.clone())
        }
        Trust::Insecure(_) => Pauses::Own,
    };
    let directory = NodeDirectory::open(store.clone()).await;
    let directory = directory.map_err(StartError::Nodes)?;
    let cloud_part = match &config.cloud {
        Some(cloud) => {
            let part = CloudPart::open(cloud, store.clone()).await;
            Some(part.map_err(StartError::Cloud)?)
        }
        None => None,
    };
    let desk = cloud_part.as_ref().map(CloudPart::desk);
    let items = open_items(&config, &store, desk.as_ref(), &mut tasks).await?;
    let settings = muster_instance_data::Settings::new(&config.storage_dir, &config.state_dir);
    let states: Arc<dyn StateCloud> = match desk.clone() {
        Some(desk) => Arc::new(desk),
        None => Arc::new(NoCloud),
    };
    let data = InstanceData::start(store.clone(), settings, states).await;
    let (data, keeping) = data.map_err(StartError::InstanceData)?;
    tasks.spawn_until_shutdown("instance data", keeping);

    let view = open_view(&store, &mut tasks).await?;
    let switchboard = Arc::new(Switchboard::new(directory.clone(), view.clone()));
    let blob_folder = items.blob_folder();
    let blobs = Arc::new(BlobPlaces::new(blob_folder.clone()));
    let (connection, cloud) = watch::channel(ConnectionState::Disconnected);
    let parts = Parts {
        cloud,
        blobs: blobs.clone(),
        receivers: receivers(&switchboard),
    };
    let (controller, gate) = SmController::new(parts, Limits::default());
    tasks.spawn("gate", async move {
        gate.await;
        Ok::<(), std::convert::Infallible>(())
    });
    let unit_config = UnitConfigManager::open(
        &config.unit_config_file,
        muster_config::Limits::default(),
        Arc::new(controller.clone()),
    );
    let unit_config = unit_config.map_err(StartError::UnitConfig)?;
    let (subjects_in, subjects) = watch::channel(BTreeSet::new());
    let placer = Placer::open(placement::Parts {
        store: store.clone(),
        items: items.clone(),
        nodes: directory,
        unit_config: unit_config.current(),
        subjects: subjects.clone(),
        data: data.clone(),
        networks: config.networks.clone(),
        instance_ttl: config.instance_ttl,
        handed_out: config.handed_out.clone(),
    });
    let placer = Arc::new(placer.await.map_err(StartError::Placement)?);
    if let Some(settings) = config.names.clone() {
        tasks.spawn_until_shutdown("names", names::serve(settings, placer.names()));
    } else if config.networks.is_some() {
        tracing::info!("names of instances on other nodes are not served: dnsIp is not given");
    }
    let unit_nodes = UnitNodes {
        controller: controller.clone(),
        unit_config: unit_config.clone(),
        switchboard: switchboard.clone(),
        pauses,
    };
    let parts = muster_desired::Parts {
        store: store.clone(),
        downloads: Arc::new(items),
        balancer: placer.clone(),
        nodes: Arc::new(unit_nodes.clone()),
        reports: Arc::new(ToOperators(view.clone())),
    };
    let updates = Updates::start(parts, config.updates.clone()).await;
    let (updates, updating) = updates.map_err(StartError::Updates)?;
    tasks.spawn_until_shutdown("updates", updating);
    tasks.spawn_until_shutdown(
        "wanted items",
        follow::show_wanted(updates.clone(), view.clone()),
    );
    let config_shown = follow::show_config(unit_config.current(), switchboard.clone());
    let around = Around {
        store: store.clone(),
        identity: identity.clone(),
        updates: updates.clone(),
        data,
        controller: controller.clone(),
        switchboard: switchboard.clone(),
        config: unit_config.current(),
        subjects,
        connection,
    };
    switchboard.complete(Later {
        updates: updates.clone(),
        unit_config,
        cloud: desk,
    });
    if let Some(part) = cloud_part {
        part.run(&config, around, &mut tasks);
    }
    tasks.spawn_until_shutdown("node configurations", config_shown);
    let operations = UnitOperations {
        updates: updates.clone(),
        placer,
        nodes: unit_nodes,
    };
    let operators = Operators::open(&config, view, Arc::new(operations)).await;
    let operators = operators.map_err(StartError::Operators)?;
    tasks.spawn(
        "operators",
        operators.serve(identity.clone(), shutdown.clone()),
    );
    if matches!(config.trust, Trust::Iam(_)) {
        let following = follow::follow(identity.clone(), switchboard.clone(), subjects_in);
        tasks.spawn_until_shutdown("follow", following);
    }
    let watching = follow::watch_silence(switchboard.clone(), config.sm_connection_timeout);
    tasks.spawn_until_shutdown("silent nodes", watching);
    if let Some(path) = config.desired_file.clone() {
        let following = desired_file::follow(path, store.clone(), updates, shutdown.reloads());
        tasks.spawn_until_shutdown("desired status file", following);
    }
    let (served_in, served) = oneshot::channel();
    let serving = serve_nodes(
        config.clone(),
        identity,
        controller,
        blobs,
        blob_folder,
        shutdown.clone(),
        served_in,
    );
    tasks.spawn("ports of nodes", serving);
    tell_ready(&config, served, &notifier).await;

    let outcome = tasks.run_until_shutdown(&notifier, GRACE).await;
    if let Err(failed) = store.close().await {
        tracing::warn!(error = %ErrorChain(&failed), "the database was not closed cleanly");
    }
    Ok(outcome.exit_code())
}

/// What operators see, and what is remembered for them.
async fn open_view(store: &Store, tasks: &mut TaskSet) -> Result<UnitView, StartError> {
    let history = History::open(store.clone(), HistoryLimits::default()).await;
    let (history, writing) = history.map_err(StartError::History)?;
    tasks.spawn_until_shutdown("history", writing);
    let about = UnitAbout {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..UnitAbout::default()
    };
    Ok(UnitView::new(
        about,
        history,
        &muster_control_server::Limits::default(),
    ))
}

async fn open_items(
    config: &Config,
    store: &Store,
    desk: Option<&CloudDesk>,
    tasks: &mut TaskSet,
) -> Result<Items, StartError> {
    let mut settings = ItemsSettings::new(config.working_dir.join("items"));
    settings.max_bytes = config.items_max_bytes;
    settings.item_ttl = config.item_ttl;
    settings.maintenance_period = config.item_check_period;
    settings.plain_http = matches!(config.trust, Trust::Insecure(_));
    settings.signatures = cloud::signatures(&config.trust);
    if let Trust::Iam(iam) = &config.trust {
        settings.revocation_list_files.clone_from(&iam.crls);
    }
    let items = Items::open(settings, store.clone(), desk.map(CloudDesk::for_items)).await;
    let items = items.map_err(StartError::Items)?;
    let kept = items.clone();
    tasks.spawn_until_shutdown("item maintenance", async move { kept.maintain().await });
    Ok(items)
}

/// Shows operators how updates go.
#[derive(Debug)]
struct ToOperators(UnitView);

impl Reports for ToOperators {
    fn changed(&self, progress: &Arc<Progress>) {
        self.0.progress(progress);
    }

    fn finished(&self, progress: &Arc<Progress>) {
        self.0.progress(progress);
    }
}
