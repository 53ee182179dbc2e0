//! Blobs behind URLs that somebody else knows: `https`, `http` and `file`.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt};
use muster_api::domain::Digest;
use muster_tls::rustls;
use reqwest::header::{CONTENT_RANGE, HeaderMap, RANGE};
use reqwest::{Client, StatusCode, Url};

use super::file::FilePlace;
use super::{BlobPlace, BlobSource, BlobStream, BoxError, OpenBlobError};

/// Whoever knows the URLs of blobs: under a controller its `GetBlobsInfos`.
pub trait BlobUrls: fmt::Debug + Send + Sync + 'static {
    /// The URLs of a blob, the best first.
    fn urls(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<String>, BoxError>>;
}

/// How URLs are asked.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Until a connection is there.
    pub connect_timeout: Duration,
    /// Between two pieces of an answer.
    pub read_timeout: Duration,
    /// Whom to trust behind `https`, and who this is. Without, no `https` server is trusted.
    pub tls: Option<rustls::ClientConfig>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// The client that asks URLs could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot set the HTTP client up")]
pub struct HttpSetupError(#[source] BoxError);

/// Asks URLs. Clones share connections.
#[derive(Debug, Clone)]
pub struct UrlClient(Client);

impl UrlClient {
    /// Sets a client up; nothing is asked yet.
    pub fn new(settings: HttpSettings) -> Result<Self, HttpSetupError> {
        let tls = match settings.tls {
            Some(tls) => tls,
            None => trusting_nobody().map_err(|error| HttpSetupError(error.into()))?,
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .connect_timeout(settings.connect_timeout)
            .read_timeout(settings.read_timeout)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|error| HttpSetupError(error.into()))?;
        Ok(Self(client))
    }

    /// What stands behind a URL. One that cannot be asked fails when its turn comes.
    pub fn place(&self, url: &str) -> Box<dyn BlobPlace> {
        place(url, &self.0)
    }
}

/// Blobs behind the URLs that [`BlobUrls`] gives.
pub struct UrlSource {
    urls: Arc<dyn BlobUrls>,
    client: UrlClient,
}

impl UrlSource {
    /// Asks `urls` where blobs are.
    pub fn new(urls: Arc<dyn BlobUrls>, settings: HttpSettings) -> Result<Self, HttpSetupError> {
        let client = UrlClient::new(settings)?;
        Ok(Self { urls, client })
    }
}

fn trusting_nobody() -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty());
    Ok(config.with_no_client_auth())
}

impl fmt::Debug for UrlSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlSource")
            .field("urls", &self.urls)
            .finish_non_exhaustive()
    }
}

impl BlobSource for UrlSource {
    fn places(&self, digest: Digest) -> BoxFuture<'_, Result<Vec<Box<dyn BlobPlace>>, BoxError>> {
        Box::pin(async move {
            let urls = self.urls.urls(digest).await?;
            Ok(urls.iter().map(|url| self.client.place(url)).collect())
        })
    }
}

fn place(url: &str, client: &Client) -> Box<dyn BlobPlace> {
    let refused = |name: String, reason: &'static str| Box::new(RefusedPlace { name, reason });
    let Ok(url) = Url::parse(url) else {
        return refused("a URL that is none".to_owned(), "it cannot be read");
    };
    let name = shown(&url);
    match url.scheme() {
        "http" | "https" => Box::new(HttpPlace {
            name,
            url,
            client: client.clone(),
        }),
        "file" => match url.to_file_path() {
            Ok(path) => Box::new(FilePlace {
                name,
                path,
                part: None,
            }),
            Err(()) => refused(name, "it names no file of this node"),
        },
        _ => refused(name, "only https, http and file are known"),
    }
}

/// A URL without what may be secret: user, password, query.
fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url
        .port()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}{}", url.scheme(), url.path())
}

/// A URL that cannot be asked. It fails when its turn comes, so that the others are tried.
struct RefusedPlace {
    name: String,
    reason: &'static str,
}

impl BlobPlace for RefusedPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, _from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        let place = self.name.clone();
        let source = self.reason.into();
        Box::pin(std::future::ready(Err(OpenBlobError::Failed {
            place,
            source,
        })))
    }
}

struct HttpPlace {
    name: String,
    url: Url,
    client: Client,
}

impl HttpPlace {
    fn failed(&self, source: impl Into<BoxError>) -> OpenBlobError {
        OpenBlobError::Failed {
            place: self.name.clone(),
            source: source.into(),
        }
    }

    async fn get(&self, from: u64) -> Result<BlobStream, OpenBlobError> {
        let mut request = self.client.get(self.url.clone());
        if from > 0 {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        // The error would show the URL with its query.
        let response = request.send().await;
        let response = response.map_err(|error| self.failed(error.without_url()))?;
        let place = self.name.clone();
        let from = match response.status() {
            StatusCode::OK => 0,
            StatusCode::PARTIAL_CONTENT => match range_start(response.headers()) {
                Some(start) if start <= from => start,
                _ => return Err(self.failed("it answers with another range than was asked for")),
            },
            StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
                return Err(OpenBlobError::Stale { place });
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                return Err(OpenBlobError::Missing { place });
            }
            status => return Err(self.failed(format!("it answers {status}"))),
        };
        let bytes = response.bytes_stream();
        Ok(BlobStream {
            from,
            bytes: bytes
                .map_err(|error| io::Error::other(error.without_url()))
                .boxed(),
        })
    }
}

impl BlobPlace for HttpPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, from: u64) -> BoxFuture<'_, Result<BlobStream, OpenBlobError>> {
        Box::pin(self.get(from))
    }
}

/// The `5` of `bytes 5-9/10`.
pub(super) fn range_start(headers: &HeaderMap) -> Option<u64> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let (start, _) = value.trim().strip_prefix("bytes ")?.split_once('-')?;
    start.trim().parse().ok()
}
