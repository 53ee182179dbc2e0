//! Which machine to use or to make: policies in, a choice out, with the reason for every candidate.
//!
//! # Entry points
//! * [`choose`] takes a [`Need`], a [`Policy`], the [`World`] (quotas and what is used of them, and how machines are spread) and
//!   [`Candidate`]s, and gives a [`Decision`]: one verdict for each candidate, and the ranking of those that fit. The first is
//!   the choice; the others are what to try next when a provider has no capacity.
//! * [`Decision::explain`] tells for each candidate why it was chosen, in which place it came and what decided, or everything
//!   that keeps it from fitting, with numbers.
//! * [`Decision::purchase`] tells how one of them is to be bought: what does not fit is not named, neither as a type nor as a fallback.
//! * [`World::take`] counts a choice, for whoever chooses several in a row.
//!
//! # How it chooses
//! First what fits: every resource that is needed must be known and large enough, disk too; architecture, region, labels,
//! taints, ways to use it, how long it lives, price, market, and the provider's quota, in which a size that nobody set counts for
//! nothing (and the explanation says so). Then by the criteria of the policy, in
//! their order: what is better by the first wins, equal ones are compared by the second, and so on; at last by name, so that
//! the same candidates in any order give the same choice.
//!
//! | criterion | better is |
//! |---|---|
//! | [`Criterion::Reuse`] | one that runs without work, then a hibernated one, then a stopped one, then a new one |
//! | [`Criterion::Cost`] | the lower price; an unknown one comes last |
//! | [`Criterion::Speed`] | the one that is ready sooner |
//! | [`Criterion::Locality`] | the region that stands earlier in [`Policy::near`] |
//! | [`Criterion::Spread`] | the failure domain that has fewer machines |
//!
//! With [`Spot::Prefer`] a spot machine goes before one on demand whatever the criteria say, in the order of the list of types;
//! where none fits, one on demand is the fallback.
//!
//! # Invariants
//! * Pure: no I/O, no clock, no chance. The same input gives the same output.
//! * What does not fit, or would pass a quota, is never chosen. Every candidate has exactly one verdict.
//! * Time and memory grow with the number of candidates: 100,000 take less than 50 ms.
//!
//! # What this crate does not do
//! It makes no candidates (whoever knows templates, prices and machines does) and starts nothing.

#![forbid(unsafe_code)]

mod candidate;
mod choose;
mod explain;
mod fit;
mod policy;
mod purchase;
#[cfg(test)]
mod tests;
mod world;

pub use candidate::{Candidate, Market, Origin, Room, Taint};
pub use choose::{Decision, Verdict, choose};
pub use explain::Explanation;
pub use fit::{Unfit, UnfitSet};
pub use muster_provider::Quota;
pub use policy::{Criterion, Need, Policy, Spot};
pub use world::World;
