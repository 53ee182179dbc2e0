//! Warm pools, by what they shall consist of.

use std::collections::BTreeMap;

use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::timers::Timers;
use muster_machines::{MachineOrder, Pool};
use muster_telemetry::ErrorChain;

use super::Desk;
use super::provision::{ProvisionFailed, nothing_fits};
use crate::choice::{Choice, Take, Wish};
use crate::config::PoolConfig;

/// So many ways to make a machine are kept with a pool.
const CANDIDATES: usize = 16;

/// A pool that is wanted.
#[derive(Debug)]
pub(crate) struct PoolWish {
    pub(crate) wish: Wish,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) timers: Timers,
    pub(crate) size: PoolSize,
    /// Whether the configuration asks for it.
    pub(crate) configured: bool,
}

impl Desk {
    /// Sets the pools that the configuration asks for, and gives those up that it asked for before. Operators' own stay.
    pub(crate) async fn set_configured_pools(&self, wanted: &BTreeMap<String, PoolConfig>) {
        for (name, pool) in wanted {
            self.set_configured_pool(name, pool).await;
        }
        let Ok(there) = self.machines().pools().await else {
            return;
        };
        for (name, pool) in there {
            if pool.configured && !wanted.contains_key(&name) {
                tracing::info!(
                    name,
                    "the configuration does not ask for this pool any more"
                );
                // It fails only if somebody else has given it up meanwhile.
                let _ = self.machines().remove_pool(&name).await;
            }
        }
    }

    /// A pool that cannot be had now does not keep everything else from starting.
    async fn set_configured_pool(&self, name: &str, pool: &PoolConfig) {
        let wanted = PoolWish {
            wish: self.own_wish(pool.template.clone(), pool.provider),
            labels: pool.labels.clone(),
            timers: pool.timers,
            size: PoolSize {
                min_idle: pool.min_idle,
                max: pool.max,
            },
            configured: true,
        };
        if let Err(failed) = self.set_pool(name, &wanted).await {
            tracing::error!(name, error = %ErrorChain(&failed), "the pool is not set");
        }
    }

    /// Makes or changes a pool. Who makes its machines, what they are like, and who else does where that fails,
    /// is decided now.
    pub(crate) async fn set_pool(
        &self,
        name: &str,
        wanted: &PoolWish,
    ) -> Result<Pool, ProvisionFailed> {
        // The machines that the pool has may be what uses a quota up, and it goes on with what it has. The registry keeps the
        // quota at every order.
        let choice = self.choose_beyond_quotas(&wanted.wish).await;
        let choice = choice.map_err(ProvisionFailed::Choice)?;
        let mut orders = self.orders_of(name, new_of(&choice, wanted)).into_iter();
        let pool = Pool {
            size: wanted.size,
            order: orders.next().ok_or_else(|| nothing_fits(&choice))?,
            others: orders.collect(),
            configured: wanted.configured,
        };
        let set = self.machines().set_pool(name, pool.clone()).await;
        set.map_err(ProvisionFailed::Pool)?;
        Ok(pool)
    }

    /// Those that are kept with a pool: the best, and what its machines are.
    fn orders_of(&self, pool: &str, all: Vec<MachineOrder>) -> Vec<MachineOrder> {
        let machines = self.machines().all();
        let members = machines.values().map(|it| it.record());
        let members = members.filter(|it| it.pool.as_deref() == Some(pool));
        let there: Vec<&MachineOrder> = members.map(|it| &it.order).collect();
        let is_there = |order: &MachineOrder| there.iter().any(|it| it.is_for_the_same(order));
        let numbered = all.into_iter().enumerate();
        let kept = numbered.filter(|(place, order)| *place < CANDIDATES || is_there(order));
        kept.map(|(_, order)| order).collect()
    }
}

/// The machines that would be made, the best first.
fn new_of(choice: &Choice, wanted: &PoolWish) -> Vec<MachineOrder> {
    let takes = choice.takes(&wanted.labels, wanted.timers);
    let new = takes.filter_map(|take| match take {
        Take::New(order) => Some(*order),
        Take::Existing(_) => None,
    });
    new.collect()
}
