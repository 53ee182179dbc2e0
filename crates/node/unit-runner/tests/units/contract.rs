//! What every runner promises, tried on each of them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_unit_runner::{
    MainProcess, Restart, UnitEnd, UnitEvent, UnitName, UnitRunner, UnitSpec, UnitState,
};
use tokio::sync::mpsc;

/// For everything that takes a moment, on a machine that may be busy.
pub(crate) const TIME: Duration = Duration::from_secs(60);
const PREFIX: &str = "case";

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(TIME * 2, future)
            .await
            .expect("it ends")
    })
}

pub(crate) fn shell(name: &str, script: &str) -> UnitSpec {
    UnitSpec {
        name: UnitName::new(format!("{PREFIX}-{name}.service")).expect("a name"),
        description: format!("Case {name}"),
        main: MainProcess::Command,
        start: vec!["/bin/sh".into(), "-c".into(), script.into()],
        after_end: Vec::new(),
        restart: Restart {
            delay: Duration::from_millis(50),
            burst: 3,
            interval: Duration::from_secs(60),
        },
        start_timeout: TIME,
        stop_timeout: TIME,
    }
}

/// Reads events until one of the unit is as wanted; gives all states that were told about it.
pub(crate) async fn until(
    events: &mut mpsc::Receiver<UnitEvent>,
    unit: &UnitName,
    is_wanted: impl Fn(&UnitState) -> bool,
) -> Vec<UnitState> {
    let mut told = Vec::new();
    loop {
        let event = tokio::time::timeout(TIME, events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing more after {told:?}"));
        let event = event.expect("the watch goes on");
        if event.unit == *unit {
            let enough = is_wanted(&event.state);
            told.push(event.state);
            if enough {
                return told;
            }
        }
    }
}

fn is_ended(state: &UnitState) -> bool {
    matches!(state, UnitState::Ended(_))
}

async fn pid_of(runner: &dyn UnitRunner, unit: &UnitName) -> u32 {
    let units = runner.list(PREFIX.into()).await.expect("a list");
    let found = units.into_iter().find(|(name, _)| name == unit);
    found.map_or(0, |(_, look)| look.main_pid)
}

async fn names(runner: &dyn UnitRunner) -> Vec<String> {
    let units = runner.list(PREFIX.into()).await.expect("a list");
    units
        .into_iter()
        .map(|(name, _)| name.to_string())
        .collect()
}

fn read(root: &Path, file: &str) -> String {
    std::fs::read_to_string(root.join(file)).expect("its file")
}

/// All of it, on one machine: a boot is most of the time that a test takes.
pub(crate) async fn holds(runner: Arc<dyn UnitRunner>, root: &Path) {
    let mut events = runner.watch(PREFIX.into());
    starts_stops_and_leaves_nothing(&*runner, &mut events).await;
    kills_what_does_not_end(&*runner, &mut events).await;
    restarts_what_ends_well(&*runner, &mut events, root).await;
    restarts_until_it_is_too_often(&*runner, &mut events, root).await;
    says_why_a_start_failed(&*runner).await;
    knows_a_process_by_its_file(&*runner, &mut events, root).await;
    assert_eq!(names(&*runner).await, Vec::<String>::new());
}

async fn starts_stops_and_leaves_nothing(
    runner: &dyn UnitRunner,
    events: &mut mpsc::Receiver<UnitEvent>,
) {
    let unit = shell("plain", "exec sleep 1000");
    runner.start(unit.clone()).await.expect("it starts");
    until(events, &unit.name, |state| *state == UnitState::Running).await;
    let pid = pid_of(runner, &unit.name).await;
    assert_ne!(pid, 0);
    runner
        .start(unit.clone())
        .await
        .expect("it was started already");
    assert_eq!(pid_of(runner, &unit.name).await, pid, "started twice");
    let begun = Instant::now();
    runner.stop(unit.name.clone(), TIME).await.expect("it ends");
    assert!(begun.elapsed() < TIME, "a SIGTERM was enough");
    until(events, &unit.name, is_ended).await;
    runner
        .stop(unit.name.clone(), TIME)
        .await
        .expect("nothing to do");
    assert_eq!(names(runner).await, Vec::<String>::new());
}

async fn kills_what_does_not_end(runner: &dyn UnitRunner, events: &mut mpsc::Receiver<UnitEvent>) {
    let unit = shell("deaf", "trap '' TERM; while :; do sleep 1; done");
    runner.start(unit.clone()).await.expect("it starts");
    until(events, &unit.name, |state| *state == UnitState::Running).await;
    let grace = Duration::from_millis(300);
    let begun = Instant::now();
    runner
        .stop(unit.name.clone(), grace)
        .await
        .expect("it is killed");
    assert!(begun.elapsed() >= grace, "it was given its time");
    until(events, &unit.name, is_ended).await;
}

async fn restarts_what_ends_well(
    runner: &dyn UnitRunner,
    events: &mut mpsc::Receiver<UnitEvent>,
    root: &Path,
) {
    let unit = shell("short", "echo once >>/run/well; sleep 0.2; exit 0");
    runner.start(unit.clone()).await.expect("it starts");
    let told = until(events, &unit.name, is_ended).await;
    let again = |state: &UnitState| {
        matches!(
            state,
            UnitState::Restarting {
                last: UnitEnd::Exited(0),
                ..
            }
        )
    };
    assert!(told.iter().any(again), "{told:?}");
    assert_eq!(told.last(), Some(&UnitState::Ended(UnitEnd::Exited(0))));
    assert_eq!(read(root, "run/well"), "once\n".repeat(3));
    runner
        .stop(unit.name, TIME)
        .await
        .expect("it is cleared away");
}

async fn restarts_until_it_is_too_often(
    runner: &dyn UnitRunner,
    events: &mut mpsc::Receiver<UnitEvent>,
    root: &Path,
) {
    // Words with everything in them that an init system could take for its own: they arrive as they are.
    let script = "echo \"$0 100%\" >>/run/starts; sleep 0.2; exit 7";
    let unit = shell("loop", script);
    runner.start(unit.clone()).await.expect("it starts");
    let told = until(events, &unit.name, is_ended).await;
    assert_eq!(told.last(), Some(&UnitState::Ended(UnitEnd::Exited(7))));
    let again = |state: &UnitState| {
        matches!(
            state,
            UnitState::Restarting {
                last: UnitEnd::Exited(7),
                ..
            }
        )
    };
    assert!(told.iter().any(again), "{told:?}");
    assert_eq!(read(root, "run/starts"), "/bin/sh 100%\n".repeat(3));
    assert_eq!(
        names(runner).await,
        [unit.name.to_string()],
        "a failure stays to be seen"
    );
    runner
        .stop(unit.name, TIME)
        .await
        .expect("it is cleared away");
}

async fn says_why_a_start_failed(runner: &dyn UnitRunner) {
    let mut unit = shell("none", "");
    unit.start = vec!["/nowhere/program".into()];
    let error = runner
        .start(unit)
        .await
        .expect_err("there is no such program");
    assert!(
        error
            .to_string()
            .starts_with("unit case-none.service did not start: "),
        "{error}"
    );
    assert_eq!(names(runner).await, Vec::<String>::new());
}

async fn knows_a_process_by_its_file(
    runner: &dyn UnitRunner,
    events: &mut mpsc::Receiver<UnitEvent>,
    root: &Path,
) {
    let mut unit = shell("fork", "sleep 1000 & echo $! >/run/fork.pid");
    unit.main = MainProcess::Named {
        pid_file: "/run/fork.pid".into(),
    };
    let record = "echo $EXIT_CODE $EXIT_STATUS $SERVICE_RESULT >/run/ended";
    unit.after_end = vec!["/bin/sh".into(), "-c".into(), record.into()];
    unit.restart.burst = 1;
    runner.start(unit.clone()).await.expect("it starts");
    let pid = read(root, "run/fork.pid");
    assert_eq!(pid_of(runner, &unit.name).await.to_string(), pid.trim());
    // By a unit too: its number is one of the machine's.
    let killer = shell("killer", "exec kill -KILL $(cat /run/fork.pid)");
    runner.start(killer.clone()).await.expect("it starts");
    until(events, &unit.name, is_ended).await;
    runner
        .stop(killer.name, TIME)
        .await
        .expect("it is not started again");
    // How a process ended that was known by its file, core leaves to this command to tell.
    assert_eq!(read(root, "run/ended"), "killed KILL signal\n");
    runner
        .stop(unit.name, TIME)
        .await
        .expect("it is cleared away");
}
