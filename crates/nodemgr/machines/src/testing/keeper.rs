//! The manager inside of the program that is killed.

use std::path::Path;
use std::sync::Arc;

use muster_lifecycle::{State, Verb};
use muster_provider::{MachineId, ManagerId, Provider, SystemClock};
use muster_seed::ManagerKeys;
use muster_store::{OnDamage, Store, StoreConfig};
use rand::RngExt as _;
use tokio::task::JoinHandle;

use super::{KeeperError, database, say};
use crate::{MachineOrder, Machines, Parts, Phase, SCHEMA, Settings};

/// A registry with one provider, in a folder.
#[derive(Debug)]
pub struct Keeper {
    /// The registry.
    pub machines: Machines,
    task: JoinHandle<()>,
    store: Store,
}

impl Keeper {
    /// Starts it, and says so.
    ///
    /// # Errors
    /// When the database or the registry does not start.
    pub async fn start(
        folder: &Path,
        provider: Arc<dyn Provider>,
        keys: Option<Arc<ManagerKeys>>,
        settings: Settings,
    ) -> Result<Self, KeeperError> {
        let config = StoreConfig::new(database(folder), "keeper 1", OnDamage::Refuse);
        let store = Store::open(&config.schema(&SCHEMA))?.store;
        let parts = Parts {
            store: store.clone(),
            manager: ManagerId::new("keeper")?,
            providers: vec![provider],
            clock: Arc::new(SystemClock),
            keys,
        };
        let (machines, task) = Machines::start(parts, settings).await?;
        let task = tokio::spawn(task);
        say("started")?;
        Ok(Self {
            machines,
            task,
            store,
        })
    }

    /// Does one step after the other: `order KEY` (waits until it runs), `stop KEY`, `start KEY`, `destroy KEY` (each waits for
    /// its end), `cancel KEY` (orders and destroys at once), `settle` (waits until nothing is on its way), `churn SEED` (see
    /// [`churn`](Self::churn)). Each is said when it is done.
    ///
    /// # Errors
    /// When a step fails, or there is no such step.
    pub async fn carry_out(
        &self,
        steps: &[String],
        order: impl Fn(&str) -> MachineOrder,
    ) -> Result<(), KeeperError> {
        let mut steps = steps.iter();
        while let Some(step) = steps.next() {
            if step == "settle" {
                self.settle().await?;
                say("settled")?;
                continue;
            }
            let key = steps.next().ok_or("a step without a key")?;
            match step.as_str() {
                "churn" => self.churn(|key, _| order(key)).await?,
                // Ordering again with its key finds the machine.
                step => {
                    let id = self.machines.order(order(key)).await?;
                    self.step(step, &id).await?;
                }
            }
            say(&format!("{step} {key}"))?;
        }
        Ok(())
    }

    async fn step(&self, step: &str, id: &MachineId) -> Result<(), KeeperError> {
        match step {
            "order" => self.wait(id, |state| state != State::Pending).await,
            "stop" => {
                self.machines.ask(id, Verb::Stop).await?;
                let stopped = |state| matches!(state, State::Stopped(_));
                self.wait(id, stopped).await
            }
            "start" => {
                self.machines.ask(id, Verb::Start).await?;
                self.wait(id, |state| state == State::Running).await
            }
            "destroy" | "cancel" => {
                self.machines.destroy(id).await?;
                self.wait(id, |state| state == State::Terminated).await
            }
            other => Err(format!("no step {other}").into()),
        }
    }

    async fn wait(
        &self,
        id: &MachineId,
        wanted: impl Fn(State) -> bool,
    ) -> Result<(), KeeperError> {
        self.machines.wait_until(id, wanted).await?;
        Ok(())
    }

    /// Waits until nothing is on its way.
    ///
    /// # Errors
    /// When the registry has ended.
    pub async fn settle(&self) -> Result<(), KeeperError> {
        let mut snapshot = self.machines.watch();
        let settled = snapshot.wait_for(|all| {
            all.values().all(|machine| match &machine.record().phase {
                Phase::Ordered | Phase::Cancelled { .. } => false,
                Phase::Made(made) => {
                    let between = matches!(
                        made.life.state(),
                        State::Pending | State::Stopping(_) | State::ShuttingDown
                    );
                    made.life.task().is_none() && !between
                }
                Phase::Gone { .. } => true,
            })
        });
        settled.await?;
        Ok(())
    }

    /// Orders and destroys until somebody ends it, and says `ordered KEY` and `destroyed KEY`. An order may differ by its number.
    ///
    /// # Errors
    /// When the registry fails.
    pub async fn churn(
        &self,
        order: impl Fn(&str, u64) -> MachineOrder,
    ) -> Result<(), KeeperError> {
        for number in 0_u64.. {
            let key = format!("churn-{}-{number}", std::process::id());
            let id = self.machines.order(order(&key, number)).await?;
            say(&format!("ordered {key}"))?;
            if rand::rng().random_bool(0.5) {
                self.wait(&id, |state| state == State::Running).await?;
            }
            if rand::rng().random_bool(0.7) {
                self.machines.destroy(&id).await?;
                self.wait(&id, |state| state == State::Terminated).await?;
                say(&format!("destroyed {key}"))?;
            }
        }
        Ok(())
    }

    /// Ends it in order.
    ///
    /// # Errors
    /// When the registry or its database does not end well.
    pub async fn close(self) -> Result<(), KeeperError> {
        drop(self.machines);
        self.task.await?;
        self.store.close().await?;
        Ok(say("closed")?)
    }
}
