//! The units, as they are written.
//!
//! ```text
//! === limit-nofile-both
//! @expect success
//! LimitNOFILE=100:200
//! --- check
//! is "$(ulimit -Sn)" 100
//! ```
//! A case begins with `===` and its name; the unit is `check-NAME.service`. Lines with `@` say what is expected:
//!
//! | line | meaning |
//! |---|---|
//! | `@expect success` | what it ends with (this, if nothing is said); see [`Expectation`] |
//! | `@without FACT EXPECTATION` | what it ends with where the machine lacks that |
//! | `@requires FACT` | it is not run where the machine lacks that (and that is printed) |
//! | `@unlike-systemd REASON` | systemd 252 is not asked, for this reason |
//! | `@pending REASON` | Muster does not do this yet: printed, and no failure |
//!
//! The lines up to the first `---` are the unit's, in `[Service]` unless they say otherwise, after `Type=oneshot` and a
//! standard output that the test reads. Then come, each at most once but for files:
//!
//! | part | meaning |
//! |---|---|
//! | `--- check` | what the unit executes, for `sh -eu`, after `prelude.sh` |
//! | `--- outside` | what is looked at once it has started, by a shell outside of it: `$ctl`, `$unit` |
//! | `--- unit NAME` | another unit file |
//! | `--- file PATH` | another file |

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::expectation::Expectation;

/// Where everything lies in a machine.
pub(crate) const FOLDER: &str = "/lab/directives";
/// Where a machine leaves what was seen.
pub(crate) const RESULTS: &str = "/out";
const PRELUDE: &str = include_str!("prelude.sh");

/// A unit that checks itself.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    expected: Expectation,
    without: Vec<(String, Expectation)>,
    pub(crate) requires: Vec<String>,
    pub(crate) unlike_systemd: Option<String>,
    pub(crate) pending: Option<String>,
    unit: String,
    check: Option<String>,
    outside: Option<String>,
    units: Vec<(String, String)>,
    files: Vec<(PathBuf, String)>,
}

impl Case {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            expected: Expectation::Success,
            without: Vec::new(),
            requires: Vec::new(),
            unlike_systemd: None,
            pending: None,
            unit: String::new(),
            check: None,
            outside: None,
            units: Vec::new(),
            files: Vec::new(),
        }
    }

    /// What it ends with where these facts hold, and the fact that is missing if that is the reason.
    pub(crate) fn expectation(&self, facts: &BTreeSet<String>) -> (&Expectation, Option<&str>) {
        let missing = self.without.iter().find(|(fact, _)| !facts.contains(fact));
        match missing {
            Some((fact, expected)) => (expected, Some(fact)),
            None => (&self.expected, None),
        }
    }

    /// The first fact that it cannot do without and that does not hold.
    pub(crate) fn lacks(&self, facts: &BTreeSet<String>) -> Option<&str> {
        let missing = self.requires.iter().find(|fact| !facts.contains(*fact));
        missing.map(String::as_str)
    }

    /// It is looked at from outside once it has started.
    pub(crate) fn has_outside(&self) -> bool {
        self.outside.is_some()
    }

    /// Names of all that its units say.
    pub(crate) fn directives(&self) -> Vec<String> {
        let texts = std::iter::once(&self.unit).chain(self.units.iter().map(|(_, text)| text));
        let lines = texts.flat_map(|text| text.lines());
        let names = lines.filter_map(|line| line.split_once('=').map(|(name, _)| name));
        names.map(str::to_owned).collect()
    }

    /// Unit files, by name.
    pub(crate) fn unit_files(&self) -> impl Iterator<Item = (String, String)> {
        let mut text = format!(
            "[Service]\nType=oneshot\nStandardOutput=append:{RESULTS}/seen/{}\nStandardError=inherit\n",
            self.name
        );
        if self.check.is_some() && !self.unit.contains("ExecStart=") {
            text.push_str(&format!(
                "ExecStart=/bin/sh -eu {FOLDER}/checks/{}\n",
                self.name
            ));
        }
        text.push_str(&self.unit);
        let own = (format!("check-{}.service", self.name), text);
        std::iter::once(own).chain(self.units.iter().cloned())
    }

    /// All other files that it needs in the machine.
    pub(crate) fn files(&self) -> impl Iterator<Item = (PathBuf, String)> {
        let script = |folder: &str, text: &String| {
            let path = Path::new(FOLDER).join(folder).join(&self.name);
            (path, format!("{PRELUDE}{text}"))
        };
        let check = self.check.iter().map(move |text| script("checks", text));
        let outside = self.outside.iter().map(move |text| script("outside", text));
        let files = self.files.iter().cloned();
        check.chain(outside).chain(files)
    }

    /// The line that the driver reads: the name, and other units that are to be stopped after it.
    pub(crate) fn line(&self) -> String {
        let mut line = self.name.clone();
        for (unit, _) in &self.units {
            line.push(' ');
            line.push_str(unit);
        }
        line
    }
}

