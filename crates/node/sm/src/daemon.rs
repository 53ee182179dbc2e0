//! The daemon: puts the parts together, and takes them down again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use muster_api::domain::{NodeInfo, NodeState, SmInfo};
use muster_iamclient::{IamCallError, IamCertStore, IamClient, IamTarget, OpenCertStoreError};
use muster_image::{
    BlobSource, CheckSettings, HttpSetupError, ImageStore, OpenImagesError, StoreSettings,
};
use muster_item::Platform;
use muster_launcher::seams::{Absent as NoPart, Permissions};
use muster_launcher::{Launcher, Parts, StartLauncherError};
use muster_nodeinfo::{GatherError, NodeFacts};
use muster_rpc::{ChannelConfig, StreamConfig, Target, TargetError, channel};
use muster_store::{OnDamage, OpenStoreError, Outcome, Store, StoreConfig};
use muster_telemetry::{ErrorChain, Notifier, Shutdown, TaskSet};
use muster_tls::{
    CertStore, ClientOptions, ClientTls, ExpectedServer, FileCertSource, Insecure, LoadCertError,
    NoReasonError, Role, ServerName, TlsSetupError,
};
use muster_unit_runner::NoInitSystem;
use tracing::{error, info, warn};

use crate::blobs::ControllerBlobs;
use crate::config::{Config, IamConfig, Trust};
use crate::controller::{ControllerLink, Services};
use crate::images::{ControllerUrls, NodeImages};
use crate::permissions::IamPermissions;
use crate::runtimes::{self, MakeRuntimeError};
use crate::seams::Absent;

