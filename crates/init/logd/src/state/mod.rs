//! The ledger: how a `kill -9` loses no line and doubles none.
//!
//! A line exists in three places one after the other: in the kernel's socket, in the ledger's slot of its
//! stream, in the journal. Two hand-overs must each happen once:
//!
//! - **Socket to slot.** Bytes are received straight into the slot's shared memory. The kernel lowers the
//!   socket's peek offset by what it hands out, and the socket outlives the process, so the next process
//!   sees by the difference how many bytes the slot has beyond what it says ([`Slot`]).
//! - **Slot to journal.** Before an entry is appended, the ledger notes its sequence number, whose entry it
//!   is and where that one will stand afterwards ([`Ledger::intend`]). The next process compares the number
//!   with the last one in the journal: the entry is there and the note is carried out, or it is not there
//!   and the note is dropped ([`Ledger::open`]).
//!
//! Datagrams and kernel messages need no slot, for they stay where they are until they are in the journal;
//! a [`Mark`] says how far that has gone.
//!
//! The file is in `/run`, belongs to one boot and to one process at a time. A file that is of another boot
//! or cannot be understood is begun anew: then, and only then, a line may be doubled.

mod region;
mod slot;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation};
use thiserror::Error;

use self::region::Region;
use self::slot::{COUNT_FULL, READ_MAX, SLOT_BYTES};
pub use self::slot::{Position, Slot};
use crate::config::LINE_MAX_MAX;
use crate::sys;

const _: () = assert!(
    LINE_MAX_MAX <= READ_MAX,
    "a line fits what is received at once"
);

/// The most streams that the file has places for; beyond it, streams are read without a place in it.
const SLOTS_MAX: usize = 65_536;
const HEADER_BYTES: usize = 4096;
/// Changes with the layout, so a file of another version is begun anew.
const MAGIC: u64 = u64::from_le_bytes(*b"mlogd\0\0\x01");

const MAGIC_WORD: usize = 0;
const BOOT_WORDS: [usize; 2] = [1, 2];
const INTENT_PLACE: usize = 4;
const INTENT_VALUE: usize = 5;
const INTENT_SEQUENCE: usize = 6;
const FIRST_MARK: usize = 8;
/// Places below this are marks.
const FIRST_SLOT_PLACE: u64 = 64;

/// How far a source without a slot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Entries of the feed's first message that are in the journal.
    Feed,
    /// Entries of the syslog socket's first datagram that are in the journal.
    Syslog,
    /// Entries of the native socket's first datagram that are in the journal.
    Native,
    /// The file that the native socket's first datagram brought, by its inode.
    NativeFile,
    /// The number of the kernel's next message.
    Kernel,
}

/// The index of a slot in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotIndex(usize);

impl SlotIndex {
    /// The slot with this number.
    pub(crate) const fn of(number: usize) -> Self {
        Self(number)
    }

    /// Its number.
    pub(crate) const fn number(self) -> usize {
        self.0
    }
}

/// What an entry moves forward when it is in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A mark gets a value.
    Mark(Mark, u64),
    /// A slot stands elsewhere.
    Slot(SlotIndex, Position),
}

/// Why the ledger cannot be used.
#[derive(Debug, Error)]
pub enum OpenLedgerError {
    /// The file cannot be made, read or mapped.
    #[error("cannot {operation} the ledger {}", path.display())]
    File {
        /// What was to be done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// Another process uses it.
    #[error("the ledger {} is in use by another muster-logd", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
}

/// Why a stream has no slot.
#[derive(Debug, Error)]
pub enum ClaimSlotError {
    /// The descriptor is not a stream socket whose bytes the kernel counts.
    #[error("the kernel does not count the bytes of the stream")]
    NotCounted {
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// There is no memory for it.
    #[error("there is no memory for the stream")]
    Memory {
        /// What the system reported.
        #[source]
        source: io::Error,
    },
}

/// The ledger's file, in this process's hands alone. Whoever has it may write the journal.
#[derive(Debug)]
pub struct LedgerFile {
    file: File,
    path: PathBuf,
}

impl LedgerFile {
    /// Opens or makes the file and locks it.
    ///
    /// # Errors
    /// If the file cannot be used, or another process uses it.
    pub fn lock(path: &Path) -> Result<Self, OpenLedgerError> {
        let failed = |operation| {
            move |source: io::Error| OpenLedgerError::File {
                operation,
                path: path.to_owned(),
                source,
            }
        };
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(failed("open"))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                file,
                path: path.to_owned(),
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenLedgerError::InUse {
                path: path.to_owned(),
            }),
            Err(error) => Err(failed("lock")(error.into())),
        }
    }
}

