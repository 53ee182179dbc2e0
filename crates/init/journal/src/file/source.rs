//! The bytes of a file, read through a small cache of blocks.
//!
//! Files are read with `pread`, not mapped: a file that is cut off while it is read then gives a short
//! answer instead of a signal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Large enough that neighbouring objects mostly share a block, small enough to be read in a few
/// microseconds.
const BLOCK: usize = 16 << 10;
/// At most a megabyte per file is kept.
const SLOTS: usize = 64;
/// Longer reads go past the cache.
const DIRECT: usize = 4 * BLOCK;

/// Why bytes could not be had.
#[derive(Debug)]
pub(crate) enum SourceError {
    /// The file ends before them.
    End,
    Io(io::Error),
}

#[derive(Default)]
struct Block {
    index: u64,
    /// How much of the block the file had; less than a block at the file's end.
    len: usize,
    bytes: Vec<u8>,
}

pub(crate) struct Source {
    file: File,
    blocks: Mutex<Vec<Block>>,
}

impl Source {
    pub(crate) fn new(file: File) -> Self {
        let blocks = std::iter::repeat_with(Block::default).take(SLOTS).collect();
        Self {
            file,
            blocks: Mutex::new(blocks),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Block>> {
        // A panic of another reader leaves at worst a block to be read again.
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was read: the file may have changed.
    pub(crate) fn forget(&self) {
        for block in self.blocks().iter_mut() {
            block.len = 0;
        }
    }

    /// Forgets what was read, and gives its memory back.
    pub(crate) fn release(&self) {
        for block in self.blocks().iter_mut() {
            *block = Block::default();
        }
    }

    /// Fills `buffer` from `offset`.
    pub(crate) fn read(&self, mut offset: u64, mut buffer: &mut [u8]) -> Result<(), SourceError> {
        if buffer.len() >= DIRECT {
            return match self.file.read_exact_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(SourceError::End),
                Err(error) => Err(SourceError::Io(error)),
                Ok(()) => Ok(()),
            };
        }
        let mut blocks = self.blocks();
        while !buffer.is_empty() {
            let index = offset / BLOCK as u64;
            let within = usize::try_from(offset % BLOCK as u64).map_err(|_| SourceError::End)?;
            let slot = usize::try_from(index % SLOTS as u64).map_err(|_| SourceError::End)?;
            let wanted = buffer.len().min(BLOCK - within);
            let block = &mut blocks[slot];
            if block.index != index || block.len < within + wanted {
                self.load(block, index).map_err(SourceError::Io)?;
            }
            if block.len < within + wanted {
                return Err(SourceError::End);
            }
            let (head, rest) = buffer.split_at_mut(wanted);
            head.copy_from_slice(&block.bytes[within..within + wanted]);
            buffer = rest;
            offset = offset.saturating_add(wanted as u64);
        }
        Ok(())
    }

    fn load(&self, block: &mut Block, index: u64) -> io::Result<()> {
        block.bytes.resize(BLOCK, 0);
        block.index = index;
        block.len = 0;
        let start = index.saturating_mul(BLOCK as u64);
        while block.len < BLOCK {
            let at = start.saturating_add(block.len as u64);
            // Offsets that the kernel cannot express are beyond the end of any file.
            if i64::try_from(at).is_err() {
                return Ok(());
            }
            match self.file.read_at(&mut block.bytes[block.len..], at) {
                Ok(0) => break,
                Ok(n) => block.len += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_across_blocks_and_stops_at_the_end() {
        let file = tempfile::tempfile().expect("file");
        let content: Vec<u8> = (0..=250).cycle().take(3 * BLOCK + 10).collect();
        file.write_all_at(&content, 0).expect("write");
        let source = Source::new(file);
        let mut buffer = vec![0; 2 * BLOCK];
        source.read(100, &mut buffer).expect("read");
        assert_eq!(buffer, content[100..100 + 2 * BLOCK]);
        let mut tail = [0; 11];
        assert!(matches!(
            source.read(3 * BLOCK as u64, &mut tail),
            Err(SourceError::End)
        ));
        assert!(matches!(
            source.read(u64::MAX - 3, &mut tail),
            Err(SourceError::End)
        ));
        let mut large = vec![0; DIRECT];
        assert!(matches!(source.read(0, &mut large), Err(SourceError::End)));
    }

    #[test]
    fn sees_growth_and_after_forgetting_also_changes() {
        let file = tempfile::tempfile().expect("file");
        file.write_all_at(b"abc", 0).expect("write");
        let source = Source::new(file.try_clone().expect("clone"));
        let mut three = [0; 3];
        source.read(0, &mut three).expect("read");
        file.write_all_at(b"xyzd", 0).expect("write");
        let mut four = [0; 4];
        source
            .read(0, &mut four)
            .expect("a longer read loads the block again");
        assert_eq!(&four, b"xyzd");
        file.write_all_at(b"ABCD", 0).expect("write");
        source.forget();
        source.read(0, &mut four).expect("read");
        assert_eq!(&four, b"ABCD");
    }
}
