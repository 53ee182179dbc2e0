//! Connections and answers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming as RequestBody};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_api::domain::Digest;
use muster_tls::{Incoming, ServerTls, TlsIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::blobs::BlobFolder;
use crate::request::{self, Piece};
use crate::token::TokenKey;

/// How much of a blob is in memory for one client.
const CHUNK: usize = 64 * 1024;
/// The longest head of a request.
const HEAD_BYTES: usize = 16 * 1024;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// What can be set about the server.
#[derive(Debug, Clone)]
pub struct FileServerConfig {
    /// How the nodes name this server in URLs, `host:port`; the port that is listened on where it is 0.
    pub advertised: (String, u16),
    /// How long a URL is good.
    pub url_lifetime: Duration,
    /// Connections; further ones are closed at once.
    pub connections: usize,
    /// Connections of one address.
    pub connections_per_peer: usize,
    /// A client that neither asks nor takes 64 KiB for so long is cut.
    pub patience: Duration,
}

impl FileServerConfig {
    /// The defaults, under this name.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            advertised: (host.into(), 0),
            url_lifetime: Duration::from_secs(60 * 60),
            connections: 1024,
            connections_per_peer: 64,
            patience: Duration::from_secs(30),
        }
    }
}

/// Why the server was not started.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for files")]
pub struct StartFileServerError {
    /// The address.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct FileServer {
    address: SocketAddr,
    urls: Urls,
    _stop: DropGuard,
}

/// Makes URLs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Urls(Arc<UrlParts>);

#[derive(Debug)]
struct UrlParts {
    key: Arc<TokenKey>,
    base: String,
    lifetime: Duration,
}

