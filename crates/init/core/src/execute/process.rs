//! Starting processes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_control::feed::{FEED_NAME, Stream};
use muster_engine::ids::{ActionId, InvocationId, UnitId};
use muster_engine::job::JobType;
use muster_engine::protocol::{
    CommandRef, ExecKind, ExitStatus, Input, Process, Role, Severity, SpawnError,
};
use muster_engine::types::Machine;
use muster_exec::ExecContext;
use muster_unit_file::config::{
    CommandPhase, ExecOutput, NotifyAccess, PressureWatch, SocketPhase, UnitConfig, UnitKind,
};
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_unit_file::value::list::StrList;
use muster_units::effective;

use super::namespaces::Kind;
use super::setup::hand_over;
use crate::context::{self, Facts, Joined};
use crate::core::{Core, SPAWNED};
use crate::logins::{self, Login};
use crate::platform::Launch;

const ENOENT: i32 = 2;
/// systemd's exit code for "the program could not be executed".
const EXIT_EXEC: u8 = 203;
/// systemd's exit code for "descriptors could not be set up".
const EXIT_FDS: u8 = 202;
/// systemd's exit code for "the cgroup could not be set up".
const EXIT_CGROUP: u8 = 219;

/// A process that was started.
#[derive(Debug)]
struct Started {
    process: Process,
    /// If a helper sets it up: where it says what came of that.
    heard: Option<OwnedFd>,
    /// What was left out already.
    dropped: Vec<Box<str>>,
    /// It stays where it is, and the program is a child of it.
    stands_for: bool,
}

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
            Ok(Started {
                process,
                heard,
                dropped,
                stands_for,
            }) => {
                muster_fault::hit(SPAWNED);
                let pid = process.pid;
                self.own_process(unit, pid);
                self.note_login(unit, pid);
                match heard {
                    Some(heard) => {
                        self.tell(
                            unit,
                            Input::Delegated {
                                role,
                                process,
                                stands_for,
                            },
                        );
                        self.follow_setup(unit, pid, heard, dropped);
                    }
                    None => {
                        self.tell(unit, Input::Spawned { role, process });
                        if !dropped.is_empty() {
                            self.tell(unit, Input::Executed { pid, dropped });
                        }
                    }
                }
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
    ) -> Result<Started, SpawnError> {
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
        let pressure = self
            .prepare_group(unit, &config)
            .map_err(|error| no_group(&error))?;
        if let Some(error) = self.lacks_filter(unit, reference.kind) {
            return Err(error);
        }
        if config.exec.dynamic_user {
            self.open_user_directory();
        }
        self.prepare_namespaces(unit, &config)?;
        let private_tmp = self.private_tmp_of(unit, &config);
        let trigger = self.reason_of(unit);
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
        let mut store = |kind| {
            let pair = self.namespaces.pair(unit, kind)?;
            let at = u16::try_from(descriptors.len()).ok()?;
            descriptors.extend(pair);
            Some([at, at + 1])
        };
        let (network, ipc) = (store(Kind::Network), store(Kind::Ipc));
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
            trigger: &trigger,
            joined: Joined {
                tmp: private_tmp.as_deref(),
                network,
                ipc,
            },
            pressure: &pressure,
        };
        let machine = &mut *self.machine;
        let mut built = context::build(&config, &command, reference.kind, &facts, machine)?;
        let delegates = config.resources.delegate.enabled;
        let watches = muster_cgroup::pressure_file(&pressure).is_some();
        // By default everybody is told; who did not ask for it misses nothing.
        let is_asked = config.resources.memory_pressure_watch == PressureWatch::On;
        built.dropped.extend(not_handed_over(
            &built.context,
            delegates,
            watches && is_asked,
        ));
        // Whoever is told to watch the pressure on its memory has to write into the file first.
        if watches && let Some(identity) = &built.context.identity {
            let given = self
                .platform
                .give_pressure(&cgroup, identity.uid, identity.gid);
            given.map_err(|error| no_group(&error))?;
        }
        // Whoever a group is handed to makes groups below it.
        if delegates && let Some(identity) = &built.context.identity {
            self.platform
                .give_cgroup(&cgroup, identity.uid, identity.gid)
                .map_err(|error| no_group(&error))?;
        }
        context::make_folders(&mut built, machine)?;
        if let Some(folders) = &built.private_tmp {
            context::make_private_tmp(folders, machine)?;
        }
        if let Some(added) = &built.added {
            descriptors.push(added.as_fd());
        }
        // The group keeps its processes from files that setting one up takes.
        let restricts = config.exec.sandbox.restrict_file_systems.allow.is_some();
        let exemptions = restricts
            .then(|| self.platform.exemptions(&cgroup))
            .flatten();
        if let Some(exemptions) = &exemptions {
            built.context.exemptions = u16::try_from(descriptors.len()).ok();
            descriptors.push(exemptions.as_fd());
        }
        let handed = match &built.context.sandbox {
            Some(_) => {
                let count = u16::try_from(descriptors.len()).unwrap_or(u16::MAX);
                Some(hand_over(&built.context, &self.setup_helper(), count)?)
            }
            None => None,
        };
        if let Some(handed) = &handed {
            descriptors.extend([handed.job.as_fd(), handed.said.as_fd()]);
        }
        let launch = Launch {
            context: handed
                .as_ref()
                .map_or(&built.context, |handed| &handed.outer),
            descriptors: &descriptors,
            cgroup: &cgroup,
            invocation,
        };
        let result = self.platform.spawn(action, &launch);
        let dropped = built.dropped;
        let sandbox = built.context.sandbox.as_deref();
        let stands_for = sandbox.is_some_and(|sandbox| sandbox.namespaces.pids);
        let result = result.map(|process| Started {
            process,
            heard: handed.map(|handed| handed.heard),
            dropped,
            stands_for,
        });
        if is_main && !built.not_applied.is_empty() {
            let message = format!(
                "These directives are not carried out and have no effect: {}",
                built.not_applied.join(", ")
            );
            self.say(Severity::Warning, Some(unit), &message);
        }
        result
    }

    /// Writes down who is at a terminal now, where the unit wants that.
    fn note_login(&mut self, unit: UnitId, pid: u32) {
        let Some(config) = self.config_of(unit) else {
            return;
        };
        let Some(id) = config.exec.labels.utmp_identifier.as_deref() else {
            return;
        };
        let user = effective::user(&config);
        let terminal = config.exec.terminal.path.as_ref();
        let login = Login {
            id,
            mode: config.exec.labels.utmp_mode,
            terminal: terminal.map(|path| &*path.0),
            user: user.as_deref().unwrap_or("root"),
            pid,
        };
        let now = self.now().real;
        if let Err(error) = logins::begin(&self.options.root, &login, now) {
            let message = format!("Cannot write the login record {id}: {error}.");
            self.say(Severity::Warning, Some(unit), &message);
        }
    }

    /// Writes down that a process is at no terminal any more.
    pub(crate) fn note_logout(&mut self, unit: UnitId, pid: u32, status: ExitStatus) {
        let Some(config) = self.config_of(unit) else {
            return;
        };
        let Some(id) = config.exec.labels.utmp_identifier.as_deref() else {
            return;
        };
        let now = self.now().real;
        if let Err(error) = logins::end(&self.options.root, id, pid, status, now) {
            let message = format!("Cannot end the login record {id}: {error}.");
            self.say(Severity::Warning, Some(unit), &message);
        }
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
        // One that stays up without processes has all that it was given.
        if self
            .engine
            .get(unit)
            .is_some_and(|record| record.active().is_up())
        {
            return;
        }
        self.end_surroundings(unit, &config, another_run);
        let run = self.engine.unit(unit).invocation;
        let (host, machine) = (self.units.host(), &mut *self.machine);
        let (paths, remarks) =
            context::put_folders_away(&config, host, (run, another_run), machine);
        self.remove_at_leisure(paths.into_iter());
        for remark in remarks {
            self.say(Severity::Warning, Some(unit), &remark);
        }
    }

    /// Throws away what a run leaves behind.
    pub(super) fn release_resources(&mut self, unit: UnitId) {
        self.control.forget_stdio(unit);
        self.activation.forget_run(unit);
        let another_run = self.is_wanted_again(unit);
        self.remove_run_folders(unit, another_run);
    }

    /// Whether the next run of a unit that goes down is waiting: somebody asked for a restart.
    fn is_wanted_again(&self, unit: UnitId) -> bool {
        let job = self.engine.get(unit).and_then(|record| record.job);
        let job = job.and_then(|job| self.engine.job(job));
        job.is_some_and(|job| matches!(job.job_type, JobType::Start | JobType::Restart))
    }
}

