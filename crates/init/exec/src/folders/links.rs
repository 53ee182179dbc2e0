//! Where links lead, by their texts alone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::beneath::Place;
use super::{Folder, PRIVATE};

/// Where the link at a place leads; `path` is that place's own.
///
/// # Errors
/// [`Errno::INVAL`] if it is no link.
pub(super) fn target(place: &Place<'_>, path: &str) -> Result<PathBuf, Errno> {
    let text = rustix::fs::readlinkat(&place.around, place.name, Vec::new())?;
    let text = Path::new(OsStr::from_bytes(text.as_bytes()));
    let around = Path::new(path).parent().unwrap_or(Path::new("/"));
    Ok(simple(&around.join(text)))
}

/// Where a folder is or was, private or not.
pub(super) fn places_of(folder: &Folder) -> impl Iterator<Item = PathBuf> {
    let root = Path::new(&*folder.root);
    let public = folder
        .private
        .as_ref()
        .map_or(&folder.path, |private| &private.public);
    let public = Path::new(&**public).to_owned();
    let inner = public.strip_prefix(root).ok();
    let inner = inner.map(|name| root.join(PRIVATE).join(name));
    inner.into_iter().chain([public])
}

/// A path without `.` and `..`.
fn simple(path: &Path) -> PathBuf {
    let mut simple = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                simple.pop();
            }
            other => simple.push(other),
        }
    }
    simple
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_simplified_by_their_texts() {
        for (path, expected) in [
            ("/a/./b/../c", "/a/c"),
            ("/a/../../b", "/b"),
            ("/a", "/a"),
            ("/../", "/"),
        ] {
            assert_eq!(simple(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
