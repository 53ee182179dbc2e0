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
pub(super) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
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
        Namespace::Own => {
            let made = own(&NETWORK, stores.network.as_ref());
            reporter.lenient("PrivateNetwork", Leniency::IfUnavailable, made)?;
        }
        Namespace::Of(path) => {
            let joined = join(path, LinkNameSpaceType::Network, Step::Network);
            reporter.lenient("NetworkNamespacePath", Leniency::IfAsked, joined)?;
        }
    }
    match &wanted.ipc {
        Namespace::Shared => {}
        Namespace::Own => {
            let made = own(&QUEUES, stores.ipc.as_ref());
            reporter.lenient("PrivateIPC", Leniency::IfUnavailable, made)?;
        }
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
    let made = unshare(UnshareFlags::NEWUTS).during(Step::Namespace, || {
        "cannot make a namespace for the host's name".to_owned()
    });
    let made = made.and_then(|()| {
        let named = name.map_or(Ok(()), |name| rustix::system::sethostname(name.as_bytes()));
        named.during(Step::Namespace, || "cannot set the host's name".to_owned())
    });
    let made = reporter.lenient("ProtectHostname", Leniency::IfUnavailable, made);
    made.map(|_| ())
}

/// A kind of namespace that can be kept.
struct Kind {
    make: fn() -> Result<(), SetupError>,
    /// This process's own.
    path: &'static str,
    link: LinkNameSpaceType,
    step: Step,
}

const NETWORK: Kind = Kind {
    make: own_network,
    path: "/proc/self/ns/net",
    link: LinkNameSpaceType::Network,
    step: Step::Network,
};

const QUEUES: Kind = Kind {
    make: own_queues,
    path: "/proc/self/ns/ipc",
    link: LinkNameSpaceType::InterProcessCommunication,
    step: Step::Namespace,
};

/// Joins what is kept, or makes a namespace and keeps it. Whoever comes first is alone until it is kept.
fn own(kind: &Kind, store: Option<&Store>) -> Result<(), SetupError> {
    let Some(store) = store else {
        return (kind.make)();
    };
    let cannot = || format!("cannot share the namespace {}", kind.path);
    let alone = store.lock().during(kind.step, cannot)?;
    match alone.kept().during(kind.step, cannot)? {
        Some(kept) => {
            let joined = move_into_link_name_space(kept.as_fd(), Some(kind.link));
            joined.during(kind.step, cannot)
        }
        None => {
            (kind.make)()?;
            let made = open(kind.path).during(kind.step, cannot)?;
            alone.keep(made.as_fd()).during(kind.step, cannot)
        }
    }
}

fn own_queues() -> Result<(), SetupError> {
    unshare(UnshareFlags::NEWIPC).during(Step::Namespace, || {
        "cannot make a namespace for queues".to_owned()
    })
}

fn own_network() -> Result<(), SetupError> {
    unshare(UnshareFlags::NEWNET).during(Step::Network, || {
        "cannot make a network namespace".to_owned()
    })?;
    let raised = crate::raise_loopback();
    // The network is closed to the outside either way, which is what was asked for.
    raised.during(Step::Network, || {
        "cannot bring the loopback interface of a new network namespace up".to_owned()
    })
}

fn join(path: &str, kind: LinkNameSpaceType, step: Step) -> Result<(), SetupError> {
    let joined = open(path).and_then(|file| move_into_link_name_space(file.as_fd(), Some(kind)));
    joined.during(step, || format!("cannot join the namespace {path}"))
}

fn open(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::empty())
}
