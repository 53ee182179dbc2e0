//! The descriptors that are kept for core, by name.
//!
//! All memory is reserved at the start, and pages that were never used cost nothing: names stand one after the
//! other in one block, so a thousand descriptors take about fifty kilobytes.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use muster_handover::{MAX_NAME, Selector};

/// The most descriptors that are kept. The limit of open files of the process may be lower.
pub const MOST_KEPT: usize = 16_384;

/// The kept descriptors.
#[derive(Debug)]
pub struct Kept {
    entries: Vec<Entry>,
    /// The names, with gaps where some were dropped.
    names: Box<[u8]>,
    /// Behind the last name.
    end: usize,
}

#[derive(Debug)]
struct Entry {
    /// Most names differ in this, so most comparisons end here.
    hash: u32,
    begin: u32,
    length: u16,
    descriptor: OwnedFd,
}

/// There is no room for another descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl Kept {
    /// Room for so many descriptors.
    pub fn with_room_for(most: usize) -> Self {
        Self {
            entries: Vec::with_capacity(most),
            names: vec![0; most * MAX_NAME].into_boxed_slice(),
            end: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All of them, from one on, in an order that stays the same until something is stored or dropped.
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        let entries = self.entries.get(first..).unwrap_or_default();
        entries
            .iter()
            .map(|entry| (self.name(entry), entry.descriptor.as_fd()))
    }

    /// Keeps a descriptor; one with the same name is closed.
    pub fn store(&mut self, name: &str, descriptor: OwnedFd) -> Result<(), NoRoom> {
        let hash = hash(name);
        if let Some(at) = self.position(hash, name) {
            self.entries[at].descriptor = descriptor;
            return Ok(());
        }
        // Growing would allocate; and it is the bound that the caller asked for.
        if self.entries.len() == self.entries.capacity() || name.len() > MAX_NAME {
            return Err(NoRoom);
        }
        if self.names.len() - self.end < name.len() {
            self.close_gaps();
        }
        let (Ok(begin), Ok(length)) = (u32::try_from(self.end), u16::try_from(name.len())) else {
            return Err(NoRoom);
        };
        let Some(place) = self.names.get_mut(self.end..self.end + name.len()) else {
            return Err(NoRoom);
        };
        place.copy_from_slice(name.as_bytes());
        self.end += name.len();
        self.entries.push(Entry {
            hash,
            begin,
            length,
            descriptor,
        });
        Ok(())
    }

    /// Closes what is selected.
    pub fn drop(&mut self, selector: Selector<'_>) {
        match selector {
            Selector::Name(name) => {
                if let Some(at) = self.position(hash(name), name) {
                    self.entries.swap_remove(at);
                }
            }
            Selector::Prefix(prefix) => {
                let mut at = 0;
                while at < self.entries.len() {
                    if self.name(&self.entries[at]).starts_with(prefix) {
                        self.entries.swap_remove(at);
                    } else {
                        at += 1;
                    }
                }
            }
        }
        if self.entries.is_empty() {
            self.end = 0;
        }
    }

    /// Closes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.end = 0;
    }

    fn position(&self, hash: u32, name: &str) -> Option<usize> {
        self.entries
            .iter()
            .position(|entry| entry.hash == hash && self.name(entry) == name)
    }

    fn name(&self, entry: &Entry) -> &str {
        let begin = entry.begin as usize;
        let bytes = self.names.get(begin..begin + usize::from(entry.length));
        // Only whole names are written, so they are always text.
        bytes
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// Moves the names together; there is then room for as many of the longest as entries are left.
    fn close_gaps(&mut self) {
        self.entries.sort_unstable_by_key(|entry| entry.begin);
        let mut end = 0;
        for entry in &mut self.entries {
            let begin = entry.begin as usize;
            let length = usize::from(entry.length);
            self.names.copy_within(begin..begin + length, end);
            // Not more than it was, which was a u32.
            entry.begin = u32::try_from(end).unwrap_or(entry.begin);
            end += length;
        }
        self.end = end;
    }
}

/// FNV-1a: short, and good enough to tell names apart.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests;
