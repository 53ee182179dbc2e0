//! How much of a provider may be used: looked at when an order is taken, so that no two orders take the same room.

use muster_provider::{MachineSpec, Used};

use super::Book;
use crate::error::OrderError;
use crate::record::MachineOrder;

impl Book {
    /// Refuses an order that would pass its provider's quota. Machines that end have given their room back.
    pub(super) fn keep_quota(&self, order: &MachineOrder) -> Result<(), OrderError> {
        let provider = order.provider;
        let quota = self.settings.quotas.get(&provider);
        let Some(quota) = quota.filter(|quota| quota.is_limited()) else {
            return Ok(());
        };
        let mut used = Used::default();
        for record in self.entries.values().map(|entry| &entry.record) {
            if record.order.provider == provider && !record.state().is_ending() {
                count(&mut used, &record.order.spec);
            }
        }
        let before = used;
        count(&mut used, &order.spec);
        match quota.is_passed_by(&used) {
            false => Ok(()),
            true => Err(OrderError::Quota {
                provider,
                used: quota.describe(&before),
            }),
        }
    }
}

fn count(used: &mut Used, spec: &MachineSpec) {
    let cpus = spec.cpus.map(|it| u64::from(it.get()));
    used.add(cpus, spec.memory_mb.map(Into::into));
}
