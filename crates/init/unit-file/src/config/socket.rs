//! Sockets.

use super::service::DEFAULT_TIMEOUT;
use super::{Rare, rare};
use crate::name::UnitName;
use crate::timespan::TimeSpan;
use crate::value::command::Command;
use crate::value::network::{Listen, ListenKind};
use crate::value::number::{Bytes, Mode, Timeout, parse_boolean};
use crate::value::path::PathList;
use crate::value::word_enum;
use crate::value::words::Account;

word_enum! {
    /// Whether an IPv6 socket takes IPv4 connections.
    BindIpv6Only, "IPv6 binding" + ipv6_only_word,
    Default = "default", Both = "both", Ipv6Only = "ipv6-only",
}

fn ipv6_only_word(text: &str) -> &str {
    match parse_boolean(text) {
        Ok(true) => "ipv6-only",
        Ok(false) => "both",
        Err(_) => text,
    }
}

word_enum! {
    /// A transport beside the usual one of a socket.
    SocketProtocol, "protocol",
    Default = "", UdpLite = "udplite", Sctp = "sctp",
}

word_enum! {
    /// Time stamps on packets.
    Timestamping, "time stamps" + timestamping_word,
    Off = "off", Micros = "us", Nanos = "ns",
}

word_enum! {
    /// When a command of a socket runs.
    SocketPhase, "phase",
    StartPre = "ExecStartPre", StartPost = "ExecStartPost", StopPre = "ExecStopPre", StopPost = "ExecStopPost",
}

/// Socket options; `None` leaves the kernel's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SocketOptions {
    /// Send probes.
    pub keep_alive: bool,
    /// After how much silence.
    pub keep_alive_time: TimeSpan,
    /// How often.
    pub keep_alive_interval: TimeSpan,
    /// How many.
    pub keep_alive_probes: u32,
    /// Wait for data before accepting.
    pub defer_accept: TimeSpan,
    /// Send at once.
    pub no_delay: bool,
    /// `SO_PRIORITY`
    pub priority: Option<i32>,
    /// `SO_RCVBUF`, 0 for the default.
    pub receive_buffer: Bytes,
    /// `SO_SNDBUF`, 0 for the default.
    pub send_buffer: Bytes,
    /// `IP_TOS`
    pub ip_tos: Option<TypeOfService>,
    /// `IP_TTL`
    pub ip_ttl: Option<i32>,
    /// `SO_MARK`
    pub mark: Option<i32>,
    /// Of pipes, 0 for the default.
    pub pipe_size: Bytes,
    /// `IP_FREEBIND`
    pub free_bind: bool,
    /// `IP_TRANSPARENT`
    pub transparent: bool,
    /// `SO_BROADCAST`
    pub broadcast: bool,
    /// `SO_PASSCRED`
    pub pass_credentials: bool,
    /// `SO_PASSSEC`
    pub pass_security: bool,
    /// `IP_PKTINFO` and its relatives.
    pub pass_packet_info: bool,
    /// Time stamps on packets.
    pub timestamping: Timestamping,
    /// `TCP_CONGESTION`
    pub tcp_congestion: Option<Box<str>>,
    /// `SO_REUSEPORT`
    pub reuse_port: bool,
    /// Of message queues, 0 for the default.
    pub message_queue_max_messages: i64,
    /// Of message queues, 0 for the default.
    pub message_queue_message_size: i64,
    /// SMACK label of the file.
    pub smack_label: Option<Box<str>>,
    /// SMACK label of what comes in.
    pub smack_label_ip_in: Option<Box<str>>,
    /// SMACK label of what goes out.
    pub smack_label_ip_out: Option<Box<str>>,
    /// Take the SELinux context from the peer.
    pub selinux_context_from_net: bool,
}

pub(crate) fn timestamping_word(text: &str) -> &str {
    match text {
        "usec" | "\u{b5}s" | "\u{3bc}s" => "us",
        "nsec" => "ns",
        other => other,
    }
}

/// `IP_TOS`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeOfService(pub u8);

