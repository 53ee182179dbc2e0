//! Machines that cannot be seen, and those that are seen again.
//!
//! What a provider does not know may be gone, or may be elsewhere: the engine's disk is not mounted yet, or the manager was started
//! with the credentials of another account. So each machine remembers who has it ([`Home`]); while somebody else answers, nothing is
//! concluded. And where nobody can tell, a machine that was taken for gone though nobody had asked it to end is taken back when
//! it is shown again.

use std::collections::BTreeSet;

use muster_lifecycle::Moment;
use muster_provider::{Described, Home, MachineId, ProviderId};

use super::{Book, CallFailure};
use crate::activity::Contact;
use crate::event::Happened;
use crate::record::{Made, Phase};

/// What the owner of a machine reads while another engine, account or host answers than the one that has it.
const ELSEWHERE: &str = "it cannot be seen: ";

/// A machine was seen: it is not elsewhere, whatever was said before.
pub(super) fn is_seen(made: &mut Made) {
    let said = made.trouble.as_deref();
    if said.is_some_and(|said| said.starts_with(ELSEWHERE)) {
        made.trouble = None;
    }
}

impl Book {
    /// Providers that have a machine of which nobody knows yet who has it.
    pub(super) fn without_home(&self) -> BTreeSet<ProviderId> {
        let records = self.entries.values().map(|entry| &entry.record);
        let homeless = records.filter(|it| it.made().is_some_and(|made| made.home.is_none()));
        homeless.map(|record| record.order.provider).collect()
    }

    /// Who answers has these machines.
    pub(super) fn is_at_home(
        &mut self,
        provider: ProviderId,
        home: &Home,
        shown: &BTreeSet<MachineId>,
    ) {
        for id in shown {
            let Some(record) = self.record(id) else {
                continue;
            };
            let made = record.made().filter(|_| record.order.provider == provider);
            if made.is_some_and(|made| made.home.as_ref() != Some(home)) {
                self.change(id, |record| {
                    if let Phase::Made(made) = &mut record.phase {
                        made.home = Some(home.clone());
                    }
                });
            }
        }
    }

    /// Its owner reads why nothing is known about it.
    pub(super) fn say_whether_it_is_elsewhere(
        &mut self,
        id: &MachineId,
        failure: &CallFailure,
        now: Moment,
    ) {
        let made = self.record(id).and_then(|record| record.made());
        let says_something = made.is_none_or(|made| made.trouble.is_some());
        if !failure.elsewhere || says_something {
            return;
        }
        let why = format!("{ELSEWHERE}{}", failure.text);
        self.change(id, |record| {
            if let Phase::Made(made) = &mut record.phase {
                made.trouble = Some(why);
            }
        });
        let CallFailure {
            operation,
            class,
            text,
            ..
        } = failure.clone();
        let again = None;
        self.tell(
            id,
            Happened::Failed {
                operation,
                class,
                text,
                again,
            },
            now,
        );
    }

    /// A machine that was taken for gone is there.
    pub(super) fn take_back(&mut self, id: &MachineId, described: Described, now: Moment) {
        let Some(record) = self.record(id) else {
            return;
        };
        let Phase::Gone {
            lost: Some(lost), ..
        } = &record.phase
        else {
            return;
        };
        let made = Made {
            at: lost.at,
            home: lost.home.clone(),
            ..Made::new(described, now)
        };
        let resource = made.resource.clone();
        self.change(id, |record| record.phase = Phase::Made(made));
        if let Some(entry) = self.entries.get_mut(id) {
            entry.failures = 0;
            // Whether it had work meanwhile nobody saw.
            entry.load.touch(now);
        }
        self.set_contact(id, Contact::Untried);
        self.tell(id, Happened::Back { resource }, now);
        self.settle_machine(id, now);
    }
}
