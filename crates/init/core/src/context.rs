//! From a unit's settings to how one of its processes is run.
//!
//! [`build`] takes the settings, the command and what is known at the moment ([`Facts`]) and gives an [`ExecContext`],
//! the folders that must be there first, and what of the settings nobody carries out yet. It changes nothing: whatever it
//! has to know of files and accounts it asks a [`Machine`], which tests make up. [`make_folders`] and
//! [`remove_folders`] carry the plans for folders out. Descriptors are referred to by their place in the list that goes
//! with the context.
//!
//! ```text
//! UnitConfig, Command, Facts -> identity -> folders -> environment -> arguments -> streams -> ExecContext
//! ```
//!
//! # Invariants
//! - The same settings, facts and machine give the same context.
//! - A process never gets more rights than its unit names: a user, a group or a root directory that cannot be had is an
//!   error, not a remark. Other parts of a sandbox that are missing are listed, so that they can be said out loud.

mod environment;
mod expand;
pub mod folders;
mod identity;
pub mod machine;
mod settings;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod unapplied;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use muster_engine::ids::InvocationId;
use muster_engine::protocol::{ExecKind, ExitStatus, SpawnError};
use muster_exec::accounts::User;
use muster_exec::{ExecContext, PassedFd, Step, WorkingDirectory};
use muster_unit_file::config::{ExecOutput, UnitConfig, UnitKind};
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_units::{Host, effective};

use folders::Folder;
use machine::Machine;

const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

/// What is known at the moment when a process is started.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The machine's folders and the manager's defaults.
    pub host: &'a Host,
    /// What all services get.
    pub environment: &'a BTreeMap<Box<str>, Box<str>>,
    /// The run.
    pub invocation: InvocationId,
    /// The unit's main process, for `$MAINPID`.
    pub main_pid: Option<u32>,
    /// Where notifications go, if the unit may send any.
    pub notify_socket: Option<&'a str>,
    /// `$WATCHDOG_USEC`
    pub watchdog: Option<u64>,
    /// Names of the descriptors that are passed from 3 on: those at the places 0, 1, 2 ... of the list.
    pub passed: &'a [&'a str],
    /// How many of those, from the first on, are sockets of socket units.
    pub sockets: usize,
    /// How many descriptors the list has. One that building adds gets this place.
    pub descriptors: u16,
    /// The place of the stream to the log, if there is one.
    pub log: Option<u16>,
    /// Device and inode of that stream, for `$JOURNAL_STREAM`.
    pub log_identity: Option<(u64, u64)>,
    /// The place of the connection that the unit serves (`Accept=yes`), for streams that say `socket`.
    pub connection: Option<u16>,
    /// The places of standard streams that came with a request.
    pub stdio: Option<[u16; 3]>,
    /// How the run went so far: `$SERVICE_RESULT` and how the main process ended, for what runs while stopping.
    pub ended: Option<(&'a str, Option<ExitStatus>)>,
    /// `$REMOTE_ADDR` and `$REMOTE_PORT`
    pub remote: Option<(&'a str, Option<u16>)>,
    /// `$TRIGGER_UNIT`
    pub trigger: Option<&'a str>,
}

/// How a process is run.
#[derive(Debug)]
pub struct Built {
    /// The process.
    pub context: ExecContext,
    /// A descriptor that goes to the end of the list.
    pub added: Option<OwnedFd>,
    /// What must be there before it starts.
    pub folders: Vec<Folder>,
    /// Directives that the unit has and that nobody carries out yet.
    pub not_applied: Vec<&'static str>,
}

/// Whether the output of a unit's processes goes to the log daemon.
#[must_use]
pub fn needs_log(config: &UnitConfig) -> bool {
    let logs = |output: &ExecOutput| {
        matches!(
            output,
            ExecOutput::Journal
                | ExecOutput::JournalConsole
                | ExecOutput::Kmsg
                | ExecOutput::KmsgConsole
        )
    };
    logs(&effective::stdout(config)) || logs(&effective::stderr(config))
}

/// How a command of a unit is run now.
///
/// # Errors
/// The step that cannot be prepared (a user who is not known, a program that is not found), with its exit code.
pub fn build(
    config: &UnitConfig,
    command: &Command,
    kind: ExecKind,
    facts: &Facts<'_>,
    machine: &mut dyn Machine,
) -> Result<Built, SpawnError> {
    let privileged = command.flags.contains(CommandFlags::FULLY_PRIVILEGED);
    if !privileged {
        refuse_foreign_roots(config)?;
    }
    let host = &facts.host.specifiers;
    let who = identity::look_up(config, (host.uid, host.gid), machine)?;
    let folders = folders::plan(config, host, who.identity.as_ref());
    let user = who.user.as_ref();
    let environment = environment::build(config, kind, facts, user, &folders, machine)?;
    let argv = if command.flags.contains(CommandFlags::NO_ENV_EXPAND) {
        command.argv.iter().map(Into::into).collect()
    } else {
        expand::arguments(command.argv.iter(), &environment.variables)
    };
    let streams = streams::build(config, kind, facts)?;
    let added = if streams.reads_data {
        let data = machine.data(&config.exec.terminal.stdin_data.0);
        Some(data.map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(EIO);
            failed(
                Step::Stdin,
                "cannot hold the data for standard input",
                errno,
            )
        })?)
    } else {
        None
    };
    let keeps_identity = privileged
        || command.flags.contains(CommandFlags::NO_SETUID)
        || has_rights_until_start(config, kind);
    let variables = environment.variables.iter();
    let mut context = ExecContext {
        program: find_program(config, &command.path, machine)?,
        argv,
        environment: variables
            .map(|(name, value)| format!("{name}={value}").into())
            .collect(),
        pid_variables: environment.pid_variables,
        working_directory: working_directory(config, user),
        identity: who.identity.filter(|_| !keeps_identity),
        no_new_privileges: !privileged && config.exec.sandbox.no_new_privileges,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        terminal: streams.terminal,
        passed: passed(config, facts),
        ..ExecContext::default()
    };
    if let Some(terminal) = &context.terminal {
        let kind = terminal_type(&terminal.path);
        let is_set = environment.variables.contains_key("TERM");
        context
            .environment
            .extend((!is_set).then(|| format!("TERM={kind}").into()));
    }
    settings::apply(config, &facts.host.default_limits, &mut context);
    Ok(Built {
        context,
        added,
        folders,
        not_applied: unapplied::directives(config, privileged),
    })
}

