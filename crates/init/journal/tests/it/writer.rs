//! What a writer refuses, keeps and leaves to others.

use std::os::unix::fs::FileExt;

use muster_journal::{
    AppendError, DATA_SIZE_MAX, EntryTime, FileState, Id128, Journal, JournalFile, JournalWriter,
    NotContinuable, OpenWriterError, RotateReason, SeqnumSource, WriterOptions,
};

use crate::support::*;

fn numbers() -> SeqnumSource {
    SeqnumSource {
        id: boot(9),
        next: 1,
    }
}

struct Scene {
    dir: tempfile::TempDir,
    writer: Option<JournalWriter>,
}

impl Scene {
    fn new(options: &WriterOptions) -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let writer = JournalWriter::create(&dir.path().join("a.journal"), options, numbers());
        Self {
            dir,
            writer: Some(writer.expect("create")),
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("a.journal")
    }

    fn writer(&mut self) -> &mut JournalWriter {
        self.writer.as_mut().expect("open")
    }

    fn close(&mut self) {
        self.writer.take().expect("open").close().expect("close");
    }

    /// Why the file cannot be continued.
    fn refusal(&self, options: &WriterOptions) -> NotContinuable {
        match JournalWriter::open(&self.path(), options) {
            Err(OpenWriterError::NotContinuable { reason, path }) => {
                assert_eq!(path, self.path());
                reason
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn entries_that_no_reader_would_take_are_refused_and_change_nothing() {
    let mut scene = Scene::new(&options());
    scene
        .writer()
        .append(at(0), &["MESSAGE=kept"])
        .expect("append");
    let none: [&str; 0] = [];
    assert!(matches!(
        scene.writer().append(at(1), &none),
        Err(AppendError::NoFields)
    ));
    let many = vec!["A=1"; 1025];
    assert!(matches!(
        scene.writer().append(at(1), &many),
        Err(AppendError::TooManyFields { count: 1025 })
    ));
    let long_name = format!("{}=x", "A".repeat(65));
    for bad in [
        "MESSAGE",
        "=x",
        "",
        "message=x",
        "1A=x",
        "A B=x",
        long_name.as_str(),
    ] {
        assert!(
            matches!(
                scene.writer().append(at(1), &["OK=1", bad]),
                Err(AppendError::FieldName { index: 1 })
            ),
            "{bad}"
        );
    }
    let large = vec![b'A'; usize::try_from(DATA_SIZE_MAX).expect("fits")];
    let large = [b"B=".as_slice(), &large].concat();
    assert!(matches!(
        scene.writer().append(at(1), &[large]),
        Err(AppendError::FieldSize { index: 0, .. })
    ));
    for (realtime, monotonic) in [(0, 1), (1 << 55, 1), (1, 1 << 55)] {
        let when = EntryTime {
            realtime,
            monotonic,
            boot_id: boot(1),
        };
        assert!(matches!(
            scene.writer().append(when, &["A=1"]),
            Err(AppendError::Time)
        ));
    }
    let next = scene
        .writer()
        .append(at(2), &["MESSAGE=kept too"])
        .expect("append");
    assert_eq!(next.seqnum, 2);
    scene.close();
    assert_verified(&scene.path());
}

#[test]
fn a_value_that_stands_twice_is_stored_once() {
    let mut scene = Scene::new(&options());
    let fields = ["A=1", "B=2", "A=1", "A=3", "B=2"];
    scene.writer().append(at(0), &fields).expect("append");
    scene.writer().append(at(1), &fields).expect("append");
    scene.close();
    assert_verified(&scene.path());
    let mut journal = Journal::open_files(&[&scene.path()]).expect("open");
    for _ in 0..2 {
        let entry = journal.next_entry().expect("read").expect("an entry");
        let mut fields = entry.fields().expect("fields");
        fields.sort();
        assert_eq!(fields, [b"A=1", b"A=3", b"B=2"]);
    }
}

#[test]
fn time_since_boot_never_goes_back_within_a_boot() {
    let mut scene = Scene::new(&options());
    scene.writer().append(at(100), &["A=1"]).expect("append");
    let lifted = scene.writer().append(at(50), &["A=2"]).expect("append");
    assert_eq!(lifted.cursor.monotonic, Some(at(100).monotonic));
    assert_eq!(lifted.cursor.realtime, Some(at(50).realtime));
    let other = EntryTime {
        boot_id: boot(2),
        ..at(0)
    };
    let kept = scene.writer().append(other, &["A=3"]).expect("append");
    assert_eq!(kept.cursor.monotonic, Some(at(0).monotonic));
    scene.close();
    assert_verified(&scene.path());
}

#[test]
fn a_file_goes_through_its_states() {
    let mut scene = Scene::new(&options());
    let state = |scene: &Scene| {
        JournalFile::open(&scene.path())
            .expect("open")
            .summary()
            .state
    };
    assert_eq!(state(&scene), FileState::Offline);
    scene.writer().append(at(0), &["A=1"]).expect("append");
    assert_eq!(state(&scene), FileState::Online);
    scene.writer().sync().expect("sync");
    assert_eq!(state(&scene), FileState::Offline);
    scene.writer().append(at(1), &["A=2"]).expect("append");
    assert_eq!(state(&scene), FileState::Online);
    let archived = scene
        .writer
        .take()
        .expect("open")
        .archive()
        .expect("archive");
    assert_eq!(state(&scene), FileState::Archived);
    assert_eq!(archived.head_seqnum, 1);
    assert_eq!(archived.head_realtime, at(0).realtime);
    assert_eq!(
        archived.seqnums,
        SeqnumSource {
            id: boot(9),
            next: 3
        }
    );
    assert_verified(&scene.path());
    assert_eq!(scene.refusal(&options()), NotContinuable::Archived);
}

#[test]
fn one_process_at_a_time_has_a_file() {
    let mut scene = Scene::new(&options());
    scene.writer().append(at(0), &["A=1"]).expect("append");
    let second = JournalWriter::open(&scene.path(), &options());
    assert!(
        matches!(second, Err(OpenWriterError::InUse { .. })),
        "{second:?}"
    );
    scene.close();
    JournalWriter::open(&scene.path(), &options()).expect("free again");
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let mut scene = Scene::new(&options());
    scene.close();
    let again = JournalWriter::create(&scene.path(), &options(), numbers());
    let Err(OpenWriterError::Io { source, .. }) = again else {
        panic!("{again:?}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn files_of_others_are_left_to_readers() {
    let mut scene = Scene::new(&options());
    scene.writer().append(at(0), &["A=1"]).expect("append");
    scene.close();
    let elsewhere = WriterOptions {
        machine_id: boot(77),
        ..options()
    };
    assert_eq!(scene.refusal(&elsewhere), NotContinuable::OtherMachine);
    let regular = WriterOptions {
        compact: false,
        ..options()
    };
    assert_eq!(scene.refusal(&regular), NotContinuable::Foreign);
    let file = std::fs::File::options()
        .write(true)
        .open(scene.path())
        .expect("open");
    // A writer of another boot died with the file open.
    file.write_all_at(&[1], 16).expect("write");
    let next_boot = WriterOptions {
        boot_id: boot(2),
        ..options()
    };
    assert_eq!(scene.refusal(&next_boot), NotContinuable::Unclean);
    // The last object is not one.
    file.write_all_at(&[0], 16).expect("write");
    file.write_all_at(&8_u64.to_le_bytes(), 136).expect("write");
    assert!(matches!(
        scene.refusal(&options()),
        NotContinuable::Damaged { .. }
    ));
    file.write_all_at(b"nothing!", 0).expect("write");
    assert_eq!(scene.refusal(&options()), NotContinuable::NoHeader);
    file.set_len(100).expect("cut");
    assert_eq!(scene.refusal(&options()), NotContinuable::NoHeader);
}

#[test]
fn damage_found_while_appending_ends_the_file_not_the_process() {
    let mut scene = Scene::new(&options());
    scene.writer().append(at(0), &["A=1"]).expect("append");
    let mut journal = Journal::open_files(&[&scene.path()]).expect("open");
    assert!(journal.next_entry().expect("read").is_some());
    // Every bucket of the value table leads to the header.
    let summary = std::fs::read(scene.path()).expect("read");
    let word = |at: usize| u64::from_le_bytes(summary[at..at + 8].try_into().expect("eight bytes"));
    let (table, size) = (word(104), word(112));
    let file = std::fs::File::options()
        .write(true)
        .open(scene.path())
        .expect("open");
    let bad = vec![0xf1; usize::try_from(size).expect("fits")];
    file.write_all_at(&bad, table).expect("write");
    for n in 1..3 {
        let refused = scene.writer().append(at(n), &["B=2"]);
        assert!(
            matches!(refused, Err(AppendError::Damaged { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_small_file_fills_and_says_so() {
    let mut scene = Scene::new(&WriterOptions {
        max_size: 512 << 10,
        ..options()
    });
    let mut appended = 0;
    loop {
        // Bytes that do not compress and do not repeat.
        let noise = Id128::random().expect("random").to_string();
        match scene.writer().append(
            at(appended),
            &[format!("MESSAGE={noise}{}", "x".repeat(450))],
        ) {
            Ok(_) => appended += 1,
            Err(AppendError::Full { path }) => break assert_eq!(path, scene.path()),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(appended > 500, "{appended}");
    assert_eq!(scene.writer().n_entries(), appended);
    assert_eq!(scene.writer().disk_usage(), 512 << 10);
    scene.close();
    assert_verified(&scene.path());
}

#[test]
fn full_tables_ask_for_rotation() {
    let mut scene = Scene::new(&WriterOptions {
        max_size: 1 << 20,
        ..options()
    });
    let mut n = 0;
    while scene.writer().rotation_due().is_none() {
        scene
            .writer()
            .append(at(n), &[format!("A={n}")])
            .expect("append");
        n += 1;
    }
    assert_eq!(
        scene.writer().rotation_due(),
        Some(RotateReason::DataTableFull)
    );
    let mut scene = Scene::new(&options());
    let mut n = 0;
    while scene.writer().rotation_due().is_none() {
        scene
            .writer()
            .append(at(n), &[format!("A{n}=1")])
            .expect("append");
        n += 1;
    }
    assert_eq!(
        scene.writer().rotation_due(),
        Some(RotateReason::FieldTableFull)
    );
    assert_eq!(n, 768);
    scene.close();
    assert_verified(&scene.path());
}

#[test]
fn senseless_size_limits_are_refused() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a.journal");
    for max_size in [0, 4096, u64::MAX] {
        let refused = JournalWriter::create(
            &path,
            &WriterOptions {
                max_size,
                ..options()
            },
            numbers(),
        );
        assert!(
            matches!(refused, Err(OpenWriterError::SizeLimit { .. })),
            "{refused:?}"
        );
        assert!(!path.exists());
    }
}
