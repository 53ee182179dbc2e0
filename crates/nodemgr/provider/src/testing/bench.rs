//! What the cases work with.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use muster_lifecycle::{State, Verb};

use super::{CaseResult, Rig};
use crate::error::{FailureClass, ProviderError};
use crate::mark::{Mark, Owned};
use crate::name::{ClientToken, MachineId, ManagerId};
use crate::provider::{Described, Order, Provider, Purchase};

/// How long between two looks at a machine that is on its way.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// One manager's work with the provider.
#[derive(Debug)]
pub struct Bench<'a> {
    pub(super) rig: &'a dyn Rig,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) manager: ManagerId,
    skipped: OnceLock<String>,
}

/// A failed call, with all its causes.
pub(super) fn text(error: &ProviderError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    text
}

/// Fails the case unless a call failed in this way.
pub(super) fn expect_class<T: std::fmt::Debug>(
    result: Result<T, ProviderError>,
    class: FailureClass,
) -> CaseResult {
    match result {
        Err(error) if error.class == class => Ok(()),
        Err(error) => Err(format!("expected {class:?}: {}", text(&error))),
        Ok(value) => Err(format!("expected {class:?}, got {value:?}")),
    }
}

/// Fails the case unless something holds.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> CaseResult {
    if holds { Ok(()) } else { Err(what()) }
}

impl<'a> Bench<'a> {
    pub(super) fn new(rig: &'a dyn Rig) -> Self {
        Self {
            rig,
            provider: rig.provider(),
            manager: ManagerId::random(),
            skipped: OnceLock::new(),
        }
    }

    /// Says that the case found nothing to look at.
    pub(super) fn skip(&self, why: &str) {
        self.skipped.get_or_init(|| why.to_owned());
    }

    pub(super) fn skipped(&self) -> Option<String> {
        self.skipped.get().cloned()
    }

    pub(super) fn order(&self) -> Order {
        Order {
            spec: self.rig.spec(),
            mark: Mark {
                manager: self.manager.clone(),
                machine: MachineId::random(),
                token: ClientToken::random(),
            },
            purchase: Purchase::OnDemand,
            ssh: self.rig.ssh(),
        }
    }

    pub(super) async fn provision(&self, order: &Order) -> Result<Described, String> {
        let made = self.provider.provision(order).await;
        made.map_err(|error| text(&error))
    }

    /// A machine that runs.
    pub(super) async fn running(&self) -> Result<Owned, String> {
        let order = self.order();
        let made = self.provision(&order).await?;
        let owned = Owned {
            resource: made.resource,
            mark: order.mark,
        };
        self.wait(&owned, "running", |state| state == Some(State::Running))
            .await?;
        Ok(owned)
    }

    pub(super) async fn state(&self, machine: &Owned) -> Result<Option<State>, String> {
        let described = self.provider.describe(machine).await;
        let described = described.map_err(|error| text(&error))?;
        Ok(described.map(|described| described.state))
    }

    /// Looks until a machine is as wanted.
    pub(super) async fn wait(
        &self,
        machine: &Owned,
        what: &str,
        is: impl Fn(Option<State>) -> bool,
    ) -> CaseResult {
        let deadline = Instant::now() + self.rig.patience();
        loop {
            let state = self.state(machine).await?;
            if is(state) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("{} is {state:?}, not {what}", machine.resource));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(super) async fn act(&self, machine: &Owned, verb: Verb) -> Result<State, String> {
        let done = self.provider.act(machine, verb).await;
        done.map_err(|error| text(&error))
    }

    pub(super) async fn destroy(&self, machine: &Owned) -> CaseResult {
        let done = self.provider.destroy(machine).await;
        done.map_err(|error| text(&error))?;
        self.wait(machine, "gone", |state| {
            state.is_none() || state == Some(State::Terminated)
        })
        .await
    }

    /// Where there is one machine only, it outlives everybody.
    pub(super) async fn destroy_unless_shared(&self, machine: &Owned) -> CaseResult {
        match self.provider.profile().one_machine {
            true => Ok(()),
            false => self.destroy(machine).await,
        }
    }

    pub(super) async fn list(&self) -> Result<Vec<Described>, String> {
        let listed = self.provider.list(&self.manager).await;
        listed.map_err(|error| text(&error))
    }

    /// Destroys what is left of this manager.
    pub(super) async fn clean_up(&self) -> CaseResult {
        for described in self.list().await? {
            let owned = Owned {
                resource: described.resource,
                mark: described.mark,
            };
            self.destroy(&owned).await?;
        }
        Ok(())
    }
}
