//! How what was chosen is to be bought.

use muster_provider::Purchase;

use crate::candidate::{Candidate, Market, Origin};
use crate::choose::{Decision, Verdict};
use crate::policy::{Need, Policy, Spot};

impl Decision {
    /// How a chosen candidate is to be bought: with all types of the list that fit, and the fallback, so that the provider can go
    /// through them in one call. What does not fit is not named, so that the provider comes to nothing that was not chosen from.
    ///
    /// `candidates` are those of the choice, and `chosen` is the place of one among them; what is no new spot machine is bought
    /// on demand.
    #[must_use]
    pub fn purchase(
        &self,
        chosen: usize,
        need: &Need,
        policy: &Policy,
        candidates: &[Candidate],
    ) -> Purchase {
        let Some(chosen) = candidates.get(chosen).filter(|it| it.is_new_spot()) else {
            return Purchase::OnDemand;
        };
        let fitting = self.verdicts.iter().zip(candidates);
        let fitting = fitting.filter_map(|(verdict, candidate)| {
            matches!(verdict, Verdict::Fits { .. }).then_some(candidate)
        });
        let there: Vec<&Candidate> = fitting.filter(|it| stands_with(it, chosen)).collect();
        let has = |market: Market, kind: Option<&str>| {
            let mut markets = there.iter().filter_map(|it| offered(it));
            markets.any(|(own, of_type)| own == market && (kind.is_none() || kind == of_type))
        };
        let listed = policy.spot.types().iter();
        let types: Vec<String> = listed
            .filter(|kind| has(Market::Spot, Some(kind)))
            .cloned()
            .collect();
        // The fallback is of the same types as the list, of which nobody has said what they cost on demand.
        let is_known = types.is_empty() || need.max_price.is_none();
        let prefers = matches!(policy.spot, Spot::Prefer { .. });
        Purchase::Spot {
            fallback: prefers && is_known && has(Market::OnDemand, None),
            types,
        }
    }
}

fn offered(candidate: &Candidate) -> Option<(Market, Option<&str>)> {
    match &candidate.origin {
        Origin::New { market, kind } => Some((*market, kind.as_deref())),
        Origin::Existing { .. } => None,
    }
}

fn stands_with(one: &Candidate, other: &Candidate) -> bool {
    one.provider == other.provider
        && one.template == other.template
        && one.region == other.region
        && one.zone == other.zone
}
