//! What providers show of all their machines.

use std::collections::BTreeSet;

use muster_lifecycle::{Moment, Reason, State};
use muster_provider::{Described, Home, MachineId, Owned, ProviderId};

use super::{Book, Call, CallFailure, Look, strays};
use crate::record::Phase;

/// What the book thinks of a machine that bears our mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is the machine of its record.
    Known,
    /// Its record is about to know it, or to look for it.
    Expected,
    /// It was not to be seen for a while, and nobody has asked it to end.
    Back,
    /// Nobody needs it.
    Stray(Reason),
}

/// What a provider shows.
#[derive(Debug)]
pub(crate) struct Listed {
    /// Who answers, if that was asked and told.
    pub(crate) home: Option<Home>,
    pub(crate) machines: Vec<Described>,
}

impl Book {
    /// Looks at providers whose time has come.
    pub(super) fn look_if_due(&mut self, now: Moment) {
        let homeless = self.without_home();
        let look = self.look();
        for (&provider, source) in &mut self.sources {
            if !source.looking && source.next_look <= now {
                source.looking = true;
                let homeless = source.tells_home && homeless.contains(&provider);
                let home = source.next_home <= now || homeless;
                let look = Look { home, ..look };
                self.turn.calls.push((provider, Call::List(look)));
            }
        }
    }

    /// What a look that begins now would show is as new as this.
    pub(crate) const fn look(&self) -> Look {
        Look {
            seen: self.change,
            home: false,
        }
    }

    /// Whether a machine is the one of its record.
    pub(crate) fn standing(&self, provider: ProviderId, described: &Described) -> Standing {
        let Some(entry) = self.entries.get(&described.mark.machine) else {
            return Standing::Stray(Reason::Orphan);
        };
        let record = &entry.record;
        if record.token != described.mark.token || record.order.provider != provider {
            return Standing::Stray(Reason::Orphan);
        }
        match &record.phase {
            Phase::Ordered | Phase::Cancelled { .. } => Standing::Expected,
            Phase::Made(made) if made.resource == described.resource => Standing::Known,
            Phase::Made(_) => Standing::Stray(Reason::Duplicate),
            Phase::Gone {
                lost: Some(lost), ..
            } if lost.resource == described.resource => Standing::Back,
            // Nobody asked it to end, so it is not for us to end it.
            Phase::Gone {
                reason: Reason::Outside,
                ..
            } => Standing::Stray(Reason::Orphan),
            Phase::Gone { reason, .. } => Standing::Stray(*reason),
        }
    }

    pub(crate) fn listed(
        &mut self,
        provider: ProviderId,
        look: Look,
        result: Result<Listed, CallFailure>,
        now: Moment,
    ) {
        let Some(source) = self.sources.get_mut(&provider) else {
            return;
        };
        source.looking = false;
        let Listed { home, machines } = match result {
            Ok(listed) => {
                source.failures = 0;
                listed
            }
            Err(_) => {
                // A provider that does not answer says nothing about its machines.
                source.failures = source.failures.saturating_add(1);
                source.next_look = now.after(self.settings.wait_after(source.failures));
                return;
            }
        };
        if look.home {
            source.next_home = now.after(self.settings.sweep);
            source.tells_home = home.is_some();
        }
        source.strays.keep(&machines);
        let shown = machines.iter().map(|it| it.mark.machine.clone());
        let shown: BTreeSet<MachineId> = shown.collect();
        for described in machines {
            self.see(provider, look, described, now);
        }
        if let Some(home) = home {
            self.is_at_home(provider, &home, &shown);
        }
        self.describe_missing(provider, look, &shown);
        if let Some(source) = self.sources.get_mut(&provider) {
            source.next_look = match source.on_its_way.is_empty() {
                true => now.after(self.settings.sweep),
                false => now.after(self.settings.poll),
            };
        }
    }

    fn see(&mut self, provider: ProviderId, look: Look, described: Described, now: Moment) {
        if described.mark.manager != self.manager {
            return;
        }
        let id = described.mark.machine.clone();
        let entry = self.entries.get(&id);
        let newer = entry.is_some_and(|it| it.touched > look.seen);
        match self.standing(provider, &described) {
            // What changed meanwhile is newer than what is shown.
            Standing::Known | Standing::Back if newer => {}
            Standing::Known => {
                self.observe(&id, &described, now);
                self.settle_machine(&id, now);
            }
            Standing::Back if !described.state.is_ending() => self.take_back(&id, described, now),
            Standing::Back | Standing::Expected => {}
            // Nothing is known about it, so it is left to whoever collects orphans.
            Standing::Stray(Reason::Orphan) => {}
            Standing::Stray(reason) if !described.state.is_ending() => {
                let owned = Owned {
                    resource: described.resource,
                    mark: described.mark,
                };
                let Some(source) = self.sources.get_mut(&provider) else {
                    return;
                };
                let most = strays::at_once(self.settings.calls);
                if source.strays.begin(&owned.resource, most, now) {
                    let call = Call::DestroyStray(owned, reason);
                    self.turn.calls.push((provider, call));
                }
            }
            Standing::Stray(_) => {}
        }
    }

    /// What is not in the list is asked for by name, before anything is concluded.
    fn describe_missing(&mut self, provider: ProviderId, look: Look, shown: &BTreeSet<MachineId>) {
        for (id, entry) in &mut self.entries {
            let record = &entry.record;
            if record.order.provider != provider
                || entry.describing
                || entry.touched > look.seen
                || shown.contains(id)
                || record.state() == State::Terminated
            {
                continue;
            }
            if let Some(owned) = record.owned(&self.manager) {
                entry.describing = true;
                let home = record.made().and_then(|made| made.home.clone());
                let call = Call::Describe(id.clone(), owned, home);
                self.turn.calls.push((provider, call));
            }
        }
    }
}
