//! Cases: which machine is whose, how often it is made, and how it goes.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use muster_lifecycle::State;

use super::bench::{Bench, ensure, expect_class};
use super::{Case, CaseResult, Needs};
use crate::error::FailureClass;
use crate::mark::Owned;
use crate::name::{ClientToken, MachineId, ManagerId, ResourceId};

/// How many machines are made at once.
const AT_ONCE: usize = 8;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a machine that was made runs",
        needs: Needs::Nothing,
        run: |bench| async { bench.running().await.map(drop) }.boxed(),
    },
    Case {
        name: "what was made bears its mark",
        needs: Needs::Nothing,
        run: |bench| bears_its_mark(bench).boxed(),
    },
    Case {
        name: "a machine offers no more than its provider",
        needs: Needs::Nothing,
        run: |bench| offers_no_more(bench).boxed(),
    },
    Case {
        name: "the same token again gives the same machine",
        needs: Needs::Nothing,
        run: |bench| same_token(bench).boxed(),
    },
    Case {
        name: "the same token at once gives one machine",
        needs: Needs::OwnMachines,
        run: |bench| same_token_at_once(bench).boxed(),
    },
    Case {
        name: "every token gives a machine of its own",
        needs: Needs::OwnMachines,
        run: |bench| own_machines(bench).boxed(),
    },
    Case {
        name: "one machine only gives the same to everybody",
        needs: Needs::Nothing,
        run: |bench| shared_machine(bench).boxed(),
    },
    Case {
        name: "the list has what is ours and alive",
        needs: Needs::OwnMachines,
        run: |bench| lists_ours(bench).boxed(),
    },
    Case {
        name: "the list of another manager is empty",
        needs: Needs::Nothing,
        run: |bench| lists_nothing_of_others(bench).boxed(),
    },
    Case {
        name: "two managers have a machine each and see their own",
        needs: Needs::OwnMachines,
        run: |bench| two_managers(bench).boxed(),
    },
    Case {
        name: "a machine is listed as it is described",
        needs: Needs::OwnMachines,
        run: |bench| listed_as_described(bench).boxed(),
    },
    Case {
        name: "a destroyed machine is gone",
        needs: Needs::OwnMachines,
        run: |bench| destroyed_is_gone(bench).boxed(),
    },
    Case {
        name: "destroying again succeeds",
        needs: Needs::Nothing,
        run: |bench| destroy_again(bench).boxed(),
    },
    Case {
        name: "destroying at once succeeds for all",
        needs: Needs::Nothing,
        run: |bench| destroy_at_once(bench).boxed(),
    },
    Case {
        name: "destroying what never was succeeds",
        needs: Needs::Nothing,
        run: |bench| destroy_nothing(bench).boxed(),
    },
    Case {
        name: "what never was is not described",
        needs: Needs::Nothing,
        run: |bench| describe_nothing(bench).boxed(),
    },
    Case {
        name: "a machine can be destroyed before it runs",
        needs: Needs::OwnMachines,
        run: |bench| destroy_before_it_runs(bench).boxed(),
    },
    Case {
        name: "a used token makes nothing new after the machine is gone",
        needs: Needs::OwnMachines,
        run: |bench| used_token(bench).boxed(),
    },
    Case {
        name: "a machine with another mark is not destroyed",
        needs: Needs::OwnMachines,
        run: |bench| other_mark(bench).boxed(),
    },
    Case {
        name: "who answers is always the same",
        needs: Needs::Nothing,
        run: |bench| same_home(bench).boxed(),
    },
    Case {
        name: "what is not ours is neither listed nor destroyed",
        needs: Needs::OwnMachines,
        run: |bench| foreign(bench).boxed(),
    },
];

async fn same_home(bench: &Bench<'_>) -> CaseResult {
    let ask = async || {
        let home = bench.provider.home().await;
        home.map_err(|error| super::bench::text(&error))
    };
    let first = ask().await?;
    bench.running().await?;
    let second = ask().await?;
    ensure(first == second, || format!("{first:?} and {second:?}"))
}

async fn bears_its_mark(bench: &Bench<'_>) -> CaseResult {
    let order = bench.order();
    let made = bench.provision(&order).await?;
    ensure(made.mark == order.mark, || format!("{:?}", made.mark))
}

