//! Where the images of a file are.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use muster_api::domain::Digest;
use muster_image::{
    BlobPlace, BlobSource, BoxError, LayoutError, LayoutSource, Login, RegistryError,
    RegistryImage, RegistrySource,
};

use super::resolved::Resolved;
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

/// What an image's name has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Whoever has it says so now.
    Now(Digest),
    /// The registry does not answer. It led there in an earlier run.
    Earlier(Digest),
}

impl Found {
    pub(super) fn digest(self) -> Digest {
        match self {
            Self::Now(digest) | Self::Earlier(digest) => digest,
        }
    }
}

impl Sources {
    /// Takes a source in; answers what its image is. A registry that does not answer is believed to have what it had when it was
    /// asked last: what runs need not end for that.
    pub(super) async fn add(
        &mut self,
        from: &ImageFrom,
        earlier: &Resolved,
    ) -> Result<Found, ImageSourceError> {
        match from {
            ImageFrom::Present(digest) => Ok(Found::Now(*digest)),
            ImageFrom::Layout { path, name } => {
                let layout = LayoutSource::open(path).map_err(ImageSourceError::Layout)?;
                let digest = layout.image(name.as_deref());
                let digest = digest.map_err(ImageSourceError::Layout)?;
                self.0.push(Arc::new(layout));
                Ok(Found::Now(digest))
            }
            ImageFrom::Registry { reference, access } => {
                let registry = open(reference, access)?;
                let found = match (registry.resolve().await, earlier.get(reference)) {
                    (Ok(digest), _) => Found::Now(digest),
                    (Err(error), Some(digest)) if error.is_no_answer() => Found::Earlier(*digest),
                    (Err(error), _) => return Err(ImageSourceError::Registry(error)),
                };
                // It may be back when something is to be repaired.
                self.0.push(Arc::new(registry));
                Ok(found)
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

type Places = Result<Vec<Box<dyn BlobPlace>>, BoxError>;

/// All places together. Who cannot be asked keeps nobody from those who can.
fn gathered(answers: Vec<Places>) -> Places {
    let (mut places, mut failure) = (Vec::new(), None);
    for answer in answers {
        match answer {
            Ok(found) => places.extend(found),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if places.is_empty() => Err(error),
        _ => Ok(places),
    }
}

impl BlobSource for Sources {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Places> {
        let asked = self.0.iter().map(move |source| source.places(digest));
        Box::pin(join_all(asked).map(gathered))
    }

    fn content_places(&self, digest: Digest) -> BoxFuture<'_, Places> {
        let asked = self
            .0
            .iter()
            .map(move |source| source.content_places(digest));
        Box::pin(join_all(asked).map(gathered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody listens there.
    const AWAY: &str = "127.0.0.1:1/team/web:1";

    fn registry() -> ImageFrom {
        ImageFrom::Registry {
            reference: AWAY.to_owned(),
            access: RegistryAccess::default(),
        }
    }

    fn layout(folder: &Path) -> (ImageFrom, Digest) {
        let mut layout = muster_lab::oci::Layout::create(folder).unwrap();
        let image = muster_lab::oci::Image::new();
        let digest = layout.add("web", image.build()).unwrap();
        let from = ImageFrom::Layout {
            path: folder.to_owned(),
            name: None,
        };
        (from, digest.as_str().parse().unwrap())
    }

    #[tokio::test]
    async fn a_registry_that_is_away_keeps_nobody_from_the_blobs_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let (layout, here) = layout(folder.path());
        let elsewhere = Digest::from_sha256([7; 32]);
        let earlier = Resolved::from([(AWAY.to_owned(), elsewhere)]);
        let mut sources = Sources::default();
        let found = sources.add(&registry(), &earlier).await.unwrap();
        assert_eq!(found, Found::Earlier(elsewhere));
        let found = sources.add(&layout, &earlier).await.unwrap();
        assert_eq!(found, Found::Now(here));
        let places = sources.places(here).await.unwrap();
        assert_eq!(places.len(), 1);
        // What nobody else has is not had, and it is said why.
        assert!(sources.places(elsewhere).await.is_err());
    }

    #[tokio::test]
    async fn a_registry_that_was_never_asked_has_to_answer() {
        let mut sources = Sources::default();
        let refused = sources.add(&registry(), &Resolved::new()).await;
        assert!(matches!(refused, Err(ImageSourceError::Registry(_))));
    }
}