crate::value::scalar_setting!(TypeOfService, "type of service", |text: &str| {
    let named = match text {
        "low-delay" => Some(0x10),
        "throughput" => Some(0x08),
        "reliability" => Some(0x04),
        "low-cost" => Some(0x02),
        _ => text.parse().ok(),
    };
    named.map(TypeOfService).ok_or_else(|| {
        crate::value::ValueError::invalid(
            text,
            "low-delay, throughput, reliability, low-cost or 0 to 255",
        )
    })
});

rare!(SocketOptions);

/// What a socket adds.
#[derive(Clone, Debug, PartialEq)]
pub struct SocketConfig {
    /// Where it listens, in the order of the files.
    pub listen: Vec<Listen>,
    /// A transport beside the usual one.
    pub protocol: SocketProtocol,
    /// Whether an IPv6 socket takes IPv4 connections.
    pub bind_ipv6_only: BindIpv6Only,
    /// Connections that wait; the kernel may have a lower limit.
    pub backlog: u32,
    /// The network interface it is bound to.
    pub bind_to_device: Option<Box<str>>,
    /// Commands, in the order of the files.
    pub commands: Vec<(SocketPhase, Command)>,
    /// How long a command may take.
    pub timeout: Timeout,
    /// Owner of the socket's file.
    pub socket_user: Option<Account>,
    /// Group of the socket's file.
    pub socket_group: Option<Account>,
    /// Mode of the socket's file.
    pub socket_mode: Mode,
    /// Mode of the directories above it.
    pub directory_mode: Mode,
    /// One service per connection.
    pub accept: bool,
    /// Throw away what came before the start.
    pub flush_pending: bool,
    /// `ListenSpecial=` opens for writing too.
    pub writable: bool,
    /// With `accept`: how many services at once.
    pub max_connections: u32,
    /// With `accept`: how many per peer, 0 for no limit.
    pub max_connections_per_source: u32,
    /// Remove files when stopped.
    pub remove_on_stop: bool,
    /// Links to the socket's file.
    pub symlinks: PathList,
    /// How the service finds the descriptor; `None` is the unit's name.
    pub file_descriptor_name: Option<Box<str>>,
    /// The service it starts; `None` is the one with the same name.
    pub service: Option<UnitName>,
    /// Time over which starts are counted; `None` is the default of two seconds.
    pub trigger_limit_interval: Option<TimeSpan>,
    /// Starts in that time; `None` is 200 with `accept`, else 20.
    pub trigger_limit_burst: Option<u32>,
    /// Socket options.
    pub options: Rare<SocketOptions>,
}

impl Default for SocketConfig {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            protocol: SocketProtocol::Default,
            bind_ipv6_only: BindIpv6Only::Default,
            backlog: 2_147_483_647,
            bind_to_device: None,
            commands: Vec::new(),
            timeout: Timeout(DEFAULT_TIMEOUT),
            socket_user: None,
            socket_group: None,
            socket_mode: Mode(0o666),
            directory_mode: Mode(0o755),
            accept: false,
            flush_pending: false,
            writable: false,
            max_connections: 64,
            max_connections_per_source: 0,
            remove_on_stop: false,
            symlinks: PathList::default(),
            file_descriptor_name: None,
            service: None,
            trigger_limit_interval: None,
            trigger_limit_burst: None,
            options: Rare::default(),
        }
    }
}

impl SocketConfig {
    /// Whether every one of its sockets can have connections.
    #[must_use]
    pub fn can_accept(&self) -> bool {
        let connects = |listen: &Listen| {
            matches!(
                listen.kind,
                ListenKind::Stream | ListenKind::SequentialPacket
            )
        };
        self.listen.iter().all(connects)
    }

    /// Starts that are allowed in [`SocketConfig::trigger_interval`].
    #[must_use]
    pub fn trigger_burst(&self) -> u32 {
        self.trigger_limit_burst
            .unwrap_or(if self.accept { 200 } else { 20 })
    }

    /// The time over which starts are counted.
    #[must_use]
    pub fn trigger_interval(&self) -> TimeSpan {
        self.trigger_limit_interval
            .filter(|interval| !interval.is_infinite())
            .unwrap_or(TimeSpan::from_secs(2))
    }
}
