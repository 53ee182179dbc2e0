//! Nodes as updates use them: pausing, the Unit's configuration, and what each shall run.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_api::domain::{AosCode, AosError, InstanceIdent, NodeId};
use muster_desired::DesiredStatus;
use muster_desired::seams::{NodeShare, Nodes};
use muster_iamclient::IamCallError;
use muster_smcontroller::{InstanceRunner as _, NodeCommandError, NodeNetworks as _, SmController};
use muster_telemetry::ErrorChain;
use muster_unit_config::{RefuseUnitConfig, UnitConfigManager};

use crate::identity::LateIdentity;
use crate::switchboard::Switchboard;

/// Why a node was not paused or resumed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PauseNodeError {
    /// Nobody knows it.
    #[error("there is no node {node}")]
    Unknown {
        /// Which one.
        node: NodeId,
    },
    /// The identity manager has not been reached yet.
    #[error("the identity manager, which pauses nodes, has not been reached yet")]
    NoIdentity,
    /// The identity manager did not do it.
    #[error("the identity manager did not do it for node {node}")]
    Refused {
        /// Which one.
        node: NodeId,
        /// What it said.
        source: IamCallError,
    },
}

impl PauseNodeError {
    fn fault(&self) -> AosError {
        let code = match self {
            Self::Unknown { .. } => AosCode::NotFound,
            Self::NoIdentity => AosCode::WrongState,
            Self::Refused { .. } => AosCode::Failed,
        };
        AosError::new(code, ErrorChain(self).to_string())
    }
}

/// Who says which nodes are paused.
#[derive(Debug, Clone)]
pub(crate) enum Pauses {
    /// The identity manager.
    Iam(LateIdentity),
    /// This daemon, where there is no identity manager.
    Own,
}

/// The nodes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct UnitNodes {
    pub(crate) controller: SmController,
    pub(crate) unit_config: UnitConfigManager,
    pub(crate) switchboard: Arc<Switchboard>,
    pub(crate) pauses: Pauses,
}

impl UnitNodes {
    /// Pauses or resumes a node, if it is not so already.
    pub(crate) async fn set_paused(
        &self,
        node: &NodeId,
        paused: bool,
    ) -> Result<(), PauseNodeError> {
        let nodes = self.switchboard.nodes();
        let record = nodes.get(node);
        let record = record.ok_or_else(|| PauseNodeError::Unknown { node: node.clone() })?;
        if record.is_paused() == paused {
            return Ok(());
        }
        let change = match (&self.pauses, record.info.is_some()) {
            // A node that the identity manager does not know can only be paused here.
            (Pauses::Own, _) | (Pauses::Iam(_), false) => nodes.set_paused(node, paused).await,
            (Pauses::Iam(identity), true) => {
                let identity = identity.borrow().clone();
                let iam = identity.ok_or(PauseNodeError::NoIdentity)?.iam;
                let done = match paused {
                    true => iam.pause_node(node).await,
                    false => iam.resume_node(node).await,
                };
                done.map_err(|source| PauseNodeError::Refused {
                    node: node.clone(),
                    source,
                })?;
                nodes.was_paused(node, paused).await
            }
        };
        if let Some(change) = change {
            self.switchboard.node_changed(change).await;
        }
        Ok(())
    }

    /// Everything is tried; what failed is told together.
    async fn bring_about(&self, desired: &DesiredStatus) -> Result<(), AosError> {
        let mut failures: Vec<AosError> = Vec::new();
        for (node, paused) in desired.nodes() {
            if let Err(error) = self.set_paused(node, *paused).await {
                failures.push(error.fault());
            }
        }
        if let Some(config) = desired.unit_config() {
            let nodes = self.switchboard.nodes().connected_nodes();
            let taken = self
                .unit_config
                .update(config.json().as_bytes(), &nodes)
                .await;
            match taken {
                // What is in force need not be set again.
                Ok(()) | Err(RefuseUnitConfig::AlreadyExists { .. }) => {}
                Err(refused) => failures.push(refused.fault()),
            }
        }
        let Some(first) = failures.first().cloned() else {
            return Ok(());
        };
        let texts: Vec<&str> = failures.iter().map(|it| it.message.as_str()).collect();
        Err(AosError {
            message: texts.join("; "),
            ..first
        })
    }

    async fn give(
        &self,
        node: NodeId,
        share: NodeShare,
        stop: Vec<InstanceIdent>,
    ) -> Result<(), AosError> {
        self.switchboard.view().node_given(&node, &share);
        let NodeShare {
            networks,
            instances,
        } = share;
        // Instances join networks, so these come first.
        let networks = self.controller.update_networks(&node, networks).await;
        networks.map_err(|error| command_fault(&error))?;
        let instances = self
            .controller
            .update_instances(&node, instances, stop)
            .await;
        instances.map_err(|error| command_fault(&error))
    }
}

fn command_fault(error: &NodeCommandError) -> AosError {
    let code = match error {
        NodeCommandError::NotFound { .. } => AosCode::NotFound,
        NodeCommandError::NoAnswer { .. } | NodeCommandError::Stalled { .. } => AosCode::Timeout,
        NodeCommandError::TooLong { .. } => AosCode::OutOfRange,
        NodeCommandError::InvalidAnswer { .. } | NodeCommandError::Disconnected { .. } => {
            AosCode::Failed
        }
    };
    AosError::new(code, ErrorChain(error).to_string())
}

impl Nodes for UnitNodes {
    fn configure(&self, desired: Arc<DesiredStatus>) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(async move { self.bring_about(&desired).await })
    }

    fn update(
        &self,
        node: NodeId,
        share: NodeShare,
        stop: Vec<InstanceIdent>,
    ) -> BoxFuture<'_, Result<(), AosError>> {
        Box::pin(self.give(node, share, stop))
    }
}
