//! What is known of every node: what the identity manager says, what its Service Manager says, and whether it is connected.
//! Pure: facts in, what they change out.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use muster_api::domain::{
    AosCode, AosError, NodeId, NodeInfo, NodeMonitoring, NodeState, NodeType, OsInfo, RuntimeInfo,
    SmInfo,
};
use muster_balance::{Amounts, Capacity};

/// The type of nodes that nobody has described.
const UNKNOWN_TYPE: &str = "node";

/// What a node runs that has said nothing: Service Managers are for Linux.
fn any_linux() -> OsInfo {
    OsInfo::new("linux", "", Vec::new()).expect("it has a name")
}

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    /// What the identity manager says of it.
    pub(crate) info: Option<NodeInfo>,
    /// What its Service Manager said last, also in an earlier life of this daemon.
    pub(crate) sm: Option<SmInfo>,
    /// It has a stream now.
    pub(crate) connected: bool,
    /// It should have a stream and has had none for long.
    pub(crate) silent: bool,
    /// An operator paused it, where there is no identity manager to say so.
    pub(crate) paused: bool,
    /// What it and its instances used last. Not known while it is away.
    pub(crate) usage: Option<Arc<NodeMonitoring>>,
}

impl NodeRecord {
    /// It keeps what it runs and gets nothing new.
    pub(crate) fn is_paused(&self) -> bool {
        match &self.info {
            Some(info) => info.state == NodeState::Paused,
            None => self.paused,
        }
    }

    /// Instances may run on it at all. A node that only its certificate speaks for is a member.
    pub(crate) fn is_member(&self) -> bool {
        let state = self.info.as_ref().map(|it| it.state);
        !matches!(state, Some(NodeState::Unprovisioned | NodeState::Error))
    }

    /// What it is for.
    pub(crate) fn node_type(&self) -> NodeType {
        let described = self.info.as_ref().map(|it| it.node_type.clone());
        described.unwrap_or_else(|| NodeType::new(UNKNOWN_TYPE).expect("a word is a type"))
    }

    /// As the identity manager says, or, without its word, as far as the Service Manager tells.
    pub(crate) fn described(&self, node: &NodeId) -> NodeInfo {
        let silence = || {
            let text = "its Service Manager is not connected";
            self.silent.then(|| AosError::new(AosCode::Timeout, text))
        };
        if let Some(info) = &self.info {
            let mut info = info.clone();
            info.error = info.error.or_else(silence);
            return info;
        }
        let capacity = self.capacity();
        let runtime = self.sm.as_ref().and_then(|it| it.runtimes.first());
        NodeInfo {
            node_id: node.clone(),
            node_type: self.node_type(),
            title: String::new(),
            max_dmips: capacity.cpu.unwrap_or(0),
            total_ram: capacity.ram.unwrap_or(0),
            physical_ram: None,
            os_info: runtime.map_or_else(any_linux, |it| it.os_info.clone()),
            cpus: Vec::new(),
            partitions: Vec::new(),
            attrs: BTreeMap::new(),
            state: match self.paused {
                true => NodeState::Paused,
                false => NodeState::Provisioned,
            },
            error: silence(),
        }
    }

    /// What instances may use of it.
    pub(crate) fn capacity(&self) -> Capacity {
        if let Some(info) = &self.info {
            let known = |amount: u64| (amount > 0).then_some(amount);
            return Capacity {
                cpu: known(info.max_dmips),
                ram: known(info.total_ram),
            };
        }
        let runtimes = self.sm.iter().flat_map(|it| &it.runtimes);
        let most = |amount: fn(&RuntimeInfo) -> Option<NonZeroU64>| {
            let amounts = runtimes.clone().filter_map(amount);
            amounts.max().map(NonZeroU64::get)
        };
        Capacity {
            cpu: most(|it| it.max_dmips),
            ram: most(|it| it.total_ram),
        }
    }

    /// What it uses besides its instances.
    pub(crate) fn system_use(&self) -> Amounts {
        let Some(usage) = &self.usage else {
            return Amounts::default();
        };
        let own = Amounts {
            cpu: usage.node.cpu,
            ram: usage.node.ram,
        };
        let instances = usage.instances.iter();
        instances.fold(own, |rest, it| Amounts {
            cpu: rest.cpu.saturating_sub(it.data.cpu),
            ram: rest.ram.saturating_sub(it.data.ram),
        })
    }

    /// Whether instances could be placed differently because of what changed. On a node that has just become known there are
    /// none, and whoever waits for one is placed because it came.
    fn places_differently(&self, before: &Self) -> bool {
        if before.sm.is_none() {
            return false;
        }
        let of = |it: &Self| (it.is_member(), it.node_type(), it.capacity());
        let offers = |it: &Self| {
            let sm = it.sm.as_ref();
            sm.map(|it| (it.runtimes.clone(), it.resources.clone()))
        };
        of(self) != of(before) || offers(self) != offers(before)
    }
}

