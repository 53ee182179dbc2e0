//! Maps of sparse files: which parts of a file have data. Pure.

use crate::error::Rule;
use crate::header::unsigned;
use crate::options::Limits;
use crate::pipe::BLOCK;

/// Pieces as they were read, in no order that could be relied on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SparsePieces(Vec<(u64, u64)>);

impl SparsePieces {
    pub(crate) fn push(&mut self, offset: u64, length: u64, limits: &Limits) -> Result<(), Rule> {
        if self.0.len() == limits.sparse_pieces {
            return Err(Rule::SparsePieces {
                limit: limits.sparse_pieces,
            });
        }
        self.0.push((offset, length));
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The map of a file of `size` bytes for which the archive has `stored` bytes of data.
    pub(crate) fn into_map(self, size: u64, stored: u64) -> Result<SparseMap, Rule> {
        let (mut end, mut data) = (0_u64, 0_u64);
        for &(offset, length) in &self.0 {
            if offset < end {
                return Err(Rule::SparseMap);
            }
            end = offset.checked_add(length).ok_or(Rule::SparseMap)?;
            // No overflow: pieces do not overlap.
            data += length;
        }
        if end > size || data != stored {
            return Err(Rule::SparseMap);
        }
        Ok(SparseMap {
            pieces: self.0,
            size,
        })
    }
}

/// Pieces of data in order, without overlaps, within the size, which together are as long as the data that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SparseMap {
    pieces: Vec<(u64, u64)>,
    size: u64,
}

impl SparseMap {
    /// The file's size with its holes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Offsets and lengths of data.
    pub(crate) fn pieces(&self) -> &[(u64, u64)] {
        &self.pieces
    }
}

/// Where GNU's old form keeps the start of the map in the header, whether more blocks follow, and the file's size.
mod old {
    use std::ops::Range;
    pub(super) const MAP: Range<usize> = 386..482;
    pub(super) const EXTENDED: usize = 482;
    pub(super) const SIZE: Range<usize> = 483..495;
    pub(super) const BLOCK_MAP: Range<usize> = 0..504;
    pub(super) const BLOCK_EXTENDED: usize = 504;
    pub(super) const PIECE: usize = 24;
}

/// The start of a map in GNU's old form, from the entry's header; whether blocks with more of it follow; the file's size.
pub(crate) fn old_header(
    block: &[u8; BLOCK],
    limits: &Limits,
) -> Result<(SparsePieces, bool, u64), Rule> {
    let mut pieces = SparsePieces::default();
    old_pieces(&block[old::MAP], &mut pieces, limits)?;
    let size = unsigned(&block[old::SIZE], "size of a sparse file")?;
    Ok((pieces, block[old::EXTENDED] != 0, size))
}

/// More of such a map; whether another block follows.
pub(crate) fn old_block(
    block: &[u8; BLOCK],
    pieces: &mut SparsePieces,
    limits: &Limits,
) -> Result<bool, Rule> {
    old_pieces(&block[old::BLOCK_MAP], pieces, limits)?;
    Ok(block[old::BLOCK_EXTENDED] != 0)
}

fn old_pieces(map: &[u8], pieces: &mut SparsePieces, limits: &Limits) -> Result<(), Rule> {
    for piece in map.chunks_exact(old::PIECE) {
        let (offset, length) = piece.split_at(old::PIECE / 2);
        // An unused place ends the map.
        if length[0] == 0 {
            break;
        }
        let offset = unsigned(offset, "offset of a sparse piece")?;
        pieces.push(
            offset,
            unsigned(length, "length of a sparse piece")?,
            limits,
        )?;
    }
    Ok(())
}

/// Reads the map of form 1.0, which is decimal lines at the start of the content: how many pieces, then offset and length of
/// each. The rest of the last block is filling.
#[derive(Debug, Default)]
pub(crate) struct ContentMap {
    pieces: SparsePieces,
    /// Digits of a line that goes on in the next block.
    digits: Vec<u8>,
    count: Option<u64>,
    offset: Option<u64>,
}

