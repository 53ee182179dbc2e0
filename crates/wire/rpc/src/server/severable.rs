//! Connections that can be counted and cut off from outside.
//!
//! The server library spawns a task per connection and lets nobody end it. A shutdown that is bounded
//! in time, whatever clients do, therefore takes the connection away from under the task.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use muster_tls::{Incoming, TlsConnectInfo, TlsIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;
use tracing::warn;

/// The connections of a listener, each severed by one token, at most so many at a time.
pub(super) struct SeverableIncoming {
    incoming: Incoming,
    sever: CancellationToken,
    places: Arc<Semaphore>,
}

impl SeverableIncoming {
    pub(super) fn new(incoming: Incoming, sever: CancellationToken, connections: usize) -> Self {
        let places = connections.min(Semaphore::MAX_PERMITS);
        Self {
            incoming,
            sever,
            places: Arc::new(Semaphore::new(places)),
        }
    }
}

impl Stream for SeverableIncoming {
    type Item = io::Result<Severable>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let io = match Pin::new(&mut self.incoming).poll_next(cx) {
                Poll::Ready(Some(Ok(io))) => io,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                let peer = io.info().peer_addr();
                warn!(%peer, "closed a connection: there are as many as allowed");
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
pub(super) struct Severable {
    io: TlsIo,
    severed: Pin<Box<WaitForCancellationFutureOwned>>,
    _place: OwnedSemaphorePermit,
}

fn cut_off() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the server is shutting down",
    )
}

impl Connected for Severable {
    type ConnectInfo = TlsConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.io.connect_info()
    }
}

impl AsyncRead for Severable {
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

impl AsyncWrite for Severable {
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
