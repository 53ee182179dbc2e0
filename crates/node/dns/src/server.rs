//! The server of one network.

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

use crate::message::{Code, Query, Transport};
use crate::records::{Decision, Hosts, NetworkSettings, decide};
use crate::upstream;

/// The longest query that is read; longer ones do not exist.
const LONGEST_QUERY: usize = 4096;
const BACKLOG: i32 = 64;
/// A connection that goes on for ever holds its place for ever.
const QUERIES_PER_CONNECTION: usize = 1000;
/// Receiving failed for a reason that may pass, such as a lack of memory.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Bounds of one network's server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Questions to upstreams under way.
    pub questions: usize,
    /// Connections of clients.
    pub connections: usize,
    /// How long one upstream has for an answer.
    pub upstream: Duration,
    /// How long a connection may be silent.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            questions: 256,
            connections: 64,
            upstream: Duration::from_secs(2),
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

/// What questions and connections need.
#[derive(Debug)]
struct Shared {
    settings: Arc<NetworkSettings>,
    hosts: watch::Receiver<Arc<Hosts>>,
    limits: Limits,
    questions: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Server {
    pub(crate) fn bind(
        settings: Arc<NetworkSettings>,
        hosts: watch::Receiver<Arc<Hosts>>,
        limits: Limits,
    ) -> io::Result<Self> {
        let udp = socket(settings.listen, SocketType::DGRAM)?;
        let tcp = socket(settings.listen, SocketType::STREAM)?;
        listen(&tcp, BACKLOG)?;
        Ok(Self {
            udp: Arc::new(UdpSocket::from_std(udp.into())?),
            tcp: TcpListener::from_std(tcp.into())?,
            shared: Arc::new(Shared {
                settings,
                hosts,
                limits,
                questions: Arc::new(Semaphore::new(limits.questions)),
                connections: Arc::new(Semaphore::new(limits.connections)),
            }),
        })
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
        if !self.shared.settings.clients.contains(client.ip()) {
            return;
        }
        match self.shared.decide(packet, Transport::Udp) {
            Decision::Ignore => {}
            // A client that does not take its answer asks again.
            Decision::Answer(answer) => drop(self.udp.send_to(&answer, client).await),
            Decision::Forward(query) => match self.shared.question_permit() {
                None => drop(
                    self.udp
                        .send_to(&query.refuse(Code::ServerFailure), client)
                        .await,
                ),
                Some(permit) => {
                    let (udp, shared) = (Arc::clone(&self.udp), Arc::clone(&self.shared));
                    let packet = packet.to_vec();
                    work.spawn(async move {
                        let answer = shared.forward(&packet, Transport::Udp, permit).await;
                        let _ = udp.send_to(&answer, client).await;
                    });
                }
            },
        }
    }

    fn connection(&self, stream: TcpStream, client: SocketAddr, work: &mut JoinSet<()>) {
        let permit = Arc::clone(&self.shared.connections).try_acquire_owned();
        let is_client = self.shared.settings.clients.contains(client.ip());
        // Dropping the stream closes it.
        if let (true, Ok(permit)) = (is_client, permit) {
            let shared = Arc::clone(&self.shared);
            work.spawn(async move {
                // A client that went away has nothing to be told.
                let _ = shared.converse(stream).await;
                drop(permit);
            });
        }
    }
}

impl Shared {
    fn decide<'a>(&self, packet: &'a [u8], transport: Transport) -> Decision<'a> {
        let hosts = self.hosts.borrow().clone();
        decide(&self.settings, &hosts, packet, transport)
    }

    fn question_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.questions).try_acquire_owned().ok()
    }

    /// The packet must be a query.
    async fn forward(
        &self,
        packet: &[u8],
        transport: Transport,
        _permit: OwnedSemaphorePermit,
    ) -> Vec<u8> {
        let Ok(query) = Query::parse(packet) else {
            return Vec::new();
        };
        let upstreams = &self.settings.upstreams;
        match upstream::ask(upstreams, &query, transport, self.limits.upstream).await {
            Some(answer) if answer.len() <= query.limit(transport) => answer,
            Some(_) => query.truncated(),
            None => query.refuse(Code::ServerFailure),
        }
    }

    async fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        for _ in 0..QUERIES_PER_CONNECTION {
            let Ok(packet) = timeout(self.limits.idle, read_query(&mut stream)).await else {
                return Ok(());
            };
            let packet = packet?;
            let answer = match self.decide(&packet, Transport::Tcp) {
                Decision::Ignore => return Ok(()),
                Decision::Answer(answer) => answer,
                Decision::Forward(query) => match self.question_permit() {
                    None => query.refuse(Code::ServerFailure),
                    Some(permit) => self.forward(&packet, Transport::Tcp, permit).await,
                },
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
