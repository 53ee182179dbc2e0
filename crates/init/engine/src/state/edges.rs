//! Edges between units. Both ends know of every edge, and who asked for it, so that a reload can take back exactly what
//! one file said.

use serde::{Deserialize, Serialize};

use super::{EngineState, UnitRecord};
use crate::dep::DepKind;
use crate::ids::UnitId;

/// An edge, as one of its ends has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// What this end is to the other.
    pub kind: DepKind,
    /// The other end.
    pub to: UnitId,
    /// This end's settings ask for it.
    pub mine: bool,
    /// The other end's settings ask for it.
    pub theirs: bool,
}

impl EngineState {
    /// The slot of `name`, made if nobody has mentioned it yet.
    pub(crate) fn intern(&mut self, name: &str) -> UnitId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.units.push(None);
            UnitId(u32::try_from(self.units.len() - 1).expect("fewer than 2^32 units"))
        });
        self.units[id.index()] = Some(UnitRecord::stub(name));
        self.names.insert(name.into(), id);
        id
    }

    /// Empties a slot that nothing points to any more.
    pub(crate) fn vacate(&mut self, id: UnitId) {
        let deadlines = std::mem::take(&mut self.unit_mut(id).deadlines);
        for (kind, at) in deadlines {
            self.due.remove(&(at, super::Due::Unit(id, kind)));
        }
        self.names.retain(|_, unit| *unit != id);
        self.units[id.index()] = None;
        self.vacant.push(id);
    }

    /// Replaces the edges that `from`'s own settings ask for.
    pub(crate) fn set_own_edges(&mut self, from: UnitId, wanted: &[(DepKind, UnitId)]) {
        let old: Vec<Edge> = self
            .unit(from)
            .edges
            .iter()
            .filter(|edge| edge.mine)
            .copied()
            .collect();
        for edge in old {
            self.unmark(from, edge.kind, edge.to);
        }
        for (kind, to) in wanted {
            if *to != from {
                self.mark(from, *kind, *to);
            }
        }
    }

    fn mark(&mut self, from: UnitId, kind: DepKind, to: UnitId) {
        edge_mut(self.unit_mut(from), kind, to).mine = true;
        edge_mut(self.unit_mut(to), kind.inverse(), from).theirs = true;
    }

    fn unmark(&mut self, from: UnitId, kind: DepKind, to: UnitId) {
        edge_mut(self.unit_mut(from), kind, to).mine = false;
        edge_mut(self.unit_mut(to), kind.inverse(), from).theirs = false;
        self.unit_mut(from)
            .edges
            .retain(|edge| edge.mine || edge.theirs);
        self.unit_mut(to)
            .edges
            .retain(|edge| edge.mine || edge.theirs);
    }
}

fn edge_mut(unit: &mut UnitRecord, kind: DepKind, to: UnitId) -> &mut Edge {
    let at = unit
        .edges
        .binary_search_by_key(&(kind, to), |edge| (edge.kind, edge.to));
    let at = at.unwrap_or_else(|at| {
        unit.edges.insert(
            at,
            Edge {
                kind,
                to,
                mine: false,
                theirs: false,
            },
        );
        at
    });
    &mut unit.edges[at]
}
