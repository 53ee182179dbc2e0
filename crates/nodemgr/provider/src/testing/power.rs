//! Cases: every edge of the lifecycle.

use std::time::Instant;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use muster_lifecycle::{Halt, State, Verb};

use super::bench::{Bench, LOOK, ensure, expect_class};
use super::{Case, CaseResult, Needs};
use crate::error::FailureClass;
use crate::mark::Owned;
use crate::provider::{Order, Purchase};

/// How many ask at once.
const AT_ONCE: usize = 4;

/// A case for a verb that a provider does not have.
macro_rules! unsupported {
    ($name:literal, $verb:expr) => {
        Case {
            name: $name,
            needs: Needs::Lacks($verb),
            run: |bench| unsupported(bench, $verb).boxed(),
        }
    };
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a stop ends in stopped",
        needs: Needs::Verbs(&[Verb::Stop]),
        run: |bench| stops(bench, Verb::Stop).boxed(),
    },
    Case {
        name: "a forced stop ends in stopped",
        needs: Needs::Verbs(&[Verb::ForceStop]),
        run: |bench| stops(bench, Verb::ForceStop).boxed(),
    },
    Case {
        name: "a stopped machine starts again, as the same",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Start]),
        run: |bench| starts_again(bench).boxed(),
    },
    Case {
        name: "stopping a stopped machine changes nothing",
        needs: Needs::Verbs(&[Verb::Stop]),
        run: |bench| stop_again(bench).boxed(),
    },
    Case {
        name: "starting a running machine changes nothing",
        needs: Needs::Verbs(&[Verb::Start]),
        run: |bench| start_running(bench).boxed(),
    },
    Case {
        name: "stopping at once succeeds for all",
        needs: Needs::Verbs(&[Verb::Stop]),
        run: |bench| stop_at_once(bench).boxed(),
    },
    Case {
        name: "a machine that stops can be switched off",
        needs: Needs::Verbs(&[Verb::Stop, Verb::ForceStop]),
        run: |bench| force_while_stopping(bench).boxed(),
    },
    Case {
        name: "a machine that stops can be terminated",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Terminate]),
        run: |bench| terminate_while_stopping(bench).boxed(),
    },
    Case {
        name: "stopping and terminating at once ends it",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Terminate]),
        run: |bench| stop_and_terminate(bench).boxed(),
    },
    Case {
        name: "a reboot stays inside running",
        needs: Needs::Verbs(&[Verb::Reboot]),
        run: |bench| reboots(bench).boxed(),
    },
    Case {
        name: "a machine that was rebooted has booted anew",
        needs: Needs::Verbs(&[Verb::Reboot]),
        run: |bench| boots_anew(bench).boxed(),
    },
    Case {
        name: "a hibernation ends in hibernated and goes on",
        needs: Needs::Verbs(&[Verb::Hibernate, Verb::Resume]),
        run: |bench| hibernates(bench, Verb::Resume).boxed(),
    },
    Case {
        name: "starting a hibernated machine resumes it",
        needs: Needs::Verbs(&[Verb::Hibernate, Verb::Resume]),
        run: |bench| hibernates(bench, Verb::Start).boxed(),
    },
    Case {
        name: "a hibernated machine can be terminated",
        needs: Needs::Verbs(&[Verb::Hibernate, Verb::Terminate]),
        run: |bench| terminate_hibernated(bench).boxed(),
    },
    Case {
        name: "a stopped machine bears its mark and is listed",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Start]),
        run: |bench| mark_of_a_stopped(bench).boxed(),
    },
    Case {
        name: "the same token again does not start what was stopped",
        needs: Needs::Verbs(&[Verb::Stop]),
        run: |bench| same_token_after_a_stop(bench).boxed(),
    },
    Case {
        name: "a stopped machine cannot be rebooted",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Reboot]),
        run: |bench| refused_when_stopped(bench, Verb::Reboot).boxed(),
    },
    Case {
        name: "a stopped machine cannot be hibernated",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Hibernate]),
        run: |bench| refused_when_stopped(bench, Verb::Hibernate).boxed(),
    },
    Case {
        name: "a machine that was not hibernated cannot be resumed",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Resume]),
        run: |bench| refused_when_stopped(bench, Verb::Resume).boxed(),
    },
    Case {
        name: "a stopped machine can be terminated",
        needs: Needs::Verbs(&[Verb::Stop, Verb::Terminate]),
        run: |bench| terminate_stopped(bench).boxed(),
    },
    Case {
        name: "terminating is destroying",
        needs: Needs::Verbs(&[Verb::Terminate]),
        run: |bench| terminates(bench).boxed(),
    },
    Case {
        name: "a machine that is gone cannot be started",
        needs: Needs::Verbs(&[Verb::Start]),
        run: |bench| start_after_the_end(bench).boxed(),
    },
    Case {
        name: "a machine with another mark is not stopped",
        needs: Needs::Verbs(&[Verb::Stop]),
        run: |bench| stop_of_another(bench).boxed(),
    },
    Case {
        name: "a verb is refused where it is not offered by one machine alone",
        needs: Needs::Nothing,
        run: |bench| {
            let plain = Order {
                spec: bench.rig.plain_spec(),
                ..bench.order()
            };
            refuses_what_it_lacks(bench, plain).boxed()
        },
    },
    Case {
        name: "a verb is refused where it is not offered by spot machines alone",
        needs: Needs::Spot,
        run: |bench| {
            let spot = Order {
                spec: bench.rig.plain_spec(),
                purchase: Purchase::Spot {
                    types: Vec::new(),
                    fallback: false,
                },
                ..bench.order()
            };
            refuses_what_it_lacks(bench, spot).boxed()
        },
    },
    unsupported!("start is refused where it is not offered", Verb::Start),
    unsupported!("stop is refused where it is not offered", Verb::Stop),
    unsupported!(
        "a forced stop is refused where it is not offered",
        Verb::ForceStop
    ),
    unsupported!("reboot is refused where it is not offered", Verb::Reboot),
    unsupported!(
        "hibernation is refused where it is not offered",
        Verb::Hibernate
    ),
    unsupported!("resuming is refused where it is not offered", Verb::Resume),
];

