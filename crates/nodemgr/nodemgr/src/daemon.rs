//! The daemon: puts the parts together, and takes them down again.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use muster_machine_api::places::Places;
use muster_machines::{Machines, Parts, StartMachinesError};
use muster_orchestrate::{Runs, StartRunsError};
use muster_program::{Start, footprint};
use muster_provider::{Clock, SystemClock};
use muster_rpc::server::StartServerError;
use muster_rpc::{BindSocketError, bind_socket};
use muster_seed::{ManagerKeys, OpenKeysError};
use muster_store::{OnDamage, OpenStoreError, Store, StoreConfig};
use muster_telemetry::{ErrorChain, Shutdown, TaskSet};

use crate::catalog::Descriptions;
use crate::config::Config;
use crate::contacts::{self, Pace};
use crate::desk::{About, Desk, DeskParts};
use crate::identity::{IdentityError, manager_id};
use crate::log_file;
use crate::nodes;
use crate::providers::{self, OpenProviderError};
use crate::service::Services;
use crate::ways::{OpenWaysError, SshWays};

/// How long tasks get to end.
const GRACE: Duration = Duration::from_secs(10);
/// Others may look into the folder of the socket: other daemons have theirs there. The socket itself is its owner's.
const SOCKET_FOLDER: u32 = 0o755;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot make the folder {}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("another muster-nodemgr keeps its machines in {}; use that one, or set another stateDir", .0.display())]
    SecondDaemon(PathBuf, #[source] Box<OpenStoreError>),
    #[error("cannot open the database")]
    Store(#[source] Box<OpenStoreError>),
    #[error(transparent)]
    Identity(IdentityError),
    #[error("cannot open the manager's keys")]
    Keys(#[source] OpenKeysError),
    #[error(transparent)]
    Provider(OpenProviderError),
    #[error(transparent)]
    Ways(OpenWaysError),
    #[error("cannot go on with the machines that there are")]
    Machines(#[source] StartMachinesError),
    #[error("cannot go on with the runs that there are")]
    Runs(#[source] StartRunsError),
    #[error(transparent)]
    Socket(BindSocketError),
    #[error("cannot serve {}", path.display())]
    Serve {
        path: PathBuf,
        source: StartServerError,
    },
}

/// Where everything is, with what is configured.
struct Laid {
    state: PathBuf,
    socket: PathBuf,
    descriptions: Descriptions,
    config_file: Option<PathBuf>,
    /// The folder of the configuration.
    beside: PathBuf,
}

impl Laid {
    fn out(config: &Config, named_file: Option<&Path>) -> Self {
        let usual = Places::of_process();
        let file = named_file.map_or_else(|| usual.config.clone(), Path::to_owned);
        let beside = file.parent().unwrap_or(Path::new("")).to_owned();
        let place = |path: &PathBuf| beside.join(path);
        let state = config.state_dir.as_ref().map_or(usual.state, place);
        // A socket that is not named goes with a state that is, so that two managers do not meet.
        let socket = match (&config.socket, &config.state_dir) {
            (Some(socket), _) => place(socket),
            (None, Some(_)) => state.join("nodemgr.sock"),
            (None, None) => usual.socket,
        };
        let all = |named: &Option<Vec<PathBuf>>, default: PathBuf| match named {
            Some(paths) => paths.iter().map(place).collect(),
            None => vec![default],
        };
        Self {
            descriptions: Descriptions {
                templates: all(&config.templates, Places::templates(&file)),
                mappings: all(&config.mappings, Places::mappings(&file)),
                optional: [
                    (&config.templates, Places::templates(&file)),
                    (&config.mappings, Places::mappings(&file)),
                ]
                .into_iter()
                .filter_map(|(named, default)| named.is_none().then_some(default))
                .collect(),
                added: state.join("templates.json"),
                lock_file: match &config.lock_file {
                    Some(path) => place(path),
                    None => state.join("machines.lock"),
                },
                lock: config.lock,
            },
            state,
            socket,
            config_file: Some(file).filter(|file| file.exists()),
            beside,
        }
    }
}

fn open_store(state: &Path) -> Result<Store, StartError> {
    let mut folder = DirBuilder::new();
    let made = folder.recursive(true).mode(0o700).create(state);
    made.map_err(|source| StartError::Folder {
        path: state.to_owned(),
        source,
    })?;
    let owner = concat!("muster-nodemgr ", env!("CARGO_PKG_VERSION"));
    // Which machines there are is known nowhere else: what is damaged is left for an operator to look at.
    let config = StoreConfig::new(state.join("nodemgr.db"), owner, OnDamage::Refuse)
        .schema(&muster_machines::SCHEMA)
        .schema(&muster_orchestrate::SCHEMA);
    match Store::open(&config) {
        Ok(opened) => Ok(opened.store),
        Err(error @ OpenStoreError::InUse { .. }) => {
            Err(StartError::SecondDaemon(state.to_owned(), Box::new(error)))
        }
        Err(error) => Err(StartError::Store(Box::new(error))),
    }
}

/// Runs until the shutdown.
pub(crate) async fn run(config: Config, start: Start) -> Result<ExitCode, StartError> {
    let Start {
        shutdown,
        notifier,
        sources,
    } = start;
    let laid = Laid::out(&config, sources.file.as_deref());
    let mut tasks = TaskSet::new(&shutdown);
    tasks.watch_over(&notifier);
    tasks.spawn_until_shutdown("memory", footprint::give_back_at_rest());
    tasks.spawn_until_shutdown("log file", log_file::keep_small());
    let store = open_store(&laid.state)?;
    let desk = open_desk(&config, &laid, &store, &shutdown, &mut tasks).await?;
    tasks.spawn_until_shutdown("pins", desk.clone().keep_pins());
    desk.set_configured_pools(&config.pools).await;
    tasks.spawn_until_shutdown("nodes", nodes::keep(desk.clone()));
    let trying = contacts::keep(
        desk.machines().clone(),
        Arc::new(desk.clone()),
        Pace::default(),
    );
    tasks.spawn_until_shutdown("contacts", trying);
    let runs = start_runs(&config, &laid, &store, &desk, &mut tasks).await?;
    let listener = bind_socket(&laid.socket, SOCKET_FOLDER).await;
    let listener = listener.map_err(StartError::Socket)?;
    let services = Services::new(desk, runs);
    let server = services.builder().start_unix(listener, laid.socket.clone());
    let server = server.await.map_err(|source| StartError::Serve {
        path: laid.socket.clone(),
        source,
    })?;
    let stop = shutdown.token();
    let socket = laid.socket.clone();
    tasks.spawn("server", async move {
        stop.cancelled().await;
        // Nobody new finds it while calls end. One that is gone already is as good.
        let _ = std::fs::remove_file(socket);
        server.shutdown().await;
        Ok::<(), std::convert::Infallible>(())
    });
    notifier.ready();
    tracing::info!(socket = %laid.socket.display(), "ready");

    let outcome = tasks.run_until_shutdown(&notifier, GRACE).await;
    if let Err(failed) = store.close().await {
        tracing::warn!(error = %ErrorChain(&failed), "the database was not closed cleanly");
    }
    Ok(outcome.exit_code())
}

async fn open_desk(
    config: &Config,
    laid: &Laid,
    store: &Store,
    shutdown: &Shutdown,
    tasks: &mut TaskSet,
) -> Result<Desk, StartError> {
    let manager = manager_id(&laid.state.join("manager-id")).map_err(StartError::Identity)?;
    let keys = ManagerKeys::open(&laid.state.join("secret")).map_err(StartError::Keys)?;
    let keys = Arc::new(keys);
    let ways = SshWays::open(&config.providers, &laid.beside, &keys);
    let ways = ways.map_err(StartError::Ways)?;
    let opened = providers::open(&config.providers, config.stop_grace, &laid.state, &manager);
    let opened = opened.await.map_err(StartError::Provider)?;
    let (providers, unusable) = (opened.usable, opened.unusable);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let parts = Parts {
        store: store.clone(),
        manager: manager.clone(),
        providers: providers
            .iter()
            .map(|it| Arc::clone(&it.provider))
            .collect(),
        clock: Arc::clone(&clock),
        keys: Some(Arc::clone(&keys)),
    };
    let limited = providers
        .iter()
        .map(|it| (it.offer.profile.id, it.offer.quota));
    let settings = muster_machines::Settings {
        quotas: limited.collect(),
        unusable: unusable.iter().map(|it| (it.id, it.why.clone())).collect(),
        ..config.registry.clone()
    };
    let machines = Machines::start(parts, settings).await;
    let (machines, keeping) = machines.map_err(StartError::Machines)?;
    tasks.spawn_until_shutdown("registry", keeping);
    let names: Vec<&str> = providers
        .iter()
        .map(|it| it.offer.profile.id.as_str())
        .collect();
    tracing::info!(%manager, providers = names.join(","), "keeping machines");
    let about = About {
        state_dir: laid.state.display().to_string(),
        config_file: laid
            .config_file
            .as_ref()
            .map_or_else(String::new, |it| it.display().to_string()),
        started: clock.now(),
    };
    Ok(Desk::new(DeskParts {
        machines,
        providers,
        unusable,
        descriptions: laid.descriptions.clone(),
        policy: config.policy.clone(),
        insecure: config.insecure,
        reuse: config.reuse,
        timers: config.timers,
        keys,
        ways,
        manager,
        clock,
        about,
        stop: shutdown.token(),
    }))
}

async fn start_runs(
    config: &Config,
    laid: &Laid,
    store: &Store,
    desk: &Desk,
    tasks: &mut TaskSet,
) -> Result<Runs, StartError> {
    let mut settings = muster_orchestrate::Settings::new(laid.state.join("runs"));
    settings.keep_runs = config.runs.keep;
    settings.keep_for = config.runs.keep_for;
    let parts = muster_orchestrate::Parts {
        store: store.clone(),
        machines: desk.machines().clone(),
        chooser: Arc::new(desk.clone()),
        reach: Arc::new(desk.clone()),
        clock: Arc::clone(&desk.parts().clock),
        settings,
    };
    let started = Runs::start(parts).await;
    let (runs, running) = started.map_err(StartError::Runs)?;
    tasks.spawn_until_shutdown("orchestrator", running);
    Ok(runs)
}
