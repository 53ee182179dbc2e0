//! Entering the network that a unit's processes have, for what is not one of them: the sockets that it listens at.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::helper::SetupError;
use crate::helper::namespaces::{join, open, unshare};
use crate::helper::outcome::During;
use crate::helper::stores::Store;
use crate::step::Step;

const OWN: &str = "/proc/self/ns/net";

/// A network other than the manager's.
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// The one that is kept in a pair of sockets, or is made and kept there now: see
    /// [`ExecContext::network_store`](crate::ExecContext::network_store).
    Kept([BorrowedFd<'a>; 2]),
    /// The one that this file stands for.
    Of(&'a str),
}

/// Moves the calling process, which has one thread, into a network. Whoever is the first in one that is to be kept makes it, with
/// a loopback interface that is up.
///
/// # Errors
/// There is no way into it. The process may then be in a new one that nobody keeps, and is to do nothing more.
pub fn enter_network(network: Network<'_>) -> Result<(), SetupError> {
    let pair = match network {
        Network::Of(path) => return join(path, LinkNameSpaceType::Network, Step::Network),
        Network::Kept(pair) => pair,
    };
    let cannot = || "cannot share a network namespace".to_owned();
    let [reads, writes] = pair.map(|end| end.try_clone_to_owned().during(Step::Network, cannot));
    let store = Store::new([reads?, writes?]);
    let alone = store.lock().during(Step::Network, cannot)?;
    if let Some(kept) = alone.kept().during(Step::Network, cannot)? {
        let kind = Some(LinkNameSpaceType::Network);
        return move_into_link_name_space(kept.as_fd(), kind).during(Step::Network, cannot);
    }
    unshare(UnshareFlags::NEWNET).during(Step::Network, || {
        "cannot make a network namespace".to_owned()
    })?;
    crate::raise_loopback().during(Step::Network, || {
        "cannot bring the loopback interface of a new network namespace up".to_owned()
    })?;
    let made = open(OWN).during(Step::Network, cannot)?;
    alone.keep(made.as_fd()).during(Step::Network, cannot)
}
