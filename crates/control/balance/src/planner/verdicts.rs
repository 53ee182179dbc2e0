//! What each node has to say about an instance, while it is decided.

use muster_api::domain::NodeId;

use crate::explain::{
    ChosenBecause, Explanation, NodeVerdict, PassedOver, RuntimeVerdict, Verdict,
};
use crate::outcome::{Tally, WhyNot};
use crate::refusal::{NodeRefusal, RefusalKind, RuntimeRefusal};
use crate::request::Standing;
use crate::suit;
use crate::world::{Arrival, Freed, Lack, Seat};

use super::{Planner, Status};

/// Whom an instance competes with for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rivals {
    /// All that sit.
    All,
    /// Those that it may not displace: for what cannot run anywhere, all others do not matter.
    Unyielding,
}

fn absence(standing: Standing) -> Option<NodeRefusal> {
    match standing {
        Standing::Ready => None,
        Standing::Paused => Some(NodeRefusal::Paused),
        Standing::Away => Some(NodeRefusal::Away),
        Standing::Offline => Some(NodeRefusal::Offline),
        Standing::NotMember => Some(NodeRefusal::NotMember),
    }
}

impl Lack<'_> {
    fn kind(self) -> RefusalKind {
        match self {
            Self::Resource { .. } => RefusalKind::ResourceInUse,
            Self::NodeRam { .. } | Self::RuntimeRam { .. } => RefusalKind::Ram,
            Self::NodeCpu { .. } | Self::RuntimeCpu { .. } => RefusalKind::Cpu,
            Self::Instances { .. } => RefusalKind::Instances,
        }
    }

    /// As the fault of the node, if it is.
    fn of_node(self) -> Option<NodeRefusal> {
        match self {
            Self::Resource { name, count } => Some(NodeRefusal::ResourceInUse {
                resource: name.to_owned(),
                count,
            }),
            Self::NodeRam { need, free } => Some(NodeRefusal::Ram { need, free }),
            Self::NodeCpu { need, free } => Some(NodeRefusal::Cpu { need, free }),
            Self::Instances { .. } | Self::RuntimeRam { .. } | Self::RuntimeCpu { .. } => None,
        }
    }

    /// As the fault of a runtime, if it is.
    fn of_runtime(self) -> Option<RuntimeRefusal> {
        match self {
            Self::Instances { max } => Some(RuntimeRefusal::Instances { max }),
            Self::RuntimeRam { need, free } => Some(RuntimeRefusal::Ram { need, free }),
            Self::RuntimeCpu { need, free } => Some(RuntimeRefusal::Cpu { need, free }),
            Self::Resource { .. } | Self::NodeRam { .. } | Self::NodeCpu { .. } => None,
        }
    }
}

