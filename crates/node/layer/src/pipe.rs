//! The way from the reader to the archive: a circle of buffers between two threads.

use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sha2::{Digest as _, Sha256};

use crate::decode::{DamageKind, Decoder};
use crate::error::{Fault, Rule};
use crate::options::{Budget, Limits, Options};

/// Size of every buffer; a multiple of [`BLOCK`], so that no header lies in two buffers.
const BUFFER: usize = 64 << 10;
/// Enough to bridge a moment in which the disk or the processor is busy elsewhere.
const BUFFERS: usize = 32;
/// The unit of tar archives.
pub(crate) const BLOCK: usize = 512;

/// A buffer with its first `length` bytes filled; all of it unless it is the last.
struct Chunk {
    bytes: Box<[u8]>,
    length: usize,
}

/// Both ends of a new circle.
pub(crate) fn circle() -> (Inlet, Stream) {
    let (filled, to_archive) = sync_channel(BUFFERS);
    let (emptied, to_reader) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        let bytes = vec![0; BUFFER].into_boxed_slice();
        emptied
            .try_send(bytes)
            .expect("the channel has room for every buffer");
    }
    let stream = Stream {
        filled: to_archive,
        emptied,
        chunk: None,
        position: 0,
        hash: Sha256::new(),
        bytes: 0,
    };
    (
        Inlet {
            filled,
            emptied: to_reader,
        },
        stream,
    )
}

/// The reader's end.
pub(crate) struct Inlet {
    filled: SyncSender<Result<Chunk, Fault>>,
    emptied: Receiver<Box<[u8]>>,
}

/// The other side has gone, which it does only when it has failed.
struct Gone;

/// What was read.
pub(crate) struct Source {
    pub(crate) digest: [u8; 32],
    pub(crate) bytes: u64,
}

impl Inlet {
    /// Reads to the end, or until either side fails; a failure of this side is sent to the other, which knows where it is.
    pub(crate) fn run(
        self,
        mut reader: impl Read,
        mut decoder: Decoder,
        options: &Options,
    ) -> Source {
        let mut pump = Pump {
            inlet: &self,
            limits: &options.limits,
            budget: options.budget.as_deref(),
            read: 0,
            produced: 0,
            hash: Sha256::new(),
        };
        match pump.run(&mut reader, &mut decoder) {
            Err(Stop::Fault(fault)) => {
                // Whoever has gone needs no reason.
                let _ = self.filled.send(Err(fault));
            }
            Ok(()) | Err(Stop::Gone) => {}
        }
        Source {
            digest: pump.hash.finalize().into(),
            bytes: pump.read,
        }
    }

    fn empty(&self) -> Result<Chunk, Gone> {
        let bytes = self.emptied.recv().map_err(|_| Gone)?;
        Ok(Chunk { bytes, length: 0 })
    }
}

enum Stop {
    Gone,
    Fault(Fault),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<DamageKind> for Stop {
    fn from(kind: DamageKind) -> Self {
        Self::Fault(Fault::Damaged(kind))
    }
}

struct Pump<'a> {
    inlet: &'a Inlet,
    limits: &'a Limits,
    budget: Option<&'a dyn Budget>,
    read: u64,
    produced: u64,
    hash: Sha256,
}

