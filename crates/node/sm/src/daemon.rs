//! The daemon: puts the parts together, and takes them down again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use muster_api::domain::{NodeInfo, NodeState, ResourceInfo, SmInfo};
use muster_iamclient::IamClient;
use muster_image::{
    BlobSource, CheckSettings, HttpSetupError, ImageStore, OpenImagesError, StoreSettings,
};
use muster_item::Platform;
use muster_launcher::seams::{Absent as NoPart, Permissions};
use muster_launcher::{Launcher, Parts, StartLauncherError};
use muster_nodeinfo::{GatherError, NodeFacts};
use muster_program::footprint;
use muster_rpc::{Dial as _, Target, TargetError};
use muster_store::{OnDamage, OpenStoreError, Outcome, Store, StoreConfig, StoreError};
use muster_telemetry::{ErrorChain, Notifier, Shutdown, TaskSet};
use muster_tls::{ClientOptions, ClientTls, Insecure, NoReasonError};
use tokio::sync::{oneshot, watch};
use tonic::transport::Uri;
use tracing::{error, info, warn};

use crate::config::{Config, IamConfig, Trust};
use crate::controller::{ControllerLink, Services};
use crate::equipment::{self, Equipment, EquipmentError};
use crate::identity::{IamLink, LateBlobs, LateDial, Ways};
use crate::images::NodeImages;
use crate::init_system::{self, ChooseInitError};
use crate::late::Late;
use crate::node;
use crate::permissions::{self, IamPermissions};
use crate::runtimes::{self, MakeRuntimeError, Workplace};