async fn offers_no_more(bench: &Bench<'_>) -> CaseResult {
    let made = bench.provision(&bench.order()).await?;
    let profile = bench.provider.profile();
    let more: Vec<_> = made.access.difference(&profile.access).collect();
    ensure(more.is_empty(), || format!("it also claims {more:?}"))
}

async fn same_token(bench: &Bench<'_>) -> CaseResult {
    let order = bench.order();
    let first = bench.provision(&order).await?;
    let second = bench.provision(&order).await?;
    ensure(first.resource == second.resource, || {
        format!("{} and {}", first.resource, second.resource)
    })
}

async fn same_token_at_once(bench: &Bench<'_>) -> CaseResult {
    let order = bench.order();
    let calls = (0..AT_ONCE).map(|_| bench.provision(&order));
    let made: Result<BTreeSet<ResourceId>, String> = join_all(calls)
        .await
        .into_iter()
        .map(|made| Ok(made?.resource))
        .collect();
    let made = made?;
    ensure(made.len() == 1, || format!("{made:?}"))?;
    let listed = bench.list().await?;
    ensure(listed.len() == 1, || format!("{listed:?}"))
}

async fn own_machines(bench: &Bench<'_>) -> CaseResult {
    let orders: Vec<_> = (0..AT_ONCE).map(|_| bench.order()).collect();
    let calls = orders.iter().map(|order| bench.provision(order));
    let made: Result<BTreeSet<ResourceId>, String> = join_all(calls)
        .await
        .into_iter()
        .map(|made| Ok(made?.resource))
        .collect();
    let made = made?;
    ensure(made.len() == AT_ONCE, || format!("{made:?}"))
}

async fn shared_machine(bench: &Bench<'_>) -> CaseResult {
    let one = bench.provision(&bench.order()).await?;
    let two = bench.provision(&bench.order()).await?;
    let shared = one.resource == two.resource;
    ensure(shared == bench.provider.profile().one_machine, || {
        format!("{} and {}", one.resource, two.resource)
    })
}

async fn lists_ours(bench: &Bench<'_>) -> CaseResult {
    let (stays, goes) = (bench.running().await?, bench.running().await?);
    let listed: BTreeSet<_> = bench.list().await?.into_iter().map(|it| it.mark).collect();
    let both = BTreeSet::from([stays.mark.clone(), goes.mark.clone()]);
    ensure(listed == both, || format!("{listed:?}"))?;
    bench.destroy(&goes).await?;
    let alive = bench.list().await?.into_iter();
    let alive: Vec<_> = alive
        .filter(|it| it.state != State::Terminated)
        .map(|it| it.mark)
        .collect();
    ensure(alive == [stays.mark], || format!("{alive:?}"))
}

async fn lists_nothing_of_others(bench: &Bench<'_>) -> CaseResult {
    bench.running().await?;
    let other = ManagerId::random();
    let listed = bench.provider.list(&other).await;
    let listed = listed.map_err(|error| super::bench::text(&error))?;
    ensure(listed.is_empty(), || format!("{listed:?}"))
}

async fn two_managers(bench: &Bench<'_>) -> CaseResult {
    let ours = bench.running().await?;
    let other = Bench::new(bench.rig);
    let result = async {
        let theirs = other.running().await?;
        for (bench, machine) in [(bench, &ours), (&other, &theirs)] {
            let listed = bench.list().await?.into_iter().map(|it| it.mark);
            let listed: Vec<_> = listed.collect();
            ensure(listed == [machine.mark.clone()], || format!("{listed:?}"))?;
        }
        // Whoever knows a name still needs the mark.
        let mixed = Owned {
            resource: theirs.resource.clone(),
            mark: ours.mark.clone(),
        };
        let done = bench.provider.describe(&mixed).await;
        expect_class(done, FailureClass::Refused)
    };
    let result = result.await;
    result.and(other.clean_up().await)
}

