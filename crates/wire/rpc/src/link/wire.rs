//! What of the current stream has been handed to HTTP/2, and what of that has left into the socket.

use std::collections::VecDeque;

/// gRPC puts a flag byte and a four-byte length before every message.
pub(super) const GRPC_PREFIX: u64 = 5;

/// Bounds of what HTTP/2 may hold for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Messages handed over and not yet in the socket.
    pub messages: usize,
    /// The same in bytes; one message may go over it.
    pub bytes: u64,
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            messages: 64,
            bytes: 256 * 1024,
        }
    }
}

/// Byte positions on one stream, from its first message on.
#[derive(Debug, Default)]
pub(super) struct Wire {
    handed: u64,
    flushed: u64,
    /// End position of every message that is not completely flushed.
    ends: VecDeque<u64>,
}

impl Wire {
    /// Accounts for a message and returns the position of its last byte.
    pub(super) fn hand(&mut self, len: usize) -> u64 {
        self.handed = self
            .handed
            .saturating_add(len as u64)
            .saturating_add(GRPC_PREFIX);
        self.ends.push_back(self.handed);
        self.handed
    }

    /// The transport has put `total` bytes of this stream into the socket.
    pub(super) fn flush(&mut self, total: u64) {
        self.flushed = self.flushed.max(total.min(self.handed));
        while self.ends.front().is_some_and(|end| *end <= self.flushed) {
            self.ends.pop_front();
        }
    }

    pub(super) fn flushed(&self) -> u64 {
        self.flushed
    }

    pub(super) fn handed(&self) -> u64 {
        self.handed
    }

    pub(super) fn has_credit(&self, limits: WireLimits) -> bool {
        self.ends.len() < limits.messages && self.handed - self.flushed < limits.bytes
    }

    #[cfg(test)]
    pub(super) fn unflushed_messages(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_include_the_prefix_and_credit_returns_with_the_flush() {
        let limits = WireLimits {
            messages: 2,
            bytes: 1000,
        };
        let mut wire = Wire::default();
        assert_eq!(wire.hand(10), 15);
        assert_eq!(wire.hand(0), 20);
        assert!(!wire.has_credit(limits), "two messages are the limit");
        wire.flush(14);
        assert!(
            !wire.has_credit(limits),
            "the first message is not complete"
        );
        wire.flush(15);
        assert!(wire.has_credit(limits));
        wire.hand(5000);
        wire.flush(20);
        assert!(!wire.has_credit(limits), "bytes are the limit");
        wire.flush(u64::MAX);
        assert_eq!((wire.flushed(), wire.unflushed_messages()), (5025, 0));
    }

    #[test]
    fn a_flush_never_goes_back() {
        let mut wire = Wire::default();
        wire.hand(95);
        wire.flush(60);
        wire.flush(20);
        assert_eq!(wire.flushed(), 60);
    }
}
