//! Writing an image layout.
//!
//! A layout is complete when it has its index, which comes last and in one step. What a try that failed or was interrupted left
//! is known by the folder [`COMING`] in it: the next one to the same place goes on with it, and believes of it what has the right
//! digest. An archive is put together in such a folder beside it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use muster_api::domain::Digest;
use muster_item::{MediaType, Platform};
use rustix::fs::FlockOperation;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::BuildError;
use crate::folders::{DiskError, OnDisk};
use crate::hash::{Hasher, sha256};

/// Files of an archive are of no time.
const EPOCH: u64 = 0;
const VERSION: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;
/// Files that are being written, below the layout's folder; it goes when the layout is complete.
const COMING: &str = ".muster-coming";
const ALGORITHMS: [&str; 2] = ["sha256", "sha512"];

/// What becomes of what is there when a layout is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// It costs nothing to make it anew. (A folder that somebody named stays, with what is in it.)
    Remove,
    /// The next try goes on with it.
    Keep,
}

/// A layout that is being written.
#[derive(Debug)]
pub(super) struct LayoutWriter {
    folder: PathBuf,
    /// Where the archive goes, if it is to be one; the folder is then our own, beside it.
    archive: Option<PathBuf>,
    unfinished: Unfinished,
    /// Blobs of this layout. What else is in the folder is of another try.
    blobs: Mutex<BTreeSet<PathBuf>>,
    /// Keeps others from writing to the same place.
    _lock: File,
}

