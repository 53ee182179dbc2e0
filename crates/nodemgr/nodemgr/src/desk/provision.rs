//! Making a machine, or taking one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::timers::Timers;
use muster_lifecycle::{Halt, Reason, State, Verb};
use muster_machines::{AskError, ClaimError, MachineOrder, OrderError, ProvisionError, Record};
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;

use super::{ChoiceFailed, Desk};
use crate::choice::{Choice, Take, Wish};

/// Whoever was given a machine that was free has so long to begin with it.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);

/// What stands between a key and the number of a candidate.
const NUMBERS: char = '#';
/// Why a machine is not taken that was free a moment ago.
const STOPPING: &str = "it is being stopped or hibernated";

/// A wish with what is said about the machine.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) wish: Wish,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) timers: Timers,
    pub(crate) key: Option<Key>,
    pub(crate) wait: bool,
}

/// What makes an order the same as an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// A hash of everything that was asked for with it.
    pub(crate) asked: String,
}

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvisionFailed {
    #[error(transparent)]
    Choice(ChoiceFailed),
    #[error("nothing fits: {}", .0.join("; "))]
    NothingFits(Vec<String>),
    #[error(
        "the key {0:?} contains {NUMBERS:?}, by which the machines that are tried for a key are told apart: use another key"
    )]
    BadKey(String),
    #[error(transparent)]
    Order(OrderError),
    #[error(transparent)]
    Gone(ProvisionError),
    #[error(transparent)]
    Pool(ClaimError),
    #[error("cannot use machine {0}")]
    Existing(MachineId, #[source] AskError),
    #[error("machine {machine} is {state} and does not come to run: {why}")]
    NotUp {
        machine: MachineId,
        state: State,
        why: String,
    },
}

impl ProvisionFailed {
    /// Whether another candidate may have what this one has not.
    fn is_of_candidate(&self) -> bool {
        match self {
            Self::Gone(gone) => is_not_made(gone),
            Self::Order(error) => matches!(error, OrderError::Quota { .. }),
            Self::Existing(_, error) => *error != AskError::Ended,
            Self::NotUp { .. } => true,
            Self::Choice(_) | Self::NothingFits(_) | Self::BadKey(_) | Self::Pool(_) => false,
        }
    }
}

impl Desk {
    /// Makes a machine, or takes one that is free. With a key, the machine that was made first.
    pub(crate) async fn provision(&self, order: &Ordered) -> Result<MachineId, ProvisionFailed> {
        if let Some(key) = &order.key {
            if key.name.contains(NUMBERS) {
                return Err(ProvisionFailed::BadKey(key.name.clone()));
            }
            if let Some(known) = self.ordered_with(&key.name) {
                return self.known(known, key, order.wait).await;
            }
        }
        let choice = self.choose(&order.wish).await;
        let choice = choice.map_err(ProvisionFailed::Choice)?;
        let mut failed = None;
        for (number, take) in choice.takes(&order.labels, order.timers).enumerate() {
            let made = match take {
                Take::Existing(id) => self.take(&id, order.wait).await.map(|()| id),
                Take::New(mut new) => {
                    if let Some(key) = &order.key {
                        new.key = Some(numbered(&key.name, number));
                        new.asked = Some(key.asked.clone());
                    }
                    self.make(*new, order.wait).await
                }
            };
            match made {
                Err(error) if error.is_of_candidate() => {
                    tracing::info!(error = %ErrorChain(&error), "trying the next candidate");
                    failed = Some(error);
                }
                made => return made,
            }
        }
        Err(failed.unwrap_or_else(|| nothing_fits(&choice)))
    }

    /// Of the machines that were ordered with a key, the one that is not gone, or else the last.
    fn ordered_with(&self, key: &str) -> Option<Arc<Record>> {
        let all = self.machines().all();
        let records = all.values().map(|machine| machine.record());
        let ours = records.filter(|record| {
            let own = record.order.key.as_deref();
            own.is_some_and(|own| own == key || own.strip_prefix(key).is_some_and(is_number))
        });
        let best = ours.max_by_key(|record| (!record.state().is_ending(), record.ordered));
        best.map(Arc::clone)
    }

