use proptest::prelude::*;

use super::*;
use crate::bytes::Payload;
use crate::{MAX_MESSAGE, MAX_NAME};

fn decoded(payload: &Payload) -> ToInit<'_> {
    ToInit::decode(payload.as_bytes()).unwrap().unwrap()
}

fn stores(names: &[&str]) -> Payload {
    let mut payload = store();
    let mut count = payload.list();
    for name in names {
        assert!(payload.text(name));
        payload.count(&mut count);
    }
    payload
}

#[test]
fn fixed_messages_are_read_as_written() {
    assert_eq!(decoded(&hello(7)), ToInit::Hello { version: 7 });
    assert_eq!(decoded(&adopted()), ToInit::Adopted);
    assert_eq!(decoded(&ack(u64::MAX)), ToInit::Ack { seq: u64::MAX });
    assert_eq!(decoded(&pong()), ToInit::Pong);
}

#[test]
fn every_way_to_end_is_read_as_written() {
    for kind in [
        ShutdownKind::PowerOff,
        ShutdownKind::Reboot { argument: "" },
        ShutdownKind::Reboot { argument: "bios" },
        ShutdownKind::Halt,
        ShutdownKind::Kexec,
        ShutdownKind::Exit { code: 0 },
        ShutdownKind::Exit { code: 255 },
        ShutdownKind::SoftReboot,
    ] {
        assert_eq!(decoded(&shutdown(kind).unwrap()), ToInit::Shutdown(kind));
    }
}

/// What an older init reads of a newer core's message, and the reverse.
#[test]
fn fields_of_a_newer_side_are_ignored() {
    let mut bytes = ack(9).as_bytes().to_vec();
    bytes.extend_from_slice(b"new fields");
    assert_eq!(
        ToInit::decode(&bytes).unwrap().unwrap(),
        ToInit::Ack { seq: 9 }
    );
    assert_eq!(ToInit::decode(&[0xff, 0xff, 1, 2, 3]), Ok(None));
}

/// The bytes of version 1, which later versions must still read.
#[test]
fn version_one_is_read_for_ever() {
    let store = b"\x02\x00\x02\x00\x05\x00state\x03\x00a:b";
    let Some(ToInit::Store(names)) = ToInit::decode(store).unwrap() else {
        panic!("not a Store");
    };
    assert!(names.iter().eq(["state", "a:b"]));
    assert_eq!(stores(&["state", "a:b"]).as_bytes(), store);

    let upgrade_bytes = b"\x07\x00\x01\x02\x00/c";
    let value = Upgrade {
        core: Some("/c"),
        init: true,
    };
    assert_eq!(
        ToInit::decode(upgrade_bytes).unwrap(),
        Some(ToInit::Upgrade(value))
    );
    assert_eq!(upgrade(value).unwrap().as_bytes(), upgrade_bytes);

    let drop_bytes = b"\x03\x00\x01\x04\x00log:";
    let value = Selector::Prefix("log:");
    assert_eq!(
        ToInit::decode(drop_bytes).unwrap(),
        Some(ToInit::Drop(value))
    );
    assert_eq!(drop(value).unwrap().as_bytes(), drop_bytes);
}

#[test]
fn messages_that_are_cut_short_are_refused() {
    let whole = shutdown(ShutdownKind::Reboot { argument: "bios" }).unwrap();
    for end in 0..whole.as_bytes().len() {
        let error = ToInit::decode(&whole.as_bytes()[..end]).unwrap_err();
        assert!(matches!(error, DecodeError::Truncated { .. }), "{error}");
    }
}

#[test]
fn bad_names_and_values_are_refused() {
    let refused = |bytes: &[u8]| ToInit::decode(bytes).unwrap_err();
    assert!(matches!(
        refused(b"\x02\x00\x01\x00\x00\x00"),
        DecodeError::BadName { length: 0, .. }
    ));
    assert!(matches!(
        refused(b"\x02\x00\x01\x00\x01\x00\xff"),
        DecodeError::NotText { kind: 2 }
    ));
    assert!(matches!(
        refused(b"\x03\x00\x07\x01\x00a"),
        DecodeError::UnknownValue { value: 7, .. }
    ));
    assert!(matches!(
        refused(b"\x08\x00\x63\x00\x00\x00"),
        DecodeError::UnknownValue { value: 99, .. }
    ));
    assert_eq!(refused(&[0; MAX_MESSAGE + 1]), DecodeError::TooLong);
    let long = "n".repeat(MAX_NAME + 1);
    assert!(matches!(
        ToInit::decode(stores(&[&long]).as_bytes()),
        Err(DecodeError::BadName { length: 301, .. })
    ));
}

proptest! {
    #[test]
    fn names_are_read_as_written(
        names in prop::collection::vec("[a-zäöü:.@-]{1,60}", 0..50)
    ) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let payload = stores(&names);
        let ToInit::Store(read) = decoded(&payload) else { panic!("not a Store") };
        prop_assert_eq!(read.len(), names.len());
        prop_assert!(read.iter().eq(names));
    }

    #[test]
    fn texts_are_read_as_written(path in "\\PC{1,200}", init in any::<bool>()) {
        let value = Upgrade { core: Some(&path), init };
        let payload = upgrade(value).unwrap();
        prop_assert_eq!(decoded(&payload), ToInit::Upgrade(value));
        let kind = ShutdownKind::Reboot { argument: &path };
        let payload = shutdown(kind).unwrap();
        prop_assert_eq!(decoded(&payload), ToInit::Shutdown(kind));
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        kind in 0_u16..12,
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(rest);
        if let Ok(Some(ToInit::Store(names))) = ToInit::decode(&bytes) {
            prop_assert_eq!(names.iter().count(), names.len());
        }
    }
}
