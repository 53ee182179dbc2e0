use proptest::prelude::*;

use super::*;
use crate::config::{ModuleConfig, RawModuleConfig, RawModuleParams};
use crate::request::CsrSubject;

fn id(number: u8) -> KeyId {
    KeyId::from_bytes([number; KeyId::LEN])
}

fn ids(numbers: &[u8]) -> BTreeSet<KeyId> {
    numbers.iter().copied().map(id).collect()
}

/// Certificates by number, valid from these times on.
fn certs(entries: &[(u8, i64)]) -> BTreeMap<KeyId, i64> {
    let entries = entries.iter();
    entries.map(|(number, from)| (id(*number), *from)).collect()
}

fn wanted() -> Wanted {
    let raw = RawModuleConfig {
        id: "sm".into(),
        plugin: "file".into(),
        params: RawModuleParams {
            storage_path: Some("/k".into()),
            ..RawModuleParams::default()
        },
        ..RawModuleConfig::default()
    };
    let config = ModuleConfig::try_from(raw).unwrap();
    Wanted::new(&config, &CsrSubject::new("s")).unwrap()
}

fn pending(number: u8) -> Option<Pending> {
    let request = Some(Request {
        wanted: wanted(),
        csr: Some("csr".into()),
    });
    Some(Pending {
        id: id(number),
        request,
    })
}

fn index(order: &[u8], pending: Option<Pending>, dropping: &[u8]) -> Index {
    Index {
        order: order.iter().copied().map(id).collect(),
        pending,
        dropping: ids(dropping),
    }
}

#[test]
fn what_fits_stays_as_it_is() {
    let known = index(&[2, 1], pending(3), &[]);
    let (after, findings) = reconcile(
        Some(known.clone()),
        &ids(&[1, 2, 3]),
        &certs(&[(1, 10), (2, 20)]),
        2,
    );
    assert_eq!(after, known, "the order is the index's, not that of time");
    assert_eq!(findings, []);
}

#[test]
fn a_certificate_stored_by_a_process_that_died_is_the_newest() {
    let known = index(&[1], pending(2), &[]);
    let (after, findings) = reconcile(Some(known), &ids(&[1, 2]), &certs(&[(1, 99), (2, 10)]), 1);
    assert_eq!(after, index(&[2], None, &[1]), "and displaces the oldest");
    assert_eq!(findings, []);
}

#[test]
fn a_pending_key_that_was_never_made_is_forgotten() {
    let known = index(&[1], pending(2), &[]);
    let (after, findings) = reconcile(Some(known), &ids(&[1]), &certs(&[(1, 0)]), 1);
    assert_eq!((after, findings), (index(&[1], None, &[]), vec![]));
}

#[test]
fn removals_that_were_not_finished_go_on() {
    let known = index(&[3], None, &[1, 2, 9]);
    let (after, findings) = reconcile(Some(known), &ids(&[2, 3]), &certs(&[(2, 0), (3, 0)]), 5);
    assert_eq!(after, index(&[3], None, &[2]));
    assert_eq!(findings, []);
}

#[test]
fn without_an_index_everything_is_taken_in_by_age() {
    let (after, findings) = reconcile(
        None,
        &ids(&[1, 2, 3, 7, 8]),
        &certs(&[(1, 30), (2, 10), (3, 20), (4, 5)]),
        2,
    );
    let unknown = Some(Pending {
        id: id(7),
        request: None,
    });
    assert_eq!(after, index(&[3, 1], unknown, &[2, 4, 8]));
    assert_eq!(
        findings,
        [
            Finding::Adopted(id(2)),
            Finding::Adopted(id(3)),
            Finding::Adopted(id(1)),
            Finding::CertWithoutKey(id(4)),
            Finding::StrayKey(id(8)),
        ]
    );
}

#[test]
fn a_certificate_without_a_key_and_a_key_without_its_certificate_are_noticed() {
    let known = index(&[1, 2], None, &[]);
    let (after, findings) = reconcile(Some(known), &ids(&[2]), &certs(&[(1, 0)]), 5);
    let unknown = Some(Pending {
        id: id(2),
        request: None,
    });
    assert_eq!(after, index(&[], unknown, &[1]));
    assert_eq!(
        findings,
        [Finding::CertGone(id(2)), Finding::CertWithoutKey(id(1))]
    );
}

fn states() -> impl Strategy<Value = (Option<Index>, BTreeSet<KeyId>, BTreeMap<KeyId, i64>, usize)>
{
    let some = || proptest::collection::btree_set(0u8..8, 0..8);
    let order = some()
        .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        .prop_shuffle();
    let index =
        (order, proptest::option::of(0u8..8), some()).prop_map(|(order, waiting, dropping)| {
            let dropping: Vec<u8> = dropping.into_iter().collect();
            index(&order, waiting.and_then(pending), &dropping)
        });
    let keys = some().prop_map(|set| set.into_iter().map(id).collect());
    let certs = proptest::collection::btree_map((0u8..8).prop_map(id), -5i64..5, 0..8);
    (proptest::option::of(index), keys, certs, 1usize..4)
}

proptest! {
    #[test]
    fn invariants_hold_after_every_repair((before, keys, certs, max_items) in states()) {
        let (after, _) = reconcile(before.clone(), &keys, &certs, max_items);
        let whole = |id: &KeyId| keys.contains(id) && certs.contains_key(id);

        prop_assert!(after.order.len() <= max_items);
        prop_assert!(after.order.iter().all(whole), "what is offered is there with its key");
        let distinct: BTreeSet<_> = after.order.iter().collect();
        prop_assert_eq!(distinct.len(), after.order.len());
        prop_assert!(after.order.iter().all(|id| !after.dropping.contains(id)));
        if let Some(pending) = &after.pending {
            prop_assert!(keys.contains(&pending.id) && !certs.contains_key(&pending.id));
            prop_assert!(!after.dropping.contains(&pending.id));
        }
        // Whatever exists is offered, waits, or goes: nothing is left lying around.
        let waiting = after.pending.as_ref().map(|pending| pending.id);
        for id in keys.iter().chain(certs.keys()) {
            prop_assert!(
                after.order.contains(id) || waiting == Some(*id) || after.dropping.contains(id)
            );
        }
        // A whole pair goes only if it was to go, or if there is no room for it.
        let meant: BTreeSet<KeyId> = before.map(|index| index.dropping).unwrap_or_default();
        let pairs = certs.keys().filter(|id| whole(id) && !meant.contains(id)).count();
        prop_assert_eq!(after.order.len(), pairs.min(max_items));

        // Once what is to go has gone, a second look changes nothing.
        let gone = |id: &KeyId| !after.dropping.contains(id);
        let keys: BTreeSet<_> = keys.into_iter().filter(gone).collect();
        let certs: BTreeMap<_, _> = certs.into_iter().filter(|(id, _)| gone(id)).collect();
        let swept = Index { dropping: BTreeSet::new(), ..after };
        let (again, findings) = reconcile(Some(swept.clone()), &keys, &certs, max_items);
        prop_assert_eq!(again, swept);
        prop_assert_eq!(findings, vec![]);
    }

    #[test]
    fn the_index_survives_its_file((before, ..) in states()) {
        let text = serde_json::to_string(&before).unwrap();
        prop_assert_eq!(serde_json::from_str::<Option<Index>>(&text).unwrap(), before);
    }
}
