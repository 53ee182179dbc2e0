//! The listening side of socket units.
//!
//! [`open`] makes every `Listen...=` line of a unit a descriptor, or takes one that was kept over from before.
//! [`remove_files`] is what `RemoveOnStop=` asks for, [`flush`] what `FlushPending=` asks for. Descriptors that accept
//! connections give them to [`accept`], which says who called and how the instance that serves it is named.
//!
//! All descriptors are non-blocking and closed on exec. Whether something waits at one is for the caller's event loop to
//! find out: each kind reports it as readable, but for regular files behind `ListenSpecial=`, which cannot be waited for.
//!
//! A client never meets a closed door because the manager was replaced: descriptors that were kept still have their
//! queue, and are used again as long as they are what the unit asks for.

mod accept;
mod address;
mod files;
mod options;
mod pending;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};

use muster_unit_file::config::{SocketConfig, SocketProtocol};
use muster_unit_file::value::network::{Listen, ListenAddress, ListenKind};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto};
use thiserror::Error;

pub use accept::{Accepted, ConnectionsPerSource, Peer, Source, accept};
pub use files::{RemoveFileError, remove_files};
pub use options::SetSocketOptionError;
pub use pending::{flush, incoming};

use address::Endpoint;

/// Whom the files of sockets are given to; `None` leaves what the kernel chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// `SocketUser=`, looked up.
    pub uid: Option<u32>,
    /// `SocketGroup=`, looked up.
    pub gid: Option<u32>,
}

/// What [`open`] gives.
#[derive(Debug)]
pub struct OpenedSockets {
    /// One descriptor per `Listen...=` line, in their order.
    pub sockets: Vec<OwnedFd>,
    /// How many of them are descriptors that were kept.
    pub reused: usize,
    /// What could not be set; the sockets work without.
    pub warnings: Vec<SetSocketOptionError>,
}

/// A step of opening a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenStep {
    /// Finding out what the address stands for.
    Resolve,
    /// Making the socket, or opening the file.
    Open,
    /// Making the folders above its file.
    MakeFolders,
    /// Binding it to its network interface.
    BindToDevice,
    /// Binding it to its address.
    Bind,
    /// Setting the mode of its file.
    SetMode,
    /// Giving its file to `SocketUser=` and `SocketGroup=`.
    SetOwner,
    /// Listening.
    Listen,
}

impl OpenStep {
    /// In words that follow "cannot".
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resolve => "resolve the address",
            Self::Open => "open it",
            Self::MakeFolders => "make the folders above it",
            Self::BindToDevice => "bind to the network interface",
            Self::Bind => "bind to the address",
            Self::SetMode => "set its mode",
            Self::SetOwner => "set its owner",
            Self::Listen => "listen",
        }
    }
}

/// A line whose socket could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("Listen{kind}={address}: cannot {}", step.as_str())]
pub struct OpenSocketError {
    /// Which line, from 0.
    pub index: u16,
    /// Its kind.
    pub kind: ListenKind,
    /// Its address.
    pub address: Box<str>,
    /// What failed.
    pub step: OpenStep,
    /// How.
    #[source]
    pub source: Errno,
}

/// Opens every line of a unit.
///
/// `kept` are descriptors that this unit had before, in any order. One that is what a line asks for is used again, with
/// everything that waits in it; the others are closed.
///
/// # Errors
/// A line cannot be opened. Everything is closed then; files stay, as they do when a socket unit stops.
pub fn open(
    config: &SocketConfig,
    owner: Owner,
    mut kept: Vec<OwnedFd>,
) -> Result<OpenedSockets, OpenSocketError> {
    let mut opened = OpenedSockets {
        sockets: Vec::with_capacity(config.listen.len()),
        reused: 0,
        warnings: Vec::new(),
    };
    for (index, listen) in config.listen.iter().enumerate() {
        let failed = |(step, source)| OpenSocketError {
            index: u16::try_from(index).unwrap_or(u16::MAX),
            kind: listen.kind,
            address: listen.address.to_string().into(),
            step,
            source,
        };
        let fitting = kept.iter().position(|fd| fits(config, listen, fd.as_fd()));
        let socket = match fitting.map(|at| kept.remove(at)) {
            Some(fd) => {
                opened.reused += 1;
                fd
            }
            None => open_line(config, listen, &mut opened.warnings).map_err(failed)?,
        };
        files::set_owner(listen, owner, socket.as_fd())
            .map_err(|source| failed((OpenStep::SetOwner, source)))?;
        options::apply(config, listen, socket.as_fd(), &mut opened.warnings);
        if is_listening(listen.kind) {
            let backlog = i32::try_from(config.backlog).unwrap_or(i32::MAX);
            rustix::net::listen(&socket, backlog)
                .map_err(|source| failed((OpenStep::Listen, source)))?;
        }
        opened.sockets.push(socket);
    }
    files::make_links(config, &mut opened.warnings);
    Ok(opened)
}

