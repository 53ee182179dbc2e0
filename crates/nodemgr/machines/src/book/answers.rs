//! What providers answer about single machines.

use muster_lifecycle::{Ended, Moment, Reason, State, Verb};
use muster_provider::{Described, FailureClass, MachineId, Owned, ProviderId, ResourceId};

use super::{Book, Doing};
use crate::activity::Contact;
use crate::event::Happened;
use crate::record::{Made, Phase};

/// A provider's failure, as the book needs it.
#[derive(Debug, Clone)]
pub(crate) struct CallFailure {
    pub(crate) operation: String,
    pub(crate) class: FailureClass,
    pub(crate) text: String,
    /// It is not that one's machine who answers: it is another engine, account or host than the one that has it.
    pub(crate) elsewhere: bool,
}

impl Book {
    /// The call of a machine has ended; what it was for is looked at again.
    pub(super) fn free(&mut self, id: &MachineId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.doing = Doing::Nothing;
        }
    }

    fn succeed(&mut self, id: &MachineId) {
        self.free(id);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.failures = 0;
        }
    }

    /// Tells of a failure, and waits before the next try if there is one. What gets on is none.
    fn fail(&mut self, id: &MachineId, failure: &CallFailure, again: bool, now: Moment) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        if failure.class == FailureClass::Underway && again {
            entry.doing = Doing::Waiting(now.after(self.settings.retry));
            return;
        }
        entry.failures = entry.failures.saturating_add(1);
        let again = again.then(|| now.after(self.settings.wait_after(entry.failures)));
        entry.doing = again.map_or(Doing::Nothing, Doing::Waiting);
        let CallFailure {
            operation,
            class,
            text,
            ..
        } = failure.clone();
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

    /// Whether what failed is to be asked again. What gets on is, as often as it takes.
    fn is_tried_again(&self, id: &MachineId, class: FailureClass) -> bool {
        match class {
            FailureClass::Underway => true,
            class if !class.is_retryable() => false,
            _ => {
                let entry = self.entries.get(id);
                entry.is_some_and(|entry| entry.failures + 1 < self.settings.attempts)
            }
        }
    }

    pub(crate) fn provisioned(
        &mut self,
        id: &MachineId,
        result: Result<Described, CallFailure>,
        now: Moment,
    ) {
        let Some(phase) = self.record(id).map(|record| record.phase.clone()) else {
            return;
        };
        match (phase, result) {
            (Phase::Ordered, Ok(described)) => {
                self.succeed(id);
                self.made(id, described, now);
            }
            (Phase::Cancelled { reason, .. }, Ok(described)) => {
                self.succeed(id);
                self.found(id, described, reason, now);
            }
            (Phase::Ordered, Err(failure)) if failure.class.is_retryable() => {
                let again = self.is_tried_again(id, failure.class);
                self.fail(id, &failure, again, now);
                if !again {
                    self.cancel(id, Reason::NotMade, Some(failure.text), now);
                }
            }
            (Phase::Ordered, Err(failure)) => {
                // A try before this one may have made it and lost its answer.
                let first = self.entries.get(id).is_some_and(|it| it.failures == 0);
                self.fail(id, &failure, false, now);
                match first {
                    true => self.end(id, Reason::NotMade, Some(failure.text), now),
                    false => self.cancel(id, Reason::NotMade, Some(failure.text), now),
                }
            }
            // Not wanted any more: look whether it was made all the same.
            _ => self.free(id),
        }
        self.settle_machine(id, now);
    }

    fn made(&mut self, id: &MachineId, described: Described, now: Moment) {
        let resource = described.resource.clone();
        let state = described.state;
        if state == State::Terminated {
            let reason = described.reason.unwrap_or(Reason::Outside);
            self.end(id, reason, None, now);
            return;
        }
        let made = Made::new(described, now);
        self.change(id, |record| record.phase = Phase::Made(made));
        self.tell(id, Happened::Made { resource }, now);
    }

    /// Exists, and nobody wants it.
    fn found(&mut self, id: &MachineId, described: Described, reason: Reason, now: Moment) {
        let resource = described.resource.clone();
        if described.state == State::Terminated {
            self.end(id, reason, None, now);
            return;
        }
        let made = Made::new(described, now);
        self.change(id, |record| record.phase = Phase::Made(made));
        self.tell(id, Happened::Found { resource }, now);
        // Settles it as well. One that is shutting down already is only looked at.
        let _ = self.ask(id, Verb::Terminate, reason, now);
    }

    pub(crate) fn searched(
        &mut self,
        id: &MachineId,
        result: Result<Option<Described>, CallFailure>,
        now: Moment,
    ) {
        let Some(record) = self.record(id) else {
            return;
        };
        let Phase::Cancelled {
            since,
            reason,
            failure,
        } = record.phase.clone()
        else {
            return;
        };
        match result {
            Ok(Some(described)) => {
                self.succeed(id);
                self.found(id, described, reason, now);
            }
            // It may have been made a moment ago, and not be in the list yet.
            Ok(None) if since.after(self.settings.settle) > now => {
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.doing = Doing::Waiting(since.after(self.settings.settle));
                }
            }
            Ok(None) => self.end(id, reason, failure, now),
            Err(failure) => self.fail(id, &failure, true, now),
        }
        self.settle_machine(id, now);
    }

    pub(crate) fn acted(
        &mut self,
        id: &MachineId,
        verb: Verb,
        result: Result<State, CallFailure>,
        now: Moment,
    ) {
        let Some(task) = self.task_of(id) else {
            self.free(id);
            self.settle_machine(id, now);
            return;
        };
        if task != verb {
            // Something else was asked in the meantime, and comes next.
            self.free(id);
            self.settle_machine(id, now);
            return;
        }
        match result {
            Ok(state) => {
                self.succeed(id);
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.doing = Doing::Taken;
                }
                self.see_state(id, state, now);
                self.acknowledge(id, verb, now);
            }
            Err(failure) if verb == Verb::Terminate => match failure.class {
                FailureClass::NotFound => self.see_state(id, State::Terminated, now),
                // Whatever it is, it must go: an operator sees why it does not.
                _ => self.fail(id, &failure, true, now),
            },
            Err(failure) if self.is_tried_again(id, failure.class) => {
                self.fail(id, &failure, true, now);
            }
            Err(failure) => {
                self.fail(id, &failure, false, now);
                self.give_up(id, verb, failure.text, now);
                self.never_again(id, verb, failure.class);
                self.look_now(now);
            }
        }
        self.settle_machine(id, now);
    }

    pub(crate) fn task_of(&self, id: &MachineId) -> Option<Verb> {
        let task = self.record(id)?.made()?.life.task()?;
        Some(task.verb)
    }

    /// The state that a call led to, of which nothing else is known.
    pub(super) fn see_state(&mut self, id: &MachineId, state: State, now: Moment) {
        let Some(record) = self.record(id) else {
            return;
        };
        let mark = record.mark(&self.manager);
        let Some(made) = record.made() else {
            return;
        };
        let described = Described {
            resource: made.resource.clone(),
            mark,
            state,
            reason: None,
            spot: made.spot,
            verbs: made.verbs,
            address: made.address,
            access: made.access.clone(),
            details: made.details.clone(),
        };
        self.observe(id, &described, now);
    }

    /// A reboot shows in no state.
    fn acknowledge(&mut self, id: &MachineId, verb: Verb, now: Moment) {
        let Some(made) = self.record(id).and_then(|record| record.made()) else {
            return;
        };
        let mut life = made.life;
        if let Some(Ended::Reached(verb)) = life.acknowledge(verb) {
            self.set_life(id, life);
            self.free(id);
            // It boots, and answers when it has.
            self.set_contact(id, Contact::Untried);
            self.tell(id, Happened::Done { verb }, now);
        }
    }

    /// What was asked will not be done. Why stays on the record, for whoever waited.
    pub(super) fn give_up(&mut self, id: &MachineId, verb: Verb, why: String, now: Moment) {
        self.let_rest(id, now);
        self.change(id, |record| {
            if let Phase::Made(made) = &mut record.phase {
                made.life.give_up(verb);
                made.trouble = Some(why);
            }
        });
        self.tell(id, Happened::NotDone { verb }, now);
    }

    fn set_life(&mut self, id: &MachineId, life: muster_lifecycle::Lifecycle) {
        self.change(id, |record| {
            if let Phase::Made(made) = &mut record.phase {
                made.life = life;
            }
        });
    }

    pub(crate) fn described(
        &mut self,
        id: &MachineId,
        result: Result<Option<Described>, CallFailure>,
        now: Moment,
    ) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.describing = false;
        let Some(made) = entry.record.made() else {
            return;
        };
        let (at, state) = (made.at, made.life.state());
        match result {
            Ok(Some(described)) => self.observe(id, &described, now),
            // New machines are not everywhere at once.
            Ok(None) if at.after(self.settings.settle) > now && !state.is_ending() => {}
            Ok(None) => self.see_state(id, State::Terminated, now),
            // Not to be seen is not to be gone: it is looked at again with the next list.
            Err(failure) => self.say_whether_it_is_elsewhere(id, &failure, now),
        }
        self.settle_machine(id, now);
    }

    /// Something that nobody needed is gone, if it could be done. If not, it is found again.
    pub(crate) fn stray_destroyed(
        &mut self,
        provider: ProviderId,
        stray: &Owned,
        reason: Reason,
        result: Result<State, CallFailure>,
        now: Moment,
    ) {
        let id = stray.mark.machine.clone();
        let resource: ResourceId = stray.resource.clone();
        if let Some(source) = self.sources.get_mut(&provider) {
            let settings = &self.settings;
            let again = |failures| now.after(settings.wait_after(failures));
            source.strays.answered(&resource, result.is_ok(), again);
        }
        if result.is_ok() && self.entries.contains_key(&id) {
            self.tell(&id, Happened::StrayDestroyed { resource, reason }, now);
        }
    }
}
