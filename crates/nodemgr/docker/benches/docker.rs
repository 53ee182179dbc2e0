//! A machine from the order to its end (provision, one command, destroy), beside what Docker's own client does for the same: `run`,
//! `exec`, `rm`. The rounds alternate, so that all see the same machine; the run fails when a ratio misses its target.
//!
//! Muster is measured twice: through the registry and the executor in this process, which is what making a machine costs, and as
//! somebody at a terminal has it, by three runs of `muster machine` that call a node manager, as Docker's client calls its engine.
//! Those promise more than Docker's client does: every step is on disk before it is taken, and a machine is there when it has
//! answered.

#[path = "../tests/docker/rig.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod rig;

use std::path::PathBuf;
use std::process::{Command as Process, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_docker::{DockerExecutor, Endpoint, Engine};
use muster_executor::{Command, Executor as _};
use muster_lab::machine::{Binaries, Build};
use muster_lab::preflight::{Need, ready};
use muster_lab::program::Program;
use muster_lifecycle::State;
use muster_machines::{MachineOrder, Machines, Parts, SCHEMA, Settings};
use muster_provider::{ManagerId, ProviderId, Purchase, SystemClock};
use muster_store::{OnDamage, Store, StoreConfig};

use rig::{Docker, IMAGE, PATIENCE, spec};

const ROUNDS: usize = 15;
const MUSTER: &str = "muster";
const MANAGER: &str = "muster-nodemgr";
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
        asked: None,
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

/// A node manager, and the program that calls it.
struct Daemon {
    folder: tempfile::TempDir,
    muster: PathBuf,
    process: muster_lab::program::Process,
}

impl Daemon {
    fn start(docker: &Docker, programs: &Binaries) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let Endpoint::Unix(socket) = docker.endpoint() else {
            panic!("the engine of a test has a socket");
        };
        let config = serde_json::json!({
            "stateDir": "state",
            "socket": "nodemgr.sock",
            "templates": ["templates.yaml"],
            "providers": {
                "docker": { "endpoint": format!("unix://{}", socket.display()) },
                "local": { "enabled": false },
            },
        });
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("written");
        };
        write("nodemgr.json", &config.to_string());
        write("templates.yaml", &format!("name: bench\nimage: {IMAGE}\n"));
        let program = Program::new(programs.path(MANAGER))
            .arg("--config")
            .arg(folder.path().join("nodemgr.json"))
            .env("DOCKER_HOST", "");
        let mut process = program.start().expect("started");
        process.wait_for_line(" ready", PATIENCE).expect("ready");
        Self {
            muster: programs.path(MUSTER),
            folder,
            process,
        }
    }

    fn machine(&self, words: &[&str]) -> String {
        let done = Process::new(&self.muster)
            .arg("machine")
            .args(words)
            .env("MUSTER_MANAGER", self.folder.path().join("nodemgr.sock"))
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {said}");
        String::from_utf8(done.stdout)
            .expect("text")
            .trim()
            .to_owned()
    }

    fn round(&self) -> Duration {
        let begun = Instant::now();
        self.machine(&["provision", "-t", "bench", "--name", "bench"]);
        assert_eq!(
            self.machine(&["exec", "bench", "--", "echo", "hello"]),
            "hello"
        );
        self.machine(&["destroy", "bench"]);
        begun.elapsed()
    }

    fn end(mut self) {
        self.process.terminate(PATIENCE).expect("it ends");
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Medians of what one round takes.
struct Times {
    client: Duration,
    library: Duration,
    commands: Duration,
}

async fn measure(docker: &Docker, programs: &Binaries) -> Times {
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
    let daemon = Daemon::start(docker, programs);
    let (mut library, mut theirs, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let times = (
            muster(&machines, &engine).await,
            client(docker),
            daemon.round(),
        );
        if round > 0 {
            library.push(times.0);
            theirs.push(times.1);
            commands.push(times.2);
        }
    }
    daemon.end();
    drop(machines);
    task.await.expect("the registry ends");
    Times {
        client: median(theirs),
        library: median(library),
        commands: median(commands),
    }
}

fn main() -> ExitCode {
    if !ready("docker", &[Need::Root]) {
        return ExitCode::SUCCESS;
    }
    // Whoever may measure and cannot has measured nothing.
    if !ready(
        "docker",
        &[Need::File("/usr/sbin/dockerd"), Need::Tool("docker")],
    ) {
        return ExitCode::FAILURE;
    }
    let docker = Docker::start();
    let programs = [("muster-cli", MUSTER), ("muster-nodemgr", MANAGER)];
    let programs = Binaries::build(Build::Bench, &programs, &[]).expect("programs");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let times = runtime.block_on(measure(&docker, &programs));
    println!("provision, exec, destroy (median of {ROUNDS})           ratio");
    let show = |name: &str, time: Duration| {
        let percent = time.as_micros() * 100 / times.client.as_micros().max(1);
        println!(
            "  {name:<32} {:8.1} ms {percent:6} %",
            time.as_secs_f64() * 1e3
        );
        percent <= TARGET
    };
    show("docker run, exec, rm", times.client);
    let library = show("muster, in one process", times.library);
    let commands = show("muster machine, three commands", times.commands);
    println!("  target {TARGET} %");
    match library && commands {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
