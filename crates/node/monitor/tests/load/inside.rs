//! In a machine where groups may be made at the root of every tree.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use muster_api::domain::{AlertRule, AlertRules, AlertStatus, Interval, Percent};
use muster_monitor::{MonitorSettings, ResourceUse, Snapshot};

use crate::rig::{Group, MAX_DMIPS, TIME, cores, folder, with_monitor, with_settings};

fn is_within(percent: u64, reported: u64, kernel: u64) -> bool {
    reported.abs_diff(kernel) * 100 <= kernel * percent
}

#[track_caller]
fn assert_within(percent: u64, reported: u64, kernel: u64, what: &str) {
    assert!(
        is_within(percent, reported, kernel),
        "{what}: {reported} was reported, the kernel says {kernel}"
    );
    println!("{what}: {reported} reported, {kernel} by the kernel");
}

/// At least so much later; the calendar's clock may be slowed down a little while it is corrected.
#[track_caller]
fn assert_later(before: SystemTime, after: SystemTime, least: Duration) {
    let passed = after.duration_since(before).unwrap();
    assert!(passed + Duration::from_millis(2) >= least, "{passed:?}");
}

/// Busy and all ticks of the machine.
fn ticks() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let line = stat.lines().next().unwrap();
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .map(|word| word.parse().unwrap())
        .collect();
    let busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    (busy, ticks.iter().sum())
}

fn memory_in_use() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let kib = |key: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap();
        let number: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        number * 1024
    };
    kib("MemTotal:") - kib("MemAvailable:")
}

/// The mean over several snapshots, by the time each of them is about.
fn mean_dmips(snapshots: &[std::sync::Arc<Snapshot>], of: fn(&Snapshot) -> &ResourceUse) -> u64 {
    let time = |snapshot: &Snapshot| SystemTime::from(snapshot.timestamp);
    let (mut sum, mut whole) = (0.0, 0.0);
    for pair in snapshots.windows(2) {
        let passed = time(&pair[1]).duration_since(time(&pair[0])).unwrap();
        sum += of(&pair[1]).cpu.unwrap().dmips as f64 * passed.as_secs_f64();
        whole += passed.as_secs_f64();
    }
    format!("{:.0}", sum / whole).parse().unwrap()
}

#[test]
#[ignore = "runs in a machine of the lab"]
fn processors() {
    let group = Group::new();
    with_monitor(Duration::from_secs(1), async |handle, _| {
        handle.watch(group.watch());
        let load = group.run("while :; do :; done");
        let mut snapshots = handle.subscribe();
        snapshots.next().await.unwrap();
        let mut taken = vec![snapshots.next().await.unwrap()];
        let (begin, used, machine) = (Instant::now(), group.cpu_time(), ticks());
        // A long time, so that the moments between the monitor's readings and these do not matter.
        while begin.elapsed() < Duration::from_secs(6) {
            taken.push(snapshots.next().await.unwrap());
        }
        let (passed, used) = (begin.elapsed(), group.cpu_time() - used);
        let machine_now = ticks();
        let share = used.as_secs_f64() / passed.as_secs_f64() / cores().get() as f64;
        assert!(share > 0.05, "there was no load: {share}");
        let kernel = format!("{:.0}", share * MAX_DMIPS as f64).parse().unwrap();
        let reported = mean_dmips(&taken, |snapshot| &snapshot.instances[0].data);
        assert_within(5, reported, kernel, "cpu of the group");
        let (busy, all) = (machine_now.0 - machine.0, machine_now.1 - machine.1);
        let reported = mean_dmips(&taken, |snapshot| &snapshot.node);
        assert_within(5, reported, MAX_DMIPS * busy / all, "cpu of the node");
        drop(load);
    });
}

#[test]
#[ignore = "runs in a machine of the lab"]
fn memory_processes_and_disk() {
    let group = Group::new();
    let storage = tempfile::tempdir().unwrap();
    fs::create_dir(storage.path().join("below")).unwrap();
    fs::write(storage.path().join("below/file"), vec![7; 10 << 20]).unwrap();
    with_monitor(Duration::from_millis(200), async |handle, _| {
        let mut watch = group.watch();
        watch.folders.push(folder("storage", storage.path()));
        handle.watch(watch);
        let load = group.take_memory(64);
        let mut snapshots = handle.subscribe();
        // Until whoever took the memory has settled down, and nobody else on the machine has taken or freed much of it between
        // the monitor's reading and this one.
        let mut agreed = 0;
        let snapshot = loop {
            let snapshot = snapshots.next().await.unwrap();
            let data = &snapshot.instances[0].data;
            let agrees = data.pids == Some(group.pids_current())
                && data.partitions[0].used.is_some()
                && is_within(5, snapshot.node.ram.unwrap(), memory_in_use());
            agreed = if agrees { agreed + 1 } else { 0 };
            if agreed == 2 {
                break snapshot;
            }
        };
        let data = &snapshot.instances[0].data;
        assert_within(
            5,
            data.ram.unwrap(),
            group.memory_bytes(),
            "memory of the group",
        );
        assert!(data.ram.unwrap() >= 64 << 20);
        assert!(data.pids.unwrap() >= 3);
        let du = Command::new("du")
            .args(["-s", "--block-size=1"])
            .arg(storage.path())
            .output()
            .unwrap();
        let du = String::from_utf8(du.stdout).unwrap();
        let du = du.split_whitespace().next().unwrap().parse().unwrap();
        assert_within(5, data.partitions[0].used.unwrap(), du, "the folder");
        assert!(du >= 10 << 20);
        let root = rustix::fs::statvfs("/").unwrap();
        let used = (root.f_blocks - root.f_bfree) * root.f_frsize;
        assert_within(
            5,
            snapshot.node.partitions[0].used.unwrap(),
            used,
            "the partition",
        );
        drop(load);
    });
}