impl LayoutWriter {
    /// Begins a layout in a new or empty folder, or for a new archive, or goes on with one that was not finished.
    pub(super) fn create(
        output: &Path,
        as_archive: bool,
        unfinished: Unfinished,
    ) -> Result<Self, BuildError> {
        let folder = match as_archive {
            false => output.to_owned(),
            true if output.symlink_metadata().is_ok() => {
                return Err(BuildError::OutputInUse(output.to_owned()));
            }
            true => parts_of(output),
        };
        if !is_free(&folder).map_err(BuildError::Disk)? {
            return Err(BuildError::OutputInUse(folder));
        }
        let make = |path: PathBuf| fs::create_dir_all(&path).on_disk("make", &path);
        make(folder.clone()).map_err(BuildError::Disk)?;
        let lock = File::open(&folder)
            .on_disk("open", &folder)
            .map_err(BuildError::Disk)?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(BuildError::OutputBusy(output.to_owned()));
        }
        // Whoever held the lock may have finished in between.
        if !is_free(&folder).map_err(BuildError::Disk)? {
            return Err(BuildError::OutputInUse(folder));
        }
        let writer = Self {
            folder,
            archive: as_archive.then(|| output.to_owned()),
            unfinished,
            blobs: Mutex::default(),
            _lock: lock,
        };
        let begin = || {
            // First of all: from now on the folder is known for what it is.
            make(writer.folder.join(COMING))?;
            make(writer.folder.join("blobs/sha256"))?;
            writer.write("oci-layout", VERSION)
        };
        begin().map_err(BuildError::Disk)?;
        Ok(writer)
    }

    /// What is not to be packed, wherever it is: the result, and what it is put together in.
    pub(super) fn own_paths(&self) -> Vec<PathBuf> {
        let folder = fs::canonicalize(&self.folder).ok();
        let archive = self.archive.as_deref().and_then(|archive| {
            let beside = fs::canonicalize(parent(archive)).ok()?;
            Some(beside.join(archive.file_name()?))
        });
        folder.into_iter().chain(archive).collect()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).on_disk("write", &path)
    }

    pub(super) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(blob_name(digest))
    }

    /// Writes a document, and returns its descriptor.
    pub(super) fn document(&self, kind: &MediaType, value: &Value) -> Result<Value, DiskError> {
        self.bytes(kind, value.to_string().as_bytes())
    }

    /// Writes some bytes as a blob, and returns its descriptor.
    pub(super) fn bytes(&self, kind: &MediaType, bytes: &[u8]) -> Result<Value, DiskError> {
        let digest = sha256(bytes);
        let mut file = self.temporary()?;
        let path = self.blob_path(&digest);
        file.write_all(bytes).on_disk("write", &path)?;
        self.establish(file, &digest)?;
        Ok(descriptor(kind.name(), &digest, bytes.len() as u64))
    }

    /// A file to write a blob to whose digest is not known yet.
    pub(super) fn temporary(&self) -> Result<NamedTempFile, DiskError> {
        let folder = self.folder.join(COMING);
        NamedTempFile::new_in(&folder).on_disk("make a file in", &folder)
    }

    /// Where a blob of this digest comes to, and where an earlier try left what it had of it.
    pub(super) fn coming(&self, digest: &Digest) -> PathBuf {
        let name = format!("{}-{}", digest.algorithm().as_str(), digest.to_hex());
        self.folder.join(COMING).join(name)
    }

    /// Gives a temporary file its name.
    pub(super) fn establish(&self, file: NamedTempFile, digest: &Digest) -> Result<(), DiskError> {
        // Gone from here on: the file has its name, or the error is about that.
        let path = file.into_temp_path();
        self.establish_path(&path, digest)?;
        let _ = path.keep();
        Ok(())
    }

    /// Gives a complete, verified file the name of its blob.
    pub(super) fn establish_path(&self, from: &Path, digest: &Digest) -> Result<(), DiskError> {
        let path = self.blob_path(digest);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).on_disk("make", folder)?;
        }
        // A temporary file is for its owner only; a layout is to be given away.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(from, readable).on_disk("make readable", &path)?;
        fs::rename(from, &path).on_disk("write", &path)?;
        self.note(digest);
        Ok(())
    }

    fn note(&self, digest: &Digest) {
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.insert(blob_name(digest));
    }

    /// The size of a blob that an earlier try has brought, if it is still what its name says.
    pub(super) fn found(&self, digest: &Digest) -> Option<u64> {
        let mut file = File::open(self.blob_path(digest)).ok()?;
        let mut hashing = Hashing::new(digest);
        let bytes = io::copy(&mut file, &mut hashing).ok()?;
        if hashing.0.finish() != *digest {
            return None;
        }
        self.note(digest);
        Some(bytes)
    }

    /// Copies a blob, and returns what it was.
    pub(super) fn copy(&self, from: &mut impl Read, like: &Digest) -> Result<Digest, DiskError> {
        let mut file = self.temporary()?;
        let mut hashing = Hashing::new(like);
        let mut buffer = vec![0; 64 << 10];
        let path = file.path().to_owned();
        loop {
            let length = from.read(&mut buffer).on_disk("read a blob for", &path)?;
            if length == 0 {
                break;
            }
            hashing.0.update(&buffer[..length]);
            file.write_all(&buffer[..length]).on_disk("write", &path)?;
        }
        let digest = hashing.0.finish();
        self.establish(file, &digest)?;
        Ok(digest)
    }

    /// Writes the index with its one image, and the archive if it is to be one.
    pub(super) fn finish(
        mut self,
        mut manifest: Value,
        platform: Option<&Platform>,
        name: Option<&str>,
    ) -> Result<(), BuildError> {
        if let Some(platform) = platform {
            manifest["platform"] = platform_value(platform);
        }
        if let Some(name) = name {
            manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        }
        let index = json!({
            "schemaVersion": 2,
            "mediaType": MediaType::Index.name(),
            "manifests": [manifest],
        });
        self.complete(index.to_string().as_bytes())
            .map_err(BuildError::Disk)
    }

    fn complete(&mut self, index: &[u8]) -> Result<(), DiskError> {
        if let Some(output) = &self.archive {
            self.pack(index, output)?;
            // Of no more use, whatever was to become of it before.
            self.unfinished = Unfinished::Remove;
            return Ok(());
        }
        self.remove_others()?;
        let coming = self.folder.join(COMING);
        let path = coming.join("index.json");
        fs::write(&path, index).on_disk("write", &path)?;
        let named = self.folder.join("index.json");
        fs::rename(&path, &named).on_disk("write", &named)?;
        fs::remove_dir_all(&coming).on_disk("remove", &coming)
    }

    /// What an earlier try brought, and this one has no use for, goes.
    fn remove_others(&self) -> Result<(), DiskError> {
        let blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        for algorithm in ALGORITHMS {
            let name = Path::new("blobs").join(algorithm);
            let Ok(entries) = fs::read_dir(self.folder.join(&name)) else {
                continue;
            };
            for entry in entries {
                let entry = entry.on_disk("list", &self.folder)?;
                if !blobs.contains(&name.join(entry.file_name())) {
                    let path = entry.path();
                    fs::remove_file(&path).on_disk("remove", &path)?;
                }
            }
        }
        Ok(())
    }

    /// Packs the layout, in the order of names, and gives the archive its name when it is complete.
    fn pack(&self, index: &[u8], output: &Path) -> Result<(), DiskError> {
        let file = self.temporary()?;
        let blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let pack = || -> io::Result<()> {
            let mut tar = tar::Builder::new(BufWriter::new(file.as_file()));
            // Sorted, and so are `blobs`, `index.json` and `oci-layout`.
            for name in &*blobs {
                let content = File::open(self.folder.join(name))?;
                let size = content.metadata()?.len();
                append(&mut tar, name, size, content)?;
            }
            append(&mut tar, "index.json".as_ref(), index.len() as u64, index)?;
            append(
                &mut tar,
                "oci-layout".as_ref(),
                VERSION.len() as u64,
                VERSION,
            )?;
            tar.into_inner()?.flush()
        };
        pack().on_disk("write", output)?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(file.path(), readable).on_disk("make readable", output)?;
        file.persist(output)
            .map_err(|failed| failed.error)
            .on_disk("write", output)
            .map(drop)
    }
}

