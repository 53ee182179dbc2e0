//! A namespace of users, in which only root and the process's own user exist. All others are `nobody` there.
//!
//! Only a process outside may say which users exist within, so a child that stays outside writes that down. Without the
//! rights to that, the process may map itself alone, which it does itself.

use std::ffi::c_int;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::calls::{self, Forked};
use super::exemption::Exemption;
use super::namespaces::unshare;
use super::outcome::{During, SetupError};
use crate::context::Identity;
use crate::step::Step;

/// This process's folder in `/proc`, which is taken before another root may hide it.
pub(super) struct OwnFolder(OwnedFd);

impl OwnFolder {
    pub(super) fn open() -> Result<Self, SetupError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open("/proc/self", flags, Mode::empty());
        let folder = folder.during(Step::User, || "cannot open /proc/self".to_owned())?;
        Ok(Self(folder))
    }
}

/// Whether this process has rights over all users.
pub(super) fn is_privileged() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    let own = rustix::thread::capabilities(None);
    own.is_ok_and(|own| own.effective.contains(needed))
}

/// Enters a new namespace of users in which root and the given user exist.
pub(super) fn enter(
    folder: &OwnFolder,
    identity: Option<&Identity>,
    exemption: &Exemption,
) -> Result<(), SetupError> {
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let (uid, gid) = identity.map_or(own, |identity| (identity.uid, identity.gid));
    let entered = enter_mapped(folder.0.as_fd(), &map(uid), &map(gid), exemption);
    entered.during(Step::User, || {
        format!("cannot make a namespace of users with user {uid}")
    })
}

/// Enters a new namespace of users in which only the process's own user exists; everybody may do that.
pub(super) fn enter_unprivileged(folder: &OwnFolder) -> Result<(), SetupError> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let only = |id: u32| format!("{id} {id} 1\n");
    let enter = || {
        unshare(UnshareFlags::NEWUSER)?;
        write(folder.0.as_fd(), "setgroups", "deny")?;
        write(folder.0.as_fd(), "uid_map", &only(uid))?;
        write(folder.0.as_fd(), "gid_map", &only(gid))
    };
    enter().during(Step::User, || "cannot make a namespace of users".to_owned())
}

fn map(id: u32) -> String {
    match id {
        0 => "0 0 1\n".to_owned(),
        id => format!("0 0 1\n{id} {id} 1\n"),
    }
}

fn enter_mapped(
    folder: BorrowedFd<'_>,
    users: &str,
    groups: &str,
    exemption: &Exemption,
) -> Result<(), Errno> {
    let (ready, go) = std::io::pipe().map_err(|_| Errno::MFILE)?;
    match calls::fork()? {
        Forked::Child => {
            drop(go);
            // The end of the pipe comes when the parent is inside, or gone.
            let waited = rustix::io::read(&ready, &mut [0u8; 1]);
            let written = waited.and_then(|count| {
                if count == 0 {
                    return Err(Errno::SRCH);
                }
                exemption.renew().map_err(|_| Errno::PERM)?;
                write(folder, "uid_map", users)?;
                write(folder, "gid_map", groups)
            });
            let errno = written.err().map_or(0, Errno::raw_os_error);
            calls::end(u8::try_from(errno).unwrap_or(u8::MAX))
        }
        Forked::Parent(child) => {
            let entered = unshare(UnshareFlags::NEWUSER);
            if entered.is_ok() {
                rustix::io::write(&go, b"x")?;
            }
            drop(go);
            let status = loop {
                match waitpid(Some(child), WaitOptions::empty()) {
                    Err(Errno::INTR) => {}
                    other => break other?.and_then(|(_, status)| status.exit_status()),
                }
            };
            entered?;
            match status {
                Some(0) => Ok(()),
                Some(errno) => Err(Errno::from_raw_os_error(c_int::from(
                    u8::try_from(errno).unwrap_or(u8::MAX),
                ))),
                None => Err(Errno::CHILD),
            }
        }
    }
}

fn write(folder: BorrowedFd<'_>, name: &str, text: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    rustix::io::write(&file, text.as_bytes()).map(|_| ())
}
