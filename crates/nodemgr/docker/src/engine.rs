//! One engine: its version, plain requests through bollard, and connections that carry a process's streams.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error as Refusal;
use bollard::{BollardRequest, ClientVersion, Docker};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::OnceCell;

use crate::endpoint::Endpoint;

/// How long the engine may take for an answer to anything short.
const PATIENCE: Duration = Duration::from_secs(120);
/// The newest version of the API that this crate was written for, and the oldest that has what it needs.
const NEWEST: (usize, usize) = (1, 47);
const OLDEST: (usize, usize) = (1, 40);
/// What is read of an answer that is only an error's text.
const LONGEST_MESSAGE: usize = 64 << 10;

/// Why a request to an engine came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Nobody answers there.
    #[error("the Docker engine at {endpoint} does not answer")]
    Unreachable {
        /// Where.
        endpoint: Endpoint,
        /// What the connection said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It is too old.
    #[error("the Docker engine at {endpoint} speaks version {found} of its API; at least {}.{} is needed", OLDEST.0, OLDEST.1)]
    TooOld {
        /// Where.
        endpoint: Endpoint,
        /// What it says it speaks.
        found: String,
    },
    /// It answered that it will not.
    #[error("the Docker engine cannot {operation}: {message}")]
    Answered {
        /// What was asked.
        operation: &'static str,
        /// HTTP's word for it.
        status: u16,
        /// The engine's own words.
        message: String,
    },
    /// The request, or the answer, got lost or makes no sense.
    #[error("no usable answer of the Docker engine: {operation}")]
    Lost {
        /// What was asked.
        operation: &'static str,
        /// What went wrong.
        #[source]
        source: Refusal,
    },
}

impl EngineError {
    pub(crate) fn new(operation: &'static str, error: Refusal) -> Self {
        match error {
            Refusal::DockerResponseServerError {
                status_code,
                message,
            } => Self::Answered {
                operation,
                status: status_code,
                message: message.trim().to_owned(),
            },
            // In the middle of a stream there is no status any more.
            Refusal::DockerStreamError { error } => Self::Answered {
                operation,
                status: StatusCode::INTERNAL_SERVER_ERROR.as_u16(),
                message: error.trim().to_owned(),
            },
            source => Self::Lost { operation, source },
        }
    }

    /// HTTP's word for what the engine answered, if it did.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self {
            Self::Answered { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// A way to an engine. Clones share what is known about it; every request has a connection of its own.
#[derive(Clone)]
pub struct Engine {
    endpoint: Endpoint,
    /// Set with the first request: the engine's version decides how it is spoken to.
    docker: Arc<OnceCell<Docker>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Engine").field(&self.endpoint).finish()
    }
}

impl Engine {
    /// Names an engine. Nothing is connected yet.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            docker: Arc::default(),
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The client for plain requests, in a version of the API that both sides speak.
    pub(crate) async fn docker(&self) -> Result<&Docker, EngineError> {
        self.docker.get_or_try_init(|| self.negotiate()).await
    }

    async fn negotiate(&self) -> Result<Docker, EngineError> {
        let request = self.request(Method::GET, "/_ping", Bytes::new());
        let response = tokio::time::timeout(PATIENCE, send(&self.endpoint, request)).await;
        let response = response
            .unwrap_or(Err(Refusal::RequestTimeoutError))
            .map_err(|error| self.unreachable(error))?;
        let found = response.headers().get("api-version");
        let found = found.and_then(|value| value.to_str().ok()).unwrap_or("");
        let (major_version, minor_version) = match version(found) {
            Some(version) if version >= OLDEST => version.min(NEWEST),
            _ => {
                return Err(EngineError::TooOld {
                    endpoint: self.endpoint.clone(),
                    found: found.to_owned(),
                });
            }
        };
        let version = ClientVersion {
            major_version,
            minor_version,
        };
        let endpoint = self.endpoint.clone();
        let transport = move |request: BollardRequest| {
            let endpoint = endpoint.clone();
            async move { send(&endpoint, request).await }
        };
        // Only its path is used: the connection is made by `send`.
        let address = Some("http://localhost");
        Docker::connect_with_custom_transport(transport, address, PATIENCE.as_secs(), &version)
            .map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, error: Refusal) -> EngineError {
        EngineError::Unreachable {
            endpoint: self.endpoint.clone(),
            source: error.into(),
        }
    }

    fn request(&self, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap_or_default();
        request
    }

    /// Begins what answers with a connection of raw bytes in both directions.
    pub(crate) async fn upgrade(
        &self,
        operation: &'static str,
        path: &str,
        body: Bytes,
    ) -> Result<TokioIo<Upgraded>, EngineError> {
        let version = self.docker().await?.client_version();
        let path = format!("/v{version}{path}");
        let mut request = self.request(Method::POST, &path, body);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("tcp"));
        let response = tokio::time::timeout(PATIENCE, send(&self.endpoint, request)).await;
        let response = response
            .unwrap_or(Err(Refusal::RequestTimeoutError))
            .map_err(|error| EngineError::new(operation, error))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(operation, response).await);
        }
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded.map_err(|err| EngineError::new(operation, Refusal::from(err)))?;
        Ok(TokioIo::new(upgraded))
    }
}

/// What an answer that is no success says.
async fn refused(operation: &'static str, response: Response<Incoming>) -> EngineError {
    #[derive(serde::Deserialize)]
    struct Message {
        message: String,
    }
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), LONGEST_MESSAGE);
    let bytes = body.collect().await.map(|body| body.to_bytes());
    let bytes = bytes.unwrap_or_default();
    let message = match serde_json::from_slice::<Message>(&bytes) {
        Ok(it) => it.message,
        Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
    };
    EngineError::Answered {
        operation,
        status,
        message: message.trim().to_owned(),
    }
}

fn version(text: &str) -> Option<(usize, usize)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// One request over a connection of its own. What the engine is busy with for long then holds nobody else up.
async fn send<B>(
    endpoint: &Endpoint,
    mut request: Request<B>,
) -> Result<Response<Incoming>, Refusal>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connection = endpoint.connect().await?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(connection));
    let (mut sender, connection) = handshake.await?;
    // Ends with the exchange, or when the body or the upgraded connection is dropped.
    tokio::spawn(connection.with_upgrades());
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(Uri::default, Uri::from);
    let host = HeaderValue::try_from(endpoint.authority()).map_err(http::Error::from)?;
    request.headers_mut().insert(HOST, host);
    Ok(sender.send_request(request).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("1.41"), Some((1, 41)));
        for wrong in ["", "1", "1.", "a.b", "1.2.3"] {
            assert_eq!(version(wrong), None, "{wrong}");
        }
    }

    /// It took the connection, and that is all: nobody waits for it for ever. Time passes as soon as nothing else happens.
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_says_nothing_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let engine = Engine::new(Endpoint::Unix(path));
        let asked = tokio::time::Instant::now();
        let error = engine.docker().await.unwrap_err();
        assert!(
            matches!(error, EngineError::Unreachable { .. }),
            "{error:?}"
        );
        assert_eq!(asked.elapsed(), PATIENCE);
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_named() {
        let engine = Engine::new("unix:///no/such/docker.sock".parse().unwrap());
        let error = engine.docker().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the Docker engine at unix:///no/such/docker.sock does not answer"
        );
    }
}
