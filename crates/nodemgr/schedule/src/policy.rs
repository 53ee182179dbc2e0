//! What is wanted, and what counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_provider::Capabilities;
use muster_template::Arch;

use crate::candidate::{Room, Taint};

/// What a machine must be. What is unset does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Need {
    /// At least this much of everything that is set.
    pub room: Room,
    /// This architecture.
    pub arch: Option<Arch>,
    /// This region.
    pub region: Option<String>,
    /// All of these.
    pub labels: BTreeMap<String, String>,
    /// All of these.
    pub access: Capabilities,
    /// It may have these taints, and no others.
    pub tolerates: BTreeSet<Taint>,
    /// It lives at least this long.
    pub runs_for: Option<Duration>,
    /// An hour costs no more than this. An unknown price is too much.
    pub max_price: Option<u64>,
}

/// What makes one machine better than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// It exists, and the less has to be done to use it the better.
    Reuse,
    /// It is cheaper.
    Cost,
    /// It is ready sooner.
    Speed,
    /// It is nearer.
    Locality,
    /// It stands where fewer are.
    Spread,
}

impl Criterion {
    /// All of them, in the order in which they count if nobody says otherwise.
    pub const ALL: [Self; 5] = [
        Self::Reuse,
        Self::Cost,
        Self::Speed,
        Self::Locality,
        Self::Spread,
    ];
}

/// What to think of spot machines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Spot {
    /// None.
    #[default]
    Never,
    /// Rather than one on demand, which is the fallback.
    Prefer {
        /// Types that will do, the best first; none means every type.
        types: Vec<String>,
    },
    /// Nothing else.
    Only {
        /// Types that will do, the best first; none means every type.
        types: Vec<String>,
    },
    /// As it comes: the criteria decide.
    Either,
}

impl Spot {
    /// The list of types.
    pub(crate) fn types(&self) -> &[String] {
        match self {
            Self::Prefer { types } | Self::Only { types } => types,
            Self::Never | Self::Either => &[],
        }
    }
}

/// What counts, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    order: Vec<Criterion>,
    /// What to think of spot machines.
    pub spot: Spot,
    /// Regions, the nearest first. Others are farther than all of them.
    pub near: Vec<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self::by(&[])
    }
}

impl Policy {
    /// These criteria first, each once, then the others in their usual order.
    #[must_use]
    pub fn by(first: &[Criterion]) -> Self {
        let mut order: Vec<Criterion> = Vec::with_capacity(Criterion::ALL.len());
        for &criterion in first.iter().chain(&Criterion::ALL) {
            if !order.contains(&criterion) {
                order.push(criterion);
            }
        }
        Self {
            order,
            spot: Spot::default(),
            near: Vec::new(),
        }
    }

    /// The criteria, the first counts most.
    #[must_use]
    pub fn order(&self) -> &[Criterion] {
        &self.order
    }
}
