//! A server: of one network, or of a Unit.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::decide::{self, Decision, Elsewhere, NetworkSettings, OnNode, Realm};
use crate::forward::Forwarder;
use crate::message::{Code, Query, Transport};
use crate::records::Hosts;
use crate::unit::{UnitNames, UnitSettings};

/// The longest query that is read; longer ones do not exist.
const LONGEST_QUERY: usize = 4096;
const BACKLOG: i32 = 64;
/// A connection that goes on for ever holds its place for ever.
const QUERIES_PER_CONNECTION: usize = 1000;
/// Receiving failed for a reason that may pass, such as a lack of memory.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Bounds of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Questions to upstreams under way.
    pub questions: usize,
    /// Connections of clients.
    pub connections: usize,
    /// How long one upstream has for an answer.
    pub upstream: Duration,
    /// How long one of the controller's servers has for an answer. One that says nothing is not asked again for five times
    /// that, where there is another way to an answer.
    pub controller: Duration,
    /// How long a connection may be silent.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            questions: 256,
            connections: 64,
            upstream: Duration::from_secs(2),
            controller: Duration::from_secs(1),
            idle: Duration::from_secs(10),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
}

/// What is served, and to whom.
#[derive(Debug)]
pub(crate) enum Serve {
    /// The names of a network on its node.
    Network {
        settings: Arc<NetworkSettings>,
        hosts: watch::Receiver<Arc<Hosts>>,
    },
    /// The names of all networks.
    Unit {
        settings: UnitSettings,
        names: watch::Receiver<Arc<UnitNames>>,
    },
}

impl Serve {
    fn answers(&self, client: IpAddr) -> bool {
        match self {
            Self::Network { settings, .. } => settings.clients.contains(client),
            Self::Unit { settings, .. } => settings.clients.iter().any(|it| it.contains(client)),
        }
    }

    fn forwarder(&self, limits: Limits) -> Forwarder {
        match self {
            Self::Network { settings, .. } => Forwarder::of_network(settings, limits),
            Self::Unit { settings, .. } => Forwarder::new(settings.upstreams.clone(), limits),
        }
    }

    fn decide(&self, query: &Query<'_>, client: IpAddr, transport: Transport) -> Decision {
        match self {
            Self::Network { settings, hosts } => {
                let hosts = hosts.borrow().clone();
                let elsewhere = Elsewhere {
                    for_own: !settings.controllers.is_empty(),
                    for_others: !settings.upstreams.is_empty(),
                    otherwise: Code::NoSuchName,
                };
                let known = OnNode {
                    settings,
                    hosts: &hosts,
                };
                decide::decide(query, &known, elsewhere, transport)
            }
            Self::Unit { settings, names } => {
                let names = names.borrow().clone();
                let elsewhere = Elsewhere {
                    for_own: false,
                    for_others: !settings.upstreams.is_empty(),
                    otherwise: Code::Refused,
                };
                let seen = names.seen_by(client, query.asker());
                decide::decide(query, &seen, elsewhere, transport)
            }
        }
    }
}

