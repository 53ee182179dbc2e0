//! Nodes that raised a quota alert give instances away.

use std::cmp::Reverse;

use crate::demand::Amounts;
use crate::explain::ChosenBecause;
use crate::request::{Capacity, Reason, Standing};
use crate::world::Seat;

use super::place::Among;
use super::{Planner, Status};

/// What a node uses and what it should use.
struct Pressure {
    used: Amounts,
    target: Capacity,
}

impl Pressure {
    fn is_over(&self) -> bool {
        let over = |used: u64, target: Option<u64>| target.is_some_and(|target| used > target);
        over(self.used.cpu, self.target.cpu) || over(self.used.ram, self.target.ram)
    }

    /// How much of what is too much an amount is.
    fn weight(&self, amounts: Amounts) -> (u64, u64) {
        let counts = |used: u64, target: Option<u64>, amount: u64| match target {
            Some(target) if used > target => amount,
            _ => 0,
        };
        (
            counts(self.used.cpu, self.target.cpu, amounts.cpu),
            counts(self.used.ram, self.target.ram, amounts.ram),
        )
    }
}

impl Planner<'_> {
    pub(super) fn relieve(&mut self) {
        let Reason::QuotaAlert(reliefs) = &self.request.reason else {
            return;
        };
        let mut reliefs: Vec<_> = reliefs
            .iter()
            .filter_map(|relief| Some((*self.node_index.get(&relief.node)?, relief.target)))
            .filter(|(node, _)| self.nodes[*node].standing == Standing::Ready)
            .collect();
        reliefs.sort_unstable_by_key(|(node, target)| (*node, target.cpu, target.ram));
        for (node, target) in reliefs {
            self.relieve_node(node, target);
        }
    }

    /// What a seated instance really takes: what it was given, or what it uses if that is more.
    fn real_use(&self, number: usize) -> Amounts {
        let instance = &self.instances[number];
        let measured = self.request.measured.get(&instance.ident);
        match &instance.status {
            Status::Seated { amounts, .. } => amounts.max(measured.copied().unwrap_or_default()),
            _ => Amounts::default(),
        }
    }

    fn relieve_node(&mut self, node: usize, target: Capacity) {
        let state = &self.nodes[node];
        let tenants: Vec<_> = state.tenants.clone();
        let real = tenants.iter().map(|tenant| self.real_use(*tenant));
        let mut pressure = Pressure {
            used: real.fold(state.node.system_use, Amounts::plus),
            target,
        };
        let movable = |tenant: &usize| !self.wanted_of(*tenant).is_bound();
        let mut movable: Vec<usize> = tenants.into_iter().filter(movable).collect();
        movable.sort_unstable_by_key(|tenant| {
            let weight = pressure.weight(self.real_use(*tenant));
            (self.wanted_of(*tenant).priority, Reverse(weight), *tenant)
        });
        let mut moved: Vec<(usize, Seat, Amounts)> = Vec::new();
        for tenant in movable {
            if !pressure.is_over() {
                break;
            }
            let real = self.real_use(tenant);
            if pressure.weight(real) == (0, 0) {
                continue;
            }
            let Status::Seated { seat: from, .. } = self.instances[tenant].status else {
                continue;
            };
            let Some(seat) = self.best_seat(tenant, Among::UnalertedNodes, real) else {
                continue;
            };
            let because = ChosenBecause::Relieves {
                node: self.nodes[node].node.id.clone(),
            };
            self.rise(tenant);
            self.choose(tenant, seat, because);
            pressure.used = pressure.used.minus(real);
            moved.push((tenant, from, real));
        }
        // Small ones that went before a large one may not have had to: the most important come back first.
        for (tenant, from, real) in moved.into_iter().rev() {
            let used = pressure.used;
            pressure.used = used.plus(real);
            if pressure.is_over() {
                pressure.used = used;
                continue;
            }
            self.rise(tenant);
            self.forget_observation(tenant);
            self.sit(tenant, from, ChosenBecause::Runs);
        }
    }
}
