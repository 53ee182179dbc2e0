//! One connection through the proxy: two sockets, and two threads for each direction.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::shared::{Mode, Shared};
use super::{Direction, TICK};

/// Read at once, at most.
const CHUNK: usize = 16 * 1024;
/// Chunks that wait for their time, per direction: 1 MiB.
const CHUNKS_HELD: usize = 64;
/// How long a peer that was told of the end may still send, before it is reset.
const FAREWELL: Duration = Duration::from_secs(1);

/// How a connection is brought to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Both peers see the end of the stream.
    Closed,
    /// Both peers see an error.
    Reset,
}

#[derive(Debug, Default)]
struct State {
    server: Option<Arc<TcpStream>>,
    /// Peers, in the hole, that have said all they will.
    silent: u8,
    end: Option<(End, Instant)>,
}

#[derive(Debug)]
pub(super) struct Connection {
    client: Arc<TcpStream>,
    state: Mutex<State>,
    changed: Condvar,
    swallowing: AtomicBool,
}

/// Bytes, and when they may go on.
type Chunk = (Instant, Vec<u8>);

impl Connection {
    /// Takes a client in, unless it is to be refused or cannot be served.
    pub(super) fn admit(client: TcpStream, shared: &Shared) -> Option<(Arc<Self>, Mode)> {
        let refused = || {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            None
        };
        let mode = shared.controls().mode;
        if mode == Mode::Refuse || prepare(&client).is_err() {
            reset_on_close(&client);
            return refused();
        }
        let connection = Arc::new(Self {
            client: Arc::new(client),
            state: Mutex::default(),
            changed: Condvar::new(),
            swallowing: AtomicBool::new(mode == Mode::Blackhole),
        });
        if !shared.add(&connection) {
            reset_on_close(&connection.client);
            return refused();
        }
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        Some((connection, mode))
    }

    /// Carries bytes until both directions have ended. Without a server, everything is swallowed.
    pub(super) fn serve(&self, shared: &Shared, server: Option<io::Result<TcpStream>>) {
        let server = match server {
            None => return self.read_into(shared, &self.client, None),
            Some(connected) => match connected.and_then(|server| prepare(&server).map(|()| server))
            {
                Ok(server) => Arc::new(server),
                Err(_) => {
                    shared.unreachable.fetch_add(1, Ordering::Relaxed);
                    return reset_on_close(&self.client);
                }
            },
        };
        self.adopt(&server);
        std::thread::scope(|scope| {
            for (direction, from, to) in [
                (Direction::ToServer, &self.client, &server),
                (Direction::ToClient, &server, &self.client),
            ] {
                let (queue, chunks) = sync_channel(CHUNKS_HELD);
                scope.spawn(move || self.read_into(shared, from, Some(queue)));
                scope.spawn(move || self.write_from(shared, to, direction, &chunks));
            }
        });
    }

    /// An end that came while the server was being connected to holds for the server, too.
    fn adopt(&self, server: &Arc<TcpStream>) {
        let mut state = self.lock();
        state.server = Some(Arc::clone(server));
        if let Some((end, _)) = state.end {
            announce(server, end);
        }
    }

    /// Ends the connection. A reset overrides an orderly end that is under way.
    pub(super) fn end(&self, end: End) {
        let mut state = self.lock();
        if state
            .end
            .is_some_and(|(earlier, _)| earlier == End::Reset || end == End::Closed)
        {
            return;
        }
        state.end = Some((end, Instant::now()));
        for socket in [Some(&self.client), state.server.as_ref()]
            .into_iter()
            .flatten()
        {
            announce(socket, end);
        }
        self.changed.notify_all();
    }

    /// A peer is lost. Once the connection is being ended, that is what was asked for.
    fn fail(&self) {
        if self.ended().is_none() {
            self.end(End::Reset);
        }
    }

    /// Loses everything from now on.
    pub(super) fn swallow(&self) {
        self.swallowing.store(true, Ordering::Relaxed);
    }

    fn is_swallowing(&self) -> bool {
        self.swallowing.load(Ordering::Relaxed)
    }