type Failure = (OpenStep, Errno);

fn open_line(
    config: &SocketConfig,
    listen: &Listen,
    warnings: &mut Vec<SetSocketOptionError>,
) -> Result<OwnedFd, Failure> {
    match (listen.kind, &listen.address) {
        (ListenKind::Fifo, ListenAddress::Path(path)) => files::open_fifo(path, config),
        (ListenKind::Special, ListenAddress::Path(path)) => files::open_special(path, config),
        (ListenKind::MessageQueue, ListenAddress::Path(name)) => files::open_queue(name, config),
        (ListenKind::UsbFunction, _) => Err((OpenStep::Open, Errno::OPNOTSUPP)),
        _ => open_socket(config, listen, warnings),
    }
}

fn open_socket(
    config: &SocketConfig,
    listen: &Listen,
    warnings: &mut Vec<SetSocketOptionError>,
) -> Result<OwnedFd, Failure> {
    let endpoint = Endpoint::resolve(listen).map_err(|source| (OpenStep::Resolve, source))?;
    let socket = rustix::net::socket_with(
        endpoint.family(),
        socket_type(listen.kind),
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        protocol(config, &endpoint),
    )
    .map_err(|source| (OpenStep::Open, source))?;
    if let (AddressFamily::INET | AddressFamily::INET6, Some(device)) =
        (endpoint.family(), &config.bind_to_device)
    {
        options::bind_to_device(socket.as_fd(), device)
            .map_err(|source| (OpenStep::BindToDevice, source))?;
    }
    options::apply_before_bind(config, listen, &endpoint, socket.as_fd(), warnings);
    match &listen.address {
        ListenAddress::Path(path) => {
            files::bind_unix(path, &endpoint, socket.as_fd(), config)?;
        }
        _ => rustix::net::bind(&socket, &endpoint.address)
            .map_err(|source| (OpenStep::Bind, source))?,
    }
    Ok(socket)
}

/// Whether a kept descriptor is what a line asks for, and still reachable at its address.
fn fits(config: &SocketConfig, listen: &Listen, fd: std::os::fd::BorrowedFd<'_>) -> bool {
    match (listen.kind, &listen.address) {
        (ListenKind::Fifo | ListenKind::Special, ListenAddress::Path(path)) => {
            files::is_same_file(path, fd)
        }
        (ListenKind::MessageQueue, ListenAddress::Path(name)) => files::is_same_queue(name, fd),
        (ListenKind::UsbFunction, _) => false,
        _ => {
            let Ok(endpoint) = Endpoint::resolve(listen) else {
                return false;
            };
            let kind = rustix::net::sockopt::socket_type(fd);
            let wanted = socket_type(listen.kind);
            kind.is_ok_and(|kind| kind == wanted)
                && endpoint.is_bound_to(fd)
                && protocol_fits(protocol(config, &endpoint), fd)
        }
    }
}

fn protocol_fits(wanted: Option<Protocol>, fd: std::os::fd::BorrowedFd<'_>) -> bool {
    match wanted {
        None => true,
        some => rustix::net::sockopt::socket_protocol(fd).is_ok_and(|found| found == some),
    }
}

fn is_listening(kind: ListenKind) -> bool {
    matches!(kind, ListenKind::Stream | ListenKind::SequentialPacket)
}

fn socket_type(kind: ListenKind) -> SocketType {
    match kind {
        ListenKind::Datagram => SocketType::DGRAM,
        ListenKind::SequentialPacket => SocketType::SEQPACKET,
        ListenKind::Netlink => SocketType::RAW,
        _ => SocketType::STREAM,
    }
}

fn protocol(config: &SocketConfig, endpoint: &Endpoint) -> Option<Protocol> {
    if endpoint.family() == AddressFamily::NETLINK {
        return endpoint.netlink_protocol;
    }
    match config.protocol {
        _ if !endpoint.is_ip() => None,
        SocketProtocol::Default => None,
        SocketProtocol::UdpLite => Some(ipproto::UDPLITE),
        SocketProtocol::Sctp => Some(ipproto::SCTP),
    }
}
