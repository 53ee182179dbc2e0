//! What bounds an update.

use std::time::Duration;

/// Settings with defaults that suit a small device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// So many items are downloaded at a time.
    pub downloads: usize,
    /// A download that brings nothing for so long has failed.
    pub download_stall: Duration,
    /// So long is waited for nodes that are expected, before instances are placed. A node that has been away for longer is
    /// not expected, nor is one that was shut out, and one that comes and goes is expected once.
    pub nodes_patience: Duration,
    /// A node that is away for so long is lost, and what it ran is placed elsewhere. Long enough for a restart of the node.
    pub node_loss: Duration,
    /// So long is waited for instances to become active after the last of them did.
    pub activation_patience: Duration,
    /// So many nodes are given their instances at a time.
    pub sends: usize,
    /// Between two tries to give a node its instances.
    pub send_retry: Duration,
    /// A question to another part has failed when there is no answer for so long.
    pub answer: Duration,
    /// So many earlier desired statuses are kept to go back to.
    pub history: usize,
    /// So often at most is told how an update goes.
    pub report_period: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            downloads: 3,
            download_stall: Duration::from_secs(300),
            nodes_patience: Duration::from_secs(30),
            node_loss: Duration::from_secs(600),
            activation_patience: Duration::from_secs(600),
            sends: 256,
            send_retry: Duration::from_secs(5),
            answer: Duration::from_secs(60),
            history: 10,
            report_period: Duration::from_millis(100),
        }
    }
}
