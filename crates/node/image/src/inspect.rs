//! Looking at an item that is not here: its documents only, in memory. Nothing is written, and nothing of it is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::domain::Digest;
use muster_item::Document;
use tokio::sync::mpsc;

use crate::error::InstallError;
use crate::fetch::{self, FetchBlobError, Piece, QUEUE, Wanted};
use crate::hash::Hasher;
use crate::install::blocking;
use crate::mirror::{Content, MirroredImage, images_of};
use crate::source::BlobSource;
use crate::store::ImageStore;

/// All documents of one item, together. Real ones have a few kilobytes for each platform.
const MAX_BYTES: u64 = 16 << 20;

/// Documents that were read, by digest.
#[derive(Debug, Default)]
struct Documents {
    read: BTreeMap<Digest, Vec<u8>>,
    bytes: u64,
}

impl ImageStore {
    /// What a digest leads to, as [`mirror`](Self::mirror) would find it, from documents alone: layers stay where they are.
    /// Documents that are here and whole are not asked for. Each is asked for once, without a second try.
    pub async fn inspect(
        &self,
        digest: Digest,
        source: Arc<dyn BlobSource>,
    ) -> Result<Vec<MirroredImage>, InstallError> {
        let mut documents = Documents::default();
        let mut content = Content::of(digest);
        while let Some((next, size)) = content.next_document() {
            self.look_up(&mut documents, next, size, &*source).await?;
            let document = Document::read(documents.get(&next)?, &self.inner.settings.documents);
            let document = document.map_err(|source| InstallError::Document {
                digest: next,
                source: Box::new(source),
            })?;
            content.take(next, document)?;
        }
        for (blob, size) in content.configs() {
            self.look_up(&mut documents, blob, Some(size), &*source)
                .await?;
        }
        let limits = &self.inner.settings.documents;
        images_of(content, limits, |digest| documents.get(digest).cloned())
    }

    /// Reads a document, from here or from there.
    async fn look_up(
        &self,
        documents: &mut Documents,
        digest: Digest,
        size: Option<u64>,
        source: &dyn BlobSource,
    ) -> Result<(), InstallError> {
        if documents.read.contains_key(&digest) {
            return Ok(());
        }
        let rest = MAX_BYTES - documents.bytes;
        let limit = rest.min(self.inner.settings.documents.document_bytes as u64);
        if size.is_some_and(|size| size > limit) {
            let source = FetchBlobError::TooLarge { limit };
            return Err(InstallError::Fetch { digest, source });
        }
        let is_here = self
            .inner
            .ledger
            .lock()
            .inventory
            .blobs
            .contains_key(&digest);
        let here = match is_here {
            true => {
                let store = self.clone();
                blocking(digest, move || store.inner.read_blob(&digest)).await
            }
            false => Err(InstallError::Damaged { digest }),
        };
        let bytes = match here {
            Err(InstallError::Damaged { .. }) => {
                let fetched = fetch_whole(source, digest, size, limit).await;
                fetched.map_err(|source| InstallError::Fetch { digest, source })?
            }
            here => here?,
        };
        documents.bytes = documents
            .bytes
            .saturating_add(bytes.len() as u64)
            .min(MAX_BYTES);
        documents.read.insert(digest, bytes);
        Ok(())
    }
}

impl Documents {
    fn get(&self, digest: &Digest) -> Result<&Vec<u8>, InstallError> {
        let missing = || InstallError::Fetch {
            digest: *digest,
            source: FetchBlobError::NoPlaces,
        };
        self.read.get(digest).ok_or_else(missing)
    }
}

/// A small blob, checked against its digest.
async fn fetch_whole(
    source: &dyn BlobSource,
    digest: Digest,
    size: Option<u64>,
    limit: u64,
) -> Result<Vec<u8>, FetchBlobError> {
    let wanted = Wanted {
        digest,
        size,
        limit,
        tries: 1,
        delay: std::time::Duration::ZERO,
        is_document: true,
    };
    let (out, mut pieces) = mpsc::channel(QUEUE);
    let nobody = std::collections::BTreeSet::new();
    let fetching = fetch::fetch(source, &wanted, 0, &nobody, out);
    let taking = async {
        let mut bytes = Vec::new();
        while let Some(Piece::Bytes(piece)) = pieces.recv().await {
            bytes.extend_from_slice(&piece);
        }
        bytes
    };
    let (places, bytes) = tokio::join!(fetching, taking);
    let places = places?;
    let mut hasher = Hasher::like(&digest);
    hasher.update(&bytes);
    let found = hasher.finish();
    if found != digest {
        return Err(FetchBlobError::WrongContent {
            found: Box::new(found),
            bytes: bytes.len() as u64,
            places,
        });
    }
    Ok(bytes)
}
