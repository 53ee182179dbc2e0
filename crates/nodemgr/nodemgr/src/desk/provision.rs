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

/// A wish with what is said about the machine.
#[derive(Debug)]
pub(crate) struct Ordered {
    pub(crate) wish: Wish,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) timers: Timers,
    pub(crate) key: Option<String>,
    pub(crate) wait: bool,
}

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProvisionFailed {
    #[error(transparent)]
    Choice(ChoiceFailed),
    #[error("nothing fits: {}", .0.join("; "))]
    NothingFits(Vec<String>),
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
            Self::Choice(_) | Self::NothingFits(_) | Self::Pool(_) => false,
        }
    }
}

impl Desk {
    /// Makes a machine, or takes one that is free. With a key, the machine that was made first.
    pub(crate) async fn provision(&self, order: &Ordered) -> Result<MachineId, ProvisionFailed> {
        if let Some(known) = order.key.as_deref().and_then(|key| self.ordered_with(key)) {
            return self.known(known, order.wait).await;
        }
        let choice = self.choose(&order.wish).await;
        let choice = choice.map_err(ProvisionFailed::Choice)?;
        let mut failed = None;
        for (number, take) in choice.takes(&order.labels, order.timers).enumerate() {
            let made = match take {
                Take::Existing(id) => self.take(&id, order.wait).await.map(|()| id),
                Take::New(mut new) => {
                    new.key = order.key.as_deref().map(|key| numbered(key, number));
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

    async fn known(&self, record: Arc<Record>, wait: bool) -> Result<MachineId, ProvisionFailed> {
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
            Some(State::Stopped(Halt::Hibernated)) => Some(Verb::Resume),
            Some(State::Stopped(Halt::Off)) => Some(Verb::Start),
            _ => None,
        };
        if let Some(verb) = verb {
            machines.ask(id, verb).await.map_err(failed)?;
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
        _ => format!("{key}#{}", number + 1),
    }
}

fn is_number(rest: &str) -> bool {
    let digits = rest.strip_prefix('#');
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
