//! Machines of a simulated cloud, with a door that tests open and close.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use muster_executor::files::Files;
use muster_executor::local::LocalExecutor;
use muster_executor::{
    Answer, Attached, Capabilities, Command, Executor, FailureClass, Operation, Running, TcpLike,
    Terminal,
};
use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::{Moment, Reason};
use muster_machines::testing::in_time;
use muster_machines::{ClaimError, Machine, Parts, Pool, Record, SCHEMA, Settings};
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::{
    Capability, MachineSpec, ManagerId, Means, ProviderId, SystemClock, Transport,
};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;

fn pace() -> Pace {
    Pace {
        at_once: 2,
        ..Pace::default()
    }
}

fn id(name: &str) -> MachineId {
    MachineId::new(name).unwrap()
}

fn all(contact: Contact, names: &[&str]) -> BTreeMap<MachineId, Contact> {
    names.iter().map(|name| (id(name), contact)).collect()
}

#[test]
fn a_few_are_tried_at_once_and_none_is_forgotten() {
    let (pace, now) = (pace(), Instant::now());
    let mut contacts = Contacts::default();
    contacts.follow(all(Contact::Untried, &["a", "b", "c"]), now);
    assert_eq!(contacts.begin(&pace, now), [id("a"), id("b")]);
    assert_eq!(contacts.begin(&pace, now), []);
    let known = contacts.end(&id("a"), true, Contact::Untried, &pace, now);
    assert_eq!(known, Some(true));
    assert_eq!(contacts.begin(&pace, now), [id("c")]);
    // One that answers is asked again after a while, and one that nobody counts on is not.
    contacts.end(&id("b"), true, Contact::Untried, &pace, now);
    contacts.end(&id("c"), true, Contact::Untried, &pace, now);
    contacts.follow(all(Contact::Answers, &["b"]), now);
    assert_eq!(contacts.deadline(), Some(now + pace.again));
    assert_eq!(contacts.begin(&pace, now + pace.again), [id("b")]);
}

#[test]
fn one_that_boots_is_tried_later_and_later_and_is_silent_in_the_end() {
    let (pace, begun) = (pace(), Instant::now());
    let mut contacts = Contacts::default();
    let mut now = begun;
    let mut waits = Vec::new();
    loop {
        contacts.follow(all(Contact::Untried, &["a"]), now);
        assert_eq!(contacts.begin(&pace, now), [id("a")]);
        let known = contacts.end(&id("a"), false, Contact::Untried, &pace, now);
        if known.is_some() {
            assert_eq!(known, Some(false));
            break;
        }
        let next = contacts.deadline().unwrap();
        waits.push(next - now);
        now = next;
    }
    assert!(now - begun >= pace.boot && now - begun < pace.boot + 2 * pace.pause_longest);
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits.first(), Some(&pace.pause));
    assert_eq!(waits.last(), Some(&pace.pause_longest));
    // It is tried all the same, for as long as it is there.
    contacts.begin(&pace, contacts.deadline().unwrap());
    contacts.end(
        &id("a"),
        false,
        Contact::Silent(Moment::from_millis(9)),
        &pace,
        now,
    );
    assert_eq!(contacts.deadline(), Some(now + pace.pause_silent));
}

#[test]
fn one_that_has_answered_is_silent_after_less_time_than_one_that_boots() {
    let (pace, now) = (pace(), Instant::now());
    let mut contacts = Contacts::default();
    contacts.follow(all(Contact::Untried, &["a"]), now);
    contacts.begin(&pace, now);
    contacts.end(&id("a"), true, Contact::Untried, &pace, now);
    let later = now + pace.again;
    contacts.begin(&pace, later);
    let known = contacts.end(&id("a"), false, Contact::Answers, &pace, later);
    assert_eq!(known, Some(false), "it said nothing for longer than that");
    // One that runs anew is not left alone until it would be tried again.
    contacts.end(
        &id("a"),
        true,
        Contact::Silent(Moment::from_millis(9)),
        &pace,
        later,
    );
    contacts.follow(all(Contact::Untried, &["a"]), later);
    assert!(contacts.deadline().unwrap() <= later + SOON);
}

/// Machines of which some do not answer.
#[derive(Debug, Clone, Default)]
struct Doors {
    /// So many tries are refused.
    refusals: Arc<AtomicU32>,
    class: Option<FailureClass>,
}

impl Reach for Doors {
    fn reach<'a>(&'a self, _: &'a Record) -> BoxFuture<'a, Result<Arc<dyn Executor>, ReachError>> {
        let executor: Arc<dyn Executor> = Arc::new(Door(self.clone(), LocalExecutor::new()));
        std::future::ready(Ok(executor)).boxed()
    }
}

#[derive(Debug)]
struct Door(Doors, LocalExecutor);

impl Executor for Door {
    fn access(&self) -> Capabilities {
        self.1.access()
    }

    fn run<'a>(&'a self, command: &'a Command) -> Answer<'a, Running> {
        let left = &self.0.refusals;
        let refused = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1));
        if refused.is_err() {
            return self.1.run(command);
        }
        let class = self.0.class.unwrap_or(FailureClass::Unreachable);
        let error = ExecutorError::new(Operation::Run, "true", class, "not yet");
        Box::pin(async move { Err(error) })
    }

    fn attach<'a>(
        &'a self,
        command: Option<&'a Command>,
        terminal: &'a Terminal,
    ) -> Answer<'a, Attached> {
        self.1.attach(command, terminal)
    }

    fn files<'a>(&'a self, folder: &'a Path) -> Answer<'a, Arc<dyn Files>> {
        self.1.files(folder)
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Answer<'a, Box<dyn TcpLike>> {
        self.1.connect(host, port)
    }
}

