//! The place of one stream: what was received and is not in the journal yet.
//!
//! Bytes are received straight into the slot, and the kernel counts them in the socket (see
//! [`crate::sys::peek_offset`]). One word says where the bytes begin and end and what the count was
//! then, so whatever moment the process is killed at, the next one knows which bytes it has.

use std::io;

use super::region::Region;

/// How much is received at once.
pub(super) const READ_MAX: usize = 64 << 10;
/// The bytes of a slot: see [`Slot::room`] for why they are three times as many.
const BUFFER: usize = 3 * READ_MAX;
/// The same as places are counted.
const BUFFER_END: u32 = 3 << 16;
const _: () = assert!(BUFFER_END as usize == BUFFER && BUFFER < 1 << PLACE_BITS);
const PAGE: usize = 4096;
/// What a slot takes of the file: one page for words and description, then the bytes.
pub(super) const SLOT_BYTES: usize = PAGE + BUFFER;

/// A slot that is empty keeps the memory of so many bytes.
const KEPT: u32 = 16 << 10;

const COOKIE_WORD: usize = 0;
const POSITION_WORD: usize = 1;
const DESCRIPTION_WORD: usize = 2;
const DESCRIPTION_AT: usize = 32;
/// The longest description that is kept with the bytes.
const DESCRIPTION_MAX: usize = PAGE - DESCRIPTION_AT;

const PLACE_BITS: u32 = 18;
const COUNT_BITS: u32 = 64 - 2 * PLACE_BITS;
/// What the kernel's count begins with. It goes down to [`COUNT_LOW`] before it is set back.
pub(super) const COUNT_FULL: u32 = (1 << COUNT_BITS) - 1;
const COUNT_LOW: u32 = 1 << 20;

/// Where a slot stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Where the bytes begin that are not in the journal.
    start: u32,
    /// Where they end.
    end: u32,
    /// What the kernel's count was when they ended there.
    count: u32,
}

impl Position {
    const NEW: Self = Self {
        start: 0,
        end: 0,
        count: COUNT_FULL,
    };

    /// The word.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.start)
            | u64::from(self.end) << PLACE_BITS
            | u64::from(self.count) << (2 * PLACE_BITS)
    }

    /// The position that a word says; `None` if no slot can stand like that.
    pub(super) fn unpack(word: u64) -> Option<Self> {
        let place = |shift: u32| u32::try_from(word >> shift & ((1 << PLACE_BITS) - 1)).ok();
        let position = Self {
            start: place(0)?,
            end: place(PLACE_BITS)?,
            count: u32::try_from(word >> (2 * PLACE_BITS)).ok()?,
        };
        (position.start <= position.end && position.end as usize <= BUFFER).then_some(position)
    }

    /// The position when the kernel's count has become `count`: what was received since is there too.
    ///
    /// A higher count is one that was set back and nothing received since.
    fn after_count(self, count: u32) -> Self {
        let received = self.count.saturating_sub(count);
        let end = (self.end + received).min(BUFFER_END);
        Self { end, count, ..self }
    }
}

/// The place of one stream.
#[derive(Debug)]
pub struct Slot {
    region: Region,
    position: Position,
    /// How far bytes have reached since memory was last given back.
    reached: u32,
}

impl Slot {
    /// A slot in fresh memory, for the stream with this cookie.
    pub(super) fn new(region: Region, cookie: u64) -> Self {
        let slot = Self {
            region,
            position: Position::NEW,
            reached: 0,
        };
        slot.region.store(COOKIE_WORD, 0);
        slot.region.store(POSITION_WORD, slot.position.pack());
        slot.region.store(DESCRIPTION_WORD, 0);
        slot.region.store(COOKIE_WORD, cookie);
        slot
    }

    /// A slot that an earlier process has left; `None` if it is free or makes no sense.
    pub(super) fn left(region: Region) -> Option<(u64, Self)> {
        let cookie = region.load(COOKIE_WORD);
        let position = Position::unpack(region.load(POSITION_WORD))?;
        let slot = Self {
            region,
            position,
            reached: BUFFER_END,
        };
        (cookie != 0).then_some((cookie, slot))
    }

