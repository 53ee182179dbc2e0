//! Everything that can be set about a controller.

use std::time::Duration;

use muster_rpc::server::ServerConfig;
use muster_rpc::session::SessionConfig;
use muster_rpc::slots::SlotLimits;

use crate::bucket::Rate;

/// Bounds of a controller. None of them limits how many nodes there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A stream that has not said within this time whose it is is closed.
    pub hello: Duration,
    /// How long a synchronous request waits for its reply.
    pub reply: Duration,
    /// After a request was given up, how long its late reply is still expected. Nothing of the same kind is asked meanwhile, so
    /// that the late reply cannot answer the next request.
    pub late_reply: Duration,
    /// How long a stream is given to answer when another claims to be the same node.
    pub ping: Duration,
    /// A node for which a command waits so long, because it does not take those before it, is cut off.
    pub stall: Duration,
    /// How long [`SmController::stop`](crate::SmController::stop) waits for receivers to take what has arrived.
    pub stop: Duration,
    /// Messages that wait for their receiver, per node. When they are this many, the node is held back.
    pub incoming: usize,
    /// Commands that wait to be written, per node. When they are this many, whoever gives further ones waits.
    pub outgoing: usize,
    /// No message is longer, in either direction.
    pub message_bytes: usize,
    /// Digests in one request for the places of blobs.
    pub digests: usize,
    /// Messages of one node; a long one counts once for every 4 KiB. A node that sends more is slowed down to this.
    pub messages: Rate,
    /// Messages of one node that make no sense. A node that sends more is cut off.
    pub nonsense: Rate,
    /// How long a node that was cut off for what it did is kept out: at first so long, twice as long after each further time, ...
    pub quarantine_first: Duration,
    /// ... and never longer than this.
    pub quarantine_longest: Duration,
    /// A node that has behaved for so long since its last quarantine starts anew.
    pub forgiven_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(10),
            reply: Duration::from_secs(5),
            late_reply: Duration::from_secs(30),
            ping: Duration::from_secs(1),
            stall: Duration::from_secs(5),
            stop: Duration::from_secs(3),
            // A node can make the controller hold so many of its longest messages.
            incoming: 4,
            outgoing: 16,
            message_bytes: 4 * 1024 * 1024,
            digests: 4096,
            messages: Rate {
                burst: 2000,
                per_second: 500,
            },
            nonsense: Rate {
                burst: 32,
                per_second: 1,
            },
            quarantine_first: Duration::from_secs(1),
            quarantine_longest: Duration::from_mins(5),
            forgiven_after: Duration::from_mins(10),
        }
    }
}

impl Limits {
    /// The server that suits many nodes that say little: any number of connections, and windows that bound what all of them
    /// together can make the controller hold when it cannot keep up. Nodes are near; small windows do not slow them down.
    pub fn server(&self) -> ServerConfig {
        ServerConfig {
            calls_per_connection: 16,
            connections: usize::MAX,
            stream_window: 32 * 1024,
            connection_window: 64 * 1024,
            ..ServerConfig::default()
        }
    }

    pub(crate) fn session(&self) -> SessionConfig {
        SessionConfig {
            slots: SlotLimits {
                deadline: self.reply,
                drain: self.late_reply,
                ..SlotLimits::default()
            },
            incoming: self.incoming,
            queue: self.outgoing,
        }
    }
}