impl Urls {
    /// Where this blob can be fetched from now on, for a while. Whether it is there is not asked.
    pub fn of(&self, digest: &Digest) -> String {
        let expires = now().saturating_add(self.0.lifetime.as_secs());
        format!(
            "{}{}",
            self.0.base,
            request::target(&self.0.key, digest, expires)
        )
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl FileServer {
    /// Listens on `address` and serves what is in `blobs`.
    pub async fn start(
        address: SocketAddr,
        tls: &ServerTls,
        blobs: BlobFolder,
        key: TokenKey,
        config: FileServerConfig,
    ) -> Result<Self, StartFileServerError> {
        let failed = |source| StartFileServerError { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (host, port) = &config.advertised;
        let port = if *port == 0 { address.port() } else { *port };
        let scheme = if tls.is_insecure() { "http" } else { "https" };
        let host = match host.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => format!("[{address}]"),
            _ => host.clone(),
        };
        let key = Arc::new(key);
        let urls = Urls(Arc::new(UrlParts {
            key: Arc::clone(&key),
            base: format!("{scheme}://{host}:{port}"),
            lifetime: config.url_lifetime,
        }));
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared { blobs, key });
        tokio::spawn(listen(tls.incoming(listener), shared, config, stop.clone()));
        Ok(Self {
            address,
            urls,
            _stop: stop.drop_guard(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes URLs of this server.
    pub fn urls(&self) -> Urls {
        self.urls.clone()
    }
}

#[derive(Debug)]
struct Shared {
    blobs: BlobFolder,
    key: Arc<TokenKey>,
}

/// Who is connected how often.
#[derive(Debug, Default)]
struct Guests(Mutex<HashMap<IpAddr, usize>>);

/// A place that is given back when the connection ends.
struct Place {
    guests: Arc<Guests>,
    peer: IpAddr,
}

impl Guests {
    fn enter(self: &Arc<Self>, peer: IpAddr, limit: usize) -> Option<Place> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Place {
            guests: Arc::clone(self),
            peer,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let counts = &self.guests.0;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

async fn listen(
    mut incoming: Incoming,
    shared: Arc<Shared>,
    config: FileServerConfig,
    stop: CancellationToken,
) {
    let guests = Arc::new(Guests::default());
    // Dropped with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let connection = tokio::select! {
            connection = incoming.accept() => connection,
            Some(_) = connections.join_next() => continue,
            () = stop.cancelled() => return,
        };
        let Some(connection) = connection else {
            return;
        };
        let peer = connection.info().peer_addr().ip();
        let place = guests.enter(peer, config.connections_per_peer);
        let Some(place) = place.filter(|_| connections.len() < config.connections) else {
            tracing::warn!(%peer, "too many connections for files; one is closed");
            continue;
        };
        let (shared, patience) = (Arc::clone(&shared), config.patience);
        connections.spawn(async move {
            let _place = place;
            serve(connection, shared, patience).await;
        });
    }
}

/// Serves one connection until it ends or nothing moves on it any more.
async fn serve(connection: TlsIo, shared: Arc<Shared>, patience: Duration) {
    let peer = connection.info().peer_addr();
    let moved = Arc::new(AtomicU64::new(0));
    let service = {
        let moved = Arc::clone(&moved);
        service_fn(move |request: Request<RequestBody>| {
            moved.fetch_add(1, Ordering::Relaxed);
            let (shared, moved) = (Arc::clone(&shared), Arc::clone(&moved));
            async move { Ok::<_, Infallible>(answer(&shared, &request, moved).await) }
        })
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(connection), service);
    let mut connection = std::pin::pin!(connection);
    let mut seen = moved.load(Ordering::Relaxed);
    loop {
        match tokio::time::timeout(patience, connection.as_mut()).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => {
                tracing::debug!(%peer, %error, "a connection for files ended early");
                return;
            }
            Err(_) => {
                let moved = moved.load(Ordering::Relaxed);
                if moved == seen {
                    tracing::debug!(%peer, "a connection for files stands still and is cut");
                    return;
                }
                seen = moved;
            }
        }
    }
}

fn empty(status: StatusCode) -> Response<Body> {
    let body = Empty::new().map_err(|never: Infallible| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = status;
    response
}

async fn answer(
    shared: &Arc<Shared>,
    request: &Request<RequestBody>,
    moved: Arc<AtomicU64>,
) -> Response<Body> {
    let wanted = match request::wanted(&shared.key, now(), request.method(), request.uri()) {
        Ok(wanted) => wanted,
        Err(status) => return empty(status),
    };
    let digest = wanted.digest;
    let opened = {
        let shared = Arc::clone(shared);
        tokio::task::spawn_blocking(move || shared.blobs.blob(&digest)).await
    };
    let blob = match opened.unwrap_or_else(|broken| Err(io::Error::other(broken))) {
        Ok(Some(blob)) => blob,
        Ok(None) => return empty(StatusCode::NOT_FOUND),
        Err(error) => {
            tracing::error!(%digest, %error, "cannot open a blob that a node asks for");
            return empty(StatusCode::INTERNAL_SERVER_ERROR);
        }
    };
    let Some(piece) = request::piece(request.headers(), &digest, blob.length) else {
        let mut response = empty(StatusCode::RANGE_NOT_SATISFIABLE);
        let range = format!("bytes */{}", blob.length);
        insert(&mut response, CONTENT_RANGE, &range);
        return response;
    };
    let mut response = if wanted.head {
        empty(StatusCode::OK)
    } else {
        let chunks = chunks(blob.file, piece, moved);
        Response::new(UnsyncBoxBody::new(StreamBody::new(chunks)))
    };
    if piece.partial {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let last = piece.start + piece.length - 1;
        let range = format!("bytes {}-{last}/{}", piece.start, blob.length);
        insert(&mut response, CONTENT_RANGE, &range);
    }
    insert(&mut response, CONTENT_LENGTH, &piece.length.to_string());
    insert(&mut response, CONTENT_TYPE, "application/octet-stream");
    insert(&mut response, ACCEPT_RANGES, "bytes");
    insert(&mut response, ETAG, &request::etag(&digest));
    response
}

fn insert(response: &mut Response<Body>, name: http::HeaderName, value: &str) {
    // Every value is made of digits and hexadecimal, so none is refused.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// The piece in chunks, each read when the client has taken the one before.
fn chunks(
    file: File,
    piece: Piece,
    moved: Arc<AtomicU64>,
) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send {
    let end = piece.start + piece.length;
    stream::try_unfold((Arc::new(file), piece.start), move |(file, at)| {
        moved.fetch_add(1, Ordering::Relaxed);
        async move {
            if at >= end {
                return Ok(None);
            }
            let length = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let reader = Arc::clone(&file);
            let read = tokio::task::spawn_blocking(move || {
                let mut buffer = vec![0; length];
                reader.read_exact_at(&mut buffer, at)?;
                Ok::<_, io::Error>(buffer)
            });
            let buffer = read
                .await
                .unwrap_or_else(|broken| Err(io::Error::other(broken)))?;
            Ok(Some((
                Frame::data(Bytes::from(buffer)),
                (file, at + length as u64),
            )))
        }
    })
}
