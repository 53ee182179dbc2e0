//! The node that this daemon runs on: facts, state, and what is wrong with it, as one description that
//! can be followed.

use std::sync::{Arc, Mutex, PoisonError};

use muster_api::domain::{AosError, NodeInfo, NodeState};
use muster_nodeinfo::NodeFacts;
use tokio::sync::watch;

use crate::provisioning::phase::Phase;

/// The description of this node. Clones are the same node.
///
/// Two parts of the daemon know things about it: provisioning its phase and how the last request
/// ended, the servers whether the node's own certificate can be used. The description is put together
/// here and published when it has changed.
#[derive(Debug, Clone)]
pub(crate) struct CurrentNode(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    facts: NodeFacts,
    condition: Mutex<Condition>,
    published: watch::Sender<NodeInfo>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    phase: Phase,
    request_failed: Option<AosError>,
    certificate_unusable: Option<AosError>,
}

impl Condition {
    /// A member that cannot show who it is has failed, whatever it was before.
    fn state(&self) -> NodeState {
        if self.phase.is_member() && self.certificate_unusable.is_some() {
            NodeState::Error
        } else {
            self.phase.state()
        }
    }

    fn error(&self) -> Option<AosError> {
        let unusable = self.certificate_unusable.clone();
        unusable
            .filter(|_| self.phase.is_member())
            .or_else(|| self.request_failed.clone())
    }
}

impl CurrentNode {
    /// The node with these facts, in this phase.
    pub(crate) fn new(facts: NodeFacts, phase: Phase) -> Self {
        let condition = Condition {
            phase,
            request_failed: None,
            certificate_unusable: None,
        };
        let (published, _) = watch::channel(facts.node_info(condition.state(), None));
        Self(Arc::new(Shared {
            facts,
            condition: Mutex::new(condition),
            published,
        }))
    }

    /// The description, to read and to follow.
    pub(crate) fn info(&self) -> watch::Receiver<NodeInfo> {
        self.0.published.subscribe()
    }

    /// A request for provisioning has ended, and this is how.
    pub(crate) fn settled(&self, phase: Phase, failed: Option<AosError>) {
        self.change(|condition| {
            condition.phase = phase;
            condition.request_failed = failed;
        });
    }

    /// The phase is another one, in the middle of a request.
    pub(crate) fn entered(&self, phase: Phase) {
        self.change(|condition| condition.phase = phase);
    }

    /// The node's own certificate can be used, or why not.
    pub(crate) fn certificate(&self, unusable: Option<AosError>) {
        self.change(|condition| condition.certificate_unusable = unusable);
    }

    fn change(&self, change: impl FnOnce(&mut Condition)) {
        // Held while publishing, so that descriptions come out in the order of their causes.
        let mut condition = self
            .0
            .condition
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        change(&mut condition);
        let info = self.0.facts.node_info(condition.state(), condition.error());
        self.0.published.send_if_modified(|published| {
            let changed = *published != info;
            *published = info;
            changed
        });
    }
}
