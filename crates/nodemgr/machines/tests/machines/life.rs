//! Machines that nothing goes wrong with.

use std::time::Duration;

use muster_lifecycle::{Halt, Reason, RefusedVerb, State, Step, Verb, VerbSet};
use muster_machines::{AskError, Happened, MachineOrder, OrderError, Phase, WorkKind};
use muster_provider::sim::SimSettings;
use muster_provider::{MachineId, ProviderId};

use crate::rig::{World, in_time, order};

#[tokio::test]
async fn a_machine_lives_its_whole_life() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let machines = &manager.machines;
    let id = manager.running().await;
    let ask = async |verb| machines.ask(&id, verb).await.unwrap();
    assert_eq!(ask(Verb::Start).await, Step::Already);
    assert_eq!(ask(Verb::Stop).await, Step::Act(Verb::Stop));
    manager.wait(&id, State::Stopped(Halt::Off)).await;
    assert_eq!(ask(Verb::Start).await, Step::Act(Verb::Start));
    manager.wait(&id, State::Running).await;
    assert_eq!(ask(Verb::Hibernate).await, Step::Act(Verb::Hibernate));
    manager.wait(&id, State::Stopped(Halt::Hibernated)).await;
    assert_eq!(ask(Verb::Start).await, Step::Act(Verb::Resume));
    manager.wait(&id, State::Running).await;
    assert_eq!(ask(Verb::Terminate).await, Step::Act(Verb::Terminate));
    let gone = manager.wait(&id, State::Terminated).await;
    assert_eq!(gone.end(), Some(Reason::Asked));
    assert_eq!(ask(Verb::Terminate).await, Step::Already);
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_and_nobody_is_asked() {
    let verbs = VerbSet::ALL.without(Verb::Hibernate);
    let world = World::new(SimSettings {
        verbs,
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let id = manager.running().await;
    let before = manager.machines.get(&id).unwrap();
    let refused = |source| {
        Err(AskError::Refused {
            machine: id.clone(),
            source,
        })
    };
    let asked = manager.machines.ask(&id, Verb::Hibernate).await;
    let verb = Verb::Hibernate;
    assert_eq!(asked, refused(RefusedVerb::Unsupported { verb }));
    manager.machines.ask(&id, Verb::Stop).await.unwrap();
    manager.wait(&id, State::Stopped(Halt::Off)).await;
    let asked = manager.machines.ask(&id, Verb::Reboot).await.unwrap_err();
    let AskError::Refused { source, .. } = asked else {
        panic!("{asked:?}")
    };
    assert!(matches!(source, RefusedVerb::Illegal { .. }));
    assert_eq!(before.record().state(), State::Running);
    let nobody = MachineId::random();
    let asked = manager.machines.ask(&nobody, Verb::Stop).await;
    assert_eq!(asked, Err(AskError::Unknown(nobody)));
}

#[tokio::test]
async fn a_reboot_is_done_and_leaves_it_running() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let id = manager.running().await;
    let mut events = manager.machines.events().unwrap();
    manager.machines.ask(&id, Verb::Reboot).await.unwrap();
    in_time(async {
        while events.recv().await.unwrap().what != (Happened::Done { verb: Verb::Reboot }) {}
    })
    .await;
    assert_eq!(manager.state(&id), State::Running);
}

#[tokio::test]
async fn the_same_key_is_the_same_machine_and_another_order_is_refused() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let keyed = MachineOrder {
        key: Some("build-7".to_owned()),
        ..order()
    };
    let first = manager.machines.order(keyed.clone()).await.unwrap();
    let second = manager.machines.order(keyed.clone()).await.unwrap();
    assert_eq!(first, second);
    let other = MachineOrder {
        template: "other".to_owned(),
        ..keyed
    };
    let refused = manager.machines.order(other).await.unwrap_err();
    assert!(matches!(refused, OrderError::KeyUsed { machine, .. } if machine == first));
    let nowhere = MachineOrder {
        provider: ProviderId::Aws,
        ..order()
    };
    let refused = manager.machines.order(nowhere).await.unwrap_err();
    assert_eq!(refused, OrderError::NoProvider(ProviderId::Aws));
    manager.wait(&first, State::Running).await;
    assert_eq!(world.cloud.machines().len(), 1);
}

