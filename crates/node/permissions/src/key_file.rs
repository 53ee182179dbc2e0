//! The file of the node's key.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::fault;
use crate::secret::{self, BYTES, NoRandomness, NodeKey};

/// Why there is no node key.
#[derive(Debug, thiserror::Error)]
pub enum OpenKeyError {
    /// The file cannot be read.
    #[error("cannot read the key of instances' secrets, {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("cannot make the key of instances' secrets, {}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others can read the key, so secrets may be known already.
    #[error(
        "{} can be read by others than its owner (mode {mode:04o}): secrets made with it may be known; \
         remove it, and instances get new ones, or make it 0600",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a key.
    #[error(
        "{} is not a key of {BYTES} bytes; remove it, and instances get new secrets", path.display()
    )]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
    /// The system gives no randomness for a new key.
    #[error("cannot draw a key for instances' secrets")]
    Randomness(#[source] NoRandomness),
}

/// Reads the key, or makes it where there is none.
pub(crate) fn open(path: &Path) -> Result<NodeKey, OpenKeyError> {
    match read(path)? {
        Some(key) => Ok(NodeKey::new(&key)),
        None => make(path),
    }
}

fn read(path: &Path) -> Result<Option<Zeroizing<[u8; BYTES]>>, OpenKeyError> {
    let failed = |source| OpenKeyError::Read {
        path: path.to_owned(),
        source,
    };
    let not_a_key = || OpenKeyError::NotAKey {
        path: path.to_owned(),
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
        return Err(not_a_key());
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(OpenKeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut key = Zeroizing::new([0; BYTES]);
    file.read_exact(key.as_mut_slice()).map_err(failed)?;
    Ok(Some(key))
}

fn make(path: &Path) -> Result<NodeKey, OpenKeyError> {
    let key = secret::random().map_err(OpenKeyError::Randomness)?;
    write(path, &key).map_err(|source| OpenKeyError::Make {
        path: path.to_owned(),
        source,
    })?;
    Ok(NodeKey::new(&key))
}

/// The key appears under its name complete, or not at all. Whoever has the store is the only one who
/// gets here, so the temporary name is free or left over.
fn write(path: &Path, key: &[u8; BYTES]) -> io::Result<()> {
    let mut new = OsString::from(path);
    new.push(".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(key)?;
    file.sync_all()?;
    muster_fault::hit(fault::KEY_WRITTEN);
    fs::rename(&new, path)?;
    muster_fault::hit(fault::KEY_NAMED);
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()?;
    muster_fault::hit(fault::KEY_DURABLE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("permissions.key");
        fs::write(folder.path().join("permissions.key.new"), "left over").unwrap();
        open(&path).unwrap();
        let first = fs::read(&path).unwrap();
        assert_eq!(first.len(), BYTES);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), first);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_private_key_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("permissions.key");
        fs::write(&path, [1; BYTES]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let exposed = open(&path).unwrap_err();
        assert!(
            matches!(exposed, OpenKeyError::Exposed { mode: 0o640, .. }),
            "{exposed}"
        );
        assert_eq!(fs::read(&path).unwrap(), [1; BYTES]);

        for content in [&b""[..], &[1; BYTES - 1], &[1; BYTES + 1]] {
            fs::write(&path, content).unwrap();
            assert!(matches!(open(&path), Err(OpenKeyError::NotAKey { .. })));
            assert_eq!(fs::read(&path).unwrap(), content);
        }

        let real = folder.path().join("real");
        fs::rename(&path, &real).unwrap();
        symlink(&real, &path).unwrap();
        assert!(
            matches!(open(&path), Err(OpenKeyError::Read { .. })),
            "a link"
        );
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(
            matches!(open(&path), Err(OpenKeyError::NotAKey { .. })),
            "a folder"
        );
        let nowhere = folder.path().join("no/such/folder/key");
        assert!(matches!(open(&nowhere), Err(OpenKeyError::Make { .. })));
    }
}
