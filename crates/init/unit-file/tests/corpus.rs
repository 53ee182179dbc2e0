//! The files that Debian packages ship, and what systemd 252 says about them. The corpus stands
//! beside the checkout; on a machine without it each test says so and passes, and the fixtures of
//! the unit tests keep the same checks alive.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use muster_unit_file::calendar::CalendarSpec;
use muster_unit_file::config::{DependencyKind, LoadState};
use muster_unit_file::diagnostic::Problem;
use muster_unit_file::fs::MemoryFs;
use muster_unit_file::load::{Loader, SearchPath};
use muster_unit_file::name::UnitName;
use muster_unit_file::specifier::HostFacts;

/// Units that the oracle took from other packages than those in the corpus.
const OTHER_PACKAGES: &[&str] = &[
    "bird.service",
    "netscript.service",
    "networking.service",
    "open-vm-tools.service",
];

const MACHINE_ID: &str = "00000000000000000000000000000000";
const FOLDER: &str = "/usr/local/lib/systemd/system";

fn corpus_file(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../../../shared/corpus")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: the corpus file {name} is not on this machine");
    None
}

/// All unit files in one folder, as the oracle saw them, and the names that several packages have.
fn corpus() -> Option<(MemoryFs, BTreeSet<String>)> {
    let file = std::fs::File::open(corpus_file("debian-units.tar.gz")?).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let mut fs = MemoryFs::new();
    let mut contents: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut ambiguous = BTreeSet::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        // The oracle was given what packages ship, not what they put into /etc.
        let Some((folder, rest)) = path.split_once("/systemd/system/") else {
            continue;
        };
        if folder.ends_with("/etc") {
            continue;
        }
        let path = format!("{FOLDER}/{rest}");
        if let Some(target) = entry.link_name().unwrap() {
            let target = target.to_str().unwrap();
            let target = target
                .rsplit_once("systemd/system/")
                .map_or(target, |(_, name)| name);
            let up = if rest.contains('/') && !target.contains('/') {
                "../"
            } else {
                ""
            };
            fs.link(&path, &format!("{up}{target}"));
        } else if entry.header().entry_type().is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            if contents.get(&path).is_some_and(|known| *known != content) {
                ambiguous.insert(rest.to_owned());
            }
            fs.write(&path, content.clone());
            contents.insert(path, content);
        }
    }
    Some((fs, ambiguous))
}

fn loader(fs: MemoryFs) -> Loader<MemoryFs> {
    let host = HostFacts {
        hostname: Some("vm".into()),
        boot_id: Some("0".repeat(32).into()),
        machine_id: Some(MACHINE_ID.into()),
        kernel_release: Some("6.1".into()),
        architecture: Some("x86-64".into()),
        ..HostFacts::default()
    };
    Loader::new(fs, SearchPath::new([FOLDER]), host)
}

fn instantiated(name: &UnitName) -> UnitName {
    if name.is_template() {
        name.with_instance("inst").unwrap()
    } else {
        name.clone()
    }
}

#[test]
fn every_file_loads_and_every_directive_is_known() {
    let Some((fs, _)) = corpus() else { return };
    let mut loader = loader(fs);
    let names: Vec<UnitName> = loader.index().names().cloned().collect();
    let mut problems: BTreeMap<Problem, usize> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for name in &names {
        let loaded = loader.load(&instantiated(name));
        for diagnostic in &loaded.diagnostics {
            *problems.entry(diagnostic.problem).or_default() += 1;
            if diagnostic.problem == Problem::UnknownDirective {
                unknown.insert(diagnostic.to_string());
            }
        }
    }
    println!("{} units, diagnostics by kind: {problems:?}", names.len());
    println!("unknown directives: {unknown:#?}");
    assert!(names.len() > 1200, "only {} units", names.len());
    // What is left are typing mistakes of the packages and directives newer than systemd 252.
    assert!(unknown.len() < 40, "{unknown:#?}");
}

