//! Floods, full disks, rotation and removal.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use muster_lab::poll_until;
use serde_json::json;

use crate::rig::{Rig, TIME, write_all};

#[test]
fn a_flood_is_cut_and_what_was_dropped_is_said() {
    let mut rig = Rig::new("");
    rig.start();
    let flood = rig.stream("flood.service", |stream| {
        stream.rate_interval = 1_000_000;
        stream.rate_burst = 10;
    });
    let calm = rig.stream("calm.service", |_| {});
    for number in 0..5000 {
        write_all(&flood, format!("line {number}\n").as_bytes());
    }
    write_all(&flood, b"<2>this matters\n");
    write_all(&calm, b"hello\n");
    rig.synchronize();
    // The unit is silent now, and its loss is said all the same.
    poll_until(TIME, "the loss is said", || {
        !rig.messages("MESSAGE_ID", "a596d6fe7bfa4994828e72309e95d61e")
            .is_empty()
    });
    let entries = rig.entries();
    let dropped: u64 = entries
        .iter()
        .filter_map(|entry| entry.get("N_DROPPED")?.parse::<u64>().ok())
        .sum();
    let kept = rig.messages("_SYSTEMD_UNIT", "flood.service");
    assert_eq!(kept.len() as u64 + dropped, 5001);
    assert_eq!(rig.status().suppressed, dropped);
    assert!(dropped > 0);
    assert!(kept.iter().any(|message| message == "this matters"));
    assert_eq!(rig.messages("_SYSTEMD_UNIT", "calm.service"), ["hello"]);
}

#[test]
fn a_service_that_screams_does_not_keep_others_from_being_heard() {
    let mut rig = Rig::new("RateLimitIntervalSec=0\n");
    rig.start();
    let stop = Arc::new(AtomicBool::new(false));
    let screaming: Vec<_> = ["a.service", "b.service"]
        .into_iter()
        .map(|unit| {
            let writer = rig.stream(unit, |_| {});
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    write_all(&writer, &b"scream\n".repeat(1000));
                }
            })
        })
        .collect();
    poll_until(TIME, "they scream", || rig.status().stored > 2000);
    let calm = rig.stream("calm.service", |_| {});
    let before = rig.status().stored;
    write_all(&calm, b"may I\n");
    rig.syslog(b"<14>me: too");
    poll_until(TIME, "the others are heard", || {
        rig.messages("_SYSTEMD_UNIT", "calm.service").len() == 1
            && rig.messages("_TRANSPORT", "syslog").len() == 1
    });
    stop.store(true, Ordering::Relaxed);
    for thread in screaming {
        thread.join().expect("a writer");
    }
    // They were heard in between, not after.
    let heard = rig.matching("_SYSTEMD_UNIT", "calm.service")[0].seqnum();
    let between = heard.saturating_sub(before);
    assert!(between < 50_000, "{between} lines before the calm one");
}

#[test]
fn a_full_disk_loses_what_it_must_counts_it_and_is_over_when_there_is_room() {
    muster_lab::require!(Root);
    let config =
        "RateLimitIntervalSec=0\nRuntimeMaxUse=2M\nRuntimeMaxFileSize=1M\nRuntimeKeepFree=0\n";
    let mut rig = Rig::new(config).on_small_disk("6m", true);
    rig.start();
    let writer = rig.stream("a.service", |_| {});
    for number in 0..3000 {
        write_all(&writer, format!("line {number}\n").as_bytes());
    }
    rig.synchronize();
    let status = rig.status();
    assert!(status.lost >= 3000, "{status:?}");
    std::fs::remove_file(rig.disk().join("filler")).expect("removed");
    poll_until(TIME, "entries are kept again", || {
        write_all(&writer, b"after\n");
        rig.synchronize();
        rig.status().stored > 0
    });
    poll_until(TIME, "the loss is said", || {
        let entries = rig.entries();
        let said = entries
            .iter()
            .filter_map(|entry| entry.get("N_DROPPED")?.parse::<u64>().ok());
        said.sum::<u64>() == rig.status().lost
    });
    rig.synchronize();
    rig.verify();
}

#[test]
fn a_disk_that_fills_up_costs_the_oldest_entries_and_not_the_newest() {
    muster_lab::require!(Root);
    let config =
        "RateLimitIntervalSec=0\nRuntimeMaxUse=4M\nRuntimeMaxFileSize=1M\nRuntimeKeepFree=0\n";
    let mut rig = Rig::new(config).on_small_disk("6m", false);
    rig.start();
    let writer = rig.stream("a.service", |_| {});
    write_all(&writer, b"before\n");
    rig.synchronize();
    fill(&rig.disk().join("filler"));
    for number in 0..8000 {
        write_all(&writer, format!("line {number}\n").as_bytes());
    }
    rig.synchronize();
    let status = rig.status();
    assert_eq!(status.lost, 0, "{status:?}");
    assert!(status.removed_files > 0, "{status:?}");
    let messages = rig.messages("_SYSTEMD_UNIT", "a.service");
    assert_eq!(messages.last().map(String::as_str), Some("line 7999"));
    rig.verify();
}