/// What became of a node by a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeChange {
    /// Which one.
    pub(crate) node: NodeId,
    /// How it is now; `None` if it is not known any more.
    pub(crate) now: Option<NodeRecord>,
    /// It was paused or resumed.
    pub(crate) paused: Option<bool>,
    /// Instances could be placed differently.
    pub(crate) replaces: bool,
    /// What outlives the daemon has changed.
    pub(crate) lasting: bool,
}

/// All nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTable(BTreeMap<NodeId, NodeRecord>);

impl NodeTable {
    /// From what was kept.
    pub(crate) fn recalled(nodes: impl IntoIterator<Item = (NodeId, NodeRecord)>) -> Self {
        Self(nodes.into_iter().collect())
    }

    /// One of them.
    pub(crate) fn get(&self, node: &NodeId) -> Option<&NodeRecord> {
        self.0.get(node)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &NodeRecord)> {
        self.0.iter()
    }

    fn change(&mut self, node: &NodeId, fact: impl FnOnce(&mut NodeRecord)) -> Option<NodeChange> {
        let before = self.0.get(node).cloned().unwrap_or_default();
        let record = self.0.entry(node.clone()).or_default();
        fact(record);
        if *record == before {
            return None;
        }
        let kept = |it: &NodeRecord| (it.info.clone(), it.sm.clone(), it.paused);
        let is_paused = record.is_paused();
        Some(NodeChange {
            node: node.clone(),
            paused: (is_paused != before.is_paused()).then_some(is_paused),
            replaces: record.places_differently(&before),
            lasting: kept(record) != kept(&before),
            now: Some(record.clone()),
        })
    }

    /// Its Service Manager has a stream, and says what it has.
    pub(crate) fn connected(&mut self, info: SmInfo) -> Option<NodeChange> {
        let node = info.node_id.clone();
        self.change(&node, |record| {
            record.connected = true;
            record.silent = false;
            record.sm = Some(info);
        })
    }

    /// The stream has ended.
    pub(crate) fn disconnected(&mut self, node: &NodeId) -> Option<NodeChange> {
        self.0.get(node)?;
        self.change(node, |record| {
            record.connected = false;
            record.usage = None;
        })
    }

    /// Nodes that should have a stream and have none.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &NodeId> {
        let missing = self.0.iter();
        let missing = missing.filter(|(_, it)| !it.connected && it.is_member());
        missing.map(|(node, _)| node)
    }

    /// It has been missing for long.
    pub(crate) fn silent(&mut self, node: &NodeId) -> Option<NodeChange> {
        self.0.get(node).filter(|it| !it.connected)?;
        self.change(node, |record| record.silent = true)
    }

    /// What it uses now. Nothing else follows from that, so nobody is told.
    pub(crate) fn measured(&mut self, node: &NodeId, usage: Arc<NodeMonitoring>) {
        if let Some(record) = self.0.get_mut(node) {
            record.usage = Some(usage);
        }
    }

    /// An operator pauses or resumes it, where there is no identity manager.
    pub(crate) fn set_paused(&mut self, node: &NodeId, paused: bool) -> Option<NodeChange> {
        self.0.get(node)?;
        self.change(node, |record| record.paused = paused)
    }

    /// The identity manager has paused or resumed it, and will say so itself in a moment.
    pub(crate) fn was_paused(&mut self, node: &NodeId, paused: bool) -> Option<NodeChange> {
        self.0.get(node)?;
        self.change(node, |record| {
            if let Some(info) = &mut record.info {
                info.state = match paused {
                    true => NodeState::Paused,
                    false => NodeState::Provisioned,
                };
            }
        })
    }

    /// These are all nodes that the identity manager knows. Of others only those stay that are connected.
    pub(crate) fn known(&mut self, all: &BTreeMap<NodeId, NodeInfo>) -> Vec<NodeChange> {
        let mut changes = Vec::new();
        for (node, info) in all {
            let is_same = |record: &NodeRecord| record.info.as_ref() == Some(info);
            if !self.0.get(node).is_some_and(is_same) {
                let change = self.change(node, |record| record.info = Some(info.clone()));
                changes.extend(change);
            }
        }
        let unknown: Vec<NodeId> = (self.0.iter())
            .filter(|(node, record)| record.info.is_some() && !all.contains_key(*node))
            .map(|(node, _)| node.clone())
            .collect();
        for node in unknown {
            let is_connected = self.0.get(&node).is_some_and(|it| it.connected);
            if is_connected {
                changes.extend(self.change(&node, |record| record.info = None));
                continue;
            }
            self.0.remove(&node);
            changes.push(NodeChange {
                node,
                now: None,
                paused: None,
                replaces: true,
                lasting: true,
            });
        }
        changes
    }
}

#[cfg(test)]
mod tests;
