//! Becoming a program without `muster-exec` between: for programs that are started by somebody else's manager and set
//! themselves up.

use muster_mounts::View;
use rustix::fd::OwnedFd;
use rustix::thread::UnshareFlags;

use super::namespaces::unshare;
use super::outcome::{During, Leniency, Reporter, SetupError};
use super::{apply, directives, set_up};
use crate::context::ExecContext;
use crate::job::{FIRST_PASSED, Job};
use crate::mounts;
use crate::sandbox::Sandbox;
use crate::step::Step;

/// What the caller of [`become_program`] does itself, between the steps. An error of its own goes into the source of the
/// [`SetupError`] that it gives, and comes back from there.
pub trait Caller {
    /// Mounts what the view is made of, and completes the view by what is known only then. What is mounted here is seen
    /// by this process alone: it is in a mount namespace of its own already.
    ///
    /// # Errors
    /// The program cannot be run without it.
    fn mount(&mut self, view: &mut View) -> Result<(), SetupError>;

    /// Gives the program's absolute path. All that could be had is had, but for limits and the filter of system calls; the
    /// process has the program's root, folder and rights. What was dropped has been said.
    ///
    /// # Errors
    /// There is no such program, or it is not to run.
    fn find_program(&mut self) -> Result<Box<str>, SetupError>;
}

/// Sets the calling process up as the context says, and becomes its program; returns only if that fails. The process must
/// have one thread. What it has of streams, session, scheduling and groups it keeps, and no descriptors but the first three.
///
/// All that is said goes to `report`, as lines of a [`Report`](crate::Report). A view is had as a whole, or not at all where
/// there can be no mount namespace: that is dropped and said.
#[must_use]
pub fn become_program(
    context: &ExecContext,
    caller: &mut dyn Caller,
    report: OwnedFd,
) -> SetupError {
    let job = Job::of(context);
    let mut reporter = Reporter::new(report);
    reporter.allow_best_effort(job.sandbox.best_effort);
    match set_up(&job, i32::from(FIRST_PASSED), Some(caller), &reporter) {
        Ok(never) => match never {},
        Err(error) => {
            reporter.failed(&error);
            error
        }
    }
}

/// Changes what the process sees of the file system, with what the caller mounts.
pub(super) fn see(
    sandbox: &Sandbox,
    caller: &mut dyn Caller,
    reporter: &Reporter,
) -> Result<(), SetupError> {
    let made = unshare(UnshareFlags::NEWNS).during(Step::Namespace, || {
        "cannot make a mount namespace".to_owned()
    });
    let names = directives::of_view(&sandbox.view);
    let made = reporter.lenient(&names, Leniency::IfUnavailable, made)?;
    if made.is_none() {
        return Ok(());
    }
    mounts::seclude()?;
    let mut view = sandbox.view.clone();
    caller.mount(&mut view)?;
    apply(&view, false, reporter)
}
