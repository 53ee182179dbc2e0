//! `kill -9` of the daemon: no line is lost, and none is there twice.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::JoinHandle;

use muster_fault::Point;
use muster_lab::{poll_until, rounds};

use crate::rig::{Rig, TIME, write_all};

/// Nothing may go for its rate or age: all lines are counted.
const KEEP_ALL: &str = "RateLimitIntervalSec=0\nRuntimeMaxUse=4G\nRuntimeMaxFiles=10000\n\
                        RuntimeKeepFree=0\nSystemMaxUse=4G\nSystemMaxFiles=10000\nSystemKeepFree=0\n";

/// Writes lines 0 to `count`, several in a write that ends in the middle of one.
fn write_lines(writer: OwnedFd, unit: &'static str, count: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for number in (0..count).step_by(2) {
            let text = format!("{unit} line {number}\n{unit} li");
            write_all(&writer, text.as_bytes());
            write_all(&writer, format!("ne {}\n", number + 1).as_bytes());
        }
    })
}

/// Sends `count` syslog datagrams and as many entries in half as many native ones.
fn send_datagrams(syslog: PathBuf, native: PathBuf, count: usize) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let socket = std::os::unix::net::UnixDatagram::unbound().expect("a socket");
        for number in 0..count {
            let text = format!("<14>sys: syslog line {number}");
            socket.send_to(text.as_bytes(), &syslog).expect("sent");
            if number % 2 == 1 {
                let text = format!(
                    "MESSAGE=native line {}\n\nMESSAGE=native line {number}\n",
                    number - 1
                );
                socket.send_to(text.as_bytes(), &native).expect("sent");
            }
        }
    })
}

/// Every line from 0 to `count` is there once, and nothing else.
fn assert_once(messages: &[String], unit: &str, count: usize) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages {
        *seen.entry(message).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for number in 0..count {
        let line = format!("{unit} line {number}");
        let times = seen.remove(line.as_str()).unwrap_or(0);
        if times != 1 {
            wrong.push((number, times));
        }
    }
    let first = &wrong[..wrong.len().min(5)];
    assert!(
        wrong.is_empty(),
        "{unit}: {} lines not there once: {first:?}",
        wrong.len()
    );
    assert!(seen.is_empty(), "{unit}: lines that nobody wrote: {seen:?}");
}

#[test]
fn a_kill_at_any_moment_loses_no_line_and_doubles_none() {
    let kills = rounds(12, 300);
    let lines = 1500 * usize::try_from(kills).expect("few");
    let mut rig = Rig::new(&format!("{KEEP_ALL}RuntimeMaxFileSize=2M\n"));
    rig.start();
    let units = ["a.service", "b.service"];
    let mut writers = vec![send_datagrams(
        rig.path("syslog"),
        rig.path("native"),
        lines,
    )];
    for unit in units {
        let writer = rig.stream(unit, |_| {});
        writers.push(write_lines(writer, unit, lines));
    }
    for round in 0..kills {
        // A different moment each time: after so many more entries.
        let more = 100 + 371 * u64::from(round % 7);
        poll_until(TIME, "entries are stored", || {
            let all_written = writers.iter().all(JoinHandle::is_finished);
            all_written || rig.status().stored >= more
        });
        rig.kill();
        rig.start();
    }
    for writer in writers {
        writer.join().expect("a writer");
    }
    rig.synchronize();
    assert_eq!(rig.status().lost, 0);
    for unit in units {
        assert_once(&rig.messages("_SYSTEMD_UNIT", unit), unit, lines);
    }
    assert_once(&rig.messages("_TRANSPORT", "syslog"), "syslog", lines);
    assert_once(&rig.messages("_TRANSPORT", "journal"), "native", lines);
    rig.stop();
    rig.verify();
}