/// Takes all the room that there is.
fn fill(path: &std::path::Path) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).expect("a file");
    for size in [65_536, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

#[test]
fn files_are_ended_removed_and_moved_when_asked() {
    let mut rig = Rig::new("Storage=persistent\n").argument("--wait-for-flush");
    rig.start();
    let writer = rig.stream("a.service", |_| {});
    write_all(&writer, b"in memory\n");
    rig.synchronize();
    assert_eq!(&*rig.status().storage, "volatile");
    assert_eq!(rig.call("Flush", &json!({})), json!({"persistent": true}));
    for number in 0..3 {
        write_all(&writer, format!("file {number}\n").as_bytes());
        rig.call("Rotate", &json!({}));
    }
    let status = rig.status();
    assert_eq!(&*status.storage, "persistent");
    // The one from memory, three that were ended, and the active one.
    assert_eq!(status.files.len(), 5, "{status:?}");
    assert_eq!(status.files.iter().filter(|file| file.active).count(), 1);
    assert_eq!(rig.messages("_SYSTEMD_UNIT", "a.service").len(), 4);
    rig.verify();
    assert_eq!(
        rig.call("Vacuum", &json!({"max_files": 1})),
        json!({"removed": 3})
    );
    assert_eq!(rig.messages("_SYSTEMD_UNIT", "a.service"), ["file 2"]);
    assert_eq!(
        rig.call("Vacuum", &json!({"max_age_us": 3_600_000_000u64})),
        json!({"removed": 0})
    );
    let folder = rig.journals().pop().expect("a folder on disk");
    let meta = std::fs::metadata(folder.join("system.journal")).expect("a file");
    assert_eq!(meta.mode() & 0o007, 0, "others cannot read the journal");
}

#[test]
fn only_the_owner_may_make_it_work() {
    muster_lab::require!(Root);
    let mut rig = Rig::new("");
    rig.start();
    rig.synchronize();
    let socket = rig.path("varlink");
    for path in [rig.folder.path(), &socket] {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).expect("set");
    }
    let ask = |method: &str| {
        let script = format!(
            "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect({socket:?})\n\
             s.sendall(b'{{\"method\":\"io.muster.Log.{method}\"}}\\0')\nprint(s.recv(9999).decode())\n"
        );
        let mut program = muster_lab::program::Program::new("/usr/bin/python3")
            .args(["-c", &script])
            .user(65534, 65534)
            .start()
            .expect("started");
        program.wait(TIME).expect("ended");
        program.text(muster_lab::program::Stream::Stdout)
    };
    assert!(ask("Status").contains("stored"));
    for method in ["Rotate", "Synchronize", "Flush", "Vacuum"] {
        assert!(ask(method).contains("PermissionDenied"), "{method}");
    }
}

#[test]
fn the_kernels_messages_are_recorded_once() {
    muster_lab::require!(Root);
    if std::fs::File::open("/dev/kmsg").is_err() {
        println!("the_kernels_messages_are_recorded_once: /dev/kmsg cannot be opened here");
        return;
    }
    let mut rig = Rig::new("").argument("--kmsg=/dev/kmsg");
    rig.start();
    rig.synchronize();
    // Without its newline a record is not complete for the kernel, and nobody gets it yet.
    let marker = format!("muster-logd test {}", std::process::id());
    std::fs::write("/dev/kmsg", format!("<4>tester[7]: {marker} one\n")).expect("written");
    rig.synchronize();
    rig.kill();
    std::fs::write("/dev/kmsg", format!("<28>tester[7]: {marker} two\n")).expect("written");
    rig.start();
    rig.synchronize();
    let entries = rig.entries();
    let own: Vec<_> = entries
        .iter()
        .filter(|entry| entry["MESSAGE"].contains(&marker))
        .collect();
    assert_eq!(own.len(), 2, "{own:?}");
    let two = own[1];
    assert_eq!(two["MESSAGE"], format!("{marker} two"));
    assert_eq!(
        (
            two["SYSLOG_IDENTIFIER"].as_str(),
            two["SYSLOG_PID"].as_str()
        ),
        ("tester", "7")
    );
    assert_eq!(
        (two["PRIORITY"].as_str(), two["SYSLOG_FACILITY"].as_str()),
        ("4", "3")
    );
    assert_eq!(two["_TRANSPORT"], "kernel");
    assert!(two.contains_key("_SOURCE_MONOTONIC_TIMESTAMP"));
}

#[test]
fn lines_go_to_the_console_where_that_is_wanted() {
    let mut rig = Rig::new("");
    let console = rig.path("console");
    std::fs::write(&console, "").expect("made");
    let config = format!("[Journal]\nTTYPath={}\n", console.display());
    std::fs::write(rig.path("logd.conf"), config).expect("written");
    rig.start();
    let both = rig.stream("both.service", |stream| stream.to_console = true);
    let only = rig.stream("only.service", |stream| {
        stream.to_console = true;
        stream.to_journal = false;
    });
    write_all(&both, b"hello\n");
    rig.synchronize();
    write_all(&only, b"seen\n");
    rig.synchronize();
    let own = std::process::id();
    let text = std::fs::read_to_string(&console).expect("text");
    assert_eq!(text, format!("both[{own}]: hello\nonly[{own}]: seen\n"));
    assert_eq!(rig.entries().len(), 1);
}

#[test]
fn two_daemons_cannot_write_one_journal() {
    let mut rig = Rig::new("");
    rig.start();
    rig.synchronize();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_muster-logd"))
        .arg("--state")
        .arg(rig.path("state"))
        .arg("--runtime-journal")
        .arg(rig.path("run"))
        .arg("--no-kmsg")
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("in use by another muster-logd"), "{text}");
}
