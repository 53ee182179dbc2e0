//! The new process's session keyring.

use std::ffi::{c_char, c_int, c_long};

use super::{Failure, check};
use crate::context::{ExecContext, Identity};
use crate::sandbox::Keyring;
use crate::step::Step;

const JOIN_SESSION_KEYRING: c_int = 1;
const LINK: c_int = 8;
const SESSION_KEYRING: c_int = -3;
const USER_KEYRING: c_int = -4;
const SET_PERMISSIONS: c_int = 5;
/// Whoever has the keyring, and root, may find and read it.
const READ_ONLY: c_int = 0x0b0b_0000;
/// A number that leaves a user or group as it is.
const UNCHANGED: c_int = -1;

/// Joins a keyring of the process's own. Where the kernel has none, or none to spare, the process keeps the caller's, as with
/// systemd.
pub(super) fn join(context: &ExecContext) -> Result<(), Failure> {
    if context.keyring == Keyring::Inherit {
        return Ok(());
    }
    let Some(identity) = &context.identity else {
        let made = make(context.keyring);
        return or_without(made.map(|()| tell_run(context)));
    };
    // The kernel makes a keyring for whoever is the real user, and finds the user's own by the same.
    // SAFETY: no addresses are involved, and neither can fail.
    let (uid, gid) = unsafe {
        (
            libc::syscall(libc::SYS_getuid),
            libc::syscall(libc::SYS_getgid),
        )
    };
    let Identity {
        uid: user,
        gid: group,
        ..
    } = *identity;
    let made = be(c_long::from(user), c_long::from(group));
    let made = made.and_then(|()| make(context.keyring));
    be(uid, gid)?;
    or_without(made.map(|()| tell_run(context)))
}

/// Puts a key into the keyring that tells which run the process belongs to. It is root's, by which it is known to be true. A process
/// that there is no room to tell finds the same in its environment.
fn tell_run(context: &ExecContext) {
    let Some(run) = &context.invocation else {
        return;
    };
    let (kind, name) = (c"user".as_ptr(), c"invocation_id".as_ptr());
    // SAFETY: two constant texts and as many bytes as is said; the other call has no addresses.
    unsafe {
        let key = libc::syscall(
            libc::SYS_add_key,
            kind,
            name,
            run.as_ptr(),
            run.len(),
            SESSION_KEYRING,
        );
        if key != -1 {
            libc::syscall(libc::SYS_keyctl, SET_PERMISSIONS, key, READ_ONLY);
        }
    }
}

fn make(keyring: Keyring) -> Result<(), Failure> {
    // SAFETY: a null name is one of no name.
    let joined = unsafe {
        let unnamed = std::ptr::null::<c_char>();
        libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, unnamed)
    };
    check(Step::Keyring, joined)?;
    if keyring == Keyring::Shared {
        // SAFETY: no addresses are involved.
        let linked =
            unsafe { libc::syscall(libc::SYS_keyctl, LINK, USER_KEYRING, SESSION_KEYRING) };
        check(Step::Keyring, linked)?;
    }
    Ok(())
}

/// Changes the real user and group. The saved ones stay, so that it can be changed back.
fn be(uid: c_long, gid: c_long) -> Result<(), Failure> {
    // SAFETY: no addresses are involved.
    let changed = unsafe { libc::syscall(libc::SYS_setresgid, gid, UNCHANGED, UNCHANGED) };
    check(Step::Keyring, changed)?;
    // SAFETY: no addresses are involved.
    let changed = unsafe { libc::syscall(libc::SYS_setresuid, uid, UNCHANGED, UNCHANGED) };
    check(Step::Keyring, changed).map(|_| ())
}

fn or_without(made: Result<(), Failure>) -> Result<(), Failure> {
    match made {
        Err(Failure {
            errno: libc::ENOSYS | libc::EPERM | libc::EACCES | libc::EDQUOT,
            ..
        }) => Ok(()),
        made => made,
    }
}
