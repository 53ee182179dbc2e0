//! The time of day, as a value that tests can set.

use std::fmt;
use std::time::SystemTime;

use muster_lifecycle::Moment;

/// Tells the time.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Moment;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        SystemTime::now().into()
    }
}
