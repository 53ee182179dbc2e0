//! Where things are below the store's folder, and how they get there for good.
//!
//! ```text
//! blobs/<algorithm>/<hex>       whole, verified, flushed, recorded
//! layers/<algorithm>/<hex>/     whole, verified, flushed, recorded
//! partial/<algorithm>-<hex>     what has come of a blob so far
//! unpacking/<algorithm>-<hex>/  what has come of a layer so far
//! quarantine/<algorithm>-<hex>  found damaged
//! trash/<n>                     about to be removed
//! boot                          the boot that the quarantine is of
//! ```

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use muster_api::domain::{Digest, DigestAlgorithm};

/// A file or folder that could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct DiskError {
    /// What was being done, as a verb.
    pub operation: &'static str,
    /// To what.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// Names the operation that failed, and the path.
pub(crate) trait OnDisk<T> {
    fn on_disk(self, operation: &'static str, path: &Path) -> Result<T, DiskError>;
}

impl<T, E: Into<io::Error>> OnDisk<T> for Result<T, E> {
    fn on_disk(self, operation: &'static str, path: &Path) -> Result<T, DiskError> {
        self.map_err(|error| DiskError {
            operation,
            path: path.to_owned(),
            source: error.into(),
        })
    }
}

/// A flush that is left out, to show that a test notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "offered to tests only")
)]
pub enum Weakness {
    /// A blob's content.
    BlobContent,
    /// The name of a blob.
    BlobName,
    /// A layer's content.
    LayerContent,
    /// The name of a layer.
    LayerName,
}

/// The store's folder.
#[derive(Debug)]
pub(crate) struct Folders {
    root: PathBuf,
    weakness: Option<Weakness>,
    trash: AtomicU64,
}

const ALGORITHMS: [DigestAlgorithm; 2] = [DigestAlgorithm::Sha256, DigestAlgorithm::Sha512];

