//! One instance: what is wanted of it, what its node was given, and what nodes say.

use std::net::IpAddr;
use std::time::SystemTime;

use muster_api::domain::{
    AosError, InstanceInfo, InstanceState, InstanceStatus, MonitoringData, NetworkId, NodeId,
    RuntimeId,
};
use muster_desired::{Condition, InstanceProgress};

/// How an instance is, as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has no place.
    Unplaced,
    /// Its node has not told of it.
    Waiting,
    /// Its node is not connected.
    Away,
    /// What its node says.
    Told(InstanceState),
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Unplaced => "unplaced",
            Self::Waiting => "waiting",
            Self::Away => "away",
            Self::Told(state) => state.as_str(),
        }
    }
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) version: String,
    pub(crate) node: Option<NodeId>,
    /// It was found that no node can run it.
    pub(crate) unplaced: bool,
    pub(crate) error: Option<Box<AosError>>,
}

impl From<&InstanceProgress> for Wanted {
    fn from(progress: &InstanceProgress) -> Self {
        Self {
            version: progress.version.clone(),
            node: progress.node.clone(),
            unplaced: progress.condition == Condition::Unplaced,
            error: progress.error.clone().map(Box::new),
        }
    }
}

/// What a node was given to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) node: NodeId,
    pub(crate) version: String,
    pub(crate) runtime: RuntimeId,
    pub(crate) priority: u64,
    pub(crate) address: Option<IpAddr>,
    pub(crate) network: Option<NetworkId>,
}

impl Given {
    pub(crate) fn new(node: &NodeId, info: &InstanceInfo) -> Self {
        Self {
            node: node.clone(),
            version: info.version.clone(),
            runtime: info.runtime_id.clone(),
            priority: info.priority,
            address: info.network.as_ref().map(|network| network.ip),
            network: info.network.as_ref().map(|it| it.network_id.clone()),
        }
    }
}

/// What a node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) node: NodeId,
    pub(crate) version: String,
    pub(crate) runtime: Option<RuntimeId>,
    pub(crate) state: InstanceState,
    pub(crate) error: Option<Box<AosError>>,
}

impl Told {
    pub(crate) fn new(node: &NodeId, status: InstanceStatus) -> Self {
        Self {
            node: node.clone(),
            version: status.version,
            runtime: status.runtime_id,
            state: status.state,
            error: status.error.map(Box::new),
        }
    }
}

#[derive(Debug)]
pub(crate) struct InstanceRecord {
    pub(crate) wanted: Option<Wanted>,
    pub(crate) given: Option<Given>,
    /// More than one only while it moves.
    pub(crate) told: Vec<Told>,
    pub(crate) phase: Phase,
    /// When the phase changed.
    pub(crate) since: SystemTime,
    /// At its place.
    pub(crate) usage: Option<Box<MonitoringData>>,
}

impl InstanceRecord {
    pub(crate) fn new(now: SystemTime) -> Self {
        Self {
            wanted: None,
            given: None,
            told: Vec::new(),
            phase: Phase::Waiting,
            since: now,
            usage: None,
        }
    }

    /// Nobody wants it or knows it.
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_none() && self.given.is_none() && self.told.is_empty()
    }

    /// Where it shall be; for what nobody wants, where it is.
    pub(crate) fn place(&self) -> Option<&NodeId> {
        match (&self.wanted, &self.given) {
            (Some(wanted), _) => wanted.node.as_ref(),
            (None, Some(given)) => Some(&given.node),
            (None, None) => self.told.first().map(|told| &told.node),
        }
    }

    /// What the node of its place was given.
    pub(crate) fn given_there(&self) -> Option<&Given> {
        let place = self.place();
        self.given.as_ref().filter(|it| Some(&it.node) == place)
    }

    /// What the node of its place says.
    pub(crate) fn told_there(&self) -> Option<&Told> {
        let place = self.place()?;
        self.told.iter().find(|told| told.node == *place)
    }

    pub(crate) fn phase_now(&self, connected: impl FnOnce(&NodeId) -> bool) -> Phase {
        match (self.place(), self.told_there()) {
            (None, _) if self.wanted.as_ref().is_some_and(|it| it.unplaced) => Phase::Unplaced,
            (None, _) => Phase::Waiting,
            (Some(node), _) if !connected(node) => Phase::Away,
            (Some(_), Some(told)) => Phase::Told(told.state),
            (Some(_), None) => Phase::Waiting,
        }
    }

    /// The version that runs, or shall run.
    pub(crate) fn version(&self) -> &str {
        let told = self.told_there().map(|told| told.version.as_str());
        let given = || self.given_there().map(|given| given.version.as_str());
        let wanted = || self.wanted.as_ref().map(|wanted| wanted.version.as_str());
        let known = told.filter(|it| !it.is_empty());
        known.or_else(given).or_else(wanted).unwrap_or_default()
    }

    pub(crate) fn runtime(&self) -> Option<&RuntimeId> {
        let told = self.told_there().and_then(|told| told.runtime.as_ref());
        told.or_else(|| self.given_there().map(|given| &given.runtime))
    }

    pub(crate) fn error(&self) -> Option<&AosError> {
        let told = self.told_there().and_then(|told| told.error.as_deref());
        told.or_else(|| {
            self.wanted
                .as_ref()
                .and_then(|wanted| wanted.error.as_deref())
        })
    }

    /// Says what a node says now; nothing any more if `told` is none. Whether that is new.
    pub(crate) fn tell(&mut self, node: &NodeId, told: Option<Told>) -> bool {
        let at = self.told.iter().position(|old| old.node == *node);
        match (at, told) {
            (Some(at), Some(told)) if self.told[at] == told => return false,
            (Some(at), Some(told)) => self.told[at] = told,
            (Some(at), None) => drop(self.told.remove(at)),
            (None, Some(told)) => self.told.push(told),
            (None, None) => return false,
        }
        true
    }

    pub(crate) fn want(&mut self, wanted: Option<Wanted>) -> bool {
        if wanted.is_none() {
            // Whatever its node was given is not what it shall have.
            self.given = None;
        }
        replace(&mut self.wanted, wanted)
    }

    pub(crate) fn give(&mut self, given: Option<Given>) -> bool {
        replace(&mut self.given, given)
    }
}

/// Whether that is new.
fn replace<T: PartialEq>(old: &mut T, new: T) -> bool {
    let differs = *old != new;
    *old = new;
    differs
}