    /// Frees the place. Gives its memory, and the part, in bytes from its beginning, that is of no use to the next stream.
    pub(super) fn free(self) -> (Region, std::ops::Range<u64>) {
        self.region.store(COOKIE_WORD, 0);
        let page = PAGE as u64;
        let reached = u64::from(self.reached.max(self.position.end));
        (self.region, page..page + reached.next_multiple_of(page))
    }

    /// Moves to memory that dies with the process: the file has no room for the bytes.
    pub(super) fn leave_file(&mut self) -> io::Result<()> {
        let mut region = Region::private(SLOT_BYTES)?;
        let pending = self.pending().len();
        region
            .bytes_mut(PAGE..PAGE + pending)
            .copy_from_slice(self.pending());
        self.region.store(COOKIE_WORD, 0);
        self.region = region;
        self.set(Position {
            start: 0,
            end: u32::try_from(pending).unwrap_or(0),
            ..self.position
        });
        Ok(())
    }

    /// Keeps a description of the stream with its bytes, if it is short enough.
    pub(super) fn describe(&mut self, description: &[u8]) {
        self.region.store(DESCRIPTION_WORD, 0);
        if description.len() <= DESCRIPTION_MAX {
            let range = DESCRIPTION_AT..DESCRIPTION_AT + description.len();
            self.region.bytes_mut(range).copy_from_slice(description);
            self.region
                .store(DESCRIPTION_WORD, description.len() as u64);
        }
    }

    /// The description that was kept; empty if there is none.
    #[must_use]
    pub fn description(&self) -> &[u8] {
        let length = usize::try_from(self.region.load(DESCRIPTION_WORD)).unwrap_or(usize::MAX);
        let length = if length > DESCRIPTION_MAX { 0 } else { length };
        self.region.bytes(DESCRIPTION_AT..DESCRIPTION_AT + length)
    }

