//! One HTTP/2 connection that carries one stream and its probes, and never reconnects.
//!
//! A channel that silently dials again would let a probe be answered by another connection than the
//! one a message was written to. So each attempt makes its own connection, with its own tasks, and
//! dropping [`Connection`] ends all of them, whatever the peer does.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use muster_tls::{ClientTls, ConnectTlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;

use crate::ledger::{Ledger, Recorded};

/// A boxed future, as object-safe traits return it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A byte stream to the peer, encrypted if it has to be.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Makes connections to one peer.
pub trait Dial: Send + Sync + 'static {
    /// One attempt. It may be dropped at any point.
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>>;

    /// Scheme and authority for the requests, such as `https://main:8093`.
    fn origin(&self) -> Uri;
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The peer cannot be reached, or is not who it should be.
    #[error("cannot connect")]
    Connect(#[source] ConnectTlsError),
    /// The transport cannot be made.
    #[error("cannot open the transport")]
    Transport(#[source] io::Error),
    /// The peer does not speak HTTP/2.
    #[error("the HTTP/2 handshake failed")]
    Handshake(#[source] hyper::Error),
}

/// HTTP/2 keepalive, also while nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// A ping goes out after so much silence.
    pub interval: Duration,
    /// A ping unanswered for so long ends the connection.
    pub timeout: Duration,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(3),
        }
    }
}

/// Where a server listens, in the form that a configuration holds.
#[derive(Clone, Debug)]
pub struct Target {
    tls: ClientTls,
    origin: Uri,
    host: String,
    port: u16,
}

/// An address does not say where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server address {address:?} is not of the form host:port")]
pub struct TargetError {
    /// What was given.
    pub address: String,
}

impl Target {
    /// `address` is `host:port`; an IPv6 host stands in brackets.
    pub fn new(tls: ClientTls, address: &str) -> Result<Self, TargetError> {
        let refused = || TargetError {
            address: address.to_owned(),
        };
        // Whether TLS is spoken was decided by `tls`; the scheme is only a name in the request.
        let origin: Uri = format!("https://{address}")
            .parse()
            .map_err(|_| refused())?;
        let port = origin.port_u16().ok_or_else(refused)?;
        let host = origin
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(refused)?;
        if origin.path() != "/" || origin.query().is_some() || address.contains('@') {
            return Err(refused());
        }
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        Ok(Self {
            tls,
            origin,
            host,
            port,
        })
    }

    pub(crate) fn tls(&self) -> &ClientTls {
        &self.tls
    }
}

impl Dial for Target {
    fn dial(&self) -> BoxFuture<Result<Box<dyn Transport>, DialError>> {
        let Self {
            tls, host, port, ..
        } = self.clone();
        Box::pin(async move {
            let io = tls.connect(&host, port).await.map_err(DialError::Connect)?;
            Ok(Box::new(io) as Box<dyn Transport>)
        })
    }

    fn origin(&self) -> Uri {
        self.origin.clone()
    }
}

/// Spawns the tasks of one connection so that they can all be ended with it.
#[derive(Clone, Debug, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let mut set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What has ended is let go of here, or a long-lived connection would collect it.
        while set.try_join_next().is_some() {}
        set.spawn(async move {
            task.await;
        });
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Connection {
    requests: SendRequest<Body>,
    ledger: Arc<Ledger>,
    origin: Uri,
    closed: CancellationToken,
    /// Ends the tasks when dropped.
    _tasks: EndTasks,
}

impl Connection {
    pub(crate) async fn open(dial: &dyn Dial, keepalive: Keepalive) -> Result<Self, DialError> {
        let io = dial.dial().await?;
        let (io, ledger) = Recorded::new(io);
        let tasks = Tasks::default();
        // From here on, also an attempt that is given up during the handshake leaves no task.
        let end_tasks = EndTasks(tasks.clone());
        let (requests, driver) = Builder::new(tasks.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(keepalive.interval)
            .keep_alive_timeout(keepalive.timeout)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(io))
            .await
            .map_err(DialError::Handshake)?;
        let closed = CancellationToken::new();
        let on_end = closed.clone().drop_guard();
        hyper::rt::Executor::execute(&tasks, async move {
            // Its outcome reaches the stream as well, which is where it is handled.
            let _ = driver.await;
            drop(on_end);
        });
        Ok(Self {
            requests,
            ledger,
            origin: dial.origin(),
            closed,
            _tasks: end_tasks,
        })
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// For a gRPC client. The first request is the one that the ledger follows.
    pub(crate) fn service(&self) -> ConnectionService {
        ConnectionService(self.requests.clone())
    }

    pub(crate) fn origin(&self) -> Uri {
        self.origin.clone()
    }

    /// Returns when the connection is gone; the stream may still hold data that came before.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// A round trip behind everything the ledger has counted so far. Any answer is an answer: a peer
    /// without a health service says so, and that too took the whole way there and back.
    pub(crate) fn probe(&self) -> BoxFuture<bool> {
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(PathAndQuery::from_static("/grpc.health.v1.Health/Check"));
        let uri = Uri::from_parts(parts).expect("an origin and a path make an address");
        // An empty message: flag and length.
        let body = Body::new(Full::new(Bytes::from_static(&[0; 5])));
        let request = Request::post(uri)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(body)
            .expect("constant headers are valid");
        let answer = self.requests.clone().send_request(request);
        Box::pin(async move { answer.await.is_ok() })
    }
}

#[derive(Debug)]
struct EndTasks(Tasks);

impl Drop for EndTasks {
    fn drop(&mut self) {
        self.0
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .abort_all();
    }
}

/// A [`Connection`] as tonic's client wants it.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionService(SendRequest<Body>);

impl tower_service::Service<Request<Body>> for ConnectionService {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use muster_tls::{ClientOptions, Insecure};

    use super::*;

    #[test]
    fn addresses_of_servers() {
        let permission = Insecure::because("a test that never connects").unwrap();
        let tls = ClientTls::insecure(&permission, ClientOptions::default());
        let cases = [
            ("main:8093", Some(("main", 8093))),
            ("10.0.0.1:8090", Some(("10.0.0.1", 8090))),
            ("[fd00::1]:8090", Some(("fd00::1", 8090))),
            ("main", None),
            (":8093", None),
            ("", None),
            ("main:0x1", None),
            ("main:99999", None),
            ("main:8093/path", None),
            ("main:8093?query", None),
            ("user@main:8093", None),
            ("https://main:8093", None),
        ];
        for (address, expected) in cases {
            let target = Target::new(tls.clone(), address).ok();
            let found = target
                .as_ref()
                .map(|target| (target.host.as_str(), target.port));
            assert_eq!(found, expected, "{address:?}");
        }
    }
}
