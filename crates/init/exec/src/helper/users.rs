//! A namespace of users, in which some exist: root and the process's own user, if nothing else is asked for. All others are
//! `nobody` there.
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
use crate::sandbox::KnownUsers;
use crate::step::Step;

/// So many users are the first ones, as with systemd.
const FIRST: u32 = 1 << 16;

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

/// Enters a new namespace of users in which those exist who are to be known, among them root and the given user.
pub(super) fn enter(
    folder: &OwnFolder,
    known: KnownUsers,
    identity: Option<&Identity>,
    exemption: &Exemption,
) -> Result<(), SetupError> {
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let (uid, gid) = identity.map_or(own, |identity| (identity.uid, identity.gid));
    let (users, groups) = (map(known, uid), map(known, gid));
    let entered = enter_mapped(folder.0.as_fd(), &users, &groups, exemption);
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

/// The lines that say who exists. Everybody has the same number on both sides.
fn map(known: KnownUsers, id: u32) -> String {
    let first = match known {
        KnownUsers::Own => 1,
        KnownUsers::First => FIRST,
        // A map of one line would be that of the machine itself, by which programs tell whether they are in a namespace.
        KnownUsers::All => return format!("0 0 1\n1 1 {}\n", u32::MAX - 1),
    };
    if id < first {
        format!("0 0 {first}\n")
    } else {
        format!("0 0 {first}\n{id} {id} 1\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_keeps_his_number_and_nobody_is_there_twice() {
        assert_eq!(map(KnownUsers::Own, 0), "0 0 1\n");
        assert_eq!(map(KnownUsers::Own, 7), "0 0 1\n7 7 1\n");
        assert_eq!(map(KnownUsers::First, 65_535), "0 0 65536\n");
        let far = map(KnownUsers::First, 65_536);
        assert_eq!(far, "0 0 65536\n65536 65536 1\n");
        assert_eq!(map(KnownUsers::All, 7), "0 0 1\n1 1 4294967294\n");
    }
}
