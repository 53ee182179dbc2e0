//! Where the images of a file are.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_image::{
    BlobPlace, BlobSource, BoxError, LayoutError, LayoutSource, Login, RegistryError,
    RegistryImage, RegistrySource,
};

use super::{ImageFrom, RegistryAccess};

/// Nobody's password or certificate is longer.
const MAX_FILE: u64 = 64 << 10;

/// Why an image cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageSourceError {
    /// The layout cannot be used.
    #[error("cannot use the image layout")]
    Layout(#[source] LayoutError),
    /// The registry cannot be used.
    #[error("cannot use the registry")]
    Registry(#[source] RegistryError),
    /// A file that the registry needs cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// All layouts and registries of a file, as one source. Digests say which bytes are meant, so it matters not who has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources(Vec<Arc<dyn BlobSource>>);

impl Sources {
    /// Takes a source in; answers what its image is.
    pub(super) async fn add(&mut self, from: &ImageFrom) -> Result<Digest, ImageSourceError> {
        match from {
            ImageFrom::Present(digest) => Ok(*digest),
            ImageFrom::Layout { path, name } => {
                let layout = LayoutSource::open(path).map_err(ImageSourceError::Layout)?;
                let digest = layout.image(name.as_deref());
                let digest = digest.map_err(ImageSourceError::Layout)?;
                self.0.push(Arc::new(layout));
                Ok(digest)
            }
            ImageFrom::Registry { reference, access } => {
                let registry = open(reference, access)?;
                let digest = registry.resolve().await;
                let digest = digest.map_err(ImageSourceError::Registry)?;
                self.0.push(Arc::new(registry));
                Ok(digest)
            }
        }
    }
}

fn open(reference: &str, access: &RegistryAccess) -> Result<RegistrySource, ImageSourceError> {
    let image: RegistryImage = reference.parse().map_err(ImageSourceError::Registry)?;
    let login = match (&access.user, &access.password_file) {
        (Some(user), Some(file)) => {
            let text = read(file)?;
            let text = String::from_utf8_lossy(&text);
            Some(Login {
                user: user.clone(),
                password: text.lines().next().unwrap_or_default().to_owned(),
            })
        }
        _ => None,
    };
    let roots: Result<Vec<_>, _> = access.ca.iter().map(|path| read(path)).collect();
    RegistrySource::new(&image, login, roots?, access.insecure).map_err(ImageSourceError::Registry)
}

fn read(path: &Path) -> Result<Vec<u8>, ImageSourceError> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut content));
    match read {
        Ok(_) => Ok(content),
        Err(source) => Err(ImageSourceError::File {
            path: path.to_owned(),
            source,
        }),
    }
}

impl BlobSource for Sources {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move {
            let mut places = Vec::new();
            for source in &self.0 {
                places.extend(source.places(digest).await?);
            }
            Ok(places)
        })
    }
}
