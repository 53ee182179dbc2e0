//! Blobs of an OCI image layout: a folder, or a tar archive of one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_item::{Document, Index, Limits, ReadDocumentError};

use super::file::FilePlace;
use super::{BlobPlace, BlobSource, BoxError};

/// Files of an archive that are remembered. A layout of a few images has a few dozen.
const MAX_MEMBERS: usize = 100_000;

/// Why an image layout cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file of it cannot be read.
    #[error("cannot read {} of the image layout", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It has no index, or one that cannot be read.
    #[error("cannot use the index of the image layout {}", path.display())]
    Index {
        /// The layout.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: ReadDocumentError,
    },
    /// `index.json` is no index.
    #[error("index.json of the image layout {} is no index", path.display())]
    NoIndex {
        /// The layout.
        path: PathBuf,
    },
    /// A blob of it is something else than its name says.
    #[error("blob {digest} of the image layout {} is really {found}", path.display())]
    WrongBlob {
        /// The layout.
        path: PathBuf,
        /// Its name.
        digest: Box<Digest>,
        /// Its content.
        found: Box<Digest>,
    },
    /// Nothing in it has this name.
    #[error("the image layout {} has no image {name:?}; it has {known:?}", path.display())]
    NoSuchImage {
        /// The layout.
        path: PathBuf,
        /// The name.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It has several images, and none was named.
    #[error("the image layout {} has {count} images: say which of {known:?}", path.display())]
    Several {
        /// The layout.
        path: PathBuf,
        /// How many.
        count: usize,
        /// Their names.
        known: Vec<String>,
    },
}

/// An image layout.
#[derive(Debug)]
pub struct LayoutSource {
    path: PathBuf,
    /// Start and length of every file, if it is an archive.
    members: Option<BTreeMap<PathBuf, (u64, u64)>>,
    index: Index,
}

impl LayoutSource {
    /// Opens a folder, or a tar archive without compression.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, LayoutError> {
        let path = path.into();
        let failed = |source| LayoutError::Read {
            path: path.clone(),
            source,
        };
        let kind = path.metadata().map_err(failed)?.file_type();
        let members = match (kind.is_dir(), kind.is_file()) {
            (true, _) => None,
            (_, true) => Some(members(&path).map_err(failed)?),
            // A pipe would be waited for.
            _ => {
                let reason = "it is neither a folder nor an archive";
                return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, reason)));
            }
        };
        let mut source = Self {
            path,
            members,
            index: Index {
                manifests: Vec::new(),
            },
        };
        source.index = source.read_index()?;
        Ok(source)
    }

    fn read_index(&self) -> Result<Index, LayoutError> {
        let bytes = self.read("index.json".as_ref(), Limits::default().document_bytes)?;
        match Document::read(&bytes, &Limits::default()) {
            Ok(Document::Index(index)) => Ok(index),
            Ok(Document::Manifest(_)) => Err(LayoutError::NoIndex {
                path: self.path.clone(),
            }),
            Err(source) => Err(LayoutError::Index {
                path: self.path.clone(),
                source,
            }),
        }
    }

    /// What it has.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The image of this name; without a name the only one there is.
    pub fn image(&self, name: Option<&str>) -> Result<Digest, LayoutError> {
        let entries = &self.index.manifests;
        let known = || {
            entries
                .iter()
                .filter_map(|entry| entry.name.clone())
                .collect()
        };
        let path = || self.path.clone();
        match (name, entries.as_slice()) {
            (Some(name), _) => entries
                .iter()
                .find(|entry| {
                    entry.name.as_deref() == Some(name)
                        || entry.descriptor.digest.to_string() == name
                })
                .map(|entry| entry.descriptor.digest)
                .ok_or_else(|| LayoutError::NoSuchImage {
                    path: path(),
                    name: name.to_owned(),
                    known: known(),
                }),
            (None, [only]) => Ok(only.descriptor.digest),
            (None, several) => Err(LayoutError::Several {
                path: path(),
                count: several.len(),
                known: known(),
            }),
        }
    }

    /// Where a file of the layout is: the file, and the part of it if it is a member of an archive.
    fn locate(&self, name: &Path) -> Option<(PathBuf, Option<(u64, u64)>)> {
        match &self.members {
            None => {
                let path = self.path.join(name);
                // What cannot be looked at is said when it is opened.
                path.try_exists().unwrap_or(true).then_some((path, None))
            }
            Some(members) => Some((self.path.clone(), Some(*members.get(name)?))),
        }
    }

    /// Opens a blob for reading from its beginning.
    pub(crate) fn open_blob(&self, digest: &Digest) -> Result<io::Take<File>, LayoutError> {
        self.open_member(&blob_name(digest))
    }

    /// Reads a document, up to a little more than documents may have.
    pub(crate) fn read_document(&self, digest: &Digest) -> Result<Vec<u8>, LayoutError> {
        self.read(&blob_name(digest), Limits::default().document_bytes)
    }

    fn open_member(&self, name: &Path) -> Result<io::Take<File>, LayoutError> {
        let failed = |source| LayoutError::Read {
            path: self.path.join(name),
            source,
        };
        let (path, part) = self
            .locate(name)
            .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let (start, length) = part.unwrap_or((0, u64::MAX));
        let mut file = File::open(path).map_err(failed)?;
        io::Seek::seek(&mut file, io::SeekFrom::Start(start)).map_err(failed)?;
        Ok(file.take(length))
    }

    /// Reads a whole file of the layout, up to a limit.
    fn read(&self, name: &Path, limit: usize) -> Result<Vec<u8>, LayoutError> {
        let mut bytes = Vec::new();
        let more_than_enough = limit as u64 + 1;
        self.open_member(name)?
            .take(more_than_enough)
            .read_to_end(&mut bytes)
            .map_err(|source| LayoutError::Read {
                path: self.path.join(name),
                source,
            })?;
        Ok(bytes)
    }
}

fn blob_name(digest: &Digest) -> PathBuf {
    Path::new("blobs")
        .join(digest.algorithm().as_str())
        .join(digest.to_hex())
}

/// Where the files of an archive are. Their content is skipped, not read.
fn members(path: &Path) -> io::Result<BTreeMap<PathBuf, (u64, u64)>> {
    let mut archive = tar::Archive::new(File::open(path)?);
    let mut members = BTreeMap::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        let name: PathBuf = entry.path()?.components().filter(is_normal).collect();
        members.insert(name, (entry.raw_file_position(), entry.size()));
        if members.len() > MAX_MEMBERS {
            return Err(io::Error::other("the archive has too many files"));
        }
    }
    Ok(members)
}

fn is_normal(component: &std::path::Component<'_>) -> bool {
    matches!(component, std::path::Component::Normal(_))
}

impl BlobSource for LayoutSource {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        let place = self.locate(&blob_name(&digest)).map(|(path, part)| {
            let name = format!("image layout {}", self.path.display());
            Box::new(FilePlace { name, path, part }) as Box<dyn BlobPlace>
        });
        Box::pin(std::future::ready(Ok(place.into_iter().collect())))
    }
}
