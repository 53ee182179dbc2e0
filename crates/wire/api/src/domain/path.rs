//! Paths that a peer names.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::error::{Excerpt, InvalidValue, Problem};

/// A path to an instance's files, as the controller names it: not empty, below 4096 bytes, no
/// control characters, and no `..`.
///
/// Peers write it with or without a leading `/`. Either way it is meant below a folder that the
/// node chooses, and [`DataPath::below`] is how it is used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataPath(Box<str>);

impl DataPath {
    const MAX_BYTES: usize = 4095;

    /// The path as it came.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path below `root`, also when it is written with a leading `/`.
    ///
    /// This is about names only; whoever opens it must still not follow symbolic links out of
    /// `root`.
    pub fn below(&self, root: &Path) -> PathBuf {
        let parts = Path::new(&*self.0).components();
        root.join(
            parts
                .filter(|part| matches!(part, Component::Normal(_)))
                .collect::<PathBuf>(),
        )
    }
}

impl FromStr for DataPath {
    type Err = InvalidValue;

    fn from_str(path: &str) -> Result<Self, InvalidValue> {
        let refuse = |problem| Err(InvalidValue::new("path", problem));
        if path.is_empty() {
            return refuse(Problem::Missing);
        }
        let value = Excerpt::new(path);
        if path.len() > Self::MAX_BYTES {
            return refuse(Problem::TooLong {
                value,
                length: path.len(),
                limit: Self::MAX_BYTES,
            });
        }
        if let Some(character) = path.chars().find(|c| c.is_control()) {
            return refuse(Problem::ForbiddenCharacter { value, character });
        }
        if path.split('/').any(|part| part == "..") {
            return refuse(Problem::Malformed {
                value,
                expected: "a path without \"..\"",
            });
        }
        Ok(Self(path.into()))
    }
}

impl fmt::Display for DataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_stays_below_its_root() {
        let root = Path::new("/var/storage");
        for path in ["a/b/0", "/a/b/0", "//a/./b//0/"] {
            let path: DataPath = path.parse().unwrap();
            assert_eq!(path.below(root), Path::new("/var/storage/a/b/0"));
        }
        for path in ["", "..", "a/../b", "/..", "a\0b", "a\nb", &"x".repeat(4096)] {
            assert!(path.parse::<DataPath>().is_err(), "accepted {path:?}");
        }
    }

    proptest! {
        #[test]
        fn no_accepted_path_leads_out(path in "[./a-b]{0,12}") {
            if let Ok(path) = path.parse::<DataPath>() {
                let full = path.below(Path::new("/root"));
                prop_assert!(full.starts_with("/root"));
                prop_assert!(full.components().all(|part| part != Component::ParentDir));
            }
        }
    }
}
