//! Shared memory: a piece of a file, or memory of the process alone, as words and bytes.

#![expect(unsafe_code, reason = "memory mappings")]

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// A mapping that is unmapped when dropped.
///
/// What is stored in a mapped file stays when the process is killed; a word is stored whole or not at all.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    length: usize,
    is_of_file: bool,
}

impl Region {
    /// Maps `length` bytes of a file at `offset`, both multiples of the page size, within the file.
    pub(super) fn of_file(file: BorrowedFd<'_>, offset: u64, length: usize) -> io::Result<Self> {
        // SAFETY: the address is the kernel's choice, so nothing that exists is overwritten.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        Self::new(start, length, true)
    }

    /// Memory that dies with the process.
    pub(super) fn private(length: usize) -> io::Result<Self> {
        // SAFETY: the address is the kernel's choice, so nothing that exists is overwritten.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        Self::new(start, length, false)
    }

    fn new(start: *mut std::ffi::c_void, length: usize, is_of_file: bool) -> io::Result<Self> {
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            start,
            length,
            is_of_file,
        })
    }

    /// Whether it outlives the process.
    pub(super) fn is_of_file(&self) -> bool {
        self.is_of_file
    }

    /// The word at a position counted in words.
    pub(super) fn load(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }

    /// Stores a word. Stores happen in the order in which they are written in the program.
    pub(super) fn store(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::SeqCst);
    }

    fn word(&self, word: usize) -> &AtomicU64 {
        assert!(word < self.length / 8, "the word is within the region");
        // SAFETY: the mapping begins at a page boundary, so the word is aligned; it is within the
        // mapping as just checked; words are only ever accessed as atomics, for `bytes` and
        // `bytes_mut` are given ranges of the callers' own that hold no words.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast::<u64>().add(word)) }
    }

    /// Bytes of the region.
    pub(super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "within the region"
        );
        // SAFETY: within the mapping as just checked, and initialised: the kernel gives zeroed pages.
        // Nobody else writes there: the file is locked by this process and `bytes_mut` needs `&mut`.
        unsafe {
            std::slice::from_raw_parts(
                self.start.as_ptr().add(range.start),
                range.end - range.start,
            )
        }
    }

    /// Bytes of the region, to be written.
    pub(super) fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(
            range.start <= range.end && range.end <= self.length,
            "within the region"
        );
        // SAFETY: as for `bytes`, and `&mut self` makes this the only reference.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.as_ptr().add(range.start),
                range.end - range.start,
            )
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that was made, whole, and nothing refers to it any more. If the
        // call fails, the mapping stays until the process ends.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
