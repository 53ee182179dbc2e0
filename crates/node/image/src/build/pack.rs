//! Packing a folder or a program as a layer: the same input gives the same bytes.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read, Write};
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
    /// It is run, whatever its permissions say here, and a link to it stands for it.
    is_program: bool,
}

/// Packs everything in a folder, but for what is being made of it.
pub(super) fn pack_folder(
    folder: &Path,
    format: LayerFormat,
    layout: &LayoutWriter,
) -> Result<PackedLayer, BuildError> {
    let mut entries = Vec::new();
    let own = layout.own_paths();
    let real = fs::canonicalize(folder)
        .on_disk("find", folder)
        .map_err(BuildError::Disk)?;
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
                is_program: false,
            };
            if own.contains(&real.join(&entry.name)) {
                continue;
            }
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
pub(super) fn pack_program(
    program: &Path,
    name: &Path,
    format: LayerFormat,
    layout: &LayoutWriter,
) -> Result<PackedLayer, BuildError> {
    let entry = Entry {
        name: name.to_owned(),
        path: program.to_owned(),
        is_program: true,
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
    let found = match entry.is_program {
        true => fs::metadata(path),
        false => fs::symlink_metadata(path),
    };
    let found = found.on_disk("look at", path).map_err(BuildError::Disk)?;
    let mut header = header(&found);
    if entry.is_program {
        header.set_mode(0o755);
    }
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
        let file = File::open(path).map(|file| Exactly::new(file, found.len()));
        file.and_then(|file| tar.append_data(&mut header, &entry.name, file))
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

/// So many bytes, no fewer and no more: an archive says first how long a file is, and what comes then must be that.
struct Exactly<R> {
    inner: R,
    left: u64,
}

impl<R> Exactly<R> {
    fn new(inner: R, bytes: u64) -> Self {
        Self { inner, left: bytes }
    }
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let changed = || io::Error::other("it changed its size while it was packed");
        if self.left == 0 {
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Err(changed()),
            };
        }
        let room = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let length = self.inner.read(&mut buffer[..room])?;
        if length == 0 && room > 0 {
            return Err(changed());
        }
        self.left -= length as u64;
        Ok(length)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_its_size_while_it_is_packed_fails() {
        let all = |content: &[u8], bytes| {
            let mut read = Vec::new();
            let result = Exactly::new(content, bytes).read_to_end(&mut read);
            result.map(|_| read).map_err(|error| error.to_string())
        };
        assert_eq!(all(b"abc", 3), Ok(b"abc".to_vec()));
        assert_eq!(all(b"", 0), Ok(Vec::new()));
        for bytes in [0, 2, 4, u64::MAX] {
            let error = all(b"abc", bytes).unwrap_err();
            assert_eq!(error, "it changed its size while it was packed");
        }
    }
}
