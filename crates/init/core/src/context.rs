//! From a unit's settings to how one of its processes is run.
//!
//! [`build`] takes the settings, the command and what is known at the moment ([`Facts`]) and gives an [`ExecContext`],
//! the folders that must be there first, and what of the settings is left out. It changes nothing but the table of dynamic
//! users: whatever it has to know of files and accounts it asks a [`Machine`], which tests make up. [`make_folders`] and
//! [`put_folders_away`] carry the plans for folders out. Descriptors are referred to by their place in the list that goes
//! with the context.
//!
//! ```text
//! UnitConfig, Command, Facts -> identity -> folders -> environment -> streams -> sandbox -> program -> arguments -> ExecContext
//! ```
//!
//! # Invariants
//! - The same settings, facts and machine give the same context.
//! - A unit that asks for nothing that takes a helper has no sandbox: its processes are executed at once.
//! - A process never gets more rights than its unit names: what cannot be had is an error, not a remark. Where the unit
//!   wants the best that there is, or where it changes nothing about rights, it is listed, so that it can be said out loud.

mod distant;
pub mod dynamic_users;
mod environment;
pub mod folders;
mod identity;
pub mod machine;
mod name_services;
mod pressure;
pub mod private_tmp;
mod sandbox;
mod settings;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod unapplied;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use muster_engine::ids::InvocationId;
use muster_engine::protocol::{ExecKind, ExitStatus, SpawnError};
use muster_exec::folders::Folder;
use muster_exec::{
    ExecContext, Identity, Keyring, Namespace, Namespaces, PassedFd, Sandbox, Step, Stream,
    TakeControl, WorkingDirectory,
};
use muster_mounts::Folders;
use muster_unit_file::config::{ExecOutput, UnitConfig, UnitKind};
use muster_unit_file::specifier::HostFacts;
use muster_unit_file::value::command::{Command, CommandFlags};
use muster_units::{Host, effective};

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
    /// Variables that say whose doing the run is.
    pub trigger: &'a [(&'static str, String)],
    /// What is shared with other processes rather than made anew.
    pub joined: Joined<'a>,
    /// Variables that say where memory getting short can be seen.
    pub pressure: &'a [(&'static str, String)],
}

/// What a process shares with others of its run, or of a run that it joins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Joined<'a> {
    /// The name of the folders of a private `/tmp`, where they are not those of this run.
    pub tmp: Option<&'a str>,
    /// The places of what the network namespace is kept in.
    pub network: Option<[u16; 2]>,
    /// The places of what the IPC namespace is kept in.
    pub ipc: Option<[u16; 2]>,
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
    /// Whose those are that state no owner is known to the name services.
    has_names: bool,
    /// What must be there for a `/tmp` of its own.
    pub private_tmp: Option<Folders>,
    /// What is left out although the unit asks for it, as `Directive: why`.
    pub dropped: Vec<Box<str>>,
    /// Directives that the unit has and that nobody carries out.
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
    let config = &*with_root_of(config, kind);
    let privileged = command.flags.contains(CommandFlags::FULLY_PRIVILEGED);
    let pressure = pressure::as_seen(config, privileged, facts.pressure);
    let facts = &Facts {
        pressure: &pressure,
        ..*facts
    };
    let host = &facts.host.specifiers;
    let anybodys = folders::plan(config, host, None);
    let who = identity::look_up(config, (host.uid, host.gid), &anybodys, machine)?;
    let folders = folders::plan(config, host, who.identity.as_ref());
    let told = identity::told(config, &who, host.uid, machine);
    let told = told.as_ref();
    let mut environment = environment::build(config, kind, facts, told, &folders, machine)?;
    let streams = streams::build(config, kind, facts)?;
    if let Some(terminal) = &streams.terminal {
        environment.add_terminal(terminal);
    }
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
    let of = sandbox::Of {
        config,
        kind,
        privileged,
        keeps_identity,
        who: &who,
        folders: &folders,
        terminal: streams.terminal.as_ref().map(|terminal| &*terminal.path),
    };
    let asked = sandbox::build(of, facts, machine)?;
    let sandbox = asked.sandbox.as_ref();
    let private_tmp = sandbox.and_then(|sandbox| sandbox.view.private_tmp.clone());
    // Only what is the run's own is kept for the others of it.
    let has_own = |of: fn(&Namespaces) -> &Namespace| {
        sandbox.is_some_and(|sandbox| *of(&sandbox.namespaces) == Namespace::Own)
    };
    let network_store = facts.joined.network.filter(|_| has_own(|of| &of.network));
    let ipc_store = facts.joined.ipc.filter(|_| has_own(|of| &of.ipc));
    let has_names = who.names.is_some();
    let mut context = ExecContext {
        program: command.path.clone(),
        working_directory: working_directory(config, &who, host.uid, machine),
        identity: who.identity.filter(|_| !keeps_identity),
        no_new_privileges: asked.no_new_privileges,
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        terminal: streams.terminal,
        passed: passed(config, facts),
        keyring: asked.keyring,
        invocation: Some(facts.invocation.0.to_be_bytes()),
        sandbox: asked.sandbox,
        network_store,
        ipc_store,
        ..ExecContext::default()
    };
    find_program(config, &mut context, machine)?;
    environment.settle(config, command, &mut context);
    settings::apply(config, &facts.host.default_limits, machine, &mut context)?;
    if privileged {
        // It is outside of all that confines, limits included, as with systemd.
        context.limits.clear();
    }
    // The manager itself waits for no terminal.
    let terminal = context.terminal.as_ref();
    if terminal.is_some_and(|terminal| terminal.control == TakeControl::Wait) {
        helped(&mut context);
    }
    keep_from_waiting(&mut context, machine);
    Ok(Built {
        context,
        added,
        folders,
        has_names,
        private_tmp,
        dropped: asked.dropped,
        not_applied: unapplied::directives(config, privileged),
    })
}

