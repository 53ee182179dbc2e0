//! The program `muster-exec`: sets up what needs an ordinary process, and becomes the program.
//!
//! It is started by the direct path, which has set up streams, descriptors, session, cgroup and scheduling, with two more
//! descriptors: a memory file with the job and a pipe for what there is to say (see [`delegate`](crate::delegate) and
//! [`Report`](crate::Report)). It has one thread, no runtime and no state that outlives it.
//!
//! ```text
//! job -> terminal, files of streams -> memory policy, personality -> accounts -> keyring -> folders -> credentials
//!     -> files of variables -> PAM session -> (namespace of users, where rights are lacking) -> network, queues, groups
//!     -> processes -> mounts, root -> host's name -> groups -> SMACK's label -> namespace of users
//!     -> capabilities, user, secure bits -> folder -> other labels -> no new privileges -> variables, arguments
//!     -> descriptors -> restriction of file systems -> limits -> filter of system calls -> execve
//! ```
//!
//! # Invariants
//! - A step that fails ends it all: one line through the pipe, the exit code of the step, nothing executed.
//! - What may be left out (the unit says so, or systemd's documentation does) is left out as a whole and said. Identity,
//!   root and credentials never are.
//! - Every step runs with the rights that it needs and that later steps take away; none gives any back.
//! - Once memory may be limited and calls filtered, nothing is allocated and only `execve` is called.

mod attributes;
mod caller;
mod calls;
mod credentials;
mod directives;
mod execute;
mod exemption;
mod files;
mod labels;
mod limits;
mod login;
mod names;
pub(crate) mod namespaces;
pub(crate) mod outcome;
mod processes;
mod rights;
pub(crate) mod stores;
mod terminal;
mod users;
mod variables;

use std::convert::Infallible;
use std::io::Read;

use muster_mounts::View;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

use crate::context::Identity;
use crate::folders;
use crate::job::{FIRST_PASSED, Job, MAX_JOB};
use crate::mounts;
use crate::sandbox::{KnownUsers, Sandbox};
use crate::step::Step;
use execute::Last;
use exemption::Exemption;
use labels::Moment;
use outcome::{During, Leniency};
use stores::Stores;
use users::OwnFolder;

pub use caller::{Caller, become_program};
pub use outcome::{Reporter, SetupError};

/// What it ends with if it was not started by the manager.
const MISUSED: u8 = 2;

/// Sets a process up and executes its program. `place` is the number of the descriptor with the job; that of the pipe is
/// the next one. Returns only if something fails, with the exit code that says what.
#[must_use]
pub fn run(place: &str) -> u8 {
    let place = place.parse::<u16>().ok();
    let place = place.filter(|place| *place >= FIRST_PASSED);
    let Some(place) = place.map(i32::from) else {
        return MISUSED;
    };
    let (Ok(job), Ok(pipe)) = (calls::take(place), calls::take(place + 1)) else {
        return MISUSED;
    };
    let mut reporter = Reporter::new(pipe);
    let done = read(job).and_then(|job| {
        reporter.allow_best_effort(job.sandbox.best_effort);
        set_up(&job, place, None, &reporter)
    });
    match done {
        Ok(never) => match never {},
        Err(error) => {
            reporter.failed(&error);
            error.step.exit_code()
        }
    }
}

fn read(job: OwnedFd) -> Result<Job, SetupError> {
    let cannot = || "cannot read what to do".to_owned();
    let most = u64::try_from(MAX_JOB).unwrap_or(u64::MAX).saturating_add(1);
    let mut file = std::fs::File::from(job);
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let room = usize::try_from(size).unwrap_or(0).min(MAX_JOB);
    let mut bytes = Vec::with_capacity(room + 1);
    // Whoever wrote it has moved the position that this descriptor shares.
    std::io::Seek::rewind(&mut file).during(Step::Fds, cannot)?;
    let read = file.take(most).read_to_end(&mut bytes);
    read.during(Step::Fds, cannot)?;
    if bytes.len() > MAX_JOB {
        return Err(SetupError::new(Step::Fds, Errno::FBIG, cannot()));
    }
    serde_json::from_slice(&bytes).map_err(|error| SetupError {
        step: Step::Fds,
        detail: cannot().into(),
        source: error.into(),
    })
}

