//! Connections that can be counted and cut off from outside.
//!
//! The server library spawns a task per connection and lets nobody end it. A shutdown that is bounded
//! in time, whatever clients do, therefore takes the connection away from under the task.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use muster_tls::TlsIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use tracing::warn;

/// Pause after an accept that failed: out of descriptors or memory, the next one fails as well.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection whose other end can be named in a log line.
pub(super) trait Connection:
    AsyncRead + AsyncWrite + Connected + Send + Unpin + 'static
{
    fn peer(&self) -> String;
}

impl Connection for TlsIo {
    fn peer(&self) -> String {
        self.info().peer_addr().to_string()
    }
}

impl Connection for UnixStream {
    fn peer(&self) -> String {
        match self.peer_cred() {
            Ok(cred) => format!("user {}", cred.uid()),
            Err(_) => "unknown user".to_owned(),
        }
    }
}

/// The connections of a unix socket; an accept that fails is tried again.
pub(super) fn unix_connections(
    listener: UnixListener,
) -> impl Stream<Item = io::Result<UnixStream>> + Send {
    stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return Some((Ok(stream), listener)),
                Err(failed) => {
                    warn!(
                        error = &failed as &dyn StdError,
                        "cannot accept connections, trying again"
                    );
                    sleep(PAUSE).await;
                }
            }
        }
    })
}

/// The connections of a listener, each severed by one token, at most so many at a time.
pub(super) struct SeverableIncoming<S> {
    incoming: S,
    sever: CancellationToken,
    places: Arc<Semaphore>,
}

impl<S> SeverableIncoming<S> {
    pub(super) fn new(incoming: S, sever: CancellationToken, connections: usize) -> Self {
        let places = connections.min(Semaphore::MAX_PERMITS);
        Self {
            incoming,
            sever,
            places: Arc::new(Semaphore::new(places)),
        }
    }
}

impl<S, Io> Stream for SeverableIncoming<S>
where
    S: Stream<Item = io::Result<Io>> + Unpin,
    Io: Connection,
{
    type Item = io::Result<Severable<Io>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let io = match Pin::new(&mut self.incoming).poll_next(cx) {
                Poll::Ready(Some(Ok(io))) => io,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                warn!(
                    peer = io.peer(),
                    "closed a connection: there are as many as allowed"
                );
                continue;
            };
            let severed = Box::pin(self.sever.clone().cancelled_owned());
            return Poll::Ready(Some(Ok(Severable {
                io,
                severed,
                _place: place,
            })));
        }
    }
}

/// One connection.
pub(super) struct Severable<Io> {
    io: Io,
    severed: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: OwnedSemaphorePermit,
}

fn cut_off() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the server is shutting down",
    )
}

impl<Io: Connection> Connected for Severable<Io> {
    type ConnectInfo = Io::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

impl<Io: Connection> AsyncRead for Severable<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // A server always reads, so this is where it notices.
        if self.severed.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(cut_off()));
        }
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<Io: Connection> AsyncWrite for Severable<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
