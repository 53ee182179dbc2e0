//! The environment of a process: who says what, and who wins.
//!
//! In this order, later ones win: the manager's variables, what is known of the run, `ExecSearchPath=`,
//! `PassEnvironment=`, `Environment=`, `EnvironmentFile=`. `UnsetEnvironment=` has the last word.
//!
//! Not all of it is known here where name services or a session add to it, or a file would have to be waited for: then
//! `muster-exec` has the last word, and replaces variables in arguments.

use muster_engine::protocol::{ExecKind, ExitStatus, SpawnError};
use muster_exec::accounts::User;
use muster_exec::folders::{Folder, Kind};
use muster_exec::variables::{self, EnvironmentFile, Variables, is_pattern};
use muster_exec::{ExecContext, Sandbox, Step, Terminal};
use muster_unit_file::config::{UnitConfig, UnitKind};
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_unit_file::value::environment::parse_environment_file;
use muster_unit_file::value::signal::Signal;

use super::machine::Machine;
use super::{Facts, failed, helped, terminal_type};

/// Where programs are looked for if nobody says anything else.
pub(super) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const ENOENT: i32 = 2;

/// A process's environment, but for its own pid, which only the process itself can fill in. What the unit does not want is
/// still there.
#[derive(Debug, Default)]
pub(super) struct Variety {
    variables: Variables,
    pid_variables: Vec<Box<str>>,
    /// Files that are left to whoever has the time to wait for them.
    left: Vec<EnvironmentFile>,
}

