//! The content of a disk, held in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Granularity of storage; nothing outside this file depends on it.
const BLOCK: usize = 4096;

/// Sparse disk content: blocks never written read as zeros and take no memory, and a clone shares
/// its blocks until one side writes to them.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    size: u64,
    blocks: BTreeMap<u64, Arc<[u8; BLOCK]>>,
}

impl Blocks {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            blocks: BTreeMap::new(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Takes over a file's content; its length becomes the disk's size.
    pub(super) fn load(file: &mut File) -> io::Result<Self> {
        let size = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        let mut content = Self::new(size);
        let mut buffer = [0; BLOCK];
        let mut offset = 0;
        while offset < size {
            let length = usize::try_from(size - offset).map_or(BLOCK, |left| left.min(BLOCK));
            file.read_exact(&mut buffer[..length])?;
            if buffer[..length].iter().any(|&byte| byte != 0) {
                content.write(offset, &buffer[..length]);
            }
            offset += length as u64;
        }
        Ok(content)
    }

    /// Writes the content into an empty file, leaving holes where nothing was ever written.
    pub(super) fn store(&self, file: &File) -> io::Result<()> {
        file.set_len(self.size)?;
        for (&number, block) in &self.blocks {
            let offset = number * BLOCK as u64;
            let length = usize::try_from(self.size - offset).map_or(BLOCK, |left| left.min(BLOCK));
            file.write_all_at(&block[..length], offset)?;
        }
        Ok(())
    }

    /// Whether a request lies within the disk.
    pub(super) fn contains(&self, offset: u64, length: u64) -> bool {
        offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size)
    }

    /// Reads as much of the wanted range as the disk has.
    pub(super) fn read(&self, offset: u64, length: usize) -> Vec<u8> {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut data = vec![0; length.min(left)];
        for (number, within, part) in spans(offset, data.len()) {
            if let Some(block) = self.blocks.get(&number) {
                data[part].copy_from_slice(&block[within]);
            }
        }
        data
    }

    /// Writes within the disk; the caller has checked the range with [`Blocks::contains`].
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        for (number, within, part) in spans(offset, data.len()) {
            let block = self
                .blocks
                .entry(number)
                .or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(block)[within].copy_from_slice(&data[part]);
        }
    }
}

/// Cuts a byte range at block borders: (block number, range in the block, range in the request).
fn spans(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let start = usize::try_from(at % BLOCK as u64).expect("below the block size");
        let count = (BLOCK - start).min(length - done);
        let part = done..done + count;
        done += count;
        Some((at / BLOCK as u64, start..start + count, part))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 3 * BLOCK + 700;

    proptest! {
        #[test]
        fn behaves_like_a_byte_array(
            writes in prop::collection::vec((0..SIZE, prop::collection::vec(any::<u8>(), 0..6000)), 0..12),
            reads in prop::collection::vec((0..SIZE + 100, 0..9000_usize), 1..8),
        ) {
            let mut plain = vec![0; SIZE];
            let mut sparse = Blocks::new(SIZE as u64);
            for (offset, data) in writes {
                let data = &data[..data.len().min(SIZE - offset)];
                plain[offset..offset + data.len()].copy_from_slice(data);
                sparse.write(offset as u64, data);
            }
            for (offset, length) in reads {
                let end = (offset + length).min(SIZE);
                let expected = plain.get(offset..end).unwrap_or(&[]);
                prop_assert_eq!(sparse.read(offset as u64, length), expected);
            }
            let mut file = tempfile::tempfile().unwrap();
            sparse.store(&file).unwrap();
            let loaded = Blocks::load(&mut file).unwrap();
            prop_assert_eq!(loaded.read(0, SIZE), plain);
        }
    }
}
