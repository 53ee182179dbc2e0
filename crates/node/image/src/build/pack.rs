//! Packing a folder or a program as a layer: the same input gives the same bytes.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use muster_api::domain::Digest;
use muster_item::{LayerFormat, MediaType};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::BuildError;
use super::writer::{LayoutWriter, descriptor};
use crate::folders::OnDisk;

/// A layer of a layout.
#[derive(Debug)]
pub(super) struct PackedLayer {
    pub(super) descriptor: Value,
    pub(super) digest: Digest,
    pub(super) diff_id: Digest,
}

/// Something to be packed.
#[derive(Debug)]
struct Entry {
    /// In the layer.
    name: PathBuf,
    /// On disk.
    path: PathBuf,
}

/// Packs everything in a folder.
pub(super) fn pack_folder(
    folder: &Path,
    format: LayerFormat,
    layout: &LayoutWriter,
) -> Result<PackedLayer, BuildError> {
    let mut entries = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let path = folder.join(&inner);
        for found in fs::read_dir(&path)
            .on_disk("list", &path)
            .map_err(BuildError::Disk)?
        {
            let found = found.on_disk("list", &path).map_err(BuildError::Disk)?;
            let entry = Entry {
                name: inner.join(found.file_name()),
                path: found.path(),
            };
            if found.file_name().as_bytes().starts_with(b".wh.") {
                let reason = "names that start with .wh. mean deletions in a layer";
                return Err(BuildError::Unpackable {
                    path: entry.path,
                    reason,
                });
            }
            if found.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.name.clone());
            }
            entries.push(entry);
        }
    }
    // By bytes, so that a folder stands before what is in it, on every machine in the same order.
    entries.sort_by(|a, b| {
        a.name
            .as_os_str()
            .as_bytes()
            .cmp(b.name.as_os_str().as_bytes())
    });
    pack(&entries, format, layout)
}

/// Packs one program as an executable file at `name`.
pub(super) fn pack_binary(
    program: &Path,
    name: &Path,
    format: LayerFormat,
    layout: &LayoutWriter,
) -> Result<PackedLayer, BuildError> {
    let entry = Entry {
        name: name.to_owned(),
        path: program.to_owned(),
    };
    pack(&[entry], format, layout)
}

fn pack(
    entries: &[Entry],
    format: LayerFormat,
    layout: &LayoutWriter,
) -> Result<PackedLayer, BuildError> {
    let file = layout.temporary().map_err(BuildError::Disk)?;
    let path = file.path().to_owned();
    let hashed = Hashed::new(BufWriter::new(file.as_file()));
    let failed = |error: io::Error| Err(error).on_disk("write", &path).map_err(BuildError::Disk);
    let encoder = match Encoder::new(format, hashed) {
        Ok(encoder) => encoder,
        Err(error) => return failed(error),
    };
    let mut tar = tar::Builder::new(Hashed::new(encoder));
    tar.mode(tar::HeaderMode::Deterministic);
    for entry in entries {
        append(&mut tar, entry)?;
    }
    let finish = || -> io::Result<(Digest, Digest, u64)> {
        let archive = tar.into_inner()?;
        let diff_id = Digest::from_sha256(archive.hasher.finalize().into());
        let mut packed = archive.inner.finish()?;
        packed.flush()?;
        let digest = Digest::from_sha256(packed.hasher.finalize().into());
        Ok((digest, diff_id, packed.bytes))
    };
    let (digest, diff_id, bytes) = match finish() {
        Ok(done) => done,
        Err(error) => return failed(error),
    };
    layout.establish(file, &digest).map_err(BuildError::Disk)?;
    Ok(PackedLayer {
        descriptor: descriptor(MediaType::Layer(format).name(), &digest, bytes),
        digest,
        diff_id,
    })
}

fn append(tar: &mut tar::Builder<impl Write>, entry: &Entry) -> Result<(), BuildError> {
    let path = &entry.path;
    let found = fs::symlink_metadata(path);
    let found = found.on_disk("look at", path).map_err(BuildError::Disk)?;
    let mut header = header(&found);
    let packed = if found.is_dir() {
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        tar.append_data(&mut header, &entry.name, io::empty())
    } else if found.is_symlink() {
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        fs::read_link(path).and_then(|to| tar.append_link(&mut header, &entry.name, to))
    } else if found.is_file() {
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(found.len());
        File::open(path).and_then(|file| tar.append_data(&mut header, &entry.name, file))
    } else {
        return Err(BuildError::Unpackable {
            path: path.clone(),
            reason: "it is neither a file, a folder nor a symbolic link",
        });
    };
    packed.on_disk("pack", path).map_err(BuildError::Disk)
}

/// Owned by root, of 1970, with the permissions that the file has.
fn header(found: &Metadata) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(found.permissions().mode() & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

/// Hashes and counts what is written through it.
struct Hashed<W> {
    inner: W,
    hasher: Sha256,
    bytes: u64,
}

impl<W> Hashed<W> {
    fn new(inner: W) -> Self {
        Self {
            inner,
            hasher: Sha256::new(),
            bytes: 0,
        }
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(buffer)?;
        self.hasher.update(&buffer[..length]);
        self.bytes += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

enum Encoder<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Encoder<W> {
    fn new(format: LayerFormat, inner: W) -> io::Result<Self> {
        Ok(match format {
            LayerFormat::Tar => Self::Plain(inner),
            // Without a name and of no time, which is this encoder's default.
            LayerFormat::TarGzip => Self::Gzip(GzEncoder::new(inner, Compression::default())),
            LayerFormat::TarZstd => Self::Zstd(zstd::Encoder::new(inner, 0)?),
        })
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(inner) => Ok(inner),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Encoder<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(inner) => inner.write(buffer),
            Self::Gzip(encoder) => encoder.write(buffer),
            Self::Zstd(encoder) => encoder.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(inner) => inner.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
