//! A namespace of processes.
//!
//! ```text
//! manager -- this process: stays outside, passes signals on, ends as the program ended
//!              |-- 1 in the namespace: takes in orphans; with its end the kernel ends all that are left
//!              `-- 2 in the namespace: goes on to become the program
//! ```
//!
//! The first process of a namespace does not get signals that it has no handler for, so the program is the second one.
//! Signals to the process outside are passed on to the program. A manager that signals every process of a group leaves the
//! process outside out, so that the program is reached once.
//!
//! The first one sees an empty file system, and has no rights and no descriptors: whoever takes it over gains nothing.

use std::ffi::c_int;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
    fsconfig_create, fsmount, fsopen, mount_change, move_mount, unmount,
};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, chdir, fchdir, pidfd_open,
    pivot_root, set_dumpable_behavior, set_parent_process_death_signal, wait, waitpid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities};

use super::calls::{self, Forked, Signals};
use super::exemption::Exemption;
use super::namespaces::unshare;
use super::outcome::{During, Leniency, Reporter, SetupError};
use crate::step::Step;

/// Goes on as the program in a namespace of its own; the process that was there before stays behind and returns never.
pub(super) fn enter(exemption: &Exemption, reporter: &Reporter) -> Result<(), SetupError> {
    let cannot = || "cannot make a namespace for processes".to_owned();
    let made = unshare(UnshareFlags::NEWPID).during(Step::Namespace, cannot);
    let made = reporter.lenient("PrivatePIDs", Leniency::IfUnavailable, made)?;
    if made.is_none() {
        return Ok(());
    }
    let own = rustix::process::getpid();
    let outside = pidfd_open(own, PidfdFlags::empty()).during(Step::Namespace, cannot)?;
    let signals = Signals::block().during(Step::Namespace, cannot)?;
    let (done, fails) = std::io::pipe().during(Step::Namespace, cannot)?;
    let first = match calls::fork().during(Step::Namespace, cannot)? {
        Forked::Child => {
            drop(done);
            be_first(&outside, fails.into())
        }
        Forked::Parent(pid) => pid,
    };
    drop(fails);
    if let Some(errno) = heard(done.into()) {
        let detail = "cannot empty the view of the first process of a namespace";
        return Err(SetupError::new(Step::Namespace, errno, detail));
    }
    // Whoever stays outside opens nothing any more.
    exemption.end()?;
    match calls::fork().during(Step::Namespace, cannot)? {
        Forked::Child => {
            exemption.renew()?;
            Signals::unblock().during(Step::Namespace, cannot)
        }
        Forked::Parent(program) => {
            reporter.runs(program.as_raw_nonzero().get().cast_unsigned());
            stay_outside(&signals, program, first)
        }
    }
}

/// What the other end says before it is closed: an error number, or nothing.
fn heard(end: OwnedFd) -> Option<Errno> {
    let mut code = [0u8; 1];
    match rustix::io::read(&end, &mut code) {
        Ok(1) => Some(Errno::from_raw_os_error(c_int::from(code[0]))),
        Ok(_) => None,
        Err(errno) => Some(errno),
    }
}

/// Waits for the program, and ends as it did.
fn stay_outside(signals: &Signals, program: Pid, first: Pid) -> ! {
    // Whatever this process was given is the program's, the pipe included: its end says that the program is executed.
    let _ = calls::close_from(0);
    let status = loop {
        match signals.next() {
            Ok(libc::SIGCHLD) => {
                let ended = waitpid(Some(program), WaitOptions::NOHANG);
                if let Ok(Some((_, status))) = ended {
                    end_namespace(first);
                    break Some(status);
                }
                // Without its first process the namespace is no more, and the program neither.
                if matches!(waitpid(Some(first), WaitOptions::NOHANG), Ok(Some(_))) {
                    let ended = waitpid(Some(program), WaitOptions::empty());
                    break ended.ok().flatten().map(|(_, status)| status);
                }
            }
            Ok(signal) => calls::send(program, signal),
            Err(_) => {}
        }
    };
    end_like(status)
}

/// Ends the first process, and with it all others that are left.
fn end_namespace(first: Pid) {
    calls::send(first, libc::SIGKILL);
    let wait = || waitpid(Some(first), WaitOptions::empty());
    while matches!(wait(), Err(Errno::INTR)) {}
}

fn end_like(status: Option<WaitStatus>) -> ! {
    let code = status.and_then(|status| status.exit_status());
    if let Some(code) = code {
        calls::end(u8::try_from(code).unwrap_or(u8::MAX));
    }
    match status.and_then(|status| status.terminating_signal()) {
        Some(signal) => {
            // The core, if there is one, is the program's.
            let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            calls::end_by(signal)
        }
        None => calls::end(u8::MAX),
    }
}

/// The first process of the namespace: takes orphans in until it is killed.
fn be_first(outside: &OwnedFd, fails: OwnedFd) -> ! {
    if let Err(errno) = see_nothing().and_then(|()| have_nothing(outside)) {
        let code = u8::try_from(errno.raw_os_error()).unwrap_or(u8::MAX);
        // The other side takes silence for success, so it must hear of this.
        let _ = rustix::io::write(&fails, &[code]);
        calls::end(Step::Namespace.exit_code());
    }
    let _ = calls::close_from(0);
    let Ok(signals) = Signals::block() else {
        calls::end(Step::Namespace.exit_code())
    };
    loop {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        // Only the end of a child matters; other signals are for the program, which gets its own.
        let _ = signals.next();
    }
}

/// Replaces the view of the file system by an empty one.
fn see_nothing() -> Result<(), Errno> {
    unshare(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private)?;
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let empty = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    move_mount(
        &empty,
        "",
        CWD,
        "/proc",
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )?;
    fchdir(&empty)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")
}

/// Gives up every right, and ends with the process outside.
fn have_nothing(outside: &OwnedFd) -> Result<(), Errno> {
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have gone before that was said.
    let mut gone = [PollFd::new(outside, PollFlags::IN)];
    match poll(&mut gone, Some(&Timespec::default()))? {
        0 => Ok(()),
        _ => Err(Errno::SRCH),
    }
}
