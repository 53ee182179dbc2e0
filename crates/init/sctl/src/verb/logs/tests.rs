use jiff::tz::TimeZone;
use muster_journal::{Boot, Id128};
use proptest::prelude::*;

use super::format::{Record, Shape};
use super::query::boot_in;
use crate::cli::LogFormat;
use crate::render::Style;

fn shape(format: LogFormat) -> Shape {
    Shape {
        format,
        zone: TimeZone::UTC,
        hostname: true,
        all: false,
        fields: Vec::new(),
        style: Style::default(),
    }
}

/// The entry that `logger -p user.err "bad thing"` left in a journal of journald 252, less some fields.
fn record() -> Record {
    let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    Record {
        cursor: "s=ac600820152d493e9146f4c4e134331f;i=10".to_owned(),
        realtime: 1_794_743_459_122_222,
        monotonic: 13_263_609_772,
        boot: "cfc4a91704f54782af25112eba9d342f".to_owned(),
        fields: vec![
            field("_UID", "0"),
            field("_BOOT_ID", "cfc4a91704f54782af25112eba9d342f"),
            field("_HOSTNAME", "vm"),
            field("PRIORITY", "3"),
            field("SYSLOG_IDENTIFIER", "root"),
            field("MESSAGE", "bad thing"),
            field("_PID", "221"),
            field("_SOURCE_REALTIME_TIMESTAMP", "1794743459122198"),
        ],
    }
}

fn printed(shape: &Shape, record: &Record) -> String {
    let mut out = Vec::new();
    shape.print(record, &mut out);
    String::from_utf8(out).expect("text")
}

#[test]
fn entries_look_as_journalctl_prints_them() {
    for (format, text) in [
        (
            LogFormat::Short,
            "Nov 15 11:50:59 vm root[221]: bad thing\n",
        ),
        (
            LogFormat::ShortIso,
            "2026-11-15T11:50:59+0000 vm root[221]: bad thing\n",
        ),
        (
            LogFormat::ShortPrecise,
            "Nov 15 11:50:59.122198 vm root[221]: bad thing\n",
        ),
        (
            LogFormat::ShortFull,
            "Sun 2026-11-15 11:50:59 UTC vm root[221]: bad thing\n",
        ),
        (
            LogFormat::ShortMonotonic,
            "[13263.609772] vm root[221]: bad thing\n",
        ),
        (
            LogFormat::ShortUnix,
            "1794743459.122198 vm root[221]: bad thing\n",
        ),
        (LogFormat::Cat, "bad thing\n"),
        (
            LogFormat::Json,
            "{\"__CURSOR\":\"s=ac600820152d493e9146f4c4e134331f;i=10\",\"__REALTIME_TIMESTAMP\":\"1794743459122222\",\"__MONOTONIC_TIMESTAMP\":\"13263609772\",\"_BOOT_ID\":\"cfc4a91704f54782af25112eba9d342f\",\"_UID\":\"0\",\"_HOSTNAME\":\"vm\",\"PRIORITY\":\"3\",\"SYSLOG_IDENTIFIER\":\"root\",\"MESSAGE\":\"bad thing\",\"_PID\":\"221\",\"_SOURCE_REALTIME_TIMESTAMP\":\"1794743459122198\"}\n",
        ),
        (
            LogFormat::Export,
            "__CURSOR=s=ac600820152d493e9146f4c4e134331f;i=10\n__REALTIME_TIMESTAMP=1794743459122222\n__MONOTONIC_TIMESTAMP=13263609772\n_BOOT_ID=cfc4a91704f54782af25112eba9d342f\n_UID=0\n_HOSTNAME=vm\nPRIORITY=3\nSYSLOG_IDENTIFIER=root\nMESSAGE=bad thing\n_PID=221\n_SOURCE_REALTIME_TIMESTAMP=1794743459122198\n\n",
        ),
        (
            LogFormat::Verbose,
            "Sun 2026-11-15 11:50:59.122198 UTC [s=ac600820152d493e9146f4c4e134331f;i=10]\n    _UID=0\n    _BOOT_ID=cfc4a91704f54782af25112eba9d342f\n    _HOSTNAME=vm\n    PRIORITY=3\n    SYSLOG_IDENTIFIER=root\n    MESSAGE=bad thing\n    _PID=221\n    _SOURCE_REALTIME_TIMESTAMP=1794743459122198\n",
        ),
    ] {
        let text = text.to_owned();
        let got = printed(&shape(format), &record());
        if format == LogFormat::Json {
            // The order of the members does not matter.
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
            assert_eq!(value(&got), value(&text));
        } else {
            assert_eq!(got, text, "{format:?}");
        }
    }
    let mut without_host = shape(LogFormat::Short);
    without_host.hostname = false;
    assert_eq!(
        printed(&without_host, &record()),
        "Nov 15 11:50:59 root[221]: bad thing\n"
    );
}

