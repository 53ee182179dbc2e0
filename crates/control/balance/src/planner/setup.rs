//! From a request to the state in which planning starts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{ItemId, ItemType, NodeId};

use crate::demand::{self, Data};
use crate::ledger::Ledger;
use crate::request::{Distribution, Node, Reason, Request, RequestError, Standing, Wanted};
use crate::suit::SuitTable;
use crate::world::NodeState;

use super::{Instance, Planner, Status};

fn sorted_nodes(request: &Request) -> Result<Vec<&Node>, RequestError> {
    let mut nodes: Vec<&Node> = request.nodes.iter().collect();
    nodes.sort_unstable_by(|own, other| own.id.cmp(&other.id));
    if let Some(twice) = nodes.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let node = twice[0].id.clone();
        return Err(RequestError::DuplicateNode { node });
    }
    for node in &nodes {
        let mut seen = BTreeSet::new();
        for info in &node.runtimes {
            if !seen.insert(&info.runtime_id) {
                return Err(RequestError::DuplicateRuntime {
                    node: node.id.clone(),
                    runtime: info.runtime_id.clone(),
                });
            }
        }
    }
    Ok(nodes)
}

/// In the order of rule 4: the order of instances follows from it.
fn sorted_wanted(request: &Request) -> Result<Vec<&Wanted>, RequestError> {
    let mut seen = BTreeSet::new();
    let mut count = 0_u64;
    for wanted in &request.wanted {
        if !seen.insert((&wanted.item, &wanted.subject)) {
            return Err(RequestError::DuplicateWanted {
                item: wanted.item.clone(),
                subject: wanted.subject.clone(),
            });
        }
        if wanted.images.is_empty() {
            let item = wanted.item.clone();
            return Err(RequestError::NoImage { item });
        }
        count = count.saturating_add(wanted.count);
    }
    let limit = request.limits.instances;
    if count > limit {
        return Err(RequestError::TooManyInstances { count, limit });
    }
    let mut wanted: Vec<&Wanted> = request.wanted.iter().collect();
    wanted.sort_unstable_by(|own, other| {
        let order = Reverse(own.priority).cmp(&Reverse(other.priority));
        order
            .then_with(|| own.item.cmp(&other.item))
            .then_with(|| own.subject.cmp(&other.subject))
    });
    Ok(wanted)
}

/// Numbers the items of which somebody counts instances by node.
fn counted_items(wanted: &[&Wanted]) -> Vec<Option<usize>> {
    let spread = wanted
        .iter()
        .filter(|wanted| wanted.distribution == Distribution::Spread);
    let items: BTreeSet<&ItemId> = spread.map(|wanted| &wanted.item).collect();
    let numbers: BTreeMap<&ItemId, usize> = items.into_iter().zip(0..).collect();
    wanted
        .iter()
        .map(|wanted| numbers.get(&wanted.item).copied())
        .collect()
}

impl<'r> Planner<'r> {
    pub(super) fn new(request: &'r Request, ledger: &Ledger) -> Result<Self, RequestError> {
        let nodes = sorted_nodes(request)?;
        let wanted = sorted_wanted(request)?;
        let suits = SuitTable::new(&nodes, &wanted);
        let node_index: BTreeMap<&NodeId, usize> =
            nodes.iter().map(|node| &node.id).zip(0..).collect();
        let state = |node: &&'r Node| {
            let standing = match &request.reason {
                Reason::NodeLost(lost) if *lost == node.id => Standing::Offline,
                _ => node.standing,
            };
            let relieved = match &request.reason {
                Reason::QuotaAlert(reliefs) => reliefs.iter().any(|relief| relief.node == node.id),
                _ => false,
            };
            NodeState::new(node, standing, relieved)
        };
        let mut planner = Self {
            request,
            nodes: nodes.iter().map(state).collect(),
            node_index,
            suits,
            ranks: BTreeSet::new(),
            instances: Vec::new(),
            pending: BTreeSet::new(),
            displaceable: BTreeMap::new(),
            counted: counted_items(&wanted),
            of_item: BTreeMap::new(),
            hopeless: vec![None; wanted.len()],
            data: Data::default(),
            ledger: ledger.clone(),
            probe: None,
            wanted,
        };
        planner.list_instances();
        for (index, node) in planner.nodes.iter().enumerate() {
            if node.standing == Standing::Ready {
                planner.ranks.insert(node.rank(index));
            }
        }
        Ok(planner)
    }

    fn list_instances(&mut self) {
        let limits = &self.request.limits;
        for (index, wanted) in self.wanted.iter().enumerate() {
            let data = demand::data(&wanted.requested, &wanted.quotas, &self.request.pools);
            for number in 0..wanted.count {
                let ident = wanted.ident(number);
                let now = self.request.running.get(&ident);
                if now.is_some() {
                    // Also what runs without having been planned has its user, data and home from now on.
                    self.ledger.admit(&ident, limits.uids, limits.gids);
                }
                let home = self.ledger.home(&ident).or(now.map(|place| &place.node));
                let home = home.filter(|_| wanted.is_bound()).cloned();
                self.ledger.set_home(&ident, home.as_ref());
                let is_overruled = wanted.kind == ItemType::Service && wanted.pin.is_some();
                // A node that left the Unit binds nobody.
                let home = home.filter(|_| !is_overruled);
                let home = home.and_then(|node| self.node_index.get(&node).copied());
                // Who was placed before has its data, also while it does not run.
                let admitted = self.ledger.uid(&ident).is_some();
                if admitted {
                    self.data.storage = self.data.storage.saturating_add(data.storage);
                    self.data.state = self.data.state.saturating_add(data.state);
                }
                self.instances.push(Instance {
                    ident,
                    wanted: index,
                    now,
                    home,
                    admitted,
                    status: Status::Pending,
                });
            }
        }
        self.pending = (0..self.instances.len()).collect();
    }
}
