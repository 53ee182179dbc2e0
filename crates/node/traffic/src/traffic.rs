//! The task that owns the accounts, and its handle.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use muster_api::domain::InstanceIdent;
use muster_firewall::{Change, Counters, Firewall, FirewallError, InstanceId, Meter};
use muster_store::{Store, StoreError};
use muster_telemetry::{CancellationToken, ErrorChain};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::database::{self, BootId};
use crate::error::{MeterError, OpenTrafficError};
use crate::ledger::{Ledger, Limits, Usage};
use crate::settings::Settings;

muster_fault::points! {
    /// Readings are taken in, and not yet on disk.
    pub BEFORE_SAVE = "traffic.before-save",
    /// Accounts are on disk.
    pub AFTER_SAVE = "traffic.after-save",
    /// An instance's last reading is on disk, its meter still there.
    pub BEFORE_METER_REMOVAL = "traffic.before-meter-removal",
    /// An instance's meter is gone, and nobody was told.
    pub AFTER_METER_REMOVAL = "traffic.after-meter-removal",
    /// An instance's meter counts, and its account is not on disk.
    pub AFTER_METER_PUT = "traffic.after-meter-put",
}

const COMMANDS: usize = 32;
pub(crate) const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// What everybody may see.
#[derive(Debug, Default)]
struct Snapshot {
    system: Usage,
    instances: BTreeMap<InstanceId, Usage>,
}

#[derive(Debug)]
enum Command {
    Add {
        instance: InstanceId,
        address: Ipv4Addr,
        limits: Limits,
        outcome: oneshot::Sender<Result<(), MeterError>>,
    },
    Remove {
        instance: InstanceId,
        outcome: oneshot::Sender<Result<(), MeterError>>,
    },
    Poll {
        done: oneshot::Sender<()>,
    },
}

/// The handle. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Traffic {
    commands: mpsc::Sender<Command>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
}

/// Owns the accounts.
#[derive(Debug)]
pub struct TrafficTask {
    store: Store,
    firewall: Firewall,
    settings: Settings,
    boot: BootId,
    ledger: Ledger,
    commands: mpsc::Receiver<Command>,
    snapshot: watch::Sender<Arc<Snapshot>>,
}

impl Traffic {
    /// Reads the accounts and begins to count for the node. The task must run for anything further to happen. The database
    /// must have been opened with [`SCHEMA`](crate::SCHEMA).
    pub async fn open(
        store: Store,
        firewall: Firewall,
        settings: Settings,
    ) -> Result<(Self, TrafficTask), OpenTrafficError> {
        let boot = std::fs::read_to_string(BOOT_ID).map_err(OpenTrafficError::BootId)?;
        let boot = BootId(boot.trim().to_owned());
        let accounts = database::load(&store, &boot)
            .await
            .map_err(OpenTrafficError::Load)?;
        blocking(&firewall, |firewall| firewall.apply(&[]))
            .await
            .map_err(OpenTrafficError::Firewall)?;
        let (sender, commands) = mpsc::channel(COMMANDS);
        let (publish, snapshot) = watch::channel(Arc::default());
        let mut task = TrafficTask {
            store,
            firewall,
            settings,
            boot,
            ledger: Ledger::new(accounts),
            commands,
            snapshot: publish,
        };
        task.poll().await;
        let handle = Self {
            commands: sender,
            snapshot,
        };
        Ok((handle, task))
    }

    /// Counts an instance's traffic from now on, within these limits. What it used before counts on: an instance that is
    /// started again has not got a new day.
    pub async fn add_instance(
        &self,
        instance: &InstanceIdent,
        address: IpAddr,
        limits: Limits,
    ) -> Result<(), MeterError> {
        let IpAddr::V4(address) = address else {
            return Err(MeterError::NotIpv4 {
                instance: instance.clone(),
                address,
            });
        };
        let (outcome, done) = oneshot::channel();
        let command = Command::Add {
            instance: instance.instance_id().into(),
            address,
            limits,
            outcome,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| MeterError::Ended)?;
        done.await.map_err(|_| MeterError::Ended)?
    }

    /// Takes the last reading and the meter away. The account stays for two months.
    pub async fn remove_instance(&self, instance: &InstanceIdent) -> Result<(), MeterError> {
        let (outcome, done) = oneshot::channel();
        let command = Command::Remove {
            instance: instance.instance_id().into(),
            outcome,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| MeterError::Ended)?;
        done.await.map_err(|_| MeterError::Ended)?
    }

    /// Reads the counters now rather than at the next turn; returns when limits hold accordingly.
    pub async fn poll(&self) -> Result<(), MeterError> {
        let (done, polled) = oneshot::channel();
        self.commands
            .send(Command::Poll { done })
            .await
            .map_err(|_| MeterError::Ended)?;
        polled.await.map_err(|_| MeterError::Ended)
    }

    /// As of the last reading; `None` for an instance that is not counted.
    pub fn instance(&self, instance: &InstanceIdent) -> Option<Usage> {
        let id = InstanceId::from(instance.instance_id());
        self.snapshot.borrow().instances.get(&id).copied()
    }

