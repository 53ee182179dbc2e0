//! Copying an image from anywhere into a layout.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::Digest;
use muster_item::{Document, Limits, MediaType, ReadDocumentError};
use tokio::sync::mpsc;

use super::BuildError;
use super::writer::{LayoutWriter, Unfinished, descriptor};
use crate::documents;
use crate::fetch::{FetchBlobError, QUEUE, Wanted, fetch};
use crate::folders::{DiskError, OnDisk};
use crate::intake::Intake;
use crate::progress::Meter;
use crate::source::BlobSource;

/// Documents of one image: more is no image but an attack.
const MAX_DOCUMENTS: usize = 1000;
const TRIES: u32 = 3;

/// Why an image could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The layout cannot be written.
    #[error("cannot write the image layout")]
    Write(#[source] BuildError),
    /// A blob cannot be had.
    #[error("cannot get blob {digest}")]
    Fetch {
        /// Which blob.
        digest: Digest,
        /// Why.
        #[source]
        source: FetchBlobError,
    },
    /// A document makes no sense.
    #[error("cannot use document {digest}")]
    Document {
        /// Which document.
        digest: Digest,
        /// What is wrong.
        #[source]
        source: Box<ReadDocumentError>,
    },
    /// It refers to more documents than any image has.
    #[error("the image has more than {MAX_DOCUMENTS} documents")]
    TooManyDocuments,
    /// The program is ending.
    #[error("the copy was stopped")]
    Stopped,
}

/// Copies an image with everything that it refers to, for all platforms, into a new layout. What has come stays when this fails or
/// is dropped, and the next try to the same place goes on from there.
pub async fn pull(
    source: &dyn BlobSource,
    digest: Digest,
    name: Option<&str>,
    output: &Path,
    as_archive: bool,
) -> Result<(), PullError> {
    let writer = LayoutWriter::create(output, as_archive, Unfinished::Keep);
    let writer = writer.map_err(PullError::Write)?;
    let writer = Arc::new(writer);
    let mut root = None;
    let mut documents = VecDeque::from([(digest, None)]);
    let mut seen = BTreeSet::from([digest]);
    while let Some((digest, size)) = documents.pop_front() {
        let limit = Limits::default().document_bytes as u64;
        let too_large = |source| PullError::Fetch { digest, source };
        documents::check_claim(size, limit).map_err(too_large)?;
        let bytes = copy(source, &writer, digest, size, true).await?;
        let document = documents::read(&writer.blob_path(&digest), limit).map_err(disk)?;
        let document = document.ok_or(too_large(FetchBlobError::TooLarge { limit }))?;
        let document = Document::read(&document, &Limits::default()).map_err(|source| {
            PullError::Document {
                digest,
                source: Box::new(source),
            }
        })?;
        let kind = match document {
            Document::Index(index) => {
                let entries = index.manifests.iter().map(|entry| &entry.descriptor);
                let new = entries.filter(|blob| seen.insert(blob.digest));
                documents.extend(new.map(|blob| (blob.digest, Some(blob.size))));
                MediaType::Index
            }
            Document::Manifest(manifest) => {
                for blob in manifest.blobs() {
                    if seen.insert(blob.digest) {
                        copy(source, &writer, blob.digest, Some(blob.size), false).await?;
                    }
                }
                MediaType::Manifest
            }
        };
        if documents.len() > MAX_DOCUMENTS {
            return Err(PullError::TooManyDocuments);
        }
        root.get_or_insert_with(|| descriptor(kind.name(), &digest, bytes));
    }
    let writer = Arc::try_unwrap(writer).map_err(|_| PullError::Stopped)?;
    let root = root.ok_or(PullError::Stopped)?;
    writer.finish(root, None, name).map_err(PullError::Write)
}

fn disk(error: DiskError) -> PullError {
    PullError::Write(BuildError::Disk(error))
}

/// How a try to copy a blob ended.
struct Copied {
    found: Digest,
    bytes: u64,
    /// So much of it was there before.
    there: u64,
    places: BTreeSet<String>,
}

/// Copies one blob, unless an earlier try brought it. Returns its size.
async fn copy(
    source: &dyn BlobSource,
    writer: &Arc<LayoutWriter>,
    digest: Digest,
    size: Option<u64>,
    is_document: bool,
) -> Result<u64, PullError> {
    let layout = Arc::clone(writer);
    let found = tokio::task::spawn_blocking(move || layout.found(&digest));
    let found = found.await.map_err(|_| PullError::Stopped)?;
    if let Some(bytes) = found.filter(|bytes| size.is_none_or(|size| size == *bytes)) {
        return Ok(bytes);
    }
    let wanted = Wanted {
        digest,
        size,
        limit: Limits::default().document_bytes as u64,
        tries: TRIES,
        delay: Duration::from_secs(1),
        is_document,
    };
    loop {
        let copied = try_to_copy(source, writer, &wanted).await?;
        if copied.found == digest {
            return Ok(copied.bytes);
        }
        // What an earlier try left may be to blame; it is gone now.
        if copied.there == 0 {
            let source = FetchBlobError::WrongContent {
                found: Box::new(copied.found),
                bytes: copied.bytes,
                places: copied.places,
            };
            return Err(PullError::Fetch { digest, source });
        }
    }
}

async fn try_to_copy(
    source: &dyn BlobSource,
    writer: &Arc<LayoutWriter>,
    wanted: &Wanted,
) -> Result<Copied, PullError> {
    let digest = wanted.digest;
    let part = writer.coming(&digest);
    let there = match (fs::metadata(&part), wanted.size) {
        (Ok(found), Some(size)) if found.len() <= size => found.len(),
        _ => 0,
    };
    let (sender, receiver) = mpsc::channel(QUEUE);
    let layout = Arc::clone(writer);
    let taking = tokio::task::spawn_blocking(move || {
        let meter = Arc::new(Meter::new(None));
        let taken = Intake::resume(&part, there, &digest, receiver, meter);
        let taken = taken.and_then(Intake::finish).on_disk("write", &part)?;
        match taken.digest == digest {
            true => layout.establish_path(&part, &digest)?,
            false => fs::remove_file(&part).on_disk("remove", &part)?,
        }
        Ok((taken.digest, taken.bytes))
    });
    let nobody = BTreeSet::new();
    let (fetched, taken) = tokio::join!(fetch(source, wanted, there, &nobody, sender), taking);
    let places = fetched.map_err(|source| PullError::Fetch { digest, source })?;
    let (found, bytes) = taken.map_err(|_| PullError::Stopped)?.map_err(disk)?;
    Ok(Copied {
        found,
        bytes,
        there,
        places,
    })
}
