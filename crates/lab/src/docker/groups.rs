//! The control groups of an engine's containers, whichever version of control groups there is.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "muster-lab-docker-";

/// A group that an engine makes in every tree that it finds. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
}

impl Group {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        Self { name }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is now. Some trees have two names.
    pub(super) fn places(&self) -> BTreeSet<PathBuf> {
        let places = trees().into_iter().map(|tree| tree.join(&self.name));
        places.filter_map(|it| it.canonicalize().ok()).collect()
    }

    /// The groups in it.
    pub(super) fn below(&self) -> BTreeSet<PathBuf> {
        let places = self.places();
        places.iter().flat_map(|place| below(place)).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for place in self.places() {
            remove(&place);
        }
    }
}

/// The one tree, or every tree that there is in its place.
fn trees() -> Vec<PathBuf> {
    let mut trees = folders(Path::new(ROOT));
    trees.push(PathBuf::from(ROOT));
    trees
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.is_dir()).collect()
}

/// The deepest first.
fn below(group: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for inner in folders(group) {
        found.extend(below(&inner));
        found.push(inner);
    }
    found
}

/// A group that is not there any more is as good.
fn remove(group: &Path) {
    for inner in below(group) {
        let _ = fs::remove_dir(inner);
    }
    let _ = fs::remove_dir(group);
}

/// Removes what test processes left behind that were killed.
pub(super) fn sweep() {
    for group in trees().iter().flat_map(|tree| folders(tree)) {
        let name = group.file_name().unwrap_or_default().to_string_lossy();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|it| it.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&group);
        }
    }
}
