//! The update state machine: pure, without clock or I/O.
//!
//! ```text
//!             wish                                              wish that differs, at any step
//!   none ------------> downloading <------------------------------------------------------------+
//!    ^ |                    | every item is there or has failed                                 |
//!    | |                    v                                                                   |
//!    | |                 pending      earlier actions end, expected nodes come (bounded)        |
//!    | |                    v                                                                   |
//!    | |                installing    nodes paused and resumed, configuration installed         |
//!    | |                    v                                                                   |
//!    | +--- replan ---> launching <-- replan --+   placed, written down, given to nodes --------+
//!    |                      v                  |                                                |
//!    |                  activating ------------+   every instance active, failed, or overdue ---+
//!    |                      v                                                                   |
//!    +------------------ finalizing   what is not needed goes ----------------------------------+
//! ```
//!
//! A failure never changes the way: it is noted for the item, the instance or the update, and the rest goes on. Every wait has
//! an end: downloads by [`Limits::download_stall`], nodes by [`Limits::nodes_patience`] and [`Limits::node_loss`], instances by
//! [`Limits::activation_patience`], and all other answers by the driver.
//!
//! A wish that differs from what is wanted takes its place at once. Downloads that it does not want are cancelled, the others
//! go on; what cannot be cancelled (a question to the balancer, a message to a node) ends while the new one downloads, and
//! its answer is ignored. `pending` is where the new one waits for that, so never do two updates act at once.

mod activation;
mod books;
mod downloads;
mod nodes;
mod recover;
mod report;
mod saved;
#[cfg(test)]
mod tests;
mod vocabulary;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::{AosError, NodeId};
use muster_balance::{Placement, Reason};

pub use self::recover::RecoverError;
pub use self::saved::{Assigned, Fetch, ItemRecord, Saved, State, Version};
pub use self::vocabulary::{
    Accepted, Action, Change, Event, FlightId, Origin, Turn, UpdateId, UpdateStep, Wish,
};

use self::books::Books;
use self::downloads::Flight;
use self::nodes::{NodeView, Ticket};
use crate::document::DesiredStatus;
use crate::limits::Limits;
use crate::progress::InstanceTable;
use crate::seams::{Assignment, Question};

/// There is nothing to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    /// Nothing else was wanted before, or it is not kept any more.
    #[error("there is no earlier desired status to go back to")]
    NoEarlier,
    /// The one that is asked for is not kept.
    #[error("the desired status of update {update} is not kept")]
    NotKept {
        /// Which one.
        update: UpdateId,
    },
}

/// Actions under way that change something, and for which update.
#[derive(Debug, Default)]
struct Acting {
    configure: Option<UpdateId>,
    plan: Option<UpdateId>,
    retain: Option<UpdateId>,
    sends: BTreeMap<NodeId, Ticket>,
}

impl Acting {
    fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.asks_nothing()
    }

    fn asks_nothing(&self) -> bool {
        self.configure.is_none() && self.plan.is_none() && self.retain.is_none()
    }
}

/// The newest wish, and how far it is.
#[derive(Debug)]
struct Current {
    version: Arc<Version>,
    state: State,
}

/// One Unit's updates.
#[derive(Debug)]
pub struct Machine {
    limits: Limits,
    versions: BTreeMap<UpdateId, Arc<Version>>,
    current: Option<Current>,
    assigned: Option<Arc<Assigned>>,
    nodes: BTreeMap<NodeId, NodeView>,
    books: Books,
    downloads: BTreeMap<FlightId, Flight>,
    next_flight: u64,
    acting: Acting,
    tickets: u64,
    replan: Option<Reason>,
    /// Since when the step waits without anything having changed.
    waiting_since: Duration,
    /// The fewest instances that were not settled, since they were given to nodes.
    unsettled: usize,
    /// The wait for instances ended before they had settled.
    is_overdue: bool,
    /// How instances were when that was last asked for, and whether it was too late for some then.
    reported: InstanceTable,
    reported_overdue: bool,
    /// When everything was last looked at.
    looked: Duration,
    changed: bool,
    turn: Turn,
}

impl Machine {
    /// Takes a wish. When what it gives has been written down, the wish is not lost any more.
    pub fn accept(&mut self, wish: Wish, now: Duration) -> (Accepted, Turn) {
        if let Some(current) = &self.current
            && *current.version.desired == *wish.desired
            && !(current.state.done && self.has_failed())
        {
            return (Accepted::Unchanged(current.version.id), Turn::default());
        }
        let id = self.next_update();
        let version = Arc::new(Version {
            id,
            applied: wish.at,
            origin: wish.origin,
            name: wish.name,
            desired: wish.desired,
            places: wish.places,
        });
        let items = self.take_over(&version.desired);
        self.keep(Arc::clone(&version));
        self.current = Some(Current {
            version,
            state: State {
                update: id,
                step: UpdateStep::Downloading,
                done: false,
                items,
                configuration: None,
                placement: None,
            },
        });
        self.changed = true;
        self.is_overdue = false;
        // It may pause other nodes.
        self.touch_all();
        self.forget_old_versions();
        (Accepted::New(id), self.turn(now))
    }

