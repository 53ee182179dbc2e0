//! What is sent is in the journal, with the right fields, for both readers.

use std::os::fd::AsFd as _;

use muster_control::feed::{FeedMessage, LogLine};

use crate::rig::{Rig, write_all};

#[test]
fn output_of_a_service_is_recorded_with_its_origin() {
    let mut rig = Rig::new("");
    rig.start();
    let writer = rig.stream("web.service", |stream| {
        stream.extra_fields = vec!["COLOUR=blue".into(), "_PID=1".into()];
    });
    write_all(&writer, b"hello\n<3>it broke\n\nnul\0rest");
    drop(writer);
    rig.synchronize();
    let entries = rig.entries();
    let messages: Vec<&str> = entries
        .iter()
        .map(|entry| entry["MESSAGE"].as_str())
        .collect();
    assert_eq!(messages, ["hello", "it broke", "nul", "rest"]);
    let hello = &entries[0];
    for (name, value) in [
        ("PRIORITY", "6"),
        ("SYSLOG_IDENTIFIER", "web"),
        ("SYSLOG_FACILITY", "3"),
        ("_TRANSPORT", "stdout"),
        ("_STREAM_ID", "00000000000000000000000000000001"),
        ("_SYSTEMD_UNIT", "web.service"),
        ("_SYSTEMD_SLICE", "system.slice"),
        ("_SYSTEMD_CGROUP", "/system.slice/web.service"),
        ("_SYSTEMD_INVOCATION_ID", "0123456789abcdef0123456789abcdef"),
        ("_RUNTIME_SCOPE", "system"),
        ("COLOUR", "blue"),
        ("_PID", &std::process::id().to_string()),
        ("_UID", &rustix::process::getuid().as_raw().to_string()),
    ] {
        assert_eq!(hello.get(name).map(String::as_str), Some(value), "{name}");
    }
    for name in [
        "_BOOT_ID",
        "_MACHINE_ID",
        "_HOSTNAME",
        "_COMM",
        "_EXE",
        "_CMDLINE",
        "_GID",
    ] {
        assert!(hello.contains_key(name), "{name}");
    }
    assert_eq!(entries[1]["PRIORITY"], "3");
    assert_eq!(entries[2]["_LINE_BREAK"], "nul");
    assert_eq!(entries[3]["_LINE_BREAK"], "eof");
    let text = rig.journalctl(&["-o", "cat", "-u", "web.service"]);
    assert_eq!(text, "hello\nit broke\nnul\nrest\n");
    rig.verify();
}

#[test]
fn lines_of_any_length_arrive_whole_or_in_marked_pieces() {
    let mut rig = Rig::new("LineMax=1000\n");
    rig.start();
    let writer = rig.stream("long.service", |_| {});
    write_all(&writer, &[b'a'; 2500]);
    write_all(&writer, b"\n");
    // One byte at a time fills a socket long before a line is complete.
    for _ in 0..900 {
        write_all(&writer, b"b");
    }
    write_all(&writer, b"\n");
    rig.synchronize();
    let entries = rig.entries();
    let lengths: Vec<usize> = entries.iter().map(|entry| entry["MESSAGE"].len()).collect();
    assert_eq!(lengths, [1000, 1000, 500, 900]);
    assert_eq!(entries[0]["_LINE_BREAK"], "line-max");
    assert!(!entries[2].contains_key("_LINE_BREAK"));
}

#[test]
fn a_request_to_synchronise_waits_for_all_that_a_large_socket_holds() {
    let mut rig = Rig::new("RateLimitIntervalSec=0\n");
    rig.start();
    let writer = rig.stream("large.service", |_| {});
    // Clients of the stream socket ask for as much.
    rustix::net::sockopt::set_socket_send_buffer_size_force(&writer, 8 << 20)
        .or_else(|_| rustix::net::sockopt::set_socket_send_buffer_size(&writer, 8 << 20))
        .expect("set");
    rig.synchronize();
    rig.daemon().sigstop().expect("stopped");
    let sent = fill_socket(&writer);
    rig.daemon().sigcont().expect("continued");
    rig.synchronize();
    assert_eq!(rig.messages("_SYSTEMD_UNIT", "large.service").len(), sent);
}

/// Writes lines until the socket takes no more; gives their number.
fn fill_socket(writer: &std::os::fd::OwnedFd) -> usize {
    rustix::io::ioctl_fionbio(writer, true).expect("set");
    let line = [&[b'x'; 999][..], b"\n"].concat();
    let mut sent = 0;
    while rustix::io::write(writer, &line) == Ok(line.len()) {
        sent += 1;
    }
    sent
}

