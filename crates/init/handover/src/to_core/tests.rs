use proptest::prelude::*;

use super::*;

fn decoded(payload: &Payload) -> ToCore<'_> {
    ToCore::decode(payload.as_bytes()).unwrap().unwrap()
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    any::<i32>().prop_map(|raw| Outcome { raw })
}

fn any_cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        Just(Cause::FirstBoot),
        any_outcome().prop_map(|outcome| Cause::Crash { outcome }),
        Just(Cause::Hang),
        Just(Cause::Upgrade),
        any_outcome().prop_map(|outcome| Cause::RolledBack { outcome }),
        Just(Cause::SoftReboot),
    ]
}

#[test]
fn fixed_messages_are_read_as_written() {
    assert_eq!(decoded(&end()), ToCore::End);
    assert_eq!(decoded(&ping()), ToCore::Ping);
    assert_eq!(decoded(&refused(3)), ToCore::Refused { count: 3 });
    let value = Signal {
        number: 34,
        sender: 1000,
    };
    assert_eq!(decoded(&signal(value)), ToCore::Signal(value));
}

#[test]
fn outcome_says_how_a_process_ended() {
    let exited = Outcome { raw: 3 << 8 };
    assert_eq!((exited.code(), exited.signal()), (Some(3), None));
    assert_eq!(exited.to_string(), "exited with code 3");
    let killed = Outcome { raw: 11 | 0x80 };
    assert_eq!((killed.code(), killed.signal()), (None, Some(11)));
    assert!(killed.dumped_core());
    assert_eq!(killed.to_string(), "killed by signal 11");
}

#[test]
fn exits_that_do_not_fit_are_left_over() {
    let all = (0..1000).map(|seq| Exit {
        seq,
        pid: 1,
        outcome: Outcome { raw: 0 },
    });
    let (payload, taken) = exits(all.clone());
    assert_eq!(taken, 511);
    let ToCore::Exits(read) = decoded(&payload) else {
        panic!("not Exits");
    };
    assert!(read.iter().eq(all.take(taken)));
}

/// The bytes of version 1, which later versions must still read.
#[test]
fn version_one_is_read_for_ever() {
    let bytes = b"\x41\x00\x01\x00\x00\x00\x01\x0b\x00\x00\x00\x02\x00\x00\x00\x03";
    let value = Begin {
        init_version: 1,
        cause: Cause::Crash {
            outcome: Outcome { raw: 11 },
        },
        crashes: 2,
        safe_mode: true,
        supervised: true,
    };
    assert_eq!(ToCore::decode(bytes).unwrap(), Some(ToCore::Begin(value)));
    assert_eq!(begin(&value).as_bytes(), bytes);

    let bytes = b"\x44\x00\x01\x00\x05\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x01\x00\x00";
    let value = Exit {
        seq: 5,
        pid: 7,
        outcome: Outcome { raw: 256 },
    };
    let Some(ToCore::Exits(read)) = ToCore::decode(bytes).unwrap() else {
        panic!("not Exits");
    };
    assert!(read.iter().eq([value]));
    assert_eq!(exits([value].into_iter()).0.as_bytes(), bytes);
}

proptest! {
    #[test]
    fn begin_is_read_as_written(
        cause in any_cause(),
        crashes in any::<u32>(),
        init_version in any::<u32>(),
        safe_mode in any::<bool>(),
        supervised in any::<bool>(),
    ) {
        let value = Begin { init_version, cause, crashes, safe_mode, supervised };
        let payload = begin(&value);
        prop_assert_eq!(decoded(&payload), ToCore::Begin(value));
    }

    #[test]
    fn exits_are_read_as_written(
        list in prop::collection::vec((any::<u64>(), any::<i32>(), any_outcome()), 0..300)
    ) {
        let list: Vec<Exit> =
            list.into_iter().map(|(seq, pid, outcome)| Exit { seq, pid, outcome }).collect();
        let (payload, taken) = exits(list.iter().copied());
        prop_assert_eq!(taken, list.len());
        let ToCore::Exits(read) = decoded(&payload) else { panic!("not Exits") };
        prop_assert!(read.iter().eq(list));
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        kind in 60_u16..75,
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(rest);
        match ToCore::decode(&bytes) {
            Ok(Some(ToCore::Stored(names))) => {
                prop_assert_eq!(names.iter().count(), names.len());
            }
            Ok(Some(ToCore::Exits(exits))) => {
                prop_assert!(exits.iter().count() * EXIT_SIZE <= bytes.len());
            }
            _ => {}
        }
    }
}