impl Variety {
    fn set(&mut self, name: &str, value: impl Into<Box<str>>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Says what kind of terminal the process talks to, unless that is known.
    pub(super) fn add_terminal(&mut self, terminal: &Terminal) {
        let kind = || terminal_type(&terminal.path).into();
        self.variables.entry("TERM".into()).or_insert_with(kind);
    }

    /// Gives a process its variables and arguments: for good, or as far as they are known here.
    pub(super) fn settle(
        mut self,
        config: &UnitConfig,
        command: &Command,
        context: &mut ExecContext,
    ) {
        let unwanted = &config.exec.unset_environment.0;
        let expands = !command.flags.contains(CommandFlags::NO_ENV_EXPAND);
        let given = command.argv.iter();
        if self.is_whole(context.sandbox.as_deref()) {
            let (all, pids) = (&mut self.variables, &mut self.pid_variables);
            variables::unset(all, pids, unwanted.iter());
            context.argv = match expands {
                true => variables::arguments(given, &self.variables),
                false => given.map(Into::into).collect(),
            };
        } else {
            context.argv = given.map(Into::into).collect();
            let sandbox = helped(context);
            sandbox.environment_files = self.left;
            sandbox.unset_environment = unwanted.iter().map(Into::into).collect();
            sandbox.expands_arguments = expands;
        }
        let all = self.variables.iter();
        context.environment = all
            .map(|(name, value)| format!("{name}={value}").into())
            .collect();
        context.pid_variables = self.pid_variables;
    }

    /// Whether nobody adds to it any more.
    fn is_whole(&self, sandbox: Option<&Sandbox>) -> bool {
        let adds = |sandbox: &Sandbox| {
            let names = sandbox.names.as_ref();
            sandbox.login.is_some() || names.is_some_and(|names| names.login_environment)
        };
        self.left.is_empty() && !sandbox.is_some_and(adds)
    }
}

pub(super) fn build(
    config: &UnitConfig,
    kind: ExecKind,
    facts: &Facts<'_>,
    user: Option<&User>,
    folders: &[Folder],
    machine: &mut dyn Machine,
) -> Result<Variety, SpawnError> {
    let exec = &config.exec;
    let mut all = Variety::default();
    all.set("PATH", DEFAULT_PATH);
    for (name, value) in facts.environment {
        all.set(name, value.clone());
    }
    add_run(&mut all, config, kind, facts);
    add_user(&mut all, user);
    add_folders(&mut all, folders);
    let runtime = &facts.host.specifiers.runtime_directory;
    if let Some(folder) = super::sandbox::credentials_folder(config, runtime) {
        all.set("CREDENTIALS_DIRECTORY", folder);
    }
    for (name, value) in facts.pressure {
        all.set(name, value.as_str());
    }
    if !exec.search_path.0.is_empty() {
        let places: Vec<&str> = exec.search_path.0.iter().collect();
        all.set("PATH", places.join(":"));
    }
    for name in exec.pass_environment.0.iter() {
        if let Some(value) = machine.variable(name) {
            all.set(name, value);
        }
    }
    for (name, value) in exec.environment.iter() {
        all.set(name, value);
    }
    let files = exec.environment_files.0.iter();
    let files: Vec<EnvironmentFile> = files
        .map(|file| EnvironmentFile {
            path: file.path.clone(),
            optional: file.optional,
        })
        .collect();
    match paths(&files, machine) {
        Some(paths) => add_files(&mut all, &files, paths, machine)?,
        // Later ones win, so all of them are read by the same.
        None => all.left = files,
    }
    Ok(all)
}

/// What is known of the run.
fn add_run(all: &mut Variety, config: &UnitConfig, kind: ExecKind, facts: &Facts<'_>) {
    all.set("INVOCATION_ID", facts.invocation.to_string());
    all.pid_variables.push("SYSTEMD_EXEC_PID".into());
    if let Some(path) = facts.notify_socket {
        all.set("NOTIFY_SOCKET", path);
    }
    if let Some(micros) = facts.watchdog {
        all.set("WATCHDOG_USEC", micros.to_string());
        all.pid_variables.push("WATCHDOG_PID".into());
    }
    if let Some((device, inode)) = facts.log_identity {
        all.set("JOURNAL_STREAM", format!("{device}:{inode}"));
    }
    // The main process finds its own number by other means.
    if let Some(pid) = facts.main_pid.filter(|_| kind != ExecKind::Start) {
        all.set("MAINPID", pid.to_string());
    }
    if let UnitKind::Service(service) = &config.kind
        && let Some(path) = &service.pid_file
    {
        all.set("PIDFILE", path.0.clone());
    }
    if let Some((address, port)) = facts.remote {
        all.set("REMOTE_ADDR", address);
        if let Some(port) = port {
            all.set("REMOTE_PORT", port.to_string());
        }
    }
    for (name, value) in facts.trigger {
        all.set(name, value.as_str());
    }
    if let Some((result, exit)) = facts.ended {
        all.set("SERVICE_RESULT", result);
        if let Some(exit) = exit {
            let (code, status) = exit_words(exit);
            all.set("EXIT_CODE", code);
            all.set("EXIT_STATUS", status);
        }
    }
}

/// How a process ended, as `$EXIT_CODE` and `$EXIT_STATUS` say it.
fn exit_words(exit: ExitStatus) -> (&'static str, String) {
    let name = |number: u8| match Signal::from_number(number) {
        Some(signal) => {
            let name = signal.to_string();
            name.strip_prefix("SIG").unwrap_or(&name).to_owned()
        }
        None => number.to_string(),
    };
    match exit {
        ExitStatus::Code(code) => ("exited", code.to_string()),
        ExitStatus::Signal(signal) => ("killed", name(signal)),
        ExitStatus::Core(signal) => ("dumped", name(signal)),
    }
}

fn add_user(all: &mut Variety, user: Option<&User>) {
    let Some(user) = user else { return };
    all.set("USER", user.name.clone());
    all.set("LOGNAME", user.name.clone());
    if let Some(home) = &user.home {
        all.set("HOME", home.clone());
    }
    if let Some(shell) = &user.shell {
        all.set("SHELL", shell.clone());
    }
}

fn add_folders(all: &mut Variety, folders: &[Folder]) {
    for (kind, name) in [
        (Kind::Runtime, "RUNTIME_DIRECTORY"),
        (Kind::State, "STATE_DIRECTORY"),
        (Kind::Cache, "CACHE_DIRECTORY"),
        (Kind::Logs, "LOGS_DIRECTORY"),
        (Kind::Configuration, "CONFIGURATION_DIRECTORY"),
    ] {
        let of_kind = folders.iter().filter(|folder| folder.kind == kind);
        // A private one is named by the link that leads to it.
        let paths = of_kind.map(|folder| match &folder.private {
            Some(private) => &*private.public,
            None => &*folder.path,
        });
        let mut said: Vec<&str> = Vec::new();
        for path in paths {
            // One that has several links to it is listed for each.
            if !said.contains(&path) {
                said.push(path);
            }
        }
        if !said.is_empty() {
            all.set(name, said.join(":"));
        }
    }
}

/// The files that are to be read, each with those that it stands for; `None` if one may have to be waited for.
fn paths(files: &[EnvironmentFile], machine: &mut dyn Machine) -> Option<Vec<Vec<String>>> {
    let mut paths_of = |file: &EnvironmentFile| {
        if is_pattern(&file.path) {
            return machine.matching(&file.path);
        }
        (!machine.may_wait_at(&file.path)).then(|| vec![file.path.to_string()])
    };
    files.iter().map(&mut paths_of).collect()
}

fn add_files(
    all: &mut Variety,
    files: &[EnvironmentFile],
    paths: Vec<Vec<String>>,
    machine: &dyn Machine,
) -> Result<(), SpawnError> {
    for (file, paths) in files.iter().zip(paths) {
        let missing = |errno| {
            let what = format!("cannot read the environment file {}", file.path);
            SpawnError {
                early: true,
                ..failed(Step::Exec, what, errno)
            }
        };
        if paths.is_empty() && !file.optional {
            return Err(missing(ENOENT));
        }
        for path in paths {
            match machine.read(&path) {
                Ok(bytes) => {
                    for (name, value) in parse_environment_file(&bytes).variables {
                        all.set(&name, value);
                    }
                }
                Err(_) if file.optional => {}
                Err(error) => return Err(missing(error.raw_os_error().unwrap_or(ENOENT))),
            }
        }
    }
    Ok(())
}