/// What questions and connections need.
#[derive(Debug)]
struct Shared {
    serve: Serve,
    forwarder: Forwarder,
    limits: Limits,
    questions: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn bind(listen_on: SocketAddr, serve: Serve, limits: Limits) -> io::Result<Self> {
        let udp = socket(listen_on, SocketType::DGRAM)?;
        let tcp = socket(listen_on, SocketType::STREAM)?;
        listen(&tcp, BACKLOG)?;
        Ok(Self {
            udp: Arc::new(UdpSocket::from_std(udp.into())?),
            tcp: TcpListener::from_std(tcp.into())?,
            shared: Arc::new(Shared {
                forwarder: serve.forwarder(limits),
                serve,
                limits,
                questions: Arc::new(Semaphore::new(limits.questions)),
                connections: Arc::new(Semaphore::new(limits.connections)),
            }),
        })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Never ends; dropping it ends everything that it started.
    pub(crate) async fn run(self) {
        let mut work = JoinSet::new();
        let mut packet = vec![0; LONGEST_QUERY];
        loop {
            tokio::select! {
                received = self.udp.recv_from(&mut packet) => match received {
                    Ok((length, client)) => self.datagram(&packet[..length], client, &mut work).await,
                    Err(error) => pause_after(&error).await,
                },
                accepted = self.tcp.accept() => match accepted {
                    Ok((stream, client)) => self.connection(stream, client, &mut work),
                    Err(error) => pause_after(&error).await,
                },
                Some(_) = work.join_next() => {}
            }
        }
    }

    async fn datagram(&self, packet: &[u8], client: SocketAddr, work: &mut JoinSet<()>) {
        if !self.shared.serve.answers(client.ip()) {
            return;
        }
        match self.shared.decide(packet, client.ip(), Transport::Udp) {
            Step::Ignore => {}
            // A client that does not take its answer asks again.
            Step::Answer(answer) => drop(self.udp.send_to(&answer, client).await),
            Step::Forward(realm, permit) => {
                // Only the server keeps its address: when it ends, the next one takes it at once.
                let (udp, shared) = (Arc::downgrade(&self.udp), Arc::clone(&self.shared));
                let packet = packet.to_vec();
                work.spawn(async move {
                    let answer = shared.forward(&packet, realm, Transport::Udp).await;
                    drop(permit);
                    if let Some(udp) = udp.upgrade() {
                        let _ = udp.send_to(&answer, client).await;
                    }
                });
            }
        }
    }

    fn connection(&self, stream: TcpStream, client: SocketAddr, work: &mut JoinSet<()>) {
        let permit = Arc::clone(&self.shared.connections).try_acquire_owned();
        let is_client = self.shared.serve.answers(client.ip());
        // Dropping the stream closes it.
        if let (true, Ok(permit)) = (is_client, permit) {
            let shared = Arc::clone(&self.shared);
            work.spawn(async move {
                // A client that went away has nothing to be told.
                let _ = shared.converse(stream, client.ip()).await;
                drop(permit);
            });
        }
    }
}

/// What to do about a packet.
#[derive(Debug)]
enum Step {
    Ignore,
    Answer(Vec<u8>),
    /// With a place among the questions under way.
    Forward(Realm, OwnedSemaphorePermit),
}

impl Shared {
    fn decide(&self, packet: &[u8], client: IpAddr, transport: Transport) -> Step {
        let query = match decide::read(packet) {
            Ok(query) => query,
            Err(Some(answer)) => return Step::Answer(answer),
            Err(None) => return Step::Ignore,
        };
        match self.serve.decide(&query, client, transport) {
            Decision::Answer(answer) => Step::Answer(answer),
            Decision::Forward(realm) => match Arc::clone(&self.questions).try_acquire_owned() {
                Ok(permit) => Step::Forward(realm, permit),
                Err(_) => Step::Answer(query.refuse(Code::ServerFailure)),
            },
        }
    }

    /// The packet must be a query.
    async fn forward(&self, packet: &[u8], realm: Realm, transport: Transport) -> Vec<u8> {
        let Ok(query) = Query::parse(packet) else {
            return Vec::new();
        };
        let answer = self.forwarder.forward(&query, realm, transport).await;
        match answer.len() <= query.limit(transport) {
            true => answer,
            false => query.truncated(),
        }
    }

    async fn converse(&self, mut stream: TcpStream, client: IpAddr) -> io::Result<()> {
        for _ in 0..QUERIES_PER_CONNECTION {
            let Ok(packet) = timeout(self.limits.idle, read_query(&mut stream)).await else {
                return Ok(());
            };
            let packet = packet?;
            let answer = match self.decide(&packet, client, Transport::Tcp) {
                Step::Ignore => return Ok(()),
                Step::Answer(answer) => answer,
                Step::Forward(realm, _permit) => self.forward(&packet, realm, Transport::Tcp).await,
            };
            let length = u16::try_from(answer.len()).unwrap_or_default();
            let framed = [&length.to_be_bytes()[..], &answer[..length.into()]].concat();
            match timeout(self.limits.idle, stream.write_all(&framed)).await {
                Ok(written) => written?,
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }
}

async fn read_query(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > LONGEST_QUERY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut packet = vec![0; length];
    stream.read_exact(&mut packet).await?;
    Ok(packet)
}

async fn pause_after(error: &io::Error) {
    // Errors of single clients come this way, too, and say nothing about the socket.
    tracing::debug!(%error, "receiving a question failed");
    tokio::time::sleep(PAUSE_AFTER_ERROR).await;
}

/// A socket on an address that the node may get later, when the bridge is made.
fn socket(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    match address.ip() {
        IpAddr::V4(_) => sockopt::set_ip_freebind(&socket, true)?,
        IpAddr::V6(_) => sockopt::set_ipv6_freebind(&socket, true)?,
    }
    if kind == SocketType::STREAM {
        // Connections of a server that has just ended must not keep the next one away.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}
