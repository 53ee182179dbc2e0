//! Runs that are ordered twice, listed, watched and forgotten.

use std::time::Duration;

use muster_orchestrate::{BeginError, Entry, JobPhase, RunError, RunId, RunOrder, RunOutcome};

use crate::rig::{World, eventually, in_time, steps, work, workflow};

fn keyed(text: &str, key: &str) -> RunOrder {
    RunOrder {
        workflow: workflow(text),
        key: Some(key.to_owned()),
    }
}

#[tokio::test]
async fn the_same_key_gives_the_same_run_across_restarts() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["say once"]);
    let first = manager.runs.begin(keyed(&text, "k")).await.unwrap();
    manager.wait(&first).await;
    manager.die().await;
    let manager = world.start().await;
    assert_eq!(
        manager.runs.begin(keyed(&text, "k")).await,
        Ok(first.clone())
    );
    let other = manager.runs.begin(keyed(&steps(&["say other"]), "k")).await;
    let (key, run) = ("k".to_owned(), first.clone());
    assert_eq!(other, Err(BeginError::KeyUsed { key, run }));
    assert_eq!(world.deeds.count("say once"), 1);
    manager.runs.remove(&first).await.unwrap();
    let second = manager.runs.begin(keyed(&text, "k")).await.unwrap();
    assert_ne!(second, first, "what is forgotten is forgotten");
}

#[tokio::test]
async fn a_key_is_free_for_whoever_asks_in_the_moment_that_its_run_is_removed() {
    let world = World::new();
    let manager = world.start().await;
    let text = steps(&["ok"]);
    let first = manager.runs.begin(keyed(&text, "k")).await.unwrap();
    manager.wait(&first).await;
    // Both are there before either is answered, and are written down together.
    let both = async {
        tokio::join!(
            manager.runs.remove(&first),
            manager.runs.begin(keyed(&text, "k"))
        )
    };
    let (removed, second) = in_time(both).await;
    removed.unwrap();
    let second = second.unwrap();
    assert_ne!(second, first);
    assert!(manager.wait(&second).await.is_success());
}

#[tokio::test]
async fn runs_are_listed_shown_and_removed_with_their_logs() {
    let world = World::new();
    let manager = world.start().await;
    let (first, _) = manager.carry_out(&steps(&["say hello"])).await;
    let second = manager.begin(&steps(&["hang"])).await;
    manager.until_running(&second, &work("s0")).await;
    let listed = manager.runs.list(10).await.unwrap();
    let over: Vec<_> = listed
        .iter()
        .map(|it| (it.id.clone(), it.over.is_some()))
        .collect();
    assert_eq!(over.len(), 2);
    assert!(over.contains(&(first.clone(), true)) && over.contains(&(second.clone(), false)));
    let view = manager.runs.show(&first).await.unwrap();
    assert_eq!(view.jobs[&work("s0")].phase, JobPhase::Done);
    assert_eq!(view.workflow.name(), "test");

    let folder = world.settings.folder.join(first.as_str());
    assert!(folder.is_dir());
    assert!(matches!(
        manager.runs.remove(&second).await,
        Err(RunError::UnderWay(_))
    ));
    manager.runs.remove(&first).await.unwrap();
    assert!(matches!(
        manager.runs.show(&first).await,
        Err(RunError::Unknown(_))
    ));
    assert!(matches!(
        manager.runs.remove(&first).await,
        Err(RunError::Unknown(_))
    ));
    eventually(|| !folder.exists()).await;
    let unknown: RunId = "r-0".parse().unwrap();
    assert!(matches!(
        manager.runs.cancel(&unknown).await,
        Err(RunError::Unknown(_))
    ));
    assert!(matches!(
        manager.runs.wait(&unknown).await,
        Err(RunError::Unknown(_))
    ));
}

#[tokio::test]
async fn old_runs_are_forgotten_and_numbers_of_events_are_never_used_twice() {
    let mut world = World::new();
    world.settings.keep_runs = 2;
    let manager = world.start().await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(manager.carry_out(&steps(&["ok"])).await.0);
    }
    let last = manager.runs.events_after(None, 0, 1000).await.unwrap();
    let last = last.last().unwrap().number;
    let kept = async {
        while manager.runs.list(10).await.unwrap().len() > 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    in_time(kept).await;
    for run in runs {
        let _ = manager.runs.remove(&run).await;
    }
    assert_eq!(manager.runs.list(10).await.unwrap(), []);
    manager.die().await;
    let manager = world.start().await;
    let run = manager.begin(&steps(&["ok"])).await;
    manager.wait(&run).await;
    let events = manager.runs.events_after(None, 0, 1000).await.unwrap();
    assert!(events[0].number > last, "{} after {last}", events[0].number);
}

#[tokio::test]
async fn events_are_told_in_order_and_only_when_they_are_durable() {
    let world = World::new();
    let manager = world.start().await;
    let mut told = manager.runs.events().unwrap();
    let run = manager.begin(&steps(&["say x"])).await;
    let mut heard = Vec::new();
    loop {
        let event = in_time(told.recv()).await.unwrap();
        let durable = manager
            .runs
            .events_after(Some(&run), event.number - 1, 1)
            .await
            .unwrap();
        assert_eq!(durable, std::slice::from_ref(&event));
        let over = matches!(event.what, Entry::Over { .. });
        if let Entry::Ended { job, .. } = &event.what
            && job.step().is_some()
        {
            assert!(
                manager.log(&run).await.contains('x'),
                "the log is there before the end"
            );
        }
        heard.push(event);
        if over {
            break;
        }
    }
    assert_eq!(
        heard,
        manager
            .runs
            .events_after(Some(&run), 0, 1000)
            .await
            .unwrap()
    );
    assert_eq!(heard[0].what, Entry::Accepted);
}

#[tokio::test]
async fn more_runs_than_allowed_are_refused() {
    let mut world = World::new();
    world.settings.runs = 1;
    let manager = world.start().await;
    let run = manager.begin(&steps(&["hang"])).await;
    let order = RunOrder {
        workflow: workflow(&steps(&["ok"])),
        key: None,
    };
    assert_eq!(
        manager.runs.begin(order.clone()).await,
        Err(BeginError::TooMany(1))
    );
    manager.runs.cancel(&run).await.unwrap();
    assert_eq!(manager.wait(&run).await, RunOutcome::Cancelled);
    assert!(manager.runs.begin(order).await.is_ok());
}

#[tokio::test]
async fn a_log_without_a_run_is_swept_away_at_the_start_and_nothing_else_is() {
    let world = World::new();
    let stray = world.settings.folder.join("r-0123456789abcdef");
    let other = world.settings.folder.join("notes");
    std::fs::create_dir_all(&stray).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    let _manager = world.start().await;
    assert!(!stray.exists());
    assert!(other.exists());
}