async fn act_and_wait(bench: &Bench<'_>, machine: &Owned, verb: Verb, goal: State) -> CaseResult {
    bench.act(machine, verb).await?;
    bench
        .wait(machine, goal.as_str(), |state| state == Some(goal))
        .await
}

async fn stops(bench: &Bench<'_>, verb: Verb) -> CaseResult {
    let machine = bench.running().await?;
    act_and_wait(bench, &machine, verb, State::Stopped(Halt::Off)).await
}

async fn starts_again(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    act_and_wait(bench, &machine, Verb::Stop, State::Stopped(Halt::Off)).await?;
    act_and_wait(bench, &machine, Verb::Start, State::Running).await?;
    let listed = bench.list().await?;
    let same = listed.iter().all(|it| it.resource == machine.resource);
    ensure(same && listed.len() == 1, || format!("{listed:?}"))
}

async fn mark_of_a_stopped(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let off = State::Stopped(Halt::Off);
    for (verb, goal) in [(Verb::Stop, off), (Verb::Start, State::Running)] {
        act_and_wait(bench, &machine, verb, goal).await?;
        let listed = bench.list().await?;
        let seen: Vec<_> = listed.iter().map(|it| (&it.mark, it.state)).collect();
        ensure(seen == [(&machine.mark, goal)], || format!("{listed:?}"))?;
    }
    Ok(())
}

async fn same_token_after_a_stop(bench: &Bench<'_>) -> CaseResult {
    let order = bench.order();
    let made = bench.provision(&order).await?;
    let machine = Owned {
        resource: made.resource,
        mark: order.mark.clone(),
    };
    let running = |state| state == Some(State::Running);
    bench.wait(&machine, "running", running).await?;
    let off = State::Stopped(Halt::Off);
    act_and_wait(bench, &machine, Verb::Stop, off).await?;
    let again = bench.provision(&order).await?;
    let same = again.resource == machine.resource && again.state == off;
    ensure(same, || format!("{again:?}"))?;
    let state = bench.state(&machine).await?;
    ensure(state == Some(off), || format!("it is {state:?}"))
}

async fn stop_again(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let off = State::Stopped(Halt::Off);
    act_and_wait(bench, &machine, Verb::Stop, off).await?;
    let state = bench.act(&machine, Verb::Stop).await?;
    ensure(state == off, || format!("it is {state}"))
}

async fn start_running(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let state = bench.act(&machine, Verb::Start).await?;
    ensure(state == State::Running, || format!("it is {state}"))
}

async fn reboots(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let state = bench.act(&machine, Verb::Reboot).await?;
    ensure(state == State::Running, || format!("it is {state}"))?;
    bench
        .wait(&machine, "running", |state| state == Some(State::Running))
        .await
}

/// Some providers answer when it is done, so that nothing can be asked in between but at the same time.
async fn stop_at_once(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let stops = (0..AT_ONCE).map(|_| bench.act(&machine, Verb::Stop));
    for state in join_all(stops).await {
        let state = state?;
        let stops = matches!(state, State::Stopping(_) | State::Stopped(_));
        ensure(stops, || format!("it is {state}"))?;
    }
    let off = State::Stopped(Halt::Off);
    let stopped = |state| state == Some(off);
    bench.wait(&machine, "stopped", stopped).await
}

async fn force_while_stopping(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    bench.act(&machine, Verb::Stop).await?;
    act_and_wait(bench, &machine, Verb::ForceStop, State::Stopped(Halt::Off)).await
}

async fn terminate_while_stopping(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    bench.act(&machine, Verb::Stop).await?;
    bench.destroy(&machine).await?;
    let listed = bench.list().await?;
    ensure(listed.iter().all(|it| it.state.is_ending()), || {
        format!("{listed:?}")
    })
}

async fn stop_and_terminate(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let stop = bench.provider.act(&machine, Verb::Stop);
    let (stopped, gone) = join(stop, bench.destroy(&machine)).await;
    gone?;
    match stopped {
        // What is gone before it stopped is stopped no more.
        Err(error) if error.class != FailureClass::Unsupported => {}
        Err(error) => return Err(super::bench::text(&error)),
        Ok(_) => {}
    }
    let listed = bench.list().await?;
    ensure(listed.iter().all(|it| it.state.is_ending()), || {
        format!("{listed:?}")
    })
}

