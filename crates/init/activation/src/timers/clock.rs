//! Word that the clock was set.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use thiserror::Error;

/// The clock cannot be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot watch the clock")]
pub struct WatchClockError {
    /// Why.
    #[source]
    pub source: Errno,
}

/// A descriptor that is readable when somebody set the real-time clock, or the machine woke up with another time.
///
/// It is a timer in the distant future that the kernel cancels when the clock jumps.
#[derive(Debug)]
pub struct ClockWatch {
    timer: OwnedFd,
}

impl ClockWatch {
    /// Starts watching.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn open() -> Result<Self, WatchClockError> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)
            .map_err(|source| WatchClockError { source })?;
        let watch = Self { timer };
        watch.arm()?;
        Ok(watch)
    }

    /// Whether the clock was set since the last call.
    ///
    /// # Errors
    /// The timer cannot be read or set again.
    pub fn clock_was_set(&self) -> Result<bool, WatchClockError> {
        let mut expirations = [0u8; 8];
        match rustix::io::read(&self.timer, &mut expirations) {
            Err(Errno::CANCELED) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
            Err(source) => return Err(WatchClockError { source }),
            // The distant future has come: the clock was set to it.
            Ok(_) => {}
        }
        self.arm()?;
        Ok(true)
    }

    fn arm(&self) -> Result<(), WatchClockError> {
        const NEVER: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let distant = Itimerspec {
            it_interval: NEVER,
            it_value: Timespec {
                tv_sec: i64::MAX / 2_000_000_000,
                tv_nsec: 0,
            },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        match timerfd_settime(&self.timer, flags, &distant) {
            // Set once more between the two calls; the timer stands nevertheless.
            Ok(_) | Err(Errno::CANCELED) => Ok(()),
            Err(source) => Err(WatchClockError { source }),
        }
    }
}

impl AsFd for ClockWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
