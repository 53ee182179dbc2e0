//! What bounds the launcher.

use std::time::Duration;

/// Settings with defaults that suit a small device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// So many instances are started at a time.
    pub starts: usize,
    /// So many instances are stopped at a time: this bounds bursts of work.
    pub stops: usize,
    /// A stop that takes longer waits for its program to end rather than works, and is none of [`stops`](Self::stops) any more.
    pub stop_patience: Duration,
    /// So many images are fetched at a time.
    pub fetches: usize,
    /// A version that runs for so long (or for its `startInterval`, if that is longer) is good.
    pub health_period: Duration,
    /// What has been up for so long is forgiven its earlier ends.
    pub forgive_after: Duration,
    /// So long may a fetch hold up instances of lower priority.
    pub order_patience: Duration,
    /// Between the request to end and the end by force.
    pub stop_grace: Duration,
    /// First wait after an instance was given up; doubles up to [`longest_wait`](Self::longest_wait).
    pub first_wait: Duration,
    /// Longest such wait.
    pub longest_wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            starts: 8,
            stops: 32,
            stop_patience: Duration::from_millis(500),
            fetches: 3,
            health_period: Duration::from_secs(10),
            forgive_after: Duration::from_secs(600),
            order_patience: Duration::from_secs(5),
            stop_grace: Duration::from_secs(10),
            first_wait: Duration::from_secs(10),
            longest_wait: Duration::from_secs(600),
        }
    }
}