    /// Reads until the stream ends. After an orderly end what comes is dropped, and waited for only so
    /// long: closing a socket with unread bytes would reset it.
    fn read_into(&self, shared: &Shared, from: &TcpStream, mut queue: Option<SyncSender<Chunk>>) {
        let mut buffer = vec![0; CHUNK];
        loop {
            match self.ended() {
                Some((End::Reset, _)) => return,
                Some((End::Closed, since)) if since.elapsed() > FAREWELL => return,
                Some((End::Closed, _)) => queue = None,
                None => {}
            }
            match (&mut &*from).read(&mut buffer) {
                Ok(0) if self.is_swallowing() => return self.hold_open(),
                Ok(0) => return,
                Ok(length) if !self.is_swallowing() => {
                    let due = Instant::now() + shared.controls().delay;
                    let chunk = (due, buffer[..length].to_vec());
                    // A writer that is gone leaves the reader to drain.
                    if queue
                        .as_ref()
                        .is_some_and(|queue| queue.send(chunk).is_err())
                    {
                        queue = None;
                    }
                }
                Ok(_) => {}
                Err(error) if is_idle(&error) => {}
                Err(_) if self.is_swallowing() => return self.hold_open(),
                // One peer was reset: so is the other, as if there were no proxy.
                Err(_) => return self.fail(),
            }
        }
    }

    fn write_from(
        &self,
        shared: &Shared,
        to: &TcpStream,
        direction: Direction,
        chunks: &Receiver<Chunk>,
    ) {
        for (due, bytes) in chunks {
            if !self.pause_until(due) || !self.write_all(shared, to, direction, &bytes) {
                return;
            }
        }
        if self.ended().is_none() && !self.is_swallowing() {
            // One peer has said all; the other learns it, and may still answer.
            let _ = to.shutdown(Shutdown::Write);
        }
    }

    /// Writes at the rate set; false when the connection has ended.
    fn write_all(
        &self,
        shared: &Shared,
        to: &TcpStream,
        direction: Direction,
        bytes: &[u8],
    ) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.ended().is_some() {
                return false;
            }
            if self.is_swallowing() {
                return true;
            }
            // Twenty pieces a second make a slow link slow, rather than one that stutters.
            let rate = shared.controls().rate;
            let piece = rate.map_or(rest.len(), |rate| {
                rest.len()
                    .min(usize::try_from(rate / 20).unwrap_or(usize::MAX).max(1))
            });
            let started = Instant::now();
            let (allowed, springs) = shared.pass(direction, piece);
            if !self.write_piece(shared, to, direction, &rest[..allowed]) {
                return false;
            }
            if springs {
                self.end(End::Closed);
                return false;
            }
            rest = &rest[allowed..];
            if let Some(rate) = rate {
                let spent = u32::try_from(allowed).unwrap_or(u32::MAX);
                let time = Duration::from_secs_f64(f64::from(spent) / f64::from(rate));
                if !self.pause_until(started + time) {
                    return false;
                }
            }
        }
        true
    }

    fn write_piece(
        &self,
        shared: &Shared,
        to: &TcpStream,
        direction: Direction,
        mut piece: &[u8],
    ) -> bool {
        while !piece.is_empty() {
            match (&mut &*to).write(piece) {
                Ok(written) => {
                    shared.count(direction, written);
                    piece = &piece[written..];
                }
                Err(error) if is_idle(&error) && self.ended().is_none() => {}
                Err(error) if is_idle(&error) => return false,
                Err(_) => {
                    self.fail();
                    return false;
                }
            }
        }
        true
    }

    /// In the hole, a peer's end is not passed on: the other sees a connection that stays open, until
    /// it ends it, too.
    fn hold_open(&self) {
        let mut state = self.lock();
        state.silent += 1;
        self.changed.notify_all();
        let waited = self.changed.wait_while(state, |state| {
            state.end.is_none() && state.silent < 1 + u8::from(state.server.is_some())
        });
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// False when the connection has ended meanwhile.
    fn pause_until(&self, due: Instant) -> bool {
        let left = due.saturating_duration_since(Instant::now());
        let state = self.lock();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, left, |state| state.end.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        state.end.is_none()
    }

    fn ended(&self) -> Option<(End, Instant)> {
        self.lock().end
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Threads wait for a socket no longer than a tick, so that they notice the end of the connection.
fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))
}

fn is_idle(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Tells a peer, or prepares to. A socket that cannot be told has lost its peer already.
fn announce(socket: &TcpStream, end: End) {
    match end {
        End::Closed => drop(socket.shutdown(Shutdown::Write)),
        End::Reset => {
            reset_on_close(socket);
            // Sends nothing, but wakes the thread that reads, so that the socket is closed now.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}

fn reset_on_close(socket: &TcpStream) {
    // Without this the peer sees an orderly end, which no test mistakes for a reset.
    let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}