#[test]
fn settings_are_what_systemd_says_they_are() {
    let Some((fs, ambiguous)) = corpus() else {
        return;
    };
    let Some(path) = corpus_file("systemd252-show.txt.gz") else {
        return;
    };
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    let mut loader = loader(fs);
    let (mut compared, mut units) = (0, 0);
    let mut differences = Vec::new();
    for block in text.split("\n\n") {
        let mut expected: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (key, value) in block.lines().filter_map(|line| line.split_once('=')) {
            expected.entry(key).or_default().push(value);
        }
        let Some(fragment) = expected.get("FragmentPath").map(|v| v[0]) else {
            continue;
        };
        let file = fragment.rsplit('/').next().unwrap();
        let id = UnitName::new(expected["Id"][0]).unwrap();
        // Some blocks of the oracle were cut short.
        let torn = fragment.ends_with(".service") && !expected.contains_key("Restart")
            || fragment.ends_with(".mount") && !expected.contains_key("What");
        if ambiguous.contains(file)
            || torn
            || OTHER_PACKAGES.contains(&file)
            || !loader.index().contains(&id)
        {
            continue;
        }
        let unit = loader.load(&id).config;
        units += 1;
        let state = expected["LoadState"][0];
        if unit.load_state.as_str() != state {
            differences.push(format!(
                "{id} LoadState: {} instead of {state}",
                unit.load_state.as_str()
            ));
            continue;
        }
        if unit.load_state != LoadState::Loaded {
            continue;
        }
        for (key, values) in show::properties(&unit) {
            let wanted = expected.get(key).cloned().unwrap_or_default().join("\n");
            compared += 1;
            // The machine id is the oracle's own.
            if values != wanted && !values.contains(MACHINE_ID) {
                differences.push(format!("{id} {key}: {values:?} instead of {wanted:?}"));
            }
        }
        for kind in [
            DependencyKind::Requires,
            DependencyKind::Wants,
            DependencyKind::After,
            DependencyKind::Conflicts,
        ] {
            let all: BTreeSet<&str> = expected
                .get(kind.as_str())
                .into_iter()
                .flatten()
                .flat_map(|v| v.split(' '))
                .collect();
            // systemd resolves aliases and forgets units that do not exist only for some kinds.
            for stated in unit
                .dependencies(kind)
                .filter(|name| loader.index().alias_of(name).is_none())
            {
                compared += 1;
                if !all.contains(stated.as_str()) && *stated != unit.name {
                    differences.push(format!("{id} {kind}: {stated} is missing in {all:?}"));
                }
            }
        }
    }
    println!(
        "{units} units, {compared} values compared, {} differ",
        differences.len()
    );
    for difference in differences.iter().take(60) {
        println!("{difference}");
    }
    assert!(
        units > 1200 && compared > 100_000,
        "{units} units, {compared} values"
    );
    assert!(
        differences.is_empty(),
        "{} of {compared} values differ",
        differences.len()
    );
}

#[test]
fn every_calendar_expression_has_systemds_normal_form_and_elapses() {
    let Some(path) = corpus_file("systemd252-calendar.txt") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let mut checked = 0;
    for block in text.split("### ").filter(|block| !block.trim().is_empty()) {
        let mut lines = block.lines();
        let expression = lines.next().unwrap();
        let spec = CalendarSpec::parse(expression).unwrap();
        let mut at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for line in lines {
            let (label, value) = line.trim().split_once(": ").unwrap();
            if label == "Normalized form" {
                assert_eq!(spec.to_string(), value, "{expression}");
            } else if label == "Next elapse" || label.starts_with("Iter.") {
                let next = spec.next_elapse(at, &TimeZone::UTC);
                let shown = next.map_or_else(
                    || "never".to_owned(),
                    |next| muster_unit_file::timestamp::format_timestamp(next, &TimeZone::UTC),
                );
                assert_eq!(shown, value, "{expression}");
                at = next.unwrap_or(at);
            } else {
                assert_eq!(label, "Original form", "{expression}");
            }
            checked += 1;
        }
    }
    assert!(checked > 400, "only {checked} lines were found");
}
