use std::path::PathBuf;

use super::*;
use crate::state::LedgerFile;

const NOW: Stamp = Stamp {
    realtime_us: 1_700_000_000_000_000,
    monotonic_us: 1_000_000,
};

struct Rig {
    dir: tempfile::TempDir,
    ledger: Ledger,
    host: Host,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let host = Host::read(&PathBuf::from("/nonexistent")).expect("a host");
        let file = LedgerFile::lock(&dir.path().join("ledger")).expect("a file");
        let ledger = Ledger::open(file, 1, 0).expect("a ledger");
        Self { dir, ledger, host }
    }

    fn store(&self, config: &Config) -> Store {
        let (memory, disk) = (self.dir.path().join("run"), self.dir.path().join("var"));
        let places = Places::new(&memory, &disk, self.host.machine_id);
        Store::new(config, &self.host, places, false)
    }

    fn append(&mut self, store: &mut Store, text: &str, now: Stamp) -> bool {
        let field = format!("MESSAGE={text}");
        store.append(
            &mut self.ledger,
            None,
            now,
            Level::INFO,
            &[field.as_bytes()],
        )
    }

    fn names(&self, medium: &str) -> Vec<String> {
        let folder = self
            .dir
            .path()
            .join(medium)
            .join(self.host.machine_id.to_string());
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

fn later(seconds: u64) -> Stamp {
    Stamp {
        realtime_us: NOW.realtime_us + seconds * 1_000_000,
        monotonic_us: NOW.monotonic_us + seconds * 1_000_000,
    }
}

#[test]
fn entries_go_to_the_disk_if_its_folder_is_there() {
    let mut rig = Rig::new();
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    assert_eq!(store.medium(), Some(Medium::Memory));
    assert!(rig.append(&mut store, "one", NOW));
    assert_eq!(store.last_sequence(), 1);
    std::fs::create_dir(rig.dir.path().join("var")).expect("made");
    // Nobody asked: it finds out by itself.
    store.turn(later(60));
    assert_eq!(store.medium(), Some(Medium::Disk));
    assert!(rig.append(&mut store, "two", later(60)));
    assert_eq!(rig.names("run"), Vec::<String>::new());
    let names = rig.names("var");
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "system.journal");
    assert!(names[1].starts_with("system@") && names[1].ends_with(".journal"));
}

#[test]
fn the_disk_is_left_alone_until_it_is_said_to_be_there() {
    let rig = Rig::new();
    let config = Config {
        storage: Storage::Persistent,
        ..Config::default()
    };
    let mut store = rig.store(&config);
    store.wait_for_flush = true;
    store.open(NOW).expect("open");
    store.turn(later(1000));
    assert_eq!(store.medium(), Some(Medium::Memory));
    assert!(store.flush(later(1000)).expect("flushed"));
    assert_eq!(store.medium(), Some(Medium::Disk));
    assert_eq!(rig.names("run"), Vec::<String>::new());
}

#[test]
fn a_file_is_continued_and_numbers_go_on_over_a_rotation() {
    let mut rig = Rig::new();
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    rig.append(&mut store, "one", NOW);
    drop(store);
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    assert_eq!(store.last_sequence(), 1);
    store.rotate(NOW).expect("rotated");
    rig.append(&mut store, "two", NOW);
    assert_eq!(store.last_sequence(), 2);
    assert_eq!(rig.names("run").len(), 2);
    // A file without entries leaves no archive behind.
    store.rotate(NOW).expect("rotated");
    store.rotate(NOW).expect("rotated");
    assert_eq!(rig.names("run").len(), 3);
}

#[test]
fn files_are_rotated_by_age_and_vacuumed_by_number() {
    let mut rig = Rig::new();
    let mut config = Config {
        max_file_us: 60_000_000,
        ..Config::default()
    };
    config.runtime.max_files = Some(2);
    let mut store = rig.store(&config);
    store.open(NOW).expect("open");
    for minute in 0..6 {
        assert!(rig.append(&mut store, "x", later(minute * 61)));
    }
    assert_eq!(store.counters().rotations, 5);
    assert_eq!(store.counters().removed_files, 3);
    assert_eq!(rig.names("run").len(), 3);
}

