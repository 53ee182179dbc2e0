//! `muster machine pool`.

use muster_machine_api::{time, v1};

use super::client::Manager;
use super::facts::PoolFacts;
use super::make::{made, show_plan, timers, wish};
use super::{MachineCommandError, watch};
use crate::call::CallError;
use crate::cli::machine::Pool;
use crate::console::Console;
use crate::error::CommandError;
use crate::text::shown;
use crate::unit::facts::Listing;

pub(super) async fn run(
    manager: &Manager,
    pool: Pool,
    console: &mut Console,
) -> Result<(), CommandError> {
    let failed = MachineCommandError::Call;
    match pool {
        Pool::List(wanted) if wanted.watch => {
            watch::list(async || list(manager).await, console).await?;
        }
        Pool::List(_) => {
            let pools = list(manager).await.map_err(failed)?;
            if pools.is_empty() {
                console.note("There are no pools; `muster machine pool set` makes one.");
            }
            console.answer(&Listing(pools))?;
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
        Pool::Remove(wanted) => {
            let (name, dry_run) = (wanted.name.clone(), wanted.dry_run);
            let request = v1::RemovePoolRequest { name, dry_run };
            let answer = manager.ask("RemovePool", async |mut it| it.remove_pool(request).await);
            answer.await.map_err(failed)?;
            if dry_run {
                let name = shown(&wanted.name);
                console.note(format_args!(
                    "{name}: it could be removed; its machines would stay"
                ));
            }
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

async fn list(manager: &Manager) -> Result<Vec<PoolFacts>, CallError> {
    let request = v1::ListPoolsRequest {};
    let answer = manager.ask("ListPools", async |mut it| it.list_pools(request).await);
    let pools = answer.await?.pools;
    Ok(pools.into_iter().map(PoolFacts::from).collect())
}