/// How long tasks get to end.
const GRACE: Duration = Duration::from_secs(10);
/// A node that was never known is told who it is within this time, or says what it waits for.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

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
    /// The images cannot be used.
    #[error("cannot open the images")]
    Images(#[source] OpenImagesError),
    /// The node cannot be described.
    #[error("cannot find out what this node is")]
    Node(#[source] GatherError),
    /// The database does not say who this node was.
    #[error("cannot read who this node is")]
    Recall(#[source] StoreError),
    /// A server's address is none.
    #[error("cannot use an address of the configuration")]
    Address(#[source] TargetError),
    /// Going without TLS has to say why.
    #[error("cannot go without TLS")]
    Reason(#[source] NoReasonError),
    /// Nobody runs units.
    #[error("cannot run instances")]
    InitSystem(#[source] ChooseInitError),
    /// A runtime cannot be used.
    #[error("cannot use a runtime")]
    Runtime(#[source] MakeRuntimeError),
    /// Downloads cannot be made.
    #[error("cannot download images")]
    Http(#[source] HttpSetupError),
    /// A part beside instances cannot be used.
    #[error("cannot equip the node")]
    Equipment(#[source] EquipmentError),
    /// What runs cannot be taken over.
    #[error("cannot take over what runs")]
    Launcher(#[source] StartLauncherError),
}

/// Who this node is and how it speaks to others.
struct Connections {
    node: NodeInfo,
    ways: Ways,
    permissions: Arc<dyn Permissions>,
    /// Scheme and authority of the controller.
    origin: Uri,
}

/// Everything that can be said without the identity manager, and its task for the rest. `None` if the shutdown came first.
async fn connect(
    config: &Config,
    store: &Store,
    tasks: &mut TaskSet,
    shutdown: &Shutdown,
    notifier: &Notifier,
) -> Result<Option<Connections>, StartError> {
    let iam = match &config.trust {
        Trust::Insecure(reason) => return insecure(config, reason).map(Some),
        Trust::Iam(iam) => iam,
    };
    let known = node::recall(store).await.map_err(StartError::Recall)?;
    let address = config.controller.clone();
    let origin = controller_origin(&address)?;
    let (link, ways, answer) = IamLink::new(iam.clone(), address, store.clone(), known.clone());
    let stop = shutdown.token();
    tasks.spawn("identity", async move {
        stop.run_until_cancelled(link.run()).await.unwrap_or(Ok(()))
    });
    let node = match known {
        Some(node) => node,
        None => match first_answer(answer, iam, shutdown, notifier).await {
            Some(node) => node,
            None => return Ok(None),
        },
    };
    let permissions = IamPermissions::new(ways.iam.clone(), store.clone());
    tasks.spawn_until_shutdown("owed permissions", permissions.clone().keep_settling());
    Ok(Some(Connections {
        node,
        permissions: Arc::new(permissions),
        ways,
        origin,
    }))
}

fn insecure(config: &Config, reason: &str) -> Result<Connections, StartError> {
    let permission = Insecure::because(reason).map_err(StartError::Reason)?;
    let facts = NodeFacts::gather(&config.node).map_err(StartError::Node)?;
    let tls = ClientTls::insecure(&permission, ClientOptions::default());
    let target = Target::new(tls.clone(), &config.controller).map_err(StartError::Address)?;
    Ok(Connections {
        node: facts.node_info(NodeState::Provisioned, None),
        origin: target.origin(),
        ways: Ways::at_once(tls, target).map_err(StartError::Http)?,
        permissions: Arc::new(NoPart),
    })
}

fn controller_origin(address: &str) -> Result<Uri, StartError> {
    format!("https://{address}").parse().map_err(|_| {
        StartError::Address(TargetError {
            address: address.to_owned(),
        })
    })
}

/// A node that was never known can run nothing. It has started all the same: whoever started it need not wait for others.
async fn first_answer(
    mut answer: oneshot::Receiver<NodeInfo>,
    iam: &IamConfig,
    shutdown: &Shutdown,
    notifier: &Notifier,
) -> Option<NodeInfo> {
    let stop = shutdown.token();
    let soon = tokio::time::timeout(FIRST_ANSWER, &mut answer);
    if let Ok(answered) = stop.run_until_cancelled(soon).await? {
        return answered.ok();
    }
    let waits = format!(
        "waiting for the identity manager at {}, which has never said who this node is",
        iam.public
    );
    warn!("{waits}");
    notifier.status(&waits);
    notifier.ready();
    stop.run_until_cancelled(answer).await?.ok()
}

async fn open_store(config: &Config) -> Result<Store, StartError> {
    let folders = [
        &config.working_dir,
        &config.runtime_dir,
        &config.storage_dir,
        &config.state_dir,
    ];
    for path in folders {
        fs::create_dir_all(path).map_err(|source| StartError::Folder {
            path: path.clone(),
            source,
        })?;
    }
    let owner = concat!("muster-sm ", env!("CARGO_PKG_VERSION"));
    let path = config.working_dir.join("servicemanager.db");
    let store = StoreConfig::new(path, owner, OnDamage::StartEmpty)
        .schema(&node::SCHEMA)
        .schema(&permissions::SCHEMA)
        .schema(&muster_launcher::SCHEMA)
        .schema(&muster_image::SCHEMA);
    let store = equipment::schemas(store);
    let opened = Store::open(&store).map_err(|error| StartError::Store(Box::new(error)))?;
    if let Outcome::SetAside { .. } = opened.outcome {
        error!(
            outcome = ?opened.outcome,
            "the database was damaged and set aside: instances start when the controller sends them again"
        );
    }
    Ok(opened.store)
}

async fn open_images(
    config: &Config,
    node: &NodeInfo,
    store: &Store,
) -> Result<ImageStore, StartError> {
    let platform = match node.cpus.first() {
        Some(cpu) => Platform::of_runtime(&node.os_info, &cpu.arch_info),
        None => Platform::of_this_program(),
    };
    let mut settings = StoreSettings::new(config.working_dir.join("images"), platform);
    settings.max_bytes = config.images_max_bytes;
    settings.item_ttl = config.image_ttl;
    settings.parallel = config.limits.fetches;
    settings.unpack.set_id = config.image_set_id;
    settings.unpack.devices = config.image_devices;
    let images = ImageStore::open(settings, store.clone()).await;
    let (images, report) = images.map_err(StartError::Images)?;
    info!(?report, "images");
    Ok(images)
}

/// Starts that wait for the identity manager need not wait for their turn when it is first reached.
async fn tell_of_identity(iam: Late<IamClient>, launcher: Launcher) {
    iam.get().await;
    // A launcher that has ended starts nothing.
    let _ = launcher.look_again().await;
}

/// Keeps what the node announces as its resources are.
async fn announce(mut resources: watch::Receiver<Vec<ResourceInfo>>, info: watch::Sender<SmInfo>) {
    while resources.changed().await.is_ok() {
        let resources = resources.borrow_and_update().clone();
        info.send_modify(|info| info.resources = resources);
    }
}

/// Runs until the shutdown.
pub(crate) async fn run(
    config: Config,
    shutdown: &Shutdown,
    notifier: &Notifier,
) -> Result<ExitCode, StartError> {
    let mut tasks = TaskSet::new(shutdown);
    tasks.watch_over(notifier);
    tasks.spawn_until_shutdown("memory", footprint::give_back_at_rest());
    let store = open_store(&config).await?;
    let connections = connect(&config, &store, &mut tasks, shutdown, notifier).await?;
    let Some(connections) = connections else {
        let outcome = tasks.run_until_shutdown(notifier, GRACE).await;
        return Ok(outcome.exit_code());
    };
    let node = &connections.node;
    let images = open_images(&config, node, &store).await?;
    let runtimes = {
        let has_instances = runtimes::has_instances(&config.runtime_dir);
        let init = init_system::choose(&config.init_system, &config.runtime_dir, has_instances);
        let runner = init.map_err(StartError::InitSystem)?.runner();
        let workplace = Workplace {
            runtimes: &config.runtimes,
            folder: &config.runtime_dir,
            programs: config.program_dir.as_deref(),
        };
        runtimes::make(workplace, node, &runner).map_err(StartError::Runtime)?
    };
    let equipment = Equipment::open(&config, node, &store, &mut tasks, shutdown).await;
    let equipment = equipment.map_err(StartError::Equipment)?;
    let announced = equipment.announced();
    let info = SmInfo {
        node_id: node.node_id.clone(),
        runtimes: runtimes::announced(&runtimes),
        resources: announced.borrow().clone(),
    };
    let source: Arc<dyn BlobSource> = Arc::new(LateBlobs(connections.ways.blobs.clone()));

    let parts = Parts {
        store: store.clone(),
        runtimes,
        images: Arc::new(NodeImages::new(
            images.clone(),
            source.clone(),
            config.image_collect_period,
        )),
        permissions: connections.permissions,
        network: equipment.network(),
        resources: equipment.resources(),
        observers: equipment.observers(),
        state_folder: config.state_dir.clone(),
        storage_folder: config.storage_dir.clone(),
    };
    let (launcher, reports, launching) = Launcher::start(parts, config.limits.clone())
        .await
        .map_err(StartError::Launcher)?;
    tasks.spawn_until_shutdown("launcher", launching);
    let news = tell_of_identity(connections.ways.iam, launcher.clone());
    tasks.spawn_until_shutdown("identity news", news);
    if let Some(every) = config.image_check_period {
        let settings = CheckSettings {
            every,
            ..CheckSettings::default()
        };
        tasks.spawn_until_shutdown("image check", async move {
            images.keep_checked(source, settings).await;
        });
    }
    let directory = launcher.directory().clone();
    let seams = equipment.seams(&directory);
    let services = Services {
        launcher,
        node_config: seams.node_config,
        monitoring: seams.monitoring,
        logs: seams.logs,
        networks: seams.networks,
    };
    let (info_in, info) = watch::channel(info);
    tasks.spawn_until_shutdown("announcements", announce(announced, info_in));
    let alerts = Some(equipment.spool());
    let dial = LateDial::new(connections.ways.controller, connections.origin);
    let link = ControllerLink::start(
        dial,
        LateDial::stream_config(),
        info,
        services,
        reports,
        alerts,
    );
    let begun = equipment.begin(&directory, link.stream(), &mut tasks, shutdown);
    begun.map_err(StartError::Equipment)?;
    notifier.status("");
    notifier.ready();
    info!(node = %connections.node.node_id, "ready");

    let outcome = tasks.run_until_shutdown(notifier, GRACE).await;
    link.stop().await;
    if let Err(failed) = store.close().await {
        warn!(error = %ErrorChain(&failed), "the database was not closed cleanly");
    }
    Ok(outcome.exit_code())
}
