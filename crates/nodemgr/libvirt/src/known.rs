//! Checksums of files of this host, made once for each state that a file is in.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::checksum::{Checksum, Kind};
use crate::download::{blocking, hash};

/// So many files are remembered. Those beyond are read again, and nothing else.
const MOST: usize = 64;

/// What changes with a file's content, whoever changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(it: &Metadata) -> Self {
        Self {
            file: (it.dev(), it.ino()),
            length: it.len(),
            modified: (it.mtime(), it.mtime_nsec()),
            changed: (it.ctime(), it.ctime_nsec()),
        }
    }
}

/// The checksums that are known. Images are large, and many machines are made of one.
#[derive(Debug, Default)]
pub(crate) struct KnownSums(Mutex<HashMap<(PathBuf, Kind), (Stamp, Checksum)>>);

impl KnownSums {
    /// The checksum of a file.
    pub(crate) async fn of(&self, path: &Path, kind: Kind) -> io::Result<Checksum> {
        let at = path.to_owned();
        let key = (at.clone(), kind);
        let (file, stamp) = blocking(move || {
            let file = File::open(at)?;
            let stamp = Stamp::of(&file.metadata()?);
            Ok((file, stamp))
        })
        .await?;
        if let Some((known, sum)) = self.all().get(&key)
            && *known == stamp
        {
            return Ok(sum.clone());
        }
        let (sum, after) = blocking(move || {
            let mut file = file;
            let (hasher, _) = hash(&mut file, kind.hasher())?;
            Ok((hasher.finish(), Stamp::of(&file.metadata()?)))
        })
        .await?;
        // What was written to meanwhile is neither the one nor the other.
        if stamp != after {
            return Err(io::Error::other("somebody writes to it"));
        }
        let mut all = self.all();
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key, (stamp, sum.clone()));
        Ok(sum)
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<(PathBuf, Kind), (Stamp, Checksum)>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::download::tests::checksum;

    #[tokio::test]
    async fn a_file_is_read_once_and_again_when_it_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::write(&path, "content").unwrap();
        let known = KnownSums::default();
        let kind = checksum(b"").kind();
        let sum = known.of(&path, kind).await.unwrap();
        assert_eq!(sum, checksum(b"content"));
        // What is remembered is told, while the file is the same.
        let lie = checksum(b"remembered");
        for (_, kept) in known.all().values_mut() {
            *kept = lie.clone();
        }
        assert_eq!(known.of(&path, kind).await.unwrap(), lie);
        let other = known.of(&path, Kind::Sha256).await.unwrap();
        assert_ne!(other.kind(), kind);
        std::fs::write(&path, "changed").unwrap();
        assert_eq!(known.of(&path, kind).await.unwrap(), checksum(b"changed"));
        std::fs::remove_file(&path).unwrap();
        assert!(known.of(&path, kind).await.is_err());
    }
}
