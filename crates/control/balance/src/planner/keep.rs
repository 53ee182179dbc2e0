//! What runs and still fits is left where it is.

use std::cmp::Reverse;

use crate::explain::ChosenBecause;
use crate::request::{Place, Reason, Standing};
use crate::world::{Arrival, Freed, Seat};

use super::{Planner, Status};

impl<'r> Planner<'r> {
    pub(super) fn keep(&mut self) {
        self.freeze();
        if let Reason::Rollback(earlier) = &self.request.reason {
            let before = |planner: &Self, number: usize| -> Option<&'r Place> {
                earlier.get(&planner.instances[number].ident)
            };
            self.keep_at(before, &ChosenBecause::RanBefore);
        }
        let now = |planner: &Self, number: usize| planner.instances[number].now;
        self.keep_at(now, &ChosenBecause::Runs);
    }

    /// Leaves the instances of paused and absent nodes alone, whatever changed around them.
    fn freeze(&mut self) {
        for number in 0..self.instances.len() {
            let now = self.instances[number].now;
            let Some(node) = now.and_then(|place| self.node_index.get(&place.node)) else {
                continue;
            };
            let keeps = matches!(
                self.nodes[*node].standing,
                Standing::Paused | Standing::Away
            );
            if keeps && self.may_run(number).is_ok() {
                self.admit(number);
                self.pending.remove(&number);
                self.instances[number].status = Status::Frozen;
            }
        }
    }

    /// Seats pending instances at the places that `anchor` says, as far as they fit.
    ///
    /// Where not all fit any more, those that can go nowhere else stay first, then the more important ones, and of equals
    /// the smaller ones, so that few have to go.
    fn keep_at(
        &mut self,
        anchor: impl Fn(&Self, usize) -> Option<&'r Place>,
        because: &ChosenBecause,
    ) {
        let mut anchored: Vec<_> = self
            .pending
            .iter()
            .filter_map(|number| {
                let place = anchor(self, *number)?;
                let node = *self.node_index.get(&place.node)?;
                let runtimes = &self.nodes[node].node.runtimes;
                let runtime = runtimes
                    .iter()
                    .position(|own| own.runtime_id == place.runtime)?;
                let wanted = self.wanted_of(*number);
                let share = self.nodes[node].share(self.amounts(*number, node));
                let order = (!wanted.is_bound(), Reverse(wanted.priority), share, *number);
                Some((order, node, runtime, place))
            })
            .collect();
        anchored.sort_unstable_by_key(|(order, ..)| *order);
        for ((.., number), node, runtime, place) in anchored {
            let instance = &self.instances[number];
            let arrival = match instance.now == Some(place) {
                true => Arrival::Stays,
                false => Arrival::Comes,
            };
            let at_home = instance.home.is_none_or(|home| home == node);
            if self.nodes[node].standing != Standing::Ready || !at_home {
                continue;
            }
            if let Some(seat) = self.seat_at(number, node, runtime, arrival)
                && self.may_run(number).is_ok()
            {
                self.sit(number, seat, because.clone());
            }
        }
    }

    fn seat_at(
        &self,
        number: usize,
        node: usize,
        runtime: usize,
        arrival: Arrival,
    ) -> Option<Seat> {
        let fittings = self.suits.fittings(self.instances[number].wanted, node);
        let fitting = fittings.iter().find(|own| own.runtime == runtime)?;
        let amounts = self.amounts(number, node);
        let (load, freed) = (self.load(number, amounts), Freed::default());
        let state = &self.nodes[node];
        state.room(load, &freed, arrival).ok()?;
        state.runtime_room(runtime, amounts, &freed).ok()?;
        let image = fitting.image;
        Some(Seat {
            node,
            runtime,
            image,
        })
    }

    /// The image for an instance that stays on a node of which little may be known.
    pub(super) fn image_at(&self, number: usize, place: &Place) -> usize {
        let fitting = self.node_index.get(&place.node).and_then(|node| {
            let runtimes = &self.nodes[*node].node.runtimes;
            let runtime = runtimes
                .iter()
                .position(|own| own.runtime_id == place.runtime)?;
            let fittings = self.suits.fittings(self.instances[number].wanted, *node);
            fittings.iter().find(|own| own.runtime == runtime)
        });
        fitting.map_or(0, |fitting| fitting.image)
    }
}