/// Makes what stands for `/tmp` and `/var/tmp` of a process that is about to start.
///
/// # Errors
/// It cannot be made.
pub fn make_private_tmp(folders: &Folders, machine: &mut dyn Machine) -> Result<(), SpawnError> {
    machine.make_private_tmp(folders).map_err(|error| {
        let what = format!("cannot make {} and {}", folders.tmp, folders.var_tmp);
        let errno = error.raw_os_error().unwrap_or(EIO);
        failed(Step::Namespace, what, errno)
    })
}

/// Makes the folders of a process that is about to start. What would take long, or for ever, is left to whatever sets the
/// process up.
///
/// # Errors
/// The step of the first that cannot be made.
pub fn make_folders(built: &mut Built, machine: &mut dyn Machine) -> Result<(), SpawnError> {
    let mut left = Vec::new();
    for folder in muster_exec::folders::in_order(&built.folders) {
        if may_wait_in(folder, machine) {
            left.push(folder.clone());
            continue;
        }
        let is_whole = machine.make_folder(folder).map_err(|error| {
            failed(folder.step(), error.to_string(), error.errno.raw_os_error())
        })?;
        // Whose it is may be known to the name services alone.
        let is_anybodys = folder.owner.is_none() && built.has_names;
        if !is_whole || is_anybodys {
            left.push(folder.clone());
        }
    }
    if !left.is_empty() {
        helped(&mut built.context).folders = left;
    }
    Ok(())
}

/// Whether a folder, or a link to it, is where whoever goes there may have to wait.
fn may_wait_in(folder: &Folder, machine: &mut dyn Machine) -> bool {
    let mut paths = folder.links().chain([&*folder.path]);
    paths.any(|path| machine.may_wait_at(path))
}

/// Leaves to a helper what the manager itself might wait for: it opens streams, enters folders and executes programs in the
/// manager's stead.
fn keep_from_waiting(context: &mut ExecContext, machine: &mut dyn Machine) {
    let files = [&context.stdin, &context.stdout, &context.stderr].map(|stream| match stream {
        Stream::File { path, .. } => Some(path),
        _ => None,
    });
    let folder = context.working_directory.as_ref();
    let direct = [folder.map(|folder| &folder.path), Some(&context.program)];
    // Whoever has a helper anyway has it do the rest, too.
    let direct = direct.map(|path| path.filter(|_| context.sandbox.is_none()));
    let mut may_wait = |paths: &[Option<&Box<str>>]| {
        let mut paths = paths.iter().flatten();
        paths.any(|path| machine.may_wait_at(path))
    };
    let waits_for_files = may_wait(&files);
    if waits_for_files || may_wait(&direct) {
        helped(context);
    }
    context.waits_for_files = waits_for_files;
}

/// What a helper sets up for a process, which has one from now on.
fn helped(context: &mut ExecContext) -> &mut Sandbox {
    let keyring = &mut context.keyring;
    context.sandbox.get_or_insert_with(|| {
        Box::new(Sandbox {
            keyring: std::mem::replace(keyring, Keyring::Inherit),
            ..Sandbox::default()
        })
    })
}

