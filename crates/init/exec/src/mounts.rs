//! Makes a process see of the file system what its [`View`] says, and nothing more.
//!
//! [`apply`] runs in `muster-exec`, in a mount namespace of its own that was just unshared. What has to be done is decided
//! by [`muster_mounts::plan`]; here it is done.
//!
//! - Mounts stop travelling to the machine before the first step, so nothing that is done here is seen there.
//! - Every mount is complete before it is attached: it is copied or made without a place, gets its rights, and then
//!   appears. Nothing is seen half-made, and rights of whole trees are set by one system call.
//! - No list of the machine's mounts is ever read.
//! - Places are opened without following symlinks: planning has followed them, below the root of the view. One that is
//!   swapped in between makes the start fail.
//! - Images and what extensions make of folders wait at a place of their own, and are copied from there.
//! - Only another root is entered by `pivot_root`; without one the process stays where it is.
//!
//! The kernel must be 5.12 or later (`mount_setattr`).

mod calls;
mod carry;
mod extensions;
mod fresh;
mod image;
mod images;
mod inaccessible;
mod loops;
mod objects;
mod root;
mod staging;
mod trees;

use muster_mounts::{Change, Plan, PlanError, Propagation, Root, View, plan_leniently};
use rustix::fd::AsFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::umask;

use self::carry::{Carried, Carrier};
use self::trees::Trees;
use crate::step::Step;

/// A view could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct ViewError {
    /// The step whose exit code the process ends with: [`Step::Namespace`] or [`Step::Chroot`].
    pub step: Step,
    /// What the kernel said.
    #[source]
    pub errno: Errno,
    /// What was tried, and at which path.
    pub detail: String,
}

/// Makes the caller, which must be in a mount namespace of its own, see what the view says, and gives what was dropped
/// because this machine cannot do it: `directive: why`.
///
/// The caller's folder is `/` afterwards, if the view has another root. The manager's root cannot be reached from there.
/// With `best_effort` whatever cannot be had is dropped, but for another root, images and extensions. Processes are shown of the
/// caller's own namespace of processes, so that has to be entered before.
///
/// # Errors
/// What cannot be had, if it is not dropped. The caller's view is then neither the old one nor the new one: it ends.
pub fn apply(view: &View, best_effort: bool) -> Result<Vec<String>, ViewError> {
    seclude()?;
    let mask = Mask::cleared();
    let carried = build(view, best_effort)?;
    drop(mask);
    if let Some(root) = &carried.staged {
        root::enter(root.as_fd())?;
    }
    propagate(view.propagation.unwrap_or(Propagation::Shared))?;
    Ok(carried.dropped)
}

/// Keeps what is mounted from now on to this namespace.
pub(crate) fn seclude() -> Result<(), ViewError> {
    propagate(Propagation::Slave)
}

fn build(view: &View, best_effort: bool) -> Result<Carried, ViewError> {
    let open_root = |errno| refused(errno, "cannot open /".to_owned());
    let mut trees = Trees::open().map_err(open_root)?;
    let mut staged = None;
    if let Some(root) = other_root(view) {
        let mounted = root::mount_root(root)?;
        let cannot = |errno| refused(errno, "cannot mount the other root".to_owned());
        let rights = Change {
            plain: view.plain,
            ..Change::default()
        };
        mounted.change(rights).map_err(cannot)?;
        let place = root::stage(mounted.root.as_fd(), Some(root)).map_err(cannot)?;
        mounted.complete(place.as_fd())?;
        trees.set_root(place.try_clone().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::MFILE);
            cannot(errno)
        })?);
        staged = Some(place);
    }
    let mut dropped = Vec::new();
    let staging = images::mount(view, &mut trees)?;
    let plan = planned(view, &trees, best_effort.then_some(&mut dropped))?;
    let carried = Carrier::new(&trees, staged, dropped, best_effort).carry_out(&plan)?;
    if let Some(staging) = staging {
        let remaining = |errno| refused(errno, "cannot detach images from their place".to_owned());
        staging.remove().map_err(remaining)?;
    }
    Ok(carried)
}

fn other_root(view: &View) -> Option<&Root> {
    let root = view.root.as_ref()?;
    // The machine's own root is no other one.
    let own = matches!(root, Root::Folder(path) if path.trim_matches('/').is_empty());
    (!own).then_some(root)
}

fn planned(
    view: &View,
    trees: &Trees,
    dropped: Option<&mut Vec<String>>,
) -> Result<Plan, ViewError> {
    let (plan, problems) = plan_leniently(view, trees);
    match (dropped, problems.first()) {
        (Some(dropped), _) => dropped.extend(problems.iter().map(PlanError::to_string)),
        (None, Some(problem)) => {
            let errno = Errno::from_raw_os_error(problem.errno());
            return Err(refused(errno, problem.to_string()));
        }
        (None, None) => {}
    }
    Ok(plan)
}

fn propagate(propagation: Propagation) -> Result<(), ViewError> {
    let flag = match propagation {
        Propagation::Shared => MountPropagationFlags::SHARED,
        Propagation::Slave => MountPropagationFlags::DOWNSTREAM,
        Propagation::Private => MountPropagationFlags::PRIVATE,
    };
    mount_change("/", flag | MountPropagationFlags::REC).map_err(|errno| {
        let detail = "cannot set the propagation of / and all below it";
        refused(errno, detail.to_owned())
    })
}

/// A failure of the mount namespace.
fn refused(errno: Errno, detail: String) -> ViewError {
    ViewError {
        step: Step::Namespace,
        errno,
        detail,
    }
}

/// What is made has the mode that it is given while this lives.
struct Mask(Mode);

impl Mask {
    fn cleared() -> Self {
        Self(umask(Mode::empty()))
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        umask(self.0);
    }
}
