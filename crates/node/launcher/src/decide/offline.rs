//! How long the node has been on its own, for items that may run so for a while only.
//!
//! An item may run for its `offlineTTL` without the cloud, as its controller tells. Many Units have no cloud and never will: as
//! long as no controller has told this node of one, the controller itself is who must be there.

use std::time::Duration;

use super::{Change, Now};

/// How often time on its own is written down.
const STEP: Duration = Duration::from_secs(60);

/// Whom the node reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// No controller.
    Nobody,
    /// A controller, which does not reach its cloud.
    Controller,
    /// A controller, and the cloud through it.
    Cloud,
}

/// Counts time on its own. Only while the node is powered: the clock of a device that was switched off cannot be trusted.
#[derive(Debug)]
pub(super) struct Offline {
    reach: Reach,
    /// A controller of this node has once had a cloud.
    knows_cloud: bool,
    /// How long until the last writing down, and since when after it; nothing while it is not on its own.
    alone: Option<(Duration, Duration)>,
}

impl Offline {
    /// After having been on its own for `before`.
    pub(super) fn new(before: Duration, knows_cloud: bool, now: Now) -> Self {
        Self {
            reach: Reach::Nobody,
            knows_cloud,
            alone: Some((before, now.steady)),
        }
    }

    /// Whether somebody is there who was not.
    pub(super) fn rises_to(&self, reach: Reach) -> bool {
        reach > self.reach
    }

    /// From now on these are reached; what to write down.
    pub(super) fn reaches(&mut self, reach: Reach, now: Now) -> Vec<Change> {
        let mut changes = Vec::new();
        self.reach = reach;
        if reach == Reach::Cloud && !self.knows_cloud {
            self.knows_cloud = true;
            changes.push(Change::KnowsCloud);
        }
        let is_alone = match reach {
            Reach::Nobody => true,
            Reach::Controller => self.knows_cloud,
            Reach::Cloud => false,
        };
        match (is_alone, self.alone) {
            (false, Some(_)) => {
                self.alone = None;
                changes.push(Change::Offline(Duration::ZERO));
            }
            (true, None) => self.alone = Some((Duration::ZERO, now.steady)),
            _ => {}
        }
        changes
    }

    /// How long it has been on its own; `None` while it is not.
    pub(super) fn lasts(&self, now: Now) -> Option<Duration> {
        let (before, since) = self.alone?;
        Some(before + now.steady.saturating_sub(since))
    }

    /// Writes it down now and then, if it `counts` for anybody.
    pub(super) fn count(&mut self, counts: bool, now: Now) -> Option<Change> {
        let (_, since) = self.alone.filter(|_| counts)?;
        if now.steady.saturating_sub(since) < STEP {
            return None;
        }
        let total = self.lasts(now)?;
        self.alone = Some((total, now.steady));
        Some(Change::Offline(total))
    }

    /// When the next of these times is over, or it has to be written down.
    pub(super) fn deadline(
        &self,
        times: impl Iterator<Item = Duration>,
        now: Now,
    ) -> Option<Duration> {
        let (before, since) = self.alone?;
        let mut times = times.peekable();
        times.peek()?;
        let over = times.map(|time| since + time.saturating_sub(before));
        over.filter(|due| *due > now.steady)
            .chain([since + STEP])
            .min()
    }
}
