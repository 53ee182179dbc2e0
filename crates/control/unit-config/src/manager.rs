//! The one in force, and how it becomes another one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use muster_api::domain::{AosCode, AosError, NodeConfigState, NodeConfigStatus, NodeId, NodeType};
use muster_config::Limits;
use muster_fault::hit;
use muster_smcontroller::NodeConfigs;
use muster_telemetry::ErrorChain;
use semver::Version;
use tokio::sync::watch;

use crate::document::{InvalidUnitConfig, UnitConfig};
use crate::fault::{CHECKED, WRITTEN};
use crate::file::{self, KeepFileError};

/// What is told about the configuration in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitConfigStatus {
    /// How it is.
    pub state: NodeConfigState,
    /// Which one; empty if there is none.
    pub version: String,
    /// What is wrong with it.
    pub error: Option<AosError>,
}

/// Why a configuration was not taken.
#[derive(Debug, thiserror::Error)]
pub enum RefuseUnitConfig {
    /// It is none.
    #[error(transparent)]
    Invalid(InvalidUnitConfig),
    /// It is in force.
    #[error("unit configuration {version} is in force already")]
    AlreadyExists {
        /// Its version.
        version: Version,
    },
    /// A newer one is in force.
    #[error("unit configuration {offered} is older than {current}, which is in force")]
    Older {
        /// The one that is offered.
        offered: Version,
        /// The one in force.
        current: Version,
    },
    /// Nodes do not take it.
    #[error("unit configuration {version} is refused by {}", listed(refusals.iter().map(|(node, error)| (node, error))))]
    Nodes {
        /// Its version.
        version: Version,
        /// Who, and why.
        refusals: Vec<(NodeId, AosError)>,
    },
    /// It cannot be kept.
    #[error("unit configuration {version} cannot be kept")]
    Keep {
        /// Its version.
        version: Version,
        /// What exactly.
        source: KeepFileError,
    },
}

fn listed<'a>(refusals: impl IntoIterator<Item = (&'a NodeId, &'a AosError)>) -> String {
    let each: Vec<String> = refusals
        .into_iter()
        .map(|(node, error)| format!("{node}: {error}"))
        .collect();
    each.join("; ")
}

impl RefuseUnitConfig {
    /// What a cloud or an operator is told.
    pub fn fault(&self) -> AosError {
        let code = match self {
            Self::Invalid(_) => AosCode::InvalidArgument,
            Self::AlreadyExists { .. } => AosCode::AlreadyExists,
            Self::Older { .. } => AosCode::WrongState,
            Self::Nodes { .. } | Self::Keep { .. } => AosCode::Failed,
        };
        AosError::new(code, ErrorChain(self).to_string())
    }
}

/// Keeps the Unit's configuration. Cheap to clone.
#[derive(Debug, Clone)]
pub struct UnitConfigManager(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    limits: Limits,
    nodes: Arc<dyn NodeConfigs>,
    /// Held during an update.
    turn: tokio::sync::Mutex<()>,
    current: watch::Sender<Option<Arc<UnitConfig>>>,
    /// What is wrong with what is in force.
    fault: Mutex<Fault>,
}

/// What is wrong with what is in force.
#[derive(Debug)]
enum Fault {
    /// The file holds none.
    Unreadable(AosError),
    /// Nodes that have not taken it; usually none.
    NotSet(BTreeMap<NodeId, AosError>),
}

impl Fault {
    fn told(&self) -> Option<AosError> {
        match self {
            Self::Unreadable(error) => Some(error.clone()),
            Self::NotSet(nodes) if nodes.is_empty() => None,
            Self::NotSet(nodes) => {
                let text = format!("not set on {}", listed(nodes));
                Some(AosError::new(AosCode::Failed, text))
            }
        }
    }

    /// A node has taken what is in force, or has not.
    fn answered(&mut self, node: &NodeId, error: Option<AosError>) {
        let Self::NotSet(nodes) = self else {
            return;
        };
        match error {
            Some(error) => nodes.insert(node.clone(), error),
            None => nodes.remove(node),
        };
    }
}

impl UnitConfigManager {
    /// Reads the file. One that cannot be read as a configuration is told in the status, and replaced by the next one.
    pub fn open(
        path: impl Into<PathBuf>,
        limits: Limits,
        nodes: Arc<dyn NodeConfigs>,
    ) -> Result<Self, KeepFileError> {
        let path = path.into();
        let (mut current, mut fault) = (None, Fault::NotSet(BTreeMap::new()));
        if let Some(bytes) = file::read(&path)? {
            match UnitConfig::read(&bytes, &limits) {
                Ok(config) => current = Some(Arc::new(config)),
                Err(invalid) => {
                    tracing::error!(file = %path.display(), error = %invalid, "the unit configuration cannot be read");
                    fault = Fault::Unreadable(RefuseUnitConfig::Invalid(invalid).fault());
                }
            }
        }
        Ok(Self(Arc::new(Inner {
            path,
            limits,
            nodes,
            turn: tokio::sync::Mutex::new(()),
            current: watch::Sender::new(current),
            fault: Mutex::new(fault),
        })))
    }

    /// The one in force, as it changes.
    pub fn current(&self) -> watch::Receiver<Option<Arc<UnitConfig>>> {
        self.0.current.subscribe()
    }

    /// What is told about it.
    pub fn status(&self) -> UnitConfigStatus {
        let (current, error) = (self.0.current.borrow(), self.fault().told());
        let version = current.as_ref().map(|it| it.version.to_string());
        UnitConfigStatus {
            state: match (&version, &error) {
                (_, Some(_)) => NodeConfigState::Failed,
                (Some(_), None) => NodeConfigState::Installed,
                (None, None) => NodeConfigState::Absent,
            },
            version: version.unwrap_or_default(),
            error,
        }
    }

