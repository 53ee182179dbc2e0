//! The project's own unit files and what systemd 252 shows for them, so that implicit dependencies,
//! formats and defaults are checked on machines without the corpus.

use std::collections::{BTreeMap, BTreeSet};

use muster_units::show::{Show, show};
use muster_units::{Graph, Runtime};

use crate::lists::{UNORDERED, known_there};
use crate::machine::{EXPECTED, host, names, with_closure};

/// What every unit has of its own.
const OWN: &[&str] = &["Id", "Names", "FragmentPath"];

fn bare(name: &str) -> &str {
    match name.rsplit('.').next() {
        Some("service") => "bare.service",
        Some("socket") => "bare.socket",
        Some("timer") => "bare.timer",
        Some("path") => "bare.path",
        Some("mount") => "srv-bare.mount",
        Some("automount") => "srv-bare.automount",
        Some("swap") => "dev-bare.swap",
        Some("target") => "bare.target",
        Some("slice") => "bare.slice",
        _ => panic!("no bare unit for {name}"),
    }
}

type Sheet = BTreeMap<String, Vec<String>>;

fn sheet(name: &str) -> Sheet {
    with_closure(|closure| {
        let host = host();
        let name = muster_unit_file::name::UnitName::new(name).expect("a name");
        let graph = Graph::new(closure.of([name.clone()]), &host);
        let request = Show {
            host: &host,
            runtime: &Runtime::default(),
            all: false,
        };
        let mut sheet = Sheet::new();
        for (key, value) in show(graph.unit(&name).expect("it was loaded"), request) {
            let value = if UNORDERED.contains(&key) {
                let words: BTreeSet<&str> = value.split(' ').collect();
                words.into_iter().collect::<Vec<_>>().join(" ")
            } else {
                value
            };
            sheet.entry(key.to_owned()).or_default().push(value);
        }
        sheet
    })
}

/// The lines of a unit that its bare sibling does not have, and what only that one has.
fn lines(name: &str) -> BTreeSet<String> {
    let (unit, bare_name) = (sheet(name), bare(name));
    let bare = if bare_name == name {
        let mut settings = unit.clone();
        settings.retain(|key, _| !UNORDERED.contains(&key.as_str()));
        settings
    } else {
        sheet(bare_name)
    };
    let differs = |key: &&String| !OWN.contains(&key.as_str()) && bare.get(*key) != unit.get(*key);
    let mut lines = BTreeSet::new();
    for key in unit.keys().filter(differs) {
        // The order of rows counts, so they are compared as one.
        let value = known_there(key, &unit[key].join("\n"));
        lines.insert(format!("{key}={value}"));
    }
    for key in bare.keys().filter(|key| !unit.contains_key(*key)) {
        lines.insert(format!("-{key}"));
    }
    lines
}

fn expected() -> BTreeMap<String, BTreeSet<String>> {
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut unit = String::new();
    for line in EXPECTED.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            name.trim_end_matches(']').clone_into(&mut unit);
            units.entry(unit.clone()).or_default();
            continue;
        }
        let lines = units.get_mut(&unit).expect("lines follow a unit");
        let key = |line: &str| line.split('=').next().unwrap_or_default().to_owned();
        match lines.last_mut().filter(|last| key(last) == key(line)) {
            Some(last) => {
                last.push('\n');
                last.push_str(line.split_once('=').expect("a property").1);
            }
            None => lines.push(line.to_owned()),
        }
    }
    let sets = units.into_iter();
    sets.map(|(unit, lines)| (unit, lines.into_iter().collect()))
        .collect()
}

#[test]
fn fixtures_are_shown_as_systemd_shows_them() {
    let expected = expected();
    assert_eq!(expected.len(), names().len(), "a unit without expectation");
    let mut wrong = Vec::new();
    for (name, wanted) in &expected {
        let shown = lines(name);
        for line in wanted.difference(&shown) {
            wrong.push(format!("{name} lacks {line}"));
        }
        for line in shown.difference(wanted) {
            wrong.push(format!("{name} has   {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
