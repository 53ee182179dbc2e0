//! Warm pools.

use std::time::Duration;

use muster_lifecycle::State;
use muster_lifecycle::pool::PoolSize;
use muster_machine_api::{time, v1};
use muster_machines::{ClaimError, Contact, Machine, Pool};
use tokio::time::Instant;
use tonic::Status;

use super::{Services, error, wish};
use crate::desk::PoolWish;
use crate::wire;

/// The longest that somebody waits for a machine of a pool.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Services {
    pub(super) async fn pools(&self) -> Result<Vec<v1::Pool>, Status> {
        let pools = self.desk.machines().pools().await.map_err(error::claim)?;
        let shown = pools.iter().map(|(name, pool)| self.show_pool(name, pool));
        Ok(shown.collect())
    }

    fn show_pool(&self, name: &str, pool: &Pool) -> v1::Pool {
        let all = self.desk.machines().all();
        let own = all.values().filter(|machine| {
            let record = machine.record();
            record.pool.as_deref() == Some(name) && !record.state().is_ending()
        });
        let own: Vec<&Machine> = own.collect();
        let count = |wanted: &dyn Fn(&Machine) -> bool| {
            let number = own.iter().filter(|machine| wanted(machine)).count();
            u32::try_from(number).unwrap_or(u32::MAX)
        };
        let is_silent = |it: &Machine| matches!(it.contact(), Contact::Silent(_));
        let claimed = |it: &Machine| it.record().claimed.is_some();
        let is = |it: &Machine, state: State| it.record().state() == state && !claimed(it);
        v1::Pool {
            name: name.to_owned(),
            template: pool.order.template.clone(),
            provider: pool.order.provider.to_string(),
            min_idle: pool.size.min_idle,
            max: pool.size.max,
            ready: count(&|it| it.is_ready() && !claimed(it)),
            claimed: count(&claimed),
            coming: count(&|it| {
                is(it, State::Pending) || is(it, State::Running) && !it.is_ready() && !is_silent(it)
            }),
            silent: count(&|it| is(it, State::Running) && is_silent(it)),
            stopped: count(&|it| matches!(it.record().state(), State::Stopped(_)) && !claimed(it)),
        }
    }

    pub(super) async fn change_pool(
        &self,
        request: v1::SetPoolRequest,
    ) -> Result<v1::Pool, Status> {
        if request.name.is_empty() {
            return Err(Status::invalid_argument("a pool has a name"));
        }
        if request.max.is_some_and(|max| max < request.min_idle) {
            let said = "the most machines must not be fewer than those that are ready";
            return Err(Status::invalid_argument(said));
        }
        let parts = self.desk.parts();
        let asked = request.wish.unwrap_or_default();
        let wish = PoolWish {
            wish: wish::read(&asked, parts.usual_anew()).map_err(error::invalid)?,
            labels: request.labels,
            timers: wire::read_timers(request.timers.as_ref(), &parts.timers)
                .map_err(error::invalid)?,
            size: PoolSize {
                min_idle: request.min_idle,
                max: request.max,
            },
            configured: false,
        };
        let pool = self.desk.set_pool(&request.name, &wish).await;
        let pool = pool.map_err(error::provision)?;
        Ok(self.show_pool(&request.name, &pool))
    }

    pub(super) async fn give_pool_up(&self, name: &str, dry_run: bool) -> Result<(), Status> {
        let machines = self.desk.machines();
        if !dry_run {
            return machines.remove_pool(name).await.map_err(error::claim);
        }
        let pools = machines.pools().await.map_err(error::claim)?;
        match pools.contains_key(name) {
            true => Ok(()),
            false => Err(error::claim(ClaimError::Unknown(name.to_owned()))),
        }
    }

    pub(super) async fn claim_machine(
        &self,
        request: v1::ClaimRequest,
    ) -> Result<v1::Machine, Status> {
        let wait = request.wait.as_ref().map(time::length).transpose();
        let wait = wait.map_err(error::invalid)?.unwrap_or_default();
        let deadline = Instant::now() + wait.min(LONGEST_WAIT);
        let machines = self.desk.machines();
        let mut changes = machines.watch();
        loop {
            changes.mark_unchanged();
            match machines.claim(&request.pool, &request.by).await {
                Ok(id) => return Ok(self.desk.show(&self.machine(id.as_str())?)),
                Err(ClaimError::NoneReady(_)) if Instant::now() < deadline => {}
                Err(failed) => return Err(error::claim(failed)),
            }
            // One may be ready when something has changed; the last look is at the deadline.
            let changed = tokio::time::timeout_at(deadline, changes.changed()).await;
            if let Ok(Err(_)) = changed {
                return Err(error::claim(ClaimError::Ended));
            }
        }
    }
}
