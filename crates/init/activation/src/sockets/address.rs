//! What an address in a unit file stands for on this machine.

use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::path::Path;

use muster_unit_file::value::network::{Listen, ListenAddress};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Ipv4Addr, Ipv6Addr, Protocol, SocketAddr, SocketAddrAny, SocketAddrUnix,
    SocketAddrV6, SocketFlags, SocketType,
};

use crate::sys::VsockAddress;

/// An address that a socket can be bound to.
pub(super) struct Endpoint {
    pub(super) address: SocketAddrAny,
    /// The netlink family; `None` also for `route`, whose number is 0.
    pub(super) netlink_protocol: Option<Protocol>,
}

impl Endpoint {
    pub(super) fn resolve(listen: &Listen) -> Result<Self, Errno> {
        let mut netlink_protocol = None;
        let address = match &listen.address {
            ListenAddress::Path(path) => SocketAddrUnix::new(&**path)?.as_any(),
            ListenAddress::Abstract(name) => {
                SocketAddrUnix::new_abstract_name(name.as_bytes())?.as_any()
            }
            ListenAddress::Ip { address, interface } => {
                with_interface(*address, interface.as_deref())?.as_any()
            }
            ListenAddress::Port(port) if has_ipv6() => {
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port)).as_any()
            }
            ListenAddress::Port(port) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, *port)).as_any(),
            ListenAddress::Vsock { cid, port } => VsockAddress {
                cid: cid.unwrap_or(VsockAddress::ANY),
                port: *port,
            }
            .as_any(),
            ListenAddress::Netlink { family, group } => {
                let number = netlink_family(family).ok_or(Errno::AFNOSUPPORT)?;
                netlink_protocol = NonZeroU32::new(number).map(Protocol::from_raw);
                SocketAddrNetlink::new(0, *group).as_any()
            }
        };
        Ok(Self {
            address,
            netlink_protocol,
        })
    }

    pub(super) fn family(&self) -> AddressFamily {
        self.address.address_family()
    }

    pub(super) fn is_ip(&self) -> bool {
        matches!(self.family(), AddressFamily::INET | AddressFamily::INET6)
    }

    /// Whether a socket is bound to this address, and callers of the address reach it.
    pub(super) fn is_bound_to(&self, fd: BorrowedFd<'_>) -> bool {
        let Ok(bound) = rustix::net::getsockname(fd) else {
            return false;
        };
        if bound.address_family() != self.family() {
            return false;
        }
        match self.family() {
            AddressFamily::UNIX => {
                let unix = |any: &SocketAddrAny| SocketAddrUnix::try_from(any.clone()).ok();
                let (Some(bound), Some(wanted)) = (unix(&bound), unix(&self.address)) else {
                    return false;
                };
                bound.path_bytes() == wanted.path_bytes()
                    && bound.abstract_name() == wanted.abstract_name()
                    && bound.path().is_none_or(|path| {
                        // A file that somebody removed is an address that nobody can call any more.
                        rustix::fs::lstat(&*path).is_ok_and(|stat| {
                            rustix::fs::FileType::from_raw_mode(stat.st_mode)
                                == rustix::fs::FileType::Socket
                        })
                    })
            }
            // The kernel has chosen the port of a netlink socket; only the groups were asked for.
            AddressFamily::NETLINK => netlink_groups(&bound) == netlink_groups(&self.address),
            _ => bound == self.address,
        }
    }
}

fn netlink_groups(any: &SocketAddrAny) -> Option<u32> {
    SocketAddrNetlink::try_from(any.clone())
        .ok()
        .map(|address| address.groups())
}

fn with_interface(address: SocketAddr, interface: Option<&str>) -> Result<SocketAddr, Errno> {
    let (SocketAddr::V6(v6), Some(name)) = (address, interface) else {
        return Ok(address);
    };
    let any_socket = rustix::net::socket_with(
        AddressFamily::INET6,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let scope = match name.parse() {
        Ok(index) => index,
        Err(_) => rustix::net::netdevice::name_to_index(&any_socket, name)?,
    };
    let scoped = SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), scope);
    Ok(SocketAddr::V6(scoped))
}

/// Whether this kernel has IPv6, perhaps without an address yet.
pub(super) fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// The number of a netlink family, by its name or as it stands.
fn netlink_family(name: &str) -> Option<u32> {
    const NAMES: &[(&str, u32)] = &[
        ("route", 0),
        ("unused", 1),
        ("usersock", 2),
        ("firewall", 3),
        ("sock-diag", 4),
        ("inet-diag", 4),
        ("nflog", 5),
        ("xfrm", 6),
        ("selinux", 7),
        ("iscsi", 8),
        ("audit", 9),
        ("fib-lookup", 10),
        ("connector", 11),
        ("netfilter", 12),
        ("ip6-fw", 13),
        ("dnrtmsg", 14),
        ("kobject-uevent", 15),
        ("generic", 16),
        ("scsitransport", 18),
        ("ecryptfs", 19),
        ("rdma", 20),
    ];
    NAMES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, number)| *number)
        .or_else(|| name.parse().ok())
}
