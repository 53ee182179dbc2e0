//! The link to the cloud, joined to the rest of this daemon.
//!
//! `CloudDesk` is what others tell the cloud through; it can be used before the identity manager has said which system this
//! is, since what it takes is kept. `CloudPart` is the rest: what is done about the cloud's words (`inbound`), how the Unit is
//! (`status`), and the connection itself. Without an address in the configuration there is none of it.

mod access;
mod blobs;
mod certificates;
mod convert;
mod env;
mod inbound;
mod logs;
mod status;
mod wish;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::domain::{
    Alert, ConnectionState, InstanceIdent, InstanceStatus, NodeId, NodeMonitoring, SubjectId,
};
use muster_cloud::message::outgoing::{
    EnvVarStatus, NewState, OverrideEnvVarsStatus, StateRequest,
};
use muster_cloud::message::{Checksum, Outgoing, Timestamp, telemetry};
use muster_cloud::{CloudLink, ConnectionState as LinkState, Settings, Started};
use muster_control_server::{CloudFacts, UnitView};
use muster_desired::Updates;
use muster_instance_data::{InstanceData, StateCloud};
use muster_items::{Cloud, SignaturePolicy};
use muster_smcontroller::SmController;
use muster_store::{Store, StoreError};
use muster_telemetry::{ErrorChain, TaskSet};
use muster_tls::rustls_pki_types::CertificateDer;
use muster_tls::rustls_pki_types::pem::PemObject as _;
use muster_unit_config::UnitConfig;
use tokio::sync::{mpsc, watch};

use self::status::Statuses;
use crate::config::cloud::CloudConfig;
use crate::config::{Config, Trust};
use crate::identity::LateIdentity;
use crate::switchboard::Switchboard;

pub(crate) use self::env::SCHEMA;

/// Messages from those who cannot wait until they are kept.
const QUEUE: usize = 256;

/// Measurements are on disk at most so long after they were told.
const KEPT_AFTER: Duration = Duration::from_secs(5);

/// What is told to the cloud. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CloudDesk(Arc<Desk>);

#[derive(Debug)]
struct Desk {
    link: CloudLink,
    /// From those who cannot wait.
    queue: mpsc::Sender<Outgoing>,
    // Held for moments, never over an await.
    statuses: Mutex<Statuses>,
    /// Counts what changes the status.
    told: watch::Sender<u64>,
}

impl CloudDesk {
    fn link(&self) -> &CloudLink {
        &self.0.link
    }

    fn locked(&self) -> MutexGuard<'_, Statuses> {
        let statuses = self.0.statuses.lock();
        statuses.unwrap_or_else(PoisonError::into_inner)
    }

    fn statuses(&self) -> Statuses {
        self.locked().clone()
    }

    fn told(&self) -> watch::Receiver<u64> {
        self.0.told.subscribe()
    }

    /// Something about nodes or instances is different.
    pub(crate) fn changed(&self) {
        self.0.told.send_modify(|count| *count += 1);
    }

    /// What instances of a node say; all of them if it is the whole.
    pub(crate) fn instances(&self, node: &NodeId, whole: bool, statuses: &[InstanceStatus]) {
        let mut news = Vec::new();
        {
            let mut all = self.locked();
            let known = all.entry(node.clone()).or_default();
            for status in statuses {
                let before = known.get(&status.instance);
                if before.is_none_or(|it| it.env_vars != status.env_vars) {
                    news.extend(variables(status));
                }
            }
            if whole {
                known.clear();
            }
            let statuses = statuses.iter();
            known.extend(statuses.map(|it| (it.instance.clone(), it.clone())));
        }
        if !news.is_empty() {
            self.enqueue(OverrideEnvVarsStatus { statuses: news }.into());
        }
        self.changed();
    }

    /// A node is not known any more.
    pub(crate) fn forgotten(&self, node: &NodeId) {
        self.locked().remove(node);
        self.changed();
    }

    pub(crate) fn measured(&self, node: &NodeId, usage: &NodeMonitoring) {
        self.link().monitoring(convert::monitoring(node, usage));
    }

    /// Returns when it is kept.
    pub(crate) async fn alert(&self, node: &NodeId, alert: &Alert) {
        let kept = self.link().alerts(&[convert::alert(node, alert)]).await;
        if let Err(error) = kept {
            tracing::warn!(error = %ErrorChain(&error), "an alert for the cloud is lost");
        }
    }

    /// An alert of somebody who cannot wait.
    pub(crate) fn alert_later(&self, node: &NodeId, alert: &Alert) {
        self.later(convert::alert(node, alert));
    }

    fn later(&self, alert: telemetry::Alert) {
        self.enqueue(telemetry::Alerts { items: vec![alert] }.into());
    }

    fn enqueue(&self, message: Outgoing) {
        let message_type = message.message_type();
        if self.0.queue.try_send(message).is_err() {
            tracing::warn!(
                message_type,
                "a message for the cloud is lost: too many at once"
            );
        }
    }

    /// What items need of it.
    pub(crate) fn for_items(&self) -> Cloud {
        Cloud {
            infos: Arc::new(self.clone()),
            events: Arc::new(self.clone()),
        }
    }
}

