//! A machine from the order to its end (provision, one command, destroy), through the registry and the executor, beside what
//! Docker's own client does for the same: `run`, `exec`, `rm`. The rounds alternate, so that both see the same machine; the
//! run fails when the ratio misses its target.

#[path = "../tests/docker/rig.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod rig;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_docker::{DockerExecutor, Engine};
use muster_executor::{Command, Executor as _};
use muster_lifecycle::State;
use muster_machines::{MachineOrder, Machines, Parts, SCHEMA, Settings};
use muster_provider::{ManagerId, ProviderId, Purchase, SystemClock};
use muster_store::{OnDamage, Store, StoreConfig};

use rig::{Docker, IMAGE, spec};

const ROUNDS: usize = 15;
/// Percent of the client's time.
const TARGET: u128 = 125;

fn order() -> MachineOrder {
    MachineOrder {
        provider: ProviderId::Docker,
        template: "bench".to_owned(),
        spec: spec(),
        purchase: Purchase::OnDemand,
        labels: Default::default(),
        timers: Default::default(),
        key: None,
    }
}

async fn muster(machines: &Machines, engine: &Engine) -> Duration {
    let begun = Instant::now();
    let record = machines.provision(order()).await.expect("it is made");
    let resource = record.made().expect("it runs").resource.clone();
    let executor = DockerExecutor::new(engine.clone(), resource);
    let command = Command::new("echo").arg("hello");
    let output = executor
        .run(&command)
        .await
        .expect("it starts")
        .output(64)
        .await;
    assert_eq!(output.expect("it ends").stdout, b"hello\n");
    machines.destroy(&record.id).await.expect("it is known");
    let gone = machines.wait_until(&record.id, |state| state == State::Terminated);
    gone.await.expect("it goes");
    begun.elapsed()
}

fn client(docker: &Docker) -> Duration {
    let begun = Instant::now();
    docker.cli(&[
        "run", "--detach", "--init", "--name", "bench", IMAGE, "sleep", "infinity",
    ]);
    assert_eq!(docker.cli(&["exec", "bench", "echo", "hello"]), "hello");
    docker.cli(&["rm", "--force", "bench"]);
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn measure(docker: &Docker) -> (Duration, Duration) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("machines.db");
    let config = StoreConfig::new(path, "bench", OnDamage::Refuse).schema(&SCHEMA);
    let store = Store::open(&config).expect("the database opens").store;
    let engine = docker.engine();
    let parts = Parts {
        store,
        manager: ManagerId::random(),
        providers: vec![Arc::new(docker.provider())],
        clock: Arc::new(SystemClock),
        keys: None,
    };
    let started = Machines::start(parts, Settings::default()).await;
    let (machines, task) = started.expect("the registry starts");
    let task = tokio::spawn(task);
    // The first of each is not counted: caches are cold.
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = (muster(&machines, &engine).await, client(docker));
        if round > 0 {
            ours.push(times.0);
            theirs.push(times.1);
        }
    }
    drop(machines);
    task.await.expect("the registry ends");
    (median(ours), median(theirs))
}

fn main() -> ExitCode {
    if !muster_lab::preflight::ready(
        "docker",
        &[
            muster_lab::preflight::Need::Root,
            muster_lab::preflight::Need::File("/usr/sbin/dockerd"),
            muster_lab::preflight::Need::Tool("docker"),
        ],
    ) {
        return ExitCode::SUCCESS;
    }
    let docker = Docker::start();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let (ours, theirs) = runtime.block_on(measure(&docker));
    let percent = ours.as_micros() * 100 / theirs.as_micros().max(1);
    println!("provision, exec, destroy (median of {ROUNDS})");
    println!(
        "  docker run + exec + rm  {:8.1} ms",
        theirs.as_secs_f64() * 1e3
    );
    println!(
        "  muster                  {:8.1} ms",
        ours.as_secs_f64() * 1e3
    );
    println!("  ratio                   {percent:7} % (target {TARGET} %)");
    match percent <= TARGET {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
