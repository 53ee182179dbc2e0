//! Connections of `Accept=yes`: who calls, how the instance that serves the call is named, how many calls one source has.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags};

use crate::sys::{self, VsockAddress};

/// A connection that was taken.
#[derive(Debug)]
pub struct Accepted {
    /// The connection; blocking, as a service expects its standard input to be.
    pub fd: OwnedFd,
    /// Who called.
    pub peer: Peer,
}

/// Both ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// Over the network.
    Ip {
        /// Our end.
        local: SocketAddr,
        /// Theirs.
        remote: SocketAddr,
    },
    /// A process of this machine.
    Unix {
        /// Its number; 0 where this namespace has none for it.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// Another machine on the same host, or the host.
    Vsock {
        /// Our context id and port.
        local: (u32, u32),
        /// Theirs.
        remote: (u32, u32),
    },
    /// Nothing can be said.
    Unknown,
}

/// Where calls come from, as `MaxConnectionsPerSource=` counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An address, whatever the port.
    Ip(IpAddr),
    /// A context id.
    Vsock(u32),
}

/// Takes one connection, or none if none waits (any more).
///
/// # Errors
/// The kernel refuses, for want of descriptors or memory. The connection still waits then.
pub fn accept<Fd: AsFd>(socket: Fd) -> Result<Option<Accepted>, Errno> {
    let flags = SocketFlags::CLOEXEC;
    match rustix::net::accept_with(socket.as_fd(), flags) {
        Ok(fd) => {
            let peer = Peer::of(&fd);
            Ok(Some(Accepted { fd, peer }))
        }
        Err(error) if is_callers_trouble(error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Errors that tell of a caller that went away or of its network; Linux reports them at the listening socket.
fn is_callers_trouble(error: Errno) -> bool {
    matches!(
        error,
        Errno::AGAIN
            | Errno::INTR
            | Errno::CONNABORTED
            | Errno::CONNRESET
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::NONET
            | Errno::HOSTUNREACH
            | Errno::OPNOTSUPP
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::TIMEDOUT
    )
}

impl Peer {
    /// Who is at the other end of a connection; also of one that was taken before.
    #[must_use]
    pub fn of<Fd: AsFd>(connection: Fd) -> Self {
        let fd = connection.as_fd();
        let Ok(local) = rustix::net::getsockname(fd) else {
            return Self::Unknown;
        };
        let remote = || rustix::net::getpeername(fd).ok().flatten();
        match local.address_family() {
            AddressFamily::INET | AddressFamily::INET6 => {
                let ends = ip(local).zip(remote().and_then(ip));
                ends.map_or(Self::Unknown, |(local, remote)| Self::Ip { local, remote })
            }
            AddressFamily::UNIX => sys::peer_credentials(fd)
                .map_or(Self::Unknown, |(pid, uid)| Self::Unix { pid, uid }),
            AddressFamily::VSOCK => {
                let read = |any: &SocketAddrAny| {
                    VsockAddress::read(any).map(|address| (address.cid, address.port))
                };
                let ends = read(&local).zip(remote().as_ref().and_then(read));
                ends.map_or(Self::Unknown, |(local, remote)| Self::Vsock {
                    local,
                    remote,
                })
            }
            _ => Self::Unknown,
        }
    }

    /// The name of the instance that serves this connection, the `number`-th of its socket.
    #[must_use]
    pub fn instance(&self, number: u64) -> String {
        match self {
            Self::Ip { local, remote } => format!("{number}-{}-{}", Plain(local), Plain(remote)),
            Self::Unix { pid, uid } => format!("{number}-{pid}-{uid}"),
            Self::Vsock { local, remote } => {
                format!("{number}-{}:{}-{}:{}", local.0, local.1, remote.0, remote.1)
            }
            Self::Unknown => format!("{number}-unknown"),
        }
    }

    /// `REMOTE_ADDR` and `REMOTE_PORT`, where there is such a thing.
    #[must_use]
    pub fn remote_variables(&self) -> Option<(String, String)> {
        match self {
            Self::Ip { remote, .. } => {
                let address = remote.ip().to_canonical();
                Some((address.to_string(), remote.port().to_string()))
            }
            Self::Vsock { remote, .. } => {
                Some((format!("vsock:{}", remote.0), remote.1.to_string()))
            }
            Self::Unix { .. } | Self::Unknown => None,
        }
    }

    /// Where the call comes from; processes of this machine are not told apart.
    #[must_use]
    pub fn source(&self) -> Option<Source> {
        match self {
            Self::Ip { remote, .. } => Some(Source::Ip(remote.ip().to_canonical())),
            Self::Vsock { remote, .. } => Some(Source::Vsock(remote.0)),
            Self::Unix { .. } | Self::Unknown => None,
        }
    }
}

fn ip(any: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(any).ok()
}

/// An address and port as they stand in the names of instances: without brackets, and IPv4 as IPv4.
struct Plain<'a>(&'a SocketAddr);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.ip().to_canonical(), self.0.port())
    }
}

/// How many connections each source has with one socket unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionsPerSource {
    counts: BTreeMap<Source, u32>,
}

impl ConnectionsPerSource {
    /// Counts a connection, unless its source has `limit` already; 0 is no limit. `false`: it is to be refused.
    pub fn take(&mut self, source: Source, limit: u32) -> bool {
        let count = self.counts.entry(source).or_default();
        if limit > 0 && *count >= limit {
            return false;
        }
        *count = count.saturating_add(1);
        true
    }

    /// A connection of this source has ended.
    pub fn release(&mut self, source: Source) {
        if let Some(count) = self.counts.get_mut(&source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.counts.remove(&source);
            }
        }
    }

    /// How many connections a source has.
    #[must_use]
    pub fn count(&self, source: Source) -> u32 {
        self.counts.get(&source).copied().unwrap_or(0)
    }
}
