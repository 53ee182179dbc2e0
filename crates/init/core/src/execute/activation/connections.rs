//! Connections of `Accept=yes`: taken, kept by `muster-init`, each served by an instance of its own.
//!
//! An instance is started, and the end of one is told to its socket, between events rather than while an action is carried
//! out: only then is a unit that was just loaded known. A core that dies in between finds the connection among what was
//! kept, and goes on from there.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_activation::sockets::{self, Accepted, ConnectionsPerSource, Peer};
use muster_engine::event::LoadState;
use muster_engine::ids::{InvocationId, Time, UnitId};
use muster_engine::job::{JobMode, JobVerb};
use muster_engine::protocol::{Input, Severity};
use muster_engine::types::Machine;
use muster_unit_file::name::UnitName;

use crate::core::Core;
use crate::recover::Kept;

/// What `muster-init` keeps connections under: `conn:UNIT:N`, the unit being the socket's.
const PREFIX: &str = "conn:";
/// Connections taken from one socket before others get their turn.
const TAKEN_AT_ONCE: usize = 16;
/// How long a socket is left alone when no connection can be taken, for want of descriptors for example.
const PAUSE: u64 = 1_000_000;

/// The socket unit and the number of the connection.
type Key = (UnitId, u64);

/// Connections of all sockets.
#[derive(Debug, Default)]
pub(super) struct ConnectionTable {
    taken: BTreeMap<Key, Connection>,
    served: HashMap<UnitId, Key>,
    counts: HashMap<UnitId, ConnectionsPerSource>,
    last: HashMap<UnitId, u64>,
    /// To be done before the next wait.
    later: Vec<Later>,
    /// Sockets that are left alone until a moment.
    paused: BTreeMap<UnitId, Time>,
}

#[derive(Debug)]
struct Connection {
    fd: OwnedFd,
    peer: Peer,
}

#[derive(Debug)]
enum Later {
    Serve(Key),
    Ended(Key),
}

impl ConnectionTable {
    fn of(&self, service: UnitId) -> Option<&Connection> {
        self.taken.get(self.served.get(&service)?)
    }

    /// The connection that a service serves.
    pub(super) fn fd_of(&self, service: UnitId) -> Option<BorrowedFd<'_>> {
        self.of(service).map(|connection| connection.fd.as_fd())
    }

    /// Who is at its other end.
    pub(super) fn remote_of(&self, service: UnitId) -> Option<(String, Option<u16>)> {
        let (address, port) = self.of(service)?.peer.remote_variables()?;
        Some((address, port.parse().ok()))
    }

    /// A service is down, and with it the connection that it served.
    pub(super) fn service_ended(&mut self, service: UnitId) {
        if let Some(key) = self.served.remove(&service) {
            self.later.push(Later::Ended(key));
        }
    }

    /// When something is to be done.
    pub(super) fn next_moment(&self) -> Option<Time> {
        if self.later.is_empty() {
            self.paused.values().min().copied()
        } else {
            Some(Time(0))
        }
    }
}

impl Core {
    /// Takes connections that wait at a socket.
    pub(super) fn accept_connections(&mut self, unit: UnitId, index: u8) {
        for _ in 0..TAKEN_AT_ONCE {
            let Some(listening) = self.activation.sockets.of(unit) else {
                return;
            };
            let limit = listening.per_source;
            let Some(socket) = listening.sockets.get(usize::from(index)) else {
                return;
            };
            match sockets::accept(socket) {
                Ok(None) => return,
                Ok(Some(accepted)) => self.take_connection(unit, limit, accepted),
                Err(error) => {
                    let message = format!("No connection can be taken at the moment: {error}.");
                    self.say(Severity::Error, Some(unit), &message);
                    self.watch_sockets(unit, false);
                    let until = Time(self.now().monotonic.0.saturating_add(PAUSE));
                    self.activation.connections.paused.insert(unit, until);
                    return;
                }
            }
        }
    }

    fn take_connection(&mut self, unit: UnitId, limit: u32, accepted: Accepted) {
        let table = &mut self.activation.connections;
        if let Some(source) = accepted.peer.source()
            && !table.counts.entry(unit).or_default().take(source, limit)
        {
            let message = format!("A connection is refused: its source has {limit} already.");
            return self.say(Severity::Warning, Some(unit), &message);
        }
        let known = self.memory.connections.get(&unit).copied().unwrap_or(0);
        let last = table.last.entry(unit).or_default();
        *last = (*last).max(known) + 1;
        let number = *last;
        if let (Some(key), Ok(copy)) =
            (self.connection_key((unit, number)), accepted.fd.try_clone())
        {
            // At once: from here on, a core that dies loses nothing.
            self.platform.keep(key, copy);
            let _ = self.platform.flush();
        }
        let connection = Connection {
            fd: accepted.fd,
            peer: accepted.peer,
        };
        let table = &mut self.activation.connections;
        table.taken.insert((unit, number), connection);
        self.tell(unit, Input::Accepted { number });
        self.apply_queued();
    }

    fn connection_key(&self, (socket, number): Key) -> Option<String> {
        let name = &self.engine.get(socket)?.name;
        Some(format!("{PREFIX}{name}:{number}"))
    }

