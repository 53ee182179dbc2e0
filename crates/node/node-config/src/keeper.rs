//! The one task that installs configurations, and its handle.

use std::future::Future;
use std::sync::Arc;

use muster_api::domain::{AosCode, AosError, NodeConfigState, NodeConfigStatus};
use muster_config::Limits;
use muster_store::{Store, StoreError};
use muster_telemetry::ErrorChain;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info, warn};

use crate::config::NodeConfig;
use crate::decide::{Decision, Identity, Offer, RefuseNodeConfig, State, read_offer};
use crate::{database, fault};

/// Requests that wait; the controller sends one at a time.
const QUEUE: usize = 8;

/// What a keeper needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who this node is.
    pub identity: Identity,
    /// Bounds of a document.
    pub limits: Limits,
}

impl Settings {
    /// Documents of at most 256 KiB and 10,000 values, which no node needs, for the node `identity`.
    pub fn new(identity: Identity) -> Self {
        let limits = Limits {
            file_bytes: 256 << 10,
            nodes: 10_000,
            ..Limits::default()
        };
        Self { identity, limits }
    }
}

/// Why a keeper did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the installed node configuration")]
pub struct StartNodeConfigError {
    /// What the store said.
    pub source: StoreError,
}

/// Why a configuration was not installed.
#[derive(Debug, thiserror::Error)]
enum SetError {
    #[error(transparent)]
    Refused(RefuseNodeConfig),
    #[error("cannot keep node configuration {version}")]
    Store { version: String, source: StoreError },
    #[error("the node is shutting down")]
    Gone,
}

impl SetError {
    fn code(&self) -> AosCode {
        match self {
            Self::Refused(reason) => reason.code(),
            Self::Store { .. } => AosCode::Failed,
            Self::Gone => AosCode::Cancelled,
        }
    }
}

#[derive(Debug)]
struct SetRequest {
    version: String,
    document: String,
    answer: oneshot::Sender<Result<(), SetError>>,
}

/// Keeps the node's configuration. Clones are handles to the same.
#[derive(Debug, Clone)]
pub struct NodeConfigKeeper {
    requests: mpsc::Sender<SetRequest>,
    state: watch::Receiver<State>,
    in_force: watch::Receiver<Arc<NodeConfig>>,
    settings: Arc<Settings>,
}

impl NodeConfigKeeper {
    /// Reads what is installed in a store that was opened with [`SCHEMA`](crate::SCHEMA), and gives the handle and the task,
    /// which ends when the last handle is gone.
    ///
    /// # Errors
    /// When the store fails. An installed document that is not usable any more is no error but a status.
    pub async fn start(
        store: Store,
        settings: Settings,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), StartNodeConfigError> {
        let installed = database::load(&store).await;
        let installed = installed.map_err(|source| StartNodeConfigError { source })?;
        let state = recover(installed, &settings);
        let (in_force_out, in_force) = watch::channel(state.config());
        let (state_out, state) = watch::channel(state);
        let (requests, queue) = mpsc::channel(QUEUE);
        let settings = Arc::new(settings);
        let owner = Owner {
            store,
            settings: Arc::clone(&settings),
            state: state_out,
            in_force: in_force_out,
        };
        let handle = Self {
            requests,
            state,
            in_force,
            settings,
        };
        Ok((handle, owner.run(queue)))
    }

    /// What is in force, now and whenever it changes.
    pub fn subscribe(&self) -> watch::Receiver<Arc<NodeConfig>> {
        let mut subscribed = self.in_force.clone();
        subscribed.mark_unchanged();
        subscribed
    }

    /// What is installed.
    pub fn status(&self) -> NodeConfigStatus {
        match &*self.state.borrow() {
            State::Absent => status(NodeConfigState::Absent, String::new(), None),
            State::Installed { version, .. } => {
                status(NodeConfigState::Installed, version.to_string(), None)
            }
            State::Unreadable { version, reason } => {
                let error = AosError::new(AosCode::InvalidArgument, reason.clone());
                status(NodeConfigState::Failed, version.clone(), Some(error))
            }
        }
    }