impl Folders {
    /// Makes what is missing. Only the owner may look inside: images may hold secrets, and nobody else may change them.
    pub(crate) fn create(root: &Path, weakness: Option<Weakness>) -> Result<Self, DiskError> {
        let folders = Self {
            root: root.to_owned(),
            weakness,
            trash: AtomicU64::new(0),
        };
        let named = ["partial", "unpacking", "quarantine", "trash"].map(|name| root.join(name));
        let blobs = ALGORITHMS.map(|algorithm| folders.blob_folder(algorithm));
        let layers = ALGORITHMS.map(|algorithm| folders.layer_folder(algorithm));
        for path in named.iter().chain(&blobs).chain(&layers) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .on_disk("make", path)?;
        }
        for name in ["blobs", "layers", "."] {
            sync_folder(&root.join(name))?;
        }
        if let Some(parent) = root
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            sync_folder(parent)?;
        }
        Ok(folders)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn blob_folder(&self, algorithm: DigestAlgorithm) -> PathBuf {
        self.root.join("blobs").join(algorithm.as_str())
    }

    fn layer_folder(&self, algorithm: DigestAlgorithm) -> PathBuf {
        self.root.join("layers").join(algorithm.as_str())
    }

    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        self.blob_folder(digest.algorithm()).join(digest.to_hex())
    }

    pub(crate) fn layer(&self, digest: &Digest) -> PathBuf {
        self.layer_folder(digest.algorithm()).join(digest.to_hex())
    }

    pub(crate) fn partial(&self, digest: &Digest) -> PathBuf {
        self.root.join("partial").join(flat_name(digest))
    }

    pub(crate) fn unpacking(&self, digest: &Digest) -> PathBuf {
        self.root.join("unpacking").join(flat_name(digest))
    }

    pub(crate) fn quarantine(&self, digest: &Digest) -> PathBuf {
        self.root.join("quarantine").join(flat_name(digest))
    }

    /// Digests of everything in `blobs`, with sizes.
    pub(crate) fn found_blobs(&self) -> Result<Vec<(Digest, u64)>, DiskError> {
        let mut found = Vec::new();
        for algorithm in ALGORITHMS {
            let folder = self.blob_folder(algorithm);
            for (name, size) in list(&folder)? {
                match format!("{}:{name}", algorithm.as_str()).parse() {
                    Ok(digest) => found.push((digest, size)),
                    Err(_) => self.discard(&folder.join(name))?,
                }
            }
        }
        Ok(found)
    }

    /// Digests of everything in `layers`.
    pub(crate) fn found_layers(&self) -> Result<Vec<Digest>, DiskError> {
        let mut found = Vec::new();
        for algorithm in ALGORITHMS {
            let folder = self.layer_folder(algorithm);
            for (name, _) in list(&folder)? {
                match format!("{}:{name}", algorithm.as_str()).parse() {
                    Ok(digest) => found.push(digest),
                    Err(_) => self.discard(&folder.join(name))?,
                }
            }
        }
        Ok(found)
    }

    /// Digests of everything in `partial` or `quarantine`, with sizes of files.
    pub(crate) fn found_flat(&self, folder: &str) -> Result<Vec<(Digest, u64)>, DiskError> {
        let folder = self.root.join(folder);
        let mut found = Vec::new();
        for (name, size) in list(&folder)? {
            match name.replacen('-', ":", 1).parse() {
                Ok(digest) => found.push((digest, size)),
                Err(_) => self.discard(&folder.join(name))?,
            }
        }
        Ok(found)
    }

    /// What a killed process was unpacking or removing goes.
    pub(crate) fn sweep(&self) -> Result<(), DiskError> {
        for folder in ["unpacking", "trash"] {
            let folder = self.root.join(folder);
            for (name, _) in list(&folder)? {
                remove(&folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Takes something away, whatever it is: first its name, in one step, then its content.
    pub(crate) fn discard(&self, path: &Path) -> Result<(), DiskError> {
        let number = self.trash.fetch_add(1, Ordering::Relaxed);
        let trash = self
            .root
            .join("trash")
            .join(format!("{}-{number}", std::process::id()));
        match fs::rename(path, &trash) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            moved => moved.on_disk("move to the trash", path)?,
        }
        muster_fault::hit(crate::fault::REMOVAL_MOVED);
        remove(&trash)
    }

    /// Gives a complete, verified file the name of its blob, for good.
    pub(crate) fn establish_blob(&self, digest: &Digest, file: &File) -> Result<(), DiskError> {
        let (from, to) = (self.partial(digest), self.blob(digest));
        muster_fault::hit(crate::fault::BLOB_WRITTEN);
        if self.weakness != Some(Weakness::BlobContent) {
            file.sync_all().on_disk("flush", &from)?;
        }
        muster_fault::hit(crate::fault::BLOB_FLUSHED);
        fs::rename(&from, &to).on_disk("give its name to", &to)?;
        muster_fault::hit(crate::fault::BLOB_NAMED);
        if self.weakness != Some(Weakness::BlobName) {
            sync_folder(&self.blob_folder(digest.algorithm()))?;
        }
        muster_fault::hit(crate::fault::BLOB_DURABLE);
        Ok(())
    }

    /// Gives a complete, verified and flushed tree the name of its layer, for good.
    pub(crate) fn establish_layer(&self, digest: &Digest) -> Result<(), DiskError> {
        let (from, to) = (self.unpacking(digest), self.layer(digest));
        muster_fault::hit(crate::fault::LAYER_UNPACKED);
        // A folder is renamed onto an empty one only; what a killed process left unrecorded gives way.
        self.discard(&to)?;
        fs::rename(&from, &to).on_disk("give its name to", &to)?;
        muster_fault::hit(crate::fault::LAYER_NAMED);
        if self.weakness != Some(Weakness::LayerName) {
            self.flush_layer_name(digest)?;
        }
        muster_fault::hit(crate::fault::LAYER_DURABLE);
        Ok(())
    }

    /// Makes a layer's name durable.
    pub(crate) fn flush_layer_name(&self, digest: &Digest) -> Result<(), DiskError> {
        sync_folder(&self.layer_folder(digest.algorithm()))
    }

    pub(crate) fn leaves_layers_unflushed(&self) -> bool {
        self.weakness == Some(Weakness::LayerContent)
    }

    /// What the file system has left for this user beyond what images leave to others.
    pub(crate) fn free(&self) -> Result<Free, DiskError> {
        Free::below(&self.root)
    }

    /// Bytes of that.
    pub(crate) fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(self.free()?.bytes)
    }
}

/// Left to others, so that a node that has too many images still has its databases and logs: this part of what there is, in bytes
/// and in files...
const LEFT_TO_OTHERS: u64 = 20;
/// ... and no more bytes than this.
const MOST_LEFT_TO_OTHERS: u64 = 256 << 20;

/// What images may still take of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Free {
    pub(crate) bytes: u64,
    /// Files and folders; as many as anybody likes where the file system does not count them.
    pub(crate) files: u64,
}

