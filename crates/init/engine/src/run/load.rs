//! Units come and go: names are resolved into edges, aliases join what they stand for.

use super::{Pending, Step};
use crate::dep::DepKind;
use crate::event::{Do, LoadState, LoadedUnit};
use crate::ids::UnitId;
use crate::protocol::{Input, Severity};
use crate::types::Machine;

impl Step<'_> {
    pub(super) fn load(&mut self, units: &[LoadedUnit]) {
        for unit in units {
            self.load_one(unit);
        }
        // Units are loaded in bulk and then stay: room for as many again would be wasted for as long.
        self.state.units.shrink_to_fit();
        let missing: Vec<Box<str>> = self
            .state
            .units()
            .filter(|(_, unit)| unit.load == LoadState::Stub)
            .map(|(_, unit)| unit.name.clone())
            .collect();
        if !missing.is_empty() {
            self.act(Do::Load(missing));
        }
    }

    fn load_one(&mut self, unit: &LoadedUnit) {
        let id = self.state.intern(&unit.name);
        for alias in &unit.aliases {
            self.join_alias(alias, id);
        }
        let edges: Vec<(DepKind, UnitId)> = unit
            .spec
            .iter()
            .flat_map(|spec| &spec.deps)
            .map(|(kind, name)| (*kind, self.state.intern(name)))
            .collect();
        // What runs without its file keeps the settings it was started with, so that it can be stopped as it should. Its
        // edges are among them: they say in which slice its processes are.
        let keeps_its_own = unit.spec.is_none() && !self.state.unit(id).active().is_down();
        if !keeps_its_own {
            self.state.set_own_edges(id, &edges);
        }
        let spec = unit.spec.as_ref().map(|spec| {
            let mut spec = spec.clone();
            spec.deps = std::collections::BTreeSet::new();
            spec
        });
        let record = self.state.unit_mut(id);
        record.load = unit.load;
        if let Some(spec) = &spec
            && !record.machine.fits(&spec.kind)
        {
            if record.active().is_down() {
                record.machine = Machine::for_kind(&spec.kind);
            } else {
                let message = "Its type changed while it runs; the new one counts after a stop.";
                return self.log(Severity::Warning, id, message.into());
            }
        }
        if !keeps_its_own {
            record.spec = spec;
        }
        self.pending
            .push_back(Pending::Deliver(id, Input::Reloaded));
    }

    /// `alias` is another name of `unit`. Whatever was said about it so far is said about the unit.
    fn join_alias(&mut self, alias: &str, unit: UnitId) {
        match self.state.find(alias) {
            Some(same) if same == unit => {}
            None => {
                self.state.names.insert(alias.into(), unit);
            }
            Some(other) => {
                let record = self.state.unit(other);
                if record.job.is_some() || !record.active().is_down() || &*record.name != alias {
                    let message = format!("{alias} is in use and does not become a name of this.");
                    return self.log(Severity::Warning, unit, message);
                }
                self.absorb(other, unit);
                self.state.names.insert(alias.into(), unit);
            }
        }
    }

    fn absorb(&mut self, from: UnitId, into: UnitId) {
        let edges = self.state.unit(from).edges().to_vec();
        self.state.set_own_edges(from, &[]);
        for edge in edges.iter().filter(|edge| edge.theirs) {
            let other = self.state.unit(edge.to);
            let mut own: Vec<(DepKind, UnitId)> = other
                .edges()
                .iter()
                .filter(|edge| edge.mine)
                .map(|e| (e.kind, e.to))
                .collect();
            for (_, to) in &mut own {
                if *to == from {
                    *to = into;
                }
            }
            self.state.set_own_edges(edge.to, &own);
        }
        self.state.vacate(from);
    }

    pub(super) fn unload(&mut self, names: &[Box<str>]) {
        for name in names {
            let Some(id) = self.state.find(name) else {
                continue;
            };
            let record = self.state.unit_mut(id);
            record.load = LoadState::NotFound;
            if record.active().is_down() && record.job.is_none() {
                record.spec = None;
                self.state.set_own_edges(id, &[]);
            }
        }
        self.forget_unmentioned();
    }

    /// Forgets units that have no file, do nothing, and are mentioned by nobody.
    fn forget_unmentioned(&mut self) {
        let idle: Vec<UnitId> = self
            .state
            .units()
            .filter(|(_, unit)| unit.load == LoadState::NotFound && unit.job.is_none())
            .filter(|(_, unit)| unit.active().is_down() && unit.edges().is_empty())
            .map(|(id, _)| id)
            .collect();
        for id in idle {
            self.state.vacate(id);
        }
    }
}
