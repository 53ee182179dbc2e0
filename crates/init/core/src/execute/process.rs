//! Starting processes.

use std::os::fd::{AsFd, BorrowedFd};

use muster_control::feed::{FEED_NAME, Stream};
use muster_engine::ids::{ActionId, InvocationId, UnitId};
use muster_engine::protocol::{CommandRef, ExecKind, Input, Process, Role, Severity, SpawnError};
use muster_engine::types::Machine;
use muster_unit_file::config::{
    CommandPhase, ExecOutput, NotifyAccess, SocketPhase, UnitConfig, UnitKind,
};
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_unit_file::value::list::StrList;
use muster_units::effective;

use crate::context::{self, Facts};
use crate::core::{Core, SPAWNED};
use crate::platform::Launch;

const ENOENT: i32 = 2;
/// systemd's exit code for "the program could not be executed".
const EXIT_EXEC: u8 = 203;
/// systemd's exit code for "descriptors could not be set up".
const EXIT_FDS: u8 = 202;

impl Core {
    /// Starts a command of a unit and reports the process, or why there is none.
    pub(super) fn spawn(
        &mut self,
        action: ActionId,
        unit: UnitId,
        invocation: InvocationId,
        role: Role,
        command: CommandRef,
    ) {
        let spawned = self.try_spawn(action, unit, invocation, role, command);
        match spawned {
            Ok(process) => {
                muster_fault::hit(SPAWNED);
                self.own_process(unit, process.pid);
                self.tell(unit, Input::Spawned { role, process });
                self.watch_if_cgroup_matters(unit);
            }
            Err(error) => {
                let message = format!(
                    "Cannot start its {} ({}): {}",
                    phase_name(command.kind),
                    error.step,
                    std::io::Error::from_raw_os_error(error.errno)
                );
                self.say(Severity::Error, Some(unit), &message);
                self.tell(unit, Input::SpawnFailed { role, error });
            }
        }
    }

    fn try_spawn(
        &mut self,
        action: ActionId,
        unit: UnitId,
        invocation: InvocationId,
        role: Role,
        reference: CommandRef,
    ) -> Result<Process, SpawnError> {
        let name = self
            .name_of(unit)
            .ok_or_else(|| failed("unit", ENOENT, EXIT_EXEC))?;
        let config = self.units.config(&name);
        let command =
            command_of(&config, reference).ok_or_else(|| failed("command", ENOENT, EXIT_EXEC))?;
        if reference.kind == ExecKind::Mount {
            self.make_mount_point(unit, &config);
        }
        if context::needs_log(&config) && !Self::is_log_daemon(name.as_str()) {
            self.open_stream(unit, invocation, &config)
                .map_err(|error| failed("log", error.raw_os_error().unwrap_or(ENOENT), EXIT_FDS))?;
        }
        let is_main = reference.kind == ExecKind::Start;
        if is_main && Self::is_log_daemon(name.as_str()) {
            self.greet_log_daemon();
        }
        let cgroup = self.cgroup_of(unit);
        let notify_path = self.platform.notify_path();
        let notify_path = notify_path.to_string_lossy();
        let may_notify = match &config.kind {
            UnitKind::Service(service) => service.notify_access() != NotifyAccess::None,
            _ => false,
        };
        let feed = (is_main && Self::is_log_daemon(name.as_str()))
            .then(|| self.platform.feed_end())
            .flatten();
        // Descriptors are borrowed from tables that live as long as this call.
        let mut descriptors: Vec<BorrowedFd<'_>> = Vec::new();
        let mut passed: Vec<&str> = Vec::new();
        let mut sockets = 0;
        if is_main {
            for listen in self.activation.passed_to(unit) {
                descriptors.push(listen.0);
                passed.push(listen.1);
            }
            sockets = passed.len();
            for stored in self.activation.stored.of(unit) {
                descriptors.push(stored.fd.as_fd());
                passed.push(&stored.name);
            }
            if let Some(feed) = &feed {
                descriptors.push(feed.as_fd());
                passed.push(FEED_NAME);
            }
        }
        let log = self.logs.writer(unit).and_then(|fd| {
            let at = u16::try_from(descriptors.len()).ok()?;
            descriptors.push(fd);
            Some(at)
        });
        let connection = self.activation.connection_of(unit).and_then(|fd| {
            let at = u16::try_from(descriptors.len()).ok()?;
            descriptors.push(fd);
            Some(at)
        });
        let stdio = self.control.stdio_of(unit).and_then(|streams| {
            let at = u16::try_from(descriptors.len()).ok()?;
            descriptors.extend(streams);
            Some([at, at + 1, at + 2])
        });
        let record = self.engine.unit(unit);
        let main_pid = record
            .machine
            .processes()
            .find_map(|(role, process)| (role == Role::Main).then_some(process.pid));
        let ended = match &record.machine {
            Machine::Service(service)
                if matches!(reference.kind, ExecKind::Stop | ExecKind::StopPost) =>
            {
                Some((service.outcome.as_str(), service.main_exit))
            }
            _ => None,
        };
        let remote = self.activation.remote_of(unit);
        let log_identity = log.and_then(|at| {
            let stat = rustix::fs::fstat(descriptors.get(usize::from(at))?).ok()?;
            Some((stat.st_dev, stat.st_ino))
        });
        let facts = Facts {
            host: self.units.host(),
            environment: &self.memory.environment,
            invocation,
            main_pid,
            notify_socket: may_notify.then_some(&*notify_path),
            watchdog: watchdog_of(&config, role),
            passed: &passed,
            sockets,
            descriptors: u16::try_from(descriptors.len()).unwrap_or(u16::MAX),
            log,
            log_identity,
            connection,
            stdio,
            ended,
            remote: remote.as_ref().map(|(address, port)| (&**address, *port)),
            trigger: None,
        };
        let machine = &mut *self.machine;
        let built = context::build(&config, &command, reference.kind, &facts, machine)?;
        context::make_folders(&built.folders, machine)?;
        if let Some(added) = &built.added {
            descriptors.push(added.as_fd());
        }
        let launch = Launch {
            context: &built.context,
            descriptors: &descriptors,
            cgroup: &cgroup,
            invocation,
        };
        let result = self.platform.spawn(action, &launch);
        if is_main && !built.not_applied.is_empty() {
            let message = format!(
                "Runs WITHOUT what these directives ask for, because they are not carried out yet: {}",
                built.not_applied.join(", ")
            );
            self.say(Severity::Warning, Some(unit), &message);
        }
        result
    }