/// Does all of it; this process, or one that comes from it, becomes the program. `place` is the first descriptor that the
/// program does not get.
fn set_up(
    job: &Job,
    place: i32,
    mut caller: Option<&mut dyn Caller>,
    reporter: &Reporter,
) -> Result<Infallible, SetupError> {
    let sandbox = &job.sandbox;
    let stores = Stores::take(job)?;
    let exemption = Exemption::take(job)?;
    terminal::take(job)?;
    files::take(job)?;
    attributes::set(sandbox, reporter)?;
    let (found, account) = match &sandbox.names {
        Some(names) => {
            let (identity, account) = names::look_up(names)?;
            (Some(identity), account)
        }
        None => (None, None),
    };
    let keeps_rights = sandbox
        .names
        .as_ref()
        .is_some_and(|names| names.only_for_folders);
    let identity = match &found {
        Some(found) if !keeps_rights => Some(found),
        _ => job.identity.as_ref(),
    };
    let numbers = found.as_ref().or(identity);
    if let Some(number) = numbers.and_then(Identity::meaningless) {
        let detail = format!("{number} is not the number of a user or group");
        return Err(SetupError::new(Step::User, Errno::INVAL, detail));
    }
    if let (Some(name), Some(identity)) = (&sandbox.lent_user, identity) {
        names::check_lent(name, identity.uid)?;
    }
    let run = job.invocation.as_ref();
    attributes::set_keyring(sandbox.keyring, run, identity, reporter)?;
    terminal::give(job, identity)?;
    let owner = numbers.map(|identity| (identity.uid, identity.gid));
    folders::make_all(&sandbox.folders, owner)
        .map_err(|(step, error)| SetupError::new(step, error.errno, error.detail))?;
    let labels = labels::plan(sandbox, reporter);
    let filter = execute::filter(&sandbox.system_calls, reporter)?;
    // Whom names led to is known better here than to the manager.
    let stated = sandbox.credentials_owner.filter(|_| found.is_none());
    credentials::set_up(sandbox, stated.or(owner), reporter)?;
    let mut environment = variables::known(job)?;
    let logs_in = sandbox
        .names
        .as_ref()
        .is_some_and(|names| names.login_environment);
    if let Some(account) = account.as_ref().filter(|_| logs_in) {
        variables::add_login(&mut environment, account);
    }
    let mut session = login::Session::default();
    let mut limits = job.limits.clone();
    if let Some(login) = &sandbox.login {
        // The job was read, so its number may be anybody's by now.
        let others = (0..place).chain([place + 1]).chain(Stores::numbers(job));
        let others = others.chain(job.exemptions.map(i32::from));
        match login::open(login, &environment, &job.limits, others)? {
            Some(opened) => {
                session = opened;
                environment = std::mem::take(&mut session.environment);
                limits = std::mem::take(&mut session.limits);
            }
            None => reporter.dropped("PAMName", "there is no libpam on this machine"),
        }
    }
    let privileged = users::is_privileged();
    if sandbox.namespaces.users && !privileged {
        // Whoever has no rights gets some in a namespace of users, over what is made in it.
        let entered = OwnFolder::open().and_then(|folder| users::enter_unprivileged(&folder));
        let entered = reporter.lenient("PrivateUsers", Leniency::IfUnavailable, entered)?;
        if entered.is_some() && sandbox.namespaces.known_users != KnownUsers::Own {
            let why = "without rights over all users only the process's own one exists";
            reporter.dropped("PrivateUsers", why);
        }
    }
    // Namespaces that were made among other users are closed to this process.
    let stores = stores.filter(!sandbox.namespaces.users || privileged);
    namespaces::enter(&sandbox.namespaces, &stores, reporter)?;
    drop(stores);
    let guarded;
    let sandbox = match sandbox.namespaces.groups && !namespaces::own_groups(reporter)? {
        true => {
            guarded = with_guarded_groups(sandbox);
            &guarded
        }
        false => sandbox,
    };
    if sandbox.namespaces.pids {
        processes::enter(&exemption, reporter)?;
    }
    let own_folder = (sandbox.namespaces.users && privileged)
        .then(OwnFolder::open)
        .transpose()?;
    match &mut caller {
        Some(caller) => caller::see(sandbox, &mut **caller, reporter)?,
        None => see(sandbox, reporter)?,
    }
    if sandbox.namespaces.uts {
        namespaces::own_host_name(sandbox.host_name.as_deref(), reporter)?;
    }
    limits::raise(&limits)?;
    if let Some(identity) = identity {
        rights::take_groups(identity, &session.groups)?;
    }
    labels::set(&labels, Moment::WithRights, reporter)?;
    if let Some(folder) = own_folder {
        let entered = users::enter(
            &folder,
            sandbox.namespaces.known_users,
            identity,
            &exemption,
        );
        reporter.lenient("PrivateUsers", Leniency::IfUnavailable, entered)?;
    }
    rights::take(sandbox, identity, reporter)?;
    let home = account.as_ref().map(|account| &*account.home);
    execute::enter_folder(job.working_directory.as_ref(), home)?;
    labels::set(&labels, Moment::AtTheEnd, reporter)?;
    execute::renounce(job, filter.as_ref())?;
    let found = match caller {
        Some(caller) => Some(caller.find_program()?),
        None => execute::find_program(job)?,
    };
    let (argv, environment) = variables::settle(job, environment)?;
    let last = Last {
        job,
        limits: &limits,
        program: found.as_deref().unwrap_or(&job.program),
        argv,
        environment,
        filter,
        exemption,
        first_closed: place,
    };
    last.execute(reporter)
}

/// The groups of others are seen where there is no namespace for those of its own: then nobody changes any.
fn with_guarded_groups(sandbox: &Sandbox) -> Sandbox {
    let mut sandbox = sandbox.clone();
    sandbox.view.own_groups = false;
    sandbox.view.protect_control_groups = true;
    sandbox
}

/// Changes what the process sees of the file system.
fn see(sandbox: &Sandbox, reporter: &Reporter) -> Result<(), SetupError> {
    let view = &sandbox.view;
    if *view == View::default() {
        return Ok(());
    }
    let made = namespaces::unshare(UnshareFlags::NEWNS).during(Step::Namespace, || {
        "cannot make a mount namespace".to_owned()
    });
    // What the program finds, unlike what is kept from it, cannot be left out: it would run on other files.
    let demanded = sandbox.insists_on_view
        || view.root.is_some()
        || !(view.binds.is_empty() && view.temporary.is_empty())
        || !(view.images.is_empty() && view.extensions.is_empty());
    if demanded {
        made?;
    } else {
        let names = directives::of_view(view);
        let made = reporter.lenient(&names, Leniency::IfUnavailable, made)?;
        if made.is_none() {
            return Ok(());
        }
    }
    apply(view, sandbox.best_effort, reporter)
}

fn apply(view: &View, best_effort: bool, reporter: &Reporter) -> Result<(), SetupError> {
    let applied = mounts::apply(view, best_effort).map_err(SetupError::from);
    for dropped in applied? {
        let (directive, why) = dropped.split_once(": ").unwrap_or(("Protect", &dropped));
        reporter.dropped(directive, why);
    }
    Ok(())
}