    /// Whether a document would be taken now. Changes nothing.
    pub fn check(&self, version: &str, document: &str) -> NodeConfigStatus {
        let Settings { identity, limits } = &*self.settings;
        let checked = read_offer(version, document, identity, limits)
            .and_then(|offer| self.state.borrow().decide(&offer));
        answered(version, checked.map(drop).map_err(SetError::Refused))
    }

    /// Installs a document. Answers when it is durable and in force, or why it is not.
    pub async fn set(&self, version: String, document: String) -> NodeConfigStatus {
        let (answer, answered_by_owner) = oneshot::channel();
        let request = SetRequest {
            version: version.clone(),
            document,
            answer,
        };
        let result = match self.requests.send(request).await {
            Ok(()) => answered_by_owner.await.unwrap_or(Err(SetError::Gone)),
            Err(_) => Err(SetError::Gone),
        };
        answered(&version, result)
    }
}

fn status(state: NodeConfigState, version: String, error: Option<AosError>) -> NodeConfigStatus {
    NodeConfigStatus {
        state,
        version,
        error,
    }
}

/// The answer to a request about `version`.
fn answered(version: &str, result: Result<(), SetError>) -> NodeConfigStatus {
    let version = version.to_owned();
    match result {
        Ok(()) => status(NodeConfigState::Installed, version, None),
        Err(failed) => {
            let error = AosError::new(failed.code(), ErrorChain(&failed).to_string());
            status(NodeConfigState::Failed, version, Some(error))
        }
    }
}

/// The state after a start.
fn recover(installed: Option<(String, String)>, settings: &Settings) -> State {
    let Some((version, document)) = installed else {
        return State::Absent;
    };
    let Settings { identity, limits } = settings;
    match read_offer(&version, &document, identity, limits) {
        Ok(Offer {
            version, config, ..
        }) => State::Installed {
            version,
            config: Arc::new(config),
        },
        Err(refusal) => {
            let reason = refusal.to_string();
            error!(%version, error = %reason, "the installed node configuration cannot be used: there are no alert rules and labels until the controller sends another");
            State::Unreadable { version, reason }
        }
    }
}

/// Owns what is installed.
struct Owner {
    store: Store,
    settings: Arc<Settings>,
    state: watch::Sender<State>,
    in_force: watch::Sender<Arc<NodeConfig>>,
}

impl Owner {
    async fn run(self, mut queue: mpsc::Receiver<SetRequest>) {
        while let Some(request) = queue.recv().await {
            let result = self.set(request.version, request.document).await;
            if let Err(failed) = &result {
                warn!(error = %ErrorChain(failed), "a node configuration was not installed");
            }
            // Whoever asked may have gone.
            let _ = request.answer.send(result);
        }
    }

    async fn set(&self, version: String, document: String) -> Result<(), SetError> {
        let Settings { identity, limits } = &*self.settings;
        let offer = read_offer(&version, &document, identity, limits).map_err(SetError::Refused)?;
        let decision = self.state.borrow().decide(&offer);
        if decision.map_err(SetError::Refused)? == Decision::Keep {
            return Ok(());
        }
        let Offer {
            version,
            config,
            unknown,
        } = offer;
        if !unknown.is_empty() {
            warn!(%version, keys = unknown.join(" "), "the node configuration has keys that this node does not know");
        }
        muster_fault::hit(fault::ACCEPTED);
        let saved = database::save(&self.store, version.to_string(), document).await;
        saved.map_err(|source| SetError::Store {
            version: version.to_string(),
            source,
        })?;
        muster_fault::hit(fault::WRITTEN);
        info!(%version, "node configuration installed");
        let config = Arc::new(config);
        self.in_force.send_if_modified(|old| {
            let changed = *old != config;
            *old = Arc::clone(&config);
            changed
        });
        self.state
            .send_replace(State::Installed { version, config });
        muster_fault::hit(fault::IN_FORCE);
        Ok(())
    }
}