#[test]
#[ignore = "runs in a machine of the lab"]
fn alerts_follow_the_load() {
    const DURATION: Duration = Duration::from_millis(600);
    let group = Group::new();
    with_monitor(Duration::from_millis(100), async |handle, mut alerts| {
        let percent = |value| Percent::new(value).unwrap();
        let duration = Interval::try_from(DURATION).unwrap();
        let mut watch = group.watch();
        // Raised above 64 MiB, over below 32 MiB.
        watch.ram_limit = Some(128 << 20);
        watch.rules = AlertRules {
            ram: AlertRule::new(duration, percent(25.0), percent(50.0)).ok(),
            ..AlertRules::default()
        };
        handle.watch(watch);
        let begin = SystemTime::now();
        let load = group.take_memory(72);
        let (raised, status) = alerts.recv().await.unwrap();
        assert_eq!(status, AlertStatus::Raise);
        assert_later(begin, raised, DURATION);
        let (continued, status) = alerts.recv().await.unwrap();
        assert_eq!(status, AlertStatus::Continue);
        assert_later(raised, continued, DURATION);
        let end = SystemTime::now();
        drop(load);
        let fallen = loop {
            match alerts.recv().await.unwrap() {
                (_, AlertStatus::Continue) => {}
                (fallen, status) => {
                    assert_eq!(status, AlertStatus::Fall);
                    break fallen;
                }
            }
        };
        assert_later(end, fallen, DURATION);
        assert!(alerts.try_recv().is_err(), "nothing is said twice");
    });
}

#[test]
#[ignore = "runs in a machine of the lab"]
fn groups_that_go_in_mid_read_are_no_reason_to_stop() {
    let (steady, fleeting) = (Group::new(), Group::new());
    with_monitor(Duration::from_millis(10), async |handle, _| {
        let mut other = fleeting.watch();
        other.ident = crate::rig::ident(1);
        handle.watch(steady.watch());
        handle.watch(other);
        let mut snapshots = handle.subscribe();
        let flicker = tokio::task::spawn_blocking(move || {
            for _ in 0..300 {
                fleeting.remove();
                fleeting.make();
            }
            fleeting.remove();
            fleeting
        });
        let end = Instant::now() + TIME;
        let mut seen = [false, false];
        loop {
            let over = flicker.is_finished();
            let snapshot = snapshots.next().await.unwrap();
            assert!(
                snapshot.instances[0].data.ram.is_some(),
                "the other one is always read"
            );
            let read = snapshot.instances[1].data.ram.is_some();
            seen[usize::from(read)] = true;
            if over && !read {
                break;
            }
            assert!(Instant::now() < end, "the group that is gone is still read");
        }
        assert!(seen[0]);
        drop(flicker.await.unwrap());
    });
}

/// A file system in user space that nobody serves: whoever asks it anything waits.
struct Dead {
    folder: tempfile::TempDir,
    device: Option<fs::File>,
}

impl Dead {
    fn mount() -> Self {
        // The machine's own folder of devices: elsewhere devices may not be opened.
        let path = "/dev/fuse-of-test";
        let made = Command::new("mknod")
            .args([path, "c", "10", "229"])
            .status();
        assert!(made.unwrap().success());
        let device = fs::File::options().read(true).write(true).open(path);
        fs::remove_file(path).unwrap();
        let device = device.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let options = format!(
            "fd={},rootmode=40700,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = std::ffi::CString::new(options).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(
            "dead",
            folder.path(),
            "fuse.dead",
            flags,
            options.as_c_str(),
        )
        .unwrap();
        Self {
            folder,
            device: Some(device),
        }
    }

    /// From now on whoever asks gets an error.
    fn give_up(&mut self) {
        self.device = None;
    }
}

impl Drop for Dead {
    fn drop(&mut self) {
        self.give_up();
        rustix::mount::unmount(self.folder.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
    }
}

#[test]
#[ignore = "runs in a machine of the lab"]
fn a_dead_file_system_delays_nobody() {
    const PERIOD: Duration = Duration::from_millis(50);
    let group = Group::new();
    let mut dead = Dead::mount();
    let mut settings = MonitorSettings::new(PERIOD, PERIOD).unwrap();
    settings.disk.patience = PERIOD * 4;
    settings.disk.rest = 0;
    let mut end = None;
    with_settings(settings, async |handle, _| {
        let storage = tempfile::tempdir().unwrap();
        let mut watch = group.watch();
        // Measured in the order of their names.
        watch.folders.push(folder("a-dead", dead.folder.path()));
        watch.folders.push(folder("well", storage.path()));
        handle.watch(watch);
        let mut snapshots = handle.subscribe();
        let begin = Instant::now();
        loop {
            let snapshot = snapshots.next().await.unwrap();
            let [dead, well] = &snapshot.instances[0].data.partitions[..] else {
                panic!("{snapshot:?}");
            };
            assert_eq!(dead.used, None);
            assert!(snapshot.instances[0].data.ram.is_some());
            assert!(begin.elapsed() < TIME, "the other folder is never measured");
            if well.used.is_some() {
                break;
            }
        }
        end = Some(Instant::now());
    });
    // The runtime has ended although a thread still waits.
    let end = end.unwrap();
    assert!(
        end.elapsed() < Duration::from_secs(20),
        "{:?}",
        end.elapsed()
    );
    dead.give_up();
}
