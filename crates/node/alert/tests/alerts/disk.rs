//! No space is left for the database.

use std::path::PathBuf;

use muster_fault::test_program;
use muster_lab::program::Program;

use crate::rig::*;

/// A disk of its own for the program, which can be seen from here as long as that runs.
const STARTER: &str = r#"mount -t tmpfs -o size=6m,mode=700 none "$1" && exec "$2" "$1" "$3""#;
/// More than fits on that disk.
const ENTRIES: usize = 400;

fn begin(folder: &std::path::Path, journal: &std::path::Path) -> muster_lab::program::Process {
    let program = Program::new("/usr/bin/unshare")
        .args(["--mount", "/bin/sh", "-c", STARTER, "starter"])
        .arg(folder)
        .arg(test_program("alert_keeper"))
        .arg(journal);
    let mut process = program.start().expect("started");
    process.wait_for_line("ready", TIME).expect("ready");
    process
}

#[test]
fn a_full_disk_delays_alerts_and_loses_none() {
    muster_lab::require!(Root, Tool("unshare"));
    let folder = tempfile::tempdir().expect("a folder");
    let journal = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(journal.path(), "system");
    let mut process = begin(folder.path(), journal.path());
    let inside = folder.path().strip_prefix("/").expect("absolute");
    let disk = PathBuf::from(format!("/proc/{}/root", process.pid())).join(inside);
    // A line at a time until the first one gets through: the first look passes over what was there before it.
    let mut tries = 0;
    muster_lab::poll_until(TIME, "the journal is followed", || {
        tries += 1;
        log.say(3, &format!("try {}", letters(tries)));
        process.lines().iter().any(|line| line.text.contains("try"))
    });

    let before = process.mark();
    let filler = disk.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    let full = std::io::copy(&mut std::io::repeat(0), &mut file);
    assert!(full.is_err(), "the disk has an end");
    drop(file);
    let long = "x".repeat(7000);
    for number in 0..ENTRIES {
        log.say(3, &format!("number {} {long}", letters(number)));
    }
    process
        .wait_for_line("cannot keep alerts; trying again", TIME)
        .expect("the failure is logged");
    std::fs::remove_file(&filler).expect("removed");
    let last = format!("number {} x", letters(ENTRIES - 1));
    process
        .wait_for_line_where(before, "the last alert", TIME * 2, |line| {
            line.text.starts_with("alert ") && line.text.contains(&last)
        })
        .expect("delivered");
    let delivered: Vec<String> = process
        .lines()
        .iter()
        .filter(|line| line.text.starts_with("alert ") && line.text.contains("xxx"))
        .filter_map(|line| line.text.split(' ').nth(4).map(str::to_owned))
        .collect();
    let mut once = delivered.clone();
    once.dedup();
    once.sort();
    once.dedup();
    let mut expected: Vec<String> = (0..ENTRIES).map(letters).collect();
    expected.sort();
    assert_eq!(once, expected);
    let failures = process
        .lines()
        .iter()
        .filter(|line| line.text.contains("cannot keep alerts"))
        .count();
    assert!(failures <= 3, "{failures} log lines about one failure");
}