#[derive(Debug)]
enum Place {
    Free,
    /// Free, with its first page there and mapped: the next stream costs nothing.
    Ready(Region),
    Used {
        cookie: u64,
        slot: Slot,
    },
}

/// How many places are kept ready. Most programs come and go one after another, and say nothing.
const READY_MAX: usize = 16;

/// The ledger.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    header: Region,
    /// By index; the first ones are places of the file in their order.
    places: Vec<Place>,
    by_cookie: HashMap<u64, usize>,
    /// Places that are [`Place::Ready`].
    ready: Vec<usize>,
    intent: Option<Progress>,
}

impl Ledger {
    /// Carries out what the last process had begun. `last_sequence` is the number of the last entry in the file that it wrote to.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn open(
        locked: LedgerFile,
        boot: u128,
        last_sequence: u64,
    ) -> Result<Self, OpenLedgerError> {
        let LedgerFile { file, path } = locked;
        let failed = |operation| {
            let path = path.clone();
            move |source: io::Error| OpenLedgerError::File {
                operation,
                path,
                source,
            }
        };
        if !is_of_boot(&file, boot) {
            file.set_len(0).map_err(failed("empty"))?;
        }
        let length = file.metadata().map_err(failed("read"))?.len();
        if length < HEADER_BYTES as u64 {
            allocate(&file, 0, HEADER_BYTES).map_err(failed("make"))?;
        }
        let header = Region::of_file(file.as_fd(), 0, HEADER_BYTES).map_err(failed("map"))?;
        let mut ledger = Self {
            file,
            header,
            places: Vec::new(),
            by_cookie: HashMap::new(),
            ready: Vec::new(),
            intent: None,
        };
        for (word, half) in BOOT_WORDS.into_iter().zip(halves(boot)) {
            ledger.header.store(word, half);
        }
        ledger.header.store(MAGIC_WORD, MAGIC);
        ledger.take_places(length).map_err(failed("map"))?;
        ledger.finish_intent(last_sequence);
        Ok(ledger)
    }

    /// Takes the slots over that the last process has left.
    fn take_places(&mut self, length: u64) -> io::Result<()> {
        let bytes = length.saturating_sub(HEADER_BYTES as u64);
        let count = usize::try_from(bytes / SLOT_BYTES as u64)
            .unwrap_or(0)
            .min(SLOTS_MAX);
        for index in 0..count {
            // Free places are not mapped: their pages may not exist, and there may be no room for them.
            if !self.is_used(index)? {
                self.places.push(Place::Free);
                continue;
            }
            let region = Region::of_file(self.file.as_fd(), place_offset(index), SLOT_BYTES)?;
            self.places.push(match Slot::left(region) {
                Some((cookie, slot)) => {
                    self.by_cookie.insert(cookie, index);
                    Place::Used { cookie, slot }
                }
                None => Place::Free,
            });
        }
        Ok(())
    }

    fn is_used(&self, index: usize) -> io::Result<bool> {
        use std::os::unix::fs::FileExt as _;
        let mut cookie = [0; 8];
        self.file.read_exact_at(&mut cookie, place_offset(index))?;
        Ok(cookie != [0; 8])
    }

    fn finish_intent(&mut self, last_sequence: u64) {
        let place = self.header.load(INTENT_PLACE);
        let value = self.header.load(INTENT_VALUE);
        let is_there = last_sequence >= self.header.load(INTENT_SEQUENCE);
        if place != 0 && is_there {
            let slot = place.checked_sub(FIRST_SLOT_PLACE);
            match slot.map(|index| usize::try_from(index).unwrap_or(usize::MAX)) {
                Some(index) => {
                    if let (Some(Place::Used { slot, .. }), Some(position)) =
                        (self.places.get_mut(index), Position::unpack(value))
                    {
                        slot.set(position);
                    }
                }
                None => self
                    .header
                    .store(usize::try_from(place).unwrap_or(FIRST_MARK), value),
            }
        }
        self.header.store(INTENT_PLACE, 0);
    }

    /// The slots that the last process has left with bytes in them, or with a stream that may still be given again.
    #[must_use]
    pub fn left_slots(&self) -> Vec<SlotIndex> {
        let used = |(index, place): (usize, &Place)| {
            matches!(place, Place::Used { .. }).then_some(SlotIndex(index))
        };
        self.places.iter().enumerate().filter_map(used).collect()
    }

    /// The slot of a stream: the one it had, or a new one. `true` if it had one.
    ///
    /// # Errors
    /// If the descriptor is not a stream socket, or there is no memory.
    pub fn claim(&mut self, stream: BorrowedFd<'_>) -> Result<(SlotIndex, bool), ClaimSlotError> {
        let not_counted = |source| ClaimSlotError::NotCounted { source };
        let cookie = rustix::net::sockopt::socket_cookie(stream)
            .map_err(|error| not_counted(error.into()))?;
        if let Some(index) = self.by_cookie.get(&cookie).copied() {
            let count = sys::peek_offset(stream).map_err(not_counted)?;
            let slot = self.slot_mut(SlotIndex(index));
            slot.catch_up(u32::try_from(count).unwrap_or(COUNT_FULL));
            return Ok((SlotIndex(index), true));
        }
        set_count(stream).map_err(not_counted)?;
        let (index, region) = self
            .free_place()
            .map_err(|source| ClaimSlotError::Memory { source })?;
        let place = Place::Used {
            cookie,
            slot: Slot::new(region, cookie),
        };
        match self.places.get_mut(index) {
            Some(free) => *free = place,
            None => self.places.push(place),
        }
        self.by_cookie.insert(cookie, index);
        Ok((SlotIndex(index), false))
    }

    /// The slot that a stream has, if it has one.
    #[must_use]
    pub fn slot_of(&self, stream: BorrowedFd<'_>) -> Option<SlotIndex> {
        let cookie = rustix::net::sockopt::socket_cookie(stream).ok()?;
        self.by_cookie.get(&cookie).copied().map(SlotIndex)
    }

    /// A place that nobody has, and memory for it.
    fn free_place(&mut self) -> io::Result<(usize, Region)> {
        if let Some(index) = self.ready.pop()
            && let Place::Ready(region) = std::mem::replace(&mut self.places[index], Place::Free)
        {
            return Ok((index, region));
        }
        let free = self
            .places
            .iter()
            .position(|place| matches!(place, Place::Free));
        let index = free.unwrap_or(self.places.len());
        let region = self.file_region(index);
        let region = region.or_else(|_| Region::private(SLOT_BYTES))?;
        Ok((index, region))
    }

    /// Memory of the file, with the page that holds the words surely there.
    fn file_region(&self, index: usize) -> io::Result<Region> {
        if index >= SLOTS_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let offset = place_offset(index);
        allocate(&self.file, offset, HEADER_BYTES)?;
        let end = offset + SLOT_BYTES as u64;
        if self.file.metadata()?.len() < end {
            self.file.set_len(end)?;
        }
        Region::of_file(self.file.as_fd(), offset, SLOT_BYTES)
    }

    /// A slot in use.
    #[must_use]
    pub fn slot(&self, index: SlotIndex) -> &Slot {
        match &self.places[index.0] {
            Place::Used { slot, .. } => slot,
            Place::Free | Place::Ready(_) => {
                unreachable!("an index is dropped when its slot is released")
            }
        }
    }

    /// A slot in use.
    #[must_use]
    pub fn slot_mut(&mut self, index: SlotIndex) -> &mut Slot {
        match &mut self.places[index.0] {
            Place::Used { slot, .. } => slot,
            Place::Free | Place::Ready(_) => {
                unreachable!("an index is dropped when its slot is released")
            }
        }
    }

    /// Keeps a description of the stream with its bytes.
    pub fn describe(&mut self, index: SlotIndex, description: &[u8]) {
        self.slot_mut(index).describe(description);
    }

    /// Lets the kernel count from the beginning again, where its count comes to an end.
    pub fn refresh_count(&mut self, index: SlotIndex, stream: BorrowedFd<'_>) -> io::Result<()> {
        let slot = self.slot_mut(index);
        if slot.wants_count() {
            set_count(stream)?;
            slot.count_set();
        }
        Ok(())
    }

    /// Gives memory back that an empty slot has needed for a burst.
    pub fn trim(&mut self, index: SlotIndex) {
        if let Some(unused) = self.slot_mut(index).take_unused() {
            self.punch(
                place_offset(index.0) + unused.start,
                unused.end - unused.start,
            );
        }
    }

    /// Gives memory of the file back. Where that fails, it is used again later.
    fn punch(&self, offset: u64, length: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.file, flags, offset, length);
    }

    /// Moves a slot to the process's own memory, because the file has no room for its bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn leave_file(&mut self, index: SlotIndex) -> Result<(), ClaimSlotError> {
        let slot = self.slot_mut(index);
        slot.leave_file()
            .map_err(|source| ClaimSlotError::Memory { source })
    }

    /// Frees the slot of a stream that has ended.
    pub fn release(&mut self, index: SlotIndex) {
        if let Place::Used { cookie, slot } =
            std::mem::replace(&mut self.places[index.0], Place::Free)
        {
            self.by_cookie.remove(&cookie);
            let (region, unused) = slot.free();
            let offset = place_offset(index.0);
            if !region.is_of_file() || self.ready.len() == READY_MAX {
                return self.punch(offset, SLOT_BYTES as u64);
            }
            // A stream that said nothing leaves nothing.
            if !unused.is_empty() {
                self.punch(offset + unused.start, unused.end - unused.start);
            }
            self.places[index.0] = Place::Ready(region);
            self.ready.push(index.0);
        }
    }

    /// The value of a mark.
    #[must_use]
    pub fn mark(&self, mark: Mark) -> u64 {
        self.header.load(mark_word(mark))
    }

    /// Notes what the entry with this number will move forward, before it is appended.
    pub fn intend(&mut self, progress: Progress, sequence: u64) {
        let (place, value) = match progress {
            Progress::Mark(mark, value) => (mark_word(mark) as u64, value),
            Progress::Slot(index, position) => (FIRST_SLOT_PLACE + index.0 as u64, position.pack()),
        };
        self.header.store(INTENT_VALUE, value);
        self.header.store(INTENT_SEQUENCE, sequence);
        self.header.store(INTENT_PLACE, place);
        self.intent = Some(progress);
    }

    /// Carries out what was noted: the entry is in the journal.
    pub fn settle(&mut self) {
        if let Some(progress) = self.intent.take() {
            self.advance(progress);
        }
        self.header.store(INTENT_PLACE, 0);
    }

    /// Drops what was noted: the entry did not get into the journal.
    pub fn drop_intent(&mut self) {
        self.intent = None;
        self.header.store(INTENT_PLACE, 0);
    }

    /// Moves forward without an entry: what stood there is not worth one, or is lost.
    pub fn advance(&mut self, progress: Progress) {
        match progress {
            Progress::Mark(mark, value) => self.header.store(mark_word(mark), value),
            Progress::Slot(index, position) => self.slot_mut(index).set(position),
        }
    }
}

