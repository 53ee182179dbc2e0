//! The choice.

use muster_lifecycle::{Halt, State};

use crate::candidate::{Candidate, Origin};
use crate::fit::{UnfitSet, unfit};
use crate::policy::{Criterion, Need, Policy, Spot};
use crate::world::World;

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It fits, and comes in this place; the chosen one in place 0.
    Fits {
        /// Which place.
        place: u32,
    },
    /// It cannot be used.
    Unfit(UnfitSet),
}

/// Smaller is better, place by place: the market first, then the criteria of the policy.
pub(crate) type Key = [u64; 1 + Criterion::ALL.len()];

/// A choice, with what became of every candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) ranking: Vec<u32>,
}

impl Decision {
    /// The chosen candidate, as its place in the list that was given.
    #[must_use]
    pub fn chosen(&self) -> Option<usize> {
        self.ranking().next()
    }

    /// Those that fit, the best first: what to try if one turns out not to be had.
    pub fn ranking(&self) -> impl Iterator<Item = usize> {
        self.ranking.iter().map(|&index| index as usize)
    }

    /// One verdict for each candidate, in the order in which they were given.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// Chooses a machine.
///
/// # Panics
/// With more than four billion candidates.
#[must_use]
pub fn choose(need: &Need, policy: &Policy, world: &World, candidates: &[Candidate]) -> Decision {
    let mut verdicts = Vec::with_capacity(candidates.len());
    let mut fitting: Vec<(Key, u32)> = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let found = unfit(candidate, need, policy, world);
        if found.is_empty() {
            let index = u32::try_from(index).expect("candidates can be counted");
            fitting.push((key(candidate, policy, world), index));
        }
        verdicts.push(Verdict::Unfit(found));
    }
    let name = |index: u32| candidates[index as usize].name.as_str();
    fitting.sort_unstable_by(|(one, at_one), (two, at_two)| {
        one.cmp(two)
            .then_with(|| name(*at_one).cmp(name(*at_two)))
            .then_with(|| at_one.cmp(at_two))
    });
    let ranking: Vec<u32> = fitting.into_iter().map(|(_, index)| index).collect();
    for (place, &index) in (0..).zip(&ranking) {
        verdicts[index as usize] = Verdict::Fits { place };
    }
    Decision { verdicts, ranking }
}

/// How good a candidate is.
pub(crate) fn key(candidate: &Candidate, policy: &Policy, world: &World) -> Key {
    let mut key = Key::default();
    key[0] = market_rank(candidate, &policy.spot);
    for (place, &criterion) in key[1..].iter_mut().zip(policy.order()) {
        *place = rank(candidate, criterion, policy, world);
    }
    key
}

/// The place of a spot machine's type in the list; behind all of them what is not one. What exists is neither.
fn market_rank(candidate: &Candidate, spot: &Spot) -> u64 {
    let (Spot::Prefer { types } | Spot::Only { types }) = spot else {
        return 0;
    };
    let Origin::New { kind, .. } = &candidate.origin else {
        return 0;
    };
    if !candidate.is_new_spot() {
        return types.len() as u64 + 1;
    }
    let place = types.iter().position(|it| Some(it) == kind.as_ref());
    place.map_or(0, |place| place as u64)
}

fn rank(candidate: &Candidate, criterion: Criterion, policy: &Policy, world: &World) -> u64 {
    match criterion {
        Criterion::Reuse => match &candidate.origin {
            Origin::Existing { state, .. } => match state {
                State::Running => 0,
                State::Stopped(Halt::Hibernated) => 1,
                _ => 2,
            },
            Origin::New { .. } => 3,
        },
        Criterion::Cost => candidate.price.unwrap_or(u64::MAX),
        Criterion::Speed => u64::try_from(candidate.ready_in.as_millis()).unwrap_or(u64::MAX),
        Criterion::Locality => {
            let region = candidate.region.as_ref();
            let mut near = policy.near.iter();
            let place = near.position(|it| Some(it) == region);
            place.unwrap_or(policy.near.len()) as u64
        }
        Criterion::Spread => world.neighbours(candidate),
    }
}
