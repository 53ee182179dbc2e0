//! Reading back what the kernel has.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::Deserialize;
use serde_json::Value;

use crate::model::{Amounts, Counters, Installed};
use crate::names::{InstanceId, LinkName};
use crate::policy::NetworkPolicy;

const TABLE: &str = "muster";

#[derive(Debug)]
pub(super) enum ReadStateError {
    Json(serde_json::Error),
    /// Something under our name that we did not write.
    Foreign(String),
}

#[derive(Deserialize)]
struct Listing {
    nftables: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    map: Option<Map>,
    counter: Option<Counter>,
}

#[derive(Deserialize)]
struct Map {
    family: String,
    table: String,
    name: String,
    #[serde(default)]
    elem: Vec<(Value, Value)>,
}

#[derive(Deserialize)]
struct Counter {
    family: String,
    table: String,
    name: String,
    bytes: u64,
}

pub(super) fn installed(listing: &str) -> Result<Installed, ReadStateError> {
    let mut installed = Installed::default();
    let listing: Listing = serde_json::from_str(listing).map_err(ReadStateError::Json)?;
    let maps = listing.nftables.into_iter().filter_map(|item| item.map);
    for map in maps.filter(|map| map.family == "inet" && map.table == TABLE) {
        installed.founded = true;
        match map.name.as_str() {
            "leaving_from" => {
                for (key, _) in &map.elem {
                    let network = commented(key).and_then(|(bridge, record)| {
                        NetworkPolicy::from_record(LinkName::new(bridge).ok()?, record)
                    });
                    let network = network.ok_or_else(|| foreign(&map.name, key))?;
                    installed.networks.insert(network.bridge().clone(), network);
                }
            }
            "sources" => installed.instances = addresses(&map)?,
            "downloads" => installed.meters = addresses(&map)?,
            _ => {}
        }
    }
    Ok(installed)
}

fn foreign(map: &str, key: &Value) -> ReadStateError {
    ReadStateError::Foreign(format!("{key} in the map {map}"))
}

fn addresses(map: &Map) -> Result<BTreeMap<InstanceId, Ipv4Addr>, ReadStateError> {
    let one = |key: &Value| {
        let (address, instance) = commented(key)?;
        Some((InstanceId::new(instance).ok()?, address.parse().ok()?))
    };
    let keys = map.elem.iter().map(|(key, _)| key);
    keys.map(|key| one(key).ok_or_else(|| foreign(&map.name, key)))
        .collect()
}

/// An element's key and its comment.
fn commented(key: &Value) -> Option<(&str, &str)> {
    let element = key.get("elem")?;
    Some((
        element.get("val")?.as_str()?,
        element.get("comment")?.as_str()?,
    ))
}

pub(super) fn counters(listing: &str) -> Result<Counters, ReadStateError> {
    let mut counters = Counters::default();
    let listing: Listing = serde_json::from_str(listing).map_err(ReadStateError::Json)?;
    let found = listing.nftables.into_iter().filter_map(|item| item.counter);
    for counter in found.filter(|counter| counter.family == "inet" && counter.table == TABLE) {
        let Some((direction, whose)) = counter.name.split_once('_') else {
            continue;
        };
        let amounts: &mut Amounts = match whose {
            "system" => &mut counters.system,
            tag => counters.instances.entry(tag.to_owned()).or_default(),
        };
        match direction {
            "in" => amounts.download = counter.bytes,
            "out" => amounts.upload = counter.bytes,
            _ => {}
        }
    }
    Ok(counters)
}

#[cfg(test)]
mod tests;
