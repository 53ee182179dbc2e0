//! Laws that hold for any units.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_engine::dep::DepKind;
use muster_unit_file::config::UnitConfig;
use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::{UnitName, UnitType};
use muster_units::closure::Closure;
use muster_units::convert::{Moments, loaded_units};
use muster_units::show::{Show, show};
use muster_units::{Graph, Host, Runtime};
use proptest::prelude::*;

const FOLDER: &str = "/units";

const NAMES: &[&str] = &[
    "a.service",
    "b@x.service",
    "c.target",
    "d.target",
    "shutdown.target",
    "e.socket",
    "f.timer",
    "g.path",
    "srv.mount",
    "srv-deep.mount",
    "srv.automount",
    "dev-sda.device",
    "h-i.slice",
    "dev-swap.swap",
    "missing.service",
];

const LINES: &[&str] = &[
    "Requires",
    "Requisite",
    "Wants",
    "BindsTo",
    "PartOf",
    "Upholds",
    "Conflicts",
    "Before",
    "After",
    "OnFailure",
    "OnSuccess",
    "PropagatesReloadTo",
    "StopPropagatedFrom",
    "JoinsNamespaceOf",
];

fn body(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("service") => "[Service]\nExecStart=/bin/true\nPrivateTmp=yes\nStateDirectory=x\n",
        Some("socket") => "[Socket]\nListenStream=/srv/deep/socket\n",
        Some("timer") => "[Timer]\nOnCalendar=daily\nPersistent=yes\n",
        Some("path") => "[Path]\nPathExists=/srv/deep/x\n",
        Some("mount") => "[Mount]\nWhat=/dev/sda\n",
        Some("automount") => "[Automount]\nTimeoutIdleSec=5\n",
        Some("swap") => "[Swap]\nWhat=/dev/swap\n",
        _ => "",
    }
}

type Lines = Vec<(usize, usize)>;

fn any_units() -> impl Strategy<Value = Vec<(bool, Lines)>> {
    let lines = prop::collection::vec((0..LINES.len(), 0..NAMES.len()), 0..6);
    prop::collection::vec((any::<bool>(), lines), NAMES.len() - 1)
}

fn load(units: &[(bool, Lines)], host: &Host) -> Vec<Arc<UnitConfig>> {
    let mut fs = MemoryFs::new();
    for (name, (defaults, lines)) in NAMES.iter().zip(units) {
        let mut text = format!("[Unit]\nDefaultDependencies={defaults}\n");
        for (line, other) in lines {
            text.push_str(&format!("{}={}\n", LINES[*line], NAMES[*other]));
        }
        text.push_str(body(name));
        fs.write(&format!("{FOLDER}/{name}"), text);
    }
    let mut loader = Loader::new(fs, SearchPath::new([FOLDER]), host.specifiers.clone());
    let roots = NAMES
        .iter()
        .map(|name| UnitName::new(name).expect("a name"));
    Closure::new(&mut loader, host).of(roots)
}

fn edges(graph: &Graph) -> BTreeSet<(String, DepKind, String)> {
    let mut edges = BTreeSet::new();
    for unit in graph.units() {
        for kind in DepKind::ALL {
            for other in unit.dependencies(*kind) {
                edges.insert((unit.name().to_string(), *kind, other.to_string()));
            }
        }
    }
    edges
}

proptest! {
    #[test]
    fn every_edge_is_known_at_both_ends_and_leads_elsewhere(units in any_units()) {
        let host = Host::default();
        let graph = Graph::new(load(&units, &host), &host);
        let edges = edges(&graph);
        for (from, kind, to) in &edges {
            prop_assert_ne!(from, to);
            let inverse = (to.clone(), kind.inverse(), from.clone());
            prop_assert!(edges.contains(&inverse), "{from} {kind:?} {to} has no inverse");
            let is_device = to.ends_with(".device");
            prop_assert!(!(is_device && *kind == DepKind::Before), "{from} delays {to}");
        }
    }

    #[test]
    fn the_order_of_units_does_not_matter(units in any_units(), turn in 0..20usize) {
        let host = Host::default();
        let mut loaded = load(&units, &host);
        let straight = edges(&Graph::new(loaded.clone(), &host));
        let middle = turn % loaded.len();
        loaded.rotate_left(middle);
        loaded[middle..].reverse();
        prop_assert_eq!(straight, edges(&Graph::new(loaded, &host)));
    }

    #[test]
    fn a_closure_leaves_nothing_unloaded(units in any_units()) {
        let host = Host::default();
        let graph = Graph::new(load(&units, &host), &host);
        let mentioned: Vec<&UnitName> = graph.mentioned().collect();
        prop_assert!(mentioned.is_empty(), "{mentioned:?}");
    }

    #[test]
    fn targets_follow_what_they_pull_in(units in any_units()) {
        let host = Host::default();
        let graph = Graph::new(load(&units, &host), &host);
        let targets = graph.units().filter(|u| u.name().unit_type() == UnitType::Target);
        for target in targets {
            let has_defaults = |name: &UnitName| {
                let config = graph.unit(name).and_then(|unit| unit.config().cloned());
                config.is_some_and(|config| {
                    config.default_dependencies && config.load_state.as_str() == "loaded"
                })
            };
            if !has_defaults(target.name()) {
                continue;
            }
            let after: BTreeSet<&UnitName> = target.dependencies(DepKind::After).collect();
            let before: BTreeSet<&UnitName> = target.dependencies(DepKind::Before).collect();
            for other in target.dependencies(DepKind::Wants).filter(|name| has_defaults(name)) {
                prop_assert!(after.contains(other) || before.contains(other));
            }
        }
    }

    #[test]
    fn any_text_can_be_shown_and_converted(lines in prop::collection::vec("[ -~]{0,40}", 0..12)) {
        let mut fs = MemoryFs::new();
        let text = lines.join("\n");
        for (name, section) in [
            ("x.service", "Service"), ("x.socket", "Socket"), ("x.mount", "Mount"), ("x.timer", "Timer"),
        ] {
            let keys = ["ExecStart", "ListenStream", "What", "OnCalendar", "SystemCallFilter", "DeviceAllow"];
            let guided: Vec<String> = lines.iter().zip(keys).map(|(line, key)| format!("{key}={line}")).collect();
            fs.write(&format!("{FOLDER}/{name}"), format!("[{section}]\n{}\n{text}\n", guided.join("\n")));
        }
        let host = Host::default();
        let mut loader = Loader::new(fs, SearchPath::new([FOLDER]), host.specifiers.clone());
        let roots = ["x.service", "x.socket", "x.mount", "x.timer"].map(|n| UnitName::new(n).expect("a name"));
        let graph = Graph::new(Closure::new(&mut loader, &host).of(roots), &host);
        let runtime = Runtime::default();
        for unit in graph.units() {
            let all = show(unit, Show { host: &host, runtime: &runtime, all: true });
            let some = show(unit, Show { host: &host, runtime: &runtime, all: false });
            prop_assert!(some.len() <= all.len());
            let id = ("Id", unit.name().to_string());
            prop_assert!(some.contains(&id) && all.contains(&id));
        }
        prop_assert_eq!(loaded_units(&graph, Moments::default()).len(), graph.units().count());
    }
}
