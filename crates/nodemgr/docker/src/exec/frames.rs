//! How an engine carries two streams over one connection: a header of eight bytes, then as many bytes as it says.

use bytes::{Buf as _, Bytes, BytesMut};
use muster_executor::Chunk;

const HEADER: usize = 8;

/// Takes the bytes of a connection apart. It holds nothing back: a frame that is long is handed on in pieces, so whatever length
/// a header claims costs no memory.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// What has come and is not handed on.
    waiting: BytesMut,
    /// The stream of the frame that is being read, and how much of it is to come.
    frame: Option<(Stream, usize)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    Stdout,
    Stderr,
    /// The engine's own words about what went wrong.
    Engine,
}

/// The engine sent what is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("a frame of an unknown stream ({0}) came from the engine")]
    Stream(u8),
    #[error("the connection ended in the middle of a frame")]
    Cut,
}

impl Frames {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next piece, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Chunk>, FrameError> {
        loop {
            let Some((stream, left)) = self.frame else {
                if self.waiting.len() < HEADER {
                    return Ok(None);
                }
                let stream = match self.waiting[0] {
                    0 | 1 => Stream::Stdout,
                    2 => Stream::Stderr,
                    3 => Stream::Engine,
                    other => return Err(FrameError::Stream(other)),
                };
                self.waiting.advance(4);
                self.frame = Some((stream, self.waiting.get_u32() as usize));
                continue;
            };
            if left == 0 {
                self.frame = None;
                continue;
            }
            if self.waiting.is_empty() {
                return Ok(None);
            }
            let piece: Bytes = self.waiting.split_to(left.min(self.waiting.len())).freeze();
            self.frame = Some((stream, left - piece.len()));
            return Ok(Some(match stream {
                Stream::Stdout => Chunk::Stdout(piece),
                Stream::Stderr | Stream::Engine => Chunk::Stderr(piece),
            }));
        }
    }

    /// Whether the connection may end here.
    pub(super) fn end(&self) -> Result<(), FrameError> {
        match self.waiting.is_empty() && self.frame.is_none_or(|(_, left)| left == 0) {
            true => Ok(()),
            false => Err(FrameError::Cut),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(stream: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap();
        let header = [&[stream, 0, 0, 0], length.to_be_bytes().as_slice()].concat();
        [header.as_slice(), bytes].concat()
    }

    /// Everything of both streams, with the bytes coming in pieces of this length.
    fn read(bytes: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>), FrameError> {
        let mut frames = Frames::default();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            frames.add(piece);
            while let Some(chunk) = frames.next()? {
                match chunk {
                    Chunk::Stdout(bytes) => stdout.extend_from_slice(&bytes),
                    Chunk::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                }
            }
            // Nothing but the beginning of a header is kept.
            assert!(frames.waiting.len() < HEADER);
        }
        frames.end().map(|()| (stdout, stderr))
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(read(&frame(9, b"x"), 64), Err(FrameError::Stream(9)));
        let cut = frame(1, b"hello");
        for length in 1..cut.len() {
            assert_eq!(read(&cut[..length], 64), Err(FrameError::Cut), "{length}");
        }
        assert_eq!(read(&[], 1), Ok((Vec::new(), Vec::new())));
    }

    proptest! {
        /// However the bytes come, each stream is whole and in order.
        #[test]
        fn streams_come_apart_whole(
            frames in prop::collection::vec((0_u8..4, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
            piece in 1_usize..50,
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(stream, it)| frame(*stream, it)).collect();
            let of = |wanted: [u8; 2]| -> Vec<u8> {
                let mine = frames.iter().filter(|(stream, _)| wanted.contains(stream));
                mine.flat_map(|(_, it)| it.clone()).collect()
            };
            prop_assert_eq!(read(&bytes, piece), Ok((of([0, 1]), of([2, 3]))));
        }

        /// Nothing that an engine sends makes it panic, or keep more than a header.
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, 7);
        }
    }
}
