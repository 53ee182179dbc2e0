//! Socket options. One that cannot be set is a warning: the socket works without it, as it does under systemd.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use muster_unit_file::config::{BindIpv6Only, SocketConfig, Timestamping};
use muster_unit_file::timespan::TimeSpan;
use muster_unit_file::value::network::{Listen, ListenKind};
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};
use thiserror::Error;

use super::address::Endpoint;
use crate::sys::{set_socket_option, set_socket_option_bytes};

/// An option, link or label that could not be set; the socket works without it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot set {option} for {address}")]
pub struct SetSocketOptionError {
    /// The directive that asked for it.
    pub option: &'static str,
    /// The address of the socket, or the path of the link.
    pub address: Box<str>,
    /// Why.
    #[source]
    pub source: Errno,
}

/// Collects what could not be set at one socket.
struct Applier<'a> {
    listen: &'a Listen,
    warnings: &'a mut Vec<SetSocketOptionError>,
}

impl Applier<'_> {
    fn note(&mut self, option: &'static str, result: Result<(), Errno>) {
        if let Err(source) = result {
            self.warnings.push(SetSocketOptionError {
                option,
                address: self.listen.address.to_string().into(),
                source,
            });
        }
    }
}

pub(super) fn bind_to_device(fd: BorrowedFd<'_>, device: &str) -> Result<(), Errno> {
    set_socket_option_bytes(
        fd,
        libc::SOL_SOCKET,
        libc::SO_BINDTODEVICE,
        device.as_bytes(),
    )
}

/// What must be set before the socket has its address.
pub(super) fn apply_before_bind(
    config: &SocketConfig,
    listen: &Listen,
    endpoint: &Endpoint,
    fd: BorrowedFd<'_>,
    warnings: &mut Vec<SetSocketOptionError>,
) {
    let mut applier = Applier { listen, warnings };
    let options = &config.options;
    let is_v6 = endpoint.family() == AddressFamily::INET6;
    if is_v6 && config.bind_ipv6_only != BindIpv6Only::Default {
        let only = config.bind_ipv6_only == BindIpv6Only::Ipv6Only;
        applier.note("BindIPv6Only", sockopt::set_ipv6_v6only(fd, only));
    }
    if !endpoint.is_ip() {
        return;
    }
    applier.note("SO_REUSEADDR", sockopt::set_socket_reuseaddr(fd, true));
    if options.reuse_port {
        applier.note("ReusePort", sockopt::set_socket_reuseport(fd, true));
    }
    if options.free_bind {
        let result = if is_v6 {
            sockopt::set_ipv6_freebind(fd, true)
        } else {
            sockopt::set_ip_freebind(fd, true)
        };
        applier.note("FreeBind", result);
    }
    if options.transparent {
        let result = if is_v6 {
            set_socket_option(fd, libc::SOL_IPV6, libc::IPV6_TRANSPARENT, 1)
        } else {
            set_socket_option(fd, libc::SOL_IP, libc::IP_TRANSPARENT, 1)
        };
        applier.note("Transparent", result);
    }
}

/// Everything else; also set again at a descriptor that was kept, since the unit file may have changed.
pub(super) fn apply(
    config: &SocketConfig,
    listen: &Listen,
    fd: BorrowedFd<'_>,
    warnings: &mut Vec<SetSocketOptionError>,
) {
    let mut applier = Applier { listen, warnings };
    match listen.kind {
        ListenKind::Stream
        | ListenKind::Datagram
        | ListenKind::SequentialPacket
        | ListenKind::Netlink => {
            let family = sockopt::socket_domain(fd).unwrap_or(AddressFamily::UNSPEC);
            apply_general(config, fd, &mut applier);
            apply_network(config, family, fd, &mut applier);
            if listen.kind == ListenKind::Stream {
                apply_tcp(config, fd, &mut applier);
            }
        }
        ListenKind::Fifo => apply_fifo(config, fd, &mut applier),
        ListenKind::Special | ListenKind::MessageQueue | ListenKind::UsbFunction => {}
    }
}

