//! Chains of entry arrays: sorted lists of entries, of the whole file or of one value.

use super::JournalFile;
use super::error::{Fault, skip_damage};
use super::object::DataObject;

/// Which way through the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Towards newer entries.
    Forward,
    /// Towards older entries.
    Backward,
}

/// One array of a chain.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: u64,
    /// The index of its first item in the chain.
    start: u64,
    capacity: u64,
}

/// Arrays double in size, so that forty hold anything; more than this many are not followed.
const SEGMENTS_MAX: usize = 4096;

/// A damaged part of an array is stepped over, but not for longer than this: a page holds a thousand
/// items.
const HOLES_MAX: u64 = 1 << 16;

/// What stands at an index.
enum Item {
    Entry(u64),
    /// Nothing, or nothing that can be read.
    Hole,
    /// The chain is shorter than it claims.
    End,
}

/// A sorted list of the offsets of entries.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// The first entry of a value stands in its data object.
    inline: Option<u64>,
    head: u64,
    count: u64,
    segments: Vec<Segment>,
    /// Where the last search ended: the next one is most likely beside it.
    hint: u64,
}

impl Chain {
    /// All entries of the file.
    pub(crate) fn of_file(file: &JournalFile) -> Self {
        let header = &file.snapshot().header;
        Self::new(None, header.entry_array_offset, header.n_entries)
    }

    /// The entries with a value.
    pub(crate) fn of_data(data: &DataObject) -> Self {
        let inline = (data.n_entries > 0).then_some(data.entry);
        Self::new(inline, data.entry_array, data.n_entries)
    }

    fn new(inline: Option<u64>, head: u64, count: u64) -> Self {
        Self {
            inline,
            head,
            count,
            segments: Vec::new(),
            hint: 0,
        }
    }

    /// Takes over a newer length of the same chain.
    pub(crate) fn extend(&mut self, newer: &Self) {
        self.inline = newer.inline;
        self.head = newer.head;
        self.count = newer.count;
    }

    /// How many entries there are, as far as the file says.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// The arrays that were followed so far.
    pub(crate) fn arrays(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().map(|segment| segment.offset)
    }

    /// The offset at `index`. None where the chain is shorter than it claims, or holds nothing there.
    pub(crate) fn get(&mut self, file: &JournalFile, index: u64) -> Result<Option<u64>, Fault> {
        Ok(match self.item(file, index)? {
            Item::Entry(offset) => Some(offset),
            Item::Hole | Item::End => None,
        })
    }

    fn item(&mut self, file: &JournalFile, index: u64) -> Result<Item, Fault> {
        if index >= self.count {
            return Ok(Item::End);
        }
        let index = match self.inline {
            Some(first) if index == 0 => return Ok(Item::Entry(first)),
            Some(_) => index - 1,
            None => index,
        };
        let Some(segment) = self.segment(file, index)? else {
            return Ok(Item::End);
        };
        let item = skip_damage(file.array_item(segment.offset, index - segment.start))?;
        Ok(match item {
            Some(offset) if offset != 0 => Item::Entry(offset),
            _ => Item::Hole,
        })
    }

    /// The array that holds item `index`.
    fn segment(&mut self, file: &JournalFile, index: u64) -> Result<Option<Segment>, Fault> {
        let known = self
            .segments
            .partition_point(|segment| segment.start <= index);
        if let Some(segment) = known.checked_sub(1).map(|at| self.segments[at])
            && index - segment.start < segment.capacity
        {
            return Ok(Some(segment));
        }
        loop {
            let (offset, start) = match self.segments.last() {
                None => (self.head, 0),
                Some(last) => {
                    let Some(object) = skip_damage(file.array_object(last.offset))? else {
                        return Ok(None);
                    };
                    // Chains only lead forward, so a damaged one cannot be followed for ever.
                    if object.next <= last.offset {
                        return Ok(None);
                    }
                    (object.next, last.start.saturating_add(last.capacity))
                }
            };
            if offset == 0 || self.segments.len() >= SEGMENTS_MAX {
                return Ok(None);
            }
            let Some(object) = skip_damage(file.array_object(offset))? else {
                return Ok(None);
            };
            let segment = Segment {
                offset,
                start,
                capacity: object.capacity,
            };
            self.segments.push(segment);
            if index - start < object.capacity {
                return Ok(Some(segment));
            }
        }
    }

    /// The index of the first entry for which `before` does not hold; entries for which it holds come
    /// first. What cannot be read counts as not before: a file that was cut off is damaged at its end.
    pub(crate) fn partition(
        &mut self,
        file: &JournalFile,
        mut before: impl FnMut(u64) -> Result<bool, Fault>,
    ) -> Result<u64, Fault> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let is_before = match self.get(file, middle)? {
                Some(offset) => skip_damage(before(offset))?.unwrap_or(false),
                None => false,
            };
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The nearest entry at or after (forward) or at or before (backward) `offset`.
    pub(crate) fn nearest(
        &mut self,
        file: &JournalFile,
        offset: u64,
        direction: Direction,
    ) -> Result<Option<u64>, Fault> {
        if self.count == 0 {
            return Ok(None);
        }
        let first = match self.near_hint(file, offset)? {
            Some(index) => index,
            None => self.partition(file, |item| Ok(item < offset))?,
        };
        self.hint = first;
        match direction {
            Direction::Forward => {
                for index in first..first.saturating_add(HOLES_MAX) {
                    match self.item(file, index)? {
                        Item::Entry(item) if item >= offset => {
                            self.hint = index;
                            return Ok(Some(item));
                        }
                        Item::Entry(_) | Item::Hole => {}
                        Item::End => break,
                    }
                }
            }
            Direction::Backward => {
                if self.get(file, first)? == Some(offset) {
                    return Ok(Some(offset));
                }
                for index in (first.saturating_sub(HOLES_MAX)..first).rev() {
                    if let Item::Entry(item) = self.item(file, index)?
                        && item <= offset
                    {
                        self.hint = index;
                        return Ok(Some(item));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The index of the first item at or after `offset`, if it is beside the last one found.
    fn near_hint(&mut self, file: &JournalFile, offset: u64) -> Result<Option<u64>, Fault> {
        let low = self.hint.saturating_sub(2);
        let mut previous = if low == 0 {
            Some(0)
        } else {
            self.get(file, low - 1)?
        };
        for index in low..low.saturating_add(5).min(self.count) {
            let item = self.get(file, index)?;
            if let (Some(previous), Some(item)) = (previous, item)
                && previous < offset
                && offset <= item
            {
                return Ok(Some(index));
            }
            previous = item;
        }
        Ok(None)
    }
}
