//! A blob on its way from the network to the disk, and past whoever unpacks it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use muster_api::domain::Digest;
use tokio::sync::mpsc;

use crate::fetch::Piece;
use crate::hash::Hasher;
use crate::ledger::Reservation;
use crate::progress::Meter;

/// Gives a blob's bytes in order: first those that are in its file, then those that come. What comes is also written to the
/// file. Everything that is given is hashed, so bytes of an earlier try are verified again.
#[derive(Debug)]
pub(crate) struct Intake {
    file: File,
    /// So many bytes were in the file.
    there: u64,
    position: u64,
    coming: Option<mpsc::Receiver<Piece>>,
    current: Bytes,
    hasher: Hasher,
    meter: Arc<Meter>,
    /// Is told what has come into the file.
    space: Option<Arc<Reservation>>,
}

impl Intake {
    /// A blob of which the file at `path` has the first `there` bytes.
    pub(crate) fn resume(
        path: &Path,
        there: u64,
        digest: &Digest,
        coming: mpsc::Receiver<Piece>,
        meter: Arc<Meter>,
    ) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.set_len(there)?;
        Ok(Self {
            file,
            there,
            position: 0,
            coming: Some(coming),
            current: Bytes::new(),
            hasher: Hasher::like(digest),
            meter,
            space: None,
        })
    }

    /// The same in space that was reserved for what comes.
    pub(crate) fn within(mut self, space: Arc<Reservation>) -> Self {
        self.space = Some(space);
        self
    }

    /// A blob of which the file at `path` has everything.
    pub(crate) fn whole(path: &Path, digest: &Digest, meter: Arc<Meter>) -> io::Result<Self> {
        let file = File::open(path)?;
        let there = file.metadata()?.len();
        Ok(Self {
            file,
            there,
            position: 0,
            coming: None,
            current: Bytes::new(),
            hasher: Hasher::like(digest),
            meter,
            space: None,
        })
    }

    /// Reads what is left, and says what it was.
    pub(crate) fn finish(mut self) -> io::Result<Taken> {
        let mut buffer = vec![0; 64 << 10];
        while self.read(&mut buffer)? > 0 {}
        Ok(Taken {
            file: self.file,
            bytes: self.position,
            digest: self.hasher.finish(),
        })
    }

    /// The next piece of what comes; empty at the end.
    fn receive(&mut self) -> io::Result<Bytes> {
        let Some(coming) = &mut self.coming else {
            return Ok(Bytes::new());
        };
        match coming.blocking_recv() {
            Some(Piece::Bytes(bytes)) => {
                self.file.write_all_at(&bytes, self.position)?;
                if let Some(space) = &self.space {
                    space.wrote(self.position - self.there + bytes.len() as u64);
                }
                if self.position == self.there {
                    muster_fault::hit(crate::fault::BLOB_STARTED);
                }
                Ok(bytes)
            }
            Some(Piece::End) => {
                self.coming = None;
                Ok(Bytes::new())
            }
            None => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the download has ended early",
            )),
        }
    }

    fn passed(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
        self.meter.received(bytes.len());
    }
}

impl Read for Intake {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position < self.there {
            let left = usize::try_from(self.there - self.position).unwrap_or(usize::MAX);
            let wanted = buffer.len().min(left);
            let length = self.file.read_at(&mut buffer[..wanted], self.position)?;
            if length == 0 && wanted > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.passed(&buffer[..length]);
            return Ok(length);
        }
        if !self.current.has_remaining() {
            self.current = self.receive()?;
        }
        let length = self.current.len().min(buffer.len());
        let bytes = self.current.split_to(length);
        buffer[..length].copy_from_slice(&bytes);
        self.passed(&bytes);
        Ok(length)
    }
}

/// A blob that has come to its end.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
}
