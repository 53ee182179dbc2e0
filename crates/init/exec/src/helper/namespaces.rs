//! Network, queues and the host's name.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::outcome::{During, Leniency, Reporter, SetupError};
use super::stores::{Store, Stores};
use crate::sandbox::{Namespace, Namespaces};
use crate::step::Step;

/// A new namespace of this process's own. There is one thread, and nothing that it holds depends on namespaces.
#[expect(
    unsafe_code,
    reason = "unsharing descriptors would be unsound, so all of it is marked"
)]
pub(crate) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(!flags.intersects(UnshareFlags::FILES));
    // SAFETY: the table of descriptors stays as it is.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// The network and the queues. What is the process's own is kept in the stores, or found there.
pub(super) fn enter(
    wanted: &Namespaces,
    stores: &Stores,
    reporter: &Reporter,
) -> Result<(), SetupError> {
    match &wanted.network {
        Namespace::Shared => {}
        Namespace::Own => own(&NETWORK, stores.network.as_ref(), reporter)?,
        Namespace::Of(path) => {
            let joined = join(path, LinkNameSpaceType::Network, Step::Network);
            reporter.lenient("NetworkNamespacePath", Leniency::IfAsked, joined)?;
        }
    }
    match &wanted.ipc {
        Namespace::Shared => {}
        Namespace::Own => own(&QUEUES, stores.ipc.as_ref(), reporter)?,
        Namespace::Of(path) => {
            let kind = LinkNameSpaceType::InterProcessCommunication;
            let joined = join(path, kind, Step::Namespace);
            reporter.lenient("IPCNamespacePath", Leniency::IfAsked, joined)?;
        }
    }
    Ok(())
}

/// The host's name, which the process may then change for itself alone, if at all, and which is another one from the
/// beginning if that is wanted.
pub(super) fn own_host_name(name: Option<&str>, reporter: &Reporter) -> Result<(), SetupError> {
    const DIRECTIVE: &str = "ProtectHostname";
    let made = unshare(UnshareFlags::NEWUTS).during(Step::Namespace, || {
        "cannot make a namespace for the host's name".to_owned()
    });
    let made = reporter.lenient(DIRECTIVE, Leniency::IfUnavailable, made)?;
    // Where there is none, the name would be the machine's.
    let (Some(()), Some(name)) = (made, name) else {
        return Ok(());
    };
    let named = rustix::system::sethostname(name.as_bytes());
    let named = named.during(Step::Namespace, || "cannot set the host's name".to_owned());
    let named = reporter.lenient(DIRECTIVE, Leniency::IfAsked, named);
    named.map(|_| ())
}

/// Control groups: the one that the process is in is the root of all that it sees. Whether there is such a namespace.
pub(super) fn own_groups(reporter: &Reporter) -> Result<bool, SetupError> {
    let made = unshare(UnshareFlags::NEWCGROUP).during(Step::Namespace, || {
        "cannot make a namespace for control groups".to_owned()
    });
    let made = reporter.lenient("ProtectControlGroups", Leniency::IfUnavailable, made)?;
    Ok(made.is_some())
}

/// A kind of namespace that can be kept.
struct Kind {
    /// What asks for one.
    directive: &'static str,
    flags: UnshareFlags,
    /// What it is, after "make".
    what: &'static str,
    /// Makes a new one usable.
    furnish: fn() -> Result<(), SetupError>,
    /// This process's own.
    path: &'static str,
    link: LinkNameSpaceType,
    step: Step,
}

const NETWORK: Kind = Kind {
    directive: "PrivateNetwork",
    flags: UnshareFlags::NEWNET,
    what: "a network namespace",
    furnish: raise_loopback,
    path: "/proc/self/ns/net",
    link: LinkNameSpaceType::Network,
    step: Step::Network,
};

const QUEUES: Kind = Kind {
    directive: "PrivateIPC",
    flags: UnshareFlags::NEWIPC,
    what: "a namespace for queues",
    furnish: || Ok(()),
    path: "/proc/self/ns/ipc",
    link: LinkNameSpaceType::InterProcessCommunication,
    step: Step::Namespace,
};

/// Joins what is kept, or makes a namespace and keeps it. Whoever comes first is alone until it is kept.
///
/// A machine may have no such namespaces at all, which is found out by making one. What is kept is there: whoever shall be in
/// it and cannot is not to run beside it.
fn own(kind: &Kind, store: Option<&Store>, reporter: &Reporter) -> Result<(), SetupError> {
    let Some(store) = store else {
        return make(kind, reporter).map(|_| ());
    };
    let shared = share(kind, store, reporter);
    let shared = reporter.lenient(kind.directive, Leniency::IfAsked, shared);
    shared.map(|_| ())
}

fn share(kind: &Kind, store: &Store, reporter: &Reporter) -> Result<(), SetupError> {
    let cannot = || format!("cannot share the namespace {}", kind.path);
    let alone = store.lock().during(kind.step, cannot)?;
    if let Some(kept) = alone.kept().during(kind.step, cannot)? {
        let joined = move_into_link_name_space(kept.as_fd(), Some(kind.link));
        return joined.during(kind.step, cannot);
    }
    if make(kind, reporter)? {
        let made = open(kind.path).during(kind.step, cannot)?;
        alone.keep(made.as_fd()).during(kind.step, cannot)?;
    }
    Ok(())
}

/// Whether there is a new namespace: only where the machine has such.
fn make(kind: &Kind, reporter: &Reporter) -> Result<bool, SetupError> {
    let made = unshare(kind.flags).during(kind.step, || format!("cannot make {}", kind.what));
    let made = reporter.lenient(kind.directive, Leniency::IfUnavailable, made)?;
    if made.is_some() {
        // It is closed to the outside either way, which is what was asked for.
        let furnished = (kind.furnish)();
        reporter.lenient(kind.directive, Leniency::IfUnavailable, furnished)?;
    }
    Ok(made.is_some())
}

fn raise_loopback() -> Result<(), SetupError> {
    crate::raise_loopback().during(Step::Network, || {
        "cannot bring the loopback interface of a new network namespace up".to_owned()
    })
}

pub(crate) fn join(path: &str, kind: LinkNameSpaceType, step: Step) -> Result<(), SetupError> {
    let joined = open(path).and_then(|file| move_into_link_name_space(file.as_fd(), Some(kind)));
    joined.during(step, || format!("cannot join the namespace {path}"))
}

pub(crate) fn open(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty())
}
