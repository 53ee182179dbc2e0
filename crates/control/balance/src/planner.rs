//! The balancer at work: one pass over all instances, from a request to a plan.
//!
//! ```text
//!   keep ──────> place ──────> relieve ──────> plan
//!   what runs    the rest,     nodes with a    places, users, groups,
//!   and fits     by priority   quota alert     or why not
//!                └─ displace: back to `place` with who had to go
//! ```
//!
//! Instances are numbered in the order in which they are placed, so the number of a displaced instance is always higher than
//! that of whoever displaced it: `place` takes the lowest number that is pending until there is none, and ends.

mod keep;
mod place;
mod relief;
mod setup;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};

use muster_api::domain::{InstanceIdent, ItemType, NodeId};
use thiserror::Error;

use crate::demand::{self, Amounts, Data};
use crate::explain::{ChosenBecause, Explanation, NodeVerdict};
use crate::ledger::Ledger;
use crate::outcome::{Change, Placed, Plan, WhyNot};
use crate::request::{Place, Request, RequestError, Wanted};
use crate::suit::SuitTable;
use crate::world::{Load, NodeState, Rank, Seat};

/// Says where everything runs.
///
/// The ledger is the one of the last plan that was carried out; the new one is in the plan.
pub fn plan(request: &Request, ledger: &Ledger) -> Result<Plan, RequestError> {
    let mut planner = Planner::new(request, ledger)?;
    planner.run();
    Ok(planner.into_plan())
}

/// No such explanation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExplainInstanceError {
    /// The request contradicts itself.
    #[error("what is known about the unit contradicts itself")]
    Request(#[source] RequestError),
    /// It is not wanted.
    #[error("instance {instance} is not wanted")]
    NotWanted {
        /// Which one.
        instance: InstanceIdent,
    },
}

/// Says why [`plan`] puts an instance where it does, for the same request and ledger.
pub fn explain(
    request: &Request,
    ledger: &Ledger,
    instance: &InstanceIdent,
) -> Result<Explanation, ExplainInstanceError> {
    let mut planner = Planner::new(request, ledger).map_err(ExplainInstanceError::Request)?;
    let number = planner
        .instances
        .iter()
        .position(|own| own.ident == *instance)
        .ok_or_else(|| ExplainInstanceError::NotWanted {
            instance: instance.clone(),
        })?;
    planner.probe = Some(Probe {
        instance: number,
        verdicts: None,
    });
    planner.run();
    Ok(planner.into_explanation(number))
}

/// What has become of an instance so far.
#[derive(Debug)]
enum Status {
    Pending,
    Seated {
        seat: Seat,
        amounts: Amounts,
        because: ChosenBecause,
    },
    /// It stays on a node that is paused or away, whatever it takes there.
    Frozen,
    Refused(WhyNot),
}

#[derive(Debug)]
struct Instance<'r> {
    ident: InstanceIdent,
    wanted: usize,
    now: Option<&'r Place>,
    /// The only node that it may run on, because it was first placed there.
    home: Option<usize>,
    /// It has its user and group, and its storage and state are counted.
    admitted: bool,
    status: Status,
}

/// Looks at one instance when its place is decided.
struct Probe {
    instance: usize,
    verdicts: Option<Vec<NodeVerdict>>,
}

struct Planner<'r> {
    request: &'r Request,
    wanted: Vec<&'r Wanted>,
    nodes: Vec<NodeState<'r>>,
    node_index: BTreeMap<&'r NodeId, usize>,
    suits: SuitTable,
    /// Ready nodes, best first.
    ranks: BTreeSet<Rank>,
    /// In the order in which they are placed.
    instances: Vec<Instance<'r>>,
    pending: BTreeSet<usize>,
    /// How many instances that may be displaced sit somewhere, by priority.
    displaceable: BTreeMap<u64, usize>,
    /// By wanted item: its number, if instances of the item are counted by node.
    counted: Vec<Option<usize>>,
    /// How many instances of a counted item sit on a node.
    of_item: BTreeMap<(usize, usize), u64>,
    /// By wanted item: why no node takes another instance that is bound to none.
    hopeless: Vec<Option<WhyNot>>,
    data: Data,
    ledger: Ledger,
    probe: Option<Probe>,
}

impl<'r> Planner<'r> {
    fn run(&mut self) {
        self.keep();
        while let Some(number) = self.pending.pop_first() {
            self.place(number);
        }
        self.relieve();
    }