#[test]
fn files_are_rotated_by_size_and_stay_within_the_limit() {
    let mut rig = Rig::new();
    let mut config = Config::default();
    config.runtime.max_use = Some(2 << 20);
    config.runtime.max_file_size = Some(512 << 10);
    config.runtime.keep_free = Some(0);
    let mut store = rig.store(&config);
    store.open(NOW).expect("open");
    for number in 0..20_000 {
        assert!(
            rig.append(&mut store, &format!("line {number}"), NOW),
            "{number}"
        );
    }
    let (archived, active) = store.files().expect("files");
    let used = archived.iter().map(|file| file.bytes).sum::<u64>() + active;
    assert!(used <= 2 << 20, "{used}");
    assert!(store.counters().rotations > 3 && store.counters().lost == 0);
}

#[test]
fn files_that_have_become_too_old_go_by_themselves() {
    let mut rig = Rig::new();
    let config = Config {
        max_retention_us: 3_600_000_000,
        ..Config::default()
    };
    let mut store = rig.store(&config);
    store.open(NOW).expect("open");
    rig.append(&mut store, "old", NOW);
    store.rotate(NOW).expect("rotated");
    rig.append(&mut store, "new", NOW);
    store.turn(NOW);
    assert_eq!(rig.names("run").len(), 2);
    // The file's own time is that of the test, not of the entry.
    let year = 366 * 24 * 3600;
    let now = Stamp {
        realtime_us: crate::recorder::now().realtime_us,
        ..NOW
    };
    let then = Stamp {
        realtime_us: now.realtime_us + year * 1_000_000,
        monotonic_us: now.monotonic_us + year * 1_000_000,
    };
    store.turn(then);
    assert_eq!(rig.names("run"), ["system.journal"]);
}

#[test]
fn a_file_that_is_none_is_put_out_of_the_way() {
    let mut rig = Rig::new();
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    rig.append(&mut store, "one", NOW);
    let path = store.folder().expect("a folder").active();
    drop(store);
    // Another machine's.
    let mut bytes = std::fs::read(&path).expect("a file");
    bytes[40] ^= 0xff;
    std::fs::write(&path, &bytes).expect("written");
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    assert!(rig.append(&mut store, "two", NOW));
    let names = rig.names("run");
    assert!(
        names.iter().any(|name| name.ends_with(".journal~")),
        "{names:?}"
    );
    drop(store);
    std::fs::write(&path, b"rubbish").expect("written");
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    assert!(rig.append(&mut store, "three", NOW));
}

#[test]
fn what_matters_is_put_on_disk_at_once_and_the_rest_in_time() {
    let mut rig = Rig::new();
    let mut store = rig.store(&Config::default());
    store.open(NOW).expect("open");
    rig.append(&mut store, "x", NOW);
    let next = store.turn(NOW).expect("a deadline");
    assert_eq!(next, NOW.monotonic_us + NOTIFY_US);
    let next = store.turn(later(1)).expect("a deadline");
    assert_eq!(next, NOW.monotonic_us + 300_000_000);
    assert_eq!(store.counters().syncs, 0);
    store.append(
        &mut rig.ledger,
        None,
        later(2),
        Level::CRIT,
        &[b"MESSAGE=bad"],
    );
    store.turn(later(2));
    assert_eq!(store.counters().syncs, 1);
}

#[test]
fn without_a_place_entries_are_counted_and_told_of() {
    let mut rig = Rig::new();
    std::fs::write(rig.dir.path().join("run"), b"not a folder").expect("written");
    let mut store = rig.store(&Config::default());
    assert!(store.open(NOW).is_err());
    assert!(!rig.append(&mut store, "one", NOW));
    assert!(!rig.append(&mut store, "two", NOW));
    assert_eq!(store.take_untold_loss(later(5)), None);
    std::fs::remove_file(rig.dir.path().join("run")).expect("removed");
    assert!(rig.append(&mut store, "three", later(5)));
    assert_eq!(store.take_untold_loss(later(5)), Some(2));
    assert_eq!(store.take_untold_loss(later(5)), None);
    assert_eq!((store.counters().stored, store.counters().lost), (1, 2));
}

#[test]
fn nothing_is_kept_where_nothing_is_wanted() {
    let mut rig = Rig::new();
    let mut store = rig.store(&Config {
        storage: Storage::None,
        ..Config::default()
    });
    store.open(NOW).expect("nothing to open");
    assert!(!rig.append(&mut store, "one", NOW));
    assert_eq!(store.counters().lost, 0);
    assert!(!rig.dir.path().join("run").exists());
}
