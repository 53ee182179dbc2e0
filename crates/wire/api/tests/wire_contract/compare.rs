//! Compares two listings of an interface and reports every difference at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::table::{Key, Shape};

/// Fails with one line per missing, extra or differing entry.
pub(crate) fn compare(
    expected: &BTreeMap<Key, Shape>,
    found: &BTreeMap<Key, Shape>,
) -> Result<(), String> {
    let keys: BTreeSet<&Key> = expected.keys().chain(found.keys()).collect();
    let mut count = 0_usize;
    let mut lines = String::new();
    for key in keys {
        let line = match (expected.get(key), found.get(key)) {
            (Some(expected), None) => format!("missing: {key}: expected {expected}, found nothing"),
            (None, Some(found)) => format!("extra: {key}: expected nothing, found {found}"),
            (Some(expected), Some(found)) if expected != found => {
                format!("differs: {key}: expected {expected}, found {found}")
            }
            _ => continue,
        };
        count += 1;
        write!(lines, "\n{line}").expect("writing to a string cannot fail");
    }
    match count {
        0 => Ok(()),
        1 => Err(format!(
            "1 difference between the contracts and the table:{lines}"
        )),
        _ => Err(format!(
            "{count} differences between the contracts and the table:{lines}"
        )),
    }
}