fn failed(step: &str, errno: i32, exit_code: u8) -> SpawnError {
    SpawnError {
        step: step.into(),
        errno,
        exit_code,
        early: false,
    }
}

/// What a process does not get because the manager does not know its user's number, which only the helper asks name services
/// for. The group stays root's then.
fn not_handed_over(
    context: &ExecContext,
    delegates: bool,
    watches: bool,
) -> impl Iterator<Item = Box<str>> {
    let names = context.sandbox.as_ref().and_then(|one| one.names.as_ref());
    let user = names.and_then(|names| names.user.clone());
    let user = user.filter(|_| context.identity.is_none());
    let asked = [(delegates, "Delegate"), (watches, "MemoryPressureWatch")];
    let asked = asked.into_iter().filter(|(asked, _)| *asked);
    asked.filter_map(move |(_, name)| {
        let user = user.as_deref()?;
        let why = "is known to name services only, and the control group is not handed to it";
        Some(format!("{name}: the user {user} {why}").into())
    })
}

fn no_group(error: &std::io::Error) -> SpawnError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    failed(&format!("cgroup: {error}"), errno, EXIT_CGROUP)
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

#[cfg(test)]
mod tests {
    use muster_exec::{Identity, Names, Sandbox};

    use super::*;

    #[test]
    fn a_group_that_is_not_handed_to_whom_name_services_know_is_said() {
        let mut context = ExecContext::default();
        let said = |context: &ExecContext| -> Vec<Box<str>> {
            not_handed_over(context, true, true).collect()
        };
        assert_eq!(said(&context), [], "root has it");
        let names = Names {
            user: Some("far".into()),
            ..Names::default()
        };
        context.sandbox = Some(Box::new(Sandbox {
            names: Some(names),
            ..Sandbox::default()
        }));
        let both = said(&context);
        assert_eq!(both.len(), 2);
        assert!(both[0].starts_with("Delegate: the user far is known"));
        assert!(both[1].starts_with("MemoryPressureWatch: "));
        let none = not_handed_over(&context, false, false);
        assert_eq!(none.count(), 0, "nobody asked");
        // The files know who it is; name services know more groups only.
        context.identity = Some(Identity {
            uid: 7,
            gid: 7,
            groups: Vec::new(),
        });
        assert_eq!(said(&context), [] as [Box<str>; 0]);
    }
}
