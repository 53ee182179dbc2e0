//! Who counts bytes.

use std::fmt;

use muster_api::domain::InstanceIdent;

/// Bytes in the current period of whoever counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TrafficUsage {
    /// Received.
    pub download: u64,
    /// Sent.
    pub upload: u64,
}

/// Counts bytes. Asked at every poll for the node and each instance, so it answers from memory.
pub trait TrafficSource: Send + Sync + fmt::Debug + 'static {
    /// Of the node.
    fn node(&self) -> Option<TrafficUsage>;
    /// Of an instance; `None` if it has no network.
    fn instance(&self, instance: &InstanceIdent) -> Option<TrafficUsage>;
}

/// For a node that counts no bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTraffic;

impl TrafficSource for NoTraffic {
    fn node(&self) -> Option<TrafficUsage> {
        None
    }

    fn instance(&self, _: &InstanceIdent) -> Option<TrafficUsage> {
        None
    }
}