/// What became of an instance's variables.
fn variables(status: &InstanceStatus) -> impl Iterator<Item = EnvVarStatus> + '_ {
    let (item, subject) = convert::names(&status.instance);
    status.env_vars.iter().map(move |variable| EnvVarStatus {
        item: item.clone(),
        subject: subject.clone(),
        instance: status.instance.instance,
        name: variable.name.to_string(),
        error_info: variable.error.as_ref().map(convert::error),
    })
}

impl StateCloud for CloudDesk {
    fn exists(&self) -> bool {
        true
    }

    fn offer(
        &self,
        instance: InstanceIdent,
        checksum: muster_instance_data::Checksum,
        content: Vec<u8>,
    ) {
        let (item, subject) = convert::names(&instance);
        let Ok(state) = String::from_utf8(content) else {
            tracing::error!(%instance, "the state is no text, and the cloud takes no other");
            return;
        };
        let state = NewState {
            item,
            subject,
            instance: instance.instance,
            state_checksum: Checksum(checksum.as_bytes().to_vec()),
            state,
        };
        self.enqueue(state.into());
    }

    fn request(&self, instance: InstanceIdent) {
        let (item, subject) = convert::names(&instance);
        let request = StateRequest {
            item,
            subject,
            instance: instance.instance,
            default: false,
        };
        self.enqueue(request.into());
    }
}

/// The parts of the daemon that the cloud has to do with.
#[derive(Debug)]
pub(crate) struct Around {
    pub(crate) store: Store,
    pub(crate) identity: LateIdentity,
    pub(crate) updates: Updates,
    pub(crate) data: InstanceData,
    pub(crate) controller: SmController,
    pub(crate) switchboard: Arc<Switchboard>,
    pub(crate) config: watch::Receiver<Option<Arc<UnitConfig>>>,
    pub(crate) subjects: watch::Receiver<BTreeSet<SubjectId>>,
    /// What nodes are told about the cloud.
    pub(crate) connection: watch::Sender<ConnectionState>,
}

/// The link before it has anybody to speak for.
#[derive(Debug)]
pub(crate) struct CloudPart {
    desk: CloudDesk,
    config: CloudConfig,
    started: Started,
    queued: mpsc::Receiver<Outgoing>,
}

impl CloudPart {
    pub(crate) async fn open(config: &CloudConfig, store: Store) -> Result<Self, StoreError> {
        let settings = Settings {
            status_period: config.unit_status_period,
            response_timeout: config.response_timeout,
            monitoring_period: config.monitoring_period,
            monitoring_kept_after: KEPT_AFTER.min(config.monitoring_period),
            alerts_period: config.alerts_period,
            kept_bytes: config.kept_bytes,
            discovery_host: config.discovery_host,
            ..Settings::new(config.discovery_url.clone())
        };
        let started = CloudLink::start(settings, store).await?;
        let (queue, queued) = mpsc::channel(QUEUE);
        let desk = Desk {
            link: started.link.clone(),
            queue,
            statuses: Mutex::default(),
            told: watch::Sender::new(0),
        };
        Ok(Self {
            desk: CloudDesk(Arc::new(desk)),
            config: config.clone(),
            started,
            queued,
        })
    }

