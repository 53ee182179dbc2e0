//! When which machine has to be looked at again.

use std::collections::{BTreeMap, BTreeSet};

use muster_lifecycle::Moment;
use muster_provider::MachineId;

/// At most one moment for each machine.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    by_time: BTreeSet<(Moment, MachineId)>,
    by_machine: BTreeMap<MachineId, Moment>,
}

impl Agenda {
    /// Replaces the machine's moment.
    pub(crate) fn set(&mut self, machine: &MachineId, at: Option<Moment>) {
        if let Some(old) = self.by_machine.remove(machine) {
            self.by_time.remove(&(old, machine.clone()));
        }
        if let Some(at) = at {
            self.by_machine.insert(machine.clone(), at);
            self.by_time.insert((at, machine.clone()));
        }
    }

    pub(crate) fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|&(at, _)| at)
    }

    /// Takes out those whose moment has come.
    pub(crate) fn take_due(&mut self, now: Moment) -> Vec<MachineId> {
        let mut due = Vec::new();
        while let Some((at, machine)) = self.by_time.pop_first() {
            if at > now {
                self.by_time.insert((at, machine));
                break;
            }
            self.by_machine.remove(&machine);
            due.push(machine);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_due_once_at_its_last_moment() {
        let (a, b) = (MachineId::new("a").unwrap(), MachineId::new("b").unwrap());
        let at = Moment::from_millis;
        let mut agenda = Agenda::default();
        agenda.set(&a, Some(at(5)));
        agenda.set(&a, Some(at(20)));
        agenda.set(&b, Some(at(10)));
        assert_eq!(agenda.next(), Some(at(10)));
        assert_eq!(agenda.take_due(at(10)), std::slice::from_ref(&b));
        agenda.set(&b, Some(at(30)));
        agenda.set(&b, None);
        assert_eq!(agenda.take_due(at(99)), [a]);
        assert_eq!(agenda.next(), None);
    }
}