#[tokio::test]
async fn events_tell_the_story_in_order_and_can_be_read_again() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let mut stream = manager.machines.events().unwrap();
    let id = manager.running().await;
    manager.machines.destroy(&id).await.unwrap();
    manager.wait(&id, State::Terminated).await;
    let kept = manager.machines.events_after(0, 100).await.unwrap();
    let mut heard = Vec::new();
    while let Ok(event) = stream.try_recv() {
        heard.push(event);
    }
    assert_eq!(heard, kept);
    let numbers: Vec<u64> = kept.iter().map(|event| event.number).collect();
    assert!(
        numbers.is_sorted_by(|one, two| one + 1 == *two),
        "{numbers:?}"
    );
    assert_eq!(kept[0].what, Happened::Ordered);
    let last = &kept.last().unwrap().what;
    let reason = Reason::Asked;
    assert_eq!(*last, Happened::Gone { reason });
    let after = manager.machines.events_after(numbers[0], 1).await.unwrap();
    assert_eq!(after, kept[1..2]);
}

#[tokio::test]
async fn this_machine_is_given_to_everybody_and_never_goes_away() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let local = MachineOrder {
        provider: ProviderId::Local,
        ..order()
    };
    let one = manager.made(local.clone()).await;
    let two = manager.made(local).await;
    let resource = |id| {
        let machine = manager.machines.get(id).unwrap();
        machine.record().made().unwrap().resource.clone()
    };
    assert_eq!(resource(&one), resource(&two));
    manager.machines.destroy(&one).await.unwrap();
    manager.wait(&one, State::Terminated).await;
    manager.die().await;
    let manager = world.start().await;
    let _ = manager.machines.find_orphans().await.unwrap();
    assert_eq!(manager.state(&two), State::Running);
}

#[tokio::test]
async fn a_machine_that_is_gone_is_forgotten_after_a_while() {
    let world = World::new(SimSettings::default());
    let settings = muster_machines::Settings {
        remember: std::time::Duration::from_millis(5),
        ..crate::rig::quick()
    };
    let manager = world.start_with(settings.clone()).await;
    let id = manager.running().await;
    manager.machines.destroy(&id).await.unwrap();
    manager.wait_for(|all| all.is_empty()).await;
    manager.die().await;
    let manager = world.start_with(settings).await;
    assert!(manager.machines.all().is_empty());
}

#[tokio::test]
async fn destroying_before_it_is_made_leaves_nothing() {
    let world = World::new(SimSettings {
        latency: std::time::Duration::from_millis(20)..=std::time::Duration::from_millis(20),
        ..SimSettings::default()
    });
    let manager = world.start().await;
    let id = manager.machines.order(order()).await.unwrap();
    manager.machines.destroy(&id).await.unwrap();
    let gone = manager.wait(&id, State::Terminated).await;
    assert!(matches!(gone.phase, Phase::Gone { .. }));
    assert!(world.cloud.machines().is_empty());
}

/// Whoever chose a machine a moment ago may find that it is somebody else's by now.
#[tokio::test]
async fn a_machine_that_is_not_free_is_not_reserved() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let machines = &manager.machines;
    let id = manager.running().await;
    let minute = Duration::from_secs(60);
    let taken = |found: Result<(), AskError>| match found {
        Err(AskError::Taken(machine, why)) if machine == id => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(machines.reserve(&id, minute), Ok(()));
    assert_eq!(taken(machines.reserve(&id, minute)), "it is in use");
    // Whoever has it may keep it.
    assert_eq!(machines.keep_reserved(&id, minute), Ok(()));
    world.clock.advance(2 * minute);
    let work = machines.begin_work(&id, WorkKind::Session).unwrap();
    assert_eq!(taken(machines.reserve(&id, minute)), "it is in use");
    drop(work);
    let unit = Some("/unit.yaml".to_owned());
    machines.set_unit(&id, unit).await.unwrap();
    assert_eq!(
        taken(machines.reserve(&id, minute)),
        "it is a node of a Unit"
    );
    machines.set_unit(&id, None).await.unwrap();
    assert_eq!(machines.reserve(&id, minute), Ok(()));
    machines.destroy(&id).await.unwrap();
    assert_eq!(taken(machines.reserve(&id, minute)), "it is gone or goes");
}

#[tokio::test]
async fn a_machine_that_is_being_put_away_is_not_reserved_though_it_still_runs() {
    let world = World::new(SimSettings::default());
    let manager = world.start().await;
    let machines = &manager.machines;
    let minute = Duration::from_secs(60);
    for verb in [Verb::Stop, Verb::ForceStop, Verb::Hibernate] {
        world.cloud.set(SimSettings::default());
        let id = manager.running().await;
        // The cloud takes its time, and shows it running meanwhile.
        world.cloud.set(SimSettings {
            latency: minute..=minute,
            ..SimSettings::default()
        });
        machines.ask(&id, verb).await.unwrap();
        assert_eq!(manager.state(&id), State::Running);
        let taken = AskError::Taken(id.clone(), "it is being stopped or hibernated");
        assert_eq!(machines.reserve(&id, minute), Err(taken), "{verb}");
    }
}
