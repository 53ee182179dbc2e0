use proptest::prelude::*;

use super::*;
use crate::message::Identity;
use crate::message::status::{
    InstanceState, InstanceStatus, ItemState, ItemStatus, UnitConfigState, UnitConfigStatus,
};

const PERIOD: Duration = Duration::from_secs(10);

fn item(id: u8, state: ItemState) -> ItemStatus {
    ItemStatus {
        item: Identity::id(id.to_string()),
        version: "1".to_owned(),
        state,
        error_info: None,
    }
}

fn instances(id: u8, states: &[InstanceState]) -> InstancesStatus {
    let status = |(index, state): (usize, &InstanceState)| InstanceStatus {
        node: Identity::codename("n"),
        runtime: Identity::codename("r"),
        instance: u64::try_from(index).expect("few"),
        state_checksum: None,
        state: *state,
        error_info: None,
    };
    InstancesStatus {
        item: Identity::id(id.to_string()),
        subject: Identity::id("s"),
        version: "1".to_owned(),
        instances: states.iter().enumerate().map(status).collect(),
    }
}

fn published(status: UnitStatus, full: u64) -> Published {
    Published {
        status: Some(Arc::new(status)),
        full,
    }
}

fn with_items(items: Vec<ItemStatus>) -> UnitStatus {
    UnitStatus {
        items: Some(items),
        ..UnitStatus::default()
    }
}

#[test]
fn all_of_it_comes_first_then_changes_and_all_again_after_a_connection() {
    let mut reporter = Reporter::new(PERIOD);
    let now = Instant::now();
    assert_eq!(reporter.next(&Published::default(), now), None);
    let first = published(
        with_items(vec![
            item(1, ItemState::Pending),
            item(2, ItemState::Pending),
        ]),
        0,
    );
    let said = reporter.next(&first, now).expect("it is said");
    assert!(!said.is_delta_info);
    assert_eq!(said.items.as_ref().map(Vec::len), Some(2));
    let second = published(
        with_items(vec![
            item(1, ItemState::Installed),
            item(2, ItemState::Pending),
        ]),
        0,
    );
    assert_eq!(reporter.next(&second, now + PERIOD), None, "one at a time");
    reporter.acknowledged();
    assert_eq!(reporter.next(&second, now), None, "not so soon");
    assert_eq!(reporter.deadline(), Some(now + PERIOD));
    let said = reporter.next(&second, now + PERIOD).expect("it is said");
    assert!(said.is_delta_info);
    assert_eq!(said.items, Some(vec![item(1, ItemState::Installed)]));
    assert_eq!(said.nodes, None);
    reporter.acknowledged();
    assert_eq!(
        reporter.next(&second, now + PERIOD * 5),
        None,
        "nothing new"
    );
    reporter.connected();
    let said = reporter.next(&second, now).expect("it is said");
    assert!(!said.is_delta_info);
}

#[test]
fn all_of_it_is_said_when_it_is_asked_for_or_something_is_gone() {
    let mut reporter = Reporter::new(PERIOD);
    let now = Instant::now();
    let status = with_items(vec![
        item(1, ItemState::Pending),
        item(2, ItemState::Pending),
    ]);
    reporter.next(&published(status.clone(), 0), now);
    reporter.acknowledged();
    let said = reporter
        .next(&published(status.clone(), 1), now)
        .expect("it was asked for");
    assert!(!said.is_delta_info);
    reporter.acknowledged();
    let fewer = with_items(vec![item(2, ItemState::Pending)]);
    let said = reporter
        .next(&published(fewer, 1), now + PERIOD)
        .expect("one is gone");
    assert!(!said.is_delta_info);
}

#[test]
fn an_instance_that_is_gone_is_not_a_change_of_its_item() {
    let state = InstanceState::Active;
    let with = |states: &[InstanceState]| UnitStatus {
        instances: Some(vec![instances(1, states)]),
        ..UnitStatus::default()
    };
    let two = with(&[state, state]);
    assert_eq!(difference(&two, &with(&[state])), Difference::Full);
    assert!(matches!(
        difference(&two, &with(&[state, InstanceState::Failed])),
        Difference::Changes(_)
    ));
    assert_eq!(difference(&two, &two), Difference::None);
}

fn status() -> impl Strategy<Value = UnitStatus> {
    let state = prop::sample::select(vec![
        ItemState::Pending,
        ItemState::Installed,
        ItemState::Failed,
    ]);
    let items = prop::collection::btree_map(0u8..5, state, 0..5);
    let active = prop::sample::select(vec![InstanceState::Active, InstanceState::Failed]);
    let running = prop::collection::btree_map(0u8..3, prop::collection::vec(active, 1..3), 0..3);
    (items, running, prop::option::of(0u8..3)).prop_map(|(items, running, config)| UnitStatus {
        items: Some(
            items
                .into_iter()
                .map(|(id, state)| item(id, state))
                .collect(),
        ),
        instances: Some(
            running
                .iter()
                .map(|(id, states)| instances(*id, states))
                .collect(),
        ),
        unit_config: config.map(|version| {
            vec![UnitConfigStatus {
                version: version.to_string(),
                state: UnitConfigState::Installed,
                error_info: None,
            }]
        }),
        ..UnitStatus::default()
    })
}

/// What a cloud makes of a message: changed entries take the place of those with the same name.
fn take_in(known: &mut UnitStatus, said: UnitStatus) {
    fn merge<T>(known: &mut Option<Vec<T>>, said: Option<Vec<T>>, same: impl Fn(&T, &T) -> bool) {
        for new in said.into_iter().flatten() {
            let known = known.get_or_insert_default();
            known.retain(|old| !same(old, &new));
            known.push(new);
        }
    }
    if !said.is_delta_info {
        *known = said;
        return;
    }
    merge(&mut known.items, said.items, |a, b| a.item == b.item);
    merge(&mut known.instances, said.instances, |a, b| {
        a.item == b.item
    });
    merge(&mut known.unit_config, said.unit_config, |_, _| true);
}

fn sorted(mut status: UnitStatus) -> String {
    let items = status.items.get_or_insert_default();
    items.sort_by(|a, b| a.item.cmp(&b.item));
    let instances = status.instances.get_or_insert_default();
    instances.sort_by(|a, b| a.item.cmp(&b.item));
    status.is_delta_info = false;
    format!("{status:?}")
}

proptest! {
    #[test]
    fn a_cloud_that_takes_everything_in_knows_the_newest(
        statuses in prop::collection::vec((status(), any::<bool>(), 0u8..10), 1..20),
    ) {
        let mut reporter = Reporter::new(PERIOD);
        let mut now = Instant::now();
        let mut known = UnitStatus::default();
        let mut full = 0;
        let mut last = None;
        for (status, all, luck) in statuses {
            full += u64::from(all);
            let newest = published(status, full);
            now += PERIOD;
            if let Some(said) = reporter.next(&newest, now) {
                // A message that is lost with its connection is not known.
                if luck == 0 {
                    reporter.connected();
                } else {
                    take_in(&mut known, said);
                    reporter.acknowledged();
                }
            }
            last = newest.status.clone();
        }
        let newest = Published { status: last.clone(), full };
        if let Some(said) = reporter.next(&newest, now + PERIOD) {
            take_in(&mut known, said);
        }
        let newest = UnitStatus::clone(&last.expect("there was one"));
        prop_assert_eq!(sorted(known), sorted(newest));
    }
}
