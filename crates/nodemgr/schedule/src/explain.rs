//! Why, for people.

use std::time::Duration;

use crate::candidate::{Candidate, Origin};
use crate::choose::{Decision, Verdict, key};
use crate::fit::Unfit;
use crate::policy::{Criterion, Need, Policy};
use crate::world::World;

/// Why a candidate was chosen, or was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The candidate's name.
    pub candidate: String,
    /// Whether it was chosen.
    pub chosen: bool,
    /// The place it came in, if it fits.
    pub place: Option<u32>,
    /// What decided: one sentence for one that fits, and another if it counts less in a quota than it may use; one for each
    /// thing that keeps it from fitting.
    pub why: Vec<String>,
}

impl Decision {
    /// Explains every candidate, in the order in which they were given. The arguments are those of the choice.
    pub fn explain<'a>(
        &'a self,
        need: &'a Need,
        policy: &'a Policy,
        world: &'a World,
        candidates: &'a [Candidate],
    ) -> impl Iterator<Item = Explanation> + 'a {
        let best = self.chosen().and_then(|index| candidates.get(index));
        self.verdicts
            .iter()
            .zip(candidates)
            .map(move |(verdict, candidate)| {
                let (place, why) = match verdict {
                    Verdict::Fits { place } => {
                        let why = versus_best(candidate, best, policy, world);
                        let uncounted = world.uncounted(candidate);
                        let uncounted = uncounted.map(|what| uncounted_text(what, candidate));
                        let why = std::iter::once(why).chain(uncounted);
                        (Some(*place), why.collect())
                    }
                    Verdict::Unfit(found) => {
                        let why = found.iter();
                        let why = why.map(|unfit| shortcoming(unfit, need, world, candidate));
                        (None, why.collect())
                    }
                };
                Explanation {
                    candidate: candidate.name.clone(),
                    chosen: place == Some(0),
                    place,
                    why,
                }
            })
    }
}

/// What the chosen one is better by.
fn versus_best(
    candidate: &Candidate,
    best: Option<&Candidate>,
    policy: &Policy,
    world: &World,
) -> String {
    let Some(best) = best.filter(|best| best.name != candidate.name) else {
        return "it is the best that fits".to_owned();
    };
    let (own, winner) = (key(candidate, policy, world), key(best, policy, world));
    let decided = own.iter().zip(&winner).position(|(own, best)| own != best);
    match decided {
        None => format!(
            "it is as good as {}, which comes first by its name",
            best.name
        ),
        Some(0) => format!("{} is preferred by its market or its type", best.name),
        Some(place) => {
            let criterion = policy.order()[place - 1];
            let (own, other) = (
                measure(candidate, criterion, world),
                measure(best, criterion, world),
            );
            format!(
                "{} is better by {}: {other} against {own}",
                best.name,
                word(criterion)
            )
        }
    }
}

/// A limit that is not kept is said, since whoever set it may count on it.
fn uncounted_text(what: &str, candidate: &Candidate) -> String {
    format!(
        "nobody set its {what}, so that counts for nothing in the quota of {}",
        candidate.provider
    )
}

const fn word(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::Reuse => "reuse",
        Criterion::Cost => "cost",
        Criterion::Speed => "speed",
        Criterion::Locality => "locality",
        Criterion::Spread => "spread",
    }
}

fn measure(candidate: &Candidate, criterion: Criterion, world: &World) -> String {
    match criterion {
        Criterion::Reuse => match &candidate.origin {
            Origin::New { .. } => "a new one".to_owned(),
            Origin::Existing { state, .. } => format!("one that is {state}"),
        },
        Criterion::Cost => candidate
            .price
            .map_or_else(|| "an unknown price".to_owned(), money),
        Criterion::Speed => format!("ready in {:?}", candidate.ready_in),
        Criterion::Locality => candidate
            .region
            .as_ref()
            .map_or_else(|| "an unknown region".to_owned(), Clone::clone),
        Criterion::Spread => format!("beside {} others", world.neighbours(candidate)),
    }
}

fn money(millionths: u64) -> String {
    format!(
        "{}.{:06} an hour",
        millionths / 1_000_000,
        millionths % 1_000_000
    )
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

/// What is missing, with numbers.
fn shortcoming(unfit: Unfit, need: &Need, world: &World, candidate: &Candidate) -> String {
    let room = candidate.room;
    match unfit {
        Unfit::State => match &candidate.origin {
            Origin::Existing { state, .. } => format!("it is {state}"),
            Origin::New { .. } => "it does not exist".to_owned(),
        },
        Unfit::Arch => format!(
            "its architecture is {}, not {}",
            known(candidate.arch),
            known(need.arch)
        ),
        Unfit::Region => format!(
            "its region is {}, not {}",
            known(candidate.region.as_ref()),
            known(need.region.as_ref())
        ),
        Unfit::Cpus => format!("cpus: {} of {}", known(room.cpus), known(need.room.cpus)),
        Unfit::Memory => format!(
            "MiB of memory: {} of {}",
            known(room.memory_mb),
            known(need.room.memory_mb)
        ),
        Unfit::Disk => format!(
            "MiB of disk: {} of {}",
            known(room.disk_mb),
            known(need.room.disk_mb)
        ),
        Unfit::Labels => {
            let mut needed = need.labels.iter();
            let missing = needed.find(|&(key, value)| candidate.labels.get(key) != Some(value));
            let (key, value) = missing.map_or(("", ""), |(key, value)| (key, value));
            format!("it has no label {key}={value}")
        }
        Unfit::Taints => {
            let mut taints = candidate.taints.difference(&need.tolerates);
            let taint = taints.next();
            let (key, value) = taint.map_or(("", ""), |taint| (&taint.key, &taint.value));
            format!("the taint {key}={value} is not tolerated")
        }
        Unfit::Access => {
            let mut missing = need.access.difference(&candidate.access);
            format!("it does not offer {}", known(missing.next()))
        }
        Unfit::Lifetime => format!(
            "it lives for {:?}, not {:?}",
            candidate.lives_for.unwrap_or(Duration::MAX),
            need.runs_for.unwrap_or_default()
        ),
        Unfit::Price => format!(
            "its price is {}, more than {}",
            candidate.price.map_or_else(|| "unknown".to_owned(), money),
            money(need.max_price.unwrap_or_default())
        ),
        Unfit::SpotRefused => "it is a spot machine, and none is wanted".to_owned(),
        Unfit::SpotWanted => "it is no spot machine, and nothing else is wanted".to_owned(),
        Unfit::SpotType => "it is a spot machine of a type that is not in the list".to_owned(),
        Unfit::Quota => format!(
            "it would pass the quota of {}: {} used",
            candidate.provider,
            world.quota_text(candidate.provider)
        ),
    }
}
