//! How often things happen, and by which clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::account::Moment;

/// What time it is; tests bring their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// A clock of the caller's.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> Moment {
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Moment::new(match (self.0)().duration_since(UNIX_EPOCH) {
            Ok(since) => seconds(since),
            Err(before) => -seconds(before.duration()),
        })
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How often things happen.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Counters are read this often; a limit is passed for that long at most before it holds.
    pub poll: Duration,
    /// Accounts are written down this often; a power cut loses that much at most.
    pub save: Duration,
    /// What time it is.
    pub clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(10),
            save: Duration::from_secs(60),
            clock: Clock::default(),
        }
    }
}
