//! One node without a controller: what a file says runs, for trials, tests and machines that belong to nobody's fleet.
//!
//! Images come from layouts and registries instead of a controller; everything else is the Service Manager's own: the image
//! store, the launcher, the runtimes. There is no identity manager, so items that ask for permissions get none, which is said;
//! nobody gives out what the node has, so items that ask for resources are refused; and instances have no network of their own.
//! What an item has a quota for, storage or state, is kept below [`Settings::state_dir`].
//!
//! # Whose units
//! Instances are units of an init system. Here that is always one of our own, beside whatever the machine has: a private
//! `muster-init --supervise`, started when it is not there yet, with its socket below [`Settings::runtime_dir`]. So no setup is
//! needed, nothing of the machine's own init or Service Manager is touched, and [`Standalone::leave`] can leave everything
//! running: the next [`Standalone::start`] with the same folders finds the init and adopts what runs.
//!
//! # Entry points
//! [`Desired::load`], [`Standalone::start`], [`Standalone::next`], then [`Standalone::leave`] or [`Standalone::end`].

mod claim;
mod desired;
mod ids;
mod init;
mod resolved;
mod source;
mod wanted;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::SystemTime;
use std::{fs, io};

use muster_api::domain::{
    InstanceInfo, InstanceStatus, InvalidValue, ItemId, NodeInfo, NodeState, NodeType, RuntimeInfo,
};
use muster_image::{ImageStore, InstallError, InstalledImage, OpenImagesError, StoreSettings};
use muster_item::Platform;
use muster_launcher::seams::Absent;
use muster_launcher::{
    EnvOverride, Launcher, Limits, Parts, Reach, Report, Reports, StartLauncherError,
};
use muster_nodeinfo::{GatherError, NodeFacts, Options};
use muster_runtime::Runtime;
use muster_store::{OnDamage, OpenStoreError, Store, StoreConfig, StoreError};
use muster_unit_runner::{CoreRunner, UnitRunner};

pub use self::desired::{Desired, DesiredItem, ImageFrom, Override, RegistryAccess};
pub use self::ids::TooManyInstances;
pub use self::init::InitError;
pub use self::source::ImageSourceError;

use self::claim::Claim;
use self::init::PrivateInit;
use self::resolved::Resolved;
use self::source::{Found, Sources};
use crate::images::NodeImages;
use crate::runtimes::{self, MakeRuntimeError, Workplace};

/// Where things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Images and what ran last; one run at a time uses it.
    pub state_dir: PathBuf,
    /// What a reboot may empty, with the init's socket.
    pub runtime_dir: PathBuf,
    /// The folder of `muster-init`, `muster-core`, `muster-container` and `muster-native-exec`.
    pub program_dir: PathBuf,
}

