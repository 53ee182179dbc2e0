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
use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject as _;

use crate::error::OpenSourceError;

/// Passwords and certificates that registries are reached with are smaller than this.
const MAX_FILE: u64 = 1 << 20;
/// Revocation lists are smaller than this.
const MAX_LIST: u64 = 16 << 20;

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
        let roots = access.ca.iter().map(|path| read(path, MAX_FILE));
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
    let text = String::from_utf8(read(file, MAX_FILE)?);
    let text = text.map_err(|_| unusable(file, "it is not text"))?;
    let password = text.lines().next().unwrap_or_default().to_owned();
    Ok(Login { user, password })
}

/// The lists in these files, in DER. A file without any is refused: it is there so that something is.
pub(crate) async fn revocation_lists(files: Vec<PathBuf>) -> Result<Vec<Vec<u8>>, OpenSourceError> {
    let read_all = move || {
        let mut lists = Vec::new();
        for path in &files {
            let text = read(path, MAX_LIST)?;
            let found: Result<Vec<_>, _> =
                CertificateRevocationListDer::pem_slice_iter(&text).collect();
            let found = found.map_err(|_| unusable(path, "it is not well-formed PEM"))?;
            if found.is_empty() {
                return Err(unusable(path, "it has no revocation list in it"));
            }
            lists.extend(found.iter().map(|it| it.to_vec()));
        }
        Ok(lists)
    };
    let read = tokio::task::spawn_blocking(read_all).await;
    read.map_err(|_| OpenSourceError::Stopped)?
}

fn unusable(path: &Path, why: &'static str) -> OpenSourceError {
    OpenSourceError::File {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, why),
    }
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, OpenSourceError> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(limit).read_to_end(&mut content));
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
