//! Keeping what providers found, so that it is found again.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_lifecycle::State;
use muster_machines::{Record, Snapshot};
use muster_provider::MachineId;
use muster_telemetry::ErrorChain;

use super::Desk;
use crate::catalog::pins_in;

/// The machines that nothing is to be pinned of any more.
#[derive(Debug, Default)]
struct Settled(BTreeSet<MachineId>);

impl Settled {
    /// What has come up before now was pinned then, or was forgotten since on purpose.
    fn at_start(all: &Snapshot) -> Self {
        let up = all
            .iter()
            .filter(|(_, it)| it.record().state() != State::Pending);
        Self(up.map(|(id, _)| id.clone()).collect())
    }

    /// Those that have come up since the last look.
    fn look(&mut self, all: &Snapshot) -> Vec<Arc<Record>> {
        self.0.retain(|id| all.contains_key(id));
        let records = all.values().map(|it| it.record());
        let up = records.filter(|it| it.state() == State::Running);
        let new: Vec<Arc<Record>> = up.filter(|it| !self.0.contains(&it.id)).cloned().collect();
        self.0.extend(new.iter().map(|it| it.id.clone()));
        new
    }
}

impl Desk {
    /// Pins what was found for every machine that comes up, whoever ordered it. It ends with the registry.
    pub(crate) async fn keep_pins(self) {
        let mut snapshots = self.machines().watch();
        let mut settled = Settled::at_start(&snapshots.borrow_and_update());
        while snapshots.changed().await.is_ok() {
            let all = Arc::clone(&snapshots.borrow_and_update());
            for record in settled.look(&all) {
                self.pin(&record).await;
            }
        }
    }

    /// Pins what the provider found for a machine, unless something is pinned that holds.
    pub(super) async fn pin(&self, record: &Record) {
        let descriptions = self.parts().descriptions.clone();
        let details = record.made().map(|made| &made.details);
        let Some(found) = details.and_then(pins_in) else {
            return;
        };
        let Some(found_for) = record.order.spec.pin_for.clone() else {
            return;
        };
        if descriptions.lock.is_none() {
            return;
        }
        let _one_at_a_time = self.lock_file().await;
        let pinned = tokio::task::spawn_blocking(move || {
            descriptions.change_lock(|lock| !lock.holds(&found_for) && lock.pin(found_for, found))
        });
        if let Ok(Err(error)) = pinned.await {
            let error = ErrorChain(&error);
            tracing::warn!(%error, machine = %record.id, "what its provider found is not pinned");
        }
    }
}
