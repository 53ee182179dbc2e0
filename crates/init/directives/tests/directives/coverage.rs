//! That nothing is left out: every directive has a case, and every case runs somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use muster_unit_file::directives::{Status, lookup, table};

use crate::case::{self, Case};
use crate::{escapes, guest, host, kernel};

/// Sections whose units start processes: what stands in all of them is about processes, and about what they may use.
const SECTIONS: [&str; 4] = ["Service", "Socket", "Mount", "Swap"];

/// Directives that are shown by another test, with its file and its name: each needs what no unit can make for itself.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    // Programs that somebody else has loaded into the kernel.
    (
        "IPIngressFilterPath",
        "core/src/resources/tests.rs",
        "programs_of_others_are_asked_for_by_their_files",
    ),
    (
        "IPEgressFilterPath",
        "core/tests/machine/programs.rs",
        "programs_of_others_hold_as_long_as_the_unit_whichever_manager_there_is",
    ),
    (
        "BPFProgram",
        "core/tests/machine/programs.rs",
        "programs_of_others_hold_as_long_as_the_unit_whichever_manager_there_is",
    ),
];

/// Directives of processes, but for those that systemd itself gives no meaning any more.
fn directives() -> BTreeSet<&'static str> {
    let names = table().map(|(_, row)| row.name);
    let stands_everywhere = |name: &&str| {
        let mut rows = SECTIONS.iter().map(|section| lookup(section, name));
        rows.all(|row| row.is_some_and(|row| !matches!(row.status, Status::Obsolete(_))))
    };
    names.filter(stands_everywhere).collect()
}

fn cases() -> Vec<Case> {
    let topics = case::topics();
    topics.iter().flat_map(|topic| case::read(topic)).collect()
}

#[test]
fn every_directive_has_a_case() {
    let mut cases = cases();
    cases.extend(escapes::all());
    let used: BTreeSet<String> = cases.iter().flat_map(Case::directives).collect();
    let directives = directives();
    assert!(directives.len() > 180, "{}", directives.len());
    let elsewhere: BTreeSet<&str> = ELSEWHERE.iter().map(|(name, ..)| *name).collect();
    let missing: Vec<&str> = directives
        .iter()
        .copied()
        .filter(|name| !used.contains(*name) && !elsewhere.contains(name))
        .collect();
    assert_eq!(missing, [""; 0], "no case has these");
    for (name, file, test) in ELSEWHERE {
        assert!(directives.contains(name), "there is no {name}=");
        assert!(!used.contains(*name), "{name}= has a case");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(path).unwrap();
        let has_test = text.contains(&format!("#[test]\nfn {test}()"));
        assert!(has_test && text.contains(name), "{name}= in {file}");
    }
}

/// A case that no place has what it needs for would say nothing, for ever.
#[test]
fn every_case_runs_somewhere() {
    let mut homeless = Vec::new();
    for case in cases().into_iter().chain(escapes::all()) {
        let runs_where = |facts: &[&str]| {
            let mut requires = case.requires.iter();
            requires.all(|fact| facts.contains(&&**fact))
        };
        let runs = runs_where(guest::FACTS) || runs_where(host::FACTS) || kernel::runs(&case.name);
        if !runs {
            homeless.push(format!("{}: {:?}", case.name, case.requires));
        }
    }
    assert_eq!(homeless, [""; 0], "these run nowhere");
}
