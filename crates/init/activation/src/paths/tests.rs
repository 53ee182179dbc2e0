use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn spec(kind: PathKind, path: &Path) -> PathSpec {
    PathSpec {
        kind,
        path: path.to_str().unwrap().into(),
    }
}

/// A folder and watches.
struct Rig {
    dir: tempfile::TempDir,
    watches: PathWatches,
}

impl Rig {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            watches: PathWatches::new().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn watch(&mut self, kind: PathKind, name: &str) -> WatchId {
        let spec = spec(kind, &self.path(name));
        self.watches.add(&[spec])
    }

    /// Which watches have something to tell. inotify queues an event before the call that caused it returns.
    fn told(&mut self) -> Vec<WatchId> {
        let notices = self.watches.dispatch().unwrap();
        let watch = |notice: &PathNotice| match notice {
            PathNotice::Triggered { watch, .. } => *watch,
            other => panic!("{other:?}"),
        };
        notices.iter().map(watch).collect()
    }
}

#[test]
fn existence_is_told_at_once_and_when_it_comes() {
    let mut rig = Rig::new();
    let deep = rig.watch(PathKind::Exists, "a/b/c");
    assert_eq!(rig.watches.arm(deep).unwrap(), None);
    fs::create_dir(rig.path("a")).unwrap();
    assert_eq!(rig.told(), []);
    fs::create_dir(rig.path("a/b")).unwrap();
    assert_eq!(rig.told(), []);
    fs::write(rig.path("a/other"), "").unwrap();
    assert_eq!(rig.told(), []);
    fs::write(rig.path("a/b/c"), "").unwrap();
    assert_eq!(rig.told(), [deep]);
    rig.watches.disarm(deep);
    assert_eq!(rig.watches.arm(deep).unwrap(), Some(0));
    rig.watches.remove(deep);
    fs::remove_file(rig.path("a/b/c")).unwrap();
    fs::write(rig.path("a/b/c"), "").unwrap();
    assert_eq!(rig.told(), []);
    assert!(rig.watches.kernel.is_empty() && rig.watches.watches.is_empty());
}

#[test]
fn folders_that_come_with_their_content_are_seen() {
    let mut rig = Rig::new();
    fs::create_dir_all(rig.path("made/b")).unwrap();
    fs::write(rig.path("made/b/c"), "").unwrap();
    let watch = rig.watch(PathKind::Exists, "a/b/c");
    rig.watches.arm(watch).unwrap();
    fs::rename(rig.path("made"), rig.path("a")).unwrap();
    assert_eq!(rig.told(), [watch]);
}

#[test]
fn replaced_folders_and_links_are_followed() {
    let mut rig = Rig::new();
    for name in ["one", "two"] {
        fs::create_dir(rig.path(name)).unwrap();
    }
    symlink("one", rig.path("link")).unwrap();
    let watch = rig.watch(PathKind::Modified, "link/file");
    rig.watches.arm(watch).unwrap();
    fs::write(rig.path("one/file"), "1").unwrap();
    assert_eq!(rig.told(), [watch]);
    assert_eq!(rig.told(), []);
    fs::write(rig.path("two/file"), "2").unwrap();
    assert_eq!(rig.told(), []);
    // The link is put somewhere else in one step, as `ln -sfn` does.
    symlink("two", rig.path("new")).unwrap();
    fs::rename(rig.path("new"), rig.path("link")).unwrap();
    assert_eq!(rig.told(), [watch]);
    fs::write(rig.path("one/file"), "3").unwrap();
    assert_eq!(rig.told(), []);
    fs::write(rig.path("two/file"), "4").unwrap();
    assert_eq!(rig.told(), [watch]);
    fs::rename(rig.path("two"), rig.path("three")).unwrap();
    assert_eq!(rig.told(), [watch]);
    fs::create_dir(rig.path("two")).unwrap();
    assert_eq!(rig.told(), []);
    fs::write(rig.path("two/file"), "5").unwrap();
    assert_eq!(rig.told(), [watch]);
}

