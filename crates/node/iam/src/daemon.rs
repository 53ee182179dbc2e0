//! The daemon: puts the parts together, and takes them down again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use muster_durable::key_file::KeyFileError;
use muster_identifier::StartIdentifierError;
use muster_keys::{CertHandler, FindCertError, OpenHandlerError};
use muster_node_registry::{
    JoinConfig, JoinLink, JoinTargets, LoadNodesError, Registry, RegistryLimits,
};
use muster_nodeinfo::{GatherError, NodeFacts};
use muster_permissions::{Limits, Permissions};
use muster_program::footprint;
use muster_rpc::{Dial, TargetError};
use muster_store::{OnDamage, OpenStoreError, Outcome, Store, StoreConfig};
use muster_telemetry::{Notifier, Shutdown, TaskSet};
use muster_tls::{Insecure, NoReasonError, NodeId, ParseSpiffeError};
use tokio::sync::watch;
use tokio::task;
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::caller::{Door, Gate};
use crate::config::{Config, MainNode, Port};
use crate::current_node::CurrentNode;
use crate::identity::Identity;
use crate::join::{ProtectedPort, PublicPort};
use crate::local::{Commands, LocalNode};
use crate::local_socket::{LocalSocket, LocalSocketError};
use crate::own_cert::{InUse, OwnCert, TrustFiles};
use crate::provisioning::actor::Provisioning;
use crate::provisioning::phase::Phase;
use crate::provisioning::state_file::{NodeStateError, StateFile};
use crate::reload;
use crate::servers::{ServePortError, Servers, Signals};
use crate::services::{Parts, Services};