    /// The machine that was ordered with a key before. What is gone, or something else, is no answer.
    async fn known(
        &self,
        record: Arc<Record>,
        key: &Key,
        wait: bool,
    ) -> Result<MachineId, ProvisionFailed> {
        // An order from before that was kept is taken for the same.
        if record
            .order
            .asked
            .as_ref()
            .is_some_and(|it| *it != key.asked)
        {
            return Err(ProvisionFailed::Order(OrderError::KeyUsed {
                key: key.name.clone(),
                machine: record.id.clone(),
            }));
        }
        if record.state().is_ending() {
            return Err(ProvisionFailed::Gone(ProvisionError::Gone {
                machine: record.id.clone(),
                reason: record.end().unwrap_or(Reason::Asked),
                failure: record.failure().map(ToOwned::to_owned),
            }));
        }
        if !wait {
            return Ok(record.id.clone());
        }
        // The same order with the same key is the same machine.
        let made = self.machines().provision(record.order.clone()).await;
        made.map(|record| record.id.clone())
            .map_err(provision_failed)
    }

    async fn make(&self, order: MachineOrder, wait: bool) -> Result<MachineId, ProvisionFailed> {
        if !wait {
            let ordered = self.machines().order(order).await;
            return ordered.map_err(ProvisionFailed::Order);
        }
        let record = self.machines().provision(order).await;
        let record = record.map_err(provision_failed)?;
        // Whoever waited finds it pinned.
        self.pin(&record).await;
        Ok(record.id.clone())
    }

    /// Takes a machine that was free when it was chosen, if it still is, and wakes it. Others may have been tried meanwhile.
    async fn take(&self, id: &MachineId, wait: bool) -> Result<(), ProvisionFailed> {
        let failed = |error| ProvisionFailed::Existing(id.clone(), error);
        let machines = self.machines();
        machines.reserve(id, BEGIN_WITHIN).map_err(failed)?;
        let state = machines.get(id).map(|it| it.record().state());
        let verb = match state {
            Some(State::Stopped(Halt::Hibernated)) => Verb::Resume,
            _ => Verb::Start,
        };
        // One that runs has nothing to do for that. But the registry answers after whatever it had decided before, such as to
        // put the machine away, is to be seen.
        machines.ask(id, verb).await.map_err(failed)?;
        if machines.get(id).is_some_and(|it| it.record().is_leaving()) {
            return Err(failed(AskError::Taken(id.clone(), STOPPING)));
        }
        if wait {
            let reached = machines.wait_until_up(id).await.map_err(failed)?;
            if reached.state() != State::Running {
                let why = reached.failure().map_or_else(
                    || "its provider did not say why".to_owned(),
                    ToOwned::to_owned,
                );
                return Err(ProvisionFailed::NotUp {
                    machine: id.clone(),
                    state: reached.state(),
                    why,
                });
            }
            machines.keep_reserved(id, BEGIN_WITHIN).map_err(failed)?;
        }
        Ok(())
    }
}

/// The key of the how-manieth candidate that is tried. The first has the key itself.
fn numbered(key: &str, number: usize) -> String {
    match number {
        0 => key.to_owned(),
        _ => format!("{key}{NUMBERS}{}", number + 1),
    }
}

fn is_number(rest: &str) -> bool {
    let digits = rest.strip_prefix(NUMBERS);
    digits.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

fn provision_failed(error: ProvisionError) -> ProvisionFailed {
    match error {
        ProvisionError::Order(error) => ProvisionFailed::Order(error),
        gone => ProvisionFailed::Gone(gone),
    }
}

fn is_not_made(error: &ProvisionError) -> bool {
    matches!(error, ProvisionError::Gone { reason, .. } if *reason == Reason::NotMade)
}

pub(crate) fn nothing_fits(choice: &Choice) -> ProvisionFailed {
    let told = choice.explain().into_iter();
    let lines = told.map(|it| format!("{}: {}", it.name, it.why.join(", ")));
    ProvisionFailed::NothingFits(lines.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_followed_by_the_number_of_the_candidate() {
        assert_eq!(numbered("k", 0), "k");
        assert_eq!(numbered("k", 1), "k#2");
        assert!(is_number("#2") && !is_number("#") && !is_number("#x") && !is_number("2"));
    }
}