#[test]
fn changes_are_told_apart_from_modifications() {
    let mut rig = Rig::new();
    fs::write(rig.path("f"), "").unwrap();
    let changed = rig.watch(PathKind::Changed, "f");
    let modified = rig.watch(PathKind::Modified, "f");
    assert_eq!(rig.watches.arm(changed).unwrap(), None);
    assert_eq!(rig.watches.arm(modified).unwrap(), None);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(rig.path("f"))
        .unwrap();
    std::io::Write::write_all(&mut file, b"x").unwrap();
    assert_eq!(rig.told(), [modified]);
    drop(file);
    assert_eq!(rig.told(), [changed, modified]);
    fs::remove_file(rig.path("f")).unwrap();
    assert_eq!(rig.told(), [changed, modified]);
    fs::write(rig.path("f"), "").unwrap();
    assert_eq!(rig.told(), [changed, modified]);
    // Replaced as a whole, in one step.
    fs::write(rig.path("g"), "new").unwrap();
    fs::rename(rig.path("g"), rig.path("f")).unwrap();
    assert_eq!(rig.told(), [changed, modified]);
}

#[test]
fn a_service_that_writes_to_its_own_trigger_does_not_start_itself_for_ever() {
    let mut rig = Rig::new();
    fs::write(rig.path("f"), "").unwrap();
    let watch = rig.watch(PathKind::Modified, "f");
    rig.watches.arm(watch).unwrap();
    fs::write(rig.path("f"), "1").unwrap();
    assert_eq!(rig.told(), [watch]);
    rig.watches.disarm(watch);
    fs::write(rig.path("f"), "2").unwrap();
    assert_eq!(rig.told(), []);
    assert_eq!(rig.watches.arm(watch).unwrap(), None);
    // Appearing and vanishing meanwhile counts.
    rig.watches.disarm(watch);
    fs::remove_file(rig.path("f")).unwrap();
    assert_eq!(rig.watches.arm(watch).unwrap(), Some(0));
}

#[test]
fn filled_directories_and_patterns_are_told() {
    let mut rig = Rig::new();
    let filled = rig.watch(PathKind::DirectoryNotEmpty, "spool");
    let pattern = rig.watch(PathKind::ExistsGlob, "*/in?/*.job");
    assert_eq!(rig.watches.arm(filled).unwrap(), None);
    assert_eq!(rig.watches.arm(pattern).unwrap(), None);
    fs::create_dir(rig.path("spool")).unwrap();
    assert_eq!(rig.told(), []);
    fs::create_dir(rig.path("spool/in1")).unwrap();
    assert_eq!(rig.told(), [filled]);
    rig.watches.disarm(filled);
    fs::write(rig.path("spool/in1/x.txt"), "").unwrap();
    assert_eq!(rig.told(), []);
    fs::write(rig.path("spool/in1/x.job"), "").unwrap();
    assert_eq!(rig.told(), [pattern]);
}

#[test]
fn single_files_are_told_of_until_they_are_gone() {
    let mut rig = Rig::new();
    let path = rig.path("events");
    fs::write(&path, "0").unwrap();
    let text = path.to_str().unwrap().to_owned();
    let one = rig.watches.watch_file(&text).unwrap();
    let two = rig.watches.watch_file(&text).unwrap();
    let changed = rig.watch(PathKind::Changed, "events");
    rig.watches.arm(changed).unwrap();
    rig.watches.remove(two);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"1", 0).unwrap();
    let notices = rig.watches.dispatch().unwrap();
    assert_eq!(notices, [PathNotice::Modified { watch: one }]);
    drop(file);
    rig.watches.remove(changed);
    rig.watches.dispatch().unwrap();
    fs::remove_file(&path).unwrap();
    let notices = rig.watches.dispatch().unwrap();
    assert_eq!(notices, [PathNotice::Gone { watch: one }]);
    assert!(rig.watches.kernel.is_empty() && rig.watches.watches.is_empty());
    let error = rig.watches.watch_file(&text).unwrap_err();
    assert!(error.to_string().contains("events"), "{error}");
}

#[test]
fn what_happens_while_nobody_reads_is_told_to_the_next_owner() {
    let mut rig = Rig::new();
    fs::write(rig.path("old"), "").unwrap();
    let paths = |rig: &Rig| {
        [
            spec(PathKind::Modified, &rig.path("old")),
            spec(PathKind::Modified, &rig.path("new")),
            spec(PathKind::Changed, &rig.path("quiet")),
        ]
    };
    let watch = rig.watches.add(&paths(&rig));
    rig.watches.arm(watch).unwrap();
    let kept = rig.watches.as_fd().try_clone_to_owned().unwrap();
    // The manager dies; things go on.
    let specs = paths(&rig);
    fs::write(rig.path("old"), "changed").unwrap();
    fs::write(rig.path("new"), "came").unwrap();
    rig.watches = PathWatches::adopt(kept);
    let watch = rig.watches.add(&specs);
    assert_eq!(rig.watches.arm(watch).unwrap(), None);
    let told = rig.watches.dispatch().unwrap();
    let triggered = |index| PathNotice::Triggered { watch, index };
    assert_eq!(told, [triggered(0), triggered(1)]);
    assert_eq!(rig.watches.dispatch().unwrap(), []);
}