async fn terminate_hibernated(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let asleep = State::Stopped(Halt::Hibernated);
    act_and_wait(bench, &machine, Verb::Hibernate, asleep).await?;
    bench.destroy(&machine).await
}

async fn boots_anew(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let Some(before) = bench.rig.boot(&machine).await else {
        bench.skip("nothing tells one boot of its machines from another");
        return Ok(());
    };
    bench.act(&machine, Verb::Reboot).await?;
    let deadline = Instant::now() + bench.rig.patience();
    while bench
        .rig
        .boot(&machine)
        .await
        .is_none_or(|now| now == before)
    {
        ensure(Instant::now() < deadline, || {
            format!("it still runs since {before}")
        })?;
        tokio::time::sleep(LOOK).await;
    }
    bench
        .wait(&machine, "running", |state| state == Some(State::Running))
        .await
}

async fn hibernates(bench: &Bench<'_>, wake: Verb) -> CaseResult {
    let machine = bench.running().await?;
    let asleep = State::Stopped(Halt::Hibernated);
    act_and_wait(bench, &machine, Verb::Hibernate, asleep).await?;
    act_and_wait(bench, &machine, wake, State::Running).await
}

async fn refused_when_stopped(bench: &Bench<'_>, verb: Verb) -> CaseResult {
    let machine = bench.running().await?;
    let off = State::Stopped(Halt::Off);
    act_and_wait(bench, &machine, Verb::Stop, off).await?;
    let done = bench.provider.act(&machine, verb).await;
    expect_class(done, FailureClass::Refused)?;
    let state = bench.state(&machine).await?;
    ensure(state == Some(off), || format!("it is {state:?}"))
}

async fn terminate_stopped(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let off = State::Stopped(Halt::Off);
    act_and_wait(bench, &machine, Verb::Stop, off).await?;
    bench.destroy(&machine).await
}

async fn terminates(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let state = bench.act(&machine, Verb::Terminate).await?;
    ensure(state.is_ending(), || format!("it is {state}"))?;
    bench.destroy_unless_shared(&machine).await
}

async fn start_after_the_end(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    bench.destroy(&machine).await?;
    match bench.provider.act(&machine, Verb::Start).await {
        Err(error) => ensure(
            matches!(error.class, FailureClass::NotFound | FailureClass::Refused),
            || super::bench::text(&error),
        ),
        Ok(state) => Err(format!("it is {state}")),
    }
}

async fn stop_of_another(bench: &Bench<'_>) -> CaseResult {
    let machine = bench.running().await?;
    let mut other = machine.clone();
    other.mark = bench.order().mark;
    let done = bench.provider.act(&other, Verb::Stop).await;
    expect_class(done, FailureClass::Refused)?;
    let state = bench.state(&machine).await?;
    ensure(state == Some(State::Running), || format!("it is {state:?}"))
}

/// Whatever the provider can do with others, and says that it cannot do with this machine.
async fn refuses_what_it_lacks(bench: &Bench<'_>, order: Order) -> CaseResult {
    let made = bench.provision(&order).await?;
    let machine = Owned {
        resource: made.resource,
        mark: order.mark,
    };
    let running = |state| state == Some(State::Running);
    bench.wait(&machine, "running", running).await?;
    let of_all = bench.provider.profile().verbs;
    let described = bench.provider.describe(&machine).await;
    let described = described.map_err(|error| super::bench::text(&error))?;
    let own = described.ok_or("it is not described")?.verbs;
    let listed = bench.list().await?;
    let same = listed.iter().all(|it| it.verbs == own);
    ensure(same, || format!("{own:?} and not {listed:?}"))?;
    let lacking: Vec<Verb> = of_all.iter().filter(|&verb| !own.has(verb)).collect();
    if lacking.is_empty() {
        bench.skip("it offers whatever its provider can do");
    }
    for verb in lacking {
        match bench.provider.act(&machine, verb).await {
            Err(error) if error.class == FailureClass::Refused => {}
            // What a running machine need not do for a verb, a provider may also call done.
            Ok(State::Running) if matches!(verb, Verb::Start | Verb::Resume) => {}
            other => return Err(format!("{verb}: {other:?}")),
        }
        let state = bench.state(&machine).await?;
        ensure(state == Some(State::Running), || {
            format!("{verb}: it is {state:?}")
        })?;
    }
    Ok(())
}

async fn unsupported(bench: &Bench<'_>, verb: Verb) -> CaseResult {
    let machine = bench.running().await?;
    let done = bench.provider.act(&machine, verb).await;
    // What a running machine need not do for a verb, a provider may also call done.
    if let (Verb::Start | Verb::Resume, Ok(State::Running)) = (verb, &done) {
        return Ok(());
    }
    expect_class(done, FailureClass::Unsupported)?;
    let state = bench.state(&machine).await?;
    ensure(state == Some(State::Running), || format!("it is {state:?}"))
}
