//! What every provider can be told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration as Time;

use muster_config::{Duration, Problems};
use muster_schedule::{Quota, Taint};

use super::RawQuota;
use crate::choice::Price;

/// The most an hour may cost; anything above is a mistake.
const DEAREST: f64 = 1e9;

/// What is known of every provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// What may be used of it.
    pub quota: Quota,
    /// What an hour costs.
    pub price: Price,
    /// How long a machine takes.
    pub ready_in: Time,
    /// What keeps everybody away who does not tolerate it.
    pub taints: BTreeSet<Taint>,
}

/// As it is written.
pub(super) struct RawCommon<'a> {
    pub(super) quota: RawQuota,
    pub(super) price: Option<f64>,
    pub(super) spot_price: Option<f64>,
    pub(super) ready_in: Option<Duration>,
    pub(super) taints: &'a BTreeMap<String, String>,
}

impl RawCommon<'_> {
    /// With what is usual for the provider where nobody says how long a machine takes.
    pub(super) fn read(
        &self,
        section: &str,
        usual: Time,
        problems: &mut Problems<'_>,
    ) -> Option<Common> {
        let section = format!("providers.{section}");
        let taints = self.taints.iter().map(|(key, value)| Taint {
            key: key.clone(),
            value: value.clone(),
        });
        Some(Common {
            quota: Quota {
                machines: self.quota.machines,
                cpus: self.quota.cpus,
                memory_mb: self.quota.memory_mb,
            },
            price: price(&section, self.price, self.spot_price, problems)?,
            ready_in: self.ready_in.map_or(usual, Duration::get),
            taints: taints.collect(),
        })
    }
}

/// The two prices of a section.
pub(super) fn price(
    section: &str,
    on_demand: Option<f64>,
    spot: Option<f64>,
    problems: &mut Problems<'_>,
) -> Option<Price> {
    let mut read = |key: &str, price: Option<f64>| match price.map(millionths) {
        None => Some(None),
        Some(Some(price)) => Some(Some(price)),
        Some(None) => {
            problems.report(
                &format!("{section}.{key}"),
                "must be between 0 and a thousand million",
            );
            None
        }
    };
    let (on_demand, spot) = (read("price", on_demand), read("spotPrice", spot));
    Some(Price {
        on_demand: on_demand?,
        spot: spot?,
    })
}

fn millionths(price: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and a thousand million millionths"
    )]
    let millionths = |price: f64| (price * 1e6).round() as u64;
    (0.0..=DEAREST).contains(&price).then(|| millionths(price))
}
