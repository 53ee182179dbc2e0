//! Writing an image layout.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use muster_api::domain::Digest;
use muster_item::{MediaType, Platform};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::BuildError;
use crate::folders::{DiskError, OnDisk};
use crate::hash::{Hasher, sha256};

/// Files of an archive are of no time.
const EPOCH: u64 = 0;

/// A layout that is being written.
#[derive(Debug)]
pub(super) struct LayoutWriter {
    folder: PathBuf,
    /// Where the archive goes, if it is to be one; the folder is then a temporary one.
    archive: Option<(PathBuf, tempfile::TempDir)>,
}

impl LayoutWriter {
    /// Begins a layout in a new or empty folder, or for a new archive.
    pub(super) fn create(output: &Path, as_archive: bool) -> Result<Self, BuildError> {
        let writer = match as_archive {
            false => Self {
                folder: output.to_owned(),
                archive: None,
            },
            true => {
                let beside = parent(output);
                let folder = tempfile::Builder::new()
                    .prefix(".muster-image-")
                    .tempdir_in(beside)
                    .on_disk("make a folder in", beside)
                    .map_err(BuildError::Disk)?;
                Self {
                    folder: folder.path().to_owned(),
                    archive: Some((output.to_owned(), folder)),
                }
            }
        };
        let is_taken = match as_archive {
            true => output.exists(),
            false => fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()),
        };
        if is_taken {
            return Err(BuildError::OutputInUse(output.to_owned()));
        }
        let blobs = writer.folder.join("blobs/sha256");
        fs::create_dir_all(&blobs)
            .on_disk("make", &blobs)
            .map_err(BuildError::Disk)?;
        let version = br#"{"imageLayoutVersion":"1.0.0"}"#;
        writer
            .write("oci-layout", version)
            .map_err(BuildError::Disk)?;
        Ok(writer)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DiskError> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).on_disk("write", &path)
    }

    pub(super) fn blob_path(&self, digest: &Digest) -> PathBuf {
        let folder = self.folder.join("blobs").join(digest.algorithm().as_str());
        folder.join(digest.to_hex())
    }

    /// Writes a document, and returns its descriptor.
    pub(super) fn document(&self, kind: &MediaType, value: &Value) -> Result<Value, DiskError> {
        self.bytes(kind, value.to_string().as_bytes())
    }

    /// Writes some bytes as a blob, and returns its descriptor.
    pub(super) fn bytes(&self, kind: &MediaType, bytes: &[u8]) -> Result<Value, DiskError> {
        let digest = sha256(bytes);
        let path = self.blob_path(&digest);
        fs::write(&path, bytes).on_disk("write", &path)?;
        Ok(descriptor(kind.name(), &digest, bytes.len() as u64))
    }

    /// A file to write a blob to whose digest is not known yet.
    pub(super) fn temporary(&self) -> Result<NamedTempFile, DiskError> {
        let folder = self.folder.join("blobs");
        NamedTempFile::new_in(&folder).on_disk("make a file in", &folder)
    }

    /// Gives such a file its name.
    pub(super) fn establish(&self, file: NamedTempFile, digest: &Digest) -> Result<(), DiskError> {
        let path = self.blob_path(digest);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).on_disk("make", folder)?;
        }
        // A temporary file is for its owner only; a layout is to be given away.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        fs::set_permissions(file.path(), readable).on_disk("make readable", &path)?;
        file.persist(&path)
            .map_err(|failed| failed.error)
            .on_disk("write", &path)
            .map(drop)
    }

    /// Copies a blob, and returns what it was.
    pub(super) fn copy(&self, from: &mut impl Read, like: &Digest) -> Result<Digest, DiskError> {
        let mut file = self.temporary()?;
        let mut hasher = Hasher::like(like);
        let mut buffer = vec![0; 64 << 10];
        let path = file.path().to_owned();
        loop {
            let length = from.read(&mut buffer).on_disk("read a blob for", &path)?;
            if length == 0 {
                break;
            }
            hasher.update(&buffer[..length]);
            file.write_all(&buffer[..length]).on_disk("write", &path)?;
        }
        let digest = hasher.finish();
        self.establish(file, &digest)?;
        Ok(digest)
    }

    /// Writes the index with its one image, and the archive if it is to be one.
    pub(super) fn finish(
        self,
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
        let index = index.to_string();
        self.write("index.json", index.as_bytes())
            .and_then(|()| match &self.archive {
                Some((output, _)) => archive(&self.folder, output),
                None => Ok(()),
            })
            .map_err(BuildError::Disk)
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

/// Packs a layout, in the order of names, and gives the archive its name when it is complete.
fn archive(folder: &Path, output: &Path) -> Result<(), DiskError> {
    let beside = parent(output);
    let file = NamedTempFile::new_in(beside).on_disk("make a file in", beside)?;
    let mut names = vec![PathBuf::from("index.json"), PathBuf::from("oci-layout")];
    for algorithm in ["sha256", "sha512"] {
        let blobs = Path::new("blobs").join(algorithm);
        let Ok(entries) = fs::read_dir(folder.join(&blobs)) else {
            continue;
        };
        for entry in entries {
            let entry = entry.on_disk("list", folder)?;
            names.push(blobs.join(entry.file_name()));
        }
    }
    names.sort();
    let pack = || -> io::Result<()> {
        let mut tar = tar::Builder::new(BufWriter::new(file.as_file()));
        for name in &names {
            let mut content = File::open(folder.join(name))?;
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Regular);
            header.set_mode(0o644);
            header.set_mtime(EPOCH);
            header.set_size(content.metadata()?.len());
            tar.append_data(&mut header, name, &mut content)?;
        }
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
