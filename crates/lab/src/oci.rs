//! OCI images made from files, without a registry or an engine.
//!
//! [`Layer`] packs files, [`Image`] puts layers and a configuration together, [`Layout`] is the image
//! layout on disk that holds images: `oci-layout`, `index.json`, `blobs/sha256`. The same input gives
//! the same digests, always.
//!
//! A manifest carries the extra descriptor `aosItemConfig` when the image has an item configuration:
//! what the Service Manager needs to know to run it.
//!
//! Images can be wrong on purpose. [`Layer::from_tar_bytes`] takes any bytes for a layer;
//! [`Layer::claim_digest`], [`Layer::claim_size`] and [`Layer::claim_diff_id`] make the descriptors
//! lie; [`Image::edit_manifest`] and [`Image::edit_config`] change the documents at will.

mod image;
mod layer;
mod layout;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use image::{Image, ImageParts};
pub use layer::{Compression, Layer, LayerBuilder};
pub use layout::{Layout, LayoutError};

/// Media types that the lab writes.
pub mod media_type {
    /// An image index.
    pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    /// An image manifest.
    pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    /// An image configuration.
    pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    /// An item configuration.
    pub const ITEM_CONFIG: &str = "application/vnd.aos.item.config.v1+json";
    /// A layer as it is.
    pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    /// A layer compressed with gzip.
    pub const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
    /// A layer compressed with zstd.
    pub const LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
}

/// A digest as descriptors write it: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlobDigest(String);

impl BlobDigest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(format!("sha256:{}", hex::encode(Sha256::digest(bytes))))
    }

    /// Any text in a digest's place, true or not.
    pub fn claimed(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The digest as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part after the algorithm: the blob's file name.
    pub fn encoded(&self) -> &str {
        self.0
            .split_once(':')
            .map_or(&self.0, |(_, encoded)| encoded)
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a document says about a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// The blob's kind.
    pub media_type: String,
    /// The blob's digest.
    pub digest: BlobDigest,
    /// The blob's size in bytes.
    pub size: u64,
}

/// Bytes, and what their descriptor says about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The descriptor, which may lie.
    pub descriptor: Descriptor,
    /// The content.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// A blob that is described truthfully.
    pub fn new(media_type: &str, bytes: Vec<u8>) -> Self {
        Self {
            descriptor: Descriptor {
                media_type: media_type.to_owned(),
                digest: BlobDigest::of(&bytes),
                size: bytes.len() as u64,
            },
            bytes,
        }
    }
}
