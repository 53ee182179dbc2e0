//! A PAM session around the process.
//!
//! The session is opened here and has to be closed when the program has ended. A child does that: it waits for this process,
//! which becomes the program, and closes the session. It keeps the rights that closing may need.

mod pam;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Gid, PidfdFlags, getgroups, getpid, pidfd_open};

use super::calls::{self, Forked, Signals};
use super::limits;
use super::outcome::{During, SetupError};
use crate::context::Limit;
use crate::sandbox::Login;
use crate::step::Step;

/// What a session adds to a process.
#[derive(Default)]
pub(super) struct Session {
    /// Variables, as `NAME=value`: all of those that the process gets.
    pub(super) environment: Vec<Box<str>>,
    /// Groups that a module has added.
    pub(super) groups: Vec<Gid>,
    /// All limits that the process gets. A module that sets any has the last word.
    pub(super) limits: Vec<Limit>,
}

/// Opens a session; nothing if there is no PAM on this machine. `others` are descriptors that are none of the session's.
/// Modules find the limits that are asked for, and go by them where they state only a part of one.
pub(super) fn open(
    login: &Login,
    environment: &[Box<str>],
    limits: &[Limit],
    others: impl Iterator<Item = i32>,
) -> Result<Option<Session>, SetupError> {
    let Some(library) = pam::Library::load() else {
        return Ok(None);
    };
    let cannot = || {
        format!(
            "cannot open a session of {} for {}",
            login.service, login.user
        )
    };
    let before = getgroups().during(Step::Pam, cannot)?;
    let failed = |said: pam::Refusal| SetupError {
        step: Step::Pam,
        detail: format!("{}: {said}", cannot()).into(),
        source: Errno::PERM.into(),
    };
    let mut handle = library.start(&login.service, &login.user).map_err(failed)?;
    if let Some(terminal) = &login.terminal {
        handle.set_terminal(terminal).map_err(failed)?;
    }
    for variable in environment {
        handle.set_variable(variable).map_err(failed)?;
    }
    let opened = limits::in_force(limits, || handle.open().map_err(failed));
    let ((), limits) = opened?;
    let session = Session {
        environment: handle.variables(),
        limits,
        groups: getgroups()
            .during(Step::Pam, cannot)?
            .into_iter()
            .filter(|gid| !before.contains(gid))
            .collect(),
    };
    let own = pidfd_open(getpid(), PidfdFlags::empty()).during(Step::Pam, cannot)?;
    // Before it is there: a signal to all of the group may come before the child has done anything.
    Signals::block().during(Step::Pam, cannot)?;
    match calls::fork().during(Step::Pam, cannot)? {
        Forked::Child => close_after(&own, handle, others),
        Forked::Parent(_) => {
            // The session is the child's now: it is not closed from here.
            handle.forget();
            Signals::unblock().during(Step::Pam, cannot)?;
            Ok(Some(session))
        }
    }
}

/// Waits for the program to end, and closes the session. Being asked to end is the program's business: all signals are
/// blocked.
fn close_after(program: &OwnedFd, handle: pam::Handle, others: impl Iterator<Item = i32>) -> ! {
    for number in others {
        // Modules may have opened descriptors that the session needs, so only those that are not theirs are closed.
        drop(calls::take(number));
    }
    loop {
        let mut ended = [PollFd::new(program, PollFlags::IN)];
        match poll(&mut ended, None) {
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    handle.close();
    calls::end(0)
}
