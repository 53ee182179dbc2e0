//! A secret of fixed length that is drawn once, kept in a file of its owner, and used for ever.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use zeroize::Zeroizing;

use crate::Step;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read the key file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("cannot make the key file {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read the key, so what it protects may be known already.
    #[error(
        "the key file {} can be read by others than its owner (mode {mode:04o}): what was made with it may be known; \
         remove it, and a new one is made, or make it 0600",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a key.
    #[error("{} is not a key of {bytes} bytes; remove it, and a new one is made", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// How long it should be.
        bytes: usize,
    },
    /// The system gives no randomness for a new key.
    #[error("cannot draw a new key for {}", path.display())]
    Randomness {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads the key, or makes it where there is none; `after` is called after each step of making it.
///
/// # Errors
/// A file that is no private key is refused and left alone.
pub fn open_or_make<const BYTES: usize>(
    path: &Path,
    after: impl FnMut(Step),
) -> Result<Zeroizing<[u8; BYTES]>, KeyFileError> {
    if let Some(key) = open(path)? {
        // Whoever made it may have died before its name was on the disk; from here on it is used.
        crate::sync_found(path).map_err(|source| KeyFileError::Make {
            path: path.to_owned(),
            source,
        })?;
        return Ok(key);
    }
    let key = draw().map_err(|source| KeyFileError::Randomness {
        path: path.to_owned(),
        source,
    })?;
    crate::write_in_steps(path, key.as_slice(), 0o600, after).map_err(|source| {
        KeyFileError::Make {
            path: path.to_owned(),
            source,
        }
    })?;
    Ok(key)
}

fn open<const BYTES: usize>(path: &Path) -> Result<Option<Zeroizing<[u8; BYTES]>>, KeyFileError> {
    let failed = |source| KeyFileError::Read {
        path: path.to_owned(),
        source,
    };
    // Neither a link that leads elsewhere nor a pipe that waits is followed.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("flags of the system's own width");
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.len() != BYTES as u64 {
        return Err(KeyFileError::NotAKey {
            path: path.to_owned(),
            bytes: BYTES,
        });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut key = Zeroizing::new([0; BYTES]);
    file.read_exact(key.as_mut_slice()).map_err(failed)?;
    Ok(Some(key))
}

/// From the kernel's generator, which waits until it is ready.
fn draw<const BYTES: usize>() -> io::Result<Zeroizing<[u8; BYTES]>> {
    let mut key = Zeroizing::new([0; BYTES]);
    let mut drawn = 0;
    while drawn < BYTES {
        match getrandom(&mut key[drawn..], GetRandomFlags::empty()) {
            Ok(more) => drawn += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const BYTES: usize = 32;

    fn key(path: &Path) -> Result<Zeroizing<[u8; BYTES]>, KeyFileError> {
        open_or_make(path, |_| {})
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        fs::write(folder.path().join("node.key.new"), "left over").unwrap();
        let made = key(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), *made);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(*key(&path).unwrap(), *made);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_ne!(*key(&folder.path().join("other.key")).unwrap(), *made);
    }

    #[test]
    fn what_is_no_private_key_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.key");
        fs::write(&path, [1; BYTES]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let exposed = key(&path).unwrap_err();
        assert!(
            matches!(exposed, KeyFileError::Exposed { mode: 0o640, .. }),
            "{exposed}"
        );
        assert_eq!(fs::read(&path).unwrap(), [1; BYTES]);

        for content in [&b""[..], &[1; BYTES - 1], &[1; BYTES + 1]] {
            fs::write(&path, content).unwrap();
            assert!(matches!(key(&path), Err(KeyFileError::NotAKey { .. })));
            assert_eq!(fs::read(&path).unwrap(), content);
        }

        let real = folder.path().join("real");
        fs::rename(&path, &real).unwrap();
        symlink(&real, &path).unwrap();
        assert!(
            matches!(key(&path), Err(KeyFileError::Read { .. })),
            "a link"
        );
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(
            matches!(key(&path), Err(KeyFileError::NotAKey { .. })),
            "a folder"
        );
        let nowhere = folder.path().join("no/such/folder/key");
        assert!(matches!(key(&nowhere), Err(KeyFileError::Make { .. })));
    }
}