struct Rig {
    machines: Machines,
    cloud: SimCloud,
    doors: Doors,
    tasks: Vec<JoinHandle<()>>,
    _folder: TempDir,
}

impl Drop for Rig {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Rig {
    /// With a pool of one, of whose machines so many tries are refused.
    async fn new(refusals: u32, class: FailureClass, pace: Pace) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machines.db");
        let config = StoreConfig::new(path, "test", OnDamage::Refuse).schema(&SCHEMA);
        let exec = Capability::new(Transport::Ssh, Means::Exec);
        let cloud = SimCloud::new(SimSettings {
            access: [exec].into_iter().collect(),
            ..SimSettings::default()
        });
        let parts = Parts {
            store: Store::open(&config).unwrap().store,
            manager: ManagerId::new("manager").unwrap(),
            providers: vec![Arc::new(cloud.provider())],
            clock: Arc::new(SystemClock),
            keys: None,
        };
        let settings = Settings {
            poll: Duration::from_millis(1),
            silence: Duration::from_millis(1),
            ..Settings::default()
        };
        let (machines, task) = Machines::start(parts, settings).await.unwrap();
        let doors = Doors {
            refusals: Arc::new(AtomicU32::new(refusals)),
            class: Some(class),
        };
        let trying = keep(machines.clone(), Arc::new(doors.clone()), pace);
        let rig = Self {
            machines,
            cloud,
            doors,
            tasks: vec![tokio::spawn(task), tokio::spawn(trying)],
            _folder: folder,
        };
        let order = muster_machines::testing::order(ProviderId::Sim, MachineSpec::default(), None);
        let pool = Pool {
            size: PoolSize {
                min_idle: 1,
                max: None,
            },
            order,
            others: Vec::new(),
            configured: false,
        };
        rig.machines.set_pool("ci", pool).await.unwrap();
        rig
    }

    async fn wait_for(&self, mut holds: impl FnMut(&Machine) -> bool) -> MachineId {
        let mut all = self.machines.watch();
        let found = all.wait_for(|all| all.values().any(&mut holds));
        let found = in_time(found).await.unwrap();
        let mut found = found.values().filter(|it| holds(it));
        found.next().unwrap().record().id.clone()
    }
}

/// So fast that a test need not wait.
fn quick() -> Pace {
    Pace {
        pause: Duration::from_millis(1),
        pause_longest: Duration::from_millis(2),
        pause_silent: Duration::from_millis(2),
        again: Duration::from_millis(5),
        ..Pace::default()
    }
}

#[tokio::test]
async fn a_member_that_boots_is_given_away_when_it_has_answered() {
    let rig = Rig::new(u32::MAX, FailureClass::Refused, quick()).await;
    let runs = |it: &Machine| it.record().state() == State::Running;
    let machine = rig.wait_for(runs).await;
    in_time(async {
        // It is tried, and does not answer yet.
        while rig.doors.refusals.load(Ordering::SeqCst) > u32::MAX - 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let none = Err(ClaimError::NoneReady("ci".to_owned()));
    assert_eq!(rig.machines.claim("ci", "job").await, none);
    rig.doors.refusals.store(0, Ordering::SeqCst);
    rig.wait_for(Machine::is_ready).await;
    assert_eq!(rig.machines.claim("ci", "job").await, Ok(machine));
}

#[tokio::test]
async fn a_member_without_programs_answers() {
    let rig = Rig::new(u32::MAX, FailureClass::NoProgram, quick()).await;
    let ready = rig.wait_for(Machine::is_ready).await;
    assert_eq!(rig.machines.claim("ci", "job").await, Ok(ready));
}

#[tokio::test]
async fn a_member_that_never_answers_is_replaced_and_goes() {
    let pace = Pace {
        boot: Duration::from_millis(20),
        ..quick()
    };
    let rig = Rig::new(u32::MAX, FailureClass::Unreachable, pace).await;
    let gone = rig
        .wait_for(|it| it.record().end() == Some(Reason::Silent))
        .await;
    // Those that come after it answer.
    rig.doors.refusals.store(0, Ordering::SeqCst);
    let ready = rig.wait_for(Machine::is_ready).await;
    assert_ne!(ready, gone);
    assert!(rig.cloud.machines().len() <= 2);
}

#[tokio::test]
async fn one_that_answers_again_is_put_away_like_any_other() {
    let pace = Pace {
        boot: Duration::from_millis(20),
        ..quick()
    };
    let rig = Rig::new(0, FailureClass::Unreachable, pace).await;
    let ready = rig.wait_for(Machine::is_ready).await;
    let claimed = rig.machines.claim("ci", "job").await.unwrap();
    assert_eq!(claimed, ready);
    // As a run that waits for it in vain tells.
    rig.doors.refusals.store(u32::MAX, Ordering::SeqCst);
    rig.machines.set_reachable(&claimed, false).await;
    let silent = |it: &Machine| matches!(it.contact(), Contact::Silent(_));
    assert_eq!(rig.wait_for(silent).await, claimed);
    rig.doors.refusals.store(0, Ordering::SeqCst);
    let answers = |it: &Machine| it.record().id == claimed && it.contact() == Contact::Answers;
    rig.wait_for(answers).await;
}
