//! Where an item comes from, opened.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_desired::RegistryAccess;
use muster_image::{
    BlobPlace, BlobSource, BoxError, LayoutSource, Login, RegistryImage, RegistrySource,
};

use crate::error::OpenSourceError;

/// Passwords and certificates that registries are reached with are smaller than this.
const MAX_FILE: u64 = 1 << 20;

/// A source, and the index of the item in it.
#[derive(Debug)]
pub(crate) struct ItemSource {
    pub(crate) blobs: Arc<dyn BlobSource>,
    pub(crate) index: Digest,
}

/// Opens an image layout.
pub(crate) async fn layout(
    path: PathBuf,
    name: Option<String>,
    index: Option<Digest>,
) -> Result<ItemSource, OpenSourceError> {
    let open = move || {
        let layout = LayoutSource::open(path)?;
        let index = match index {
            Some(index) => index,
            None => layout.image(name.as_deref())?,
        };
        Ok(ItemSource {
            blobs: Arc::new(layout),
            index,
        })
    };
    let opened = tokio::task::spawn_blocking(open).await;
    let opened = opened.map_err(|_| OpenSourceError::Stopped)?;
    opened.map_err(OpenSourceError::Layout)
}

/// Prepares a registry, and asks it for the image unless its digest is known.
pub(crate) async fn registry(
    reference: &str,
    access: RegistryAccess,
    index: Option<Digest>,
) -> Result<ItemSource, OpenSourceError> {
    let image: RegistryImage = reference.parse().map_err(OpenSourceError::Registry)?;
    let prepare = move || {
        let login = access.login.map(|(user, file)| login(user, &file));
        let roots = access.ca.iter().map(|path| read(path));
        let roots = roots.collect::<Result<_, _>>()?;
        RegistrySource::new(&image, login.transpose()?, roots, access.insecure)
            .map_err(OpenSourceError::Registry)
    };
    let prepared = tokio::task::spawn_blocking(prepare).await;
    let registry = prepared.map_err(|_| OpenSourceError::Stopped)??;
    let index = match index {
        Some(index) => index,
        None => registry
            .resolve()
            .await
            .map_err(OpenSourceError::Registry)?,
    };
    Ok(ItemSource {
        blobs: Arc::new(registry),
        index,
    })
}

/// The password is the file's first line.
fn login(user: String, file: &Path) -> Result<Login, OpenSourceError> {
    let text = String::from_utf8(read(file)?);
    let text = text.map_err(|_| OpenSourceError::File {
        path: file.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, "it is not text"),
    })?;
    let password = text.lines().next().unwrap_or_default().to_owned();
    Ok(Login { user, password })
}

fn read(path: &Path) -> Result<Vec<u8>, OpenSourceError> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut content));
    match read {
        Ok(_) => Ok(content),
        Err(source) => Err(OpenSourceError::File {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Nowhere: for an item of which everything is there.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl BlobSource for Nowhere {
    fn places(&self, _: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