    pub(crate) fn desk(&self) -> CloudDesk {
        self.desk.clone()
    }

    /// Speaks to the cloud from now on.
    pub(crate) fn run(self, config: &Config, around: Around, tasks: &mut TaskSet) {
        let link = self.started.link;
        tasks.spawn_until_shutdown("cloud messages", keep(self.queued, link.clone()));
        let facts = status::Sources {
            desk: self.desk.clone(),
            nodes: around.switchboard.nodes().clone(),
            progress: around.updates.progress(),
            config: around.config,
            subjects: around.subjects,
            checksums: around.data.checksums(),
        };
        tasks.spawn_until_shutdown("unit status", status::publish(facts));
        let connection = follow_connection(
            link.connection(),
            around.connection,
            around.switchboard.view().clone(),
            around.data.clone(),
        );
        tasks.spawn_until_shutdown("cloud connection", connection);
        let inbound = inbound::Inbound {
            desk: self.desk,
            store: around.store,
            identity: around.identity.clone(),
            updates: around.updates,
            data: around.data,
            controller: around.controller,
            switchboard: around.switchboard,
        };
        let inbound = inbound.run(self.started.deliveries);
        tasks.spawn_until_shutdown("cloud requests", inbound);
        let access = access::access(config.trust.clone(), self.config, around.identity);
        tasks.spawn_until_shutdown("cloud", self.started.worker.run(access));
    }
}

/// Keeps what others had no time to.
async fn keep(mut queued: mpsc::Receiver<Outgoing>, link: CloudLink) {
    while let Some(message) = queued.recv().await {
        if let Err(error) = link.send(message, None).await {
            tracing::warn!(error = %ErrorChain(&error), "a message for the cloud is lost");
        }
    }
}

/// Tells nodes and operators whether the cloud is there.
async fn follow_connection(
    mut link: watch::Receiver<LinkState>,
    nodes: watch::Sender<ConnectionState>,
    view: UnitView,
    data: InstanceData,
) {
    loop {
        let connected = *link.borrow_and_update() == LinkState::Connected;
        view.cloud(CloudFacts {
            configured: true,
            connected,
        });
        let state = match connected {
            true => ConnectionState::Connected,
            false => ConnectionState::Disconnected,
        };
        let is_news = nodes.send_if_modified(|before| std::mem::replace(before, state) != state);
        if is_news && connected {
            data.reconnected().await;
        }
        if link.changed().await.is_err() {
            return;
        }
    }
}

/// What went wrong with a word of the cloud, as an alert of this daemon.
fn complaint(node: &str, message: String) -> telemetry::Alert {
    telemetry::Alert::CoreAlert {
        timestamp: Timestamp::now(),
        node: muster_cloud::message::Identity::codename(node),
        core_component: "CM".to_owned(),
        message,
    }
}

/// Whose signatures count for items of the cloud: those of the trusted authorities. Without protection there are none.
pub(crate) fn signatures(trust: &Trust) -> SignaturePolicy {
    let iam = match trust {
        Trust::Insecure(_) => {
            return SignaturePolicy {
                accept_unsigned: true,
                ..SignaturePolicy::default()
            };
        }
        Trust::Iam(iam) => iam,
    };
    let read = CertificateDer::pem_file_iter(&iam.ca_cert);
    let read = read.and_then(|all| all.collect::<Result<Vec<_>, _>>());
    let roots = read.unwrap_or_else(|error| {
        let path = iam.ca_cert.display();
        tracing::warn!(%path, %error, "no authority for signatures: items of the cloud are refused");
        Vec::new()
    });
    SignaturePolicy {
        roots: roots.iter().map(|it| it.to_vec()).collect(),
        ..SignaturePolicy::default()
    }
}