    /// The node's own traffic and that of its instances, as of the last reading.
    pub fn system(&self) -> Usage {
        self.snapshot.borrow().system
    }
}

impl TrafficTask {
    /// Counts until `stop`, then takes a last reading and writes everything down. Meters stay and count on.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), StoreError> {
        let turns = |period: Duration| {
            let period = period.max(Duration::from_millis(10));
            let mut turns = interval_at(Instant::now() + period, period);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            turns
        };
        let mut polls = turns(self.settings.poll);
        let mut saves = turns(self.settings.save);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(command) = self.commands.recv() => self.obey(command).await,
                _ = polls.tick() => self.poll().await,
                _ = saves.tick() => {
                    if let Err(error) = self.save().await {
                        tracing::warn!(error = %ErrorChain(&error), "traffic accounts cannot be saved; they are tried again");
                    }
                }
            }
        }
        self.poll().await;
        self.save().await
    }

    async fn obey(&mut self, command: Command) {
        // Who asked may have stopped waiting.
        match command {
            Command::Add {
                instance,
                address,
                limits,
                outcome,
            } => drop(outcome.send(self.add(instance, address, limits).await)),
            Command::Remove { instance, outcome } => {
                drop(outcome.send(self.remove(instance).await));
            }
            Command::Poll { done } => {
                self.poll().await;
                let _ = done.send(());
            }
        }
    }

    async fn add(
        &mut self,
        instance: InstanceId,
        address: Ipv4Addr,
        limits: Limits,
    ) -> Result<(), MeterError> {
        let failed = |source| MeterError::Firewall {
            instance: instance.clone(),
            source,
        };
        let installed = blocking(&self.firewall, Firewall::installed)
            .await
            .map_err(failed)?;
        let is_counting = installed.meters().any(|(counted, _)| *counted == instance);
        let now = self.settings.clock.now();
        let meter = self
            .ledger
            .add(instance.clone(), address, limits, is_counting, now);
        let put = self.install(vec![meter]).await;
        if put.is_err() {
            self.ledger.remove(&instance);
        }
        put.map_err(failed)?;
        muster_fault::hit(AFTER_METER_PUT);
        self.poll().await;
        Ok(())
    }

    async fn remove(&mut self, instance: InstanceId) -> Result<(), MeterError> {
        self.poll().await;
        // The last reading is on disk before the counter is gone.
        self.save().await.map_err(|source| MeterError::Save {
            instance: instance.clone(),
            source,
        })?;
        muster_fault::hit(BEFORE_METER_REMOVAL);
        let change = Change::RemoveMeter(instance.clone());
        blocking(&self.firewall, move |firewall| firewall.apply(&[change]))
            .await
            .map_err(|source| MeterError::Firewall {
                instance: instance.clone(),
                source,
            })?;
        muster_fault::hit(AFTER_METER_REMOVAL);
        self.ledger.remove(&instance);
        self.publish();
        Ok(())
    }

    async fn poll(&mut self) {
        let counters = blocking(&self.firewall, Firewall::counters).await;
        if let Err(error) = &counters {
            tracing::warn!(error = %ErrorChain(error), "traffic counters cannot be read; they are tried again");
        }
        if let Ok(counters) = counters {
            self.take_in(&counters).await;
        }
        self.publish();
    }

    async fn take_in(&mut self, counters: &Counters) {
        let meters = self.ledger.observe(counters, self.settings.clock.now());
        if meters.is_empty() {
            return;
        }
        for meter in &meters {
            tracing::info!(
                instance = %meter.instance,
                download_blocked = meter.download_blocked,
                upload_blocked = meter.upload_blocked,
                "what an instance may exchange with the outside has changed"
            );
        }
        if let Err(error) = self.install(meters.clone()).await {
            tracing::warn!(error = %ErrorChain(&error), "traffic limits cannot be set; they are tried again");
            for meter in &meters {
                self.ledger.not_installed(meter);
            }
        }
    }

    async fn install(&self, meters: Vec<Meter>) -> Result<(), FirewallError> {
        let changes: Vec<Change> = meters.into_iter().map(Change::PutMeter).collect();
        blocking(&self.firewall, move |firewall| firewall.apply(&changes)).await
    }

    async fn save(&mut self) -> Result<(), StoreError> {
        let forgotten = self.ledger.forget_old(self.settings.clock.now());
        muster_fault::hit(BEFORE_SAVE);
        database::save(
            &self.store,
            &self.boot,
            self.ledger.accounts().clone(),
            forgotten,
        )
        .await?;
        muster_fault::hit(AFTER_SAVE);
        Ok(())
    }

    fn publish(&self) {
        self.snapshot.send_replace(Arc::new(Snapshot {
            system: self.ledger.system(),
            instances: self.ledger.instances(),
        }));
    }
}

/// The firewall runs programs, which the runtime's only thread has no time for.
async fn blocking<T: Send + 'static>(
    firewall: &Firewall,
    work: impl FnOnce(&Firewall) -> Result<T, FirewallError> + Send + 'static,
) -> Result<T, FirewallError> {
    let firewall = firewall.clone();
    match spawn_blocking(move || work(&firewall)).await {
        Ok(outcome) => outcome,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
