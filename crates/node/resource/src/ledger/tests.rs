use std::path::PathBuf;

use muster_api::domain::{ItemId, ItemType, SubjectId};
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::*;
use crate::presence::Absence;

fn instance(number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new("item").expect("an id"),
        subject_id: SubjectId::new("subject").expect("an id"),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

fn requests(names: &[&str]) -> Vec<ResourceRequest> {
    let request = |name: &&str| ResourceRequest {
        name: (*name).to_owned(),
        mode: None,
    };
    names.iter().map(request).collect()
}

fn table(resources: &[(&str, u64)]) -> ResourceTable {
    let owned = |(name, shares): &(&str, u64)| ((*name).to_owned(), *shares, Vec::new());
    ResourceTable::of(&resources.iter().map(owned).collect::<Vec<_>>())
}

#[test]
fn a_taken_share_is_refused_with_its_holders() {
    let table = table(&[("camera", 1), ("free", 0)]);
    let mut ledger = Ledger::default();
    ledger.hold(&instance(1), BTreeSet::from(["camera".to_owned()]));
    let plan = |number| {
        ledger.plan(
            &table,
            &Missing::new(),
            &instance(number),
            &requests(&["free", "camera"]),
        )
    };
    let refused = plan(2).expect_err("a refusal");
    assert_eq!(
        refused.to_string(),
        "resource \"camera\": its only share is taken, by item:subject:1"
    );
    assert!(plan(1).is_ok(), "the holder may ask again");
}

#[test]
fn many_holders_and_refusals_are_counted() {
    let table = table(&[("r", 20)]);
    let mut ledger = Ledger::default();
    for number in 0..20 {
        ledger.hold(&instance(number), BTreeSet::from(["r".to_owned()]));
    }
    let names: Vec<String> = (0..30).map(|number| format!("unknown-{number}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push("r");
    let refused = ledger
        .plan(&table, &Missing::new(), &instance(99), &requests(&names))
        .expect_err("a refusal");
    assert_eq!(refused.refusals.len(), NAMED);
    assert_eq!(refused.more, 31 - NAMED);
    // In the order of names, so that the same request is refused with the same words.
    assert!(
        refused
            .to_string()
            .starts_with("resource \"r\": all of its 20 shares are taken, by item:subject:0, ")
    );
    assert!(
        refused
            .to_string()
            .contains(" and 12 more; resource \"unknown-0\": "),
        "{refused}"
    );
    assert!(refused.to_string().ends_with("; and 23 more"), "{refused}");
}

#[test]
fn a_mode_that_does_not_exist_is_refused_and_the_widest_of_two_is_given() {
    let table = table(&[("r", 0)]);
    let ask = |modes: &[Option<&str>]| {
        let request = |mode: &Option<&str>| ResourceRequest {
            name: "r".into(),
            mode: mode.map(str::to_owned),
        };
        let requests: Vec<_> = modes.iter().map(request).collect();
        Ledger::default().plan(&table, &Missing::new(), &instance(0), &requests)
    };
    let refused = ask(&[Some("x")]).expect_err("a refusal").to_string();
    assert!(
        refused.starts_with("resource \"r\": the mode \"x\" does not exist"),
        "{refused}"
    );
    let read_only = |modes: &[Option<&str>]| ask(modes).expect("a plan").grants[0].mounts[0].2;
    assert!(read_only(&[Some("r")]));
    assert!(!read_only(&[Some("rw")]) && !read_only(&[None]));
    assert!(!read_only(&[Some("r"), Some("w")]), "asked twice");
    assert_eq!(ask(&[None, None]).expect("a plan").grants.len(), 1);
}

#[test]
fn fewer_shares_than_holders_take_nothing_away() {
    let mut ledger = Ledger::default();
    for number in 0..3 {
        ledger.hold(&instance(number), BTreeSet::from(["r".to_owned()]));
    }
    let table = table(&[("r", 1)]);
    let plan = |ledger: &Ledger, number| {
        ledger
            .plan(
                &table,
                &Missing::new(),
                &instance(number),
                &requests(&["r"]),
            )
            .is_ok()
    };
    assert!((0..3).all(|number| plan(&ledger, number)));
    assert!(ledger.troubles(&table, &Missing::new()).is_empty());
    ledger.release(&instance(0));
    ledger.release(&instance(1));
    assert!(!plan(&ledger, 0), "the third still has the only share");
    ledger.release(&instance(2));
    assert!(plan(&ledger, 0));
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const DEVICES: u8 = 4;

fn device(number: u8) -> PathBuf {
    PathBuf::from(format!("/dev/{number}"))
}

#[derive(Debug, Clone)]
enum Step {
    Take(u64, BTreeSet<&'static str>),
    Release(u64),
    KeepOnly(BTreeSet<u64>),
    Table(Vec<(String, u64, Vec<PathBuf>)>),
    Missing(BTreeSet<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let names = || btree_set(prop::sample::select(NAMES.to_vec()), 0..4);
    let devices =
        btree_set((0..DEVICES).prop_map(device), 0..3).prop_map(|it| it.into_iter().collect());
    let resource = (
        prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned),
        0_u64..4,
        devices,
    );
    let step = prop_oneof![
        6 => (0_u64..6, names()).prop_map(|(number, names)| Step::Take(number, names)),
        2 => (0_u64..6).prop_map(Step::Release),
        1 => btree_set(0_u64..6, 0..6).prop_map(Step::KeepOnly),
        2 => vec(resource, 0..6).prop_map(Step::Table),
        1 => btree_set(0..DEVICES, 0..3).prop_map(Step::Missing),
    ];
    vec(step, 0..60)
}

/// Whether somebody who does not have a resource may get it, said in another way than the code does.
fn may_get(ledger: &Ledger, table: &ResourceTable, missing: &Missing, name: &str) -> bool {
    let Some(resource) = table.get(name) else {
        return false;
    };
    let taken = ledger.iter().filter(|(_, held)| *held == name).count();
    let free = resource
        .shares()
        .is_none_or(|shares| taken < usize::try_from(shares.get()).expect("small"));
    free && resource
        .devices()
        .all(|device| !missing.contains_key(device))
}

fn is_usable(table: &ResourceTable, missing: &Missing, name: &str) -> bool {
    may_get(&Ledger::default(), table, missing, name)
}

proptest! {
    #[test]
    fn shares_are_never_exceeded_and_come_back_exactly(steps in steps()) {
        let (mut ledger, mut table, mut missing) = (Ledger::default(), ResourceTable::default(), Missing::new());
        for step in steps {
            let before = ledger.clone();
            match step {
                Step::Take(number, names) => {
                    let owner = instance(number);
                    let wanted: Vec<&str> = names.iter().copied().collect();
                    let planned = ledger.plan(&table, &missing, &owner, &requests(&wanted));
                    let held = |name: &str| before.held_by(&owner).is_some_and(|it| it.contains(name));
                    let expected = wanted.iter().all(|name| match held(name) {
                        true => is_usable(&table, &missing, name),
                        false => may_get(&before, &table, &missing, name),
                    });
                    prop_assert_eq!(planned.is_ok(), expected, "all or nothing");
                    if let Ok(planned) = planned {
                        let granted: Vec<&str> = planned.grants.iter().map(|it| it.name.as_str()).collect();
                        prop_assert_eq!(&granted, &wanted, "everything, once");
                        ledger.hold(&owner, planned.names);
                        let now: Vec<&str> = ledger.held_by(&owner).into_iter().flatten().map(String::as_str).collect();
                        prop_assert_eq!(now, wanted);
                    }
                    for (other, held) in &before.holds {
                        prop_assert!(*other == owner || ledger.held_by(other) == Some(held), "others are left alone");
                    }
                }
                Step::Release(number) => {
                    ledger.release(&instance(number));
                    let mut expected = before.holds.clone();
                    expected.remove(&instance(number));
                    prop_assert_eq!(&ledger.holds, &expected);
                }
                Step::KeepOnly(numbers) => {
                    let kept: BTreeSet<InstanceIdent> = numbers.into_iter().map(instance).collect();
                    for gone in ledger.others(&kept) {
                        ledger.release(&gone);
                    }
                    let mut expected = before.holds.clone();
                    expected.retain(|owner, _| kept.contains(owner));
                    prop_assert_eq!(&ledger.holds, &expected);
                }
                Step::Table(resources) => table = ResourceTable::of(&resources),
                Step::Missing(numbers) => {
                    missing = numbers.into_iter().map(|it| (device(it), Absence::NotThere)).collect();
                }
            }
            for name in NAMES {
                let Some(shares) = table.get(name).and_then(|it| it.shares()) else { continue };
                let (now, then) = (ledger.holders(name).count(), before.holders(name).count());
                let limit = usize::try_from(shares.get()).expect("small");
                prop_assert!(now <= limit.max(then), "{} of {} have {}", now, limit, name);
            }
            prop_assert!(ledger.holds.values().all(|names| !names.is_empty()));
            let troubles: BTreeSet<_> = ledger.troubles(&table, &missing).into_keys().collect();
            let expected: BTreeSet<_> = ledger.iter()
                .filter(|(_, name)| !is_usable(&table, &missing, name))
                .map(|(owner, name)| (owner.clone(), name.to_owned()))
                .collect();
            prop_assert_eq!(troubles, expected);
        }
    }
}