/// Why what is wanted does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StandaloneError {
    /// A folder or file cannot be made.
    #[error("cannot make {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody but root may.
    #[error(
        "this needs root, for mounts, control groups and other users' programs; without root `muster up` runs a whole Unit, whose \
         items for the runtime native run as you"
    )]
    NotRoot,
    /// Another run has the runtime folder.
    #[error("another run uses {}", .0.display())]
    InUse(PathBuf),
    /// What runs there was left by a run with another state.
    #[error(
        "the instances of {} go on in {}: end them there, or choose another runtime folder", state.display(), runtime.display()
    )]
    OthersInstances {
        /// The runtime folder.
        runtime: PathBuf,
        /// The state that they are of.
        state: PathBuf,
    },
    /// The database cannot be opened.
    #[error("cannot open the database in {}", folder.display())]
    Store {
        /// Where it is.
        folder: PathBuf,
        /// Why.
        source: Box<OpenStoreError>,
    },
    /// The images cannot be used.
    #[error("cannot open the images")]
    Images(#[source] OpenImagesError),
    /// The machine cannot be described.
    #[error("cannot find out what this machine is")]
    Node(#[source] GatherError),
    /// There is no init to run units.
    #[error("cannot start an init for the instances")]
    Init(#[source] InitError),
    /// A runtime cannot be used.
    #[error("cannot use a runtime")]
    Runtime(#[source] MakeRuntimeError),
    /// An image cannot be found.
    #[error("cannot find the image of item {item}")]
    Source {
        /// Whose image.
        item: ItemId,
        /// Why.
        source: Box<ImageSourceError>,
    },
    /// An image cannot be had.
    #[error("cannot get the image of item {item}")]
    Install {
        /// Whose image.
        item: ItemId,
        /// Why.
        source: Box<InstallError>,
    },
    /// Nothing here runs it.
    #[error("item {item} wants to be run by one of {wanted:?}; this machine has {here:?}")]
    NoRuntime {
        /// Which item.
        item: ItemId,
        /// What its image or the file names.
        wanted: Vec<String>,
        /// What there is.
        here: Vec<String>,
    },
    /// Nobody gives out what it needs.
    #[error(
        "item {item} asks for resources of the node, {wanted:?}: without a controller nobody gives any out"
    )]
    NoResources {
        /// Which item.
        item: ItemId,
        /// What it asks for.
        wanted: Vec<String>,
    },
    /// There are more instances than user ids.
    #[error("too many instances")]
    TooMany(#[source] TooManyInstances),
    /// It cannot be noted which user ids instances have.
    #[error("cannot note the user ids of instances")]
    Ids(#[source] StoreError),
    /// It cannot be noted which images registries have.
    #[error("cannot note what the images of registries are")]
    Resolved(#[source] StoreError),
    /// A name or number of our own is not one.
    #[error("cannot describe what shall run")]
    Invalid(#[source] InvalidValue),
    /// What runs cannot be taken over.
    #[error("cannot take over what runs")]
    Launcher(#[source] StartLauncherError),
    /// Some instances could not be stopped in order.
    #[error("not stopped in order, and ended with their init: {}", .0.join("; "))]
    NotStopped(
        /// Which, and why.
        Vec<String>,
    ),
    /// The launcher has ended by itself.
    #[error("the launcher has ended")]
    Gone,
}

/// What a file wants, on its way or running.
pub struct Standalone {
    launcher: Launcher,
    reports: Reports,
    /// The launcher's task, which runs while somebody waits for news.
    task: Pin<Box<dyn Future<Output = ()> + Send>>,
    init: PrivateInit,
    /// Held until the init has ended or been left.
    _claim: Claim,
}

/// What is there before anything is started.
struct Prepared {
    parts: Parts,
    wanted: Vec<InstanceInfo>,
    overrides: Vec<EnvOverride>,
}

impl StandaloneError {
    /// Whether another process is in the way.
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::InUse(_)
            | Self::OthersInstances { .. }
            | Self::Images(OpenImagesError::InUse(_)) => true,
            Self::Store { source, .. } => matches!(**source, OpenStoreError::InUse { .. }),
            _ => false,
        }
    }
}

impl std::fmt::Debug for Standalone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standalone")
            .field("init", &self.init)
            .finish_non_exhaustive()
    }
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> StandaloneError + '_ {
    move |source| StandaloneError::File {
        path: path.to_owned(),
        source,
    }
}

impl Standalone {
    /// Gets all images, and then makes exactly these instances run; what an earlier run left and is wanted still goes on
    /// untouched. `note` hears what is being done. When `stop` is there first, nothing is left of what was begun, and the answer
    /// is none: unlike this, dropping the future may leave an init behind that was just started.
    ///
    /// # Errors
    /// Before anything is started or stopped: an image that cannot be had leaves what runs as it is. An init that was started for
    /// nothing is ended.
    pub async fn start(
        settings: &Settings,
        desired: Desired,
        note: &mut dyn FnMut(&str),
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Self>, StandaloneError> {
        if !rustix::process::geteuid().is_root() {
            return Err(StandaloneError::NotRoot);
        }
        // Rather now than after all downloads.
        init::program(settings).map_err(StandaloneError::Init)?;
        for path in [&settings.state_dir, &settings.runtime_dir] {
            fs::create_dir_all(path).map_err(file_error(path))?;
        }
        let claim = Claim::take(settings)?;
        let mut stop = pin!(stop);
        let prepared = tokio::select! {
            prepared = Prepared::make(settings, desired, note) => prepared?,
            () = &mut stop => return Ok(None),
        };
        let init = PrivateInit::find_or_start(settings, &mut stop).await;
        let Some(init) = init.map_err(StandaloneError::Init)? else {
            return Ok(None);
        };
        let started = tokio::select! {
            started = Launcher::start(prepared.parts, Limits::default()) => Some(started),
            () = &mut stop => None,
        };
        let (launcher, reports, task) = match started {
            Some(Ok(started)) => started,
            failed => {
                init.end_if_new().await;
                let failed = failed.and_then(Result::err).map(StandaloneError::Launcher);
                return failed.map_or(Ok(None), Err);
            }
        };
        let mut standalone = Self {
            launcher,
            reports,
            task: Box::pin(task),
            init,
            _claim: claim,
        };
        // A moment, so that nobody need stop it.
        let taken = standalone.update(prepared.wanted, prepared.overrides).await;
        match taken {
            Ok(()) => Ok(Some(standalone)),
            Err(error) => {
                standalone.init.end_if_new().await;
                Err(error)
            }
        }
    }

    /// Returns when the set is taken: from then on, what settles is this set and none before.
    async fn update(
        &mut self,
        wanted: Vec<InstanceInfo>,
        overrides: Vec<EnvOverride>,
    ) -> Result<(), StandaloneError> {
        let taken = async {
            // Whoever wrote the file is as near as it.
            self.launcher.reaches(Reach::Controller).await?;
            // Before the set, so that nobody starts twice.
            self.launcher.override_env(overrides).await?;
            self.launcher.update(wanted).await?;
            // Commands are taken in turn.
            self.launcher.snapshot().await
        };
        tokio::select! {
            taken = taken => taken.map(drop).map_err(|_| StandaloneError::Gone),
            () = &mut self.task => Err(StandaloneError::Gone),
        }
    }

    /// The next news. Instances are looked after only while somebody waits here; safe to cancel.
    pub async fn next(&mut self) -> Result<Report, StandaloneError> {
        tokio::select! {
            report = self.reports.next() => report.ok_or(StandaloneError::Gone),
            () = &mut self.task => Err(StandaloneError::Gone),
        }
    }

    /// Ends looking after them; they go on, kept alive by their init.
    pub fn leave(self) {
        drop(self);
    }

    /// Stops all of them and the init; `news` hears how they go. Where that fails, the init is ended all the same, and ends them.
    pub async fn end(mut self, news: &mut dyn FnMut(Report)) -> Result<(), StandaloneError> {
        let stopped = self.stop_all(news).await;
        let ended = self.init.end().await.map_err(StandaloneError::Init);
        ended.and(stopped)
    }

    async fn stop_all(&mut self, news: &mut dyn FnMut(Report)) -> Result<(), StandaloneError> {
        self.update(Vec::new(), Vec::new()).await?;
        loop {
            let report = self.next().await?;
            let left = match &report {
                Report::Settled(all) => Some(all.iter().map(describe).collect::<Vec<_>>()),
                Report::Changed(_) => None,
            };
            news(report);
            match left {
                Some(left) if left.is_empty() => return Ok(()),
                // That it has settled is said once. Who is still there would be tried again for ever.
                Some(left) => return Err(StandaloneError::NotStopped(left)),
                None => {}
            }
        }
    }
}

fn describe(status: &InstanceStatus) -> String {
    let why = status.error.as_ref().map(|error| error.message.as_str());
    format!("{}: {}", status.instance, why.unwrap_or("it is there"))
}

impl Prepared {
    async fn make(
        settings: &Settings,
        desired: Desired,
        note: &mut dyn FnMut(&str),
    ) -> Result<Self, StandaloneError> {
        let overrides = wanted::overrides(&desired, SystemTime::now())?;
        let store = open_store(settings)?;
        let node = node_of(settings)?;
        let images =
            StoreSettings::new(settings.state_dir.join("images"), Platform::of_node(&node));
        let opened = ImageStore::open(images, store.clone()).await;
        let (images, _) = opened.map_err(StandaloneError::Images)?;
        let (sources, installed) = install(&images, &store, &desired, note).await?;
        let runtimes = runtimes_of(settings, &node)?;
        let infos: Vec<RuntimeInfo> = runtimes::announced(&runtimes);
        let known = ids::load(&store).await.map_err(StandaloneError::Ids)?;
        let idents = wanted::idents(&desired);
        let ids = ids::assign(&known, &idents).map_err(StandaloneError::TooMany)?;
        let wanted = wanted::instances(&desired, &installed, &infos, &ids)?;
        wanted::lacking(&desired, &installed).for_each(|text| note(&text));
        if ids != known {
            let saved = ids::save(&store, ids).await;
            saved.map_err(StandaloneError::Ids)?;
        }
        let parts = Parts {
            store,
            runtimes,
            images: Arc::new(NodeImages::new(images, Arc::new(sources), None)),
            permissions: Arc::new(Absent),
            network: Arc::new(Absent),
            resources: Arc::new(Absent),
            observers: Vec::new(),
            state_folder: settings.state_dir.join("states"),
            storage_folder: settings.state_dir.join("storages"),
        };
        Ok(Self {
            parts,
            wanted,
            overrides,
        })
    }
}

fn open_store(settings: &Settings) -> Result<Store, StandaloneError> {
    let path = settings.state_dir.join("node.db");
    let config = StoreConfig::new(
        path,
        concat!("muster sm run ", env!("CARGO_PKG_VERSION")),
        OnDamage::StartEmpty,
    )
    .schema(&ids::SCHEMA)
    .schema(&muster_launcher::SCHEMA)
    .schema(&muster_image::SCHEMA);
    let opened = Store::open(&config).map_err(|source| StandaloneError::Store {
        folder: settings.state_dir.clone(),
        source: Box::new(source),
    })?;
    Ok(opened.store)
}

async fn install(
    images: &ImageStore,
    store: &Store,
    desired: &Desired,
    note: &mut dyn FnMut(&str),
) -> Result<(Sources, Vec<InstalledImage>), StandaloneError> {
    let known = resolved::load(store).await;
    let known = known.map_err(StandaloneError::Resolved)?;
    let mut now = Resolved::new();
    let mut sources = Sources::default();
    let mut digests = Vec::with_capacity(desired.items.len());
    for item in &desired.items {
        let found = sources.add(&item.image, &known).await;
        let found = found.map_err(|source| StandaloneError::Source {
            item: item.id.clone(),
            source: Box::new(source),
        })?;
        if matches!(found, Found::Earlier(_)) {
            note(&format!(
                "the registry of {} does not answer: taking the image that it had last",
                item.id
            ));
        }
        let digest = found.digest();
        if let ImageFrom::Registry { reference, .. } = &item.image {
            now.insert(reference.clone(), digest);
        }
        digests.push(digest);
    }
    // All of them first: none goes to make room for another.
    let mut present = Vec::with_capacity(digests.len());
    for digest in &digests {
        present.push(images.want(*digest).await.ok().flatten());
    }
    let mut installed = Vec::with_capacity(digests.len());
    for ((item, digest), present) in desired.items.iter().zip(digests).zip(present) {
        let image = match present {
            Some(image) => image,
            None => {
                note(&format!("getting the image of {}", item.id));
                let source = Arc::new(sources.clone());
                let image = images.install(digest, source, None).await;
                image.map_err(|source| StandaloneError::Install {
                    item: item.id.clone(),
                    source: Box::new(source),
                })?
            }
        };
        installed.push(image);
    }
    if now != known {
        let saved = resolved::save(store, now).await;
        saved.map_err(StandaloneError::Resolved)?;
    }
    Ok((sources, installed))
}

fn node_of(settings: &Settings) -> Result<NodeInfo, StandaloneError> {
    // A node of its own in every folder: no identity of the machine is used.
    let id = settings.state_dir.join("node-id");
    fs::write(&id, "standalone").map_err(file_error(&id))?;
    let node_type = NodeType::new("standalone").map_err(StandaloneError::Invalid)?;
    let mut options = Options::new(node_type);
    options.node_id_path = id;
    options.dmips_cache = Some(settings.state_dir.join("dmips.json"));
    let facts = NodeFacts::gather(&options).map_err(StandaloneError::Node)?;
    Ok(facts.node_info(NodeState::Provisioned, None))
}

fn runtimes_of(
    settings: &Settings,
    node: &NodeInfo,
) -> Result<Vec<Arc<dyn Runtime>>, StandaloneError> {
    let runner: Arc<dyn UnitRunner> = Arc::new(CoreRunner::new(init::socket(settings)));
    let workplace = Workplace {
        runtimes: &[],
        folder: &settings.runtime_dir,
        programs: Some(&settings.program_dir),
    };
    runtimes::make(workplace, node, &runner).map_err(StandaloneError::Runtime)
}

#[cfg(test)]
mod tests;
