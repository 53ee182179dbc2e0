//! A TCP proxy that hurts what passes through it.
//!
//! [`TcpProxy::new`] forwards a loopback port to a target; [`TcpProxy::on_host`] does so on a host of a
//! [`Net`](crate::net::Net). All controls take effect at once and on every connection; each may be used
//! while data flows. Nothing that is forwarded is reordered or changed.
//!
//! One thread accepts; each connection has two per direction, one that reads and one that writes later,
//! so a delay does not lower the throughput. Between them at most 1 MiB waits, so that delay and rate
//! push back on a fast sender as a real link does. Dropping the proxy resets all connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use self::connection::{Connection, End};
use self::shared::{Mode, Shared};
use crate::net::{Host, NetError};

mod connection;
mod shared;

/// More connections than this are refused.
pub const MAX_CONNECTIONS: usize = 1024;
/// How soon a thread without anything to do notices that the proxy is to stop.
const TICK: Duration = Duration::from_millis(50);
/// A target that does not answer by then is one that cannot be reached.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Why a proxy could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Its port could not be opened.
    #[error("cannot open a port for a proxy to {target}")]
    Listen {
        /// Where the proxy was to forward to.
        target: SocketAddr,
        /// What the system reported.
        #[source]
        source: io::Error,
    },
    /// The host could not be entered.
    #[error("cannot start a proxy to {target} on host {host:?}")]
    Host {
        /// Where the proxy was to forward to.
        target: SocketAddr,
        /// The host.
        host: String,
        /// Why not.
        #[source]
        source: Box<NetError>,
    },
}

/// One of the two ways through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From whoever connected to the target.
    ToServer,
    /// From the target back.
    ToClient,
}

/// What a proxy has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyStats {
    /// Connections that were taken, including those that ended up in the hole.
    pub accepted: u64,
    /// Connections that were closed at once: refused, or too many.
    pub refused: u64,
    /// Connections that were taken, but whose target could not be reached.
    pub unreachable: u64,
    /// Connections that are open now.
    pub open: usize,
    /// Bytes handed to the target.
    pub to_server: u64,
    /// Bytes handed to those who connected.
    pub to_client: u64,
}

/// A proxy; see the [module](self).
#[derive(Debug)]
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// How a connection to the target is made: from which network.
type Connect = dyn Fn() -> io::Result<TcpStream> + Send + Sync;

