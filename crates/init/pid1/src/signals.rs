//! Signals: all blocked, and read from a descriptor.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd as _, OwnedFd};

use muster_handover::Signal;
use rustix::io::Errno;

/// Highest signal number of Linux.
const HIGHEST: u32 = 64;
/// What the kernel writes for each signal.
const RECORD: usize = size_of::<libc::signalfd_siginfo>();
/// Signals read at once.
const BATCH: usize = 16;

/// Faults of the program itself: they cannot be blocked in a meaningful way.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// The descriptor from which signals are read.
#[derive(Debug)]
pub struct SignalReader {
    descriptor: OwnedFd,
}

impl SignalReader {
    /// Blocks all signals but those of faults, and opens the descriptor.
    #[expect(unsafe_code, reason = "neither rustix nor std can block signals")]
    pub fn open() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigfillset writes the whole set, and the others only read or change it.
        let number = unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for fault in FAULTS {
                libc::sigdelset(set.as_mut_ptr(), fault);
            }
            if libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has just made this descriptor, and nobody else knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { descriptor })
    }

    /// Calls `on` for each signal that has arrived.
    pub fn read(&self, on: &mut dyn FnMut(Signal)) {
        let mut buffer = [0_u8; RECORD * BATCH];
        loop {
            let length = match rustix::io::read(&self.descriptor, &mut buffer) {
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            for record in buffer[..length].chunks_exact(RECORD) {
                on(parse(record));
            }
            if length < buffer.len() {
                return;
            }
        }
    }
}

impl AsFd for SignalReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The number and the sender stand at the beginning of the record: `ssi_signo`, `ssi_errno`, `ssi_code`,
/// `ssi_pid`.
fn parse(record: &[u8]) -> Signal {
    let field = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&record[at..at + 4]);
        u32::from_ne_bytes(bytes)
    };
    Signal {
        number: field(0),
        sender: field(12),
    }
}

/// In a child that is about to execute another program: signals as programs expect them.
#[expect(unsafe_code, reason = "neither rustix nor std can unblock signals")]
pub(crate) fn restore_for_exec() {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset writes the whole set; all of these may be called between fork and exec.
    unsafe {
        // The standard library ignores it, and exec would keep that.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Signals that core has not been told: each at most once, as the kernel itself does it.
#[derive(Debug, Default)]
pub struct PendingSignals {
    /// Bit n is for signal n + 1.
    set: u64,
    /// Who sent the last one of all.
    sender: u32,
}

impl PendingSignals {
    /// Adds one.
    pub fn add(&mut self, signal: Signal) {
        if (1..=HIGHEST).contains(&signal.number) {
            self.set |= 1 << (signal.number - 1);
            self.sender = signal.sender;
        }
    }

    /// Whether the signal with this number is among them.
    pub fn contains(&self, number: i32) -> bool {
        u32::try_from(number - 1).is_ok_and(|bit| bit < HIGHEST && self.set & (1 << bit) != 0)
    }

    /// The lowest of them.
    pub fn first(&self) -> Option<Signal> {
        (self.set != 0).then(|| Signal {
            number: self.set.trailing_zeros() + 1,
            sender: self.sender,
        })
    }

    /// Takes the lowest one away.
    pub fn remove_first(&mut self) {
        self.set &= self.set.wrapping_sub(1);
    }

    /// All as bits, to be given to the next init.
    pub fn bits(&self) -> u64 {
        self.set
    }

    /// What [`PendingSignals::bits`] gave.
    pub fn from_bits(set: u64) -> Self {
        Self { set, sender: 0 }
    }
}

/// Sends a signal to all processes but this one; only for PID 1.
#[expect(unsafe_code, reason = "rustix has no kill of all processes")]
pub(crate) fn signal_everything(number: i32) {
    // SAFETY: no memory is involved. It fails only when there is no other process.
    unsafe {
        libc::kill(-1, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signals_are_each_told_once_lowest_first() {
        let mut pending = PendingSignals::default();
        for number in [15, 1, 64, 15, 0, 65] {
            pending.add(Signal { number, sender: 7 });
        }
        let mut told = Vec::new();
        while let Some(signal) = pending.first() {
            pending.remove_first();
            told.push(signal.number);
        }
        assert_eq!(told, [1, 15, 64]);
        assert_eq!(pending.bits(), 0);
    }

    #[test]
    fn pending_signals_outlive_init() {
        let mut pending = PendingSignals::default();
        pending.add(Signal {
            number: 15,
            sender: 7,
        });
        let next = PendingSignals::from_bits(pending.bits());
        assert_eq!(next.first().unwrap().number, 15);
    }
}
