//! The image layout on disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Blob, BlobDigest, ImageParts, media_type};

/// Why a layout could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A file of it could not be read or written.
    #[error("cannot use {} of an image layout", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// There is no image with this tag.
    #[error("the layout in {} has no image {tag}", folder.display())]
    NoSuchImage {
        /// The layout.
        folder: PathBuf,
        /// The tag.
        tag: String,
    },
}

/// A folder with images.
#[derive(Clone, Debug)]
pub struct Layout {
    folder: PathBuf,
    images: Vec<(String, ImageParts)>,
}

impl Layout {
    /// Starts a layout in a new or empty folder.
    pub fn create(folder: impl AsRef<Path>) -> Result<Self, LayoutError> {
        let layout = Self {
            folder: folder.as_ref().to_owned(),
            images: Vec::new(),
        };
        let blobs = layout.blob_folder();
        fs::create_dir_all(&blobs).map_err(|source| LayoutError::File {
            path: blobs,
            source,
        })?;
        layout.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        layout.write_index()?;
        Ok(layout)
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its blobs are: files named by the hexadecimal digits of their digests.
    pub fn blob_folder(&self) -> PathBuf {
        self.folder.join("blobs/sha256")
    }

    /// Adds an image under a tag, and returns its manifest's digest.
    pub fn add(&mut self, tag: &str, image: ImageParts) -> Result<BlobDigest, LayoutError> {
        image.blobs().try_for_each(|blob| self.add_blob(blob))?;
        let digest = image.manifest.descriptor.digest.clone();
        self.images.retain(|(other, _)| other != tag);
        self.images.push((tag.to_owned(), image));
        self.write_index()?;
        Ok(digest)
    }

    /// Adds a blob that belongs to no image, or replaces one.
    pub fn add_blob(&self, blob: &Blob) -> Result<(), LayoutError> {
        let name = format!("blobs/sha256/{}", blob.descriptor.digest.encoded());
        self.write(&name, &blob.bytes)
    }

    /// An image that was added.
    pub fn image(&self, tag: &str) -> Result<&ImageParts, LayoutError> {
        let found = self.images.iter().find(|(other, _)| other == tag);
        found
            .map(|(_, image)| image)
            .ok_or_else(|| LayoutError::NoSuchImage {
                folder: self.folder.clone(),
                tag: tag.to_owned(),
            })
    }

    /// Adds an index of all images as a blob of its own, as a deployable item has it, and returns
    /// its digest.
    pub fn add_index_blob(&self) -> Result<BlobDigest, LayoutError> {
        let blob = Blob::new(media_type::INDEX, self.index().to_string().into_bytes());
        self.add_blob(&blob)?;
        Ok(blob.descriptor.digest)
    }

    fn index(&self) -> Value {
        let manifests: Vec<Value> = self
            .images
            .iter()
            .map(|(tag, image)| {
                let mut descriptor = json!(image.manifest.descriptor);
                descriptor["platform"] = image.platform.clone();
                descriptor["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
                descriptor
            })
            .collect();
        json!({
            "schemaVersion": 2,
            "mediaType": media_type::INDEX,
            "manifests": manifests,
        })
    }

    fn write_index(&self) -> Result<(), LayoutError> {
        self.write("index.json", self.index().to_string().as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), LayoutError> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|source| LayoutError::File { path, source })
    }
}
