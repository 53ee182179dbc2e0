//! A ledger of HTTP/2 frames: how much of a stream is in the socket, and whether the peer ended it.
//!
//! The HTTP/2 library does not say when the bytes of a message have left, and flow control may hold
//! them back while later frames of other streams pass. The ledger sits between the library and the
//! (already encrypted) connection and reads the nine-byte frame headers that go by. It follows one
//! stream, the first that a client opens; it never changes a byte.
//!
//! * Writing: payload bytes of DATA frames are counted as the connection accepts them. What goes
//!   into the connection later comes out later, so a request made after message *k* was counted
//!   reaches the peer behind message *k*.
//! * Reading: the end of the stream is noted before the library sees it, so an answer that is
//!   handed out while the stream is noted as alive was sent by the peer before it ended the stream.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// What a client sends before its first frame: `PRI * HTTP/2.0`, two blank lines, `SM` between.
const CLIENT_PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
/// Clients use odd ids from 1 on.
const FIRST_STREAM: u32 = 1;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 0x1;
const PADDED: u8 = 0x8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameHeader {
    length: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl FrameHeader {
    fn parse(raw: &[u8; FRAME_HEADER]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *raw;
        Self {
            length: usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2),
            kind,
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        }
    }

    /// DATA of the followed stream. Our library never pads; if it did, the frame would not be
    /// counted, which can only delay a confirmation.
    fn is_counted(self) -> bool {
        self.kind == DATA && self.stream == FIRST_STREAM && self.flags & PADDED == 0
    }

    fn ends_stream(self) -> bool {
        let ended = matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0;
        self.stream == FIRST_STREAM && (ended || self.kind == RST_STREAM)
    }
}

/// Cuts a byte stream into frames, whatever pieces it arrives in.
#[derive(Debug)]
struct Frames {
    /// Bytes of preface or payload still to pass.
    rest: usize,
    counted: bool,
    header: [u8; FRAME_HEADER],
    filled: usize,
}

/// What a piece of the byte stream contained.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    data: u64,
    ended: bool,
}

impl Frames {
    fn after(preface: usize) -> Self {
        Self {
            rest: preface,
            counted: false,
            header: [0; FRAME_HEADER],
            filled: 0,
        }
    }

    fn feed(&mut self, mut piece: &[u8]) -> Seen {
        let mut seen = Seen::default();
        while !piece.is_empty() {
            if self.rest > 0 {
                let passed = self.rest.min(piece.len());
                if self.counted {
                    seen.data += passed as u64;
                }
                self.rest -= passed;
                piece = &piece[passed..];
                continue;
            }
            let taken = (FRAME_HEADER - self.filled).min(piece.len());
            self.header[self.filled..self.filled + taken].copy_from_slice(&piece[..taken]);
            self.filled += taken;
            piece = &piece[taken..];
            if self.filled == FRAME_HEADER {
                let header = FrameHeader::parse(&self.header);
                self.filled = 0;
                self.rest = header.length;
                self.counted = header.is_counted();
                seen.ended |= header.ends_stream();
            }
        }
        seen
    }
}

/// What is known about the followed stream; shared between the connection and its user.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    written: AtomicU64,
    ended: AtomicBool,
    progress: Notify,
}

impl Ledger {
    /// DATA bytes of the stream that the connection has accepted.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// The peer has ended or reset the stream.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns when more was written since the last call.
    pub(crate) async fn progress(&self) {
        self.progress.notified().await;
    }
}

/// A client's connection under a [`Ledger`].
#[derive(Debug)]
pub(crate) struct Recorded<Io> {
    io: Io,
    ledger: Arc<Ledger>,
    outgoing: Frames,
    incoming: Frames,
}

impl<Io> Recorded<Io> {
    pub(crate) fn new(io: Io) -> (Self, Arc<Ledger>) {
        let ledger = Arc::<Ledger>::default();
        let recorded = Self {
            io,
            ledger: Arc::clone(&ledger),
            outgoing: Frames::after(CLIENT_PREFACE),
            incoming: Frames::after(0),
        };
        (recorded, ledger)
    }

    fn note_written<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>, mut accepted: usize) {
        let mut data = 0;
        for piece in pieces {
            let part = accepted.min(piece.len());
            data += self.outgoing.feed(&piece[..part]).data;
            accepted -= part;
        }
        if data > 0 {
            self.ledger.written.fetch_add(data, Ordering::Release);
            self.ledger.progress.notify_one();
        }
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Recorded<Io> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if self.incoming.feed(&buf.filled()[before..]).ended {
            self.ledger.ended.store(true, Ordering::Release);
        }
        Poll::Ready(Ok(()))
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Recorded<Io> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let accepted = ready!(Pin::new(&mut self.io).poll_write(cx, buf))?;
        self.note_written(std::iter::once(buf), accepted);
        Poll::Ready(Ok(accepted))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let accepted = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, bufs))?;
        self.note_written(bufs.iter().map(|buf| &**buf), accepted);
        Poll::Ready(Ok(accepted))
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

#[cfg(test)]
mod tests;
