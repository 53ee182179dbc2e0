//! The word of memory in which the kernel leaves the pid of a new process.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Pid;

const SIZE: usize = 4096;

#[repr(C)]
struct Record {
    action: AtomicU64,
    pid: AtomicI32,
}

/// Memory that outlives the manager: somebody else keeps its descriptor. Before a process is started the manager writes
/// the number of its action; the kernel adds the pid in the same system call that makes the process. Whoever maps the
/// slot later knows whether the last action came to a process, and to which.
pub struct Slot {
    record: NonNull<Record>,
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotEntry {
    /// The number of the action that was last begun.
    pub action: u64,
    /// The process that came of it, if one did.
    pub pid: Option<Pid>,
}

/// A slot could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// Memory with a descriptor could not be made.
    #[error("cannot make the memory for pids of new processes")]
    Make {
        /// Why.
        #[source]
        source: Errno,
    },
    /// The descriptor's memory could not be mapped.
    #[error("cannot map the memory for pids of new processes")]
    Map {
        /// Why.
        #[source]
        source: Errno,
    },
    /// The descriptor is not of such memory.
    #[error("the memory for pids of new processes has a wrong size")]
    WrongSize,
}

impl Slot {
    /// A fresh slot and the descriptor by which it can be mapped again.
    ///
    /// # Errors
    /// There is no memory, or no descriptor.
    pub fn create() -> Result<(Self, OwnedFd), SlotError> {
        let failed = |source| SlotError::Make { source };
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("muster-slot", flags).map_err(failed)?;
        rustix::fs::ftruncate(&memory, SIZE as u64).map_err(failed)?;
        // Whoever has the descriptor cannot make an access fail by taking the memory away.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, seals).map_err(failed)?;
        Ok((Self::map(&memory)?, memory))
    }

    /// Maps a slot that an earlier manager made.
    ///
    /// # Errors
    /// The descriptor is of something else, or cannot be mapped.
    #[expect(unsafe_code, reason = "mapping memory is unsafe by nature")]
    pub fn map(memory: impl AsFd) -> Result<Self, SlotError> {
        let failed = |source| SlotError::Map { source };
        let stat = rustix::fs::fstat(&memory).map_err(failed)?;
        if u64::try_from(stat.st_size) != Ok(SIZE as u64) {
            return Err(SlotError::WrongSize);
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else lies there.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                SIZE,
                access,
                MapFlags::SHARED,
                &memory,
                0,
            )
        };
        let record = NonNull::new(address.map_err(failed)?.cast());
        Ok(Self {
            record: record.ok_or(SlotError::WrongSize)?,
        })
    }

    /// Records that an action begins; no process has come of it yet.
    pub fn begin(&mut self, action: u64) {
        // In this order a reader never takes an older action's pid for this one's.
        self.record().pid.store(0, Ordering::SeqCst);
        self.record().action.store(action, Ordering::SeqCst);
    }

    /// What was recorded last.
    #[must_use]
    pub fn entry(&self) -> SlotEntry {
        SlotEntry {
            action: self.record().action.load(Ordering::SeqCst),
            pid: Pid::from_raw(self.record().pid.load(Ordering::SeqCst)),
        }
    }

    /// Where the kernel writes the pid.
    pub(crate) fn pid_address(&self) -> *mut i32 {
        self.record().pid.as_ptr()
    }

    #[expect(unsafe_code, reason = "the record lies in mapped memory")]
    fn record(&self) -> &Record {
        // SAFETY: the mapping is live until `drop`, page-aligned and larger than the record, whose fields are atomic:
        // other processes may write to it at any time.
        unsafe { self.record.as_ref() }
    }
}

impl Drop for Slot {
    #[expect(unsafe_code, reason = "unmapping memory is unsafe by nature")]
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped, and no reference to it can be left.
        let unmapped = unsafe { rustix::mm::munmap(self.record.as_ptr().cast(), SIZE) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entry().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_through_its_descriptor() {
        let (mut slot, memory) = Slot::create().unwrap();
        slot.begin(7);
        let again = Slot::map(&memory).unwrap();
        let expected = SlotEntry {
            action: 7,
            pid: None,
        };
        assert_eq!(again.entry(), expected);
        drop(slot);
        assert_eq!(again.entry(), expected);
    }

    #[test]
    fn other_memory_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(Slot::map(&file), Err(SlotError::WrongSize)));
    }
}
