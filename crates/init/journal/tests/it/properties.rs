//! Random entries: whatever is written comes back, in every order, by every match, from every place.

use std::collections::BTreeSet;

use muster_journal::{EntryTime, Journal, Matches, WriterOptions};
use proptest::prelude::*;

use crate::support::*;

/// An entry to be written; also what a reader must give.
#[derive(Debug, Clone)]
struct Model {
    fields: Vec<Vec<u8>>,
    /// Microseconds after the one before.
    step: u64,
    rotate: bool,
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::sample::select(vec![&b"a"[..], b"b", b"c"]).prop_map(<[u8]>::to_vec),
        2 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (any::<u8>(), 500_usize..3000).prop_map(|(byte, len)| vec![byte; len]),
        1 => prop::collection::vec(any::<u8>(), 500..900),
    ]
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(vec!["A", "B", "C_1", "_D"]), value()).prop_map(|(name, value)| {
        let mut field = format!("{name}=").into_bytes();
        field.extend(value);
        field
    })
}

fn model() -> impl Strategy<Value = Model> {
    let fields = prop::collection::vec(field(), 1..8);
    (fields, 0_u64..3, prop::bool::weighted(0.05)).prop_map(|(fields, step, rotate)| Model {
        fields,
        step,
        rotate,
    })
}

fn sorted(fields: &[Vec<u8>]) -> BTreeSet<Vec<u8>> {
    fields.iter().cloned().collect()
}

fn times(models: &[Model]) -> Vec<EntryTime> {
    let mut now = 0;
    let next = |model: &Model| {
        now += model.step;
        at(now)
    };
    models.iter().map(next).collect()
}

/// The fields of each entry from here on.
fn read_forward(journal: &mut Journal) -> Vec<BTreeSet<Vec<u8>>> {
    let mut entries = Vec::new();
    while let Some(entry) = journal.next_entry().expect("read") {
        entries.push(sorted(&entry.fields().expect("fields")));
    }
    entries
}

fn read_backward(journal: &mut Journal) -> Vec<BTreeSet<Vec<u8>>> {
    let mut entries = Vec::new();
    while let Some(entry) = journal.previous_entry().expect("read") {
        entries.push(sorted(&entry.fields().expect("fields")));
    }
    entries.reverse();
    entries
}

/// Conditions as a reader gets them, and as a function.
type Conditions = Vec<Vec<Vec<Vec<u8>>>>;

fn matches(conditions: &Conditions) -> Matches {
    let mut matches = Matches::new();
    for group in conditions {
        matches.and();
        for alternative in group {
            matches.or();
            for value in alternative {
                matches.add(value);
            }
        }
    }
    matches
}

