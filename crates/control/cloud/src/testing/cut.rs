//! A connection that ends in the middle.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Fails after so many bytes, of both directions together.
#[derive(Debug)]
pub(super) struct Cut<T> {
    inner: T,
    left: Option<u64>,
}

impl<T> Cut<T> {
    pub(super) fn after(inner: T, left: Option<u64>) -> Self {
        Self { inner, left }
    }

    /// Uses so many of the bytes that are left; says how many there were.
    fn allowed(&self, wanted: usize) -> io::Result<usize> {
        let Some(left) = self.left else {
            return Ok(wanted);
        };
        match usize::try_from(left).unwrap_or(usize::MAX).min(wanted) {
            0 if wanted > 0 => Err(io::ErrorKind::ConnectionReset.into()),
            allowed => Ok(allowed),
        }
    }

    fn used(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.left = self.left.map(|left| left.saturating_sub(bytes));
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Cut<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [0; 4096];
        let allowed = self.allowed(buf.remaining().min(bytes.len()))?;
        let mut part = ReadBuf::new(&mut bytes[..allowed]);
        let read = Pin::new(&mut self.inner).poll_read(cx, &mut part);
        if let Poll::Ready(Ok(())) = read {
            buf.put_slice(part.filled());
            let count = part.filled().len();
            self.used(count);
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Cut<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let allowed = self.allowed(bytes.len())?;
        let written = Pin::new(&mut self.inner).poll_write(cx, &bytes[..allowed]);
        if let Poll::Ready(Ok(count)) = written {
            self.used(count);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
