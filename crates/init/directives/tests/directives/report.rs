//! What came out, for people.

use std::collections::{BTreeMap, BTreeSet};

use crate::case::Case;
use crate::expectation::Observed;

/// Prints what is worth to be known, and fails if a unit ended otherwise than expected.
#[track_caller]
pub(crate) fn judge(
    place: &str,
    cases: &[Case],
    facts: &BTreeSet<String>,
    seen: &BTreeMap<String, Observed>,
) {
    let mut failures = Vec::new();
    let mut passed = 0;
    let nothing = Observed::default();
    for case in cases {
        if let Some(fact) = case.lacks(facts) {
            println!(
                "{place}: {}: not run: this machine has no {fact}",
                case.name
            );
            continue;
        }
        let (expected, missing) = case.expectation(facts);
        if let Some(fact) = missing {
            println!(
                "{place}: {}: {expected} is expected: this machine has no {fact}",
                case.name
            );
        }
        let observed = seen.get(&case.name).unwrap_or(&nothing);
        let difference = expected.differs_from(observed, case.has_outside());
        match (difference, &case.pending) {
            (None, None) => passed += 1,
            (None, Some(_)) => {
                passed += 1;
                println!(
                    "{place}: {}: passes, although it is marked as pending",
                    case.name
                );
            }
            (Some(difference), Some(reason)) => {
                println!("{place}: {}: pending: {reason} ({difference})", case.name);
            }
            (Some(difference), None) => {
                let mut row = format!(
                    "{:<48} {:<14} {difference}",
                    case.name,
                    expected.to_string()
                );
                for line in observed.lines() {
                    row.push_str("\n      | ");
                    row.push_str(line);
                }
                failures.push(row);
            }
        }
    }
    println!(
        "{place}: {passed} of {} units ended as expected",
        cases.len()
    );
    assert!(
        failures.is_empty(),
        "{place}: {} units ended otherwise\n{:<48} {:<14} seen\n{}",
        failures.len(),
        "unit",
        "expected",
        failures.join("\n")
    );
}
