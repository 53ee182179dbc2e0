//! A provider that is slow, or broken, beside others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use muster_lifecycle::{State, Step, Verb};
use muster_machines::{CollectError, MachineOrder, Settings};
use muster_provider::sim::{SimCloud, SimSettings};
use muster_provider::{
    Answer, Described, ManagerId, Mark, Order, Owned, Profile, Provider, ProviderId, SshSeed,
};
use muster_seed::ManagerKeys;
use tokio::sync::Notify;

use crate::rig::{MANAGER, SECRET, World, eventually, in_time, order, quick};

/// Makes machines, and says nothing about them, not even that they have stopped or written their memory.
#[derive(Debug)]
struct Silent {
    cloud: SimCloud,
    profile: Profile,
    seeds: Mutex<Vec<Option<SshSeed>>>,
    stopping: Notify,
}

impl Silent {
    fn new() -> Self {
        let cloud = SimCloud::new(SimSettings::default());
        let profile = Profile {
            id: ProviderId::Libvirt,
            ..cloud.provider().profile().clone()
        };
        Self {
            cloud,
            profile,
            seeds: Mutex::default(),
            stopping: Notify::new(),
        }
    }
}

impl Provider for Silent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn provision<'a>(&'a self, order: &'a Order) -> Answer<'a, Described> {
        self.seeds.lock().unwrap().push(order.ssh.clone());
        async { self.cloud.provider().provision(order).await }.boxed()
    }

    fn destroy<'a>(&'a self, machine: &'a Owned) -> Answer<'a, State> {
        async { self.cloud.provider().destroy(machine).await }.boxed()
    }

    fn describe<'a>(&'a self, machine: &'a Owned) -> Answer<'a, Option<Described>> {
        async { self.cloud.provider().describe(machine).await }.boxed()
    }

    fn list<'a>(&'a self, _: &'a ManagerId) -> Answer<'a, Vec<Described>> {
        std::future::pending().boxed()
    }

    fn act<'a>(&'a self, machine: &'a Owned, verb: Verb) -> Answer<'a, State> {
        async move {
            if matches!(verb, Verb::Stop | Verb::Hibernate) {
                self.stopping.notify_one();
                std::future::pending::<()>().await;
            }
            self.cloud.provider().act(machine, verb).await
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_provider_that_says_nothing_hides_no_orphans_of_others() {
    let world = World::new(SimSettings::default());
    let lost = Mark {
        manager: ManagerId::new(MANAGER).unwrap(),
        machine: muster_provider::MachineId::random(),
        token: muster_provider::ClientToken::random(),
    };
    let forgotten = Order {
        spec: Default::default(),
        mark: lost.clone(),
        purchase: Default::default(),
        ssh: None,
    };
    world.cloud.provider().provision(&forgotten).await.unwrap();
    let settings = Settings {
        call: Duration::from_millis(50),
        ..quick()
    };
    let manager = world
        .start_beside(settings, Some(Arc::new(Silent::new())))
        .await;
    let looked = in_time(manager.machines.find_orphans()).await.unwrap();
    assert_eq!(looked.orphans.len(), 1);
    assert_eq!(looked.orphans[0].mark, lost);
    let collected = in_time(manager.machines.collect_orphans()).await.unwrap();
    assert_eq!(collected.orphans.len(), 1);
    assert!(world.cloud.machines().is_empty());
    let [CollectError::NoAnswer { provider }] = collected.failures.as_slice() else {
        panic!("{:?}", collected.failures);
    };
    assert_eq!(*provider, ProviderId::Libvirt);
}

#[tokio::test]
async fn a_machine_is_ordered_with_the_keys_that_follow_from_its_token() {
    let world = World::new(SimSettings::default());
    let provider = Arc::new(Silent::new());
    let manager = world.start_beside(quick(), Some(provider.clone())).await;
    let wanted = MachineOrder {
        provider: ProviderId::Libvirt,
        ..order()
    };
    let record = in_time(manager.machines.provision(wanted)).await.unwrap();
    let keys = ManagerKeys::from_secret(&SECRET);
    let expected = keys.seed(&record.token, &record.order.spec);
    assert_eq!(*provider.seeds.lock().unwrap(), [Some(expected)]);
}

#[tokio::test]
async fn a_machine_that_shall_end_at_once_is_not_waited_for_until_it_had_its_grace() {
    let waited_for = [Verb::Stop, Verb::Hibernate];
    let urgent = [Verb::ForceStop, Verb::Terminate];
    let both = waited_for
        .into_iter()
        .flat_map(|first| urgent.map(|verb| (first, verb)));
    for (first, verb) in both {
        let world = World::new(SimSettings::default());
        let provider = Arc::new(Silent::new());
        let manager = world.start_beside(quick(), Some(provider.clone())).await;
        let wanted = MachineOrder {
            provider: ProviderId::Libvirt,
            ..order()
        };
        let record = in_time(manager.machines.provision(wanted)).await.unwrap();
        manager.machines.ask(&record.id, first).await.unwrap();
        in_time(provider.stopping.notified()).await;
        manager.machines.ask(&record.id, verb).await.unwrap();
        let is_running = || {
            let mut machines = provider.cloud.machines().into_iter();
            machines.any(|it| it.state == State::Running)
        };
        eventually(|| !is_running()).await;
    }
}

#[tokio::test]
async fn a_machine_whose_provider_is_not_there_says_so() {
    let world = World::new(SimSettings::default());
    let manager = world
        .start_beside(quick(), Some(Arc::new(Silent::new())))
        .await;
    let elsewhere = MachineOrder {
        provider: ProviderId::Libvirt,
        ..order()
    };
    let id = manager.made(elsewhere).await;
    manager.die().await;

    let manager = world.start().await;
    let refused = manager
        .machines
        .ask(&id, Verb::Terminate)
        .await
        .unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("its provider libvirt is not configured any more"),
        "{said}"
    );
    let started = manager.machines.ask(&id, Verb::Start).await;
    assert_eq!(started, Ok(Step::Already), "it runs");
    manager.die().await;

    let unusable = [(ProviderId::Libvirt, "nobody answers".to_owned())];
    let settings = Settings {
        unusable: unusable.into(),
        ..quick()
    };
    let manager = world.start_with(settings).await;
    let refused = manager.machines.destroy(&id).await.unwrap_err();
    let said = refused.to_string();
    assert!(
        said.ends_with("its provider libvirt cannot be used: nobody answers"),
        "{said}"
    );
}
