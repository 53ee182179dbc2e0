//! What a registry gives, as it comes.
//!
//! The client's library reads manifests and excuses to their ends before anybody sees any of them, and how long they are is up to
//! whoever answers. So what is read is asked for here, and no more of it is in memory than its reader takes.

use std::io;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use oci_client::Reference;
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use reqwest::header::{ACCEPT, RANGE};
use reqwest::{Certificate, Client, Response, StatusCode};

use crate::source::url::range_start;
use crate::source::{BlobStream, HttpSettings};

/// What is read of an answer that gives nothing, to say why.
const MAX_EXCUSE: usize = 4 << 10;
const DOCUMENTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

/// What a registry gave to whoever logged in, if it gave anything. Never shown.
#[derive(Clone)]
pub(super) struct Token(pub(super) Option<String>);

/// A registry keeps manifests and indexes apart from other blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shelf {
    Manifests,
    Blobs,
}

impl Shelf {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Blobs => "blobs",
        }
    }
}

/// Reads from one repository.
#[derive(Clone)]
pub(super) struct Reader {
    client: Client,
    /// `https://host/v2/name`.
    repository: Arc<str>,
    /// What a mirror has to know behind each name.
    behind: Arc<str>,
}

impl Reader {
    /// `roots` are PEM certificates to trust beside the system's.
    pub(super) fn new(
        image: &Reference,
        is_plain: bool,
        roots: &[Vec<u8>],
    ) -> Result<Self, reqwest::Error> {
        let roots = roots.iter().map(|root| Certificate::from_pem(root));
        let roots: Vec<Certificate> = roots.collect::<Result<_, _>>()?;
        // A registry that falls silent must not hold anybody for ever.
        let patience = HttpSettings::default();
        let client = Client::builder()
            .tls_certs_merge(roots)
            .connect_timeout(patience.connect_timeout)
            .read_timeout(patience.read_timeout)
            .build()?;
        let scheme = if is_plain { "http" } else { "https" };
        let (host, name) = (image.resolve_registry(), image.repository());
        let behind = image.namespace().map(|it| format!("?ns={it}"));
        Ok(Self {
            client,
            repository: format!("{scheme}://{host}/v2/{name}").into(),
            behind: behind.unwrap_or_default().into(),
        })
    }

    /// Asks for something by its digest, or for a manifest by its tag. A registry that gave no token may want the login itself.
    pub(super) async fn get(
        &self,
        shelf: Shelf,
        name: &str,
        from: u64,
        token: &Token,
        auth: &RegistryAuth,
    ) -> Result<Response, OciDistributionError> {
        let url = format!("{}/{}/{name}{}", self.repository, shelf.name(), self.behind);
        let mut request = self.client.get(&url);
        if shelf == Shelf::Manifests {
            request = request.header(ACCEPT, DOCUMENTS);
        } else if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        request = match (&token.0, auth) {
            (Some(token), _) => request.bearer_auth(token),
            (None, RegistryAuth::Basic(user, password)) => request.basic_auth(user, Some(password)),
            (None, _) => request,
        };
        let answer = request.send().await?;
        match answer.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            StatusCode::UNAUTHORIZED => Err(OciDistributionError::UnauthorizedError { url }),
            status => Err(OciDistributionError::ServerError {
                code: status.as_u16(),
                url,
                message: excuse(answer).await,
            }),
        }
    }
}

/// The beginning of what somebody says who gives nothing.
async fn excuse(mut answer: Response) -> String {
    let mut text = Vec::new();
    while text.len() < MAX_EXCUSE
        && let Ok(Some(piece)) = answer.chunk().await
    {
        text.extend_from_slice(&piece[..piece.len().min(MAX_EXCUSE - text.len())]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// All of an answer, which has at most so many bytes.
pub(super) async fn read(
    mut answer: Response,
    limit: usize,
) -> Result<Vec<u8>, OciDistributionError> {
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if piece.len() > limit - bytes.len() {
            let text = format!("the answer has more than {limit} bytes");
            return Err(OciDistributionError::SpecViolationError(text));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// An answer for a reader who counts, and who asked for what is behind `from`.
pub(super) fn stream(answer: Response, from: u64) -> Result<BlobStream, OciDistributionError> {
    let from = match answer.status() {
        StatusCode::PARTIAL_CONTENT => match range_start(answer.headers()) {
            Some(start) if start <= from => start,
            _ => {
                let text = "it answers with another range than was asked for";
                return Err(OciDistributionError::SpecViolationError(text.to_owned()));
            }
        },
        _ => 0,
    };
    Ok(BlobStream {
        from,
        bytes: answer.bytes_stream().map_err(io::Error::other).boxed(),
    })
}
