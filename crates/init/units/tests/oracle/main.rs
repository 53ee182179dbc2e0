//! Every property of every unit of the corpus as systemd 252 shows it.
//!
//! The corpus stands beside the checkout; on a machine without it the test says so and passes, and
//! the fixtures keep the same checks alive.

mod corpus;
#[path = "../lists/mod.rs"]
mod lists;
mod security;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use muster_unit_file::fs::UnitFs;
use muster_unit_file::install::{Installer, PresetAction};
use muster_unit_file::load::Loader;
use muster_unit_file::name::UnitName;
use muster_units::closure::Closure;
use muster_units::show::{Show, show};
use muster_units::{Graph, Runtime};

use corpus::FOLDER;
use lists::{UNORDERED, known_there};

type Sheet = Vec<(String, String)>;

/// The blocks of the oracle. The last property of a unit ends it.
fn oracle() -> Option<Vec<Sheet>> {
    let file = std::fs::File::open(corpus::file("systemd252-show.txt.gz")?).expect("it opens");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .expect("the oracle is UTF-8");
    let mut units = Vec::new();
    let mut unit = Sheet::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        unit.push((name.to_owned(), value.to_owned()));
        if name == "CollectMode" {
            units.push(std::mem::take(&mut unit));
        }
    }
    Some(units)
}

fn grouped(sheet: &[(impl AsRef<str>, String)]) -> BTreeMap<&str, String> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in sheet {
        values.entry(name.as_ref()).or_default().push(value);
    }
    let joined = |(name, values): (_, Vec<&str>)| {
        let value = if UNORDERED.contains(&name) {
            let words: BTreeSet<&str> = values[0].split(' ').collect();
            words.into_iter().collect::<Vec<_>>().join(" ")
        } else {
            values.join("\n")
        };
        (name, value)
    };
    values.into_iter().map(joined).collect()
}

/// Which differences are known: by property, by unit and property, or whole units. Each has a reason.
struct Known {
    entries: BTreeMap<String, bool>,
}

impl Known {
    fn read() -> Self {
        let lines = include_str!("../data/oracle-differences.txt").lines();
        let mut entries = BTreeMap::new();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (entry, reason) = line.split_once(": ").expect("an entry has a reason");
            assert!(!reason.trim().is_empty(), "{entry} has no reason");
            entries.insert(entry.to_owned(), false);
        }
        Self { entries }
    }

    fn covers(&mut self, unit: &str, property: &str) -> bool {
        let specific = format!("{unit} {property}");
        let whole = format!("{unit} *");
        for entry in [specific.as_str(), property, whole.as_str()] {
            if let Some(used) = self.entries.get_mut(entry) {
                *used = true;
                return true;
            }
        }
        false
    }

    fn unused(&self) -> Vec<&str> {
        let unused = self.entries.iter().filter(|(_, used)| !**used);
        unused.map(|(entry, _)| entry.as_str()).collect()
    }
}

#[derive(Default)]
struct Tally {
    compared: usize,
    equal: usize,
    listed: usize,
    by_property: BTreeMap<String, Vec<String>>,
}

impl Tally {
    fn take(&mut self, known: &mut Known, unit: &str, expected: &Sheet, shown: &[(&str, String)]) {
        let (expected, shown) = (grouped(expected), grouped(shown));
        let names: BTreeSet<&str> = expected.keys().chain(shown.keys()).copied().collect();
        for name in names {
            self.compared += 1;
            let wanted = expected.get(name);
            let got = shown.get(name).map(|value| known_there(name, value));
            let got = got.as_ref();
            if wanted == got {
                self.equal += 1;
            } else if known.covers(unit, name) {
                self.listed += 1;
            } else {
                let text = difference(name, wanted, got);
                let list = self.by_property.entry(name.to_owned()).or_default();
                list.push(format!("{unit}: {text}"));
            }
        }
    }
}

fn difference(name: &str, wanted: Option<&String>, got: Option<&String>) -> String {
    if !UNORDERED.contains(&name) {
        return format!("{got:?} instead of {wanted:?}");
    }
    let words = |text: Option<&String>| -> BTreeSet<String> {
        let text = text.map(String::as_str).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let (wanted, got) = (words(wanted), words(got));
    let missing: Vec<_> = wanted.difference(&got).collect();
    let extra: Vec<_> = got.difference(&wanted).collect();
    format!("missing {missing:?}, too many {extra:?}")
}

#[test]
fn every_property_is_what_systemd_shows() {
    let Some((fs, ambiguous)) = corpus::files() else {
        return;
    };
    let Some(oracle) = oracle() else { return };
    let host = corpus::host();
    let mut installer = Installer::new(&fs, corpus::install_paths(), host.specifiers.clone());
    let presets = installer.presets();
    let mut loader = Loader::new(fs.clone(), corpus::search_path(), host.specifiers.clone());
    let mut closure = Closure::new(&mut loader, &host);
    let base = UnitName::new("graphical.target").expect("a name");
    let mut known = Known::read();
    let mut tally = Tally::default();
    let (mut units, mut skipped) = (0, 0);
    for expected in &oracle {
        let value = |name: &str| expected.iter().find(|(n, _)| n == name).map(|(_, v)| &**v);
        let id = value("Id").expect("every unit has an Id");
        let file = value("FragmentPath").and_then(|path| path.rsplit('/').next());
        let elsewhere = file.is_some_and(|file| fs.stat(&format!("{FOLDER}/{file}")).is_err());
        if elsewhere || file.is_some_and(|file| ambiguous.contains(file)) {
            skipped += 1;
            continue;
        }
        let name = UnitName::new(id).expect("an Id is a name");
        let graph = Graph::new(closure.of([base.clone(), name.clone()]), &host);
        let unit = graph.unit(&name).expect("the unit was loaded");
        let runtime = Runtime {
            file_state: installer.state(&name),
            file_preset: file.map(|_| presets.action(&name) != PresetAction::Disable),
            ..Runtime::default()
        };
        let request = Show {
            host: &host,
            runtime: &runtime,
            all: false,
        };
        tally.take(&mut known, id, expected, &show(unit, request));
        units += 1;
    }
    println!("{skipped} units left out: their files are not in the corpus, or differ in it");
    report(&tally, units);
    assert!(units > 1200 && tally.compared > 200_000);
    assert!(tally.by_property.is_empty(), "properties differ");
    assert_eq!(known.unused(), [""; 0], "these do not differ any more");
}

fn report(tally: &Tally, units: usize) {
    let different: usize = tally.by_property.values().map(Vec::len).sum();
    println!(
        "{units} units, {} properties compared: {} equal, {} listed, {different} different",
        tally.compared, tally.equal, tally.listed
    );
    let mut properties: Vec<_> = tally.by_property.iter().collect();
    properties.sort_by_key(|(_, list)| std::cmp::Reverse(list.len()));
    for (name, list) in properties {
        println!("{} {name}", list.len());
        for line in list.iter().take(12) {
            let line: String = line.chars().take(400).collect();
            println!("    {line}");
        }
    }
}