#[test]
fn lines_of_a_message_stand_below_each_other() {
    let mut record = record();
    record.fields[5].1 = b"one\ntwo".to_vec();
    assert_eq!(
        printed(&shape(LogFormat::Short), &record),
        "Nov 15 11:50:59 vm root[221]: one\n                              two\n"
    );
}

#[test]
fn bytes_that_are_no_text_are_not_shown_to_terminals() {
    let mut record = record();
    record.fields[5].1 = vec![b'a', 1, b'b'];
    assert_eq!(
        printed(&shape(LogFormat::Short), &record),
        "Nov 15 11:50:59 vm root[221]: [3B blob data]\n"
    );
    let json = printed(&shape(LogFormat::Json), &record);
    assert!(json.contains("\"MESSAGE\":[97,1,98]"), "{json}");
    let mut out = Vec::new();
    shape(LogFormat::Export).print(&record, &mut out);
    let expected = b"MESSAGE\n\x03\0\0\0\0\0\0\0a\x01b\n";
    assert!(out.windows(expected.len()).any(|part| part == expected));
}

#[test]
fn fields_that_come_twice_are_a_list() {
    let mut record = record();
    for value in ["one", "two", "three"] {
        record
            .fields
            .push(("TAG".to_owned(), value.as_bytes().to_vec()));
    }
    let json = printed(&shape(LogFormat::Json), &record);
    assert!(
        json.contains("\"TAG\":[\"one\",\"two\",\"three\"]"),
        "{json}"
    );
}

#[test]
fn boots_are_found_by_id_and_number() {
    let ids: Vec<Id128> = (1..=3_u8)
        .map(|n| format!("{n:032x}").parse().expect("an id"))
        .collect();
    let boots: Vec<Boot> = ids
        .iter()
        .map(|id| Boot {
            id: *id,
            first: 0,
            last: 1,
        })
        .collect();
    let newest = ids[2].to_string();
    for (word, place) in [
        ("0", 2),
        ("-0", 2),
        ("-1", 1),
        ("-2", 0),
        ("1", 0),
        ("+2", 1),
        (newest.as_str(), 2),
    ] {
        assert_eq!(boot_in(word, &boots).expect("a boot"), ids[place], "{word}");
    }
    assert_eq!(
        boot_in(&format!("{newest}-1"), &boots).expect("a boot"),
        ids[1]
    );
    for word in ["-3", "4", "x", "99999999999999999999"] {
        assert!(boot_in(word, &boots).is_err(), "{word}");
    }
    assert!(boot_in("0", &[]).is_err());
}

proptest! {
    /// Whatever is in a journal, it can be printed, and JSON is JSON.
    #[test]
    fn anything_can_be_printed(
        fields in prop::collection::vec(("[A-Z_]{1,8}", prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        realtime in any::<u64>(),
        all in any::<bool>(),
    ) {
        let record = Record { fields, realtime, monotonic: realtime, ..Record::default() };
        for format in [
            LogFormat::Short, LogFormat::ShortIso, LogFormat::ShortFull, LogFormat::ShortMonotonic,
            LogFormat::Verbose, LogFormat::Cat, LogFormat::Export,
        ] {
            let shape = Shape { all, ..shape(format) };
            shape.print(&record, &mut Vec::new());
        }
        let json = printed(&Shape { all, ..shape(LogFormat::Json) }, &record);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    }
}
