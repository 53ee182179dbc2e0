//! Files that appear whole or not at all, and are on disk when the call returns.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_durable::{Step, write_in_steps};
use zeroize::Zeroizing;

use crate::faults;

/// Far above any key, certificate chain or list of a real system; it bounds what a wrong file name costs.
const MAX_FILE_LEN: u64 = 64 * 1024 * 1024;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, 0644.
    Public,
    /// The owner only, 0600.
    Secret,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Public => 0o644,
            Self::Secret => 0o600,
        }
    }
}

/// Why a file cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Writing failed; the old content, if any, is still there.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A key is not only its owner's.
    #[error("{} can be read by others (mode {mode:03o}); if it is still secret, chmod 600 it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

impl FileError {
    /// Whether the file, or a folder on the way to it, does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        match self {
            Self::Write { source, .. } | Self::Read { source, .. } => {
                source.kind() == io::ErrorKind::NotFound
            }
            Self::Exposed { .. } => false,
        }
    }
}

/// Replaces a file, or makes it: under a temporary name beside it, flushed, renamed, folder flushed.
pub fn write(path: &Path, content: &[u8], access: Access) -> Result<(), FileError> {
    let written = write_in_steps(path, content, access.mode(), |step| {
        if step == Step::Written {
            muster_fault::hit(faults::BEFORE_RENAME);
        }
    });
    written.map_err(|source| FileError::Write {
        path: path.to_owned(),
        source,
    })
}

/// Reads a public text file.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let read = || {
        let mut text = String::new();
        let file = File::open(path)?;
        if file.take(MAX_FILE_LEN + 1).read_to_string(&mut text)? as u64 > MAX_FILE_LEN {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(text)
    };
    read().map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads a secret text file, and refuses one that others can read. The text is wiped when it is dropped.
pub fn read_secret(path: &Path) -> Result<Zeroizing<String>, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(FileError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    // Room for everything at once, so that no copy is left behind by a growing buffer.
    let len = usize::try_from(meta.len().min(MAX_FILE_LEN)).unwrap_or(0);
    let mut text = Zeroizing::new(String::with_capacity(len + 1));
    file.take(MAX_FILE_LEN)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the file").permissions().mode() & 0o777
    }

    #[test]
    fn files_have_their_mode_whatever_stood_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        fs::write(&path, "old").expect("an open file");
        write(&path, b"new", Access::Secret).expect("replaced");
        assert_eq!(
            (mode(&path), fs::read_to_string(&path).expect("text")),
            (0o600, "new".to_owned())
        );
        write(&path, b"all", Access::Public).expect("replaced");
        assert_eq!(mode(&path), 0o644);
    }

    #[test]
    fn leftovers_do_not_stand_in_the_way_and_none_are_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cert");
        fs::write(folder.path().join("cert.new"), "half").expect("a leftover");
        write(&path, b"whole", Access::Public).expect("written");
        let names: Vec<_> = fs::read_dir(folder.path())
            .expect("folder")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        assert_eq!(names, ["cert"]);
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine").expect("a file");
        let path = folder.path().join("key");
        std::os::unix::fs::symlink(&victim, &path).expect("a link");
        write(&path, b"secret", Access::Secret).expect("written");
        assert_eq!(fs::read_to_string(victim).expect("text"), "mine");
    }

    #[test]
    fn a_failure_says_which_file_and_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("none").join("cert");
        let error = write(&path, b"x", Access::Public).expect_err("no such folder");
        assert!(error.is_not_found());
        assert_eq!(
            error.to_string(),
            format!("cannot write {}", path.display())
        );
        assert!(write(Path::new("/"), b"x", Access::Public).is_err());
    }

    #[test]
    fn exposed_keys_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        write(&path, b"secret", Access::Public).expect("written");
        assert!(matches!(
            read_secret(&path),
            Err(FileError::Exposed { mode: 0o644, .. })
        ));
        write(&path, b"secret", Access::Secret).expect("written");
        assert_eq!(read_secret(&path).expect("secret").as_str(), "secret");
    }
}
