//! Where something is, and where a copy of it goes: as `cp -r` and `scp -r` have it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Where a path is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Here(PathBuf),
    There(String, PathBuf),
}

/// A path of a machine has a colon before its first slash.
pub(super) fn place(text: &str) -> Place {
    match text.split_once(':') {
        Some((machine, path)) if !machine.is_empty() && !machine.contains('/') => {
            let path = match path {
                "" => ".",
                path => path,
            };
            Place::There(machine.to_owned(), PathBuf::from(path))
        }
        _ => Place::Here(PathBuf::from(text)),
    }
}

/// What is at a path. Links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Folder,
    File,
    /// A device, pipe or socket.
    Special,
}

/// Why a copy cannot go where it should.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// A folder, or something with a slash after it, would have to be in the place of a file.
    NoFolder,
}

/// The name that a copy gets in a folder. Of `.`, `..` and `/` what they hold is meant.
fn name(source: &Path) -> Option<OsString> {
    let bytes = source.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/')? + 1;
    let start = bytes[..end].iter().rposition(|&byte| byte == b'/');
    let name = &bytes[start.map_or(0, |at| at + 1)..end];
    (!matches!(name, b"." | b"..")).then(|| OsStr::from_bytes(name).to_owned())
}

/// What becomes the copy. A folder that is there takes it in; otherwise it gets the name itself, but for a file whose target ends in
/// a slash: that folder is made.
pub(super) fn target(
    named: &Path,
    source_is_folder: bool,
    to: &Path,
    found: Found,
) -> Result<PathBuf, Misfit> {
    let slash = to.as_os_str().as_bytes().ends_with(b"/");
    let inside = || match name(named) {
        Some(name) => to.join(name),
        None => to.to_owned(),
    };
    match found {
        Found::Folder => Ok(inside()),
        Found::Nothing if slash && !source_is_folder => Ok(inside()),
        Found::Nothing => Ok(to.to_owned()),
        Found::File | Found::Special if slash || source_is_folder => Err(Misfit::NoFolder),
        Found::File | Found::Special => Ok(to.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_the_first_slash_names_a_machine() {
        let there = |machine: &str, path: &str| Place::There(machine.to_owned(), path.into());
        for (text, expected) in [
            ("m-1:/src", there("m-1", "/src")),
            ("dev:notes", there("dev", "notes")),
            ("dev:", there("dev", ".")),
            ("./a:b", Place::Here("./a:b".into())),
            ("/a:b", Place::Here("/a:b".into())),
            ("folder", Place::Here("folder".into())),
            (":x", Place::Here(":x".into())),
        ] {
            assert_eq!(place(text), expected, "{text}");
        }
    }

    #[test]
    fn a_copy_goes_where_cp_would_put_it() {
        let (file, folder) = (false, true);
        for (from, is_folder, to, found, expected) in [
            ("a/f", file, "/t", Found::Folder, "/t/f"),
            ("a/f", file, "/t/", Found::Folder, "/t/f"),
            ("f", file, ".", Found::Folder, "./f"),
            ("f", file, "/t", Found::Nothing, "/t"),
            ("f", file, "/t/", Found::Nothing, "/t/f"),
            ("f", file, "/t", Found::File, "/t"),
            ("a/d", folder, "/t", Found::Folder, "/t/d"),
            ("a/d/", folder, "/t", Found::Folder, "/t/d"),
            ("a/d", folder, "/t", Found::Nothing, "/t"),
            ("a/d", folder, "/t/", Found::Nothing, "/t/"),
            // What they hold.
            (".", folder, "/t", Found::Folder, "/t"),
            ("a/d/.", folder, "/t", Found::Folder, "/t"),
            ("..", folder, "/t", Found::Folder, "/t"),
            ("/", folder, "/t", Found::Folder, "/t"),
        ] {
            let target = target(Path::new(from), is_folder, Path::new(to), found);
            assert_eq!(target, Ok(PathBuf::from(expected)), "{from} to {to}");
        }
        for (is_folder, to) in [(folder, "/t"), (file, "/t/")] {
            let target = target(Path::new("x"), is_folder, Path::new(to), Found::File);
            assert_eq!(target, Err(Misfit::NoFolder), "{to}");
        }
    }
}
