use super::*;

fn ident(item: &str, number: u64) -> InstanceIdent {
    InstanceIdent {
        item_id: ItemId::new(item).unwrap(),
        subject_id: SubjectId::new("subject").unwrap(),
        instance: number,
        item_type: ItemType::Service,
        preinstalled: false,
    }
}

fn admit(ledger: &mut Ledger, ident: &InstanceIdent, range: IdRange) -> Option<(u32, u32)> {
    let (uid, gid) = ledger.admit(ident, range, range)?;
    Some((uid.as_raw(), gid.as_raw()))
}

#[test]
fn numbers_stay_and_come_back_last() {
    let range = IdRange::new(10, 12).unwrap();
    let mut ledger = Ledger::default();
    assert_eq!(admit(&mut ledger, &ident("a", 0), range), Some((10, 10)));
    assert_eq!(admit(&mut ledger, &ident("a", 1), range), Some((11, 10)));
    assert_eq!(admit(&mut ledger, &ident("a", 0), range), Some((10, 10)));
    ledger.retain(|own| own.instance == 1);
    assert_eq!(admit(&mut ledger, &ident("b", 0), range), Some((12, 11)));
    assert_eq!(admit(&mut ledger, &ident("b", 1), range), Some((10, 11)));
    assert!(!ledger.can_admit(&ident("b", 2), range));
    assert!(ledger.can_admit(&ident("b", 1), range));
    assert_eq!(admit(&mut ledger, &ident("b", 2), range), None);
    ledger.retain(|own| own.item_id.as_str() == "a");
    assert_eq!(ledger.gid(&ItemId::new("b").unwrap()), None);
    assert!(ledger.gid(&ItemId::new("a").unwrap()).is_some());
}

#[test]
fn survives_being_written() {
    let mut ledger = Ledger::default();
    for number in 0..3 {
        admit(&mut ledger, &ident("a", number), IdRange::DEFAULT);
    }
    ledger.set_home(&ident("a", 1), Some(&NodeId::new("main").unwrap()));
    let text = serde_json::to_string(&ledger).unwrap();
    let back: Ledger = serde_json::from_str(&text).unwrap();
    assert_eq!(back, ledger);
    assert_eq!(back.home(&ident("a", 1)).unwrap().as_str(), "main");
    assert_eq!(back.uid(&ident("a", 2)).unwrap().as_raw(), 5002);
}

#[test]
fn a_damaged_ledger_is_refused_by_entry() {
    let cases = [
        (
            r#"{"item":"a","subject":"s","instance":0,"uid":1},{"item":"b","subject":"s","instance":0,"uid":1}"#,
            "the ledger's entry b:s:0 repeats another one",
        ),
        (
            r#"{"item":"a","subject":"s","instance":0,"uid":4294967295}"#,
            "the ledger's entry a:s:0 is invalid",
        ),
        (
            r#"{"item":"a/b","subject":"s","instance":0,"uid":1}"#,
            "the ledger's entry a/b:s:0 is invalid",
        ),
    ];
    for (instances, expected) in cases {
        let text =
            format!(r#"{{"instances":[{instances}],"groups":{{}},"next_uid":0,"next_gid":0}}"#);
        let error = serde_json::from_str::<Ledger>(&text).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn ranges_are_not_empty() {
    assert!(IdRange::new(2, 1).is_err());
    assert!(IdRange::new(0, u32::MAX).is_err());
    assert_eq!(IdRange::new(7, 7).unwrap().size(), 1);
}
