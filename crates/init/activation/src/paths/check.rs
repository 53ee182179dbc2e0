//! Whether what a path unit waits for is so.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use muster_unit_file::config::PathKind;

use crate::glob;

/// Which file a path leads to.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(path: &str) -> Option<Identity> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Whether the condition of a kind that is a state, rather than a change, holds.
pub(super) fn condition_holds(kind: PathKind, path: &str) -> bool {
    match kind {
        PathKind::Exists => Path::new(path).exists(),
        PathKind::ExistsGlob => glob::anything_matches(Path::new("/"), path),
        PathKind::DirectoryNotEmpty => {
            fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
        }
        PathKind::Changed | PathKind::Modified => false,
    }
}