    /// What would be wanted by going back.
    pub fn earlier(&self, to: Option<UpdateId>) -> Result<&Arc<Version>, RollbackError> {
        if let Some(update) = to {
            let found = self.versions.get(&update);
            return found.ok_or(RollbackError::NotKept { update });
        }
        let wanted = self.current.as_ref().map(|it| &it.version);
        let differs = |it: &&Arc<Version>| {
            wanted.is_some_and(|wanted| it.id < wanted.id && it.desired != wanted.desired)
        };
        let found = self.versions.values().rev().find(differs);
        found.ok_or(RollbackError::NoEarlier)
    }

    /// What was wanted, up to what is wanted, which is the last.
    pub fn versions(&self) -> impl DoubleEndedIterator<Item = &Arc<Version>> {
        self.versions.values()
    }

    /// What the balancer would be asked for a wish, if all of its items could be had.
    pub fn question(&self, desired: Arc<DesiredStatus>) -> Question {
        Question {
            update: self.next_update(),
            items: desired.items().clone(),
            nodes: self.standings(),
            running: self.running(),
            reason: Reason::NewDesired,
            desired,
        }
    }

    fn next_update(&self) -> UpdateId {
        let last = self.versions.keys().next_back();
        UpdateId(last.map_or(1, |last| last.0 + 1))
    }

    fn running(&self) -> Placement {
        let assigned = self.assigned.as_deref();
        assigned.map_or_else(Placement::new, |it| it.assignment.placement())
    }

    /// Takes note of what happened.
    pub fn step(&mut self, event: Event, now: Duration) -> Turn {
        match event {
            Event::DownloadProgress { flight, bytes } => self.download_goes_on(flight, bytes, now),
            Event::Downloaded { flight, result } => self.downloaded(flight, result),
            Event::Configured(result) => self.configured(result),
            Event::Planned(result) => self.planned(result),
            Event::Sent { node, result } => self.sent(&node, result, now),
            Event::Retained => self.retained(),
            Event::NodeUp { node, paused } => self.node_up(node, paused, now),
            Event::NodeDown(node) => self.node_down(&node, now),
            Event::NodeShutOut(node) => self.node_shut_out(&node),
            Event::NodePaused { node, paused } => self.node_paused(&node, paused),
            Event::Instances {
                node,
                whole,
                statuses,
            } => self.told(&node, whole, statuses),
            Event::Replan(reason) => self.replan(reason),
            Event::Tick => {}
        }
        self.turn(now)
    }

    /// When something is to be decided, if nothing happens before. Deadlines that had passed at the last call were looked at
    /// then; they wait for something else.
    pub fn deadline(&self) -> Option<Duration> {
        let since = self.waiting_since;
        let waits = match self.at() {
            UpdateStep::Pending => [
                Some(since + self.limits.nodes_patience),
                self.expected_until(),
            ],
            UpdateStep::Activating => [Some(since + self.limits.activation_patience), None],
            _ => [None, None],
        };
        let downloads = self.downloads.values();
        let stalls = downloads.map(|it| it.alive + self.limits.download_stall);
        let lost = self.books.down.first();
        let lost = lost.map(|(since, _)| *since + self.limits.node_loss);
        let again = self.books.retries.first().map(|(again, _)| *again);
        let waits = waits.into_iter().flatten();
        let all = waits.chain(stalls).chain(lost).chain(again);
        all.filter(|at| *at > self.looked).min()
    }

    /// What outlives the process, as far as it was given out to be written down.
    pub fn saved(&self) -> Saved {
        Saved {
            versions: self.versions.clone(),
            state: self.current.as_ref().map(|it| it.state.clone()),
            assigned: self.assigned.clone(),
        }
    }

    fn at(&self) -> UpdateStep {
        let state = self.current.as_ref().map(|it| it.state.step);
        state.unwrap_or_default()
    }

    fn go_to(&mut self, step: UpdateStep, now: Duration) {
        self.waiting_since = now;
        if let Some(current) = &mut self.current {
            current.state.step = step;
            self.changed = true;
        }
    }

    fn keep(&mut self, version: Arc<Version>) {
        self.turn
            .changes
            .push(Change::Version(Arc::clone(&version)));
        self.versions.insert(version.id, version);
    }

    /// The newest one stays, as many before it as are to be kept, and the one that nodes have.
    fn forget_old_versions(&mut self) {
        let in_force = self.assigned.as_ref().map(|it| it.by);
        let ids = self.versions.keys().rev();
        let old: Vec<UpdateId> = ids
            .skip(self.limits.history + 1)
            .filter(|id| Some(**id) != in_force)
            .copied()
            .collect();
        for id in old {
            self.versions.remove(&id);
            self.turn.changes.push(Change::Forget(id));
        }
    }

