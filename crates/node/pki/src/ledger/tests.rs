use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn serial(number: u8) -> Serial {
    Serial::from_der_integer(&[[1; 15].as_slice(), &[number]].concat()).expect("a serial")
}

fn issued(number: u8, node: u8, not_after: i64) -> Entry {
    let identity = format!("spiffe://plant-7/node/n{node}/sm")
        .parse()
        .expect("an id");
    Entry::Issued(Box::new(Issued {
        serial: serial(number),
        issuer: IssuerName::Intermediate(1),
        holder: Holder::Peer(Profile::new(identity)),
        window: Window {
            not_before: at(0),
            not_after: at(not_after),
        },
        key: "00".to_owned(),
    }))
}

fn revoked(number: u8) -> Entry {
    Entry::Revoked(Revocation {
        serial: serial(number),
        at: at(5),
        reason: Reason::KeyCompromise,
    })
}

fn listed(number: u64) -> Entry {
    Entry::ListSigned(ListSigned {
        issuer: IssuerName::Intermediate(1),
        number,
        window: Window {
            not_before: at(0),
            not_after: at(100),
        },
    })
}

fn ledger(entries: impl IntoIterator<Item = Entry>) -> Ledger {
    let mut ledger = Ledger::default();
    for entry in entries {
        ledger.apply(entry).expect("a possible entry");
    }
    ledger
}

#[test]
fn a_newer_certificate_of_the_same_identity_is_what_counts() {
    let ledger = ledger([issued(1, 1, 100), issued(2, 1, 1000), issued(3, 2, 100)]);
    let due = ledger.due(SignedDuration::from_secs(10), at(95));
    assert_eq!(
        due.iter()
            .map(|cert| cert.issued.serial)
            .collect::<Vec<_>>(),
        [serial(3)]
    );
}

#[test]
fn certificate_types_of_one_identity_are_told_apart() {
    let of_type = |number, cert_type: &str, end| match issued(number, 1, end) {
        Entry::Issued(mut cert) => {
            let Holder::Peer(profile) = cert.holder else {
                unreachable!("a peer")
            };
            cert.holder = Holder::Peer(profile.with_cert_type(cert_type).expect("a type"));
            Entry::Issued(cert)
        }
        other => other,
    };
    let ledger = ledger([
        of_type(1, "sm", 100),
        of_type(2, "online", 1000),
        of_type(3, "online", 2000),
    ]);
    let node = NodeId::new("n1").expect("an id");
    let newest = |cert_type| {
        let cert = ledger.newest_of_type(&node, cert_type);
        cert.map(|cert| cert.issued.serial)
    };
    assert_eq!(newest("sm"), Some(serial(1)));
    assert_eq!(newest("online"), Some(serial(3)));
    assert_eq!(newest("cm"), None);
    assert_eq!(ledger.due(SignedDuration::from_secs(10), at(95)).len(), 1);
}

#[test]
fn revoking_the_newer_one_makes_the_older_one_count_again() {
    let ledger = ledger([issued(1, 1, 100), issued(2, 1, 1000), revoked(2)]);
    assert_eq!(
        ledger
            .newest()
            .map(|cert| cert.issued.serial)
            .collect::<Vec<_>>(),
        [serial(1)]
    );
}

#[test]
fn expired_ones_are_due_too_and_come_first() {
    let ledger = ledger([issued(1, 1, 100), issued(2, 2, 50), issued(3, 3, 5000)]);
    let due = ledger.due(SignedDuration::from_secs(100), at(60));
    assert_eq!(
        due.iter()
            .map(|cert| cert.issued.serial)
            .collect::<Vec<_>>(),
        [serial(2), serial(1)]
    );
    assert_eq!(due[0].status(at(60)), Status::Expired);
}

#[test]
fn all_that_is_valid_of_a_node_can_be_revoked_and_nothing_else() {
    let ledger = ledger([
        issued(1, 1, 100),
        issued(2, 1, 1000),
        issued(3, 1, 1000),
        issued(4, 2, 1000),
        revoked(2),
    ]);
    let node = NodeId::new("n1").expect("an id");
    let of_node: Vec<_> = ledger
        .valid_of_node(&node, at(500))
        .iter()
        .map(|cert| cert.issued.serial)
        .collect();
    assert_eq!(of_node, [serial(3)]);
}

#[test]
fn a_revocation_leaves_the_list_a_while_after_the_certificate_has_ended() {
    let ledger = ledger([issued(1, 1, 100), revoked(1)]);
    let day = 24 * 3600;
    assert_eq!(
        ledger.listed(IssuerName::Intermediate(1), at(100 + 30 * day)),
        1
    );
    assert_eq!(
        ledger.listed(IssuerName::Intermediate(1), at(100 + 31 * day)),
        0
    );
    assert_eq!(ledger.listed(IssuerName::Root, at(0)), 0);
}

#[test]
fn what_contradicts_the_past_is_refused() {
    let mut ledger = ledger([issued(1, 1, 100), revoked(1), listed(3)]);
    let before = ledger.clone();
    assert_eq!(
        ledger.apply(issued(1, 9, 9)),
        Err(LedgerError::Taken { serial: serial(1) })
    );
    assert_eq!(
        ledger.apply(revoked(1)),
        Err(LedgerError::Revoked { serial: serial(1) })
    );
    assert_eq!(
        ledger.apply(revoked(7)),
        Err(LedgerError::Unknown { serial: serial(7) })
    );
    assert!(matches!(
        ledger.apply(listed(3)),
        Err(LedgerError::ListNumber { last: 3, .. })
    ));
    assert_eq!(ledger, before);
}

fn any_entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        3 => (any::<u8>(), 0..4_u8, 0..1000_i64).prop_map(|(number, node, end)| issued(number, node, end)),
        2 => any::<u8>().prop_map(revoked),
        1 => (0..50_u64).prop_map(listed),
    ]
}

proptest! {
    /// Whatever is thrown at it: refused entries change nothing, what is revoked stays revoked and is on the list, a list
    /// lags behind exactly if something was revoked since it was signed, and the text of each entry reads back.
    #[test]
    fn a_ledger_never_forgets(entries in proptest::collection::vec(any_entry(), 0..200)) {
        let mut ledger = Ledger::default();
        let mut first_revocation = HashMap::new();
        let mut behind = false;
        for entry in entries {
            let text = serde_json::to_string(&entry).expect("plain data");
            prop_assert_eq!(&serde_json::from_str::<Entry>(&text).expect("our own text"), &entry);
            let before = ledger.clone();
            if ledger.apply(entry.clone()).is_err() {
                prop_assert_eq!(&ledger, &before);
                continue;
            }
            match entry {
                Entry::Revoked(revocation) => {
                    first_revocation.insert(revocation.serial, revocation);
                    behind = true;
                }
                Entry::ListSigned(_) => behind = false,
                Entry::Issued(_) => {}
            }
            prop_assert_eq!(ledger.is_list_behind(IssuerName::Intermediate(1)), behind);
        }
        let on_list: Vec<_> = ledger.to_list(IssuerName::Intermediate(1), at(0)).collect();
        prop_assert_eq!(on_list.len(), first_revocation.len());
        for revocation in on_list {
            prop_assert_eq!(Some(revocation), first_revocation.get(&revocation.serial));
        }
        for cert in ledger.newest() {
            prop_assert!(cert.revocation.is_none());
        }
        let due = ledger.due(SignedDuration::from_secs(100), at(500));
        prop_assert!(due.iter().all(|cert| cert.issued.window.not_after <= at(600)));
        prop_assert!(due.is_sorted_by_key(|cert| cert.issued.window.not_after));
    }
}
