//! Which drop-in files and dependency links a unit has.

use std::collections::BTreeMap;

use super::{SearchPath, UnitIndex};
use crate::fs::{FileKind, UnitFs};
use crate::name::UnitName;

/// The folders with a suffix that belong to a unit, in the order of their priority. Within one folder
/// of the search path the more specific name comes first; folders for a whole type come last.
pub(super) fn folders(
    index: &UnitIndex,
    path: &SearchPath,
    names: &[&UnitName],
    suffix: &str,
) -> Vec<String> {
    let roots: Vec<&str> = path.iter().collect();
    let mut found = Vec::new();
    let mut add = |list: &[String]| {
        let mut hits: Vec<(u16, usize)> = Vec::new();
        for (rank, name) in list.iter().enumerate() {
            hits.extend(index.folder(name).iter().map(|priority| (*priority, rank)));
        }
        hits.sort_unstable();
        for (priority, rank) in hits {
            let folder = format!("{}/{}", roots[usize::from(priority)], list[rank]);
            if !found.contains(&folder) {
                found.push(folder);
            }
        }
    };
    for name in names {
        add(&candidates(name, suffix));
    }
    if let Some(first) = names.first() {
        add(&[format!("{}{suffix}", first.unit_type())]);
    }
    found
}

/// `a-b@c.service.d`, `a-b@.service.d`, `a-.service.d`.
fn candidates(name: &UnitName, suffix: &str) -> Vec<String> {
    let mut list = vec![format!("{name}{suffix}")];
    if let Some(template) = name.template() {
        list.push(format!("{template}{suffix}"));
    }
    let mut prefix = name.prefix();
    // The last dash may be at the end already: that one does not shorten the name.
    while let Some(dash) = prefix.trim_end_matches('-').rfind('-') {
        prefix = &prefix[..=dash];
        list.push(format!("{prefix}.{}{suffix}", name.unit_type()));
    }
    list
}

/// The drop-in files in folders, by file name.
pub(super) fn files(fs: &impl UnitFs, folders: &[String]) -> Vec<String> {
    entries(fs, folders, |name| name.ends_with(".conf"))
}

/// The entries of `.wants/` and similar folders, by name.
pub(super) fn links(fs: &impl UnitFs, folders: &[String]) -> Vec<String> {
    entries(fs, folders, |_| true)
}

/// Of equal names the first folder's counts; if that one is a mask, none does.
fn entries(fs: &impl UnitFs, folders: &[String], wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for folder in folders {
        for (name, kind) in fs.list(folder).unwrap_or_default() {
            if kind != FileKind::Folder && !name.starts_with('.') && wanted(&name) {
                let path = format!("{folder}/{name}");
                by_name.entry(name).or_insert(path);
            }
        }
    }
    by_name
        .into_values()
        .filter(|path| !fs.stat(path).is_ok_and(|stat| stat.is_mask()))
        .collect()
}
