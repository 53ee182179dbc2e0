//! The rules once more, written as checks of a plan: slow, simple, and without a line of the balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use muster_api::domain::{InstanceIdent, ItemType};
use muster_balance::{
    Amounts, Explanation, Ledger, Node, NodeRefusal, Plan, Reason, Request, RuntimeRefusal,
    Standing, Verdict, Wanted, WhyNot,
};
use muster_item::{BalancingPolicy, Platform};
use proptest::prelude::*;

type Check = Result<(), TestCaseError>;

pub(crate) struct Oracle<'r> {
    pub(crate) request: &'r Request,
    pub(crate) plan: &'r Plan,
}

fn need(requested: Option<u64>, quota: Option<u64>, share: impl Fn(u64) -> u64) -> u64 {
    match (requested, quota) {
        (Some(requested), quota) => requested.min(quota.unwrap_or(u64::MAX)),
        (None, Some(quota)) => share(quota),
        (None, None) => 0,
    }
}

pub(crate) fn demand(wanted: &Wanted, node: &Node) -> Amounts {
    let (requested, quotas) = (&wanted.requested, &wanted.quotas);
    Amounts {
        cpu: need(requested.cpu, quotas.cpu_dmips_limit, |quota| {
            node.ratios.cpu.of(quota)
        }),
        ram: need(requested.ram, quotas.ram_limit, |quota| {
            node.ratios.ram.of(quota)
        }),
    }
}

pub(crate) fn is_bound(wanted: &Wanted) -> bool {
    wanted.kind == ItemType::Component || wanted.policy == BalancingPolicy::Disabled
}

/// Whether the runtime can run one of the images.
fn suits(wanted: &Wanted, node: &Node, runtime: usize) -> bool {
    let info = &node.runtimes[runtime];
    let platform = Platform::of_runtime(&info.os_info, &info.arch_info);
    wanted.runtimes.contains(&info.runtime_type)
        && wanted.images.iter().any(|image| match &image.platform {
            Some(built_for) => platform.fit(built_for).is_some(),
            None => true,
        })
}

fn has_resources(wanted: &Wanted, node: &Node) -> bool {
    let has = |name: &String| node.resources.iter().any(|own| own.name() == name);
    wanted.resources.iter().all(has)
}

/// What a set of instances takes of a node and of each of its runtimes.
#[derive(Default)]
struct Taken {
    node: Amounts,
    runtimes: BTreeMap<usize, (Amounts, u64)>,
    resources: BTreeMap<String, u64>,
}

