//! What a provider offers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_provider::{Profile, Quota};
use muster_schedule::{Market, Taint};

/// A provider, and what the configuration knows of it.
#[derive(Debug, Clone)]
pub struct Offer {
    /// What it can do.
    pub profile: Profile,
    /// What may be used of it.
    pub quota: Quota,
    /// What its machines cost.
    pub prices: Prices,
    /// How long a new machine takes.
    pub ready_in: Duration,
    /// Where its machines can be made; none where that makes no difference.
    pub places: Vec<Place>,
    /// What keeps everybody away who does not tolerate it.
    pub taints: BTreeSet<Taint>,
}

/// Where a machine can be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The region.
    pub region: String,
    /// A part of it that fails on its own, if that is said.
    pub zone: Option<String>,
}

/// What an hour costs, in millionths of a unit of money. What is unset is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// For as long as the machine lives.
    pub on_demand: Option<u64>,
    /// While the provider does not take it back.
    pub spot: Option<u64>,
}

/// What machines of a provider cost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices {
    /// Any of them.
    pub usual: Price,
    /// Those of a type.
    pub of_types: BTreeMap<String, Price>,
}

impl Prices {
    /// What an hour of a machine costs: by its type, where that has a price. A spot machine costs no more than one on demand.
    pub(super) fn of(&self, market: Market, kind: Option<&str>) -> Option<u64> {
        let own = kind.and_then(|kind| self.of_types.get(kind)).copied();
        let own = own.unwrap_or_default();
        let on_demand = own.on_demand.or(self.usual.on_demand);
        match market {
            Market::OnDemand => on_demand,
            // A type's own price says more about it than what is usual.
            Market::Spot => (own.spot)
                .or_else(|| self.usual.spot.filter(|_| own.on_demand.is_none()))
                .or(on_demand),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_has_its_own_price_and_spot_machines_theirs() {
        let price = |on_demand, spot| Price { on_demand, spot };
        let prices = Prices {
            usual: price(Some(100), Some(30)),
            of_types: [
                ("large".to_owned(), price(Some(400), Some(90))),
                ("plain".to_owned(), price(Some(200), None)),
            ]
            .into(),
        };
        let of = |market, kind| prices.of(market, kind);
        assert_eq!(of(Market::OnDemand, None), Some(100));
        assert_eq!(of(Market::Spot, None), Some(30));
        assert_eq!(of(Market::Spot, Some("other")), Some(30));
        assert_eq!(of(Market::OnDemand, Some("large")), Some(400));
        assert_eq!(of(Market::Spot, Some("large")), Some(90));
        assert_eq!(of(Market::Spot, Some("plain")), Some(200));
        assert_eq!(Prices::default().of(Market::Spot, None), None);
    }
}