impl TcpProxy {
    /// Forwards a free port on 127.0.0.1 to `target`.
    pub fn new(target: SocketAddr) -> Result<Self, ProxyError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        Self::start(listener, target, move || {
            TcpStream::connect_timeout(&target, CONNECT_TIME)
        })
    }

    /// Forwards `port` (0: any that is free) of a host to `target`, which the host must reach.
    pub fn on_host(host: &Host, port: u16, target: SocketAddr) -> Result<Self, ProxyError> {
        let at = SocketAddr::from((host.ip(), port));
        let listener = host
            .run(|| TcpListener::bind(at))
            .map_err(|source| ProxyError::Host {
                target,
                host: host.name().to_owned(),
                source: Box::new(source),
            })?;
        let host = host.clone();
        Self::start(listener, target, move || {
            host.run(|| TcpStream::connect_timeout(&target, CONNECT_TIME))
                .map_err(io::Error::other)
                .flatten()
        })
    }

    fn start(
        listener: io::Result<TcpListener>,
        target: SocketAddr,
        connect: impl Fn() -> io::Result<TcpStream> + Send + Sync + 'static,
    ) -> Result<Self, ProxyError> {
        let shared = Arc::new(Shared::default());
        let start = || {
            let listener = listener?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let accepting = std::thread::Builder::new()
                .name("lab-proxy".to_owned())
                .spawn({
                    let shared = Arc::clone(&shared);
                    let connect: Arc<Connect> = Arc::new(connect);
                    move || accept_until_stopped(&listener, &shared, &connect)
                })?;
            Ok((address, accepting))
        };
        let (address, accepting) =
            start().map_err(|source| ProxyError::Listen { target, source })?;
        Ok(Self {
            address,
            shared,
            accepting: Some(accepting),
        })
    }

    /// Where to connect to.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Forwards new connections, as at the start. Connections in the hole stay there.
    pub fn forward(&self) {
        self.shared.change(|controls| controls.mode = Mode::Forward);
    }

    /// Closes all connections in an orderly way: both peers see the end of the stream. What is on its
    /// way is lost. New ones are taken.
    pub fn cut(&self) {
        self.shared.end_all(End::Closed);
    }

    /// Resets all connections: both peers see an error. New ones are taken.
    pub fn reset(&self) {
        self.shared.end_all(End::Reset);
    }

    /// Sets a trap: when, from now on and over all connections, `bytes` bytes have passed in that
    /// direction, the connection that carried the last of them is closed right after it, as by
    /// [`cut`](Self::cut). Then the trap is gone, and whoever connects again gets through.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared
            .change(|controls| *controls.trap(direction) = Some(bytes));
    }

    /// Swallows everything from now on, silently, on connections old and new; new ones are still taken.
    /// A connection that lost bytes here cannot be healed: it stays in the hole until it is ended.
    pub fn blackhole(&self) {
        self.shared
            .change(|controls| controls.mode = Mode::Blackhole);
        self.shared.swallow_all();
    }

    /// Resets new connections at once. Old ones go on.
    pub fn refuse(&self) {
        self.shared.change(|controls| controls.mode = Mode::Refuse);
    }

    /// Holds every byte back for this long, each way. Zero ends it.
    pub fn delay(&self, each_way: Duration) {
        self.shared.change(|controls| controls.delay = each_way);
    }

    /// Limits every connection to this many bytes per second, each way.
    ///
    /// # Panics
    /// Panics when the rate is zero: use [`blackhole`](Self::blackhole).
    pub fn rate(&self, bytes_per_second: u32) {
        assert!(bytes_per_second > 0, "a rate of zero forwards nothing");
        self.shared
            .change(|controls| controls.rate = Some(bytes_per_second));
    }

    /// Ends [`rate`](Self::rate).
    pub fn unlimited(&self) {
        self.shared.change(|controls| controls.rate = None);
    }

    /// What the proxy has seen so far.
    pub fn stats(&self) -> ProxyStats {
        self.shared.stats()
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(accepting) = self.accepting.take() {
            // Its panic, if any, has been printed; a destructor cannot pass it on.
            let _ = accepting.join();
        }
        self.shared.end_all(End::Reset);
        self.shared.wait_closed(Duration::from_secs(1));
    }
}

fn accept_until_stopped(listener: &TcpListener, shared: &Arc<Shared>, connect: &Arc<Connect>) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(TICK.subsec_nanos()),
    };
    while !shared.is_stopped() {
        // An interrupted or failing wait only means that accept is tried early.
        let _ = poll(
            &mut [PollFd::new(&listener.as_fd(), PollFlags::IN)],
            Some(&tick),
        );
        while let Ok((client, _)) = listener.accept() {
            admit(client, shared, connect);
        }
    }
}

fn admit(client: TcpStream, shared: &Arc<Shared>, connect: &Arc<Connect>) {
    let Some((connection, mode)) = Connection::admit(client, shared) else {
        return;
    };
    let (shared, connect) = (Arc::clone(shared), Arc::clone(connect));
    let serving = Arc::clone(&connection);
    let started = std::thread::Builder::new()
        .name("lab-proxy-link".to_owned())
        .spawn({
            let shared = Arc::clone(&shared);
            move || {
                let server = if mode == Mode::Forward {
                    Some(connect())
                } else {
                    None
                };
                serving.serve(&shared, server);
                shared.remove(&serving);
            }
        });
    if started.is_err() {
        connection.end(End::Reset);
        shared.remove(&connection);
    }
}

#[cfg(test)]
mod tests;
