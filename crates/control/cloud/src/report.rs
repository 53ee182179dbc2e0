//! What of the Unit's status is said when. Pure: the time comes in.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::link::Published;
use crate::message::status::{InstancesStatus, UnitStatus};

/// After a connection all of the status, then what changed; never more than one message at a time.
#[derive(Debug)]
pub(crate) struct Reporter {
    period: Duration,
    /// What the cloud knows.
    known: Option<Arc<UnitStatus>>,
    /// What is on its way.
    under_way: Option<Arc<UnitStatus>>,
    /// How often all of it had been asked for when it was last said.
    full: u64,
    /// Changes are not said before.
    not_before: Option<Instant>,
}

impl Reporter {
    pub(crate) fn new(period: Duration) -> Self {
        Self {
            period,
            known: None,
            under_way: None,
            full: 0,
            not_before: None,
        }
    }

    /// What the cloud knows is not known: it may be another one, or have lost what was on its way.
    pub(crate) fn connected(&mut self) {
        self.known = None;
        self.under_way = None;
        self.not_before = None;
    }

    /// What to say now. It is then under way.
    pub(crate) fn next(&mut self, newest: &Published, now: Instant) -> Option<UnitStatus> {
        let status = newest.status.as_ref()?;
        if self.under_way.is_some() {
            return None;
        }
        let all = || UnitStatus {
            is_delta_info: false,
            ..UnitStatus::clone(status)
        };
        let said = match &self.known {
            None => all(),
            Some(_) if newest.full != self.full => all(),
            Some(_) if self.not_before.is_some_and(|it| it > now) => return None,
            Some(known) => match difference(known, status) {
                Difference::None => return None,
                Difference::Changes(changes) => changes,
                Difference::Full => all(),
            },
        };
        self.full = newest.full;
        self.under_way = Some(Arc::clone(status));
        self.not_before = Some(now + self.period);
        Some(said)
    }

    /// The cloud has what was under way.
    pub(crate) fn acknowledged(&mut self) {
        if let Some(status) = self.under_way.take() {
            self.known = Some(status);
        }
    }

    /// When there may be something to say.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.not_before.filter(|_| self.under_way.is_none())
    }
}

#[derive(Debug, PartialEq)]
enum Difference {
    None,
    /// New and changed entries.
    Changes(UnitStatus),
    /// Something is gone, which changes cannot say.
    Full,
}

fn difference(known: &UnitStatus, status: &UnitStatus) -> Difference {
    fn changed<T: Clone + PartialEq>(
        gone: &mut bool,
        known: &Option<Vec<T>>,
        now: &Option<Vec<T>>,
        same: impl Fn(&T, &T) -> bool,
        missing: impl Fn(&T, &T) -> bool,
    ) -> Option<Vec<T>> {
        let known = known.as_deref().unwrap_or_default();
        let now = now.as_deref().unwrap_or_default();
        *gone |= known.iter().any(|old| {
            let new = now.iter().find(|new| same(old, new));
            new.is_none_or(|new| missing(old, new))
        });
        let changed: Vec<T> = now
            .iter()
            .filter(|new| !known.iter().any(|old| old == *new))
            .cloned()
            .collect();
        (!changed.is_empty()).then_some(changed)
    }
    fn whole<T>(_: &T, _: &T) -> bool {
        false
    }
    fn instance_missing(old: &InstancesStatus, new: &InstancesStatus) -> bool {
        let has = |index| new.instances.iter().any(|it| it.instance == index);
        old.instances.iter().any(|it| !has(it.instance))
    }
    let mut gone = false;
    let changes = UnitStatus {
        is_delta_info: true,
        unit_config: changed(
            &mut gone,
            &known.unit_config,
            &status.unit_config,
            |a, b| a.version == b.version,
            whole,
        ),
        nodes: changed(
            &mut gone,
            &known.nodes,
            &status.nodes,
            |a, b| a.identity == b.identity,
            whole,
        ),
        items: changed(
            &mut gone,
            &known.items,
            &status.items,
            |a, b| a.item == b.item && a.version == b.version,
            whole,
        ),
        instances: changed(
            &mut gone,
            &known.instances,
            &status.instances,
            |a, b| a.item == b.item && a.subject == b.subject && a.version == b.version,
            instance_missing,
        ),
        subjects: status
            .subjects
            .clone()
            .filter(|it| known.subjects.as_ref() != Some(it)),
    };
    let nothing = UnitStatus {
        is_delta_info: true,
        ..UnitStatus::default()
    };
    match gone {
        true => Difference::Full,
        false if changes == nothing => Difference::None,
        false => Difference::Changes(changes),
    }
}

#[cfg(test)]
mod tests;
