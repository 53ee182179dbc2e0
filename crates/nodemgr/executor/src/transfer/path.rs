//! A path below a folder that cannot lead out of it.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The longest path, as the kernel has it.
const MOST_BYTES: usize = 4096;

/// The longest name of one file.
const MOST_NAME: usize = 255;

/// A path of proper names below a folder: not absolute, without `.` and `..`, without empty names. The empty path is the
/// folder itself. A folder sorts before what it holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelPath(Vec<u8>);

/// A path or name that could lead anywhere, or is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a proper name of a file")]
pub struct InvalidPath(pub String);

fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MOST_NAME
        && name != b"."
        && name != b".."
        && !name.contains(&b'/')
        && !name.contains(&0)
}

impl RelPath {
    /// The folder itself.
    #[must_use]
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// A path of names with slashes between them.
    ///
    /// # Errors
    /// When a name is none, or it is too long.
    pub fn new(path: impl AsRef<[u8]>) -> Result<Self, InvalidPath> {
        let path = path.as_ref();
        if path.is_empty() {
            return Ok(Self::root());
        }
        if path.len() > MOST_BYTES || !path.split(|&byte| byte == b'/').all(is_name) {
            return Err(InvalidPath(String::from_utf8_lossy(path).into_owned()));
        }
        Ok(Self(path.to_vec()))
    }

    /// Something in this folder.
    ///
    /// # Errors
    /// When the name is none, such as `..`, or the path would be too long.
    pub fn child(&self, name: &[u8]) -> Result<Self, InvalidPath> {
        let separator = usize::from(!self.is_root());
        if !is_name(name) || self.0.len() + separator + name.len() > MOST_BYTES {
            return Err(InvalidPath(String::from_utf8_lossy(name).into_owned()));
        }
        let mut path = self.0.clone();
        if !self.is_root() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(Self(path))
    }

    /// Whether it is the folder itself.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its names and the slashes between them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As the standard library has it.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The folder that it is in, and its name there; nothing for the folder itself.
    #[must_use]
    pub fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (Self(self.0[..at].to_vec()), &self.0[at + 1..]),
            None => (Self::root(), &self.0),
        })
    }

    /// How many names it has.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self.is_root() {
            true => 0,
            false => 1 + self.0.iter().filter(|&&byte| byte == b'/').count(),
        }
    }

    /// Whether it is below that folder.
    #[must_use]
    pub fn is_below(&self, folder: &Self) -> bool {
        if folder.is_root() {
            return !self.is_root();
        }
        let rest = self.0.strip_prefix(folder.0.as_slice());
        rest.is_some_and(|rest| rest.first() == Some(&b'/'))
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_root() {
            true => f.write_str("."),
            false => write!(f, "{}", String::from_utf8_lossy(&self.0).escape_debug()),
        }
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for wrong in ["/", "/etc", "..", ".", "a/..", "a//b", "a/", "./a", "a\0b"] {
            assert!(RelPath::new(wrong).is_err(), "{wrong:?}");
        }
        let folder = RelPath::new("a").unwrap();
        for wrong in ["", ".", "..", "b/c", "/", "b\0"] {
            assert!(folder.child(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(RelPath::new(vec![b'a'; 256]).is_err());
        assert!(RelPath::new("a/".repeat(3000) + "a").is_err());
    }

    #[test]
    fn a_folder_sorts_before_what_it_holds() {
        let paths = ["a", "a/b", "a/b/c", "a/d", "a b", "b"].map(|it| RelPath::new(it).unwrap());
        for below in &paths {
            for folder in &paths {
                assert!(
                    !below.is_below(folder) || folder < below,
                    "{folder} {below}"
                );
            }
        }
        assert!(paths[2].is_below(&paths[0]) && !paths[4].is_below(&paths[0]));
        assert_eq!(paths[2].split(), Some((paths[1].clone(), b"c".as_slice())));
    }
}
