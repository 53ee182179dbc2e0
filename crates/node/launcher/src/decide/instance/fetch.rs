//! How an instance gets its image.

use std::sync::Arc;

use muster_api::domain::AosError;

use super::{Fetch, Have, Instance};
use crate::decide::{Facts, Now};
use crate::limits::Limits;
use crate::target::Target;

impl Instance {
    fn fetch_target(&self) -> Option<&Arc<Target>> {
        match &self.fetch {
            Fetch::Nothing | Fetch::Waiting { .. } => None,
            Fetch::Working { target, .. }
            | Fetch::Done { target, .. }
            | Fetch::Failed { target, .. } => Some(target),
        }
    }

    pub(in crate::decide) fn is_fetching(&self) -> bool {
        matches!(self.fetch, Fetch::Working { .. })
    }

    /// Forgets a fetch that nobody wants any more. Whether one was under way.
    pub(in crate::decide) fn drop_unwanted_fetch(&mut self) -> bool {
        // While it is held back its facts say for how long.
        if self.held.is_some() || self.fetch_target() == self.want.as_ref() {
            return false;
        }
        // Whatever it waits for, it goes on waiting.
        if self.want.is_some() && matches!(self.fetch, Fetch::Waiting { .. }) {
            return false;
        }
        let working = self.is_fetching();
        self.fetch = Fetch::Nothing;
        working
    }

    pub(in crate::decide) fn needs_fetch(&self, now: Now) -> bool {
        self.want.is_some()
            && match &self.fetch {
                Fetch::Nothing | Fetch::Waiting { .. } => true,
                Fetch::Failed { retry, .. } => *retry <= now.awake,
                Fetch::Working { .. } | Fetch::Done { .. } => false,
            }
    }

    /// There is a new chance: a fetch that failed need not wait for its turn.
    pub(in crate::decide) fn fetch_again(&mut self, now: Now) {
        if let Fetch::Failed { retry, .. } = &mut self.fetch {
            *retry = now.awake;
        }
    }

    pub(in crate::decide) fn wait_for_fetch(&mut self, now: Now) {
        if self.fetch == Fetch::Nothing {
            self.fetch = Fetch::Waiting { since: now.awake };
        }
    }

    pub(in crate::decide) fn begin_fetch(&mut self, now: Now) -> Option<Arc<Target>> {
        let target = self.want.clone()?;
        let since = match self.fetch {
            Fetch::Waiting { since } => since,
            _ => now.awake,
        };
        self.fetch = Fetch::Working {
            target: Arc::clone(&target),
            since,
        };
        Some(target)
    }

    pub(in crate::decide) fn fetched(
        &mut self,
        target: &Arc<Target>,
        result: Result<Facts, AosError>,
        limits: &Limits,
        now: Now,
    ) {
        let expected =
            matches!(&self.fetch, Fetch::Working { target: working, .. } if working == target);
        if !expected {
            return;
        }
        let target = Arc::clone(target);
        match result {
            Ok(facts) => {
                self.failed_fetches.forgive();
                if let Have::Up(up) = &mut self.have
                    && up.target == target
                {
                    up.facts = facts.clone();
                }
                self.fetch = Fetch::Done { target, facts };
            }
            Err(fault) => {
                let retry = now.awake + self.failed_fetches.give_up(limits);
                self.fetch = Fetch::Failed {
                    target,
                    fault,
                    retry,
                };
            }
        }
    }

    /// Whether what it wants is on disk.
    pub(in crate::decide) fn is_fetched(&self) -> bool {
        matches!(&self.fetch, Fetch::Done { target, .. } if Some(target) == self.want.as_ref())
    }
}
