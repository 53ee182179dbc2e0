//! `muster machine pool`.

use muster_machine_api::{time, v1};

use super::MachineCommandError;
use super::client::Manager;
use super::facts::PoolFacts;
use super::make::{made, show_plan, timers, wish};
use crate::cli::machine::Pool;
use crate::console::Console;
use crate::error::CommandError;
use crate::unit::facts::Listing;

pub(super) async fn run(
    manager: &Manager,
    pool: Pool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let failed = MachineCommandError::Call;
    match pool {
        Pool::List => {
            let request = v1::ListPoolsRequest {};
            let answer = manager.ask("ListPools", async |mut it| it.list_pools(request).await);
            let pools = answer.await.map_err(failed)?.pools;
            if pools.is_empty() {
                console.note("There are no pools; `muster machine pool set` makes one.");
            }
            let pools = pools.into_iter().map(PoolFacts::from);
            console.answer(&Listing(pools.collect()))?;
        }
        Pool::Set(set) if set.dry_run => {
            let wanted = v1::Wish {
                reuse: false,
                ..wish(set.wish)
            };
            return show_plan(manager, wanted, true, console).await;
        }
        Pool::Set(set) => {
            let request = v1::SetPoolRequest {
                timers: Some(timers(&set.timers)),
                wish: Some(wish(set.wish)),
                name: set.name,
                min_idle: set.min_idle,
                max: set.max,
                labels: Default::default(),
            };
            let answer = manager.ask("SetPool", async |mut it| it.set_pool(request).await);
            let pool = answer.await.map_err(failed)?;
            console.answer(&Listing(vec![PoolFacts::from(pool)]))?;
        }
        Pool::Remove(name) => {
            let request = v1::RemovePoolRequest { name: name.name };
            let answer = manager.ask("RemovePool", async |mut it| it.remove_pool(request).await);
            answer.await.map_err(failed)?;
        }
        Pool::Claim(claim) => {
            let user = || std::env::var("USER").unwrap_or_default();
            let request = v1::ClaimRequest {
                pool: claim.name,
                by: claim.by.unwrap_or_else(user),
                wait: claim.wait.map(|it| time::duration(it.get())),
            };
            let answer = manager.ask("Claim", async |mut it| it.claim(request).await);
            made(answer.await.map_err(failed)?, console)?;
        }
        Pool::Release(one) => {
            let request = v1::ReleaseRequest {
                machine: one.machine,
            };
            let answer = manager.ask("Release", async |mut it| it.release(request).await);
            answer.await.map_err(failed)?;
        }
    }
    Ok(())
}
