//! What keeps a candidate from being used.

use std::fmt;

use muster_lifecycle::State;

use crate::candidate::{Candidate, Market, Origin};
use crate::policy::{Need, Policy, Spot};
use crate::world::World;

/// One thing that keeps a candidate from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Unfit {
    /// It exists, and is in no state to be used.
    State,
    /// It has another architecture.
    Arch,
    /// It stands in another region.
    Region,
    /// It has too few processors.
    Cpus,
    /// It has too little memory.
    Memory,
    /// It has too little disk.
    Disk,
    /// It lacks a label.
    Labels,
    /// It has a taint that is not tolerated.
    Taints,
    /// It cannot be used in a way that is needed.
    Access,
    /// It does not live long enough.
    Lifetime,
    /// It costs too much.
    Price,
    /// It is a spot machine, and none is wanted.
    SpotRefused,
    /// It is no spot machine, and nothing else is wanted.
    SpotWanted,
    /// It is a spot machine of a type that is not in the list.
    SpotType,
    /// It would pass the quota of its provider.
    Quota,
}

impl Unfit {
    const ALL: [Self; 15] = [
        Self::State,
        Self::Arch,
        Self::Region,
        Self::Cpus,
        Self::Memory,
        Self::Disk,
        Self::Labels,
        Self::Taints,
        Self::Access,
        Self::Lifetime,
        Self::Price,
        Self::SpotRefused,
        Self::SpotWanted,
        Self::SpotType,
        Self::Quota,
    ];
}

/// Everything that keeps a candidate from being used.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct UnfitSet(u16);

impl UnfitSet {
    /// Whether nothing does.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this does.
    #[must_use]
    pub const fn has(self, unfit: Unfit) -> bool {
        self.0 & (1 << unfit as u8) != 0
    }

    /// Each that does.
    pub fn iter(self) -> impl Iterator<Item = Unfit> {
        Unfit::ALL.into_iter().filter(move |&unfit| self.has(unfit))
    }

    fn add_if(&mut self, applies: bool, unfit: Unfit) {
        self.0 |= u16::from(applies) << unfit as u8;
    }
}

impl fmt::Debug for UnfitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What is needed and not known is not there.
fn lacks<T: Ord>(needed: Option<T>, has: Option<T>) -> bool {
    needed.is_some_and(|needed| has.is_none_or(|has| has < needed))
}

fn differs<T: PartialEq>(needed: Option<&T>, has: Option<&T>) -> bool {
    needed.is_some() && needed != has
}

/// Everything that keeps a candidate from being used.
pub(crate) fn unfit(
    candidate: &Candidate,
    need: &Need,
    policy: &Policy,
    world: &World,
) -> UnfitSet {
    let mut found = UnfitSet::default();
    let room = candidate.room;
    found.add_if(lacks(need.room.cpus, room.cpus), Unfit::Cpus);
    found.add_if(lacks(need.room.memory_mb, room.memory_mb), Unfit::Memory);
    found.add_if(lacks(need.room.disk_mb, room.disk_mb), Unfit::Disk);
    found.add_if(
        differs(need.arch.as_ref(), candidate.arch.as_ref()),
        Unfit::Arch,
    );
    found.add_if(
        differs(need.region.as_ref(), candidate.region.as_ref()),
        Unfit::Region,
    );
    let labelled = need
        .labels
        .iter()
        .all(|(key, value)| candidate.labels.get(key) == Some(value));
    found.add_if(!labelled, Unfit::Labels);
    let tolerated = candidate.taints.is_subset(&need.tolerates);
    found.add_if(!tolerated, Unfit::Taints);
    found.add_if(!need.access.is_subset(&candidate.access), Unfit::Access);
    let ends = candidate.lives_for;
    let too_short = need
        .runs_for
        .zip(ends)
        .is_some_and(|(runs, ends)| ends < runs);
    found.add_if(too_short, Unfit::Lifetime);
    let too_dear = need
        .max_price
        .is_some_and(|most| candidate.price.is_none_or(|price| price > most));
    found.add_if(too_dear, Unfit::Price);
    if let Origin::Existing { state, .. } = &candidate.origin {
        let usable = matches!(state, State::Running | State::Stopped(_));
        found.add_if(!usable, Unfit::State);
    }
    // A machine that exists can be taken back as much as one that would be made.
    let (Origin::Existing { market, kind, .. } | Origin::New { market, kind }) = &candidate.origin;
    market_fit(*market, kind.as_deref(), &policy.spot, &mut found);
    found.add_if(world.is_full_for(candidate), Unfit::Quota);
    found
}

fn market_fit(market: Market, kind: Option<&str>, spot: &Spot, found: &mut UnfitSet) {
    match (market, spot) {
        (Market::Spot, Spot::Never) => found.add_if(true, Unfit::SpotRefused),
        (Market::Spot, Spot::Prefer { types } | Spot::Only { types }) => {
            let listed = types.is_empty() || types.iter().any(|it| Some(it.as_str()) == kind);
            found.add_if(!listed, Unfit::SpotType);
        }
        (Market::OnDemand, Spot::Only { .. }) => found.add_if(true, Unfit::SpotWanted),
        (Market::Spot, Spot::Either) | (Market::OnDemand, _) => {}
    }
}
