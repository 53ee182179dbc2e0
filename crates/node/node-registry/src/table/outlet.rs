//! When a node's changes leave the table: the first at once, then at most one per interval, and always
//! the last.

use std::time::Duration;

use crate::record::NodeRecord;

#[derive(Debug, Default)]
pub(super) struct Outlet {
    /// What observers know.
    shown: Option<NodeRecord>,
    /// Being stored; shown next.
    writing: Option<NodeRecord>,
    /// Before this moment only what is urgent leaves.
    earliest: Duration,
    due: Option<Due>,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    at: Duration,
    urgent: bool,
}

impl Outlet {
    /// For what observers know from the beginning.
    pub(super) fn start_shown(&mut self, record: NodeRecord) {
        self.shown = Some(record);
    }

    pub(super) fn due(&self) -> Option<Duration> {
        self.due.map(|due| due.at)
    }

    /// The node is now `current`.
    pub(super) fn touch(&mut self, now: Duration, current: &NodeRecord, urgent: bool) {
        if self.writing.is_none() && self.shown.as_ref() == Some(current) {
            self.due = None;
            return;
        }
        let urgent = urgent || self.due.is_some_and(|due| due.urgent);
        let at = if urgent { now } else { now.max(self.earliest) };
        let at = self.due.map_or(at, |due| due.at.min(at));
        self.due = Some(Due { at, urgent });
    }

    /// The node's turn has come. False when there is nothing new to tell.
    pub(super) fn begin(&mut self, current: NodeRecord) -> bool {
        self.due = None;
        let new = self.shown.as_ref() != Some(&current);
        if new {
            self.writing = Some(current);
        }
        new
    }

    /// What was being stored is, and is shown.
    pub(super) fn shown(&mut self, now: Duration, damping: Duration, current: &NodeRecord) {
        self.shown = self.writing.take();
        self.earliest = now + damping;
        if let Some(due) = &mut self.due {
            if self.shown.as_ref() == Some(current) {
                self.due = None;
            } else if !due.urgent {
                due.at = due.at.max(self.earliest);
            }
        }
    }

    /// What was being stored could not be.
    pub(super) fn failed(&mut self, retry: Duration) {
        self.writing = None;
        let urgent = self.due.is_some_and(|due| due.urgent);
        self.due = Some(Due { at: retry, urgent });
    }
}
