use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::name::{ClientToken, MachineId};
use crate::provider::Purchase;
use crate::testing::ManualClock;
use muster_mapping::MachineSpec;

fn order(purchase: Purchase) -> Order {
    Order {
        spec: MachineSpec::default(),
        mark: Mark {
            manager: ManagerId::new("manager").unwrap(),
            machine: MachineId::random(),
            token: ClientToken::random(),
        },
        purchase,
        ssh: None,
    }
}

fn spot(types: &[&str], fallback: bool) -> Purchase {
    Purchase::Spot {
        types: types.iter().map(|&name| name.to_owned()).collect(),
        fallback,
    }
}

async fn provision(cloud: &SimCloud, purchase: Purchase) -> Result<Described, FailureClass> {
    let made = cloud.provider().provision(&order(purchase)).await;
    made.map_err(|error| error.class)
}

#[tokio::test]
async fn capacity_quota_and_spot_types_are_kept() {
    let settings = SimSettings {
        capacity: SimCapacity {
            on_demand: Some(1),
            spot: [("small".to_owned(), 1), ("large".to_owned(), 1)].into(),
            quota: Some(3),
        },
        ..SimSettings::default()
    };
    let cloud = SimCloud::new(settings);
    let both = ["small", "large"];
    assert!(provision(&cloud, spot(&both, false)).await.unwrap().spot);
    let none = provision(&cloud, spot(&["small"], false)).await;
    assert_eq!(none.unwrap_err(), FailureClass::Capacity);
    // The next type of the list, then one on demand, then nothing.
    assert!(provision(&cloud, spot(&both, true)).await.unwrap().spot);
    assert!(!provision(&cloud, spot(&both, true)).await.unwrap().spot);
    let none = provision(&cloud, Purchase::OnDemand).await;
    assert_eq!(none.unwrap_err(), FailureClass::Quota);
}

#[tokio::test]
async fn a_spot_machine_is_taken_back_and_says_why() {
    let clock = Arc::new(ManualClock::default());
    let settings = SimSettings {
        halt: Duration::from_secs(10),
        ..SimSettings::default()
    };
    let cloud = SimCloud::with_clock(settings, clock.clone());
    let kept = provision(&cloud, Purchase::OnDemand).await.unwrap();
    let lost = provision(&cloud, spot(&[], false)).await.unwrap();
    assert!(!cloud.interrupt(&kept.resource).unwrap());
    assert!(cloud.interrupt(&lost.resource).unwrap());
    let owned = Owned {
        resource: lost.resource,
        mark: lost.mark,
    };
    let provider = cloud.provider();
    let seen = provider.describe(&owned).await.unwrap().unwrap();
    assert_eq!(seen.state, State::ShuttingDown);
    assert_eq!(seen.reason, Some(muster_lifecycle::Reason::Interrupted));
    clock.advance(Duration::from_secs(10));
    let seen = provider.describe(&owned).await.unwrap().unwrap();
    assert_eq!(seen.state, State::Terminated);
}

#[tokio::test]
async fn a_cloud_in_a_file_outlives_its_process_and_a_torn_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud");
    let (made, foreign) = {
        let cloud = SimCloud::open(&path, SimSettings::default()).unwrap();
        let made = provision(&cloud, Purchase::OnDemand).await.unwrap();
        (made, cloud.add_foreign().unwrap())
    };
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], b"{\"resource\":\"si"].concat()).unwrap();
    let cloud = SimCloud::open(&path, SimSettings::default()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole);
    let found: BTreeSet<_> = cloud.machines().into_iter().map(|it| it.resource).collect();
    assert_eq!(found, BTreeSet::from([made.resource, foreign]));
    let path = folder.path().join("other");
    std::fs::write(&path, "nonsense\n").unwrap();
    assert!(SimCloud::open(&path, SimSettings::default()).is_err());
}

/// What a run of orders gives: made, or how it failed.
async fn run(seed: u64, faults: SimFaults) -> Vec<Result<bool, FailureClass>> {
    let settings = SimSettings {
        seed,
        faults,
        ..SimSettings::default()
    };
    let cloud = SimCloud::new(settings);
    let mut results = Vec::new();
    for _ in 0..100 {
        let before = cloud.machines().len();
        let made = provision(&cloud, Purchase::OnDemand).await;
        results.push(made.map(drop).map(|()| cloud.machines().len() > before));
    }
    results
}

#[tokio::test]
async fn the_same_seed_fails_in_the_same_way() {
    let faults = SimFaults {
        fail: 100,
        lose_answer: 100,
        no_capacity: 100,
        interrupt: 0,
    };
    let first = run(7, faults).await;
    assert_eq!(first, run(7, faults).await);
    assert_ne!(first, run(8, faults).await);
    let failed = |class| first.iter().filter(|&&it| it == Err(class)).count();
    assert!(failed(FailureClass::Retryable) > 5);
    assert!(failed(FailureClass::Capacity) > 2);
}

#[tokio::test]
async fn a_lost_answer_has_had_its_effect_and_the_token_finds_it() {
    let settings = |lose_answer| SimSettings {
        faults: SimFaults {
            lose_answer,
            ..SimFaults::default()
        },
        ..SimSettings::default()
    };
    let cloud = SimCloud::new(settings(1000));
    let order = order(Purchase::OnDemand);
    let lost = cloud.provider().provision(&order).await.unwrap_err();
    assert_eq!(lost.class, FailureClass::Retryable);
    assert_eq!(cloud.machines().len(), 1);
    cloud.set(settings(0));
    let found = cloud.provider().provision(&order).await.unwrap();
    assert_eq!(found.mark, order.mark);
    assert_eq!(cloud.machines().len(), 1);
}

proptest! {
    /// However calls fail, repeating them with their tokens makes each machine once.
    #[test]
    fn tokens_make_one_machine_each(seed: u64, fail in 0u16..500, lose_answer in 0u16..500) {
        let faults = SimFaults { fail, lose_answer, no_capacity: 0, interrupt: 0 };
        let cloud = SimCloud::new(SimSettings { seed, faults, ..SimSettings::default() });
        let provider = cloud.provider();
        futures_util::FutureExt::now_or_never(async {
            for _ in 0..10 {
                let order = order(Purchase::OnDemand);
                while provider.provision(&order).await.is_err() {}
            }
        })
        .expect("a cloud without latency answers at once");
        prop_assert_eq!(cloud.machines().len(), 10);
    }
}
