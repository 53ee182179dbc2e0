//! A journal file as memory: the only place with unsafe code.
//!
//! Other processes read the same pages while they change, and a file may be damaged, so nothing here
//! hands out references into the mapping: words are loaded and stored one at a time, bytes are copied,
//! and every access is checked against the part of the file that is known to exist.

#![expect(
    unsafe_code,
    reason = "a shared mapping can only be made and accessed through pointers"
)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A shared, writable mapping of a file, of which the first [`FileMap::backed`] bytes exist.
pub(super) struct FileMap {
    start: NonNull<u8>,
    /// Bytes of address space. The file may be shorter.
    reserved: usize,
    /// Bytes of the file that are allocated; nothing beyond is touched.
    backed: u64,
}

// SAFETY: the mapping belongs to this value alone and is not bound to the thread that made it.
unsafe impl Send for FileMap {}

impl FileMap {
    /// Reserves address space for `reserved` bytes of `file`, of which `backed` exist.
    pub(super) fn new(file: &File, reserved: u64, backed: u64) -> io::Result<Self> {
        let reserved = usize::try_from(reserved.max(backed))
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                reserved,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            start,
            reserved,
            backed,
        })
    }

    /// Bytes that may be accessed.
    pub(super) fn backed(&self) -> u64 {
        self.backed
    }

    /// Says that the file is now `backed` bytes long, within what was reserved.
    pub(super) fn set_backed(&mut self, backed: u64) {
        self.backed = backed.min(u64::try_from(self.reserved).unwrap_or(u64::MAX));
    }

    /// Gives the memory of pages that were touched back; the kernel keeps what is in them for the file,
    /// and they come again when they are needed.
    pub(super) fn release(&self) {
        let len = usize::try_from(self.backed).unwrap_or(self.reserved);
        // SAFETY: of a shared file mapping this drops no data, and the range is inside the mapping.
        // It is a hint: a kernel that does not take it changes nothing.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
    }

    /// The address of `len` bytes at `offset`, if the file has them.
    fn range(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.backed {
            return None;
        }
        let offset = usize::try_from(offset).ok()?;
        // SAFETY: `offset` is within `backed`, and `backed` within the reserved mapping.
        Some(unsafe { self.start.add(offset) })
    }

    fn word(&self, offset: u64) -> Option<&AtomicU64> {
        if !offset.is_multiple_of(8) {
            return None;
        }
        let at = self.range(offset, 8)?.cast::<AtomicU64>();
        // SAFETY: the address is inside the mapping, which lives as long as `self`, and aligned, since
        // mappings start at pages. Everything that overlaps it is accessed atomically or while no
        // such reference is alive, and other processes only read.
        Some(unsafe { at.as_ref() })
    }

    /// The word at `offset`; none outside the file or out of alignment.
    pub(super) fn load(&self, offset: u64) -> Option<u64> {
        Some(u64::from_le(self.word(offset)?.load(Ordering::Relaxed)))
    }

    /// Stores a word, after everything that was stored before it.
    pub(super) fn store(&mut self, offset: u64, value: u64) -> Option<()> {
        self.word(offset)?.store(value.to_le(), Ordering::Release);
        Some(())
    }

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Option<()> {
        let to = self.range(offset, u64::try_from(bytes.len()).ok()?)?;
        // SAFETY: the destination was checked, and memory of the caller's cannot overlap the mapping,
        // to which no reference outlives a call.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        Some(())
    }

    /// Zeroes `len` bytes at `offset`.
    pub(super) fn zero(&mut self, offset: u64, len: u64) -> Option<()> {
        let to = self.range(offset, len)?;
        let len = usize::try_from(len).ok()?;
        // SAFETY: the destination was checked, and no reference into the mapping is alive.
        unsafe { std::ptr::write_bytes(to.as_ptr(), 0, len) };
        Some(())
    }

    /// Copies `len` bytes at `offset` out.
    pub(super) fn read(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let from = self.range(offset, len)?;
        let len = usize::try_from(len).ok()?;
        let mut bytes = vec![0; len];
        // SAFETY: the source was checked, and a fresh vector cannot overlap it.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), bytes.as_mut_ptr(), len) };
        Some(bytes)
    }

    /// Whether the bytes at `offset` are exactly `bytes`.
    pub(super) fn equals(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(at) = u64::try_from(bytes.len())
            .ok()
            .and_then(|len| self.range(offset, len))
        else {
            return false;
        };
        // SAFETY: the range was checked. This process is the file's only writer and does not write
        // during the comparison, so the bytes do not change under the slice.
        let there = unsafe { std::slice::from_raw_parts(at.as_ptr(), bytes.len()) };
        there == bytes
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what was mapped; nothing refers to it any more.
        // A failure would leave address space behind, and there is nothing else to be done about it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

impl std::fmt::Debug for FileMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileMap")
            .field("reserved", &self.reserved)
            .field("backed", &self.backed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_the_backed_part_is_touched() {
        let file = tempfile::tempfile().expect("file");
        file.set_len(4096).expect("length");
        let mut map = FileMap::new(&file, 1 << 20, 4096).expect("map");
        assert_eq!(map.store(4088, 7), Some(()));
        assert_eq!(map.load(4088), Some(7));
        assert_eq!(map.load(4096), None);
        assert_eq!(map.load(4092), None);
        assert_eq!(map.load(3), None);
        assert_eq!(map.load(u64::MAX - 3), None);
        assert_eq!(map.write(4090, &[1; 7]), None);
        assert_eq!(map.read(1, 5000), None);
        assert!(!map.equals(4095, b"ab"));
        file.set_len(8192).expect("length");
        map.set_backed(8192);
        assert_eq!(map.store(8184, 1), Some(()));
        assert_eq!(map.zero(8184, 8), Some(()));
        assert_eq!(map.load(8184), Some(0));
    }
}
