//! The names of the properties and their order.

use std::collections::BTreeMap;

use muster_unit_file::name::{UnitName, UnitType};
use muster_units::show::{Show, show};
use muster_units::{Graph, Runtime};

use crate::machine::{host, names, with_closure};

/// Properties that have one line per row, and so none where there are no rows.
const ROWS: &[&str] = &[
    "ExecCondition",
    "ExecConditionEx",
    "ExecStartPre",
    "ExecStartPreEx",
    "ExecStart",
    "ExecStartEx",
    "ExecStartPost",
    "ExecStartPostEx",
    "ExecReload",
    "ExecReloadEx",
    "ExecStop",
    "ExecStopEx",
    "ExecStopPre",
    "ExecStopPost",
    "ExecStopPostEx",
    "ExecMount",
    "ExecUnmount",
    "ExecRemount",
    "ExecActivate",
    "ExecDeactivate",
    "Listen",
    "Paths",
    "TimersMonotonic",
    "TimersCalendar",
    "EnvironmentFiles",
    "DeviceAllow",
    "IODeviceWeight",
    "IOReadBandwidthMax",
    "IOWriteBandwidthMax",
    "IOReadIOPSMax",
    "IOWriteIOPSMax",
    "IODeviceLatencyTargetUSec",
    "BlockIODeviceWeight",
    "BlockIOReadBandwidth",
    "BlockIOWriteBandwidth",
    "BPFProgram",
    "SocketBindAllow",
    "SocketBindDeny",
    "RootImageOptions",
    "RuntimeDirectorySymlink",
    "StateDirectorySymlink",
    "CacheDirectorySymlink",
    "LogsDirectorySymlink",
];

/// The properties of each type in their order; those of every unit come last.
fn known() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut types = BTreeMap::new();
    let mut current: &mut Vec<&str> = types.entry("").or_default();
    for line in include_str!("../data/properties.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            current = types.entry(name.trim_end_matches(']')).or_default();
        } else if !line.starts_with('#') {
            current.extend(line.split_whitespace());
        }
    }
    types
}

fn shown(name: &UnitName) -> Vec<&'static str> {
    with_closure(|closure| {
        let host = host();
        let graph = Graph::new(closure.of([name.clone()]), &host);
        let request = Show {
            host: &host,
            runtime: &Runtime::default(),
            all: true,
        };
        let unit = graph.unit(name).expect("it was loaded");
        let mut names: Vec<&str> = show(unit, request).into_iter().map(|(n, _)| n).collect();
        names.dedup();
        names
    })
}

#[test]
fn every_property_is_there_in_its_place() {
    let known = known();
    let mut checked = 0;
    let more = ["init.scope", "dev-sda.device"].map(|name| UnitName::new(name).expect("a name"));
    for name in names().iter().chain(&more) {
        let own = known.get(name.unit_type().as_str()).into_iter().flatten();
        let shown = shown(name);
        let wanted: Vec<&str> = own
            .chain(&known["unit"])
            .copied()
            .filter(|property| !ROWS.contains(property) || shown.contains(property))
            .collect();
        assert_eq!(shown, wanted, "{name}");
        checked += wanted.len();
    }
    assert!(checked > 8_000, "only {checked} names were checked");
}

#[test]
fn every_type_has_its_properties() {
    let known = known();
    for kind in UnitType::ALL {
        let expected = usize::from(kind != UnitType::Target);
        let has = usize::from(known.contains_key(kind.as_str()));
        assert_eq!(has, expected, "{kind}");
    }
}
