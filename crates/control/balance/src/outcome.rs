//! What the balancer answers.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::domain::{Digest, Gid, InstanceIdent, Uid};
use serde::Serialize;

use crate::ledger::Ledger;
use crate::refusal::RefusalKind;
use crate::request::{Place, Placement};

/// Where everything runs from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What runs.
    pub placed: BTreeMap<InstanceIdent, Placed>,
    /// What is wanted and cannot run.
    pub unplaced: BTreeMap<InstanceIdent, WhyNot>,
    /// What ran and is no longer wanted.
    pub removed: Placement,
    /// For the next plan. Must be durable before this plan is carried out.
    pub ledger: Ledger,
}

impl Plan {
    /// What runs where, as the next request states it.
    pub fn placement(&self) -> Placement {
        let place =
            |(ident, placed): (&InstanceIdent, &Placed)| (ident.clone(), placed.place.clone());
        self.placed.iter().map(place).collect()
    }

    /// Instances that change their place, with the place that they leave.
    pub fn moves(&self) -> impl Iterator<Item = (&InstanceIdent, &Place, &Place)> {
        self.placed
            .iter()
            .filter_map(|(ident, placed)| match &placed.change {
                Change::Moved { from } => Some((ident, from, &placed.place)),
                Change::Kept | Change::New => None,
            })
    }
}

/// What becomes of one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Where it runs.
    pub place: Place,
    /// Of the item's images the one that suits the runtime best.
    pub manifest: Digest,
    /// The user it runs as.
    pub uid: Uid,
    /// The group it runs as.
    pub gid: Gid,
    /// Compared to now.
    pub change: Change,
}

/// What a plan changes for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Kept,
    /// It did not run.
    New,
    /// It ran elsewhere.
    Moved {
        /// Where.
        from: Place,
    },
}

/// Why an instance cannot run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum WhyNot {
    /// No node can take it.
    NoNode {
        /// How many nodes refuse it for what.
        refusals: Tally,
    },
    /// All numbers for users are taken.
    NoUid {
        /// How many there are.
        numbers: u64,
    },
    /// All numbers for groups are taken.
    NoGid {
        /// How many there are.
        numbers: u64,
    },
    /// The storage of the Unit is spoken for.
    Storage {
        /// Bytes it needs.
        need: u64,
        /// Bytes that are left.
        free: u64,
    },
    /// The room for states is spoken for.
    State {
        /// Bytes it needs.
        need: u64,
        /// Bytes that are left.
        free: u64,
    },
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode { refusals } => write!(f, "no node can take it: {refusals}"),
            Self::NoUid { numbers } => write!(f, "all {numbers} user ids are taken"),
            Self::NoGid { numbers } => write!(f, "all {numbers} group ids are taken"),
            Self::Storage { need, free } => {
                write!(f, "it needs {need} bytes of storage, and {free} are left")
            }
            Self::State { need, free } => {
                write!(
                    f,
                    "it needs {need} bytes for its state, and {free} are left"
                )
            }
        }
    }
}

/// How many nodes refuse an instance for what. A node counts for the reason that comes nearest to taking it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Tally(BTreeMap<RefusalKind, u64>);

impl Tally {
    /// How many nodes refuse it for this.
    pub fn count(&self, kind: RefusalKind) -> u64 {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    /// The reasons and how many nodes have each.
    pub fn iter(&self) -> impl Iterator<Item = (RefusalKind, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count))
    }

    pub(crate) fn add(&mut self, kind: RefusalKind) {
        *self.0.entry(kind).or_default() += 1;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("there are no nodes");
        }
        // What comes nearest to taking it is what an operator can change most easily.
        for (index, (kind, count)) in self.0.iter().rev().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            let nodes = if *count == 1 { "node" } else { "nodes" };
            write!(f, "{comma}{count} {nodes}: {kind}")?;
        }
        Ok(())
    }
}