/// Reads one file of cases.
pub(crate) fn read(topic: &str) -> Vec<Case> {
    let path = folder().join(format!("{topic}.units"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{topic}: {error}"));
    parse(topic, &text)
}

/// The names of all files of cases.
pub(crate) fn topics() -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap();
    let mut topics: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "units"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    topics.sort();
    topics
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/directives/cases")
}

/// Where the lines of a file go.
enum Part {
    Unit,
    Check,
    Outside,
    OtherUnit,
    File,
}

fn parse(topic: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut part = Part::Unit;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            cases.push(Case::new(name));
            part = Part::Unit;
            continue;
        }
        let Some(case) = cases.last_mut() else {
            let is_remark = line.is_empty() || line.starts_with('#');
            assert!(is_remark, "{topic}: {line:?} belongs to no case");
            continue;
        };
        if let Some(words) = line.strip_prefix('@') {
            case.attribute(words)
                .unwrap_or_else(|| panic!("{topic}: {}: {line:?} makes no sense", case.name));
            continue;
        }
        if let Some(words) = line.strip_prefix("--- ") {
            part = case
                .begin(words)
                .unwrap_or_else(|| panic!("{topic}: {}: {line:?}", case.name));
            continue;
        }
        case.add(&part, line);
    }
    cases
}

impl Case {
    fn attribute(&mut self, words: &str) -> Option<()> {
        let (word, rest) = words.split_once(' ')?;
        match word {
            "expect" => self.expected = Expectation::parse(rest)?,
            "without" => {
                let (fact, expected) = rest.split_once(' ')?;
                let expected = Expectation::parse(expected)?;
                self.without.push((fact.to_owned(), expected));
            }
            "requires" => self.requires.push(rest.to_owned()),
            "unlike-systemd" => self.unlike_systemd = Some(rest.to_owned()),
            "pending" => self.pending = Some(rest.to_owned()),
            _ => return None,
        }
        Some(())
    }

    fn begin(&mut self, words: &str) -> Option<Part> {
        let empty = String::new;
        Some(match words.split_once(' ') {
            None if words == "check" => {
                self.check = Some(empty());
                Part::Check
            }
            None if words == "outside" => {
                self.outside = Some(empty());
                Part::Outside
            }
            Some(("unit", name)) => {
                self.units.push((name.to_owned(), empty()));
                Part::OtherUnit
            }
            Some(("file", path)) => {
                self.files.push((PathBuf::from(path), empty()));
                Part::File
            }
            _ => return None,
        })
    }

    fn add(&mut self, part: &Part, line: &str) {
        let text = match part {
            Part::Unit => Some(&mut self.unit),
            Part::Check => self.check.as_mut(),
            Part::Outside => self.outside.as_mut(),
            Part::OtherUnit => self.units.last_mut().map(|(_, text)| text),
            Part::File => self.files.last_mut().map(|(_, text)| text),
        };
        if let Some(text) = text {
            text.push_str(line);
            text.push('\n');
        }
    }
}

#[test]
fn names_are_used_once_and_there_are_at_least_150_units() {
    let cases: Vec<Case> = topics().iter().flat_map(|topic| read(topic)).collect();
    let names: BTreeSet<&str> = cases.iter().map(|case| &*case.name).collect();
    assert_eq!(names.len(), cases.len(), "a name is used twice");
    assert!(names.len() >= 150, "{}", names.len());
}

#[test]
fn every_case_looks_at_something() {
    for case in topics().iter().flat_map(|topic| read(topic)) {
        let looks =
            case.check.is_some() || case.outside.is_some() || case.unit.contains("ExecStart=");
        assert!(looks, "{}", case.name);
    }
}