impl<'r> Planner<'r> {
    /// What displacing all that may be displaced would free, seen from a runtime.
    fn freed(&self, number: usize, node: usize, runtime: usize, rivals: Rivals) -> Freed<'r> {
        let mut freed = Freed::default();
        if rivals == Rivals::All {
            return freed;
        }
        let priority = self.wanted_of(number).priority;
        for tenant in &self.nodes[node].tenants {
            if let Status::Seated { seat, amounts, .. } = &self.instances[*tenant].status
                && self.yields(*tenant, priority)
            {
                freed.add(self.load(*tenant, *amounts), seat.runtime == runtime);
            }
        }
        freed
    }

    /// Whether a runtime that suits, and its node, have room.
    fn lack(
        &self,
        number: usize,
        node: usize,
        runtime: usize,
        rivals: Rivals,
    ) -> Result<(), Lack<'r>> {
        let freed = self.freed(number, node, runtime, rivals);
        let amounts = self.amounts(number, node);
        let state = &self.nodes[node];
        state.room(self.load(number, amounts), &freed, Arrival::Comes)?;
        state.runtime_room(runtime, amounts, &freed)
    }

    /// Why no node takes an instance, in numbers.
    pub(super) fn tally(&self, number: usize) -> Tally {
        let mut tally = Tally::default();
        for node in 0..self.nodes.len() {
            if let Some(kind) = self.refusal_kind(number, node) {
                tally.add(kind);
            }
        }
        tally
    }

    /// [`refusal`](Self::refusal) in one word, without the cost of its details.
    fn refusal_kind(&self, number: usize, node: usize) -> Option<RefusalKind> {
        let instance = &self.instances[number];
        if let Some(absence) = absence(self.nodes[node].standing) {
            return Some(absence.kind());
        }
        let kind = self.suits.refusal(instance.wanted, node);
        if kind == Some(RefusalKind::PinnedElsewhere) {
            return kind;
        }
        if instance.home.is_some_and(|home| home != node) {
            return Some(RefusalKind::BoundElsewhere);
        }
        if kind.is_some() {
            return kind;
        }
        let mut nearest = None;
        for fitting in self.suits.fittings(instance.wanted, node) {
            match self.lack(number, node, fitting.runtime, Rivals::Unyielding) {
                Ok(()) => return None,
                Err(lack) if lack.of_node().is_some() => return Some(lack.kind()),
                Err(lack) => nearest = nearest.max(Some(lack.kind())),
            }
        }
        nearest
    }

    /// Why a node does not take an instance, or by which runtime it would.
    fn refusal(&self, number: usize, node: usize, rivals: Rivals) -> Result<usize, NodeRefusal> {
        let state = &self.nodes[node];
        let (instance, wanted) = (&self.instances[number], self.wanted_of(number));
        if let Some(absence) = absence(state.standing) {
            return Err(absence);
        }
        let exclusion = suit::exclusion(state.node, wanted);
        if let Some(pinned @ NodeRefusal::PinnedElsewhere { .. }) = exclusion {
            return Err(pinned);
        }
        if let Some(home) = instance.home.filter(|home| *home != node) {
            let node: NodeId = self.nodes[home].node.id.clone();
            return Err(NodeRefusal::BoundElsewhere { node });
        }
        if let Some(exclusion) = exclusion {
            return Err(exclusion);
        }
        let mut runtimes = Vec::new();
        for fitting in self.suits.fittings(instance.wanted, node) {
            let lack = match self.lack(number, node, fitting.runtime, rivals) {
                Ok(()) => return Ok(fitting.runtime),
                Err(lack) => lack,
            };
            if let Some(refusal) = lack.of_node() {
                return Err(refusal);
            }
            let info = &state.node.runtimes[fitting.runtime];
            runtimes.extend(lack.of_runtime().map(|refusal| RuntimeVerdict {
                runtime: info.runtime_id.clone(),
                runtime_type: info.runtime_type.clone(),
                refusal,
            }));
        }
        let others = 0..state.node.runtimes.len();
        runtimes.extend(others.filter_map(|runtime| suit::unsuited(state.node, runtime, wanted)));
        Err(NodeRefusal::Runtimes { runtimes })
    }

    /// Why a node that fits was not chosen.
    fn passed_over(&self, number: usize, node: usize, chosen: usize) -> PassedOver {
        let (own, best) = (&self.nodes[node], &self.nodes[chosen]);
        let (own_rank, best_rank) = (own.rank(node), best.rank(chosen));
        let (crowd, best_crowd) = (self.crowd(number, node), self.crowd(number, chosen));
        if own_rank.relieved != best_rank.relieved {
            PassedOver::UnderRelief
        } else if crowd != best_crowd {
            PassedOver::MoreOfItem {
                own: crowd,
                chosen: best_crowd,
            }
        } else if own_rank.priority != best_rank.priority {
            PassedOver::Priority {
                own: own.node.priority,
                chosen: best.node.priority,
            }
        } else if own_rank.free_cpu != best_rank.free_cpu {
            PassedOver::LessCpu {
                own: own_rank.free_cpu.0,
                chosen: best_rank.free_cpu.0,
            }
        } else if own_rank.free_ram != best_rank.free_ram {
            PassedOver::LessRam {
                own: own_rank.free_ram.0,
                chosen: best_rank.free_ram.0,
            }
        } else {
            PassedOver::LaterId
        }
    }

    pub(super) fn is_probed(&self, number: usize) -> bool {
        self.probe
            .as_ref()
            .is_some_and(|probe| probe.instance == number)
    }

    fn record(&mut self, verdicts: Option<Vec<NodeVerdict>>) {
        if let Some(probe) = &mut self.probe {
            probe.verdicts = verdicts;
        }
    }

    /// Called before the instance sits.
    pub(super) fn observe_chosen(&mut self, number: usize, seat: Seat, because: &ChosenBecause) {
        if !self.is_probed(number) {
            return;
        }
        let chosen = self.place_of(seat).runtime;
        let verdicts = self.verdicts(|planner, node| {
            if node == seat.node {
                let (runtime, because) = (chosen.clone(), because.clone());
                return Verdict::Chosen { runtime, because };
            }
            match planner.refusal(number, node, Rivals::All) {
                Ok(runtime) => Verdict::PassedOver {
                    runtime: planner.nodes[node].node.runtimes[runtime]
                        .runtime_id
                        .clone(),
                    because: planner.passed_over(number, node, seat.node),
                },
                Err(why) => Verdict::Refused { why },
            }
        });
        self.record(Some(verdicts));
    }

    pub(super) fn observe_refused(&mut self, number: usize, why: &WhyNot) {
        if !self.is_probed(number) {
            return;
        }
        let rivals = match why {
            WhyNot::NoNode { .. } => Rivals::Unyielding,
            _ => Rivals::All,
        };
        let verdicts = self.verdicts(
            |planner, node| match planner.refusal(number, node, rivals) {
                Ok(runtime) => Verdict::PassedOver {
                    runtime: planner.nodes[node].node.runtimes[runtime]
                        .runtime_id
                        .clone(),
                    because: PassedOver::NotTheCause,
                },
                Err(why) => Verdict::Refused { why },
            },
        );
        self.record(Some(verdicts));
    }

    /// The instance goes back to where it ran, so what was recorded no longer holds.
    pub(super) fn forget_observation(&mut self, number: usize) {
        if self.is_probed(number) {
            self.record(None);
        }
    }

    fn verdicts(&self, verdict: impl Fn(&Self, usize) -> Verdict) -> Vec<NodeVerdict> {
        let node_verdict = |node: usize| NodeVerdict {
            node: self.nodes[node].node.id.clone(),
            verdict: verdict(self, node),
        };
        (0..self.nodes.len()).map(node_verdict).collect()
    }

    /// For an instance that was kept: the other nodes as they are in the end.
    fn verdicts_when_kept(&self, number: usize) -> Vec<NodeVerdict> {
        let instance = &self.instances[number];
        let (place, because) = match (&instance.status, instance.now) {
            (Status::Seated { seat, because, .. }, _) => (self.place_of(*seat), because.clone()),
            (_, Some(now)) => (now.clone(), ChosenBecause::NodeKeeps),
            (_, None) => unreachable!("only what runs is kept"),
        };
        self.verdicts(|planner, node| {
            if planner.nodes[node].node.id == place.node {
                let (runtime, because) = (place.runtime.clone(), because.clone());
                return Verdict::Chosen { runtime, because };
            }
            match planner.refusal(number, node, Rivals::All) {
                Ok(runtime) => Verdict::PassedOver {
                    runtime: planner.nodes[node].node.runtimes[runtime]
                        .runtime_id
                        .clone(),
                    because: PassedOver::NeedNotMove,
                },
                Err(why) => Verdict::Refused { why },
            }
        })
    }

    pub(super) fn into_explanation(mut self, number: usize) -> Explanation {
        let recorded = self.probe.take().and_then(|probe| probe.verdicts);
        let nodes = recorded.unwrap_or_else(|| self.verdicts_when_kept(number));
        let instance = self.instances.swap_remove(number);
        Explanation {
            instance: instance.ident,
            unplaced: match instance.status {
                Status::Refused(why) => Some(why),
                _ => None,
            },
            nodes,
        }
    }
}
