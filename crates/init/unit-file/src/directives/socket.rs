//! Rows of `[Socket]`.

use super::service::{MAX_COMMANDS, without_var_run};
use super::{Directive, Status, custom, typed_field, wrong_type};
use crate::config::{SocketConfig, SocketPhase, UnitConfig, UnitKind};
use crate::name::UnitType;
use crate::value::command::Commands;
use crate::value::network::{Listen, ListenAddress, ListenKind};
use crate::value::{AssignError, Setting, ValueContext, ValueError};
use Status::Applied;

macro_rules! socket {
    ($name:literal, $($path:ident).+) => {
        typed_field!(Socket, SocketConfig, $name, $($path).+, Applied)
    };
}

macro_rules! listen {
    ($name:literal, $kind:ident) => {
        custom!(
            $name,
            "address",
            "Socket listen",
            Applied,
            |unit, text, context| { add_listen(unit, ListenKind::$kind, text, context) }
        )
    };
}

macro_rules! phase {
    ($name:literal, $phase:ident) => {
        custom!(
            $name,
            "command lines",
            "Socket commands",
            Applied,
            |unit, text, context| { add_commands(unit, SocketPhase::$phase, text, context) }
        )
    };
}

pub(super) const SOCKET: &[Directive] = &[
    listen!("ListenStream", Stream),
    listen!("ListenDatagram", Datagram),
    listen!("ListenSequentialPacket", SequentialPacket),
    listen!("ListenFIFO", Fifo),
    listen!("ListenNetlink", Netlink),
    listen!("ListenSpecial", Special),
    listen!("ListenMessageQueue", MessageQueue),
    listen!("ListenUSBFunction", UsbFunction),
    socket!("SocketProtocol", protocol),
    socket!("BindIPv6Only", bind_ipv6_only),
    socket!("Backlog", backlog),
    socket!("BindToDevice", bind_to_device),
    phase!("ExecStartPre", StartPre),
    phase!("ExecStartPost", StartPost),
    phase!("ExecStopPre", StopPre),
    phase!("ExecStopPost", StopPost),
    socket!("TimeoutSec", timeout),
    socket!("SocketUser", socket_user),
    socket!("SocketGroup", socket_group),
    socket!("SocketMode", socket_mode),
    socket!("DirectoryMode", directory_mode),
    socket!("Accept", accept),
    socket!("FlushPending", flush_pending),
    socket!("Writable", writable),
    socket!("MaxConnections", max_connections),
    socket!("MaxConnectionsPerSource", max_connections_per_source),
    socket!("KeepAlive", options.keep_alive),
    socket!("KeepAliveTimeSec", options.keep_alive_time),
    socket!("KeepAliveIntervalSec", options.keep_alive_interval),
    socket!("KeepAliveProbes", options.keep_alive_probes),
    socket!("DeferAcceptSec", options.defer_accept),
    socket!("NoDelay", options.no_delay),
    socket!("Priority", options.priority),
    socket!("ReceiveBuffer", options.receive_buffer),
    socket!("SendBuffer", options.send_buffer),
    socket!("IPTOS", options.ip_tos),
    socket!("IPTTL", options.ip_ttl),
    socket!("Mark", options.mark),
    socket!("PipeSize", options.pipe_size),
    socket!("FreeBind", options.free_bind),
    socket!("Transparent", options.transparent),
    socket!("Broadcast", options.broadcast),
    socket!("PassCredentials", options.pass_credentials),
    socket!("PassSecurity", options.pass_security),
    socket!("PassPacketInfo", options.pass_packet_info),
    socket!("Timestamping", options.timestamping),
    socket!("TCPCongestion", options.tcp_congestion),
    socket!("ReusePort", options.reuse_port),
    socket!(
        "MessageQueueMaxMessages",
        options.message_queue_max_messages
    ),
    socket!(
        "MessageQueueMessageSize",
        options.message_queue_message_size
    ),
    socket!("RemoveOnStop", remove_on_stop),
    socket!("Symlinks", symlinks),
    custom!(
        "FileDescriptorName",
        "name",
        "Socket file_descriptor_name",
        Applied,
        descriptor_name
    ),
    custom!(
        "Service",
        "service unit",
        "Socket service",
        Applied,
        service
    ),
    socket!("TriggerLimitIntervalSec", trigger_limit_interval),
    socket!("TriggerLimitBurst", trigger_limit_burst),
    socket!("SmackLabel", options.smack_label),
    socket!("SmackLabelIPIn", options.smack_label_ip_in),
    socket!("SmackLabelIPOut", options.smack_label_ip_out),
    socket!("SELinuxContextFromNet", options.selinux_context_from_net),
];

fn socket_of<'a>(
    unit: &'a mut UnitConfig,
    name: &'static str,
) -> Result<&'a mut SocketConfig, AssignError> {
    match &mut unit.kind {
        UnitKind::Socket(socket) => Ok(socket),
        _ => Err(wrong_type(name)),
    }
}

/// An empty value resets the addresses of every kind.
fn add_listen(
    unit: &mut UnitConfig,
    kind: ListenKind,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let socket = socket_of(unit, kind.as_str())?;
    if text.is_empty() {
        socket.listen.clear();
        return Ok(());
    }
    let mut listen = Listen::parse(kind, &context.expand(text)?)?;
    if let ListenAddress::Path(path) = &mut listen.address
        && kind != ListenKind::MessageQueue
    {
        *path = without_var_run(path.to_string(), context).into();
    }
    socket.listen.push(listen);
    Ok(())
}

fn add_commands(
    unit: &mut UnitConfig,
    phase: SocketPhase,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let mut added = Commands::new();
    added.assign(text, context)?;
    let socket = socket_of(unit, phase.as_str())?;
    if socket.commands.len() + added.len() > MAX_COMMANDS {
        return Err(AssignError::Fatal(ValueError::range(
            text,
            "at most 1024 commands",
        )));
    }
    if added.is_empty() {
        socket.commands.retain(|(known, _)| *known != phase);
    }
    socket
        .commands
        .extend(added.into_iter().map(|command| (phase, command)));
    Ok(())
}

fn descriptor_name(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let name = context.expand(text)?.into_owned();
    let socket = socket_of(unit, "FileDescriptorName")?;
    if name.is_empty() {
        socket.file_descriptor_name = None;
        return Ok(());
    }
    if name.len() > 255
        || name
            .bytes()
            .any(|b| !(b' '..=b'~').contains(&b) || b == b':')
    {
        return Err(
            ValueError::invalid(&name, "a name of printable characters without ':'").into(),
        );
    }
    socket.file_descriptor_name = Some(name.into());
    Ok(())
}

fn service(
    unit: &mut UnitConfig,
    text: &str,
    context: &mut ValueContext<'_>,
) -> Result<(), AssignError> {
    let name = context.unit_name(text)?;
    if name.unit_type() != UnitType::Service {
        return Err(ValueError::invalid(name.as_str(), "a service unit").into());
    }
    socket_of(unit, "Service")?.service = Some(name);
    Ok(())
}
