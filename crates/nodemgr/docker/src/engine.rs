//! One engine: its version, plain requests through bollard, and connections that carry a process's streams.

#[cfg(test)]
pub(crate) mod fake;
mod wire;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::errors::Error as Refusal;
use bollard::{BollardRequest, ClientVersion, Docker};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use self::wire::{exchange, plain, send, unreachable, version_of};
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
    known: Arc<Known>,
}

/// How an engine is spoken to, which its version decides: found out with the first request, and anew when it was upgraded.
#[derive(Default)]
struct Known(Mutex<Option<Docker>>);

impl Known {
    fn lock(&self) -> MutexGuard<'_, Option<Docker>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<Docker> {
        self.lock().clone()
    }

    fn set(&self, docker: Docker) {
        *self.lock() = Some(docker);
    }

    fn forget(&self) {
        *self.lock() = None;
    }
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
            known: Arc::default(),
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The client for plain requests, in a version of the API that both sides speak.
    pub(crate) async fn docker(&self) -> Result<Docker, EngineError> {
        if let Some(docker) = self.known.get() {
            return Ok(docker);
        }
        let docker = self.negotiate().await?;
        self.known.set(docker.clone());
        Ok(docker)
    }

    async fn negotiate(&self) -> Result<Docker, EngineError> {
        let (major_version, minor_version) = version_of(&self.endpoint).await?;
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
            .map_err(|error| unreachable(&self.endpoint, error))
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
        let mut request = plain(Method::POST, &path, body);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("tcp"));
        let answer = exchange(&self.endpoint, request, || self.known.forget());
        let response = tokio::time::timeout(PATIENCE, answer).await;
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

#[cfg(test)]
mod tests {
    use super::fake::{Answer, Fake};
    use super::*;

    /// It took the connection, and that is all: nobody waits for it for ever. Time passes as soon as nothing else happens.
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_says_nothing_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker.sock");
        let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let engine = Engine::new(Endpoint::Unix(path));
        let asked = tokio::time::Instant::now();
        let error = engine.docker().await.map(drop).unwrap_err();
        assert!(
            matches!(error, EngineError::Unreachable { .. }),
            "{error:?}"
        );
        assert_eq!(asked.elapsed(), PATIENCE);
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_named() {
        let engine = Engine::new("unix:///no/such/docker.sock".parse().unwrap());
        let error = engine.docker().await.map(drop).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the Docker engine at unix:///no/such/docker.sock does not answer"
        );
    }

    /// The newest version of the API that an engine speaks, and the oldest.
    type Versions = Arc<Mutex<(usize, usize)>>;

    /// An engine that can be upgraded.
    fn upgradable(versions: &Versions) -> Fake {
        let versions = Arc::clone(versions);
        Fake::start(move |asked| {
            let (newest, oldest) = *versions.lock().unwrap();
            let named = asked
                .split_once("/v1.")
                .and_then(|(_, rest)| rest.split_once('/'));
            let named = named.and_then(|(version, _)| version.parse::<usize>().ok());
            let (status, body) = match named {
                None => (200, ""),
                Some(version) if version < oldest => (400, "client version is too old"),
                Some(_) if asked.ends_with("/none") => (400, "it is wrong"),
                Some(_) => (101, ""),
            };
            std::future::ready(Answer {
                status,
                body: body.to_owned(),
                ..Answer::ping(newest)
            })
        })
    }

    #[tokio::test]
    async fn an_engine_that_was_upgraded_is_spoken_to_in_its_new_version_at_once() {
        let versions: Versions = Arc::new(Mutex::new((41, 24)));
        let fake = upgradable(&versions);
        let engine = fake.engine();
        let attach = async |path: &str| {
            let attached = engine.upgrade("attach", path, Bytes::new()).await;
            attached.map(drop)
        };
        attach("/exec/1/start").await.unwrap();
        assert_eq!(fake.asked("/v1.41/exec/1/start"), 1);
        *versions.lock().unwrap() = (52, 44);
        attach("/exec/2/start").await.unwrap();
        // From then on it is asked in no other.
        attach("/exec/3/start").await.unwrap();
        assert_eq!(fake.asked("/v1.41/exec"), 2);
        assert_eq!(fake.asked("/v1.47/exec"), 2);
        // What is refused for another reason is refused, and not asked again.
        let wrong = attach("/none").await.unwrap_err();
        assert_eq!(wrong.status(), Some(400));
        assert_eq!(fake.asked("/none"), 1);
    }
}