/// How long tasks get to end.
const GRACE: Duration = Duration::from_secs(10);

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
    /// The identity manager does not tell who this node is.
    #[error("cannot ask the identity manager about this node")]
    Iam(#[source] IamCallError),
    /// The trusted authorities cannot be read.
    #[error("cannot load the trusted authorities")]
    Roots(#[source] LoadCertError),
    /// The own certificate cannot be had.
    #[error("cannot get the node's certificate")]
    Certificate(#[source] OpenCertStoreError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS")]
    Tls(#[source] TlsSetupError),
    /// A server's address is none.
    #[error("cannot use an address of the configuration")]
    Address(#[source] TargetError),
    /// Going without TLS has to say why.
    #[error("cannot go without TLS")]
    Reason(#[source] NoReasonError),
    /// Nobody runs units.
    #[error("cannot run instances")]
    InitSystem(#[source] NoInitSystem),
    /// A runtime cannot be used.
    #[error("cannot use a runtime")]
    Runtime(#[source] MakeRuntimeError),
    /// Downloads cannot be made.
    #[error("cannot download images")]
    Http(#[source] HttpSetupError),
    /// What runs cannot be taken over.
    #[error("cannot take over what runs")]
    Launcher(#[source] StartLauncherError),
}

/// Who this node is and how it speaks to others.
struct Connections {
    node: NodeInfo,
    controller: ClientTls,
    permissions: Arc<dyn Permissions>,
    /// Kept current for as long as it lives.
    certificate: Option<IamCertStore>,
}

async fn connect(config: &Config) -> Result<Connections, StartError> {
    match &config.trust {
        Trust::Insecure(reason) => {
            let permission = Insecure::because(reason.as_str()).map_err(StartError::Reason)?;
            let facts = NodeFacts::gather(&config.node).map_err(StartError::Node)?;
            Ok(Connections {
                node: facts.node_info(NodeState::Provisioned, None),
                controller: ClientTls::insecure(&permission, ClientOptions::default()),
                permissions: Arc::new(NoPart),
                certificate: None,
            })
        }
        Trust::Iam(iam) => connect_with_iam(iam).await,
    }
}

fn server(role: Role) -> ServerName {
    ServerName::Spiffe(ExpectedServer::role(role))
}

async fn connect_with_iam(iam: &IamConfig) -> Result<Connections, StartError> {
    let target = |tls, address: &str| {
        let target = Target::new(tls, address).map_err(StartError::Address)?;
        Ok::<_, StartError>(IamTarget::Tcp(target))
    };
    let mut source = FileCertSource::trust_only(&iam.ca_cert);
    for crl in &iam.crls {
        source = source.with_crl(crl);
    }
    let trust = CertStore::open(source).await.map_err(StartError::Roots)?;
    let options = ClientOptions::default;
    let public = ClientTls::without_certificate(&trust, server(Role::Iam), options())
        .map_err(StartError::Tls)?;
    let client = IamClient::new(target(public, &iam.public)?);
    let roots = vec![iam.ca_cert.clone()];
    let certificate =
        IamCertStore::open(&client, iam.cert_type.clone(), roots, iam.crls.clone()).await;
    let certificate = certificate.map_err(StartError::Certificate)?;
    let mutual = |role| {
        ClientTls::mutual(certificate.store(), server(role), options()).map_err(StartError::Tls)
    };
    let client = client.with_protected(target(mutual(Role::Iam)?, &iam.protected)?);
    let controller = mutual(Role::Cm)?;
    Ok(Connections {
        node: client.current_node().await.map_err(StartError::Iam)?,
        controller,
        permissions: Arc::new(IamPermissions::new(client)),
        certificate: Some(certificate),
    })
}

async fn open(config: &Config, node: &NodeInfo) -> Result<(Store, ImageStore), StartError> {
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
        .schema(&muster_launcher::SCHEMA)
        .schema(&muster_image::SCHEMA);
    let opened = Store::open(&store).map_err(|error| StartError::Store(Box::new(error)))?;
    if let Outcome::SetAside { .. } = opened.outcome {
        error!(
            outcome = ?opened.outcome,
            "the database was damaged and set aside: instances start when the controller sends them again"
        );
    }
    let platform = match node.cpus.first() {
        Some(cpu) => Platform::of_runtime(&node.os_info, &cpu.arch_info),
        None => Platform::of_this_program(),
    };
    let mut settings = StoreSettings::new(config.working_dir.join("images"), platform);
    settings.max_bytes = config.images_max_bytes;
    settings.item_ttl = config.image_ttl;
    settings.parallel = config.limits.fetches;
    let images = ImageStore::open(settings, opened.store.clone()).await;
    let (images, report) = images.map_err(StartError::Images)?;
    info!(?report, "images");
    Ok((opened.store, images))
}

/// Runs until the shutdown.
pub(crate) async fn run(
    config: Config,
    shutdown: &Shutdown,
    notifier: &Notifier,
) -> Result<ExitCode, StartError> {
    let connections = connect(&config).await?;
    let node = &connections.node;
    let (store, images) = open(&config, node).await?;
    let runtimes = {
        let runner =
            muster_unit_runner::detect(&config.init_system).map_err(StartError::InitSystem)?;
        runtimes::make(&config, node, &runner).map_err(StartError::Runtime)?
    };
    let info = SmInfo {
        node_id: node.node_id.clone(),
        runtimes: runtimes.iter().map(|runtime| runtime.info()).collect(),
        resources: Vec::new(),
    };
    let tls = connections.controller;
    let target = Target::new(tls.clone(), &config.controller).map_err(StartError::Address)?;
    let urls = ControllerUrls::new(channel(&target, ChannelConfig::default()));
    let source = ControllerBlobs::new(Arc::new(urls), tls).map_err(StartError::Http)?;
    let source: Arc<dyn BlobSource> = Arc::new(source);

    let parts = Parts {
        store: store.clone(),
        runtimes,
        images: Arc::new(NodeImages::new(images.clone(), source.clone())),
        permissions: connections.permissions,
        network: Arc::new(NoPart),
        resources: Arc::new(NoPart),
        observers: Vec::new(),
        state_folder: config.state_dir.clone(),
        storage_folder: config.storage_dir.clone(),
    };
    let (launcher, reports, launching) = Launcher::start(parts, config.limits.clone())
        .await
        .map_err(StartError::Launcher)?;
    let mut tasks = TaskSet::new(shutdown);
    tasks.spawn_until_shutdown("launcher", launching);
    if let Some(every) = config.image_check_period {
        let settings = CheckSettings {
            every,
            ..CheckSettings::default()
        };
        tasks.spawn_until_shutdown("image check", async move {
            images.keep_checked(source, settings).await;
        });
    }
    let services = Services {
        launcher,
        node_config: Arc::new(Absent),
        monitoring: Arc::new(Absent),
        logs: Arc::new(Absent),
        networks: Arc::new(Absent),
    };
    let link = ControllerLink::start(target, StreamConfig::default(), info, services, reports);
    tasks.watch_over(notifier);
    notifier.ready();
    info!(node = %connections.node.node_id, "ready");

    let outcome = tasks.run_until_shutdown(notifier, GRACE).await;
    link.stop().await;
    drop(connections.certificate);
    if let Err(failed) = store.close().await {
        warn!(error = %ErrorChain(&failed), "the database was not closed cleanly");
    }
    Ok(outcome.exit_code())
}