const fn mark_word(mark: Mark) -> usize {
    FIRST_MARK
        + match mark {
            Mark::Feed => 0,
            Mark::Syslog => 1,
            Mark::Native => 2,
            Mark::NativeFile => 3,
            Mark::Kernel => 4,
        }
}

fn place_offset(index: usize) -> u64 {
    HEADER_BYTES as u64 + index as u64 * SLOT_BYTES as u64
}

fn set_count(stream: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_peek_offset(stream, i32::try_from(COUNT_FULL).unwrap_or(i32::MAX))
}

fn allocate(file: &File, offset: u64, length: usize) -> io::Result<()> {
    rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length as u64)?;
    Ok(())
}

fn halves(boot: u128) -> [u64; 2] {
    let bytes = boot.to_le_bytes();
    let half = |at: usize| {
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(half)
    };
    [half(0), half(8)]
}

fn is_of_boot(file: &File, boot: u128) -> bool {
    use std::os::unix::fs::FileExt as _;
    let mut words = [0u8; 24];
    let [first, second] = halves(boot);
    file.read_exact_at(&mut words, 0).is_ok()
        && words[..8] == MAGIC.to_le_bytes()
        && words[8..16] == first.to_le_bytes()
        && words[16..] == second.to_le_bytes()
}

#[cfg(test)]
mod tests;
