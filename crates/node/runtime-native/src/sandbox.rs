//! The sandbox, made by the unit's own process around itself, which then becomes the program.
//!
//! The order is what the kernel asks for: limits while the host's cgroups are in sight, namespaces, the root, then the user,
//! then what nobody can take back (privileges, system calls). A part that cannot be had is dropped and named; a part whose lack
//! would make the program run with *more* than it was asked to be kept from (its user, its privileges as root) is a failure.

mod limits;
mod namespaces;
mod privileges;
mod root;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use muster_bundle::cgroup::UnitGroup;
use muster_bundle::rootfs::RootfsError;
use muster_bundle::{Place, PlaceError, ends};
use muster_telemetry::ErrorChain;

use crate::plan::Plan;

pub use self::privileges::DENIED_CALLS;

/// What the sandbox lacks, a sentence per line.
pub(crate) const DROPPED_FILE: &str = "dropped";

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A file of the instance.
    #[error(transparent)]
    Place(PlaceError),
    /// Nothing was prepared in this folder.
    #[error("{} holds no plan", .0.display())]
    NoPlan(PathBuf),
    /// A step that cannot be left out.
    #[error("cannot {step}")]
    Step {
        /// What was being done, as a verb.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The root file system.
    #[error(transparent)]
    Rootfs(RootfsError),
    /// Something was dropped, and nothing may be.
    #[error("the sandbox would lack something: {0}")]
    Strict(String),
    /// The program.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Parts that could not be had.
#[derive(Debug, Default)]
pub(crate) struct Dropped(Vec<String>);

impl Dropped {
    /// Notes a part that failed; `Some` if it did not.
    fn unless<T, E: std::fmt::Display>(&mut self, part: &str, outcome: Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.push(format!("{part}: {error}"));
                None
            }
        }
    }
}

fn must<T>(
    step: &'static str,
    outcome: Result<T, impl Into<io::Error>>,
) -> Result<T, SandboxError> {
    outcome.map_err(|source| SandboxError::Step {
        step,
        source: source.into(),
    })
}

/// Makes the sandbox and becomes the program. Returns only if that fails; the reason is then also kept where the Service
/// Manager looks for it.
#[must_use]
pub fn start(folder: PathBuf, is_strict: bool) -> SandboxError {
    let place = Place::at(folder);
    let prepared = place.clear_traces().map_err(SandboxError::Place);
    // Opened while it is in sight, and may be opened.
    let log = prepared.and_then(|()| must("open its log", File::create(place.log())));
    let mut log = match log {
        Ok(log) => log,
        Err(error) => return error,
    };
    let error = match enter(&place, is_strict) {
        Ok(mut command) => SandboxError::Run {
            program: command.get_program().to_string_lossy().into_owned(),
            source: command.exec(),
        },
        Err(error) => error,
    };
    // The unit's own log has it too.
    let _ = log.write_all(ErrorChain(&error).to_string().as_bytes());
    error
}

fn enter(place: &Place, is_strict: bool) -> Result<Command, SandboxError> {
    let plan = read_plan(place)?;
    let mut dropped = Dropped::default();
    // Everything of the host that is needed later is opened while it is in sight.
    let notify = notify_socket();
    let record = must(
        "note what is dropped",
        File::create(place.file(DROPPED_FILE)),
    )?;
    confine_usage(place, &plan, &mut dropped)?;
    let held = namespaces::enter(&plan, &mut dropped)?;
    if held.has_mounts {
        root::build(place, &plan, held.has_users, &mut dropped)?;
    }
    privileges::limit_files(plan.open_files, &mut dropped);
    privileges::give_up(&plan, &held, &mut dropped)?;
    if is_strict && !dropped.0.is_empty() {
        return Err(SandboxError::Strict(dropped.0.join("; ")));
    }
    must("note what is dropped", tell(&dropped, record))?;
    must(
        "enter its working folder",
        std::env::set_current_dir(&plan.cwd),
    )?;
    let program = find_program(&plan)?;
    if let Some(notify) = notify {
        // The init system that is not told finds out by its own clock.
        let _ = notify.send(b"READY=1");
    }
    let mut command = Command::new(program);
    command
        .arg0(&plan.args[0])
        .args(&plan.args[1..])
        .env_clear();
    command.envs(
        plan.env
            .iter()
            .filter_map(|variable| variable.split_once('=')),
    );
    Ok(command)
}

/// The program's file, before anybody is told that it runs.
fn find_program(plan: &Plan) -> Result<PathBuf, SandboxError> {
    let name = &plan.args[0];
    let places: Vec<PathBuf> = match name.contains('/') {
        true => vec![PathBuf::from(name)],
        false => {
            let path = plan
                .env
                .iter()
                .find_map(|variable| variable.strip_prefix("PATH="));
            path.unwrap_or_default()
                .split(':')
                .map(|folder| PathBuf::from(folder).join(name))
                .collect()
        }
    };
    let can_run = |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK);
    let mut failure = rustix::io::Errno::NOENT;
    for path in places {
        match can_run(&path) {
            Ok(()) => return Ok(path),
            Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => failure = errno,
        }
    }
    Err(SandboxError::Run {
        program: name.clone(),
        source: failure.into(),
    })
}

fn read_plan(place: &Place) -> Result<Plan, SandboxError> {
    let none = || SandboxError::NoPlan(place.folder().to_owned());
    let text = must("read the plan", std::fs::read(place.config())).map_err(|_| none())?;
    let plan: Plan = must("read the plan", serde_json::from_slice(&text))?;
    match plan.args.is_empty() {
        true => Err(none()),
        false => Ok(plan),
    }
}

/// Into the log of the unit, and into a file for whoever asks.
fn tell(dropped: &Dropped, mut record: File) -> io::Result<()> {
    for sentence in &dropped.0 {
        let sentence = sentence.replace('\n', " ");
        writeln!(record, "{sentence}")?;
        eprintln!("muster-native-exec: dropped {sentence}");
    }
    Ok(())
}

fn confine_usage(place: &Place, plan: &Plan, dropped: &mut Dropped) -> Result<(), SandboxError> {
    let Some(group) = dropped.unless("limits (the unit's cgroup)", UnitGroup::own()) else {
        return Ok(());
    };
    place.note_group(&group).map_err(SandboxError::Place)?;
    if let Ok(Some(events)) = group.memory_events() {
        place
            .note_memory_events(&events)
            .map_err(SandboxError::Place)?;
    }
    limits::set(&group, &plan.limits, dropped);
    Ok(())
}

/// The socket that the init system listens at for this unit.
fn notify_socket() -> Option<UnixDatagram> {
    let path = std::env::var("NOTIFY_SOCKET").ok()?;
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&path),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

/// Records the end that the environment tells about, and clears away.
pub fn end(folder: PathBuf) -> Result<(), SandboxError> {
    let place = Place::at(folder);
    if let Some(run) = place.read_run().map_err(SandboxError::Place)? {
        ends::record(&place, &run).map_err(SandboxError::Place)?;
    }
    clear(&place);
    Ok(())
}

/// Takes away what a start leaves that is no file of the instance.
pub(crate) fn clear(place: &Place) {
    if let Some(group) = place.group() {
        group.remove_legacy();
    }
}
