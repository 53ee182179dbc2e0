//! Which of the waiting jobs may begin: several instances at a time, one job per instance, and alone what touches all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use uuid::Uuid;

/// What a job works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// One instance.
    Instance(Uuid),
    /// Networks, or many instances.
    Everything,
}

/// A job's number.
pub(crate) type Ticket = u64;

/// Jobs in the order in which they were asked for. Pure.
#[derive(Debug)]
pub(crate) struct Gate {
    at_a_time: usize,
    waiting: VecDeque<(Ticket, Scope)>,
    running: BTreeMap<Ticket, Scope>,
}

impl Gate {
    pub(crate) fn new(at_a_time: usize) -> Self {
        Self {
            at_a_time,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
        }
    }

    pub(crate) fn enter(&mut self, ticket: Ticket, scope: Scope) {
        self.waiting.push_back((ticket, scope));
    }

    pub(crate) fn leave(&mut self, ticket: Ticket) {
        self.running.remove(&ticket);
    }

    pub(crate) fn is_full(&self, limit: usize) -> bool {
        self.waiting.len() >= limit
    }

    /// The next job that may begin, if any may. Nobody overtakes a job for everything, nor one for the same instance.
    pub(crate) fn next(&mut self) -> Option<Ticket> {
        let mut ahead = BTreeSet::new();
        let mut found = None;
        for (position, (_, scope)) in self.waiting.iter().enumerate() {
            match scope {
                Scope::Everything => {
                    found = (position == 0 && self.running.is_empty()).then_some(position);
                    break;
                }
                Scope::Instance(_) => {
                    let busy = self
                        .running
                        .values()
                        .any(|it| it == scope || *it == Scope::Everything);
                    if !busy && !ahead.contains(scope) && self.running.len() < self.at_a_time {
                        found = Some(position);
                        break;
                    }
                    ahead.insert(*scope);
                }
            }
        }
        let (ticket, scope) = self.waiting.remove(found?)?;
        self.running.insert(ticket, scope);
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn instance(number: u128) -> Scope {
        Scope::Instance(Uuid::from_u128(number))
    }

    #[test]
    fn one_job_per_instance_and_alone_what_touches_all() {
        let mut gate = Gate::new(2);
        for (ticket, scope) in (1..).zip([
            instance(1),
            instance(1),
            instance(2),
            Scope::Everything,
            instance(3),
        ]) {
            gate.enter(ticket, scope);
        }
        assert_eq!(
            (gate.next(), gate.next(), gate.next()),
            (Some(1), Some(3), None)
        );
        gate.leave(1);
        assert_eq!((gate.next(), gate.next()), (Some(2), None));
        gate.leave(2);
        gate.leave(3);
        assert_eq!((gate.next(), gate.next()), (Some(4), None));
        gate.leave(4);
        assert_eq!(gate.next(), Some(5));
    }

    proptest! {
        /// Whatever comes: every job begins once, jobs of one instance in their order, and none beside one for everything.
        #[test]
        fn every_job_gets_its_turn(scopes in vec(0_u8..5, 0..40), ends in vec(any::<prop::sample::Index>(), 0..200)) {
            let scope = |number: u8| if number == 0 { Scope::Everything } else { instance(u128::from(number)) };
            let mut gate = Gate::new(3);
            for (ticket, number) in (0..).zip(&scopes) {
                gate.enter(ticket, scope(*number));
            }
            let (mut running, mut begun): (Vec<Ticket>, Vec<Ticket>) = Default::default();
            let mut ends = ends.into_iter();
            loop {
                while let Some(ticket) = gate.next() {
                    running.push(ticket);
                    begun.push(ticket);
                    let of = |ticket: &Ticket| scope(scopes[usize::try_from(*ticket).unwrap()]);
                    let all = running.iter().map(of).collect::<Vec<_>>();
                    prop_assert!(all.len() == 1 || !all.contains(&Scope::Everything));
                    prop_assert!(all.len() <= 3);
                    prop_assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
                }
                if running.is_empty() {
                    break;
                }
                let which = ends.next().map_or(0, |it| it.index(running.len()));
                gate.leave(running.swap_remove(which));
            }
            prop_assert_eq!(begun.len(), scopes.len());
            for number in 0..5 {
                let of_one: Vec<_> = begun.iter().filter(|it| scopes[usize::try_from(**it).unwrap()] == number).collect();
                prop_assert!(of_one.is_sorted());
            }
        }
    }
}