/// Makes the folders of a process that is about to start.
///
/// # Errors
/// The step of the first that cannot be made.
pub fn make_folders(folders: &[Folder], machine: &mut dyn Machine) -> Result<(), SpawnError> {
    for folder in folders {
        machine.make_folder(folder).map_err(|error| {
            let what = format!("cannot make the folder {}", folder.path);
            failed(folder.step(), what, error.raw_os_error().unwrap_or(EIO))
        })?;
    }
    Ok(())
}

/// Removes what a run had for itself, and gives a line for each folder that stays although it should go.
#[must_use]
pub fn remove_folders(
    config: &UnitConfig,
    host: &Host,
    another_run: bool,
    machine: &mut dyn Machine,
) -> Vec<String> {
    let paths = folders::ending(config, &host.specifiers, another_run);
    let mut remarks = Vec::new();
    for path in paths {
        if let Err(error) = machine.remove_folder(&path) {
            remarks.push(format!("Cannot remove its folder {path}: {error}"));
        }
    }
    remarks
}

fn failed(step: Step, what: impl Into<Box<str>>, errno: i32) -> SpawnError {
    SpawnError {
        step: what.into(),
        errno,
        exit_code: step.exit_code(),
    }
}

/// A program of another root directory must not be looked for in this one.
fn refuse_foreign_roots(config: &UnitConfig) -> Result<(), SpawnError> {
    let images = &config.exec.images;
    let name = if images.root_directory.is_some() {
        "RootDirectory="
    } else if images.root_image.is_some() {
        "RootImage="
    } else {
        return Ok(());
    };
    Err(failed(
        Step::Chroot,
        format!("{name} is not carried out yet"),
        ENOSYS,
    ))
}

/// `PermissionsStartOnly=`, the older way to write a mark before each command but the main one.
fn has_rights_until_start(config: &UnitConfig, kind: ExecKind) -> bool {
    match &config.kind {
        UnitKind::Service(service) => service.permissions_start_only && kind != ExecKind::Start,
        _ => false,
    }
}

fn find_program(
    config: &UnitConfig,
    path: &str,
    machine: &dyn Machine,
) -> Result<Box<str>, SpawnError> {
    if path.starts_with('/') {
        return Ok(path.into());
    }
    let stated = config.exec.search_path.0.iter();
    let default = environment::DEFAULT_PATH.split(':');
    let default = default.filter(|_| config.exec.search_path.0.is_empty());
    let mut places = stated
        .chain(default)
        .map(|folder| format!("{folder}/{path}"));
    let found = places.find(|place| machine.is_program(place));
    found.map(Into::into).ok_or_else(|| {
        let what = format!("cannot find the program {path} in any folder for programs");
        failed(Step::Exec, what, ENOENT)
    })
}

fn working_directory(config: &UnitConfig, user: Option<&User>) -> Option<WorkingDirectory> {
    let stated = config.exec.working_directory.as_ref()?;
    let home = || user.and_then(|user| user.home.clone());
    Some(WorkingDirectory {
        path: stated
            .path
            .clone()
            .or_else(home)
            .unwrap_or_else(|| "/".into()),
        optional: stated.optional,
    })
}

fn passed(config: &UnitConfig, facts: &Facts<'_>) -> Vec<PassedFd> {
    // What a service gave to be kept comes back as it was; sockets are as the unit wants them.
    let nonblocking = match &config.kind {
        UnitKind::Service(service) => Some(service.non_blocking),
        _ => None,
    };
    (0..)
        .zip(facts.passed)
        .map(|(fd, name)| PassedFd {
            fd,
            name: (*name).into(),
            nonblocking: nonblocking.filter(|_| usize::from(fd) < facts.sockets),
        })
        .collect()
}

/// What kind of terminal a device is taken for.
fn terminal_type(path: &str) -> &'static str {
    let name = path.strip_prefix("/dev/").unwrap_or(path);
    let virtual_console = name
        .strip_prefix("tty")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    if virtual_console || name == "console" {
        "linux"
    } else {
        "vt220"
    }
}
