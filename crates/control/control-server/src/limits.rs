//! Everything that can be set about the server.

use std::time::Duration;

use muster_rpc::server::ServerConfig;

/// Bounds of the server. None of them limits how many nodes, instances or items there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// No message is longer, in either direction.
    pub message_bytes: usize,
    /// Objects on one page of a list, and in one turn of a watcher.
    pub page: usize,
    /// How many objects of one kind that are gone are remembered for watchers.
    pub gone: usize,
    /// Watchers and followers at a time, over all connections.
    pub streams: usize,
    /// Connections to each listener.
    pub connections: usize,
    /// Calls under way per connection.
    pub calls_per_connection: u32,
    /// Bytes of a document that is applied; less than a message.
    pub document_bytes: usize,
    /// Values in a document that is applied.
    pub document_values: usize,
    /// Failures that the overview shows.
    pub failures: usize,
    /// How often followers of usage are told at most.
    pub usage_period: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 4 * 1024 * 1024,
            page: 500,
            gone: 16 * 1024,
            streams: 256,
            connections: 256,
            calls_per_connection: 64,
            document_bytes: 3 * 1024 * 1024,
            document_values: 1 << 20,
            failures: 20,
            usage_period: Duration::from_millis(500),
        }
    }
}

impl Limits {
    pub(crate) fn server(&self) -> ServerConfig {
        ServerConfig {
            calls_per_connection: self.calls_per_connection,
            connections: self.connections,
            // Streams of watchers end only with their client.
            shutdown_grace: Duration::from_millis(500),
            ..ServerConfig::default()
        }
    }
}

/// Bounds of what is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Events that are kept.
    pub events: u64,
    /// Alerts that are kept.
    pub alerts: u64,
    /// Nothing older is kept.
    pub age: Duration,
    /// Events and alerts that wait to be written. Further ones are lost, and counted.
    pub queue: usize,
    /// Longer texts are cut. A thousand alerts are one message, so it holds two thousand of these.
    pub text_bytes: usize,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self {
            events: 10_000,
            alerts: 10_000,
            age: Duration::from_hours(30 * 24),
            queue: 1024,
            text_bytes: 1024,
        }
    }
}