impl Drop for LayoutWriter {
    fn drop(&mut self) {
        if self.archive.is_some() && self.unfinished == Unfinished::Remove {
            // What is left of it, the next try takes away.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The folder that an archive is put together in.
fn parts_of(archive: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(archive.file_name().unwrap_or_default());
    name.push(".parts");
    archive.with_file_name(name)
}

/// Whether a folder is new or empty, or has a layout that nobody finished.
fn is_free(folder: &Path) -> Result<bool, DiskError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
        entries => entries.on_disk("list", folder)?,
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        names.insert(entry.on_disk("list", folder)?.file_name());
    }
    let ours = ["blobs", COMING, "oci-layout"].map(OsString::from);
    let is_ours = |names: &BTreeSet<OsString>| {
        names.contains(OsStr::new(COMING)) && names.iter().all(|name| ours.contains(name))
    };
    Ok(names.is_empty() || is_ours(&names))
}

fn blob_name(digest: &Digest) -> PathBuf {
    let folder = Path::new("blobs").join(digest.algorithm().as_str());
    folder.join(digest.to_hex())
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    name: &Path,
    size: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(EPOCH);
    header.set_size(size);
    tar.append_data(&mut header, name, content)
}

/// Hashes what is written to it.
struct Hashing(Hasher);

impl Hashing {
    fn new(like: &Digest) -> Self {
        Self(Hasher::like(like))
    }
}

impl Write for Hashing {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.update(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Value {
    json!({ "mediaType": media_type, "digest": digest.to_string(), "size": size })
}

pub(super) fn platform_value(platform: &Platform) -> Value {
    let mut value = json!({ "os": platform.os, "architecture": platform.architecture });
    if let Some(variant) = &platform.variant {
        value["variant"] = variant.as_str().into();
    }
    value
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