impl ContentMap {
    /// Takes one block and gives the map when that was the last one.
    pub(crate) fn take(
        &mut self,
        block: &[u8; BLOCK],
        limits: &Limits,
    ) -> Result<Option<SparsePieces>, Rule> {
        for byte in block {
            if *byte != b'\n' {
                self.digits.push(*byte);
                // The longest number has 20 digits.
                if self.digits.len() > 20 {
                    return Err(Rule::SparseMap);
                }
                continue;
            }
            let number = parse_decimal(&self.digits).ok_or(Rule::SparseMap)?;
            self.digits.clear();
            match (self.count, self.offset.take()) {
                (None, _) => self.count = Some(number),
                (Some(_), None) => self.offset = Some(number),
                (Some(_), Some(offset)) => self.pieces.push(offset, number, limits)?,
            }
            if self.offset.is_none() && self.count == Some(self.pieces.len() as u64) {
                return Ok(Some(std::mem::take(&mut self.pieces)));
            }
        }
        Ok(None)
    }
}

/// A decimal number without sign, blanks or overflow.
pub(crate) fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(pieces: &[(u64, u64)], size: u64, stored: u64) -> Result<SparseMap, Rule> {
        SparsePieces(pieces.to_vec()).into_map(size, stored)
    }

    #[test]
    fn maps_that_overlap_or_do_not_fit_are_refused() {
        assert!(map(&[(0, 5), (10, 5), (20, 0)], 20, 10).is_ok());
        assert!(map(&[], 1 << 40, 0).is_ok());
        for (pieces, size, stored) in [
            (&[(0, 5), (4, 5)][..], 20, 10),
            (&[(10, 5), (0, 5)], 20, 10),
            (&[(0, 5)], 4, 5),
            (&[(0, 5)], 20, 6),
            (&[(u64::MAX, 1)], u64::MAX, 1),
            (&[(1, u64::MAX)], u64::MAX, u64::MAX),
            (&[(21, 0)], 20, 0),
        ] {
            assert_eq!(
                map(pieces, size, stored),
                Err(Rule::SparseMap),
                "{pieces:?}"
            );
        }
    }

    #[test]
    fn a_map_in_the_content_may_span_blocks() {
        let mut text = b"100\n".to_vec();
        for piece in 0..100_u64 {
            text.extend_from_slice(format!("{}\n512\n", piece * 4096).as_bytes());
        }
        text.resize(text.len().next_multiple_of(BLOCK), 0);
        let mut reader = ContentMap::default();
        let blocks: Vec<_> = text.as_chunks::<BLOCK>().0.iter().collect();
        let limits = Limits::default();
        let (last, before) = blocks.split_last().unwrap();
        for block in before {
            assert_eq!(reader.take(block, &limits), Ok(None));
        }
        let pieces = reader.take(last, &limits).unwrap().unwrap();
        assert_eq!((pieces.len(), pieces.0[99]), (100, (99 * 4096, 512)));
    }

    proptest! {
        #[test]
        fn an_accepted_map_covers_what_is_stored_once(
            pieces in proptest::collection::vec((0_u64..100, 0_u64..20), 0..6), size in 0_u64..120)
        {
            let stored = pieces.iter().map(|piece| piece.1).sum();
            if let Ok(map) = map(&pieces, size, stored) {
                let mut covered = vec![0; usize::try_from(size).unwrap()];
                for (offset, length) in map.pieces() {
                    for at in *offset..offset + length {
                        covered[usize::try_from(at).unwrap()] += 1;
                    }
                }
                prop_assert!(covered.iter().all(|times| *times <= 1));
                prop_assert_eq!(covered.iter().sum::<u64>(), stored);
            }
        }

        #[test]
        fn any_blocks_are_a_map_or_refused(bytes in proptest::collection::vec(
            prop_oneof![Just(b'\n'), b'0'..=b'9', any::<u8>()], BLOCK))
        {
            let block: [u8; BLOCK] = bytes.try_into().unwrap();
            let limits = Limits::default();
            let _ = ContentMap::default().take(&block, &limits);
            let _ = old_header(&block, &limits);
            let _ = old_block(&block, &mut SparsePieces::default(), &limits);
        }
    }
}