/// Kills the daemon when it reaches a point for the n-th time, starts it again, and counts.
fn kill_at(point: Point, nth: u32) {
    const DATAGRAMS: usize = 40;
    let at = format!("{}@{nth}", point.name());
    println!("{at}: {}", point.doc());
    // Files that are full soon; only those that are not have to grow.
    let (size, lines) = match point.name() {
        "journal.grown" => ("64M", 40_000),
        _ => ("512K", 3000),
    };
    let sizes = format!("RuntimeMaxFileSize={size}\nSystemMaxFileSize={size}\n");
    let mut rig = Rig::that_can_die(&format!("{KEEP_ALL}{sizes}"));
    let writer = rig.stream("a.service", |_| {});
    rig.start_with(&at);
    let writers = [
        write_lines(writer, "a.service", lines),
        send_datagrams(rig.path("syslog"), rig.path("native"), DATAGRAMS),
    ];
    poll_until(TIME, &format!("{at} is reached"), || {
        let nothing = serde_json::json!({});
        // Once it runs, there is a disk, for the points on the way there.
        if rig.try_call("Synchronize", &nothing).is_ok() {
            let _ = std::fs::create_dir(rig.path("var"));
        }
        if point.name() != "journal.grown" {
            // It may be dead by now, which is what this waits for.
            let _ = rig.try_call("Flush", &nothing);
            let _ = rig.try_call("Rotate", &nothing);
        }
        !rig.daemon().is_running().expect("a state")
    });
    rig.start();
    for writer in writers {
        writer.join().expect("a writer");
    }
    rig.synchronize();
    assert_once(
        &rig.messages("_SYSTEMD_UNIT", "a.service"),
        "a.service",
        lines,
    );
    assert_once(&rig.messages("_TRANSPORT", "syslog"), "syslog", DATAGRAMS);
    assert_once(&rig.messages("_TRANSPORT", "journal"), "native", DATAGRAMS);
    rig.stop();
    rig.verify();
}

#[test]
fn a_kill_at_every_point_of_the_daemon_loses_no_line_and_doubles_none() {
    for point in muster_logd::faults::FAULT_POINTS {
        kill_at(*point, 1);
    }
}

#[test]
fn a_kill_at_every_point_of_the_journal_loses_no_line_and_doubles_none() {
    for point in muster_journal::FAULT_POINTS {
        // A file grows once, the rest happens often.
        kill_at(
            *point,
            if point.name() == "journal.grown" {
                1
            } else {
                3
            },
        );
    }
}

/// The next process begins a file on the disk, whose numbers have nothing to do with those of the one in memory.
#[test]
fn a_kill_before_the_disk_is_there_loses_no_line_and_doubles_none() {
    for at in ["journal.objects-written@3", "journal.appended@3"] {
        let mut rig = Rig::that_can_die(KEEP_ALL);
        let writer = rig.stream("a.service", |_| {});
        rig.start_with(at);
        let writing = write_lines(writer, "a.service", 100);
        poll_until(TIME, &format!("{at} is reached"), || {
            !rig.daemon().is_running().expect("a state")
        });
        std::fs::create_dir(rig.path("var")).expect("a disk");
        rig.start();
        writing.join().expect("a writer");
        rig.synchronize();
        let messages = rig.messages("_SYSTEMD_UNIT", "a.service");
        assert_once(&messages, "a.service", 100);
        rig.stop();
        rig.verify();
    }
}

#[test]
fn half_a_line_of_a_stream_that_does_not_come_back_is_kept() {
    let mut rig = Rig::new("");
    rig.start();
    let writer = rig.stream("gone.service", |_| {});
    write_all(&writer, b"whole\nhalf");
    rig.synchronize();
    rig.kill();
    drop(writer);
    rig.forget_streams();
    rig.start();
    poll_until(TIME, "what is left is recorded", || {
        rig.entries().len() == 2
    });
    let entries = rig.entries();
    assert_eq!(entries[1]["MESSAGE"], "half");
    assert_eq!(entries[1]["_SYSTEMD_UNIT"], "gone.service");
    assert_eq!(entries[1]["_LINE_BREAK"], "eof");
}