fn apply_general(config: &SocketConfig, fd: BorrowedFd<'_>, applier: &mut Applier<'_>) {
    let options = &config.options;
    if options.keep_alive {
        applier.note("KeepAlive", sockopt::set_socket_keepalive(fd, true));
    }
    if options.broadcast {
        applier.note("Broadcast", sockopt::set_socket_broadcast(fd, true));
    }
    if options.pass_credentials {
        applier.note("PassCredentials", sockopt::set_socket_passcred(fd, true));
    }
    let mut set = |name, option: c_int, value: c_int| {
        applier.note(name, set_socket_option(fd, libc::SOL_SOCKET, option, value));
    };
    if options.pass_security {
        set("PassSecurity", libc::SO_PASSSEC, 1);
    }
    match options.timestamping {
        Timestamping::Off => {}
        Timestamping::Micros => set("Timestamping", libc::SO_TIMESTAMP, 1),
        Timestamping::Nanos => set("Timestamping", libc::SO_TIMESTAMPNS, 1),
    }
    if let Some(priority) = options.priority {
        set("Priority", libc::SO_PRIORITY, priority);
    }
    if let Some(mark) = options.mark {
        set("Mark", libc::SO_MARK, mark);
    }
    if let Ok(size @ 1..) = usize::try_from(options.receive_buffer.0) {
        // Beyond the system's limit only by force, which needs a privilege.
        let result = sockopt::set_socket_recv_buffer_size_force(fd, size)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, size));
        applier.note("ReceiveBuffer", result);
    }
    if let Ok(size @ 1..) = usize::try_from(options.send_buffer.0) {
        let result = sockopt::set_socket_send_buffer_size_force(fd, size)
            .or_else(|_| sockopt::set_socket_send_buffer_size(fd, size));
        applier.note("SendBuffer", result);
    }
    let labels = [
        (
            "SmackLabelIPIn",
            c"security.SMACK64IPIN",
            &options.smack_label_ip_in,
        ),
        (
            "SmackLabelIPOut",
            c"security.SMACK64IPOUT",
            &options.smack_label_ip_out,
        ),
    ];
    for (name, attribute, label) in labels {
        if let Some(label) = label {
            let flags = rustix::fs::XattrFlags::empty();
            applier.note(
                name,
                rustix::fs::fsetxattr(fd, attribute, label.as_bytes(), flags),
            );
        }
    }
}

fn apply_network(
    config: &SocketConfig,
    family: AddressFamily,
    fd: BorrowedFd<'_>,
    applier: &mut Applier<'_>,
) {
    let options = &config.options;
    if options.pass_packet_info {
        let result = match family {
            AddressFamily::INET => set_socket_option(fd, libc::SOL_IP, libc::IP_PKTINFO, 1),
            AddressFamily::INET6 => {
                set_socket_option(fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)
            }
            AddressFamily::NETLINK => {
                set_socket_option(fd, libc::SOL_NETLINK, libc::NETLINK_PKTINFO, 1)
            }
            _ => Err(Errno::AFNOSUPPORT),
        };
        applier.note("PassPacketInfo", result);
    }
    if let Some(tos) = options.ip_tos {
        applier.note("IPTOS", sockopt::set_ip_tos(fd, tos.0));
    }
    if let Some(hops) = options.ip_ttl {
        let result = match family {
            AddressFamily::INET6 => {
                set_socket_option(fd, libc::SOL_IPV6, libc::IPV6_UNICAST_HOPS, hops)
            }
            _ => set_socket_option(fd, libc::SOL_IP, libc::IP_TTL, hops),
        };
        applier.note("IPTTL", result);
    }
}

fn apply_tcp(config: &SocketConfig, fd: BorrowedFd<'_>, applier: &mut Applier<'_>) {
    let options = &config.options;
    if let Some(idle) = whole_seconds(options.keep_alive_time) {
        applier.note("KeepAliveTimeSec", sockopt::set_tcp_keepidle(fd, idle));
    }
    if let Some(interval) = whole_seconds(options.keep_alive_interval) {
        applier.note(
            "KeepAliveIntervalSec",
            sockopt::set_tcp_keepintvl(fd, interval),
        );
    }
    if options.keep_alive_probes > 0 {
        let probes = options.keep_alive_probes;
        applier.note("KeepAliveProbes", sockopt::set_tcp_keepcnt(fd, probes));
    }
    if let Some(wait) = whole_seconds(options.defer_accept) {
        let seconds = c_int::try_from(wait.as_secs()).unwrap_or(c_int::MAX);
        applier.note(
            "DeferAcceptSec",
            set_socket_option(fd, libc::SOL_TCP, libc::TCP_DEFER_ACCEPT, seconds),
        );
    }
    if options.no_delay {
        applier.note("NoDelay", sockopt::set_tcp_nodelay(fd, true));
    }
    if let Some(algorithm) = &options.tcp_congestion {
        applier.note("TCPCongestion", sockopt::set_tcp_congestion(fd, algorithm));
    }
}

fn apply_fifo(config: &SocketConfig, fd: BorrowedFd<'_>, applier: &mut Applier<'_>) {
    let options = &config.options;
    if let Ok(size @ 1..) = usize::try_from(options.pipe_size.0) {
        let result = rustix::pipe::fcntl_setpipe_size(fd, size).map(|_| ());
        applier.note("PipeSize", result);
    }
    if let Some(label) = &options.smack_label {
        let flags = rustix::fs::XattrFlags::empty();
        let result = rustix::fs::fsetxattr(fd, c"security.SMACK64", label.as_bytes(), flags);
        applier.note("SmackLabel", result);
    }
}

/// The kernel counts these options in seconds, and a fraction of one is not nothing.
fn whole_seconds(span: TimeSpan) -> Option<Duration> {
    let seconds = span.to_duration()?.as_micros().div_ceil(1_000_000);
    let seconds = u64::try_from(seconds).ok()?;
    (seconds > 0).then(|| Duration::from_secs(seconds))
}
