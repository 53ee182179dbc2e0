//! An orchestrator with a registry on a simulated cloud, and machines that only pretend.

use std::sync::Arc;
use std::time::Duration;

use muster_lifecycle::State;
use muster_machines::Machines;
use muster_orchestrate::{
    Entry, Format, Job, Limits, Parts, Reach, RunId, RunOrder, RunOutcome, Runs, Settings, Workflow,
};
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::{MachineId, ManagerId, SystemClock};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;

pub(crate) use muster_machines::testing::{eventually, in_time};

use crate::fake::{Deeds, FakeReach, SimChooser};

/// What outlives a manager.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) cloud: SimCloud,
    pub(crate) deeds: Deeds,
    /// How many probes machines do not answer.
    pub(crate) silent: u32,
    pub(crate) settings: Settings,
}

/// A manager.
pub(crate) struct Manager {
    pub(crate) machines: Machines,
    pub(crate) runs: Runs,
    store: Store,
    tasks: [JoinHandle<()>; 2],
}

/// Fast, so that a test need not wait.
fn quick() -> muster_machines::Settings {
    muster_machines::Settings {
        poll: Duration::from_millis(1),
        sweep: Duration::from_millis(20),
        retry: Duration::from_millis(1),
        retry_longest: Duration::from_millis(4),
        settle: Duration::ZERO,
        ..muster_machines::Settings::default()
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(SimSettings::default())
    }

    pub(crate) fn with(cloud: SimSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            probe: Duration::from_millis(1),
            probe_longest: Duration::from_millis(4),
            ..Settings::new(folder.path().join("runs"))
        };
        Self {
            cloud: SimCloud::new(cloud),
            deeds: Deeds::new(&folder.path().join("deeds")),
            silent: 0,
            settings,
            folder,
        }
    }

    pub(crate) async fn start(&self) -> Manager {
        let reach = FakeReach::new(self.deeds.clone(), self.silent);
        self.start_with(Arc::new(reach)).await
    }

    pub(crate) async fn start_with(&self, reach: Arc<dyn Reach>) -> Manager {
        let path = self.folder.path().join("state/machines.db");
        let config = StoreConfig::new(path, "test", OnDamage::Refuse)
            .schema(&muster_machines::SCHEMA)
            .schema(&muster_orchestrate::SCHEMA);
        let store = Store::open(&config).unwrap().store;
        let clock = Arc::new(SystemClock);
        let parts = muster_machines::Parts {
            store: store.clone(),
            manager: ManagerId::new("manager").unwrap(),
            providers: vec![Arc::new(self.cloud.provider())],
            clock: clock.clone(),
            keys: None,
        };
        let (machines, registry) = Machines::start(parts, quick()).await.unwrap();
        let registry = tokio::spawn(registry);
        let parts = Parts {
            store: store.clone(),
            machines: machines.clone(),
            chooser: Arc::new(SimChooser),
            reach,
            clock,
            settings: self.settings.clone(),
        };
        let (runs, task) = Runs::start(parts).await.unwrap();
        Manager {
            machines,
            runs,
            store,
            tasks: [tokio::spawn(task), registry],
        }
    }

    /// How many machines the cloud has.
    pub(crate) fn machines(&self) -> usize {
        self.cloud.machines().len()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Manager {
    /// Ends it in the middle of whatever it does.
    pub(crate) async fn die(self) {
        for task in &self.tasks {
            task.abort();
        }
        let store = self.store.clone();
        drop(self);
        store.close().await.unwrap();
    }

    pub(crate) async fn begin(&self, text: &str) -> RunId {
        let workflow = workflow(text);
        let order = RunOrder {
            workflow,
            key: None,
        };
        in_time(self.runs.begin(order)).await.unwrap()
    }

    pub(crate) async fn wait(&self, run: &RunId) -> RunOutcome {
        in_time(self.runs.wait(run)).await.unwrap()
    }

    pub(crate) async fn carry_out(&self, text: &str) -> (RunId, RunOutcome) {
        let run = self.begin(text).await;
        let outcome = self.wait(&run).await;
        (run, outcome)
    }

    /// Everything that happened in a run.
    pub(crate) async fn journal(&self, run: &RunId) -> Vec<Entry> {
        let events = self.runs.events_after(Some(run), 0, 10_000).await.unwrap();
        events.into_iter().map(|event| event.what).collect()
    }

    /// The jobs that were begun, in their order.
    pub(crate) async fn begun(&self, run: &RunId) -> Vec<String> {
        let journal = self.journal(run).await;
        let begun = journal.into_iter().filter_map(|entry| match entry {
            Entry::Begun { job, .. } => Some(job.to_string()),
            _ => None,
        });
        begun.collect()
    }

    pub(crate) async fn machine(&self, run: &RunId, slot: &str) -> MachineId {
        let view = self.runs.show(run).await.unwrap();
        view.machines[&slot.parse().unwrap()].clone()
    }

    pub(crate) fn state(&self, id: &MachineId) -> State {
        self.machines.get(id).unwrap().record().state()
    }

    /// What a run's commands wrote, all streams together.
    pub(crate) async fn log(&self, run: &RunId) -> String {
        let page = self.runs.log(run, 0).await.unwrap();
        page.records.into_iter().map(|record| record.text).collect()
    }

    /// Waits until a job is under way.
    pub(crate) async fn until_running(&self, run: &RunId, job: &Job) {
        let running = async {
            loop {
                let view = self.runs.show(run).await.unwrap();
                if view.jobs[job].is_running() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        in_time(running).await;
    }
}

pub(crate) fn workflow(text: &str) -> Workflow {
    let read = Workflow::read("w", Format::Yaml, text.as_bytes(), &Limits::default());
    read.unwrap_or_else(|error| panic!("{error:?}"))
}

/// A workflow of one machine with one command for each step.
pub(crate) fn steps(words: &[&str]) -> String {
    let steps = words.iter().enumerate().map(|(nth, words)| {
        let words: Vec<String> = words.split(' ').map(|word| format!("'{word}'")).collect();
        format!(
            "- {{name: s{nth}, actions: [{{run: {{command: [do, {}]}}}}]}}\n",
            words.join(", ")
        )
    });
    let steps: String = steps.collect();
    format!("name: test\nmachines: {{a: {{template: t}}}}\nsteps:\n{steps}")
}

pub(crate) fn work(step: &str) -> Job {
    Job::Work {
        step: step.into(),
        slot: "a/0".parse().unwrap(),
    }
}
