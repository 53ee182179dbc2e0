//! What an image is.

use muster_api::domain::Digest;
use muster_item::{Descriptor, Document, ImageConfig, Limits};
use serde::Serialize;

use super::BuildError;
use crate::source::LayoutSource;

/// What an image is, ready to be shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// What it is known by.
    pub digest: String,
    /// Its name in the layout.
    pub name: Option<String>,
    /// What it is for.
    pub platform: Option<String>,
    /// Its layers, the lowest first.
    pub layers: Vec<BlobSummary>,
    /// Bytes of all of its layers, compressed.
    pub size: u64,
    /// The program with its arguments.
    pub command: Vec<String>,
    /// Names of the variables that it sets. Their values may be secret.
    pub env: Vec<String>,
    /// The folder that it starts in.
    pub working_dir: String,
    /// The item configuration as it is written.
    pub item_config: Option<serde_json::Value>,
}

/// One blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobSummary {
    /// Its digest.
    pub digest: String,
    /// Its kind.
    pub media_type: String,
    /// Its size.
    pub size: u64,
}

/// Looks into an image of a layout; one for each manifest if the name leads to an index. Blocks.
pub fn inspect(layout: &LayoutSource, name: Option<&str>) -> Result<Vec<Inspection>, BuildError> {
    let digest = layout.image(name).map_err(BuildError::Layout)?;
    let bytes = layout.read_document(&digest).map_err(BuildError::Layout)?;
    let document =
        Document::read(&bytes, &Limits::default()).map_err(|source| BuildError::Document {
            what: "manifest",
            source,
        })?;
    match document {
        Document::Manifest(_) => Ok(vec![inspect_manifest(layout, digest)?]),
        Document::Index(index) => index
            .manifests
            .iter()
            .filter(|entry| entry.is_offered())
            .map(|entry| inspect_manifest(layout, entry.descriptor.digest))
            .collect(),
    }
}

fn inspect_manifest(layout: &LayoutSource, digest: Digest) -> Result<Inspection, BuildError> {
    let read = |digest: &Digest| layout.read_document(digest).map_err(BuildError::Layout);
    let limits = Limits::default();
    let unreadable = |what| move |source| BuildError::Document { what, source };
    let document = Document::read(&read(&digest)?, &limits).map_err(unreadable("manifest"))?;
    let Document::Manifest(manifest) = document else {
        return Err(BuildError::NotAManifest(digest));
    };
    let config = ImageConfig::read(&read(&manifest.config.digest)?, &limits)
        .map_err(unreadable("image configuration"))?;
    let item_config = match &manifest.item_config {
        Some(item) => serde_json::from_slice(&read(&item.digest)?).ok(),
        None => None,
    };
    let entries = &layout.index().manifests;
    let entry = entries
        .iter()
        .find(|entry| entry.descriptor.digest == digest);
    Ok(Inspection {
        digest: digest.to_string(),
        name: entry.and_then(|entry| entry.name.clone()),
        platform: config.platform.as_ref().map(ToString::to_string),
        layers: manifest.layers.iter().map(summary).collect(),
        size: manifest
            .layers
            .iter()
            .map(|layer| layer.size)
            .fold(0, u64::saturating_add),
        command: config.command().map(str::to_owned).collect(),
        env: config
            .env
            .iter()
            .map(|variable| variable.name().to_string())
            .collect(),
        working_dir: config.working_dir,
        item_config,
    })
}

fn summary(blob: &Descriptor) -> BlobSummary {
    BlobSummary {
        digest: blob.digest.to_string(),
        media_type: blob.media_type.name().to_owned(),
        size: blob.size,
    }
}
