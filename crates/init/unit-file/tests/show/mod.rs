//! Some of what `systemctl show` prints, enough to compare with the oracle.

use muster_unit_file::config::{CommandPhase, ServiceConfig, SocketConfig, UnitConfig, UnitKind};
use muster_unit_file::value::access::Capabilities;
use muster_unit_file::value::list::StrList;
use muster_unit_file::value::rlimit::Resource;

type Properties = Vec<(&'static str, String)>;

pub(crate) fn properties(unit: &UnitConfig) -> Properties {
    let mut out = vec![
        ("Description", unit.description_or_name().to_owned()),
        ("StopWhenUnneeded", yes(unit.stop_when_unneeded)),
        ("RefuseManualStart", yes(unit.refuse_manual_start)),
        ("RefuseManualStop", yes(unit.refuse_manual_stop)),
        ("AllowIsolate", yes(unit.allow_isolate)),
        ("DefaultDependencies", yes(unit.default_dependencies)),
        (
            "OnFailureJobMode",
            unit.reactions.on_failure_job_mode.to_string(),
        ),
        ("JobTimeoutUSec", unit.reactions.job_timeout.0.to_string()),
        (
            "StartLimitIntervalUSec",
            unit.start_limit.interval.to_string(),
        ),
        ("StartLimitBurst", unit.start_limit.burst.to_string()),
        (
            "StartLimitAction",
            unit.reactions.start_limit_action.to_string(),
        ),
        ("FailureAction", unit.reactions.failure_action.to_string()),
        ("SuccessAction", unit.reactions.success_action.to_string()),
        ("CollectMode", unit.reactions.collect_mode.to_string()),
        (
            "DropInPaths",
            unit.drop_ins
                .iter()
                .map(|p| &**p)
                .collect::<Vec<_>>()
                .join(" "),
        ),
    ];
    match &unit.kind {
        UnitKind::Service(service) => {
            service_properties(service, &mut out);
            exec_properties(unit, &mut out);
        }
        UnitKind::Socket(socket) => {
            socket_properties(unit, socket, &mut out);
            exec_properties(unit, &mut out);
        }
        UnitKind::Timer(timer) => {
            out.push(("AccuracyUSec", timer.accuracy.to_string()));
            out.push(("RandomizedDelayUSec", timer.randomized_delay.to_string()));
            out.push(("Persistent", yes(timer.persistent)));
            out.push(("WakeSystem", yes(timer.wake_system)));
            out.push(("OnClockChange", yes(timer.on_clock_change)));
        }
        UnitKind::Path(path) => {
            // systemd keeps the last one first.
            let shown = path
                .paths
                .iter()
                .rev()
                .map(|spec| format!("{} ({})", spec.path, spec.kind));
            out.push(("Paths", shown.collect::<Vec<_>>().join("\n")));
            out.push(("MakeDirectory", yes(path.make_directory)));
            out.push(("TriggerLimitBurst", path.trigger_limit_burst.to_string()));
        }
        UnitKind::Mount(mount) => {
            out.push((
                "Where",
                mount
                    .r#where
                    .as_ref()
                    .map(|p| p.0.to_string())
                    .unwrap_or_default(),
            ));
            out.push(("What", text(mount.what.as_deref())));
            out.push(("Options", text(mount.options.as_deref())));
            out.push(("Type", text(mount.fs_type.as_deref())));
            out.push(("TimeoutUSec", mount.timeout.0.to_string()));
            out.push(("LazyUnmount", yes(mount.lazy_unmount)));
        }
        UnitKind::Automount(automount) => {
            out.push(("TimeoutIdleUSec", automount.timeout_idle.to_string()));
        }
        _ => {}
    }
    out
}

fn service_properties(service: &ServiceConfig, out: &mut Properties) {
    out.push(("Type", service.service_type().to_string()));
    out.push(("ExitType", service.exit_type.to_string()));
    out.push(("Restart", service.restart.to_string()));
    out.push(("NotifyAccess", service.notify_access().to_string()));
    out.push(("RestartUSec", service.restart_sec.to_string()));
    out.push(("TimeoutStartUSec", service.timeout_start().to_string()));
    out.push(("TimeoutStopUSec", service.timeout_stop.to_string()));
    out.push((
        "TimeoutAbortUSec",
        service
            .timeout_abort
            .unwrap_or(service.timeout_stop)
            .to_string(),
    ));
    out.push((
        "TimeoutStopFailureMode",
        service.timeout_stop_failure_mode.to_string(),
    ));
    out.push(("RuntimeMaxUSec", service.runtime_max.to_string()));
    out.push(("RemainAfterExit", yes(service.remain_after_exit)));
    out.push(("GuessMainPID", yes(service.guess_main_pid)));
    out.push((
        "RootDirectoryStartOnly",
        yes(service.root_directory_start_only),
    ));
    out.push(("NonBlocking", yes(service.non_blocking)));
    out.push((
        "FileDescriptorStoreMax",
        service.file_descriptor_store_max.to_string(),
    ));
    out.push((
        "PIDFile",
        service
            .pid_file
            .as_ref()
            .map(|p| p.0.to_string())
            .unwrap_or_default(),
    ));
    out.push(("BusName", text(service.bus_name.as_deref())));
    for (key, phase) in [
        ("ExecConditionEx", CommandPhase::Condition),
        ("ExecStartPreEx", CommandPhase::StartPre),
        ("ExecStartEx", CommandPhase::Start),
        ("ExecStartPostEx", CommandPhase::StartPost),
        ("ExecReloadEx", CommandPhase::Reload),
        ("ExecStopEx", CommandPhase::Stop),
        ("ExecStopPostEx", CommandPhase::StopPost),
    ] {
        let shown = service.commands(phase).map(|command| {
            let argv: Vec<_> = command.argv.iter().collect();
            let flags: Vec<_> = command.flags.names().collect();
            format!(
                "{{ path={} ; argv[]={} ; flags={} ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }}",
                command.path,
                argv.join(" "),
                flags.join(" ")
            )
        });
        out.push((key, shown.collect::<Vec<_>>().join("\n")));
    }
    for (key, set) in [
        ("SuccessExitStatus", &service.exits.success),
        ("RestartPreventExitStatus", &service.exits.restart_prevent),
        ("RestartForceExitStatus", &service.exits.restart_force),
    ] {
        let statuses = set.statuses().map(|status| status.to_string());
        let signals = set
            .signals()
            .map(|signal| signal.to_string().trim_start_matches("SIG").to_owned());
        out.push((key, statuses.chain(signals).collect::<Vec<_>>().join(" ")));
    }
}

fn socket_properties(unit: &UnitConfig, socket: &SocketConfig, out: &mut Properties) {
    let shown = socket
        .listen
        .iter()
        .map(|listen| format!("{} ({})", listen.address, listen.kind));
    out.push(("Listen", shown.collect::<Vec<_>>().join("\n")));
    out.push(("Accept", yes(socket.accept)));
    out.push(("BindIPv6Only", socket.bind_ipv6_only.to_string()));
    out.push(("Backlog", socket.backlog.to_string()));
    out.push(("SocketMode", socket.socket_mode.to_string()));
    out.push(("DirectoryMode", socket.directory_mode.to_string()));
    out.push(("MaxConnections", socket.max_connections.to_string()));
    out.push((
        "MaxConnectionsPerSource",
        socket.max_connections_per_source.to_string(),
    ));
    out.push(("KeepAlive", yes(socket.options.keep_alive)));
    out.push(("NoDelay", yes(socket.options.no_delay)));
    out.push(("FreeBind", yes(socket.options.free_bind)));
    out.push(("PassCredentials", yes(socket.options.pass_credentials)));
    out.push(("PassSecurity", yes(socket.options.pass_security)));
    out.push(("ReceiveBuffer", socket.options.receive_buffer.0.to_string()));
    out.push(("Timestamping", socket.options.timestamping.to_string()));
    out.push(("ReusePort", yes(socket.options.reuse_port)));
    out.push(("RemoveOnStop", yes(socket.remove_on_stop)));
    out.push(("Symlinks", list(&socket.symlinks.0)));
    out.push((
        "TriggerLimitIntervalUSec",
        socket.trigger_interval().to_string(),
    ));
    out.push(("TriggerLimitBurst", socket.trigger_burst().to_string()));
    let name = socket
        .file_descriptor_name
        .as_deref()
        .unwrap_or(unit.name.as_str());
    out.push(("FileDescriptorName", name.to_owned()));
}

fn exec_properties(unit: &UnitConfig, out: &mut Properties) {
    let exec = &unit.exec;
    // A dynamic user is named after the unit when it is loaded, which is the engine's part.
    if !exec.dynamic_user {
        out.push((
            "User",
            exec.user
                .as_ref()
                .map(|u| u.0.to_string())
                .unwrap_or_default(),
        ));
        out.push((
            "Group",
            exec.group
                .as_ref()
                .map(|g| g.0.to_string())
                .unwrap_or_default(),
        ));
    }
    out.push(("SupplementaryGroups", list(&exec.supplementary_groups.0)));
    out.push(("UMask", exec.umask.to_string()));
    out.push(("IgnoreSIGPIPE", yes(exec.ignore_sigpipe)));
    out.push(("DynamicUser", yes(exec.dynamic_user)));
    let files = exec.environment_files.0.iter();
    let files = files.map(|f| format!("{} (ignore_errors={})", f.path, yes(f.optional)));
    out.push(("EnvironmentFiles", files.collect::<Vec<_>>().join("\n")));
    let scheduling = &exec.scheduling;
    out.push(("Nice", scheduling.nice.unwrap_or_default().0.to_string()));
    out.push((
        "OOMScoreAdjust",
        scheduling
            .oom_score_adjust
            .unwrap_or_default()
            .0
            .to_string(),
    ));
    let logging = &exec.logging;
    out.push(("SyslogIdentifier", text(logging.identifier.as_deref())));
    out.push(("SyslogFacility", logging.facility.number().to_string()));
    out.push(("SyslogLevel", logging.level.0.to_string()));
    out.push(("SyslogLevelPrefix", yes(logging.level_prefix)));
    out.push((
        "TTYPath",
        exec.terminal
            .path
            .as_ref()
            .map(|p| p.0.to_string())
            .unwrap_or_default(),
    ));
    out.push(("TTYReset", yes(exec.terminal.reset)));
    let directories = &exec.directories;
    out.push(("RuntimeDirectory", sorted(&directories.runtime.names.0)));
    out.push(("RuntimeDirectoryMode", directories.runtime.mode.to_string()));
    out.push((
        "RuntimeDirectoryPreserve",
        directories.runtime_preserve.to_string(),
    ));
    out.push(("StateDirectory", sorted(&directories.state.names.0)));
    out.push(("StateDirectoryMode", directories.state.mode.to_string()));
    out.push(("CacheDirectory", sorted(&directories.cache.names.0)));
    out.push(("LogsDirectory", sorted(&directories.logs.names.0)));
    out.push((
        "ConfigurationDirectory",
        sorted(&directories.configuration.names.0),
    ));
    for (resource, hard, soft) in [
        (Resource::Nofile, "LimitNOFILE", "LimitNOFILESoft"),
        (Resource::Core, "LimitCORE", "LimitCORESoft"),
        (Resource::Memlock, "LimitMEMLOCK", "LimitMEMLOCKSoft"),
        (Resource::Nproc, "LimitNPROC", "LimitNPROCSoft"),
    ] {
        if let Some(limit) = exec.limits.iter().find(|limit| limit.resource == resource) {
            let show = |n: u64| {
                if n == u64::MAX {
                    "infinity".to_owned()
                } else {
                    n.to_string()
                }
            };
            out.push((hard, show(limit.hard)));
            out.push((soft, show(limit.soft)));
        }
    }
    let sandbox = &exec.sandbox;
    out.push(("PrivateTmp", yes(sandbox.private_tmp || exec.dynamic_user)));
    out.push(("PrivateDevices", yes(sandbox.private_devices)));
    out.push(("PrivateNetwork", yes(sandbox.private_network)));
    out.push(("PrivateUsers", yes(sandbox.private_users.is_on())));
    out.push((
        "ProtectKernelTunables",
        yes(sandbox.protect_kernel_tunables),
    ));
    out.push(("ProtectKernelModules", yes(sandbox.protect_kernel_modules)));
    out.push(("ProtectKernelLogs", yes(sandbox.protect_kernel_logs)));
    out.push(("ProtectClock", yes(sandbox.protect_clock)));
    out.push((
        "ProtectControlGroups",
        yes(sandbox.protect_control_groups.is_on()),
    ));
    out.push(("ProtectHostname", yes(sandbox.protect_hostname)));
    out.push((
        "MemoryDenyWriteExecute",
        yes(sandbox.memory_deny_write_execute),
    ));
    out.push(("RestrictRealtime", yes(sandbox.restrict_realtime)));
    out.push(("LockPersonality", yes(sandbox.lock_personality)));
    out.push(("ProtectProc", sandbox.protect_proc.to_string()));
    out.push(("ProcSubset", sandbox.proc_subset.to_string()));
    if !exec.dynamic_user {
        out.push(("NoNewPrivileges", yes(sandbox.no_new_privileges)));
        out.push(("RestrictSUIDSGID", yes(sandbox.restrict_suid_sgid)));
        out.push(("ProtectSystem", sandbox.protect_system.to_string()));
        out.push(("ProtectHome", sandbox.protect_home.to_string()));
    }
    out.push(("ReadWritePaths", list(&sandbox.read_write_paths.0)));
    out.push(("ReadOnlyPaths", list(&sandbox.read_only_paths.0)));
    out.push(("InaccessiblePaths", list(&sandbox.inaccessible_paths.0)));
    // These take capabilities away when the unit is loaded, which is the engine's part.
    let implied = sandbox.private_devices
        || sandbox.protect_kernel_modules
        || sandbox.protect_kernel_logs
        || sandbox.protect_clock;
    if !implied && sandbox.capability_bounding_set.0 != Capabilities::ALL {
        let names: Vec<_> = sandbox.capability_bounding_set.0.names().collect();
        out.push(("CapabilityBoundingSet", names.join(" ")));
    }
    let ambient: Vec<_> = sandbox.ambient_capabilities.0.names().collect();
    out.push(("AmbientCapabilities", ambient.join(" ")));
    if sandbox.restrict_namespaces.is_everything() {
        out.push(("RestrictNamespaces", "no".to_owned()));
    }
    let kill = &unit.kill;
    out.push(("KillMode", kill.mode.to_string()));
    out.push(("KillSignal", kill.signal.number().to_string()));
    out.push((
        "RestartKillSignal",
        kill.restart_signal
            .unwrap_or(kill.signal)
            .number()
            .to_string(),
    ));
    out.push(("FinalKillSignal", kill.final_signal.number().to_string()));
    out.push(("SendSIGKILL", yes(kill.send_sigkill)));
    out.push(("SendSIGHUP", yes(kill.send_sighup)));
    out.push(("WatchdogSignal", kill.watchdog_signal.number().to_string()));
    out.push(("Delegate", yes(unit.resources.delegate.enabled)));
    out.push(("IPAccounting", yes(unit.resources.ip_accounting)));
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn text(value: Option<&str>) -> String {
    value.unwrap_or_default().to_owned()
}

fn list(values: &StrList) -> String {
    values.iter().collect::<Vec<_>>().join(" ")
}

fn sorted(values: &StrList) -> String {
    let mut values: Vec<_> = values.iter().collect();
    values.sort_unstable();
    values.join(" ")
}
