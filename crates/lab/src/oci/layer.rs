//! Layers: tar archives, made the same way every time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use tar::{EntryType, Header};

use super::{Blob, BlobDigest, media_type};

/// How a layer's archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// With gzip.
    Gzip,
    /// With zstd.
    Zstd,
}

/// One layer of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub(super) blob: Blob,
    pub(super) diff_id: BlobDigest,
}

impl Layer {
    /// A layer of everything in a folder: its files, folders and symbolic links, owned by root.
    pub fn from_folder(folder: &Path, compression: Compression) -> io::Result<Self> {
        let mut builder = LayerBuilder::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(inner) = folders.pop() {
            for entry in fs::read_dir(folder.join(&inner))? {
                let entry = entry?;
                let (path, name) = (entry.path(), inner.join(entry.file_name()));
                let metadata = entry.metadata()?;
                let mode = metadata.permissions().mode() & 0o7777;
                if metadata.is_dir() {
                    builder = builder.folder(&name, mode);
                    folders.push(name);
                } else if metadata.is_symlink() {
                    builder = builder.link(fs::read_link(path)?, name);
                } else {
                    builder = builder.file(name, fs::read(path)?, mode);
                }
            }
        }
        builder.build(compression)
    }

    /// A layer of one program, which needs nothing else when it is linked statically.
    pub fn from_binary(
        program: &Path,
        path: impl AsRef<Path>,
        compression: Compression,
    ) -> io::Result<Self> {
        LayerBuilder::new()
            .file(path, fs::read(program)?, 0o755)
            .build(compression)
    }

    /// A layer of any bytes, well-formed or not. Its diff id is the digest of the bytes as they are.
    pub fn from_tar_bytes(media_type: &str, bytes: Vec<u8>) -> Self {
        Self {
            diff_id: BlobDigest::of(&bytes),
            blob: Blob::new(media_type, bytes),
        }
    }

    /// Makes the descriptor name another digest. The blob is stored under that name.
    #[must_use]
    pub fn claim_digest(mut self, digest: BlobDigest) -> Self {
        self.blob.descriptor.digest = digest;
        self
    }

    /// Makes the descriptor name another size.
    #[must_use]
    pub fn claim_size(mut self, size: u64) -> Self {
        self.blob.descriptor.size = size;
        self
    }

    /// Makes the image configuration name another diff id.
    #[must_use]
    pub fn claim_diff_id(mut self, diff_id: BlobDigest) -> Self {
        self.diff_id = diff_id;
        self
    }

    /// What the descriptor says the digest is.
    pub fn digest(&self) -> &BlobDigest {
        &self.blob.descriptor.digest
    }
}

#[derive(Clone, Debug)]
enum Entry {
    Folder,
    File(Vec<u8>),
    Link(PathBuf),
}

/// Collects the entries of a layer. They are packed in the order of their names.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct LayerBuilder {
    entries: BTreeMap<PathBuf, (u32, Entry)>,
}

impl LayerBuilder {
    /// An empty layer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a folder.
    pub fn folder(self, path: impl AsRef<Path>, mode: u32) -> Self {
        self.entry(path.as_ref(), mode, Entry::Folder)
    }

    /// Adds a file.
    pub fn file(self, path: impl AsRef<Path>, content: impl Into<Vec<u8>>, mode: u32) -> Self {
        self.entry(path.as_ref(), mode, Entry::File(content.into()))
    }

    /// Adds a symbolic link.
    pub fn link(self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Self {
        let target = target.as_ref().to_owned();
        self.entry(path.as_ref(), 0o777, Entry::Link(target))
    }

    /// Says that a path of the layers below is gone.
    pub fn whiteout(self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.file(path.with_file_name(format!(".wh.{name}")), [], 0o600)
    }

    /// Says that nothing of a folder of the layers below is seen any more.
    pub fn opaque(self, folder: impl AsRef<Path>) -> Self {
        self.file(folder.as_ref().join(".wh..wh..opq"), [], 0o600)
    }

    /// Packs the layer.
    pub fn build(self, compression: Compression) -> io::Result<Layer> {
        let tar = self.archive()?;
        let diff_id = BlobDigest::of(&tar);
        let (media_type, bytes) = match compression {
            Compression::None => (media_type::LAYER, tar),
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&tar)?;
                (media_type::LAYER_GZIP, encoder.finish()?)
            }
            Compression::Zstd => (media_type::LAYER_ZSTD, zstd::encode_all(&*tar, 3)?),
        };
        Ok(Layer {
            blob: Blob::new(media_type, bytes),
            diff_id,
        })
    }

    fn entry(mut self, path: &Path, mode: u32, entry: Entry) -> Self {
        let path = path.strip_prefix("/").unwrap_or(path);
        self.entries.insert(path.to_owned(), (mode, entry));
        self
    }

    /// Its archive, without compression.
    pub(crate) fn archive(&self) -> io::Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, (mode, entry)) in &self.entries {
            let mut header = Header::new_gnu();
            header.set_mode(*mode);
            header.set_uid(0);
            header.set_gid(0);
            header.set_mtime(0);
            header.set_size(0);
            match entry {
                Entry::Folder => {
                    header.set_entry_type(EntryType::Directory);
                    tar.append_data(&mut header, path, io::empty())?;
                }
                Entry::File(content) => {
                    header.set_entry_type(EntryType::Regular);
                    header.set_size(content.len() as u64);
                    tar.append_data(&mut header, path, &**content)?;
                }
                Entry::Link(target) => {
                    header.set_entry_type(EntryType::Symlink);
                    tar.append_link(&mut header, path, target)?;
                }
            }
        }
        tar.into_inner()
    }
}