impl Pump<'_> {
    fn run(&mut self, reader: &mut impl Read, decoder: &mut Decoder) -> Result<(), Stop> {
        let mut input = vec![0; BUFFER];
        let mut chunk = self.inlet.empty()?;
        loop {
            let length = match reader.read(&mut input) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stop::Fault(Fault::Read(error))),
            };
            self.read += length as u64;
            self.hash.update(&input[..length]);
            chunk = self.decode(decoder, &input[..length], chunk)?;
            if length == 0 {
                break;
            }
        }
        decoder.finish()?;
        if chunk.length > 0 {
            self.send(chunk)?;
        }
        Ok(())
    }

    fn decode(
        &mut self,
        decoder: &mut Decoder,
        mut input: &[u8],
        mut chunk: Chunk,
    ) -> Result<Chunk, Stop> {
        loop {
            let step = decoder.step(input, &mut chunk.bytes[chunk.length..])?;
            input = &input[step.consumed..];
            chunk.length += step.produced;
            self.produced += step.produced as u64;
            self.check()?;
            if chunk.length == chunk.bytes.len() {
                self.send(chunk)?;
                chunk = self.inlet.empty()?;
            } else if input.is_empty() {
                return Ok(chunk);
            } else if step.consumed == 0 && step.produced == 0 {
                // Room for output, bytes to read, and nothing done: no further call would do more.
                return Err(DamageKind::CompressedTrailer.into());
            }
        }
    }

    fn check(&self) -> Result<(), Stop> {
        let limit = self.limits.total_bytes;
        if self.produced > limit {
            return Err(Stop::Fault(Rule::TotalBytes { limit }.into()));
        }
        if self.budget.is_some_and(|it| !it.covers(self.produced)) {
            let bytes = self.produced;
            return Err(Stop::Fault(Rule::NoSpace { bytes }.into()));
        }
        let limit = self.limits.ratio;
        if self.produced > self.limits.ratio_free_bytes && self.produced / self.read.max(1) > limit
        {
            return Err(Stop::Fault(Rule::Ratio { limit }.into()));
        }
        Ok(())
    }

    fn send(&self, chunk: Chunk) -> Result<(), Gone> {
        self.inlet.filled.send(Ok(chunk)).map_err(|_| Gone)
    }
}

/// The archive's end: the uncompressed bytes, hashed as they arrive.
pub(crate) struct Stream {
    filled: Receiver<Result<Chunk, Fault>>,
    emptied: SyncSender<Box<[u8]>>,
    chunk: Option<Chunk>,
    position: usize,
    hash: Sha256,
    bytes: u64,
}

impl Stream {
    /// The next bytes, at least one unless the stream has ended.
    pub(crate) fn fill(&mut self) -> Result<&[u8], Fault> {
        let used_up = self
            .chunk
            .as_ref()
            .is_none_or(|chunk| self.position == chunk.length);
        if used_up {
            if let Some(chunk) = self.chunk.take() {
                // The reader may have ended before its buffers came back.
                let _ = self.emptied.try_send(chunk.bytes);
            }
            self.position = 0;
            if let Ok(chunk) = self.filled.recv() {
                let chunk = chunk?;
                self.hash.update(&chunk.bytes[..chunk.length]);
                self.bytes += chunk.length as u64;
                self.chunk = Some(chunk);
            }
        }
        Ok(self
            .chunk
            .as_ref()
            .map_or(&[], |chunk| &chunk.bytes[self.position..chunk.length]))
    }

    /// Bytes of what `fill` gave have been used.
    pub(crate) fn consume(&mut self, length: usize) {
        self.position += length;
        debug_assert!(
            self.chunk
                .as_ref()
                .is_some_and(|chunk| self.position <= chunk.length)
        );
    }

    /// The next block, or none at the end.
    pub(crate) fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        let bytes = self.fill()?;
        if bytes.is_empty() {
            return Ok(None);
        }
        let block = *bytes
            .first_chunk()
            .ok_or(Fault::Damaged(DamageKind::Truncated))?;
        self.consume(BLOCK);
        Ok(Some(block))
    }

    /// Reads the rest, which must be zeros where `only_zeros` is set, and says how long it was.
    pub(crate) fn drain(&mut self, only_zeros: bool) -> Result<u64, Fault> {
        let mut length = 0;
        loop {
            let bytes = self.fill()?;
            if bytes.is_empty() {
                return Ok(length);
            }
            if only_zeros && bytes.iter().any(|byte| *byte != 0) {
                return Err(Fault::Damaged(DamageKind::Trailer));
            }
            let used = bytes.len();
            length += used as u64;
            self.consume(used);
        }
    }

    /// Length and SHA-256 of everything that arrived.
    pub(crate) fn finish(self) -> (u64, [u8; 32]) {
        (self.bytes, self.hash.finalize().into())
    }
}
