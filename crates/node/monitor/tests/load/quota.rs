//! A folder with a project quota, which only a guest's kernel has.

use std::time::Duration;

use muster_lab::guest::Guest;
use muster_lab::program::Program;
use muster_monitor::MonitorSettings;

use crate::rig::{Group, folder, with_settings};
use crate::{TESTS, TIME};

const FOLDER: &str = "/mnt/storage/instance";
const LIMIT: u64 = 16 << 20;
const USED: u64 = 3 << 20;

/// quotactl(2), for want of a tool that every machine has: limits project 7 to so many blocks of 1 KiB.
const SET_LIMIT: &str = r#"
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
set_project_quota = 0x800008 << 8 | 2
blocks = int(sys.argv[1]) // 1024
limits = struct.pack("=8QI4x", blocks, blocks, 0, 0, 0, 0, 0, 0, 1)
if libc.quotactl(set_project_quota, b"/dev/disk0", 7, limits):
    sys.exit(f"quotactl: {ctypes.get_errno()}")
"#;

#[test]
fn a_folder_with_a_project_quota_is_asked_and_not_walked() {
    muster_lab::require!(Tool("linux.uml"), Tool("busybox"), File("/usr/bin/python3"));
    let files = tempfile::tempdir().unwrap();
    let disk = files.path().join("disk");
    std::fs::File::create(&disk)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let mut make = Program::new("mkfs.ext4")
        .args(["-q", "-O", "quota,project", "-E", "quotatype=prjquota"])
        .arg(&disk)
        .start()
        .unwrap();
    assert!(make.wait(TIME).unwrap().success());
    let script = format!(
        "set -e
        mkdir -p /mnt
        mount -t ext4 -o prjquota /dev/disk0 /mnt
        mkdir -p {FOLDER}
        /usr/bin/chattr -p 7 +P {FOLDER}
        /usr/bin/python3 /set-limit {LIMIT}
        head -c {USED} /dev/zero >{FOLDER}/file
        sync
        {TESTS} --exact quota::seen --ignored >/out/log 2>&1"
    );
    let outcome = Guest::uml()
        .share_host_tools()
        .module("quota_v2")
        .disk(&disk)
        .host_file(std::env::current_exe().unwrap(), TESTS)
        .file("/set-limit", SET_LIMIT, 0o644)
        .script(format!("{{ {script}; }} 2>/out/errors"))
        .run(TIME)
        .unwrap();
    let text = |name| outcome.text(name).unwrap_or_default();
    let told = format!("{}{}{:#?}", text("log"), text("errors"), outcome.console);
    assert_eq!(outcome.status, Some(0), "{told}");
    assert!(text("log").contains("1 passed"), "{told}");
}

#[test]
#[ignore = "runs in a guest with such a folder"]
fn seen() {
    let group = Group::new();
    let period = Duration::from_millis(100);
    let mut settings = MonitorSettings::new(period, period).unwrap();
    // A walk would see nothing.
    settings.disk.max_entries = 0;
    with_settings(settings, async |handle, _| {
        let mut watch = group.watch();
        watch.folders.push(folder("storage", FOLDER.as_ref()));
        watch.folders.push(folder("above", "/mnt/storage".as_ref()));
        handle.watch(watch);
        let mut snapshots = handle.subscribe();
        snapshots.next().await.unwrap();
        let snapshot = snapshots.next().await.unwrap();
        let [storage, above] = &snapshot.instances[0].data.partitions[..] else {
            panic!("{snapshot:?}");
        };
        assert_eq!(storage.size, Some(LIMIT));
        assert!(
            (USED..USED + 65536).contains(&storage.used.unwrap()),
            "{storage:?}"
        );
        assert!(above.used.unwrap() < 65536, "{above:?}");
        assert!(above.size.unwrap() > LIMIT, "{above:?}");
    });
}