async fn listed_as_described(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let described = bench.provider.describe(&machine).await;
    let described = described.map_err(|error| super::bench::text(&error))?;
    let listed = bench.list().await?;
    let [listed] = listed.as_slice() else {
        return Err(format!("{listed:?}"));
    };
    ensure(described.as_ref() == Some(listed), || {
        format!("{described:?}, listed as {listed:?}")
    })
}

async fn destroyed_is_gone(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    bench.destroy(&machine).await
}

async fn destroy_again(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    for _ in 0..3 {
        let done = bench.provider.destroy(&machine).await;
        let state = done.map_err(|error| super::bench::text(&error))?;
        ensure(state.is_ending(), || format!("it is {state}"))?;
    }
    Ok(())
}

async fn destroy_at_once(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let calls = (0..AT_ONCE).map(|_| bench.provider.destroy(&machine));
    for done in join_all(calls).await {
        done.map_err(|error| super::bench::text(&error))?;
    }
    Ok(())
}

/// A name of the provider's own form that no machine has: that of one that was ours and is gone.
async fn nothing(bench: &Bench<'_>) -> Result<Owned, String> {
    let machine = bench.running().await?;
    bench.destroy_unless_shared(&machine).await?;
    let mut digits = 0;
    let swapped: String = machine
        .resource
        .as_str()
        .chars()
        .map(|letter| match letter {
            '0'..='9' if digits < 4 => {
                digits += 1;
                if letter == '9' { '8' } else { '9' }
            }
            other => other,
        })
        .collect();
    let name = match digits {
        0 => format!("{swapped}-none"),
        _ => swapped,
    };
    let resource = ResourceId::new(&name).map_err(|error| error.to_string())?;
    let mark = bench.order().mark;
    Ok(Owned { resource, mark })
}

async fn destroy_nothing(bench: &Bench<'_>) -> CaseResult {
    let machine = nothing(bench).await?;
    let done = bench.provider.destroy(&machine).await;
    let state = done.map_err(|error| super::bench::text(&error))?;
    ensure(state == State::Terminated, || format!("it is {state}"))
}

async fn describe_nothing(bench: &Bench<'_>) -> CaseResult {
    let machine = nothing(bench).await?;
    let state = bench.state(&machine).await?;
    ensure(state.is_none(), || format!("it is {state:?}"))
}

async fn destroy_before_it_runs(bench: &Bench<'_>) -> CaseResult {
    let order = bench.order();
    let resource = bench.provision(&order).await?.resource;
    let mark = order.mark;
    bench.destroy(&Owned { resource, mark }).await
}

async fn used_token(bench: &Bench<'_>) -> CaseResult {
    let order = bench.order();
    let resource = bench.provision(&order).await?.resource;
    let mark = order.mark.clone();
    bench.destroy(&Owned { resource, mark }).await?;
    // Refusing is as good as describing what is gone.
    if let Ok(again) = bench.provider.provision(&order).await {
        ensure(again.state.is_ending(), || format!("{again:?}"))?;
    }
    let alive = bench.list().await?.into_iter();
    let alive: Vec<_> = alive.filter(|it| !it.state.is_ending()).collect();
    ensure(alive.is_empty(), || format!("{alive:?}"))
}

async fn other_mark(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let mut others = vec![machine.clone(), machine.clone(), machine.clone()];
    others[0].mark.manager = ManagerId::random();
    others[1].mark.machine = MachineId::random();
    others[2].mark.token = ClientToken::random();
    for other in others {
        let done = bench.provider.destroy(&other).await;
        expect_class(done, FailureClass::Refused)?;
    }
    let state = bench.state(&machine).await?;
    ensure(state == Some(State::Running), || format!("it is {state:?}"))
}

async fn foreign(bench: &Bench<'_>) -> CaseResult {
    let Some(resource) = bench.rig.add_foreign().await else {
        bench.skip("the test can make nothing that is not ours");
        return Ok(());
    };
    let listed = bench.list().await?;
    ensure(listed.is_empty(), || format!("{listed:?}"))?;
    let machine = Owned {
        resource,
        mark: bench.order().mark,
    };
    let done = bench.provider.destroy(&machine).await;
    expect_class(done, FailureClass::Refused)?;
    let untouched = bench.rig.is_untouched(&machine.resource).await;
    ensure(untouched, || "it was changed".to_owned())
}
