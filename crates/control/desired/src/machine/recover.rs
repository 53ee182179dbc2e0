//! After a death: on from where it was.

use std::collections::BTreeMap;
use std::time::Duration;

use super::books::Books;
use super::nodes::NodeView;
use super::saved::Saved;
use super::vocabulary::{Turn, UpdateStep};
use super::{Acting, Current, Machine};
use crate::limits::Limits;
use crate::progress::InstanceTable;

/// What is saved says that an update is under way, and not which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the desired status of the newest update is not kept")]
pub struct RecoverError;

impl Machine {
    /// Goes on from what was saved; nothing is known of nodes yet, but those that had something are expected.
    ///
    /// Questions that were not answered are asked again. An update that had not placed its instances goes through `pending`
    /// again, because nodes have to be here for that.
    pub fn recover(
        limits: Limits,
        saved: Saved,
        now: Duration,
    ) -> Result<(Self, Turn), RecoverError> {
        let Saved {
            versions,
            state,
            assigned,
        } = saved;
        let current = match state {
            Some(state) => {
                let version = versions.get(&state.update).cloned().ok_or(RecoverError)?;
                Some(Current { version, state })
            }
            None => None,
        };
        let mut nodes = BTreeMap::new();
        let mut books = Books::default();
        if let Some(assigned) = &assigned {
            for (node, share) in &assigned.assignment.nodes {
                if !share.instances.is_empty() {
                    nodes.insert(node.clone(), NodeView::recalled(now));
                    books.down.insert((now, node.clone()));
                    books.absent.insert((now, node.clone()));
                    books.touch(node);
                }
            }
        }
        let mut machine = Self {
            limits,
            versions,
            current,
            assigned,
            nodes,
            books,
            downloads: BTreeMap::new(),
            next_flight: 1,
            acting: Acting::default(),
            tickets: 0,
            replan: None,
            waiting_since: now,
            unsettled: usize::MAX,
            is_overdue: false,
            reported: InstanceTable::default(),
            reported_overdue: false,
            looked: now,
            changed: false,
            turn: Turn::default(),
        };
        match machine.at() {
            UpdateStep::Installing | UpdateStep::Launching => {
                machine.go_to(UpdateStep::Pending, now);
            }
            UpdateStep::Finalizing => machine.retain(),
            UpdateStep::None
            | UpdateStep::Downloading
            | UpdateStep::Pending
            | UpdateStep::Activating => {}
        }
        let turn = machine.turn(now);
        Ok((machine, turn))
    }
}
