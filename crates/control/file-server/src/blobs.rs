//! Where blobs are.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use muster_api::domain::Digest;
use rustix::fs::{Mode, OFlags, ResolveFlags};

/// The folder of blobs cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the folder of blobs {}", path.display())]
pub struct OpenFolderError {
    /// The folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A store of blobs: `sha256/HEX` below a folder.
#[derive(Debug)]
pub struct BlobFolder {
    folder: OwnedFd,
}

/// A blob that can be read.
#[derive(Debug)]
pub struct Blob {
    /// Its content.
    pub file: File,
    /// How long it is.
    pub length: u64,
}

impl BlobFolder {
    /// Opens the folder that has `sha256` in it, usually called `blobs`.
    pub fn open(path: &Path) -> Result<Self, OpenFolderError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(folder) => Ok(Self { folder }),
            Err(error) => Err(OpenFolderError {
                path: path.to_owned(),
                source: error.into(),
            }),
        }
    }

    /// Opens a blob; `None` if it is not there.
    ///
    /// The name is made of a digest, and still the kernel is asked to stay below the folder and to follow no link: what
    /// somebody put into the store does not become a way out of it.
    pub(crate) fn blob(&self, digest: &Digest) -> io::Result<Option<Blob>> {
        let name = format!("{}/{}", digest.algorithm().as_str(), digest.to_hex());
        let opened = rustix::fs::openat2(
            &self.folder,
            name,
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        );
        let file = match opened {
            Ok(descriptor) => File::from(descriptor),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let facts = file.metadata()?;
        if !facts.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "it is not a regular file",
            ));
        }
        Ok(Some(Blob {
            length: facts.len(),
            file,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn digest(byte: u8) -> Digest {
        Digest::from_sha256([byte; 32])
    }

    #[test]
    fn only_regular_files_of_the_folder_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, "s").unwrap();
        let blobs = folder.path().join("blobs");
        fs::create_dir_all(blobs.join("sha256")).unwrap();
        let at = |byte| blobs.join("sha256").join(digest(byte).to_hex());
        fs::write(at(1), "content").unwrap();
        symlink(&secret, at(2)).unwrap();
        fs::create_dir(at(3)).unwrap();
        let store = BlobFolder::open(&blobs).unwrap();

        assert_eq!(store.blob(&digest(1)).unwrap().unwrap().length, 7);
        assert!(
            store.blob(&digest(2)).is_err(),
            "a link leads out of the store"
        );
        assert!(store.blob(&digest(3)).is_err(), "a folder is no blob");
        assert!(store.blob(&digest(4)).unwrap().is_none());
    }

    #[test]
    fn a_linked_algorithm_folder_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join(digest(1).to_hex()), "x").unwrap();
        let blobs = folder.path().join("blobs");
        fs::create_dir(&blobs).unwrap();
        symlink(&elsewhere, blobs.join("sha256")).unwrap();
        let store = BlobFolder::open(&blobs).unwrap();
        assert!(store.blob(&digest(1)).is_err());
    }
}
