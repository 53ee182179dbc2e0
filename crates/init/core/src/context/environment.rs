//! The environment of a process: who says what, and who wins.
//!
//! In this order, later ones win: the manager's variables, what is known of the run, `ExecSearchPath=`,
//! `PassEnvironment=`, `Environment=`, `EnvironmentFile=`. `UnsetEnvironment=` has the last word.

use muster_engine::protocol::{ExecKind, ExitStatus, SpawnError};
use muster_exec::Step;
use muster_exec::accounts::User;
use muster_exec::folders::{Folder, Kind};
use muster_unit_file::config::{ExecContext, UnitConfig, UnitKind};
use muster_unit_file::value::environment::{EnvironmentFile, parse_environment_file};
use muster_unit_file::value::signal::Signal;

use super::expand::Variables;
use super::machine::Machine;
use super::{Facts, failed};

/// Where programs are looked for if nobody says anything else.
pub(super) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const ENOENT: i32 = 2;

/// A process's environment, but for its own pid, which only the process itself can fill in.
#[derive(Debug, Default)]
pub(super) struct Variety {
    pub(super) variables: Variables,
    pub(super) pid_variables: Vec<Box<str>>,
}

impl Variety {
    fn set(&mut self, name: &str, value: impl Into<Box<str>>) {
        self.variables.insert(name.into(), value.into());
    }
}

pub(super) fn build(
    config: &UnitConfig,
    kind: ExecKind,
    facts: &Facts<'_>,
    user: Option<&User>,
    folders: &[Folder],
    machine: &dyn Machine,
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
    for file in &exec.environment_files.0 {
        add_file(&mut all, file, machine)?;
    }
    unset(&mut all, exec);
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

/// Whether a path stands for more than itself.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn add_file(
    all: &mut Variety,
    file: &EnvironmentFile,
    machine: &dyn Machine,
) -> Result<(), SpawnError> {
    let missing = |errno| {
        let what = format!("cannot read the environment file {}", file.path);
        SpawnError {
            early: true,
            ..failed(Step::Exec, what, errno)
        }
    };
    let paths = if is_pattern(&file.path) {
        machine.matching(&file.path)
    } else {
        vec![file.path.to_string()]
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
    Ok(())
}

/// A name removes the variable; an assignment removes it if it has that value.
fn unset(all: &mut Variety, exec: &ExecContext) {
    for entry in exec.unset_environment.0.iter() {
        match entry.split_once('=') {
            None => {
                all.variables.remove(entry);
                all.pid_variables.retain(|name| &**name != entry);
            }
            Some((name, value)) => {
                if all
                    .variables
                    .get(name)
                    .is_some_and(|known| &**known == value)
                {
                    all.variables.remove(name);
                }
            }
        }
    }
}