#[test]
fn lines_of_two_processes_are_told_apart() {
    let mut rig = Rig::new("");
    rig.start();
    let writer = rig.stream("two.service", |_| {});
    write_all(&writer, b"half");
    rig.synchronize();
    let child = std::process::Command::new("echo")
        .arg("other")
        .stdout(writer.try_clone().expect("a descriptor"))
        .spawn()
        .expect("a child");
    let child_pid = child.id().to_string();
    let mut child = child;
    child.wait().expect("ended");
    rig.synchronize();
    let entries = rig.entries();
    assert_eq!(entries[0]["MESSAGE"], "half");
    assert_eq!(entries[0]["_LINE_BREAK"], "pid-change");
    assert_eq!(entries[0]["_PID"], std::process::id().to_string());
    assert_eq!(entries[1]["MESSAGE"], "other");
    assert_eq!(entries[1]["_PID"], child_pid);
}

#[test]
fn syslog_and_native_messages_cannot_forge_who_sent_them() {
    let mut rig = Rig::new("");
    rig.start();
    rig.syslog(b"<28>Feb  3 04:05:06 prog[1]: from syslog");
    rig.native(
        b"MESSAGE=from native\nPRIORITY=2\nSYSLOG_IDENTIFIER=lib\n_PID=1\n_UID=0\nEXTRA=x\n",
    );
    rig.synchronize();
    let entries = rig.entries();
    let own = std::process::id().to_string();
    let by = |transport: &str| {
        entries
            .iter()
            .find(|entry| entry["_TRANSPORT"] == transport)
            .expect("an entry")
    };
    let syslog = by("syslog");
    assert_eq!(syslog["MESSAGE"], "from syslog");
    assert_eq!(
        (
            syslog["PRIORITY"].as_str(),
            syslog["SYSLOG_FACILITY"].as_str()
        ),
        ("4", "3")
    );
    assert_eq!(
        (syslog["SYSLOG_PID"].as_str(), syslog["_PID"].as_str()),
        ("1", own.as_str())
    );
    assert_eq!(syslog["SYSLOG_IDENTIFIER"], "prog");
    assert_eq!(syslog["_TRANSPORT"], "syslog");
    assert!(syslog.contains_key("_SOURCE_REALTIME_TIMESTAMP"));
    let native = by("journal");
    assert_eq!(native["MESSAGE"], "from native");
    assert_eq!(
        (native["_PID"].as_str(), native["EXTRA"].as_str()),
        (own.as_str(), "x")
    );
    assert_eq!(native["_TRANSPORT"], "journal");
    assert_eq!(rig.status().refused, 2);
    rig.verify();
}

#[test]
fn native_messages_may_come_in_a_file() {
    let mut rig = Rig::new("");
    rig.start();
    let text = format!(
        "MESSAGE=large\nDATA={}\n\nMESSAGE=second\n",
        "x".repeat(300_000)
    );
    let payload = rig.path("payload");
    std::fs::write(&payload, text).expect("written");
    let file = std::fs::File::open(&payload).expect("a file");
    rig.native_file(file.as_fd());
    rig.synchronize();
    let entries = rig.entries();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["DATA"].len(), 300_000);
    assert_eq!(entries[1]["MESSAGE"], "second");
    rig.verify();
}

#[test]
fn the_managers_own_lines_are_recorded() {
    let mut rig = Rig::new("");
    rig.start();
    rig.send(
        &FeedMessage::Log(Box::new(LogLine {
            real: 1_700_000_000_000_000,
            monotonic: 5,
            priority: 6,
            message: "Started web.service.".into(),
            unit: Some("web.service".into()),
            invocation: Some("0123456789abcdef0123456789abcdef".into()),
            identifier: "muster-core".into(),
            pid: std::process::id(),
            fields: vec!["JOB_RESULT=done".into(), "not a field".into()],
        })),
        None,
    );
    rig.send(&FeedMessage::Lost { count: 7 }, None);
    rig.synchronize();
    let entries = rig.entries();
    let started = &entries[0];
    for (name, value) in [
        ("MESSAGE", "Started web.service."),
        ("UNIT", "web.service"),
        ("INVOCATION_ID", "0123456789abcdef0123456789abcdef"),
        ("JOB_RESULT", "done"),
        ("SYSLOG_IDENTIFIER", "muster-core"),
        ("_SOURCE_REALTIME_TIMESTAMP", "1700000000000000"),
        ("_PID", &std::process::id().to_string()),
    ] {
        assert_eq!(started.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(entries[1]["N_DROPPED"], "7");
    assert_eq!(rig.status().lost_by_manager, 7);
}