/// A process that leaves a unit's terminal as the next user wants to find it, if the unit asks for that, and gives one that was
/// lent back to root. It does nothing but that: `program` is executed for its end.
#[must_use]
pub fn terminal_restorer(config: &UnitConfig, program: &str) -> Option<ExecContext> {
    Some(ExecContext {
        program: program.into(),
        argv: vec![program.into(), "--version".into()],
        terminal: Some(streams::left_terminal(config)?),
        stdin: Stream::Terminal,
        identity: streams::lends_terminal(config).then_some(Identity {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
        }),
        ..ExecContext::default()
    })
}

/// Takes away what a run had for itself. Gives the paths of what is to be removed by somebody who has the time, and a line
/// for each folder that stays although it should go.
#[must_use]
pub fn put_folders_away(
    config: &UnitConfig,
    host: &Host,
    (run, another_run): (InvocationId, bool),
    machine: &mut dyn Machine,
) -> (Vec<String>, Vec<String>) {
    let (mut paths, mut remarks) = (Vec::new(), Vec::new());
    for folder in folders::ending(config, &host.specifiers, another_run) {
        if may_wait_in(&folder, machine) {
            let path = &folder.path;
            remarks.push(format!(
                "Its folder stays: {path} is on a file system that may never answer"
            ));
            continue;
        }
        match machine.put_away(&folder, &run.to_string()) {
            Ok(path) => paths.extend(path),
            Err(error) => remarks.push(format!("Its folder stays: {error}: {}", error.errno)),
        }
    }
    (paths, remarks)
}

/// The folder with the secrets of a unit, if it has any.
#[must_use]
pub fn credentials_folder(config: &UnitConfig, host: &HostFacts) -> Option<String> {
    sandbox::credentials_folder(config, &host.runtime_directory)
}

/// Removes a folder with everything in it, or a link.
///
/// # Errors
/// It is there and cannot be removed.
pub fn remove_tree(path: &str) -> std::io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(stat) if stat.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn failed(step: Step, what: impl Into<Box<str>>, errno: i32) -> SpawnError {
    SpawnError {
        step: what.into(),
        errno,
        exit_code: step.exit_code(),
        early: false,
    }
}

/// `PermissionsStartOnly=`, the older way to write a mark before each command but the main one.
fn has_rights_until_start(config: &UnitConfig, kind: ExecKind) -> bool {
    match &config.kind {
        UnitKind::Service(service) => service.permissions_start_only && kind != ExecKind::Start,
        _ => false,
    }
}

/// `RootDirectoryStartOnly=`: all but the main command have the machine's root.
fn with_root_of(config: &UnitConfig, kind: ExecKind) -> Cow<'_, UnitConfig> {
    match &config.kind {
        UnitKind::Service(service)
            if service.root_directory_start_only && kind != ExecKind::Start =>
        {
            let mut config = config.clone();
            config.exec.images.root_directory = None;
            config.exec.images.root_image = None;
            Cow::Owned(config)
        }
        _ => Cow::Borrowed(config),
    }
}

/// Where a program is. One that only has a name is looked for by whoever sets the process up, if anybody does: what is in
/// which folder depends on what the process sees. Somebody does where looking may take for ever.
fn find_program(
    config: &UnitConfig,
    context: &mut ExecContext,
    machine: &mut dyn Machine,
) -> Result<(), SpawnError> {
    if context.program.starts_with('/') {
        return Ok(());
    }
    let stated = config.exec.search_path.0.iter();
    let default = environment::DEFAULT_PATH.split(':');
    let default = default.filter(|_| config.exec.search_path.0.is_empty());
    let folders: Vec<Box<str>> = stated.chain(default).map(Into::into).collect();
    if context.sandbox.is_none() {
        for folder in &folders {
            let place = format!("{folder}/{}", context.program);
            if machine.may_wait_at(&place) {
                helped(context).program_folders = folders;
                return Ok(());
            }
            if machine.is_program(&place) {
                context.program = place.into();
                return Ok(());
            }
        }
        let name = &context.program;
        let what = format!("cannot find the program {name} in any folder for programs");
        return Err(failed(Step::Exec, what, ENOENT));
    }
    helped(context).program_folders = folders;
    Ok(())
}

fn working_directory(
    config: &UnitConfig,
    who: &identity::Who,
    own: u32,
    machine: &mut dyn Machine,
) -> Option<WorkingDirectory> {
    let stated = config.exec.working_directory.as_ref()?;
    let home = || match (&who.user, &who.names) {
        (Some(user), _) => user.home.clone(),
        // Whoever asks the name services learns where that is.
        (None, Some(names)) if names.user.is_some() => Some("~".into()),
        // Nobody is named: it is at the manager's own home.
        (None, _) => {
            let accounts = machine.accounts().ok()?;
            accounts.user(&own.to_string()).ok()?.home
        }
    };
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