impl<'r> Oracle<'r> {
    pub(crate) fn wanted(&self, ident: &InstanceIdent) -> &'r Wanted {
        let mut all = self.request.wanted.iter();
        all.find(|wanted| wanted.item == ident.item_id && wanted.subject == ident.subject_id)
            .expect("planned instances are wanted")
    }

    pub(crate) fn standing(&self, node: &Node) -> Standing {
        match &self.request.reason {
            Reason::NodeLost(lost) if *lost == node.id => Standing::Offline,
            _ => node.standing,
        }
    }

    fn node(&self, ident: &InstanceIdent) -> &'r Node {
        let place = &self.plan.placed[ident].place;
        let mut all = self.request.nodes.iter();
        all.find(|node| node.id == place.node)
            .expect("places are on known nodes")
    }

    /// What those on a node take that `counts` counts.
    fn taken(&self, node: &Node, counts: impl Fn(&Wanted) -> bool) -> Taken {
        let mut taken = Taken::default();
        for (ident, placed) in &self.plan.placed {
            let wanted = self.wanted(ident);
            if placed.place.node != node.id || !counts(wanted) {
                continue;
            }
            let own = demand(wanted, node);
            taken.node.cpu += own.cpu;
            taken.node.ram += own.ram;
            let mut runtimes = node.runtimes.iter();
            if let Some(index) = runtimes.position(|own| own.runtime_id == placed.place.runtime) {
                let (amounts, count) = taken.runtimes.entry(index).or_default();
                amounts.cpu += own.cpu;
                amounts.ram += own.ram;
                *count += 1;
            }
            for name in &wanted.resources {
                *taken.resources.entry(name.clone()).or_default() += 1;
            }
        }
        taken
    }

    pub(crate) fn everyone_is_decided_once(&self, idents: &[InstanceIdent]) -> Check {
        let decided: BTreeSet<_> = self
            .plan
            .placed
            .keys()
            .chain(self.plan.unplaced.keys())
            .collect();
        prop_assert_eq!(decided, idents.iter().collect::<BTreeSet<_>>());
        prop_assert_eq!(
            self.plan.placed.len() + self.plan.unplaced.len(),
            idents.len()
        );
        Ok(())
    }

    pub(crate) fn nothing_is_overcommitted(&self) -> Check {
        for node in &self.request.nodes {
            if self.standing(node) != Standing::Ready {
                continue;
            }
            let taken = self.taken(node, |_| true);
            prop_assert!(
                taken.node.cpu <= node.capacity.cpu.unwrap_or(u64::MAX),
                "cpu of {}",
                node.id
            );
            prop_assert!(
                taken.node.ram <= node.capacity.ram.unwrap_or(u64::MAX),
                "ram of {}",
                node.id
            );
            for (index, (amounts, count)) in taken.runtimes {
                let info = &node.runtimes[index];
                let limit = |amount: Option<NonZeroU64>| amount.map_or(u64::MAX, NonZeroU64::get);
                prop_assert!(
                    amounts.cpu <= limit(info.allowed_dmips),
                    "cpu of a runtime of {}",
                    node.id
                );
                prop_assert!(
                    amounts.ram <= limit(info.allowed_ram),
                    "ram of a runtime of {}",
                    node.id
                );
                prop_assert!(info.max_instances == 0 || count <= info.max_instances);
            }
            for resource in &node.resources {
                let used = taken
                    .resources
                    .get(resource.name())
                    .copied()
                    .unwrap_or_default();
                prop_assert!(used <= resource.shared_count().map_or(u64::MAX, NonZeroU64::get));
            }
        }
        Ok(())
    }

    pub(crate) fn places_suit(&self) -> Check {
        for (ident, placed) in &self.plan.placed {
            let (wanted, node) = (self.wanted(ident), self.node(ident));
            match self.standing(node) {
                Standing::Ready => {}
                Standing::Paused | Standing::Away => {
                    prop_assert_eq!(self.request.running.get(ident), Some(&placed.place));
                    continue;
                }
                Standing::Offline | Standing::NotMember => {
                    prop_assert!(false, "{ident} runs on {}", node.id)
                }
            }
            let mut runtimes = node.runtimes.iter();
            let runtime = runtimes.position(|own| own.runtime_id == placed.place.runtime);
            prop_assert!(runtime.is_some_and(|runtime| suits(wanted, node, runtime)));
            prop_assert!(wanted.labels.is_subset(&node.labels));
            prop_assert!(has_resources(wanted, node));
            prop_assert!(wanted.pin.as_ref().is_none_or(|pin| *pin == node.id));
            let image = wanted
                .images
                .iter()
                .find(|image| image.manifest == placed.manifest);
            prop_assert!(image.is_some());
        }
        Ok(())
    }

    pub(crate) fn what_is_frozen_stays(&self) -> Check {
        for (ident, place) in &self.request.running {
            let mut nodes = self.request.nodes.iter();
            let Some(node) = nodes.find(|node| node.id == place.node) else {
                continue;
            };
            let frozen = matches!(self.standing(node), Standing::Paused | Standing::Away);
            let is_wanted =
                self.plan.placed.contains_key(ident) || self.plan.unplaced.contains_key(ident);
            // Without a user nothing can run, wherever it is.
            let has_user = !matches!(self.plan.unplaced.get(ident), Some(WhyNot::NoUid { .. }));
            if frozen && is_wanted && has_user {
                prop_assert_eq!(
                    self.plan.placed.get(ident).map(|placed| &placed.place),
                    Some(place)
                );
            }
        }
        Ok(())
    }

    pub(crate) fn accounts_are_unique_and_stay(&self, before: &Ledger) -> Check {
        let mut uids = BTreeSet::new();
        let mut gids = BTreeMap::new();
        for (ident, placed) in &self.plan.placed {
            prop_assert!(uids.insert(placed.uid));
            prop_assert!((5000..=10_000).contains(&placed.uid.as_raw()));
            prop_assert_eq!(
                *gids.entry(&ident.item_id).or_insert(placed.gid),
                placed.gid
            );
            prop_assert_eq!(self.plan.ledger.uid(ident), Some(placed.uid));
            prop_assert!(before.uid(ident).is_none_or(|uid| uid == placed.uid));
            prop_assert!(
                before
                    .gid(&ident.item_id)
                    .is_none_or(|gid| gid == placed.gid)
            );
        }
        let different: BTreeSet<_> = gids.values().collect();
        prop_assert_eq!(different.len(), gids.len());
        Ok(())
    }

    /// Where an instance may be, apart from room.
    fn home(&self, ident: &InstanceIdent, before: &Ledger) -> Option<muster_api::domain::NodeId> {
        let wanted = self.wanted(ident);
        if !is_bound(wanted) || (wanted.kind == ItemType::Service && wanted.pin.is_some()) {
            return None;
        }
        let now = self.request.running.get(ident).map(|place| &place.node);
        let home = before.home(ident).or(now)?;
        let known = self.request.nodes.iter().any(|node| node.id == *home);
        known.then(|| home.clone())
    }

    /// What is left of a node for an instance once all that must yield to it are gone.
    fn left(&self, wanted: &Wanted, node: &Node) -> (Amounts, Taken) {
        let unyielding =
            |other: &Wanted| other.priority >= wanted.priority || other.kind == ItemType::Component;
        let taken = self.taken(node, unyielding);
        let left = |capacity: Option<u64>, used: u64, system: u64| {
            capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(used + system))
        };
        let amounts = Amounts {
            cpu: left(node.capacity.cpu, taken.node.cpu, node.system_use.cpu),
            ram: left(node.capacity.ram, taken.node.ram, node.system_use.ram),
        };
        (amounts, taken)
    }

    /// Nobody is refused who would fit if everybody less important was gone.
    pub(crate) fn nobody_yields_to_the_less_important(&self, before: &Ledger) -> Check {
        for (ident, why) in &self.plan.unplaced {
            let WhyNot::NoNode { refusals } = why else {
                continue;
            };
            let all: u64 = refusals.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(all, self.request.nodes.len() as u64, "{}: {}", ident, why);
            let (wanted, home) = (self.wanted(ident), self.home(ident, before));
            for node in &self.request.nodes {
                // What an alert has just cleared is not filled again at once.
                let relieved = match &self.request.reason {
                    Reason::QuotaAlert(reliefs) => {
                        reliefs.iter().any(|relief| relief.node == node.id)
                    }
                    _ => false,
                };
                let excluded = relieved
                    || self.standing(node) != Standing::Ready
                    || !wanted.labels.is_subset(&node.labels)
                    || !has_resources(wanted, node)
                    || wanted.pin.as_ref().is_some_and(|pin| *pin != node.id)
                    || home.as_ref().is_some_and(|home| *home != node.id);
                if excluded {
                    continue;
                }
                let (left, taken) = self.left(wanted, node);
                let own = demand(wanted, node);
                let node_fits = own.cpu <= left.cpu
                    && own.ram <= left.ram
                    && wanted.resources.iter().all(|name| {
                        let mut all = node.resources.iter();
                        let info = all.find(|info| info.name() == name);
                        let count = info.and_then(|info| info.shared_count());
                        let used = taken.resources.get(name).copied().unwrap_or_default();
                        count.is_none_or(|count| used < count.get())
                    });
                let fitting = (0..node.runtimes.len()).filter(|index| suits(wanted, node, *index));
                for index in fitting {
                    let info = &node.runtimes[index];
                    let (used, count) = taken.runtimes.get(&index).copied().unwrap_or_default();
                    let limit =
                        |amount: Option<NonZeroU64>| amount.map_or(u64::MAX, NonZeroU64::get);
                    let fits = node_fits
                        && used.cpu + own.cpu <= limit(info.allowed_dmips)
                        && used.ram + own.ram <= limit(info.allowed_ram)
                        && (info.max_instances == 0 || count < info.max_instances);
                    prop_assert!(!fits, "{} would fit on {}, but: {}", ident, node.id, why);
                }
            }
        }
        Ok(())
    }

    /// An explanation tells the same as the plan, and each refusal is true.
    pub(crate) fn explanation_is_true(&self, explanation: &Explanation, before: &Ledger) -> Check {
        let ident = &explanation.instance;
        let wanted = self.wanted(ident);
        prop_assert_eq!(explanation.unplaced.as_ref(), self.plan.unplaced.get(ident));
        prop_assert_eq!(explanation.nodes.len(), self.request.nodes.len());
        let mut chosen = Vec::new();
        for verdict in &explanation.nodes {
            let mut nodes = self.request.nodes.iter();
            let node = nodes
                .find(|node| node.id == verdict.node)
                .expect("a known node");
            match &verdict.verdict {
                Verdict::Chosen { runtime, .. } => chosen.push((node.id.clone(), runtime.clone())),
                Verdict::PassedOver { .. } => {
                    let no_node = matches!(explanation.unplaced, Some(WhyNot::NoNode { .. }));
                    prop_assert!(!no_node, "{} fits, says {}", node.id, explanation);
                }
                Verdict::Refused { why } => {
                    prop_assert!(
                        self.refusal_is_true(why, wanted, ident, node, before),
                        "{}: {}",
                        node.id,
                        why
                    );
                }
            }
        }
        let placed = self.plan.placed.get(ident).map(|placed| &placed.place);
        let placed: Vec<_> = placed
            .map(|place| (place.node.clone(), place.runtime.clone()))
            .into_iter()
            .collect();
        prop_assert_eq!(chosen, placed);
        if let Some(WhyNot::NoNode { refusals }) = &explanation.unplaced {
            let mut kinds = BTreeMap::new();
            for verdict in &explanation.nodes {
                if let Verdict::Refused { why } = &verdict.verdict {
                    *kinds.entry(why.kind()).or_insert(0_u64) += 1;
                }
            }
            prop_assert_eq!(kinds, refusals.iter().collect::<BTreeMap<_, _>>());
        }
        Ok(())
    }

    fn refusal_is_true(
        &self,
        why: &NodeRefusal,
        wanted: &Wanted,
        ident: &InstanceIdent,
        node: &Node,
        before: &Ledger,
    ) -> bool {
        let own = demand(wanted, node);
        match why {
            NodeRefusal::NotMember => self.standing(node) == Standing::NotMember,
            NodeRefusal::Offline => self.standing(node) == Standing::Offline,
            NodeRefusal::Away => self.standing(node) == Standing::Away,
            NodeRefusal::Paused => self.standing(node) == Standing::Paused,
            NodeRefusal::PinnedElsewhere { node: pin } => {
                wanted.pin.as_ref() == Some(pin) && *pin != node.id
            }
            NodeRefusal::BoundElsewhere { node: home } => {
                self.home(ident, before).as_ref() == Some(home) && *home != node.id
            }
            NodeRefusal::LabelMissing { labels } => {
                labels.is_subset(&wanted.labels)
                    && labels.is_disjoint(&node.labels)
                    && !labels.is_empty()
            }
            NodeRefusal::ResourceMissing { resources } => {
                let has = |name: &String| node.resources.iter().any(|own| own.name() == name);
                !resources.is_empty() && !resources.iter().any(has)
            }
            NodeRefusal::ResourceInUse { resource, count } => {
                wanted.resources.contains(resource)
                    && node.resources.iter().any(|info| {
                        info.name() == resource
                            && info.shared_count().map(NonZeroU64::get) == Some(*count)
                    })
            }
            NodeRefusal::Cpu { need, free } => *need == own.cpu && need > free,
            NodeRefusal::Ram { need, free } => *need == own.ram && need > free,
            NodeRefusal::Runtimes { runtimes } => {
                runtimes.len() == node.runtimes.len()
                    && runtimes.iter().all(|verdict| {
                        let mut all = node.runtimes.iter();
                        let Some(info) = all.find(|info| info.runtime_id == verdict.runtime) else {
                            return false;
                        };
                        match &verdict.refusal {
                            RuntimeRefusal::Type { .. } => {
                                !wanted.runtimes.contains(&info.runtime_type)
                            }
                            RuntimeRefusal::Platform { .. } => {
                                wanted.runtimes.contains(&info.runtime_type)
                            }
                            RuntimeRefusal::Instances { max } => *max == info.max_instances,
                            RuntimeRefusal::Cpu { need, free } => *need == own.cpu && need > free,
                            RuntimeRefusal::Ram { need, free } => *need == own.ram && need > free,
                        }
                    })
            }
        }
    }
}
