use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use rustix::time::{ClockId, clock_gettime};

use super::*;

const ROOT: &str = "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n";
const TMP: &str = "30 21 0:25 / /tmp rw,nosuid shared:2 master:1 - tmpfs tmpfs rw,size=1k\n";

fn places(changes: &[MountChange]) -> Vec<(&str, Option<&str>)> {
    changes
        .iter()
        .map(|change| {
            let what = change.now.as_ref().map(|entry| &*entry.what);
            (&*change.place, what)
        })
        .collect()
}

#[test]
fn lines_are_split_and_unescaped() {
    let line = br"36 35 98:0 /mnt1 /mnt/a\040b rw,noatime - ext3 /dev/ro\134ot rw,errors=continue";
    let parsed = MountLine::parse(line).unwrap();
    assert_eq!((parsed.id, parsed.parent), (36, 35));
    assert_eq!(parsed.root, b"/mnt1");
    let mut table = MountTable::default();
    let changes = table.update(line);
    assert_eq!(places(&changes), [("/mnt/a b", Some(r"/dev/ro\ot"))]);
    let entry = table.at("/mnt/a b").unwrap();
    assert_eq!(&*entry.options, "rw,noatime,errors=continue");
    assert_eq!(&*entry.fs_type, "ext3");
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_skipped() {
    let missing = |field| ParseMountLineError::Missing { field };
    for (line, error) in [
        ("", missing("id")),
        ("x 1", ParseMountLineError::Number { field: "id" }),
        ("1 1 0:1 / /x rw shared:1", missing("separator")),
        ("1 1 0:1 / /x rw -", missing("type")),
        ("1 1 0:1 / /x rw - t", missing("source")),
    ] {
        assert_eq!(MountLine::parse(line.as_bytes()), Err(error), "{line}");
    }
    let mut table = MountTable::default();
    let mut text = ROOT.as_bytes().to_vec();
    text.extend(b"nonsense\n99999999999999999999999 1\n5 1 0:1 / /\\377 rw - t s rw\n");
    assert_eq!(table.update(&text).len(), 1);
    assert_eq!(table.skipped(), 3);
    // A mount without a source has an empty field there.
    table.update(b"7 1 0:1 / /x rw - t  rw\n");
    assert_eq!(&*table.at("/x").unwrap().what, "");
}

#[test]
fn only_what_changed_is_told() {
    let mut table = MountTable::default();
    let both = format!("{ROOT}{TMP}");
    assert_eq!(
        places(&table.update(both.as_bytes())),
        [("/", Some("/dev/sda1")), ("/tmp", Some("tmpfs"))]
    );
    assert_eq!(table.update(both.as_bytes()), []);
    let read_only = both.replace("rw,nosuid", "ro,nosuid");
    let changes = table.update(read_only.as_bytes());
    assert_eq!(places(&changes), [("/tmp", Some("tmpfs"))]);
    assert_eq!(&*table.at("/tmp").unwrap().options, "ro,nosuid,size=1k");
    // On top of it lies another, then the lower is the only one again.
    let stacked = format!("{read_only}31 30 0:26 / /tmp rw - ramfs ram rw\n");
    assert_eq!(
        places(&table.update(stacked.as_bytes())),
        [("/tmp", Some("ram"))]
    );
    assert_eq!(table.depth("/tmp"), 2);
    assert_eq!(
        places(&table.update(read_only.as_bytes())),
        [("/tmp", Some("tmpfs"))]
    );
    // The number of one that is gone is given to another, elsewhere.
    let reused = format!("{ROOT}30 21 0:25 / /run rw - tmpfs run rw\n");
    assert_eq!(
        places(&table.update(reused.as_bytes())),
        [("/run", Some("run")), ("/tmp", None)]
    );
    assert_eq!(
        table.iter().map(|(place, _)| place).collect::<Vec<_>>(),
        ["/", "/run"]
    );
    assert_eq!(table.update(b"").len(), 2);
    assert_eq!(table.iter().count(), 0);
}

#[test]
fn swaps_are_told_when_they_change() {
    let head = "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n";
    let text = format!("{head}/dev/sda2  partition\t100\t0\t-2\n/a\\040b file 5 0 7\nbad line\n");
    let mut table = SwapTable::default();
    let on = |what: &str, priority| SwapChange {
        what: what.into(),
        priority: Some(priority),
    };
    let changes = table.update(text.as_bytes());
    assert_eq!(changes, [on("/a b", 7), on("/dev/sda2", -2)]);
    assert_eq!(table.skipped(), 1);
    assert_eq!(table.update(text.as_bytes()), []);
    let text = format!("{head}/dev/sda2  partition\t100\t0\t5\n");
    let off = SwapChange {
        what: "/a b".into(),
        priority: None,
    };
    assert_eq!(table.update(text.as_bytes()), [off, on("/dev/sda2", 5)]);
    assert_eq!(table.priority("/dev/sda2"), Some(5));
    assert_eq!(table.iter().count(), 1);
    assert_eq!(table.update(b"").len(), 1);
}

#[test]
fn the_kernels_own_tables_are_read() {
    let mut mounts = MountWatch::open(Path::new("/proc/self/mountinfo")).unwrap();
    let all = mounts.refresh().unwrap();
    assert!(all.iter().any(|change| &*change.place == "/proc"));
    assert_eq!(mounts.table().skipped(), 0);
    if let Ok(mut swaps) = SwapWatch::open(Path::new("/proc/swaps")) {
        swaps.refresh().unwrap();
        assert_eq!(swaps.table().skipped(), 0);
    }
    let error = MountWatch::open(Path::new("/proc/none")).unwrap_err();
    assert!(error.to_string().contains("/proc/none"));
}

#[test]
fn mount_points_are_made_where_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    make_mount_point(&place("a/b"), 0o750).unwrap();
    assert!(dir.path().join("a/b").is_dir());
    std::fs::write(place("file"), "").unwrap();
    make_mount_point(&place("file"), 0o755).unwrap();
    let error = make_mount_point(&place("file/x"), 0o755).unwrap_err();
    assert!(error.to_string().ends_with("file/x"), "{error}");
}