    /// Everything that follows from how things are now.
    fn turn(&mut self, now: Duration) -> Turn {
        self.looked = now;
        self.lose_nodes(now);
        loop {
            self.start_downloads(now);
            self.send_shares(now);
            if !self.advance(now) {
                break;
            }
        }
        if std::mem::take(&mut self.changed)
            && let Some(current) = &self.current
        {
            let state = current.state.clone();
            self.turn.changes.push(Change::State(state));
        }
        std::mem::take(&mut self.turn)
    }

    /// One step forward, if it is time for one.
    fn advance(&mut self, now: Duration) -> bool {
        match self.at() {
            UpdateStep::None => self.place_again(now),
            UpdateStep::Downloading => {
                let is_over = self.downloads_are_over();
                if is_over {
                    self.go_to(UpdateStep::Pending, now);
                }
                is_over
            }
            UpdateStep::Pending => {
                let may_go = self.acting.is_idle() && self.nodes_are_here(now);
                if may_go {
                    self.go_to(UpdateStep::Installing, now);
                    self.configure();
                }
                may_go
            }
            UpdateStep::Installing if self.acting.configure.is_none() => {
                self.go_to(UpdateStep::Launching, now);
                self.plan();
                true
            }
            UpdateStep::Launching if self.acting.plan.is_none() => {
                let is_over = self.shares_are_out();
                if is_over {
                    self.go_to(UpdateStep::Activating, now);
                    self.unsettled = usize::MAX;
                    self.is_overdue = false;
                }
                is_over
            }
            UpdateStep::Activating => {
                if self.place_again(now) {
                    return true;
                }
                let is_over = self.is_settled(now);
                if is_over {
                    self.go_to(UpdateStep::Finalizing, now);
                    self.retain();
                }
                is_over
            }
            UpdateStep::Installing | UpdateStep::Launching | UpdateStep::Finalizing => false,
        }
    }

    fn place_again(&mut self, now: Duration) -> bool {
        let may_go = self.current.is_some() && self.replan.is_some() && self.acting.is_idle();
        if may_go {
            self.go_to(UpdateStep::Launching, now);
            self.plan();
        }
        may_go
    }

    fn replan(&mut self, reason: Reason) {
        // A change of the configuration is looked at by every plan; other reasons say more.
        if self.replan.is_none() || reason != Reason::ConfigChange {
            self.replan = Some(reason);
        }
    }

    fn configure(&mut self) {
        let Some(current) = &self.current else { return };
        let (update, desired) = (current.version.id, Arc::clone(&current.version.desired));
        self.acting.configure = Some(update);
        self.turn
            .actions
            .push(Action::Configure { update, desired });
    }

    fn configured(&mut self, result: Result<(), AosError>) {
        let asked = self.acting.configure.take();
        if let Some(current) = &mut self.current
            && asked == Some(current.version.id)
        {
            current.state.configuration = result.err();
            self.changed = true;
        }
    }

    fn plan(&mut self) {
        let Some(current) = &self.current else { return };
        let assigned = self.assigned.as_deref();
        let is_first = assigned.is_none_or(|it| it.by != current.version.id);
        let reason = self.replan.take().unwrap_or_else(|| {
            let places = &current.version.places;
            match is_first && !places.is_empty() {
                true => Reason::Rollback(places.clone()),
                false => Reason::NewDesired,
            }
        });
        let question = Question {
            update: current.version.id,
            desired: Arc::clone(&current.version.desired),
            items: current.usable(),
            nodes: self.standings(),
            running: self.running(),
            reason,
        };
        self.acting.plan = Some(question.update);
        self.turn.actions.push(Action::Plan(question));
    }

    fn planned(&mut self, result: Result<Assignment, AosError>) {
        let asked = self.acting.plan.take();
        let Some(current) = &mut self.current else {
            return;
        };
        if asked != Some(current.version.id) {
            return;
        }
        self.changed = true;
        let assignment = match result {
            Ok(assignment) => assignment,
            Err(error) => {
                // Nodes keep what they have.
                current.state.placement = Some(error);
                return;
            }
        };
        current.state.placement = None;
        let mut version = Version::clone(&current.version);
        version.places = assignment.placement();
        let by = version.id;
        if version != *current.version {
            current.version = Arc::new(version);
            let version = Arc::clone(&current.version);
            self.keep(version);
        }
        self.assign(Assigned { by, assignment });
    }

    fn retain(&mut self) {
        let Some(current) = &self.current else { return };
        let mut items = current.needed();
        if let Ok(earlier) = self.earlier(None) {
            // To go back must be possible without the network.
            items.extend(earlier.desired.items().values().cloned());
        }
        let update = current.version.id;
        self.acting.retain = Some(update);
        self.turn.actions.push(Action::Retain { update, items });
    }

    fn retained(&mut self) {
        let asked = self.acting.retain.take();
        let Some(current) = &mut self.current else {
            return;
        };
        if asked == Some(current.version.id) && current.state.step == UpdateStep::Finalizing {
            current.state.step = UpdateStep::None;
            current.state.done = true;
            self.changed = true;
            self.turn.actions.push(Action::Finished);
        }
    }
}
