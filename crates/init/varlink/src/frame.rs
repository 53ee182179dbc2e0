//! Messages out of a stream of bytes, and into it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// A message is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message is longer than {limit} bytes")]
pub struct MessageTooLong {
    /// The most that was allowed.
    pub limit: usize,
}

/// Cuts a stream of bytes into messages, each ended by a NUL byte.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Vec<u8>,
    /// Where the next message begins in the buffer.
    start: usize,
    /// Up to here the buffer was searched for the end of the next message.
    searched: usize,
    limit: usize,
    /// Messages that ended so far, and those taken out.
    complete: u64,
    taken: u64,
}

impl FrameReader {
    /// Messages may be `limit` bytes long, without their NUL.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
            complete: 0,
            taken: 0,
        }
    }

    /// Takes bytes in. Answers with the number, from 0, of the last message that some of them belong to.
    pub fn push(&mut self, bytes: &[u8]) -> u64 {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
        let ended = bytes.iter().filter(|byte| **byte == 0).count();
        self.complete += ended as u64;
        let ends_whole = bytes.last() == Some(&0);
        self.complete - u64::from(ends_whole)
    }

    /// The next whole message and its number.
    ///
    /// # Errors
    /// If it is too long, also while its end has not come. The reader is of no use after that.
    pub fn next_frame(&mut self) -> Result<Option<(u64, &[u8])>, MessageTooLong> {
        let end = self.buffer[self.searched..]
            .iter()
            .position(|byte| *byte == 0)
            .map(|at| at + self.searched);
        let reached = end.unwrap_or(self.buffer.len());
        self.searched = reached;
        if reached - self.start > self.limit {
            return Err(MessageTooLong { limit: self.limit });
        }
        let Some(end) = end else {
            self.give_memory_back();
            return Ok(None);
        };
        let start = std::mem::replace(&mut self.start, end + 1);
        self.searched = end + 1;
        let number = self.taken;
        self.taken += 1;
        Ok(Some((number, &self.buffer[start..end])))
    }

    /// Whether a whole message waits to be taken.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        self.complete > self.taken
    }

    /// Whether a message has begun and not ended, behind those that are whole.
    #[must_use]
    pub fn has_partial(&self) -> bool {
        self.buffer.len() > self.start && self.buffer.last() != Some(&0)
    }

    /// A connection that was busy once does not keep its largest buffer for ever.
    fn give_memory_back(&mut self) {
        const KEEP: usize = 4096;
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
            self.searched = 0;
            self.buffer.shrink_to(KEEP);
        }
    }
}

/// The queue is as full as it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {limit} bytes wait to be read by the other side")]
pub struct QueueFull {
    /// The most that may wait.
    pub limit: usize,
}

/// Messages that wait to be sent.
#[derive(Debug)]
pub struct FrameWriter {
    frames: VecDeque<Frame>,
    /// How much of the first frame is sent.
    sent: usize,
    queued: usize,
    limit: usize,
}

#[derive(Debug)]
struct Frame {
    bytes: Vec<u8>,
    /// To go with the first byte.
    fds: Vec<OwnedFd>,
}

/// The most frames that are sent with one system call.
const BATCH: usize = 16;

impl FrameWriter {
    /// So many bytes may wait.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            frames: VecDeque::new(),
            sent: 0,
            queued: 0,
            limit,
        }
    }

    /// Queues a message (with its NUL) and the descriptors that go with it. An empty queue takes a message of any length:
    /// whether an answer may be that long was decided by who wrote it.
    ///
    /// # Errors
    /// If too much would wait; the message is not queued.
    pub fn push(&mut self, bytes: Vec<u8>, fds: Vec<OwnedFd>) -> Result<(), QueueFull> {
        if self.queued > 0 && self.queued.saturating_add(bytes.len()) > self.limit {
            return Err(QueueFull { limit: self.limit });
        }
        self.queued += bytes.len();
        self.frames.push_back(Frame { bytes, fds });
        Ok(())
    }

    /// What is to be sent next in one go: bytes, and descriptors that belong to the first of them.
    #[must_use]
    pub fn next_batch(&self) -> (Vec<IoSlice<'_>>, &[OwnedFd]) {
        let mut slices = Vec::new();
        let mut fds: &[OwnedFd] = &[];
        for (index, frame) in self.frames.iter().take(BATCH).enumerate() {
            let carries = !frame.fds.is_empty();
            if index == 0 {
                slices.push(IoSlice::new(&frame.bytes[self.sent..]));
                fds = &frame.fds;
            } else if !carries {
                slices.push(IoSlice::new(&frame.bytes));
            }
            // Descriptors go out with their own message and nothing else.
            if carries {
                break;
            }
        }
        (slices, fds)
    }

    /// So many bytes of what [`next_batch`](Self::next_batch) gave were sent, and the descriptors with the first.
    pub fn advance(&mut self, mut bytes: usize) {
        self.queued = self.queued.saturating_sub(bytes);
        while bytes > 0 {
            let Some(first) = self.frames.front_mut() else {
                return;
            };
            first.fds.clear();
            let rest = first.bytes.len() - self.sent;
            if bytes < rest {
                self.sent += bytes;
                return;
            }
            bytes -= rest;
            self.sent = 0;
            self.frames.pop_front();
        }
    }

    /// How many bytes wait.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.queued
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests;