impl Free {
    /// Of the file system that a folder is on.
    pub(crate) fn below(folder: &Path) -> Result<Self, DiskError> {
        let stat = rustix::fs::statvfs(folder).on_disk("ask for the free space of", folder)?;
        Ok(Self::of(&stat))
    }

    fn of(stat: &rustix::fs::StatVfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let headroom = (bytes(stat.f_blocks) / LEFT_TO_OTHERS).min(MOST_LEFT_TO_OTHERS);
        Self {
            bytes: bytes(stat.f_bavail).saturating_sub(headroom),
            files: match stat.f_files {
                0 => u64::MAX,
                all => stat.f_favail.saturating_sub(all / LEFT_TO_OTHERS),
            },
        }
    }
}

fn flat_name(digest: &Digest) -> String {
    format!("{}-{}", digest.algorithm().as_str(), digest.to_hex())
}

/// Names in a folder, with sizes. A name that is no text is removed: nothing here has one.
fn list(folder: &Path) -> Result<Vec<(String, u64)>, DiskError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).on_disk("list", folder)? {
        let entry = entry.on_disk("list", folder)?;
        let size = entry.metadata().on_disk("look at", &entry.path())?.len();
        match entry.file_name().into_string() {
            Ok(name) => found.push((name, size)),
            Err(_) => remove(&entry.path())?,
        }
    }
    Ok(found)
}

fn remove(path: &Path) -> Result<(), DiskError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let parent = File::open(parent).on_disk("open", parent)?;
    muster_layer::remove_tree(parent.as_fd(), name.as_bytes())
        .map_err(io::Error::other)
        .on_disk("remove", path)
}

pub(crate) fn sync_folder(path: &Path) -> Result<(), DiskError> {
    #[cfg(test)]
    tests::FLUSHED.with_borrow_mut(|flushed| flushed.push(path.to_owned()));
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .on_disk("flush", path)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    thread_local! {
        /// Folders that were flushed. On ext4 a flush of any file or folder also makes all earlier names durable, so where
        /// another one follows, no power cut tells whether they were.
        pub(crate) static FLUSHED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    fn folders_below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.clone());
            folders_below(&path, found);
        }
    }

    #[test]
    fn every_folder_that_is_made_has_its_name_flushed() {
        let outside = tempfile::tempdir().unwrap();
        Folders::create(&outside.path().join("images"), None).unwrap();
        let flushed: BTreeSet<PathBuf> = FLUSHED
            .take()
            .iter()
            .map(|path| fs::canonicalize(path).unwrap())
            .collect();
        let mut made = Vec::new();
        folders_below(outside.path(), &mut made);
        assert!(made.len() > 8, "{made:?}");
        for folder in made {
            let parent = fs::canonicalize(folder.parent().unwrap()).unwrap();
            assert!(
                flushed.contains(&parent),
                "{} in {flushed:?}",
                folder.display()
            );
        }
    }
}