fn holds(conditions: &Conditions, fields: &BTreeSet<Vec<u8>>) -> bool {
    let name = |value: &[u8]| value.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    conditions.iter().all(|group| {
        group.iter().any(|alternative| {
            alternative.iter().all(|value| {
                let same_field = |other: &&Vec<u8>| name(other) == name(value);
                alternative
                    .iter()
                    .filter(same_field)
                    .any(|other| fields.contains(other))
            })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: muster_lab::rounds(40, 2000), ..ProptestConfig::default() })]

    #[test]
    fn entries_come_back_in_every_order_and_by_every_match(
        models in prop::collection::vec(model(), 1..60),
        compact in any::<bool>(),
        wanted in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 1..4), 1..3),
            1..3,
        ),
        reopen in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().expect("dir");
        let options = WriterOptions { compact, max_size: 1 << 20, ..options() };
        let mut rotating = Rotating::new(dir.path(), options);
        let times = times(&models);
        let mut cursors = Vec::new();
        for (index, model) in models.iter().enumerate() {
            if model.rotate {
                rotating.rotate();
            }
            if index == reopen.index(models.len()) {
                rotating.reopen();
            }
            cursors.push(rotating.append(times[index], &model.fields).cursor);
        }
        rotating.writer.close().expect("close");
        for file in muster_journal::list_files(dir.path()).expect("list") {
            muster_journal::verify(&file.path).expect("in order");
        }

        let expected: Vec<_> = models.iter().map(|model| sorted(&model.fields)).collect();
        let mut journal = Journal::open_dir(dir.path()).expect("open");
        prop_assert_eq!(&read_forward(&mut journal), &expected);
        journal.seek_tail().expect("seek");
        prop_assert_eq!(&read_backward(&mut journal), &expected);

        // By every value.
        let values: BTreeSet<Vec<u8>> = expected.iter().flatten().cloned().collect();
        for value in &values {
            let mut single = Matches::new();
            single.add(value);
            journal.set_matches(single);
            journal.seek_head();
            let found = read_forward(&mut journal);
            let wanted: Vec<_> = expected.iter().filter(|entry| entry.contains(value)).cloned().collect();
            prop_assert_eq!(&found, &wanted);
        }

        // By a combination.
        let all: Vec<&Vec<u8>> = values.iter().collect();
        let conditions: Conditions = wanted.iter().map(|group| {
            group.iter().map(|alternative| {
                alternative.iter().map(|index| all[index.index(all.len())].clone()).collect()
            }).collect()
        }).collect();
        journal.set_matches(matches(&conditions));
        let filtered: Vec<_> = expected.iter().filter(|entry| holds(&conditions, entry)).cloned().collect();
        journal.seek_head();
        prop_assert_eq!(&read_forward(&mut journal), &filtered);
        journal.seek_tail().expect("seek");
        prop_assert_eq!(&read_backward(&mut journal), &filtered);

        // From every place.
        journal.set_matches(Matches::new());
        for (index, cursor) in cursors.iter().enumerate() {
            journal.seek_cursor(cursor).expect("seek");
            let entry = journal.next_entry().expect("read").expect("an entry");
            prop_assert!(entry.is_at(cursor));
            prop_assert_eq!(entry.cursor().to_string(), cursor.to_string());
            journal.seek_after_cursor(cursor).expect("seek");
            prop_assert_eq!(&read_forward(&mut journal), &expected[index + 1..]);
            journal.seek_cursor(cursor).expect("seek");
            prop_assert_eq!(&read_backward(&mut journal), &expected[..index]);

            let first = times.iter().position(|time| time.realtime >= times[index].realtime).expect("itself");
            journal.seek_realtime(times[index].realtime).expect("seek");
            prop_assert_eq!(&read_forward(&mut journal), &expected[first..]);
            journal.seek_seqnum(cursor.seqnum_id.expect("id"), cursor.seqnum.expect("number")).expect("seek");
            prop_assert_eq!(&read_forward(&mut journal), &expected[index..]);
        }

        // The values of each field.
        for name in ["A", "B", "C_1", "_D"] {
            let mut found = Vec::new();
            journal.each_value(name.as_bytes(), |value| {
                found.push([name.as_bytes(), b"=", value].concat());
                true
            }).expect("values");
            let prefix = format!("{name}=");
            let wanted: BTreeSet<_> = values.iter().filter(|value| value.starts_with(prefix.as_bytes())).cloned().collect();
            prop_assert_eq!(found.len(), wanted.len());
            prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
        }
    }

    /// Steps in any order give what a list would give.
    #[test]
    fn turning_round_anywhere_neither_skips_nor_repeats(
        models in prop::collection::vec(model(), 1..40),
        steps in prop::collection::vec(any::<bool>(), 1..200),
    ) {
        let dir = tempfile::tempdir().expect("dir");
        let mut rotating = Rotating::new(dir.path(), WriterOptions { max_size: 1 << 20, ..options() });
        for (index, (model, time)) in models.iter().zip(times(&models)).enumerate() {
            // Half of the cases have many files.
            if model.rotate || (models.len() % 2 == 0 && index % 5 == 4) {
                rotating.rotate();
            }
            rotating.append(time, &model.fields);
        }
        let mut journal = Journal::open_dir(dir.path()).expect("open");
        // Where the list stands: before entry `place`, or on entry `place - 1`.
        let (mut place, mut on) = (0_usize, false);
        for forward in steps {
            let got = if forward { journal.next_entry() } else { journal.previous_entry() };
            let got = got.expect("read").map(|entry| usize::try_from(entry.seqnum()).expect("small") - 1);
            let expected = if forward {
                (place < models.len()).then_some(place)
            } else {
                let current = usize::from(on);
                (place > current).then(|| place - 1 - current)
            };
            prop_assert_eq!(got, expected);
            if let Some(index) = expected {
                place = index + 1;
                on = true;
            }
        }
        rotating.writer.close().expect("close");
    }
}
