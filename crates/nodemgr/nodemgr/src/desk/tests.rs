//! The desk over a simulated cloud, of which some machines do not start.

use std::sync::Arc;

use futures_util::future::join_all;
use muster_lifecycle::pool::PoolSize;
use muster_lifecycle::{Halt, State, Verb};
use muster_machines::{Parts, SCHEMA, Settings};
use muster_provider::sim::{SimCloud, SimProvider, SimSettings};
use muster_provider::{
    Answer, Described, FailureClass, MachineId, Operation, Order, Owned, Profile, Provider,
    ProviderError, SystemClock,
};
use muster_store::{OnDamage, Store, StoreConfig};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::choice::Prices;
use crate::config::PoolConfig;

const TEMPLATES: &str = "name: small\nimage: debian:12\ncpus: 2\n";
/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A simulated cloud that never starts a machine again.
#[derive(Debug)]
struct NoStart(SimProvider);

impl Provider for NoStart {
    fn profile(&self) -> &Profile {
        self.0.profile()
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        self.0.provision(order)
    }

    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, muster_lifecycle::State> {
        self.0.destroy(machine)
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        self.0.describe(machine)
    }

    fn list<'a>(&'a self, manager: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        self.0.list(manager)
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, muster_lifecycle::State> {
        if verb != Verb::Start {
            return self.0.act(machine, verb);
        }
        Box::pin(async move {
            Err(ProviderError {
                provider: ProviderId::Sim,
                operation: Operation::Act(verb),
                object: machine.resource.to_string(),
                class: FailureClass::Refused,
                source: "its disk is broken".into(),
            })
        })
    }
}

struct Rig {
    desk: Desk,
    registry: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.registry.abort();
    }
}

async fn rig(quota: Quota) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let templates = folder.path().join("templates.yaml");
    std::fs::write(&templates, TEMPLATES).unwrap();
    let path = folder.path().join("state/machines.db");
    let config = StoreConfig::new(path, "test", OnDamage::Refuse).schema(&SCHEMA);
    let store = Store::open(&config).unwrap().store;
    let cloud = SimCloud::new(SimSettings::default());
    let provider: Arc<dyn Provider> = Arc::new(NoStart(cloud.provider()));
    let manager = ManagerId::new("manager").unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let parts = Parts {
        store,
        manager: manager.clone(),
        providers: vec![Arc::clone(&provider)],
        clock: Arc::clone(&clock),
        keys: None,
    };
    let settings = Settings {
        poll: Duration::from_millis(1),
        quotas: [(ProviderId::Sim, quota)].into(),
        ..Settings::default()
    };
    let (machines, registry) = Machines::start(parts, settings).await.unwrap();
    let enabled = Enabled {
        offer: Offer {
            profile: provider.profile().clone(),
            quota,
            prices: Prices::default(),
            ready_in: Duration::ZERO,
            places: Vec::new(),
            taints: Default::default(),
        },
        provider,
        endpoint: String::new(),
        usual: Default::default(),
        disks: None,
    };
    let parts = DeskParts {
        machines,
        providers: vec![enabled],
        unusable: Vec::new(),
        descriptions: Descriptions {
            templates: vec![templates],
            mappings: Vec::new(),
            optional: Vec::new(),
            added: folder.path().join("added.json"),
            lock_file: folder.path().join("machines.lock"),
            lock: None,
        },
        policy: Policy::default(),
        insecure: false,
        reuse: false,
        timers: Timers::default(),
        keys: Arc::new(ManagerKeys::from_secret(&[3; 32])),
        ways: SshWays::default(),
        manager,
        clock,
        about: About {
            state_dir: String::new(),
            config_file: String::new(),
            started: Moment::from_millis(0),
        },
        stop: CancellationToken::new(),
    };
    Rig {
        desk: Desk::new(parts),
        registry: tokio::spawn(registry),
        _folder: folder,
    }
}

fn ordered(desk: &Desk, reuse: bool) -> Ordered {
    Ordered {
        wish: Wish {
            reuse,
            ..desk.own_wish("small".to_owned(), None)
        },
        labels: BTreeMap::new(),
        timers: Timers::default(),
        key: None,
        wait: true,
    }
}

async fn provision(desk: &Desk, reuse: bool) -> Result<MachineId, ProvisionFailed> {
    let order = ordered(desk, reuse);
    let made = tokio::time::timeout(PATIENCE, desk.provision(&order)).await;
    made.expect("nobody waits for ever")
}

async fn stop(desk: &Desk, id: &MachineId) {
    desk.machines().ask(id, Verb::Stop).await.unwrap();
    let stopped = |state| state == State::Stopped(Halt::Off);
    desk.machines().wait_until(id, stopped).await.unwrap();
}

#[tokio::test]
async fn a_stopped_machine_that_does_not_start_is_passed_over() {
    let rig = rig(Quota::default()).await;
    let desk = &rig.desk;
    let broken = provision(desk, false).await.unwrap();
    stop(desk, &broken).await;
    let taken = provision(desk, true).await.unwrap();
    assert_ne!(taken, broken);
    let state = desk.machines().get(&taken).unwrap().record().state();
    assert_eq!(state, State::Running);
}