    pub(super) fn serve_later(&mut self, socket: UnitId, number: u64) {
        let later = &mut self.activation.connections.later;
        later.push(Later::Serve((socket, number)));
    }

    pub(super) fn drop_connection(&mut self, socket: UnitId, number: u64) {
        let key = (socket, number);
        let table = &mut self.activation.connections;
        let Some(connection) = table.taken.remove(&key) else {
            return;
        };
        if let (Some(source), Some(counts)) =
            (connection.peer.source(), table.counts.get_mut(&socket))
        {
            counts.release(source);
        }
        if let Some(name) = self.connection_key(key) {
            self.platform.release(&name);
        }
    }

    /// Does what had to wait until no action was being carried out.
    pub(super) fn connections_later(&mut self) {
        for later in std::mem::take(&mut self.activation.connections.later) {
            match later {
                Later::Serve(key) => self.serve(key),
                Later::Ended(key) => {
                    self.drop_connection(key.0, key.1);
                    self.tell(key.0, Input::ConnectionClosed);
                }
            }
        }
        let now = self.now().monotonic;
        let paused = &mut self.activation.connections.paused;
        let over: Vec<UnitId> = paused
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(unit, _)| *unit)
            .collect();
        for unit in over {
            self.activation.connections.paused.remove(&unit);
            let watches = self.memory.watches.get(&unit);
            if watches.is_some_and(|watches| watches.sockets) {
                self.watch_sockets(unit, true);
            }
        }
    }

    /// Starts the instance that serves a connection.
    fn serve(&mut self, key: Key) {
        let Some(name) = self.instance_of(key) else {
            return;
        };
        if self
            .activation
            .connections
            .served
            .values()
            .any(|served| *served == key)
        {
            // Asked for again by a core that does not know how far the last one came.
            return;
        }
        self.ensure_loaded(name.as_str());
        let service = self.engine.find(name.as_str());
        let service = service.filter(|id| self.engine.unit(*id).load == LoadState::Loaded);
        let Some(service) = service else {
            let message = format!("A connection is dropped: {name} cannot be loaded.");
            self.say(Severity::Error, Some(key.0), &message);
            self.drop_connection(key.0, key.1);
            return self.tell(key.0, Input::ConnectionClosed);
        };
        self.activation.connections.served.insert(service, key);
        self.want(name.as_str(), JobVerb::Start, JobMode::Replace);
    }

    fn instance_of(&self, key: Key) -> Option<UnitName> {
        let connection = self.activation.connections.taken.get(&key)?;
        let socket = self.name_of(key.0)?;
        let instance = connection.peer.instance(key.1);
        UnitName::new(&format!("{}@{instance}.service", socket.prefix())).ok()
    }

    /// Takes back what `muster-init` kept: instances that run go on, connections that nobody serves yet are served, and
    /// sockets are told of those that are over.
    pub(super) fn restore_connections(&mut self, kept: &mut Kept) {
        for (name, fd) in kept.take_all(PREFIX) {
            let parts = name
                .strip_prefix(PREFIX)
                .and_then(|key| key.rsplit_once(':'));
            let key = parts.and_then(|(unit, number)| {
                Some((self.engine.find(unit)?, number.parse::<u64>().ok()?))
            });
            match key {
                Some(key) => self.restore_connection(key, fd),
                None => self.platform.release(&name),
            }
        }
        self.count_connections();
    }

    fn restore_connection(&mut self, key: Key, fd: OwnedFd) {
        let peer = Peer::of(&fd);
        let table = &mut self.activation.connections;
        if let Some(source) = peer.source() {
            table.counts.entry(key.0).or_default().take(source, 0);
        }
        let last = table.last.entry(key.0).or_default();
        *last = (*last).max(key.1);
        table.taken.insert(key, Connection { fd, peer });
        let known = self.memory.connections.get(&key.0).copied().unwrap_or(0);
        if key.1 > known {
            // It was taken and kept, and then the last core died.
            return self.tell(key.0, Input::Accepted { number: key.1 });
        }
        let instance = self.instance_of(key);
        let service = instance.and_then(|name| self.engine.find(name.as_str()));
        let record = service.map(|service| (service, self.engine.unit(service)));
        match record {
            Some((service, record)) if !record.active().is_down() => {
                self.activation.connections.served.insert(service, key);
            }
            // It was served, and its end was not told to init.
            Some((_, record)) if record.invocation != InvocationId::default() => {
                self.drop_connection(key.0, key.1);
            }
            _ => self.serve_later(key.0, key.1),
        }
    }

    /// Sockets that count more connections than there are did not hear of the end of some.
    fn count_connections(&mut self) {
        let mut over = Vec::new();
        for (unit, record) in self.engine.units() {
            if let Machine::Socket(socket) = &record.machine {
                let known = self.memory.connections.get(&unit).copied().unwrap_or(0);
                let taken = &self.activation.connections.taken;
                let there = taken.range((unit, 0)..=(unit, known)).count();
                let there = u32::try_from(there).unwrap_or(u32::MAX);
                let missing = socket.connections.saturating_sub(there);
                over.extend((0..missing).map(|_| unit));
            }
        }
        for unit in over {
            self.tell(unit, Input::ConnectionClosed);
        }
    }
}
