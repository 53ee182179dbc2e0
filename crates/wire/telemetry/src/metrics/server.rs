//! A very small HTTP server for scrapers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::MetricsAddress;
use crate::ErrorChain;

/// Connections at most. One more pushes the oldest out: a scrape takes milliseconds, so the oldest
/// is the one that does nothing, and slow clients cannot keep a scraper away.
const MAX_CONNECTIONS: usize = 16;
/// How long a request's head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may live.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_HEAD_BYTES: usize = 8 << 10;
const MAX_HEADERS: usize = 64;
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// How long to wait when no connection can be accepted, for instance without free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeMetricsError {
    /// The address cannot be listened on.
    #[error("cannot serve metrics on {address}")]
    Bind {
        /// The address.
        address: MetricsAddress,
        /// What the system said.
        source: io::Error,
    },
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
}

/// The unix socket's file, which goes when the server goes.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "cannot remove the metrics socket");
        }
    }
}

/// Serves a registry as OpenMetrics text at `/metrics`.
#[derive(Debug)]
pub struct MetricsServer {
    listener: Listener,
    address: MetricsAddress,
    registry: Arc<Registry>,
}

impl MetricsServer {
    /// Listens on `address`. A unix socket is for its owner only; one that a killed process left
    /// behind is replaced.
    ///
    /// # Errors
    /// The address cannot be had.
    pub async fn bind(
        address: &MetricsAddress,
        registry: Arc<Registry>,
    ) -> Result<Self, ServeMetricsError> {
        let failed = |source| ServeMetricsError::Bind {
            address: address.clone(),
            source,
        };
        let (listener, bound) = match address {
            MetricsAddress::Loopback(socket) => {
                let listener = TcpListener::bind(socket).await.map_err(failed)?;
                let bound = listener.local_addr().map_err(failed)?;
                (Listener::Tcp(listener), MetricsAddress::Loopback(bound))
            }
            MetricsAddress::Unix(path) => {
                let listener = bind_unix(path).map_err(failed)?;
                (
                    Listener::Unix {
                        listener,
                        _file: SocketFile(path.clone()),
                    },
                    address.clone(),
                )
            }
        };
        Ok(Self {
            listener,
            address: bound,
            registry,
        })
    }

    /// The address, with the port that the system chose where 0 was asked for.
    pub fn address(&self) -> &MetricsAddress {
        &self.address
    }

    /// Serves until `stop` is cancelled.
    pub async fn serve(self, stop: CancellationToken) {
        let mut connections = Connections::default();
        loop {
            let accepted = match &self.listener {
                Listener::Tcp(listener) => {
                    let accept = async { listener.accept().await.map(|(stream, _)| stream) };
                    let Some(stream) = stop.run_until_cancelled(accept).await else {
                        return;
                    };
                    stream.map(|stream| connections.serve(stream, &self.registry))
                }
                Listener::Unix { listener, .. } => {
                    let accept = async { listener.accept().await.map(|(stream, _)| stream) };
                    let Some(stream) = stop.run_until_cancelled(accept).await else {
                        return;
                    };
                    stream.map(|stream| connections.serve(stream, &self.registry))
                }
            };
            if let Err(error) = accepted {
                tracing::warn!(error = %ErrorChain(&error), "cannot accept a metrics connection");
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE))
                    .await;
            }
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let left_behind = std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if left_behind {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The connections being served, the oldest first.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    handles: VecDeque<AbortHandle>,
}

impl Connections {
    fn serve<S>(&mut self, stream: S, registry: &Arc<Registry>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        while self.tasks.try_join_next().is_some() {}
        self.handles.retain(|handle| !handle.is_finished());
        if self.handles.len() >= MAX_CONNECTIONS
            && let Some(oldest) = self.handles.pop_front()
        {
            oldest.abort();
        }
        let registry = Arc::clone(registry);
        let service = service_fn(move |request| {
            let response = respond(&request, &registry);
            async move { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD_BYTES)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let handle = self.tasks.spawn(async move {
            match timeout(CONNECTION_TIMEOUT, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(error = %ErrorChain(&error), "a metrics connection failed");
                }
                Err(_) => tracing::debug!("a metrics connection took too long"),
            }
        });
        self.handles.push_back(handle);
    }
}

fn respond(request: &Request<Incoming>, registry: &Registry) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "Only /metrics is here.\n");
    }
    if request.method() != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET is allowed.\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    let mut text = String::new();
    if encode(&mut text, registry).is_err() {
        return plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "A metric could not be written.\n",
        );
    }
    let mut response = Response::new(Full::new(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS);
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