    /// Emptiness of the cgroup is looked at when it decides something: most units end with their main process.
    fn watch_if_cgroup_matters(&mut self, unit: UnitId) {
        use muster_engine::spec::{ExitType, KindSpec, ServiceType};
        let spec = self
            .engine
            .get(unit)
            .and_then(|record| record.spec.as_deref());
        let Some(KindSpec::Service(service)) = spec.map(|spec| &spec.kind) else {
            return;
        };
        if service.service_type == ServiceType::Forking || service.exit_type == ExitType::Cgroup {
            self.await_empty(unit);
        }
    }

    pub(crate) fn stream_of(
        &self,
        unit: UnitId,
        id: &str,
        invocation: InvocationId,
        config: &UnitConfig,
    ) -> Stream {
        let record = self.engine.unit(unit);
        let path = self.cgroup_of(unit);
        let logging = &config.exec.logging;
        let (out, err) = (effective::stdout(config), effective::stderr(config));
        let any = |wanted: &[ExecOutput]| wanted.contains(&out) || wanted.contains(&err);
        let slice = record.deps(muster_engine::dep::DepKind::InSlice).next();
        let identifier = logging.identifier.clone().unwrap_or_else(|| {
            let main = command_of(
                config,
                CommandRef {
                    kind: ExecKind::Start,
                    index: 0,
                },
            );
            let main = main.map(|command| command.path);
            let base = main.as_deref().and_then(|path| path.rsplit('/').next());
            base.unwrap_or(config.name.as_str()).into()
        });
        Stream {
            id: id.into(),
            unit: record.name.clone(),
            slice: slice.map_or_else(|| "".into(), |slice| self.engine.unit(slice).name.clone()),
            cgroup: format!("/{path}").into(),
            invocation: invocation.to_string().into(),
            identifier,
            priority: logging.level.0,
            facility: logging.facility.number(),
            level_prefix: logging.level_prefix,
            level_max: logging.level_max.map(|level| level.0),
            rate_interval: logging.rate_limit_interval.as_micros(),
            rate_burst: logging.rate_limit_burst,
            to_console: any(&[ExecOutput::JournalConsole, ExecOutput::KmsgConsole]),
            to_kmsg: any(&[ExecOutput::Kmsg, ExecOutput::KmsgConsole]),
            to_journal: any(&[ExecOutput::Journal, ExecOutput::JournalConsole]),
            extra_fields: logging.extra_fields.0.iter().map(Into::into).collect(),
        }
    }

    /// Removes the folders that a run of a unit had for itself.
    pub(crate) fn remove_run_folders(&mut self, unit: UnitId, another_run: bool) {
        let Some(name) = self.name_of(unit) else {
            return;
        };
        let config = self.units.config(&name);
        let (host, machine) = (self.units.host(), &mut *self.machine);
        for remark in context::remove_folders(&config, host, another_run, machine) {
            self.say(Severity::Warning, Some(unit), &remark);
        }
    }