    /// Whether a document would be taken now, by these nodes.
    pub async fn check(
        &self,
        document: &[u8],
        nodes: &[(NodeId, NodeType)],
    ) -> Result<(), RefuseUnitConfig> {
        let _turn = self.0.turn.lock().await;
        self.checked(document, nodes).await.map(drop)
    }

    /// Takes a document, if every one of these nodes would.
    pub async fn update(
        &self,
        document: &[u8],
        nodes: &[(NodeId, NodeType)],
    ) -> Result<(), RefuseUnitConfig> {
        let _turn = self.0.turn.lock().await;
        let config = Arc::new(self.checked(document, nodes).await?);
        hit(CHECKED);
        let (path, bytes) = (self.0.path.clone(), document.to_owned());
        let written = tokio::task::spawn_blocking(move || file::write(&path, &bytes)).await;
        let written = written.unwrap_or_else(|broken| {
            Err(KeepFileError {
                action: "write",
                path: self.0.path.clone(),
                source: std::io::Error::other(broken),
            })
        });
        written.map_err(|source| RefuseUnitConfig::Keep {
            version: config.version.clone(),
            source,
        })?;
        hit(WRITTEN);
        self.0.current.send_replace(Some(Arc::clone(&config)));
        tracing::info!(version = %config.version, "a new unit configuration is in force");
        let set = nodes
            .iter()
            .map(|(node, kind)| self.set(&config, node, kind));
        let failed = join_all(set).await.into_iter().flatten().collect();
        *self.fault() = Fault::NotSet(failed);
        Ok(())
    }

    /// Brings a node up to date.
    pub async fn node_connected(&self, node: &NodeId, node_type: &NodeType) {
        let _turn = self.0.turn.lock().await;
        let current = self.0.current.borrow().clone();
        let Some(config) = current else {
            return;
        };
        match self.0.nodes.node_config_status(node).await {
            Ok(status) => {
                let is_set = up_to_date(&status, &config.version);
                let refusal = match is_set {
                    true => None,
                    false => self.set(&config, node, node_type).await,
                };
                let error = refusal.map(|(_, error)| error);
                if let Some(error) = &error {
                    tracing::error!(%node, %error, "a node does not take its configuration");
                }
                self.fault().answered(node, error);
            }
            Err(error) => {
                tracing::warn!(%node, error = %ErrorChain(&error), "cannot ask a node for its configuration");
            }
        }
    }

    fn fault(&self) -> MutexGuard<'_, Fault> {
        self.0.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn checked(
        &self,
        document: &[u8],
        nodes: &[(NodeId, NodeType)],
    ) -> Result<UnitConfig, RefuseUnitConfig> {
        let config =
            UnitConfig::read(document, &self.0.limits).map_err(RefuseUnitConfig::Invalid)?;
        let current = self.0.current.borrow().clone();
        decide(current.as_deref(), &config)?;
        let checks = nodes
            .iter()
            .map(|(node, kind)| self.ask(&config, node, kind));
        let refusals: Vec<(NodeId, AosError)> =
            join_all(checks).await.into_iter().flatten().collect();
        if !refusals.is_empty() {
            return Err(RefuseUnitConfig::Nodes {
                version: config.version,
                refusals,
            });
        }
        Ok(config)
    }

    async fn ask(
        &self,
        config: &UnitConfig,
        node: &NodeId,
        node_type: &NodeType,
    ) -> Option<(NodeId, AosError)> {
        let (version, part) = share(config, node, node_type);
        refusal(
            node,
            self.0.nodes.check_node_config(node, version, part).await,
        )
    }

    async fn set(
        &self,
        config: &UnitConfig,
        node: &NodeId,
        node_type: &NodeType,
    ) -> Option<(NodeId, AosError)> {
        let (version, part) = share(config, node, node_type);
        refusal(
            node,
            self.0.nodes.set_node_config(node, version, part).await,
        )
    }
}

/// What a node is sent.
fn share(config: &UnitConfig, node: &NodeId, node_type: &NodeType) -> (String, String) {
    let part = config.for_node(node, node_type);
    (config.version.to_string(), part.json)
}

fn up_to_date(status: &NodeConfigStatus, version: &Version) -> bool {
    status.state == NodeConfigState::Installed
        && status.error.is_none()
        && Version::parse(&status.version).is_ok_and(|it| it == *version)
}

fn refusal(
    node: &NodeId,
    answer: Result<NodeConfigStatus, muster_smcontroller::NodeCommandError>,
) -> Option<(NodeId, AosError)> {
    let error = match answer {
        Ok(status) => status.error?,
        Err(error) => AosError::new(AosCode::Failed, ErrorChain(&error).to_string()),
    };
    Some((node.clone(), error))
}

/// Whether a version may follow another one.
fn decide(current: Option<&UnitConfig>, offered: &UnitConfig) -> Result<(), RefuseUnitConfig> {
    match current.map(|it| it.version.cmp_precedence(&offered.version)) {
        None | Some(std::cmp::Ordering::Less) => Ok(()),
        Some(std::cmp::Ordering::Equal) => Err(RefuseUnitConfig::AlreadyExists {
            version: offered.version.clone(),
        }),
        Some(std::cmp::Ordering::Greater) => Err(RefuseUnitConfig::Older {
            offered: offered.version.clone(),
            current: current.map_or_else(|| offered.version.clone(), |it| it.version.clone()),
        }),
    }
}

#[cfg(test)]
mod tests;
