//! Images in an OCI registry: where blobs come from, and where a layout's image goes to.

mod reader;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::future::BoxFuture;
use muster_api::domain::Digest;
use muster_item::{Descriptor, Document, Limits, MediaType, ReadDocumentError};
use muster_tls::rustls;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use tokio_util::io::ReaderStream;

use self::reader::{Reader, Shelf, Token};
use super::{
    BlobPlace, BlobSource, BlobStream, BoxError, HttpSettings, LayoutError, LayoutSource,
    OpenBlobError,
};
use crate::hash;

/// Indexes that lead to indexes are followed so far.
const MAX_DEPTH: usize = 4;

/// An image in a registry: `host[:port]/name[:tag][@digest]`.
#[derive(Debug, Clone)]
pub struct RegistryImage(Reference);

impl FromStr for RegistryImage {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        text.parse()
            .map(Self)
            .map_err(|source| RegistryError::Name {
                name: text.escape_debug().to_string(),
                source,
            })
    }
}

impl fmt::Display for RegistryImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A user and a password. Never shown.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// Why a registry could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Not the name of an image.
    #[error("{name} is not the name of an image in a registry")]
    Name {
        /// The text.
        name: String,
        /// What is wrong.
        #[source]
        source: oci_client::ParseError,
    },
    /// The client could not be made.
    #[error("cannot set the registry client up")]
    Setup(#[source] Box<OciDistributionError>),
    /// The registry did not do what it was asked to.
    #[error("cannot {operation} {image}")]
    Registry {
        /// What was being done, as a verb.
        operation: &'static str,
        /// To what.
        image: String,
        /// What the registry said.
        #[source]
        source: Box<OciDistributionError>,
    },
    /// The layout to be pushed cannot be read.
    #[error("cannot read the image to push")]
    Layout(#[source] LayoutError),
    /// A document of the image makes no sense.
    #[error("cannot use document {digest}")]
    Document {
        /// Which one.
        digest: Digest,
        /// What is wrong.
        #[source]
        source: Box<ReadDocumentError>,
    },
}

impl RegistryError {
    /// Whether nobody answered, or somebody who has a trouble of his own: what the registry has is not known.
    pub fn is_no_answer(&self) -> bool {
        let Self::Registry { source, .. } = self else {
            return false;
        };
        match source.as_ref() {
            OciDistributionError::RequestError(_) | OciDistributionError::IoError(_) => true,
            OciDistributionError::ServerError { code, .. } => *code >= 500,
            _ => false,
        }
    }
}

/// One image in a registry, over `https`; over plain `http` on this machine's own addresses, or if that was asked for.
#[derive(Clone)]
pub struct RegistrySource {
    client: Arc<Client>,
    reader: Reader,
    image: Reference,
    auth: RegistryAuth,
}

impl RegistrySource {
    /// Prepares to use an image. `roots` are PEM certificates to trust beside the system's; `plain_http` gives up protection.
    pub fn new(
        image: &RegistryImage,
        login: Option<Login>,
        roots: Vec<Vec<u8>>,
        plain_http: bool,
    ) -> Result<Self, RegistryError> {
        // The client's library takes the process's provider; if there is one already, that is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let registry = image.0.resolve_registry().to_owned();
        let is_plain = plain_http || is_loopback(&registry);
        let reader = Reader::new(&image.0, is_plain, &roots);
        let reader = reader.map_err(|error| RegistryError::Setup(Box::new(error.into())))?;
        let protocol = match is_plain {
            true => ClientProtocol::HttpsExcept(vec![registry]),
            false => ClientProtocol::Https,
        };
        let certificate = |data| Certificate {
            encoding: CertificateEncoding::Pem,
            data,
        };
        // A registry that falls silent must not hold anybody for ever.
        let patience = HttpSettings::default();
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(patience.connect_timeout),
            read_timeout: Some(patience.read_timeout),
            extra_root_certificates: roots.into_iter().map(certificate).collect(),
            ..ClientConfig::default()
        };
        let client =
            Client::try_from(config).map_err(|error| RegistryError::Setup(Box::new(error)))?;
        let auth = match login {
            Some(login) => RegistryAuth::Basic(login.user, login.password),
            None => RegistryAuth::Anonymous,
        };
        Ok(Self {
            client: Arc::new(client),
            reader,
            image: image.0.clone(),
            auth,
        })
    }

    fn failed(
        &self,
        operation: &'static str,
    ) -> impl FnOnce(OciDistributionError) -> RegistryError {
        let image = self.image.to_string();
        move |source| RegistryError::Registry {
            operation,
            image,
            source: Box::new(source),
        }
    }

    /// What the image's name leads to.
    pub async fn resolve(&self) -> Result<Digest, RegistryError> {
        let limit = Limits::default().document_bytes;
        let manifest = async {
            let token = self.log_in().await?;
            let name = match (self.image.digest(), self.image.tag()) {
                (Some(digest), _) => digest,
                (None, tag) => tag.unwrap_or("latest"),
            };
            let answer = self
                .reader
                .get(Shelf::Manifests, name, 0, &token, &self.auth);
            reader::read(answer.await?, limit).await
        };
        let manifest = manifest.await.map_err(self.failed("find"))?;
        // What is asked for by its digest has to be that.
        match self.image.digest().map(str::parse::<Digest>) {
            None => Ok(hash::sha256(&manifest)),
            Some(Ok(digest)) if hash::is_of(&digest, &manifest) => Ok(digest),
            Some(_) => {
                let text = "the registry answers with another manifest than was asked for";
                let error = OciDistributionError::SpecViolationError(text.to_owned());
                Err(self.failed("find")(error))
            }
        }
    }

    /// What the registry wants to see to let this be read, if it wants any.
    async fn log_in(&self) -> Result<Token, OciDistributionError> {
        let token = self
            .client
            .auth(&self.image, &self.auth, RegistryOperation::Pull);
        token.await.map(Token)
    }

    fn place(&self, shelf: Shelf, digest: Digest, token: &Token) -> Box<dyn BlobPlace> {
        Box::new(RegistryPlace {
            name: format!("{} of {}", shelf.name(), self.image.repository()),
            source: self.clone(),
            shelf,
            digest,
            token: token.clone(),
        })
    }

    /// Uploads an image of a layout under this image's name, with everything that it refers to, the item configuration included.
    /// What the registry has already is not sent again.
    pub async fn push(&self, layout: &LayoutSource, digest: Digest) -> Result<(), RegistryError> {
        self.client
            .auth(&self.image, &self.auth, RegistryOperation::Push)
            .await
            .map_err(self.failed("log in for"))?;
        self.push_document(layout, digest, self.image.clone(), MAX_DEPTH)
            .await
    }

    fn push_document<'a>(
        &'a self,
        layout: &'a LayoutSource,
        digest: Digest,
        name: Reference,
        depth: usize,
    ) -> BoxFuture<'a, Result<(), RegistryError>> {
        Box::pin(async move {
            let bytes = layout
                .read_document(&digest)
                .map_err(RegistryError::Layout)?;
            let document = Document::read(&bytes, &Limits::default()).map_err(|source| {
                RegistryError::Document {
                    digest,
                    source: Box::new(source),
                }
            })?;
            let media_type = match &document {
                Document::Index(index) if depth > 0 => {
                    for entry in &index.manifests {
                        let digest = entry.descriptor.digest;
                        let name = self.image.clone_with_digest(digest.to_string());
                        self.push_document(layout, digest, name, depth - 1).await?;
                    }
                    MediaType::Index
                }
                Document::Index(_) => MediaType::Index,
                Document::Manifest(manifest) => {
                    for blob in manifest.blobs() {
                        self.push_blob(layout, blob).await?;
                    }
                    MediaType::Manifest
                }
            };
            let declared = declared_type(&bytes).unwrap_or_else(|| media_type.name().to_owned());
            let content_type = declared.parse().unwrap_or_else(|_| {
                reqwest::header::HeaderValue::from_static("application/octet-stream")
            });
            self.client
                .push_manifest_raw(&name, bytes, content_type)
                .await
                .map_err(self.failed("push the manifest of"))
                .map(drop)
        })
    }

    async fn push_blob(
        &self,
        layout: &LayoutSource,
        blob: &Descriptor,
    ) -> Result<(), RegistryError> {
        let digest = blob.digest.to_string();
        let is_there = self.client.blob_exists(&self.image, &digest).await;
        if is_there.map_err(self.failed("look for a blob of"))? {
            return Ok(());
        }
        let file = layout
            .open_blob(&blob.digest)
            .map_err(RegistryError::Layout)?;
        let (file, length) = (file.get_ref().try_clone(), file.limit());
        let file = file.map_err(|error| self.failed("read a blob of")(error.into()))?;
        let file = tokio::io::AsyncReadExt::take(tokio::fs::File::from_std(file), length);
        let bytes = ReaderStream::with_capacity(file, 64 << 10).map_err(OciDistributionError::from);
        self.client
            .push_blob_stream(&self.image, bytes, &digest, Some(blob.size))
            .await
            .map_err(self.failed("push a blob of"))
            .map(drop)
    }
}