    /// The bytes that are not in the journal.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        let Position { start, end, .. } = self.position;
        self.region
            .bytes(PAGE + start as usize..PAGE + end as usize)
    }

    /// Where the slot will stand when `taken` of the pending bytes are in the journal.
    #[must_use]
    pub fn after(&self, taken: usize) -> Position {
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        let start = self
            .position
            .start
            .saturating_add(taken)
            .min(self.position.end);
        Position {
            start,
            ..self.position
        }
    }

    /// Where to receive to. Nothing is moved over bytes that are pending: there are fewer than
    /// [`READ_MAX`] of them, for no line is longer, and what is left of three times that is behind them.
    #[must_use]
    pub fn room(&mut self) -> &mut [u8] {
        let Position { start, end, count } = self.position;
        let pending = end - start;
        if pending == 0 && end > 0 {
            self.set(Position {
                start: 0,
                end: 0,
                count,
            });
        } else if BUFFER - (end as usize) < READ_MAX && pending <= start {
            let from = PAGE + start as usize;
            let (front, back) = self
                .region
                .bytes_mut(PAGE..SLOT_BYTES)
                .split_at_mut(from - PAGE);
            front[..pending as usize].copy_from_slice(&back[..pending as usize]);
            self.set(Position {
                start: 0,
                end: pending,
                count,
            });
        }
        let end = PAGE + self.position.end as usize;
        let stop = (end + READ_MAX).min(SLOT_BYTES);
        self.region.bytes_mut(end..stop)
    }

    /// Says that so many bytes were received into [`Slot::room`].
    pub fn received(&mut self, length: usize) {
        let length = u32::try_from(length).unwrap_or(0);
        let count = self.position.count.saturating_sub(length);
        self.set(self.position.after_count(count));
        self.reached = self.reached.max(self.position.end);
    }

    /// The part of the slot, in bytes from its beginning, whose memory can be given back; `None` if that is not
    /// worth it.
    pub(super) fn take_unused(&mut self) -> Option<std::ops::Range<u64>> {
        let is_large = self.reached > KEPT && self.position.start == self.position.end;
        is_large.then(|| {
            let page = PAGE as u64;
            let reached = std::mem::replace(&mut self.reached, KEPT);
            page + u64::from(KEPT)..page + u64::from(reached)
        })
    }

    /// Whether the kernel's count has to be set back before more is received.
    #[must_use]
    pub fn wants_count(&self) -> bool {
        self.position.count < COUNT_LOW
    }

    /// Says that the kernel's count was set back.
    pub fn count_set(&mut self) {
        self.set(Position {
            count: COUNT_FULL,
            ..self.position
        });
    }

    /// Says what the kernel's count is for a slot that was left by an earlier process.
    pub(super) fn catch_up(&mut self, count: u32) {
        self.set(self.position.after_count(count));
    }

    /// Stands at a position from now on.
    pub(super) fn set(&mut self, position: Position) {
        self.region.store(POSITION_WORD, position.pack());
        self.position = position;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slot() -> Slot {
        Slot::new(Region::private(SLOT_BYTES).expect("memory"), 7)
    }

    fn receive(slot: &mut Slot, bytes: &[u8]) {
        let room = slot.room();
        room[..bytes.len()].copy_from_slice(bytes);
        slot.received(bytes.len());
    }

    #[test]
    fn bytes_wait_until_they_are_taken() {
        let mut slot = slot();
        receive(&mut slot, b"abc");
        receive(&mut slot, b"def");
        assert_eq!(slot.pending(), b"abcdef");
        let position = slot.after(4);
        slot.set(position);
        assert_eq!(slot.pending(), b"ef");
    }

    #[test]
    fn what_the_kernel_counted_is_there_after_a_kill() {
        let mut slot = slot();
        receive(&mut slot, b"abc");
        // Received, and killed before it was said.
        slot.room()[..3].copy_from_slice(b"def");
        slot.catch_up(COUNT_FULL - 6);
        assert_eq!(slot.pending(), b"abcdef");
        // The count was set back, and killed before it was said.
        slot.catch_up(COUNT_FULL);
        assert_eq!(slot.pending(), b"abcdef");
    }

    #[test]
    fn a_slot_that_leaves_the_file_keeps_its_bytes() {
        let mut slot = slot();
        receive(&mut slot, b"abcdef");
        let position = slot.after(2);
        slot.set(position);
        slot.leave_file().expect("memory");
        assert_eq!(slot.pending(), b"cdef");
        receive(&mut slot, b"g");
        assert_eq!(slot.pending(), b"cdefg");
    }

    #[test]
    fn descriptions_are_kept_if_they_fit() {
        let mut slot = slot();
        slot.describe(b"unit");
        assert_eq!(slot.description(), b"unit");
        slot.describe(&[b'x'; PAGE]);
        assert_eq!(slot.description(), b"");
    }

    proptest! {
        #[test]
        fn a_position_survives_its_word(start in 0u32..=BUFFER_END, more in 0u32..=BUFFER_END, count in 0u32..=COUNT_FULL) {
            let end = (start + more).min(BUFFER_END);
            let position = Position { start, end, count };
            prop_assert_eq!(Position::unpack(position.pack()), Some(position));
        }

        #[test]
        fn any_word_is_a_position_within_bounds_or_none(word in any::<u64>()) {
            if let Some(position) = Position::unpack(word) {
                prop_assert!(position.start <= position.end && position.end as usize <= BUFFER);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        /// However much is received and taken at a time, bytes come out as they went in.
        #[test]
        fn bytes_come_out_in_order(steps in proptest::collection::vec((0usize..=READ_MAX, 0usize..2 * READ_MAX), 0..60)) {
            let mut slot = slot();
            let (mut next_in, mut next_out) = (0u32, 0u32);
            for (length, taken) in steps {
                let room = slot.room();
                let length = length.min(room.len()) & !3;
                for chunk in room[..length].chunks_exact_mut(4) {
                    chunk.copy_from_slice(&next_in.to_le_bytes());
                    next_in += 1;
                }
                slot.received(length);
                // A stream leaves less than one line behind.
                let least = slot.pending().len().saturating_sub(READ_MAX - 4);
                let taken = taken.clamp(least, slot.pending().len().max(least)) & !3;
                for chunk in slot.pending()[..taken].chunks_exact(4) {
                    prop_assert_eq!(chunk, &next_out.to_le_bytes()[..]);
                    next_out += 1;
                }
                let position = slot.after(taken);
                slot.set(position);
                if slot.wants_count() { slot.count_set(); }
            }
            prop_assert_eq!(slot.pending().len(), (next_in - next_out) as usize * 4);
        }
    }
}