#[test]
fn an_overflow_makes_everything_be_looked_at() {
    let mut rig = Rig::new();
    fs::create_dir(rig.path("busy")).unwrap();
    fs::write(rig.path("f"), "").unwrap();
    let busy = rig.watch(PathKind::Modified, "busy");
    let quiet = rig.watch(PathKind::Modified, "f");
    let missing = rig.watch(PathKind::Exists, "none");
    for watch in [busy, quiet, missing] {
        rig.watches.arm(watch).unwrap();
    }
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: u32 = limit.trim().parse().unwrap();
    fs::write(rig.path("busy/0"), "").unwrap();
    for n in 0..=limit / 2 {
        // Two events, which the kernel does not merge because their names differ.
        let (from, to) = (format!("busy/{}", n % 2), format!("busy/{}", (n + 1) % 2));
        fs::rename(rig.path(&from), rig.path(&to)).unwrap();
    }
    fs::write(rig.path("f"), "lost").unwrap();
    let mut told = Vec::new();
    for _ in 0..=(limit as usize / EVENTS_AT_ONCE + 1) {
        told.extend(rig.told());
    }
    assert!(told.contains(&busy) && told.contains(&quiet), "{told:?}");
    assert!(!told.contains(&missing));
}

#[test]
fn directories_are_made_where_something_is_awaited_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let config = muster_unit_file::config::PathConfig {
        paths: vec![
            spec(PathKind::DirectoryNotEmpty, &path("a/spool")),
            spec(PathKind::Exists, &path("flag")),
        ],
        make_directory: true,
        directory_mode: muster_unit_file::value::number::Mode(0o710),
        ..Default::default()
    };
    assert_eq!(make_directories(&config), []);
    let made = fs::metadata(path("a/spool")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&made.permissions());
    assert_eq!(mode & 0o777, 0o710);
    assert!(!path("flag").exists());
    fs::remove_dir(path("a/spool")).unwrap();
    fs::write(path("a/spool"), "").unwrap();
    assert_eq!(make_directories(&config).len(), 1);
}

#[test]
fn pid_files_say_a_number_or_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pid");
    let text = path.to_str().unwrap();
    let missing = read_pid_file(text).unwrap_err();
    assert!(matches!(missing, ReadPidFileError::Missing { .. }));
    fs::write(&path, "  4711\n").unwrap();
    let is_root = rustix::process::getuid().is_root();
    let expected = PidFile {
        pid: 4711,
        written_by_root: is_root,
    };
    assert_eq!(read_pid_file(text).unwrap(), expected);
    let long = "1".repeat(100);
    for bad in ["", "0", "1", "-5", "x", "4294967295", "99999999999", &long] {
        fs::write(&path, bad).unwrap();
        let error = read_pid_file(text).unwrap_err();
        assert!(
            matches!(error, ReadPidFileError::NotANumber { .. }),
            "{bad}"
        );
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(read_pid_file(text).is_err());
    fs::remove_file(&path).unwrap();
    // A pipe that nobody writes to must not hold the reader up.
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(read_pid_file(text).is_err());
}

/// Whatever the moment at which a path comes into being while it is walked, it is told.
#[test]
fn what_comes_during_the_walk_is_not_missed() {
    let mut rig = Rig::new();
    for round in 0..500 {
        let root = rig.path(&round.to_string());
        fs::create_dir(&root).unwrap();
        let watch = rig.watch(PathKind::Exists, &format!("{round}/a/b/c"));
        let arming = std::sync::Barrier::new(2);
        let at_once = std::thread::scope(|scope| {
            scope.spawn(|| {
                arming.wait();
                if round % 2 == 0 {
                    fs::create_dir_all(root.join("a/b")).unwrap();
                    fs::write(root.join("a/b/c"), "").unwrap();
                } else {
                    fs::create_dir_all(root.join("x/b")).unwrap();
                    fs::write(root.join("x/b/c"), "").unwrap();
                    symlink("x", root.join("a")).unwrap();
                }
            });
            arming.wait();
            rig.watches.arm(watch).unwrap()
        });
        let told = rig.told();
        assert!(at_once.is_some() || told == [watch], "round {round}");
        rig.watches.remove(watch);
    }
}