/// Runs in a mount namespace of its own, which ends with the thread.
fn in_own_namespace(test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            leave_mount_namespace();
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            rustix::mount::mount_change("/", private).unwrap();
            test();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

#[expect(unsafe_code, reason = "leaving a namespace has no safe wrapper")]
fn leave_mount_namespace() {
    // SAFETY: only the mount namespace is left; descriptors stay shared with the other threads.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
}

fn has_news(watch: &MountWatch, wait: Duration) -> bool {
    let timeout = Timespec::try_from(wait).unwrap();
    let mut fds = [PollFd::new(watch, PollFlags::PRI)];
    poll(&mut fds, Some(&timeout)).unwrap();
    fds[0].revents().contains(PollFlags::PRI)
}

#[test]
fn mounts_are_noticed_as_they_come_and_go() {
    muster_lab::require!(Root);
    in_own_namespace(|| {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_str().unwrap();
        let mut watch = MountWatch::open(Path::new("/proc/thread-self/mountinfo")).unwrap();
        watch.refresh().unwrap();
        has_news(&watch, Duration::ZERO);
        assert!(!has_news(&watch, Duration::ZERO));
        rustix::mount::mount("src dir", place, "tmpfs", MountFlags::NOSUID, None).unwrap();
        assert!(has_news(&watch, Duration::from_secs(10)));
        let changes = watch.refresh().unwrap();
        assert_eq!(places(&changes), [(place, Some("src dir"))]);
        rustix::mount::unmount(place, UnmountFlags::DETACH).unwrap();
        assert!(has_news(&watch, Duration::from_secs(10)));
        assert_eq!(places(&watch.refresh().unwrap()), [(place, None)]);
    });
}

/// Ten thousand mounts while somebody watches: what watching costs in total.
#[test]
fn a_storm_of_mounts_costs_little() {
    muster_lab::require!(Root);
    const MOUNTS: usize = 10_000;
    // Unoptimised code is an order of magnitude slower.
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 1000 } else { 100 });
    in_own_namespace(|| {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("m");
        std::fs::create_dir(&base).unwrap();
        rustix::mount::mount("storm", &base, "tmpfs", MountFlags::empty(), None).unwrap();
        let source = base.join("source");
        std::fs::create_dir(&source).unwrap();
        let places: Vec<_> = (0..MOUNTS)
            .map(|n| base.join(format!("place-{n}")))
            .collect();
        for place in &places {
            std::fs::create_dir(place).unwrap();
        }
        let mut watch = MountWatch::open(Path::new("/proc/thread-self/mountinfo")).unwrap();
        let before = watch.refresh().unwrap().len();
        let (mut pace, mut reads, mut seen) = (Pace::default(), 0u32, 0);
        let start = Instant::now();
        let cpu_before = thread_cpu();
        std::thread::scope(|scope| {
            // A thread of a thread that left its namespace is in the new one too.
            let storm = scope.spawn(|| {
                for place in &places {
                    rustix::mount::mount_bind(&source, place).unwrap();
                }
            });
            while seen < MOUNTS {
                let wait = pace.wait(start.elapsed());
                if !wait.is_zero() {
                    // What a manager does with other work, or asleep.
                    std::thread::park_timeout(wait);
                }
                if has_news(&watch, Duration::from_millis(100)) || storm.is_finished() {
                    let began = start.elapsed();
                    let changes = watch.refresh().unwrap();
                    seen += changes.iter().filter(|c| c.now.is_some()).count();
                    let ended = start.elapsed();
                    pace.spent(ended - began, ended);
                    reads += 1;
                }
            }
        });
        let cost = thread_cpu() - cpu_before;
        println!(
            "{MOUNTS} mounts in {:?}: {reads} reads, {cost:?} of CPU",
            start.elapsed()
        );
        assert_eq!(watch.table().iter().count(), before + MOUNTS);
        assert!(cost < limit, "{cost:?} for {reads} reads");
        // All gone at once.
        rustix::mount::unmount(&base, UnmountFlags::DETACH).unwrap();
        let gone = watch.refresh().unwrap();
        assert_eq!(gone.len(), MOUNTS + 1);
    });
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap())
}

