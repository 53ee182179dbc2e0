//! The one task: owns who has what.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use muster_alert::AlertSink;
use muster_api::domain::{Alert, AlertKind, InstanceIdent, ResourceInfo, Timestamp};
use muster_item::ResourceRequest;
use muster_runtime::ResourceGrant;
use muster_store::Store;
use muster_telemetry::ErrorChain;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{error, warn};

use super::inventory::Inventory;
use super::{Request, RequestError, Settings};
use crate::ledger::Ledger;
use crate::refusal::RefusalReason;
use crate::{database, fault};

pub(super) struct Owner {
    store: Store,
    settings: Settings,
    alerts: Arc<dyn AlertSink>,
    ledger: Ledger,
    inventory: Inventory,
    /// What instances have that is not whole, and has been told. Not known before it is known which instances there are:
    /// those that are gone lack nothing.
    troubles: Option<BTreeSet<(InstanceIdent, String)>>,
    announced: watch::Sender<Vec<ResourceInfo>>,
}

impl Owner {
    pub(super) async fn new(
        store: Store,
        settings: Settings,
        alerts: Arc<dyn AlertSink>,
        ledger: Ledger,
        mut inventory: Inventory,
        announced: watch::Sender<Vec<ResourceInfo>>,
    ) -> Self {
        inventory.refresh().await;
        announced.send_replace(inventory.announced());
        Self {
            store,
            settings,
            alerts,
            ledger,
            inventory,
            troubles: None,
            announced,
        }
    }

    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Request>) {
        let mut look_at: Option<Instant> = None;
        loop {
            if self.inventory.is_blind() && look_at.is_none() {
                look_at = Some(Instant::now() + self.settings.look_every);
            }
            let due = look_at.unwrap_or_else(Instant::now);
            tokio::select! {
                request = queue.recv() => match request {
                    Some(request) => self.carry_out(request).await,
                    None => return,
                },
                () = self.inventory.changed() => {
                    let settled = Instant::now() + self.settings.settle;
                    look_at = Some(look_at.map_or(settled, |at| at.min(settled)));
                }
                () = sleep_until(due), if look_at.is_some() => {
                    look_at = None;
                    self.inventory.refresh().await;
                    self.publish();
                }
            }
        }
    }

    async fn carry_out(&mut self, request: Request) {
        // Those who asked may have gone.
        match request {
            Request::Take {
                instance,
                requests,
                answer,
            } => {
                let result = self.take(&instance, &requests).await;
                let _ = answer.send(result);
            }
            Request::Release { instance, answer } => {
                let result = self.release(&instance).await;
                let _ = answer.send(result);
            }
            Request::KeepOnly { instances, answer } => {
                self.keep_only(&instances).await;
                let _ = answer.send(());
            }
        }
    }

    async fn take(
        &mut self,
        instance: &InstanceIdent,
        requests: &[ResourceRequest],
    ) -> Result<Vec<ResourceGrant>, RequestError> {
        if requests.is_empty() {
            self.release(instance).await?;
            return Ok(Vec::new());
        }
        // A start does not rely on what was seen a while ago.
        self.inventory.look().await;
        self.publish();
        let (table, missing) = (self.inventory.table(), self.inventory.missing());
        let planned = self.ledger.plan(table, missing, instance, requests);
        let planned = planned.map_err(|refused| {
            for refusal in &refused.refusals {
                self.alert(instance, &refusal.resource, &refusal.reason);
            }
            RequestError::Refused(refused)
        })?;
        if self.ledger.held_by(instance) != Some(&planned.names) {
            muster_fault::hit(fault::GRANTED);
            let written = database::hold(&self.store, instance, &planned.names).await;
            written.map_err(|source| failed(instance, source))?;
            self.ledger.hold(instance, planned.names);
            muster_fault::hit(fault::TAKEN);
        }
        Ok(planned.grants)
    }

    async fn release(&mut self, instance: &InstanceIdent) -> Result<(), RequestError> {
        if self.ledger.held_by(instance).is_none() {
            return Ok(());
        }
        muster_fault::hit(fault::RETURNING);
        let written = database::release(&self.store, std::slice::from_ref(instance)).await;
        written.map_err(|source| failed(instance, source))?;
        self.ledger.release(instance);
        muster_fault::hit(fault::RELEASED);
        self.tell_troubles();
        Ok(())
    }

    async fn keep_only(&mut self, instances: &BTreeSet<InstanceIdent>) {
        let gone = self.ledger.others(instances);
        if !gone.is_empty() {
            muster_fault::hit(fault::SORTING);
            if let Err(failed) = database::release(&self.store, &gone).await {
                // They do not run, so what they had is free whatever the disk says; the next start tries again.
                error!(error = %ErrorChain(&failed), "cannot write down that resources are free");
            }
            for instance in &gone {
                self.ledger.release(instance);
            }
            muster_fault::hit(fault::SORTED);
        }
        // The others may have lost something while nobody looked.
        self.troubles.get_or_insert_default();
        self.tell_troubles();
    }

    /// Tells the controller's link and the operator what changed.
    fn publish(&mut self) {
        let now = self.inventory.announced();
        self.announced.send_if_modified(|old| {
            let changed = *old != now;
            *old = now;
            changed
        });
        self.tell_troubles();
    }

    /// Once for each resource that an instance has and that is not whole any more.
    fn tell_troubles(&mut self) {
        let Some(told) = &self.troubles else {
            return;
        };
        let (table, missing) = (self.inventory.table(), self.inventory.missing());
        let troubles = self.ledger.troubles(table, missing);
        for (key, reason) in &troubles {
            if !told.contains(key) {
                self.alert(&key.0, &key.1, reason);
            }
        }
        self.troubles = Some(troubles.into_keys().collect());
    }

    fn alert(&self, instance: &InstanceIdent, resource: &str, reason: &RefusalReason) {
        warn!(%instance, resource, %reason, "an instance lacks a resource");
        // The range ends in year 9999, and a clock beyond it has no better time to offer.
        let Ok(timestamp) = Timestamp::try_from(SystemTime::now()) else {
            return;
        };
        let kind = AlertKind::ResourceAllocate {
            instance: instance.clone(),
            resource: resource.to_owned(),
            message: reason.to_string(),
        };
        self.alerts.raise(Alert { timestamp, kind });
    }
}

fn failed(instance: &InstanceIdent, source: muster_store::StoreError) -> RequestError {
    RequestError::Store {
        instance: instance.clone(),
        source,
    }
}

#[cfg(test)]
mod tests;