/// How long after a change of phase its work is over.
const SETTLED: Duration = Duration::from_secs(5);
/// How long tasks get to end.
const GRACE: Duration = Duration::from_secs(10);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The working folder cannot be made.
    #[error("cannot make the working folder {}", path.display())]
    WorkingDir {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The database cannot be opened.
    #[error("cannot open the database")]
    Store(#[source] Box<OpenStoreError>),
    /// The node cannot be described.
    #[error("cannot find out what this node is")]
    Node(#[source] GatherError),
    /// The node's id cannot stand in an identity.
    #[error("the node id {id:?} cannot stand in a certificate")]
    NodeId {
        /// The id.
        id: String,
        /// What is wrong with it.
        source: ParseSpiffeError,
    },
    /// The node's state is not known.
    #[error("cannot tell whether this node is provisioned")]
    State(#[source] NodeStateError),
    /// The key stores cannot be used.
    #[error("cannot open the key stores")]
    Keys(#[source] OpenHandlerError),
    /// The node's own certificate type is missing.
    #[error("cannot follow the node's own certificate")]
    OwnCert(#[source] FindCertError),
    /// The key of permissions cannot be used.
    #[error("cannot open the permissions of instances")]
    Permissions(#[source] KeyFileError),
    /// The identifier cannot be started.
    #[error("cannot start the identifier")]
    Identity(#[source] StartIdentifierError),
    /// The nodes of the device cannot be read.
    #[error("cannot read the nodes of the device")]
    Registry(#[source] LoadNodesError),
    /// The Main Node's address is none.
    #[error("cannot join the Main Node")]
    Join(#[source] TargetError),
    /// Joining in the clear has to say why.
    #[error("cannot join the Main Node in the clear")]
    Reason(#[source] NoReasonError),
    /// A port cannot be served.
    #[error("cannot serve")]
    Port(#[source] ServePortError),
    /// The local socket cannot be served.
    #[error("cannot serve root on this node")]
    LocalSocket(#[source] LocalSocketError),
    /// A part that blocks has panicked.
    #[error("a part of the start broke down")]
    Broken(#[source] task::JoinError),
}

/// The part of the daemon that waits for disks and tokens, in one place.
struct Opened {
    store: Store,
    facts: NodeFacts,
    state: StateFile,
    phase: Phase,
    certs: CertHandler,
    permissions: Option<Permissions>,
}

fn open(config: &Config) -> Result<Opened, StartError> {
    let folder = &config.working_dir;
    fs::create_dir_all(folder).map_err(|source| StartError::WorkingDir {
        path: folder.clone(),
        source,
    })?;
    let owner = concat!("muster-iam ", env!("CARGO_PKG_VERSION"));
    let store = StoreConfig::new(folder.join("iam.db"), owner, OnDamage::StartEmpty)
        .schema(&muster_node_registry::SCHEMA)
        .schema(&muster_permissions::SCHEMA);
    let opened = Store::open(&store).map_err(|error| StartError::Store(Box::new(error)))?;
    if let Outcome::SetAside { .. } = opened.outcome {
        error!(
            outcome = ?opened.outcome,
            "the database was damaged and set aside: nodes join again, instances have to be \
             registered again"
        );
    }
    let permissions = if config.permissions {
        let key = folder.join("permissions.key");
        let kept = Permissions::open(opened.store.clone(), &key, Limits::default());
        Some(kept.map_err(StartError::Permissions)?)
    } else {
        None
    };
    let facts = NodeFacts::gather(&config.node).map_err(StartError::Node)?;
    for warning in &facts.warnings {
        warn!("{warning}");
    }
    let state = StateFile::new(&config.state_path);
    let phase = state.read().map_err(StartError::State)?;
    let certs =
        CertHandler::new(config.modules.clone(), &folder.join("keys")).map_err(StartError::Keys)?;
    Ok(Opened {
        store: opened.store,
        facts,
        state,
        phase,
        certs,
        permissions,
    })
}

/// Runs the daemon until it is asked to end.
///
/// # Errors
/// Why it did not start. What fails later is logged, and is in the exit code.
pub(crate) async fn run(
    config: Config,
    reload: muster_program::Sources,
    shutdown: &Shutdown,
    notifier: &Notifier,
) -> Result<ExitCode, StartError> {
    let config = Arc::new(config);
    let for_open = Arc::clone(&config);
    let opened = task::spawn_blocking(move || open(&for_open))
        .await
        .map_err(StartError::Broken)??;
    let (store, phase) = (opened.store, opened.phase);
    let id = opened.facts.node_id.to_string();
    let node_id = NodeId::new(id.clone()).map_err(|source| StartError::NodeId { id, source })?;
    info!(node = %node_id, %phase, "this node");

    let mut tasks = TaskSet::new(shutdown);
    let stop = shutdown.token();
    let identity = Identity::start(&config.identifier)
        .await
        .map_err(StartError::Identity)?;
    let node = CurrentNode::new(opened.facts, phase);
    let certs = Arc::new(opened.certs);
    let provisioning = Provisioning {
        state: opened.state,
        certs: Arc::clone(&certs),
        own_cert: config.own_cert.clone(),
        hooks: config.hooks.clone(),
        permissions: opened.permissions.clone(),
        node: node.clone(),
    };
    let (provisioner, work) = provisioning.start(phase);
    tasks.spawn_until_shutdown("provisioning", work);

    let trust = TrustFiles {
        ca: config.ca_cert.clone(),
        crls: config.crls.clone(),
    };
    let newest = certs
        .subscribe(&config.own_cert)
        .map_err(StartError::OwnCert)?;
    let own_cert = OwnCert::open(newest, trust.clone(), node.clone()).await;
    let in_use = own_cert.in_use();
    tasks.spawn_until_shutdown("own certificate", own_cert.run());

    let local = Arc::new(LocalNode::new(
        node_id.clone(),
        provisioner.clone(),
        Arc::clone(&certs),
        identity.clone(),
    ));
    let (commands, link) = match &config.main {
        None => {
            let limits = RegistryLimits::default();
            let registry = Registry::open(store.clone(), local, node.info(), limits)
                .await
                .map_err(StartError::Registry)?;
            (Commands::Main(registry), None)
        }
        Some(main) => {
            let targets = targets(&config, main, &trust, in_use.clone())?;
            let commands = Arc::clone(&local);
            let link = JoinLink::start(targets, node.info(), commands, JoinConfig::default());
            (Commands::Secondary(local), Some(link))
        }
    };

    let parts = Arc::new(Parts {
        identity: identity.clone(),
        node: node.info(),
        certs,
        permissions: opened.permissions,
        commands: commands.clone(),
    });
    let services = |door| {
        let gate = Gate::new(door, node_id.clone(), identity.clone());
        Services::new(gate, Arc::clone(&parts))
    };
    let signals = Signals {
        phase: provisioner.phase(),
        certificate: in_use.clone(),
    };
    let servers = Servers::start(
        (config.public, services(Door::Port(Port::Public))),
        (config.protected, services(Door::Port(Port::Protected))),
        config.insecure.clone(),
        config.mapping.clone(),
        signals,
    )
    .await
    .map_err(StartError::Port)?;
    let socket = LocalSocket::start(config.local_socket.clone(), &services(Door::Local))
        .await
        .map_err(StartError::LocalSocket)?;
    {
        let stop = stop.clone();
        tasks.spawn("ports", async move {
            servers.run(stop).await;
            Ok::<(), io::Error>(())
        });
    }
    let follow = reload::follow(
        reload,
        Arc::clone(&config),
        in_use,
        shutdown.reloads(),
        notifier.clone(),
    );
    tasks.spawn_until_shutdown("reloads", follow);
    tasks.watch_over(notifier);
    tasks.spawn_until_shutdown("status", tell_status(provisioner.phase(), notifier.clone()));
    notifier.ready();
    info!("ready");

    let outcome = tasks.run_until_shutdown(notifier, GRACE).await;
    socket.shutdown().await;
    if let Some(link) = link {
        link.stop().await;
    }
    if let Commands::Main(registry) = &commands {
        registry.shutdown().await;
    }
    if let Err(failed) = store.close().await {
        warn!(error = %muster_telemetry::ErrorChain(&failed), "the database was not closed cleanly");
    }
    Ok(outcome.exit_code())
}

/// The ways to the Main Node.
fn targets(
    config: &Config,
    main: &MainNode,
    trust: &TrustFiles,
    in_use: watch::Receiver<Option<InUse>>,
) -> Result<JoinTargets, StartError> {
    let public: Arc<dyn Dial> = if config.join_in_the_clear {
        let reason = "insecureUntilProvisioned names join";
        let permission = Insecure::because(reason).map_err(StartError::Reason)?;
        let target = PublicPort::in_the_clear(&main.public, &permission);
        Arc::new(target.map_err(StartError::Join)?)
    } else {
        let target = PublicPort::new(&main.public, main.server_name.clone(), trust);
        Arc::new(target.map_err(StartError::Join)?)
    };
    let protected = ProtectedPort::new(&main.protected, main.server_name.clone(), in_use);
    Ok(JoinTargets {
        public,
        protected: Arc::new(protected.map_err(StartError::Join)?),
    })
}

/// Tells the service manager how far the node is, and gives memory back once a change has settled.
async fn tell_status(mut phase: watch::Receiver<Phase>, notifier: Notifier) {
    loop {
        let now = *phase.borrow_and_update();
        notifier.status(&format!("the node is {now}"));
        tokio::select! {
            changed = phase.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            () = sleep(SETTLED) => footprint::give_back(),
        }
        if phase.changed().await.is_err() {
            return;
        }
    }
}
