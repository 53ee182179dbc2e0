//! What the log looks like, and a log that nobody reads.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use rustix::process::Signal;

use crate::child::{PATIENCE, Probe, command};

#[test]
fn json_lines_are_json_with_time_level_message_and_fields() {
    let mut probe = Probe::start(&mut command("json"));
    let ready = probe.wait_for("ready");
    let line: serde_json::Value = serde_json::from_str(&ready).expect("it is JSON");
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], "ready");
    assert_eq!(line["answer"], 42);
    assert!(
        line["timestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z')),
        "{line}"
    );
    probe.signal(Signal::TERM);
    assert_eq!(probe.wait().code(), Some(0));
    let rest = probe.rest();
    assert!(
        !rest.is_empty(),
        "the last words are written before the end"
    );
    for line in rest {
        serde_json::from_str::<serde_json::Value>(&line).unwrap_or_else(|_| panic!("{line}"));
    }
}

#[test]
fn the_environment_chooses_what_is_logged() {
    let mut probe = Probe::start(command("failing").env("MUSTER_LOG", "warn"));
    assert_eq!(probe.wait().code(), Some(1));
    let log = probe.rest().join("\n");
    assert!(log.contains("ERROR") && !log.contains("INFO"), "{log}");

    let mut probe = Probe::start(command("plain").env("MUSTER_LOG", "what=is=this"));
    assert_eq!(probe.wait().code(), Some(1));
    assert!(
        probe
            .rest()
            .join("\n")
            .contains("`what=is=this` (from MUSTER_LOG) is not a log filter")
    );
}

#[test]
fn text_has_times_but_not_in_the_journal_and_never_colours_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    for in_journal in [false, true] {
        let path = folder.path().join(format!("log-{in_journal}"));
        let file = File::create(&path).expect("create the log");
        let stat = file.metadata().expect("its numbers");
        let mut command = command("failing");
        let stream = format!("{}:{}", stat.dev(), stat.ino());
        // A stream that is not this process's standard error changes nothing.
        command.env("JOURNAL_STREAM", if in_journal { &stream } else { "1:1" });
        let mut probe = Probe::start_unread(command.stderr(Stdio::from(file)));
        probe.wait();
        let text = std::fs::read_to_string(&path).expect("the log is text");
        let line = text
            .lines()
            .find(|line| line.contains("the task failed"))
            .expect("it failed");
        assert!(!text.contains('\x1b'), "{text}");
        // The journal keeps time and priority by itself, and is told the latter.
        let in_words = line.trim_start_matches("<3>").trim_start();
        assert_eq!(in_words.starts_with("ERROR"), in_journal, "{line}");
        assert_eq!(line.starts_with("<3>"), in_journal, "{line}");
    }
}

#[test]
fn a_log_nobody_reads_neither_hangs_the_daemon_nor_hides_what_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("bind the socket");
    manager
        .set_read_timeout(Some(PATIENCE))
        .expect("set the timeout");
    let next = || {
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).expect("a message in time");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };

    // Nobody reads: the daemon logs 20,000 lines of over 100 bytes, says so, and ends.
    let mut probe = Probe::start_unread(command("flood").env("NOTIFY_SOCKET", &path));
    let lost: u64 = loop {
        if let Some(lost) = next().strip_prefix("STATUS=lost ") {
            break lost.parse().expect("a number");
        }
    };
    assert!(
        lost > 15_000,
        "a 64 KiB queue and a 64 KiB pipe hold few of the lines, lost {lost}"
    );
    probe.signal(Signal::TERM);
    assert_eq!(
        probe.wait().code(),
        Some(0),
        "the stalled log must not hang the end"
    );

    // Somebody reads late: what was lost is told, and every line is written or counted.
    let mut probe = Probe::start_unread(command("flood").env("NOTIFY_SOCKET", &path));
    while !next().starts_with("STATUS=lost ") {}
    probe.signal(Signal::TERM);
    let text = probe.read_all();
    assert_eq!(probe.wait().code(), Some(0));
    let told: u64 = text
        .lines()
        .filter_map(|line| line.split_once("log lines were lost lost="))
        .map(|(_, lost)| lost.parse::<u64>().expect("a number"))
        .sum();
    let written = text
        .lines()
        .filter(|line| line.contains("xxx number="))
        .count();
    let others = ["ready", "asked to end"];
    let others = others.iter().filter(|words| !text.contains(*words)).count();
    let written = u64::try_from(written).expect("few");
    let others = u64::try_from(others).expect("few");
    assert_eq!(
        written + told,
        20_000 + others,
        "every line is written or counted"
    );
}