    fn wanted_of(&self, number: usize) -> &'r Wanted {
        self.wanted[self.instances[number].wanted]
    }

    fn amounts(&self, number: usize, node: usize) -> Amounts {
        let wanted = self.wanted_of(number);
        let ratios = &self.nodes[node].node.ratios;
        demand::amounts(&wanted.requested, &wanted.quotas, ratios)
    }

    fn load(&self, number: usize, amounts: Amounts) -> Load<'r> {
        Load {
            amounts,
            resources: &self.wanted_of(number).resources,
        }
    }

    /// Changes what is on a node, keeping its rank.
    fn change_node(&mut self, node: usize, change: impl FnOnce(&mut NodeState<'r>)) {
        let state = &mut self.nodes[node];
        let ranked = self.ranks.remove(&state.rank(node));
        change(state);
        if ranked {
            self.ranks.insert(state.rank(node));
        }
    }

    fn sit(&mut self, number: usize, seat: Seat, because: ChosenBecause) {
        let amounts = self.amounts(number, seat.node);
        let load = self.load(number, amounts);
        self.change_node(seat.node, |node| node.enter(number, seat.runtime, load));
        let wanted = self.wanted_of(number);
        if wanted.kind == ItemType::Service {
            *self.displaceable.entry(wanted.priority).or_default() += 1;
        }
        if let Some(item) = self.counted[self.instances[number].wanted] {
            *self.of_item.entry((item, seat.node)).or_default() += 1;
        }
        self.admit(number);
        self.pending.remove(&number);
        self.instances[number].status = Status::Seated {
            seat,
            amounts,
            because,
        };
    }

    /// Takes an instance from its seat. It is pending then.
    fn rise(&mut self, number: usize) {
        let pending = std::mem::replace(&mut self.instances[number].status, Status::Pending);
        let Status::Seated { seat, amounts, .. } = pending else {
            return;
        };
        let load = self.load(number, amounts);
        self.change_node(seat.node, |node| node.leave(number, seat.runtime, load));
        let wanted = self.wanted_of(number);
        if wanted.kind == ItemType::Service
            && let Some(count) = self.displaceable.get_mut(&wanted.priority)
        {
            *count -= 1;
            if *count == 0 {
                self.displaceable.remove(&wanted.priority);
            }
        }
        if let Some(item) = self.counted[self.instances[number].wanted]
            && let Some(count) = self.of_item.get_mut(&(item, seat.node))
        {
            *count -= 1;
        }
        self.pending.insert(number);
    }

    /// Gives an instance user, group and room for its data, which [`may_run`](Self::may_run) found there are.
    fn admit(&mut self, number: usize) {
        if self.instances[number].admitted {
            return;
        }
        let wanted = self.wanted_of(number);
        let data = demand::data(&wanted.requested, &wanted.quotas, &self.request.pools);
        self.data.storage = self.data.storage.saturating_add(data.storage);
        self.data.state = self.data.state.saturating_add(data.state);
        let limits = &self.request.limits;
        let instance = &mut self.instances[number];
        self.ledger.admit(&instance.ident, limits.uids, limits.gids);
        instance.admitted = true;
    }

    /// What an instance needs besides a node.
    fn may_run(&self, number: usize) -> Result<(), WhyNot> {
        let instance = &self.instances[number];
        if instance.admitted {
            return Ok(());
        }
        let limits = &self.request.limits;
        if !self.ledger.can_admit(&instance.ident, limits.uids) {
            let numbers = limits.uids.size();
            return Err(WhyNot::NoUid { numbers });
        }
        if !self
            .ledger
            .can_admit_item(&instance.ident.item_id, limits.gids)
        {
            let numbers = limits.gids.size();
            return Err(WhyNot::NoGid { numbers });
        }
        let wanted = self.wanted_of(number);
        let pools = &self.request.pools;
        let need = demand::data(&wanted.requested, &wanted.quotas, pools);
        let left =
            |pool: Option<u64>, used: u64| pool.map_or(u64::MAX, |all| all.saturating_sub(used));
        let (need, free) = (
            need,
            Data {
                storage: left(pools.storage, self.data.storage),
                state: left(pools.state, self.data.state),
            },
        );
        if need.storage > free.storage {
            let (need, free) = (need.storage, free.storage);
            return Err(WhyNot::Storage { need, free });
        }
        if need.state > free.state {
            let (need, free) = (need.state, free.state);
            return Err(WhyNot::State { need, free });
        }
        Ok(())
    }

    fn place_of(&self, seat: Seat) -> Place {
        let node = self.nodes[seat.node].node;
        Place {
            node: node.id.clone(),
            runtime: node.runtimes[seat.runtime].runtime_id.clone(),
        }
    }

    fn into_plan(mut self) -> Plan {
        let wanted: BTreeSet<&InstanceIdent> =
            self.instances.iter().map(|own| &own.ident).collect();
        let running = self.request.running.iter();
        let removed = running.filter(|(ident, _)| !wanted.contains(ident));
        let mut plan = Plan {
            placed: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            removed: removed
                .map(|(ident, place)| (ident.clone(), place.clone()))
                .collect(),
            ledger: Ledger::default(),
        };
        for number in 0..self.instances.len() {
            let instance = &self.instances[number];
            let wanted = self.wanted[instance.wanted];
            let (place, image) = match (&instance.status, instance.now) {
                (Status::Seated { seat, .. }, _) => (self.place_of(*seat), seat.image),
                (Status::Frozen, Some(now)) => (now.clone(), self.image_at(number, now)),
                (Status::Refused(why), _) => {
                    plan.unplaced.insert(instance.ident.clone(), why.clone());
                    continue;
                }
                (Status::Pending | Status::Frozen, _) => unreachable!("every instance is decided"),
            };
            let home = wanted.is_bound().then_some(&place.node);
            self.ledger.set_home(&instance.ident, home);
            let limits = &self.request.limits;
            let Some((uid, gid)) = self.ledger.admit(&instance.ident, limits.uids, limits.gids)
            else {
                let numbers = limits.uids.size();
                plan.unplaced
                    .insert(instance.ident.clone(), WhyNot::NoUid { numbers });
                continue;
            };
            let change = match instance.now {
                Some(now) if *now == place => Change::Kept,
                Some(now) => Change::Moved { from: now.clone() },
                None => Change::New,
            };
            let placed = Placed {
                place,
                manifest: wanted.images[image].manifest,
                uid,
                gid,
                change,
            };
            plan.placed.insert(instance.ident.clone(), placed);
        }
        plan.ledger = self.ledger;
        plan
    }
}
