//! What all threads of a proxy share: the controls, the open connections, the counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::connection::{Connection, End};
use super::{Direction, MAX_CONNECTIONS, ProxyStats};

/// What happens to new connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Forward,
    Blackhole,
    Refuse,
}

/// What the test has asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Controls {
    pub(super) mode: Mode,
    pub(super) delay: Duration,
    /// Bytes per second and direction.
    pub(super) rate: Option<u32>,
    trap_to_server: Option<u64>,
    trap_to_client: Option<u64>,
}

impl Controls {
    /// How many more bytes may pass in that direction before a connection is cut.
    pub(super) fn trap(&mut self, direction: Direction) -> &mut Option<u64> {
        match direction {
            Direction::ToServer => &mut self.trap_to_server,
            Direction::ToClient => &mut self.trap_to_client,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    controls: Mutex<Controls>,
    open: Mutex<Vec<Arc<Connection>>>,
    closed: Condvar,
    stopped: AtomicBool,
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) unreachable: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
}

impl Shared {
    pub(super) fn change(&self, change: impl FnOnce(&mut Controls)) {
        change(&mut self.controls.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn controls(&self) -> Controls {
        *self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection, unless there are too many.
    pub(super) fn add(&self, connection: &Arc<Connection>) -> bool {
        let mut open = self.open();
        let fits = open.len() < MAX_CONNECTIONS;
        if fits {
            open.push(Arc::clone(connection));
        }
        fits
    }

    pub(super) fn remove(&self, connection: &Arc<Connection>) {
        self.open().retain(|other| !Arc::ptr_eq(other, connection));
        self.closed.notify_all();
    }

    pub(super) fn end_all(&self, end: End) {
        for connection in self.open().iter() {
            connection.end(end);
        }
    }

    pub(super) fn swallow_all(&self) {
        for connection in self.open().iter() {
            connection.swallow();
        }
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits for the connections' threads to end.
    pub(super) fn wait_closed(&self, within: Duration) {
        let waited = self
            .closed
            .wait_timeout_while(self.open(), within, |open| !open.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Of `wanted` bytes in that direction, how many may pass, and whether the trap then springs.
    pub(super) fn pass(&self, direction: Direction, wanted: usize) -> (usize, bool) {
        let mut controls = self.controls.lock().unwrap_or_else(PoisonError::into_inner);
        let trap = controls.trap(direction);
        let Some(left) = *trap else {
            return (wanted, false);
        };
        let wanted_bytes = u64::try_from(wanted).unwrap_or(u64::MAX);
        if wanted_bytes < left {
            *trap = Some(left - wanted_bytes);
            return (wanted, false);
        }
        *trap = None;
        (usize::try_from(left).unwrap_or(wanted), true)
    }

    pub(super) fn count(&self, direction: Direction, bytes: usize) {
        let counter = match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        };
        counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> ProxyStats {
        ProxyStats {
            accepted: self.accepted.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            unreachable: self.unreachable.load(Ordering::Relaxed),
            open: self.open().len(),
            to_server: self.to_server.load(Ordering::Relaxed),
            to_client: self.to_client.load(Ordering::Relaxed),
        }
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_springs_once_at_the_exact_byte() {
        let shared = Shared::default();
        assert_eq!(shared.pass(Direction::ToServer, 10), (10, false));
        shared.change(|controls| *controls.trap(Direction::ToServer) = Some(15));
        assert_eq!(shared.pass(Direction::ToClient, 99), (99, false));
        assert_eq!(shared.pass(Direction::ToServer, 10), (10, false));
        assert_eq!(shared.pass(Direction::ToServer, 10), (5, true));
        assert_eq!(shared.pass(Direction::ToServer, 10), (10, false));
        shared.change(|controls| *controls.trap(Direction::ToServer) = Some(4));
        assert_eq!(shared.pass(Direction::ToServer, 4), (4, true));
        shared.change(|controls| *controls.trap(Direction::ToServer) = Some(0));
        assert_eq!(shared.pass(Direction::ToServer, 4), (0, true));
    }
}
