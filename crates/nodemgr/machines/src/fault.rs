//! Where a test may kill a program that keeps machines: on both sides of everything that lasts.

use muster_fault::{Point, hit};

use crate::book::{Call, Turn};
use crate::event::Happened;

muster_fault::points! {
    /// Something was decided; nothing is written down.
    pub(crate) DECIDED = "machines.decided",
    /// An order is written down; its provider has not been asked, and nobody was told.
    pub(crate) ORDERED = "machines.ordered",
    /// A provider has answered an order; nothing is written down.
    pub(crate) PROVISION_ANSWERED = "machines.provision-answered",
    /// That a machine exists is written down; nobody was told.
    pub(crate) MADE = "machines.made",
    /// What is asked of a machine is written down; its provider has not been asked.
    pub(crate) ASKED = "machines.asked",
    /// A provider has answered what was asked of a machine; nothing is written down.
    pub(crate) ACT_ANSWERED = "machines.act-answered",
    /// The new state of a machine is written down; nobody was told.
    pub(crate) MOVED = "machines.moved",
    /// That a machine shall end is written down; its provider has not been asked.
    pub(crate) TERMINATE_ASKED = "machines.terminate-asked",
    /// A provider has answered that a machine goes; nothing is written down.
    pub(crate) DESTROY_ANSWERED = "machines.destroy-answered",
    /// That a machine is gone is written down; nobody was told.
    pub(crate) GONE = "machines.gone",
    /// That an order is not wanted any more is written down; nobody has looked for what became of it.
    pub(crate) CANCELLED = "machines.cancelled",
    /// A list came from a provider; nothing was concluded from it.
    pub(crate) LISTED = "machines.listed",
}

fn of_event(what: &Happened) -> Option<Point> {
    use muster_lifecycle::Verb::Terminate;
    Some(match what {
        Happened::Ordered => ORDERED,
        Happened::Cancelled { .. } => CANCELLED,
        Happened::Made { .. } => MADE,
        Happened::Asked {
            verb: Terminate, ..
        } => TERMINATE_ASKED,
        Happened::Asked { .. } => ASKED,
        Happened::Moved { .. } => MOVED,
        Happened::Gone { .. } => GONE,
        _ => return None,
    })
}

/// A turn is on disk, and nothing else has been done about it.
pub(crate) fn hit_written(turn: &Turn) {
    for point in turn.events.iter().filter_map(|it| of_event(&it.what)) {
        hit(point);
    }
}

/// A provider has answered.
pub(crate) fn hit_answered(call: &Call) {
    match call {
        Call::Provision(..) => hit(PROVISION_ANSWERED),
        Call::Act(..) => hit(ACT_ANSWERED),
        Call::Destroy(..) => hit(DESTROY_ANSWERED),
        Call::List(_) => hit(LISTED),
        Call::Find(..) | Call::Describe(..) | Call::DestroyStray(..) => {}
    }
}