#[tokio::test]
async fn where_nothing_else_fits_a_machine_that_does_not_start_is_an_error_with_its_reason() {
    let quota = Quota {
        machines: Some(1),
        ..Quota::default()
    };
    let rig = rig(quota).await;
    let desk = &rig.desk;
    let broken = provision(desk, false).await.unwrap();
    stop(desk, &broken).await;
    let failed = provision(desk, true).await.unwrap_err();
    let ProvisionFailed::NotUp { machine, why, .. } = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(machine, broken);
    assert!(why.contains("its disk is broken"), "{why}");
}

#[tokio::test]
async fn wishes_that_come_at_once_do_not_pass_a_quota_together() {
    let quota = Quota {
        cpus: Some(6),
        ..Quota::default()
    };
    let rig = rig(quota).await;
    let made = join_all((0..8).map(|_| provision(&rig.desk, false))).await;
    assert_eq!(made.iter().filter(|it| it.is_ok()).count(), 3, "{made:?}");
    for failed in made.into_iter().filter_map(Result::err) {
        let said = muster_telemetry::ErrorChain(&failed).to_string();
        assert!(said.contains("it would pass the quota of sim"), "{said}");
    }
}

fn pool() -> PoolConfig {
    PoolConfig {
        template: "small".to_owned(),
        provider: None,
        min_idle: 1,
        max: None,
        labels: BTreeMap::new(),
        timers: Timers::default(),
    }
}

#[tokio::test]
async fn a_pool_goes_with_its_line_of_the_configuration_and_an_operators_own_stays() {
    let quota = Quota {
        machines: Some(2),
        ..Quota::default()
    };
    let rig = rig(quota).await;
    let desk = &rig.desk;
    let names = async || {
        let pools = desk.machines().pools().await.unwrap();
        pools.into_keys().collect::<Vec<String>>()
    };
    let configured: BTreeMap<String, PoolConfig> = [("ci".to_owned(), pool())].into();
    desk.set_configured_pools(&configured).await;
    let own = PoolWish {
        wish: desk.own_wish("small".to_owned(), None),
        labels: BTreeMap::new(),
        timers: Timers::default(),
        size: PoolSize {
            min_idle: 1,
            max: None,
        },
        configured: false,
    };
    desk.set_pool("mine", &own).await.unwrap();
    let mut all = desk.machines().watch();
    let full = all.wait_for(|all| all.len() == 2);
    let waited = tokio::time::timeout(PATIENCE, full).await;
    drop(waited.expect("two machines are made").unwrap());
    // The same configuration at the next start: what uses the quota up is the pool itself.
    let larger = PoolConfig {
        min_idle: 2,
        ..pool()
    };
    desk.set_configured_pools(&[("ci".to_owned(), larger)].into())
        .await;
    assert_eq!(names().await, ["ci", "mine"]);
    let pools = desk.machines().pools().await.unwrap();
    assert_eq!(pools["ci"].size.min_idle, 2);
    desk.set_configured_pools(&BTreeMap::new()).await;
    assert_eq!(names().await, ["mine"]);
}

fn keyed(desk: &Desk, key: &str, asked: &str, wait: bool) -> Ordered {
    Ordered {
        key: Some(Key {
            name: key.to_owned(),
            asked: asked.to_owned(),
        }),
        wait,
        ..ordered(desk, false)
    }
}

#[tokio::test]
async fn a_key_gives_the_machine_of_the_same_order_and_no_other() {
    let rig = rig(Quota::default()).await;
    let desk = &rig.desk;
    let provision = async |key: &str, asked: &str, wait: bool| {
        let order = keyed(desk, key, asked, wait);
        let made = tokio::time::timeout(PATIENCE, desk.provision(&order)).await;
        made.expect("nobody waits for ever")
    };
    let first = provision("k", "two processors", true).await.unwrap();
    for wait in [true, false] {
        let again = provision("k", "two processors", wait).await;
        assert_eq!(again.unwrap(), first);
        let other = provision("k", "four processors", wait).await.unwrap_err();
        let said = other.to_string();
        assert!(said.contains("ordered with the key \"k\""), "{said}");
    }
    let odd = provision("k#2", "two processors", true).await.unwrap_err();
    assert!(matches!(odd, ProvisionFailed::BadKey(_)), "{odd:?}");
    // What is gone is no answer, whether or not it is waited for.
    desk.machines().destroy(&first).await.unwrap();
    let gone = |state| state == State::Terminated;
    desk.machines().wait_until(&first, gone).await.unwrap();
    for wait in [true, false] {
        let failed = provision("k", "two processors", wait).await.unwrap_err();
        assert!(matches!(failed, ProvisionFailed::Gone(_)), "{failed:?}");
    }
}

#[tokio::test]
async fn a_pool_whose_machines_use_the_quota_up_keeps_them_when_it_is_set_again() {
    let quota = Quota {
        machines: Some(1),
        ..Quota::default()
    };
    let rig = rig(quota).await;
    let desk = &rig.desk;
    let configured: BTreeMap<String, PoolConfig> = [("ci".to_owned(), pool())].into();
    desk.set_configured_pools(&configured).await;
    let mut all = desk.machines().watch();
    let is_up = |state: State| state == State::Running;
    let up = all.wait_for(|all| all.values().any(|it| is_up(it.record().state())));
    drop(tokio::time::timeout(PATIENCE, up).await.unwrap().unwrap());
    desk.set_configured_pools(&configured).await;
    let pools = desk.machines().pools().await.unwrap();
    let all = desk.machines().all();
    let record = all.values().next().unwrap().record();
    assert!(pools["ci"].order.is_for_the_same(&record.order));
    assert_eq!((all.len(), record.state()), (1, State::Running));
}
