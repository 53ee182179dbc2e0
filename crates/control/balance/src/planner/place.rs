//! A place for an instance that has none: a free one, or one that less important instances make free.

use std::cmp::Reverse;

use muster_api::domain::ItemType;

use crate::demand::Amounts;
use crate::explain::ChosenBecause;
use crate::outcome::WhyNot;
use crate::request::{Distribution, Standing};
use crate::suit::Fitting;
use crate::world::{Arrival, Freed, Rank, Seat};

use super::{Planner, Status};

/// Which nodes count as places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    AllNodes,
    /// All but those with a quota alert.
    UnalertedNodes,
}

/// Who has to go for an instance to sit, and where.
struct Displacement {
    seat: Seat,
    victims: Vec<usize>,
}

impl Planner<'_> {
    /// Decides about a pending instance.
    pub(super) fn place(&mut self, number: usize) {
        if let Err(why) = self.may_run(number) {
            self.refuse(number, why);
            return;
        }
        if let Some(why) = self.known_refusal(number) {
            self.instances[number].status = Status::Refused(why);
            return;
        }
        if let Some(seat) = self.best_seat(number, Among::AllNodes, Amounts::default()) {
            self.choose(number, seat, ChosenBecause::Best);
            return;
        }
        if let Some(Displacement { seat, victims }) = self.cheapest_displacement(number) {
            let instances = victims.iter();
            let instances = instances.map(|victim| self.instances[*victim].ident.clone());
            let because = ChosenBecause::Displaces {
                instances: instances.collect(),
            };
            self.observe_chosen(number, seat, &because);
            for victim in victims {
                self.rise(victim);
            }
            self.sit(number, seat, because);
            return;
        }
        let why = WhyNot::NoNode {
            refusals: self.tally(number),
        };
        self.refuse(number, why);
    }

    /// Why no node takes an instance like this one, if that was found out before: no room for it can have come up since.
    fn known_refusal(&self, number: usize) -> Option<WhyNot> {
        let instance = &self.instances[number];
        let why = self.hopeless[instance.wanted].as_ref()?;
        // A probed instance is decided once more, for its verdicts.
        (instance.home.is_none() && !self.is_probed(number)).then(|| why.clone())
    }

    fn refuse(&mut self, number: usize, why: WhyNot) {
        self.observe_refused(number, &why);
        let instance = &mut self.instances[number];
        if instance.home.is_none() && matches!(why, WhyNot::NoNode { .. }) {
            self.hopeless[instance.wanted] = Some(why.clone());
        }
        instance.status = Status::Refused(why);
    }

    pub(super) fn choose(&mut self, number: usize, seat: Seat, because: ChosenBecause) {
        self.observe_chosen(number, seat, &because);
        self.sit(number, seat, because);
    }

    /// Instances of the same item on a node, where that counts.
    pub(super) fn crowd(&self, number: usize, node: usize) -> u64 {
        let wanted = self.instances[number].wanted;
        match (self.wanted[wanted].distribution, self.counted[wanted]) {
            (Distribution::Spread, Some(item)) => {
                self.of_item.get(&(item, node)).copied().unwrap_or_default()
            }
            _ => 0,
        }
    }

    /// The best place with room for the instance as it stands, taking at least `floor`.
    pub(super) fn best_seat(&self, number: usize, among: Among, floor: Amounts) -> Option<Seat> {
        let home = self.instances[number].home;
        let spread = self.wanted_of(number).distribution == Distribution::Spread;
        let mut best: Option<((bool, u64), Seat)> = None;
        for Rank { relieved, node, .. } in &self.ranks {
            if *relieved && among == Among::UnalertedNodes {
                break;
            }
            if home.is_some_and(|home| home != *node) {
                continue;
            }
            let Some(seat) = self.free_seat(number, *node, floor) else {
                continue;
            };
            if !spread {
                return Some(seat);
            }
            let crowd = (*relieved, self.crowd(number, *node));
            if best.as_ref().is_none_or(|(least, _)| crowd < *least) {
                best = Some((crowd, seat));
            }
            if crowd == (false, 0) {
                break;
            }
        }
        best.map(|(_, seat)| seat)
    }

    pub(super) fn free_seat(&self, number: usize, node: usize, floor: Amounts) -> Option<Seat> {
        let fittings = self.suits.fittings(self.instances[number].wanted, node);
        if fittings.is_empty() {
            return None;
        }
        let amounts = self.amounts(number, node).max(floor);
        let (load, freed) = (self.load(number, amounts), Freed::default());
        let state = &self.nodes[node];
        state.room(load, &freed, Arrival::Comes).ok()?;
        let has_room = |fitting: &&Fitting| {
            let room = state.runtime_room(fitting.runtime, amounts, &freed);
            room.is_ok()
        };
        let Fitting { runtime, image } = *fittings.iter().find(has_room)?;
        Some(Seat {
            node,
            runtime,
            image,
        })
    }

    /// Whether an instance of this priority may displace that one.
    pub(super) fn yields(&self, tenant: usize, priority: u64) -> bool {
        let wanted = self.wanted_of(tenant);
        wanted.kind == ItemType::Service && wanted.priority < priority
    }

    /// Frees a seat at the least cost: first nobody who could go nowhere else, then few, then unimportant ones.
    fn cheapest_displacement(&self, number: usize) -> Option<Displacement> {
        let priority = self.wanted_of(number).priority;
        let (least, _) = self.displaceable.first_key_value()?;
        if *least >= priority {
            return None;
        }
        let home = self.instances[number].home;
        let mut best: Option<((usize, usize, u64), Displacement)> = None;
        for Rank { node, .. } in &self.ranks {
            if home.is_some_and(|home| home != *node) {
                continue;
            }
            for fitting in self.suits.fittings(self.instances[number].wanted, *node) {
                let Some(found) = self.displacement_at(number, *node, *fitting) else {
                    continue;
                };
                let victims = found.victims.iter();
                let victims = victims.map(|victim| self.wanted_of(*victim));
                let bound = victims.clone().filter(|wanted| wanted.is_bound()).count();
                let highest = victims.map(|wanted| wanted.priority).max();
                let cost = (bound, found.victims.len(), highest.unwrap_or_default());
                if best.as_ref().is_none_or(|(lowest, _)| cost < *lowest) {
                    best = Some((cost, found));
                }
                if cost <= (0, 1, *least) {
                    return best.map(|(_, found)| found);
                }
            }
        }
        best.map(|(_, found)| found)
    }

    fn displacement_at(
        &self,
        number: usize,
        node: usize,
        fitting: Fitting,
    ) -> Option<Displacement> {
        let state = &self.nodes[node];
        debug_assert_eq!(
            state.standing,
            Standing::Ready,
            "only ready nodes have a rank"
        );
        let priority = self.wanted_of(number).priority;
        let tenants = state.tenants.iter().copied();
        let mut yielding: Vec<_> = tenants
            .filter(|tenant| self.yields(*tenant, priority))
            .filter_map(|tenant| match &self.instances[tenant].status {
                Status::Seated { seat, amounts, .. } => Some((tenant, *seat, *amounts)),
                _ => None,
            })
            .collect();
        // The least important first, of equals the largest.
        yielding.sort_unstable_by_key(|(tenant, _, amounts)| {
            let wanted = self.wanted_of(*tenant);
            let share = Reverse(state.share(*amounts));
            (wanted.is_bound(), wanted.priority, share, Reverse(*tenant))
        });
        let amounts = self.amounts(number, node);
        let load = self.load(number, amounts);
        let fits = |freed: &Freed<'_>| {
            state.room(load, freed, Arrival::Comes).is_ok()
                && state.runtime_room(fitting.runtime, amounts, freed).is_ok()
        };
        let mut freed = Freed::default();
        let mut gone = Vec::new();
        for (tenant, seat, held) in yielding {
            if fits(&freed) {
                break;
            }
            let same_runtime = seat.runtime == fitting.runtime;
            freed.add(self.load(tenant, held), same_runtime);
            gone.push((tenant, same_runtime, held));
        }
        if !fits(&freed) {
            return None;
        }
        // Whoever turns out not to be in the way stays, the most important first.
        let mut victims = Vec::new();
        for (tenant, same_runtime, held) in gone.into_iter().rev() {
            let load = self.load(tenant, held);
            freed.remove(load, same_runtime);
            if !fits(&freed) {
                freed.add(load, same_runtime);
                victims.push(tenant);
            }
        }
        let Fitting { runtime, image } = fitting;
        let seat = Seat {
            node,
            runtime,
            image,
        };
        Some(Displacement { seat, victims })
    }
}
