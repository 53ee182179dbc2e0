//! The sandbox, made by the unit's own process around itself, which then becomes the program.
//!
//! [`muster_exec`] makes it: [`context`] says what is wanted, [`Native`] adds what only this runtime has. Before, while the host's
//! cgroups are in sight, the instance's own is made and entered. A part that cannot be had is dropped and named; a part whose
//! lack would make the program run with *more* than it was asked to be kept from (its user, its privileges as root, the network
//! that was made for it), or without what it was granted, is a failure.

mod context;
mod image;
mod limits;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

use muster_bundle::cgroup::UnitGroup;
use muster_bundle::rootfs::RootfsError;
use muster_bundle::{Place, PlaceError, ends};
use muster_exec::helper::{Caller, Reporter, SetupError, become_program};
use muster_exec::{Report, Step};
use muster_mounts::View;
use muster_telemetry::ErrorChain;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};

use self::context::Rights;
use crate::plan::Plan;

pub use self::context::DENIED_CALLS;

/// What the execution environment says while it makes the sandbox, as lines of a [`Report`].
pub(crate) const REPORT_FILE: &str = "report";
/// No report is longer.
const MAX_REPORT: usize = 64 << 10;
/// What is dropped where the network that was made for a program cannot be had.
const MADE_NETWORK: &str = "NetworkNamespacePath: ";

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
    /// Something was dropped that may not be.
    #[error("the sandbox would lack something: {0}")]
    Lacking(String),
    /// A step of the execution environment.
    #[error(transparent)]
    Setup(SetupError),
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

/// Says which parts could not be had.
#[derive(Debug)]
pub(crate) struct Dropped(Reporter);

impl Dropped {
    /// Notes a part that failed; `Some` if it did not.
    fn unless<T, E: std::fmt::Display>(&self, part: &str, outcome: Result<T, E>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.0.dropped(part, &error.to_string());
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
    let Err(error) = enter(place, is_strict);
    // The unit's own log has it too.
    let _ = log.write_all(ErrorChain(&error).to_string().as_bytes());
    error
}

fn enter(place: Place, is_strict: bool) -> Result<std::convert::Infallible, SandboxError> {
    let plan = read_plan(&place)?;
    let rights = Rights {
        uid: geteuid().as_raw(),
        open_files: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        is_strict,
    };
    // Everything of the host that is needed later is opened while it is in sight.
    let notify = notify_socket();
    let step = "note what is dropped";
    let report = must(step, open_report(&place))?;
    let said = must(step, report.try_clone())?;
    let heard = must(step, report.try_clone())?;
    let dropped = Dropped(Reporter::new(said.into()));
    confine_usage(&place, &plan, &dropped)?;
    let (context, lacking) = context::context(&plan, &place.rootfs(), rights);
    for (part, why) in lacking {
        dropped.0.dropped(&part, &why);
    }
    let mut native = Native {
        place,
        plan,
        is_strict,
        report: heard,
        notify,
    };
    let SetupError {
        step,
        detail,
        source,
    } = become_program(&context, &mut native, report.into());
    Err(source.downcast().unwrap_or_else(|source| {
        SandboxError::Setup(SetupError {
            step,
            detail,
            source,
        })
    }))
}

/// What this runtime adds to the steps of the execution environment.
#[derive(Debug)]
struct Native {
    place: Place,
    plan: Plan,
    is_strict: bool,
    report: File,
    notify: Option<UnixDatagram>,
}

impl Caller for Native {
    fn mount(&mut self, view: &mut View) -> Result<(), SetupError> {
        image::mount_image(&self.place, &self.plan, view)
            .map_err(|error| own(Step::Namespace, error))
    }

    fn find_program(&mut self) -> Result<Box<str>, SetupError> {
        let failed = |error| own(Step::Exec, error);
        let report = must("read what is dropped", read_report(&self.report)).map_err(failed)?;
        for sentence in &report.dropped {
            eprintln!("muster-native-exec: dropped {sentence}");
        }
        // In another network than its own it would reach what it must not.
        let may_lack = |dropped: &str| !self.is_strict && !dropped.starts_with(MADE_NETWORK);
        if !report.dropped.iter().all(|dropped| may_lack(dropped)) {
            return Err(failed(SandboxError::Lacking(report.dropped.join("; "))));
        }
        let program = find_program(&self.plan).map_err(failed)?;
        if let Some(notify) = &self.notify {
            // The init system that is not told finds out by its own clock.
            let _ = notify.send(b"READY=1");
        }
        Ok(program)
    }
}

/// An error of this runtime on its way through the execution environment.
fn own(step: Step, error: SandboxError) -> SetupError {
    SetupError {
        step,
        detail: ErrorChain(&error).to_string().into(),
        source: io::Error::other(error),
    }
}

fn open_report(place: &Place) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    options.open(place.file(REPORT_FILE))
}

/// All that was said so far, wherever the file's position is.
fn read_report(file: &File) -> io::Result<Report> {
    let mut bytes = vec![0; MAX_REPORT];
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut report = Report::default();
    report.take(&bytes[..length]);
    Ok(report)
}

/// The program's file, before anybody is told that it runs.
fn find_program(plan: &Plan) -> Result<Box<str>, SandboxError> {
    let name = &plan.args[0];
    let path = || {
        let mut variables = plan.env.iter();
        let path = variables.find_map(|variable| variable.strip_prefix("PATH="));
        path.unwrap_or_default()
    };
    let places: Vec<String> = match name.contains('/') {
        true => vec![name.clone()],
        false => path()
            .split(':')
            .map(|folder| format!("{folder}/{name}"))
            .collect(),
    };
    let failed = |errno: Errno| SandboxError::Run {
        program: name.clone(),
        source: errno.into(),
    };
    let mut failure = Errno::NOENT;
    for path in places {
        match rustix::fs::access(&path, Access::EXEC_OK) {
            Ok(()) => {
                // From its working folder on, if it is not named from the root on.
                let path = std::path::absolute(path).map_err(|_| failed(Errno::NOENT))?;
                return Ok(path.to_string_lossy().into());
            }
            Err(Errno::NOENT) => {}
            Err(errno) => failure = errno,
        }
    }
    Err(failed(failure))
}

fn read_plan(place: &Place) -> Result<Plan, SandboxError> {
    let none = || SandboxError::NoPlan(place.folder().to_owned());
    let text = fs::read(place.config()).map_err(|_| none())?;
    let plan: Plan = must("read the plan", serde_json::from_slice(&text))?;
    match plan.args.is_empty() {
        true => Err(none()),
        false => Ok(plan),
    }
}

fn confine_usage(place: &Place, plan: &Plan, dropped: &Dropped) -> Result<(), SandboxError> {
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
