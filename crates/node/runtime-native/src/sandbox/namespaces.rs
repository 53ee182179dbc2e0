//! Namespaces: of users first where that is what makes the others possible.
#![expect(
    unsafe_code,
    reason = "unshare has no safe form: threads could lose what they share"
)]

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;

use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::{Dropped, SandboxError, must};
use crate::plan::{Network, Plan};

/// What this process has of its own.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Mounts.
    pub(super) has_mounts: bool,
    /// Users: it is not root outside.
    pub(super) has_users: bool,
}

pub(super) fn enter(plan: &Plan, dropped: &mut Dropped) -> Result<Held, SandboxError> {
    let mut held = Held::default();
    if !geteuid().is_root() {
        let own = own_users();
        held.has_users = dropped.unless("a user namespace", own).is_some();
        if !held.has_users {
            for part in ["a root file system of its own", "a network of its own"] {
                dropped
                    .0
                    .push(format!("{part}: not without a user namespace"));
            }
            return Ok(held);
        }
    }
    match &plan.network {
        // A network that was made for it is not left out: it would have the host's.
        Network::Namespace(path) => must("enter its network namespace", enter_network(path))?,
        Network::Empty => {
            dropped.unless("a network of its own", unshare(UnshareFlags::NEWNET));
        }
        Network::Host => {}
    }
    let mounts = unshare(UnshareFlags::NEWNS);
    held.has_mounts = dropped
        .unless("a root file system of its own", mounts)
        .is_some();
    dropped.unless("message queues of its own", unshare(UnshareFlags::NEWIPC));
    if dropped
        .unless("a host name of its own", unshare(UnshareFlags::NEWUTS))
        .is_some()
    {
        let named = rustix::system::sethostname(plan.hostname.as_bytes());
        dropped.unless("a host name of its own", named);
    }
    Ok(held)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: this process has one thread, so nobody else loses what it shared with it.
    unsafe { unshare_unsafe(flags) }.map_err(Into::into)
}

/// A user namespace in which it is who it is outside, and nobody else exists.
fn own_users() -> io::Result<()> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    unshare(UnshareFlags::NEWUSER)?;
    // Without this the kernel lets nobody but root say who groups are.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}

fn enter_network(path: &std::path::Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), kind).map_err(Into::into)
}