/// Something that happens in the file system. Numbers choose among a few names.
#[derive(Clone, Debug)]
enum Deed {
    MakeFolder(u8),
    Write(u8),
    Remove(u8),
    Rename(u8, u8),
    Link(u8, u8),
    Touch(u8),
}

/// Paths that lie in and over each other.
const NAMES: [&str; 9] = [
    "a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "a/b/a", "b/a/b",
];

fn name(n: u8) -> &'static str {
    NAMES[usize::from(n) % NAMES.len()]
}

fn deed() -> impl Strategy<Value = Deed> {
    let n = 0..9u8;
    prop_oneof![
        n.clone().prop_map(Deed::MakeFolder),
        n.clone().prop_map(Deed::Write),
        n.clone().prop_map(Deed::Remove),
        (n.clone(), n.clone()).prop_map(|(a, b)| Deed::Rename(a, b)),
        (n.clone(), n.clone()).prop_map(|(a, b)| Deed::Link(a, b)),
        n.prop_map(Deed::Touch),
    ]
}

/// Most deeds fail, because something is in the way or missing; that is as good a case as any.
fn act(root: &Path, deed: &Deed, count: usize) {
    let path = |n: u8| root.join(name(n));
    match deed {
        Deed::MakeFolder(n) => drop(fs::create_dir(path(*n))),
        Deed::Write(n) => drop(fs::write(path(*n), count.to_string())),
        Deed::Remove(n) => {
            let path = path(*n);
            let is_folder = path.symlink_metadata().is_ok_and(|found| found.is_dir());
            let _ = if is_folder {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
        }
        Deed::Rename(from, to) => drop(fs::rename(path(*from), path(*to))),
        Deed::Link(to, at) => {
            // Links among the names, which may lead in circles or nowhere.
            drop(symlink(root.join(name(*to)), path(*at)));
        }
        Deed::Touch(n) => {
            if let Ok(file) = fs::OpenOptions::new().append(true).open(path(*n)) {
                let _ = std::io::Write::write_all(&mut &file, b"+");
            }
        }
    }
}

/// What a path leads to and holds: as much as anybody can see of a change.
fn seen(path: &Path) -> Option<(Identity, Option<Vec<u8>>)> {
    let identity = identity(path.to_str().unwrap())?;
    Some((identity, fs::read(path).ok()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Against a model that looks at everything after every batch: what holds is told, what changed is told, and what
    /// does not hold is not.
    #[test]
    fn nothing_is_missed(
        before in prop::collection::vec(deed(), 0..8),
        batches in prop::collection::vec(prop::collection::vec(deed(), 1..5), 1..12),
        watched in prop::collection::vec(0..9u8, 1..4),
    ) {
        let mut rig = Rig::new();
        let root = rig.dir.path().to_path_buf();
        for (n, deed) in before.iter().enumerate() {
            act(&root, deed, n);
        }
        let mut watches = Vec::new();
        for n in &watched {
            for kind in [PathKind::Exists, PathKind::DirectoryNotEmpty, PathKind::Modified] {
                let watch = rig.watch(kind, name(*n));
                let path = root.join(name(*n));
                let holds = rig.watches.arm(watch).unwrap();
                let expected = condition_holds(kind, path.to_str().unwrap());
                prop_assert_eq!(holds.is_some(), expected);
                watches.push((watch, kind, path));
            }
        }
        let mut count = 1000;
        for batch in &batches {
            let was: Vec<_> = watches
                .iter()
                .map(|(_, kind, path)| (condition_holds(*kind, path.to_str().unwrap()), seen(path)))
                .collect();
            for deed in batch {
                count += 1;
                act(&root, deed, count);
            }
            let told = rig.told();
            for ((watch, kind, path), (held, saw)) in watches.iter().zip(was) {
                let holds = condition_holds(*kind, path.to_str().unwrap());
                let is_told = told.contains(watch);
                match kind {
                    PathKind::Modified => {
                        prop_assert!(is_told || seen(path) == saw, "{batch:?}: {path:?} changed");
                    }
                    _ => {
                        prop_assert!(is_told || held || !holds, "{batch:?}: {kind} {path:?} came");
                        prop_assert!(!is_told || holds, "{batch:?}: {kind} {path:?} is not there");
                    }
                }
            }
        }
        for (watch, ..) in &watches {
            rig.watches.remove(*watch);
        }
        prop_assert!(rig.watches.kernel.is_empty());
    }
}
