//! Everything that can be set about a registry.

use std::time::Duration;

use crate::command::CommandDeadlines;

/// Bounds of a registry. None of them limits how many provisioned nodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// How long answers are waited for.
    pub deadlines: CommandDeadlines,
    /// A node whose description changes more often is shown at most once in this time, with its last
    /// state.
    pub damping: Duration,
    /// A stream that has not said within this time who it is is closed.
    pub hello: Duration,
    /// How long a stream is given to answer when another claims to be the same node.
    pub probe: Duration,
    /// A description of a node that is longer is refused.
    pub info_bytes: usize,
    /// Streams of unauthenticated peers at a time.
    pub public_streams: usize,
    /// Joins of unauthenticated peers: so many at once, ...
    pub public_burst: u32,
    /// ... and then one in this time.
    pub public_interval: Duration,
    /// Unprovisioned nodes that are remembered while they are not connected; beyond that, the one
    /// that has been away longest is forgotten.
    pub remembered: usize,
    /// How long to wait before what could not be stored is tried again.
    pub store_retry: Duration,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            deadlines: CommandDeadlines::default(),
            damping: Duration::from_secs(2),
            hello: Duration::from_secs(10),
            probe: Duration::from_secs(3),
            info_bytes: 64 * 1024,
            public_streams: 64,
            public_burst: 64,
            public_interval: Duration::from_millis(250),
            remembered: 256,
            store_retry: Duration::from_secs(1),
        }
    }
}
