//! Sockets.

use muster_unit_file::config::{SocketConfig, SocketOptions, SocketPhase, SocketProtocol};
use muster_unit_file::timespan::TimeSpan;

use super::sheet::{NOT_SET, Sheet};
use super::{Subject, command};

pub(super) fn add(subject: &Subject<'_>, socket: &SocketConfig, sheet: &mut Sheet<'_>) {
    let options = &*socket.options;
    sheet.shown("BindIPv6Only", socket.bind_ipv6_only);
    sheet.shown("Backlog", socket.backlog);
    sheet.span("TimeoutUSec", socket.timeout.0);
    sheet.optional("BindToDevice", socket.bind_to_device.as_deref());
    sheet.optional("SocketUser", socket.socket_user.as_ref().map(|u| &u.0));
    sheet.optional("SocketGroup", socket.socket_group.as_ref().map(|g| &g.0));
    sheet.shown("SocketMode", socket.socket_mode);
    sheet.shown("DirectoryMode", socket.directory_mode);
    sheet.flag("Accept", socket.accept);
    sheet.flag("FlushPending", socket.flush_pending);
    sheet.flag("Writable", socket.writable);
    add_options(options, sheet);
    sheet.flag("RemoveOnStop", socket.remove_on_stop);
    let listen = socket.listen.iter();
    let listen = listen.map(|listen| format!("{} ({})", listen.address, listen.kind));
    sheet.rows("Listen", listen);
    sheet.list("Symlinks", socket.symlinks.0.iter());
    sheet.shown("Mark", options.mark.unwrap_or(-1));
    sheet.shown("MaxConnections", socket.max_connections);
    sheet.shown("MaxConnectionsPerSource", socket.max_connections_per_source);
    sheet.shown(
        "MessageQueueMaxMessages",
        options.message_queue_max_messages,
    );
    sheet.shown(
        "MessageQueueMessageSize",
        options.message_queue_message_size,
    );
    sheet.optional("TCPCongestion", options.tcp_congestion.as_deref());
    sheet.flag("ReusePort", options.reuse_port);
    sheet.optional("SmackLabel", options.smack_label.as_deref());
    sheet.optional("SmackLabelIPIn", options.smack_label_ip_in.as_deref());
    sheet.optional("SmackLabelIPOut", options.smack_label_ip_out.as_deref());
    add_state(subject, socket, sheet);
    for (phase, name) in [
        (SocketPhase::StartPre, "ExecStartPre"),
        (SocketPhase::StartPost, "ExecStartPost"),
        (SocketPhase::StopPre, "ExecStopPre"),
        (SocketPhase::StopPost, "ExecStopPost"),
    ] {
        let commands = socket.commands.iter().filter(|(at, _)| *at == phase);
        command::add(subject, sheet, name, commands.map(|(_, command)| command));
    }
}

fn add_options(options: &SocketOptions, sheet: &mut Sheet<'_>) {
    sheet.flag("KeepAlive", options.keep_alive);
    sheet.span("KeepAliveTimeUSec", options.keep_alive_time);
    sheet.span("KeepAliveIntervalUSec", options.keep_alive_interval);
    sheet.shown("KeepAliveProbes", options.keep_alive_probes);
    sheet.span("DeferAcceptUSec", options.defer_accept);
    sheet.flag("NoDelay", options.no_delay);
    sheet.shown("Priority", options.priority.unwrap_or(-1));
    sheet.shown("ReceiveBuffer", options.receive_buffer.0);
    sheet.shown("SendBuffer", options.send_buffer.0);
    sheet.shown("IPTOS", options.ip_tos.map_or(-1, |tos| i32::from(tos.0)));
    sheet.shown("IPTTL", options.ip_ttl.unwrap_or(-1));
    sheet.shown("PipeSize", options.pipe_size.0);
    sheet.flag("FreeBind", options.free_bind);
    sheet.flag("Transparent", options.transparent);
    sheet.flag("Broadcast", options.broadcast);
    sheet.flag("PassCredentials", options.pass_credentials);
    sheet.flag("PassSecurity", options.pass_security);
    sheet.flag("PassPacketInfo", options.pass_packet_info);
    sheet.shown("Timestamping", options.timestamping);
}

fn add_state(subject: &Subject<'_>, socket: &SocketConfig, sheet: &mut Sheet<'_>) {
    let runtime = subject.runtime;
    sheet.shown("ControlPID", runtime.processes.control_pid);
    sheet.text("Result", &*runtime.result);
    sheet.shown("NConnections", runtime.connections.open);
    sheet.shown("NAccepted", runtime.connections.accepted);
    sheet.shown("NRefused", runtime.connections.refused);
    let own_name = subject.config.name.as_str();
    let name = socket.file_descriptor_name.as_deref().unwrap_or(own_name);
    sheet.text("FileDescriptorName", name);
    let protocol = match socket.protocol {
        SocketProtocol::Default => 0,
        SocketProtocol::UdpLite => 136,
        SocketProtocol::Sctp => 132,
    };
    sheet.shown("SocketProtocol", protocol);
    // The defaults depend on the whole file.
    let (interval, burst) = if subject.is_configured() {
        (socket.trigger_interval(), socket.trigger_burst())
    } else {
        (
            socket.trigger_limit_interval.unwrap_or(TimeSpan::INFINITY),
            socket.trigger_limit_burst.unwrap_or(u32::MAX),
        )
    };
    sheet.span("TriggerLimitIntervalUSec", interval);
    sheet.shown("TriggerLimitBurst", burst);
    sheet.number_or("UID", runtime.processes.uid, NOT_SET);
    sheet.number_or("GID", runtime.processes.gid, NOT_SET);
}
