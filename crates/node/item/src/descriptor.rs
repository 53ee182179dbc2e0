//! What a document says about a blob.

use muster_api::domain::Digest;

use crate::MediaType;
use crate::read::{At, ReadDocumentError};

/// A blob: its kind, digest and size. All three are claims until the blob has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What it is.
    pub media_type: MediaType,
    /// Of its bytes.
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
}

impl Descriptor {
    pub(crate) fn read(at: &At<'_>) -> Result<Self, ReadDocumentError> {
        let media_type = at.optional("mediaType", |at| at.text().map(MediaType::from_name))?;
        Ok(Self {
            media_type: media_type.unwrap_or(MediaType::Other(String::new())),
            digest: at.required("digest")?.parse()?,
            size: at.required("size")?.unsigned()?,
        })
    }
}
