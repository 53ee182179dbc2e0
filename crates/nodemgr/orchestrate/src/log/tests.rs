//! Logs that are read while they grow, cut, and continued.

use std::fs;
use std::io::Write as _;

use muster_provider::SystemClock;
use tempfile::TempDir;

use super::*;

const SMALL: u64 = 400;

struct Rig {
    folder: TempDir,
    settings: Settings,
    run: RunId,
    grew: watch::Sender<u64>,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            log_file: SMALL,
            log_files: 3,
            ..Settings::new(folder.path().join("runs"))
        };
        Self {
            folder,
            settings,
            run: "r-1".parse().expect("an id"),
            grew: watch::channel(0).0,
        }
    }

    fn open(&self) -> JobLog {
        let clock = Arc::new(SystemClock);
        let (log, writer) = RunLog::open(&self.settings, &self.run, clock, self.grew.clone());
        tokio::spawn(writer);
        log.of(&Job::Work {
            step: "s".into(),
            slot: Slot::new("a", 0),
        })
    }

    fn read(&self, from: u64) -> LogPage {
        read(&folder(&self.settings, &self.run), from, usize::MAX).expect("it can be read")
    }
}

fn texts(page: &LogPage) -> String {
    page.records.iter().map(|it| it.text.as_str()).collect()
}

#[tokio::test]
async fn what_is_flushed_can_be_read_and_positions_go_on() {
    let rig = Rig::new();
    assert_eq!(rig.read(0), LogPage::default());
    let mut log = rig.open();
    log.write(Stream::Stdout, b"one\n").await;
    log.write(Stream::Stderr, b"two\n").await;
    log.flush().await;
    let page = rig.read(0);
    assert_eq!(texts(&page), "one\ntwo\n");
    assert_eq!(page.records[1].stream, Stream::Stderr);
    assert_eq!(page.records[1].step.as_deref(), Some("s"));
    assert_eq!(rig.read(page.next).records, []);
    log.note("three").await;
    log.flush().await;
    assert_eq!(texts(&rig.read(page.next)), "three\n");
    assert!(*rig.grew.borrow() >= 2);
    drop(rig.folder);
}

#[tokio::test]
async fn a_log_is_bounded_and_says_what_it_lost() {
    let rig = Rig::new();
    let mut log = rig.open();
    for number in 0..200 {
        log.write(Stream::Stdout, format!("{number:03}\n").as_bytes())
            .await;
        log.flush().await;
    }
    let folder = folder(&rig.settings, &rig.run);
    let sizes = fs::read_dir(&folder)
        .expect("files")
        .map(|it| it.and_then(|it| it.metadata()).expect("a file").len());
    let sizes: Vec<u64> = sizes.collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().sum::<u64>() < 3 * (SMALL + 200), "{sizes:?}");
    let page = rig.read(0);
    assert!(page.lost > 0);
    let kept = texts(&page);
    let first: usize = kept[..3].parse().expect("a number");
    let expected: String = (first..200)
        .map(|number| format!("{number:03}\n"))
        .collect();
    assert_eq!(kept, expected, "without a gap");
    // In pages it is the same.
    let (mut from, mut paged) = (0, String::new());
    loop {
        let page = read(&folder, from, 1).expect("a page");
        paged += &texts(&page);
        from = page.next;
        if !page.more {
            break;
        }
    }
    assert_eq!(paged, kept);
}

#[tokio::test]
async fn a_line_that_a_crash_cut_is_dropped_and_the_log_goes_on() {
    let rig = Rig::new();
    let log = rig.open();
    log.note("before").await;
    log.flush().await;
    drop(log);
    let file = folder(&rig.settings, &rig.run).join("log-00000000000000000000.jsonl");
    let mut torn = fs::OpenOptions::new()
        .append(true)
        .open(&file)
        .expect("the file");
    torn.write_all(b"{\"at\": 1, \"slot\": \"a/0")
        .expect("written");
    assert_eq!(
        texts(&rig.read(0)),
        "before\n",
        "half a line is not there yet"
    );
    let log = rig.open();
    log.note("after").await;
    log.flush().await;
    assert_eq!(texts(&rig.read(0)), "before\nafter\n");
}

#[tokio::test]
async fn only_its_owner_can_read_a_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let log = rig.open();
    log.note("x").await;
    log.flush().await;
    let folder = folder(&rig.settings, &rig.run);
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("log-00000000000000000000.jsonl")), 0o600);
}

#[tokio::test]
async fn what_is_no_text_is_kept_byte_by_byte() {
    let rig = Rig::new();
    let mut log = rig.open();
    let written: Vec<u8> = (0..=255)
        .chain(*"é€\n".as_bytes().first_chunk::<4>().expect("4"))
        .collect();
    for piece in written.chunks(7) {
        log.write(Stream::Stdout, piece).await;
    }
    log.end().await;
    log.flush().await;
    let page = rig.read(0);
    let read: Vec<u8> = page
        .records
        .iter()
        .flat_map(|it| it.written().to_vec())
        .collect();
    assert_eq!(read, written);
    assert!(
        page.records.iter().any(|it| !it.text.is_empty()),
        "text stays text"
    );
}

#[tokio::test]
async fn what_is_missing_in_the_middle_is_told_where_it_is_missing() {
    let rig = Rig::new();
    let mut log = rig.open();
    for number in 0..15 {
        log.write(Stream::Stdout, format!("{number:02}\n").as_bytes())
            .await;
        log.flush().await;
    }
    let folder = folder(&rig.settings, &rig.run);
    let names = fs::read_dir(&folder)
        .expect("files")
        .map(|it| it.expect("a file").path());
    let mut names: Vec<PathBuf> = names.collect();
    names.sort();
    assert_eq!(names.len(), 3);
    fs::remove_file(&names[1]).expect("removed");
    let first = rig.read(0);
    assert!(first.more && first.lost == 0 && !first.records.is_empty());
    let second = rig.read(first.next);
    assert!(!second.more && second.lost > 0 && !second.records.is_empty());
}