proptest! {
    /// The table after any sequence of texts is the table of the last text, and applying the changes to the one before
    /// gives it.
    #[test]
    fn changes_lead_from_one_table_to_the_next(
        texts in prop::collection::vec(
            prop::collection::vec((0..6u8, 0..4u8, 0..3u8), 0..8), 1..6)
    ) {
        let mut table = MountTable::default();
        let mut model = std::collections::BTreeMap::new();
        for lines in texts {
            // A number stands in the kernel's table once.
            let lines: std::collections::BTreeMap<_, _> =
                lines.into_iter().map(|(id, place, what)| (id, (place, what))).collect();
            let text: String = lines
                .iter()
                .map(|(id, (place, what))| format!("{id} 1 0:1 / /p{place} rw - t s{what} rw\n"))
                .collect();
            for change in table.update(text.as_bytes()) {
                match change.now {
                    Some(entry) => drop(model.insert(change.place.to_string(), entry)),
                    None => {
                        prop_assert!(model.remove(&*change.place).is_some());
                    }
                }
            }
            let now: std::collections::BTreeMap<_, _> = table
                .iter()
                .map(|(place, entry)| (place.to_owned(), entry.clone()))
                .collect();
            prop_assert_eq!(&now, &model);
            let expected: std::collections::BTreeSet<_> =
                lines.values().map(|(place, _)| format!("/p{place}")).collect();
            prop_assert!(now.keys().eq(expected.iter()));
            for (place, entry) in &now {
                let fits = lines.values().any(|(p, what)| {
                    (format!("/p{p}"), format!("s{what}")) == (place.clone(), entry.what.to_string())
                });
                prop_assert!(fits);
            }
        }
    }

    #[test]
    fn any_bytes_are_taken_without_panic(
        text in prop::collection::vec(prop_oneof![Just(b' '), Just(b'-'), Just(b'\n'), Just(b'\\'), any::<u8>()], 0..200)
    ) {
        MountTable::default().update(&text);
        SwapTable::default().update(&text);
        let _ = MountLine::parse(&text);
    }
}
