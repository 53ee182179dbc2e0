//! The memory that a new process shares with its parent, until it belongs to the parent alone again.
//!
//! The kernel can suspend a parent for that time (`CLONE_VFORK`), but then nothing ends the wait if the child never comes to
//! execute its program: somebody froze its group, or stopped it as soon as it had become that somebody's user. So the parent
//! waits by itself, with a bound. The kernel clears the word ([`Shared::address`]) and wakes whoever waits for it in the same
//! moment in which it would have let a suspended parent go on: when the child leaves the memory, by `execve` or by its end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{Timespec, futex};

/// The time that a process has, in turns: a machine that stood still as a whole has used up one of them, and not all.
const TURNS: u64 = 4;
const TURN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
const TAKEN: u32 = 1;

/// How long a process may take until it executes its program: well below the ten seconds within which `muster-init` wants a sign of
/// life of a manager.
pub(super) const PATIENCE: Duration = Duration::from_secs(TURNS);

/// The word that tells whether a child uses the memory.
#[derive(Debug)]
pub(super) struct Shared(AtomicU32);

impl Shared {
    /// For a child that is about to be made.
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(TAKEN))
    }

    /// Where the kernel clears it (`CLONE_CHILD_CLEARTID`).
    pub(super) fn address(&self) -> u64 {
        self.0.as_ptr() as u64
    }

    /// Waits until the child has executed its program or ended; whether it did in time. Nothing else may be done meanwhile.
    pub(super) fn is_left_in_time(&self) -> bool {
        (0..TURNS).any(|_| self.wait(Some(&TURN)))
    }

    /// Waits for a child that was killed. One that not even that ends is in the middle of a system call which does not return:
    /// it uses this memory, so nothing may be done with it, and whoever expects a sign of life of this process ends it.
    pub(super) fn is_left(&self) {
        while !self.wait(None) {}
    }

    /// Makes one system call, by a library that leaves `errno` alone: the child shares that.
    fn wait(&self, limit: Option<&Timespec>) -> bool {
        while self.0.load(Ordering::SeqCst) != 0 {
            // Not private to this process: the kernel wakes without that flag.
            match futex::wait(&self.0, futex::Flags::empty(), TAKEN, limit) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return self.0.load(Ordering::SeqCst) == 0,
            }
        }
        true
    }
}

/// No signal is handled by this thread: a handler would run in memory that a child uses. They come when this is dropped.
#[derive(Debug)]
pub(super) struct Undisturbed {
    before: u64,
}

impl Undisturbed {
    pub(super) fn begin() -> Self {
        let mut before = 0;
        mask(&u64::MAX, &raw mut before);
        Self { before }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        mask(&self.before, std::ptr::null_mut());
    }
}

#[expect(
    unsafe_code,
    reason = "the C library's function spares signals of its own"
)]
fn mask(wanted: &u64, before: *mut u64) {
    // SAFETY: both are masks of the size that is said, or nothing. With valid addresses it cannot fail.
    unsafe {
        let wanted: *const u64 = wanted;
        let size = size_of::<u64>();
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            wanted,
            before,
            size,
        );
    }
}