    /// Throws away what a run leaves behind.
    pub(super) fn release_resources(&mut self, unit: UnitId) {
        self.control.forget_stdio(unit);
        self.activation.forget_connection(unit);
        self.remove_run_folders(unit, false);
    }
}

fn failed(step: &str, errno: i32, exit_code: u8) -> SpawnError {
    SpawnError {
        step: step.into(),
        errno,
        exit_code,
    }
}

fn watchdog_of(config: &UnitConfig, role: Role) -> Option<u64> {
    let UnitKind::Service(service) = &config.kind else {
        return None;
    };
    let finite = !service.watchdog.is_infinite() && service.watchdog.as_micros() > 0;
    (role == Role::Main && finite).then(|| service.watchdog.as_micros())
}

/// The name of a list of commands, as in unit files.
pub(crate) fn phase_name(kind: ExecKind) -> &'static str {
    match kind {
        ExecKind::Condition => "ExecCondition",
        ExecKind::StartPre => "ExecStartPre",
        ExecKind::Start => "ExecStart",
        ExecKind::StartPost => "ExecStartPost",
        ExecKind::Reload => "ExecReload",
        ExecKind::Stop => "ExecStop",
        ExecKind::StopPost => "ExecStopPost",
        ExecKind::StopPre => "ExecStopPre",
        ExecKind::HealthCheck => "HealthCheckExec",
        ExecKind::Mount => "ExecMount",
        ExecKind::Remount => "ExecRemount",
        ExecKind::Unmount => "ExecUnmount",
    }
}

/// The command that a reference names.
pub(crate) fn command_of(config: &UnitConfig, reference: CommandRef) -> Option<Command> {
    let index = usize::from(reference.index);
    match &config.kind {
        UnitKind::Service(service) => {
            let phase = match reference.kind {
                ExecKind::Condition => CommandPhase::Condition,
                ExecKind::StartPre => CommandPhase::StartPre,
                ExecKind::Start => CommandPhase::Start,
                ExecKind::StartPost => CommandPhase::StartPost,
                ExecKind::Reload => CommandPhase::Reload,
                ExecKind::Stop => CommandPhase::Stop,
                ExecKind::StopPost => CommandPhase::StopPost,
                ExecKind::HealthCheck => return service.health.commands.get(index).cloned(),
                _ => return None,
            };
            service.commands(phase).nth(index).cloned()
        }
        UnitKind::Socket(socket) => {
            let phase = match reference.kind {
                ExecKind::StartPre => SocketPhase::StartPre,
                ExecKind::StartPost => SocketPhase::StartPost,
                ExecKind::StopPre => SocketPhase::StopPre,
                ExecKind::StopPost => SocketPhase::StopPost,
                _ => return None,
            };
            let mut commands = socket.commands.iter().filter(|(of, _)| *of == phase);
            commands.nth(index).map(|(_, command)| command.clone())
        }
        UnitKind::Mount(mount) => {
            let place = mount.r#where.as_ref()?.0.as_ref();
            let what = mount.what.as_deref().unwrap_or("none");
            let options = mount.options.as_deref().filter(|text| !text.is_empty());
            let mut words = Vec::new();
            match reference.kind {
                ExecKind::Mount => {
                    words.extend(["/usr/bin/mount", what, place]);
                    if let Some(kind) = mount.fs_type.as_deref() {
                        words.extend(["-t", kind]);
                    }
                    if let Some(options) = options {
                        words.extend(["-o", options]);
                    }
                    Some(plain(&words))
                }
                ExecKind::Remount => {
                    let options = options.map_or("remount".to_owned(), |o| format!("remount,{o}"));
                    Some(plain(&["/usr/bin/mount", what, place, "-o", &options]))
                }
                ExecKind::Unmount => Some(plain(&["/usr/bin/umount", place, "-c"])),
                _ => None,
            }
        }
        UnitKind::Swap(swap) => {
            let what = &*swap.what.as_ref()?.0;
            match reference.kind {
                ExecKind::Mount => {
                    let options = swap.options.as_deref().filter(|text| !text.is_empty());
                    let mut words = vec!["/sbin/swapon"];
                    if let Some(options) = options {
                        words.extend(["-o", options]);
                    }
                    words.push(what);
                    Some(plain(&words))
                }
                ExecKind::Unmount => Some(plain(&["/sbin/swapoff", what])),
                _ => None,
            }
        }
        _ => None,
    }
}

fn plain(words: &[&str]) -> Command {
    let mut argv = StrList::default();
    for word in words {
        argv.push(word);
    }
    Command {
        path: words[0].into(),
        argv,
        flags: CommandFlags::default(),
    }
}
