//! What only EC2 is told.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use muster_aws::{AddressChoice, AwsSettings, InvalidRegion, Kind};
use muster_config::Problems;
use muster_template::Arch;
use serde::Deserialize;

use super::RawAws;
use super::common::price;
use crate::choice::{Place, Price};

/// Where types of instances stand, for problems.
const TYPES: &str = "providers.aws.instanceTypes";

/// A type of instance.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawInstanceType {
    /// Virtual processors.
    pub cpus: Option<NonZeroU32>,
    /// Memory.
    #[serde(rename = "memoryMB")]
    pub memory_mb: Option<NonZeroU64>,
    /// `amd64` or `arm64`.
    pub arch: Option<Arch>,
    /// Whether it has its processors for a part of the time only, for which it costs less.
    pub burstable: bool,
    /// What an hour costs, for the policy, if that is not what is usual.
    pub price: Option<f64>,
    /// The same of one that EC2 may take back.
    pub spot_price: Option<f64>,
}

impl RawAws {
    pub(super) fn settings(&self, problems: &mut Problems<'_>) -> AwsSettings {
        let mut regions = Vec::new();
        for region in &self.regions {
            match region.parse() {
                Ok(region) => regions.push(region),
                Err(error) => {
                    let error: InvalidRegion = error;
                    problems.report("providers.aws.regions", error);
                }
            }
        }
        let usual = AwsSettings::default();
        AwsSettings {
            regions,
            profile: self.profile.clone(),
            endpoint_url: self.endpoint_url.clone(),
            address: match self.private_addresses {
                true => AddressChoice::Private,
                false => AddressChoice::Public,
            },
            hibernation: self.hibernation.unwrap_or(usual.hibernation),
            instance_types: match &self.instance_types {
                Some(_) => self.kinds(problems),
                None => usual.instance_types,
            },
            ..AwsSettings::default()
        }
    }

    /// Every zone of the regions, and every region without any. Nothing where there is only one place.
    pub(super) fn places(&self, problems: &mut Problems<'_>) -> Vec<Place> {
        for zone in &self.zones {
            if !self.regions.iter().any(|region| is_zone_of(zone, region)) {
                problems.report(
                    "providers.aws.zones",
                    format!("{zone:?} is no part of any of the regions"),
                );
            }
        }
        let places: Vec<Place> = self
            .regions
            .iter()
            .flat_map(|region| {
                let zones = self.zones.iter().filter(|zone| is_zone_of(zone, region));
                let mut zones: Vec<Option<String>> = zones.cloned().map(Some).collect();
                if zones.is_empty() {
                    zones.push(None);
                }
                zones.into_iter().map(|zone| Place {
                    region: region.clone(),
                    zone,
                })
            })
            .collect();
        let is_choice = places.len() > 1 || !self.zones.is_empty();
        places.into_iter().filter(|_| is_choice).collect()
    }

    /// What types cost that say so.
    pub(super) fn prices(&self, problems: &mut Problems<'_>) -> BTreeMap<String, Price> {
        let named = self.instance_types.iter().flatten();
        let prices = named.filter_map(|(name, raw)| {
            let section = format!("{TYPES}.{name}");
            let price = price(&section, raw.price, raw.spot_price, problems)?;
            (price != Price::default()).then(|| (name.clone(), price))
        });
        prices.collect()
    }

    /// The types that are named, each whole.
    fn kinds(&self, problems: &mut Problems<'_>) -> Vec<Kind> {
        let named = self.instance_types.iter().flatten();
        let kinds = named.filter_map(|(name, raw)| {
            // EC2's names are a family and a size.
            let plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
            let is_name = name.split_once('.').is_some_and(|(family, size)| {
                !family.is_empty()
                    && !size.is_empty()
                    && (family.chars().chain(size.chars())).all(plain)
            });
            let section = format!("{TYPES}.{name}");
            if !is_name {
                problems.report(&section, "is no type of EC2's, such as `m7i.large`");
            }
            let mut given = |key: &str, is_given: bool| {
                if !is_given {
                    problems.report(&format!("{section}.{key}"), "must be given");
                }
            };
            given("cpus", raw.cpus.is_some());
            given("memoryMB", raw.memory_mb.is_some());
            given("arch", raw.arch.is_some());
            Some(Kind {
                name: name.clone(),
                cpus: raw.cpus?.get(),
                memory_mb: raw.memory_mb?.get(),
                arch: raw.arch?,
                burstable: raw.burstable,
            })
        });
        kinds.collect()
    }
}

/// A zone is called as its region, with a letter.
fn is_zone_of(zone: &str, region: &str) -> bool {
    zone.strip_prefix(region)
        .is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|it| it.is_ascii_lowercase()))
}