/// The registry serves a document under the type that it was pushed with, so it is the document's own word.
fn declared_type(document: &[u8]) -> Option<String> {
    let document: serde_json::Value = serde_json::from_slice(document).ok()?;
    Some(document.get("mediaType")?.as_str()?.to_owned())
}

fn is_loopback(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

impl fmt::Debug for RegistrySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistrySource")
            .field("image", &self.image.to_string())
            .finish_non_exhaustive()
    }
}

impl BlobSource for RegistrySource {
    /// A registry keeps documents apart from other blobs, and a digest does not say which it is of: both are asked.
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move {
            let token = self.log_in().await?;
            let shelves = [Shelf::Blobs, Shelf::Manifests];
            let places = shelves.map(|shelf| self.place(shelf, digest, &token));
            Ok(places.into())
        })
    }

    fn content_places(
        &self,
        digest: Digest,
    ) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move {
            let token = self.log_in().await?;
            Ok(vec![self.place(Shelf::Blobs, digest, &token)])
        })
    }
}

struct RegistryPlace {
    name: String,
    source: RegistrySource,
    shelf: Shelf,
    digest: Digest,
    token: Token,
}

impl RegistryPlace {
    async fn read(&self, from: u64) -> Result<BlobStream, OciDistributionError> {
        let (digest, source) = (self.digest.to_string(), &self.source);
        let answer = source
            .reader
            .get(self.shelf, &digest, from, &self.token, &source.auth);
        reader::stream(answer.await?, from)
    }
}

impl BlobPlace for RegistryPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        Box::pin(async move {
            self.read(from)
                .await
                .map_err(|source| OpenBlobError::Failed {
                    place: self.name.clone(),
                    source: source.into(),
                })
        })
    }
}
