//! What time it is.

use std::fmt;
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// A moment, by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// By a clock that nobody sets, and that stands while the machine sleeps, as processor time does.
    pub steady: Duration,
    /// By the calendar, for people to read. Nothing is decided by it.
    pub wall: SystemTime,
}

/// Tells the time. A trait, so that tests can say what time it is.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// Now.
    fn now(&self) -> Moment;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let steady = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(steady.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(steady.tv_nsec).unwrap_or_default();
        Moment {
            steady: Duration::from_secs(seconds) + Duration::from_nanos(nanos),
            wall: SystemTime::now(),
        }
    }
}
