//! `sctl logs` beside `journalctl`, on the same files.

use std::collections::BTreeSet;
use std::path::Path;

use muster_journal::{EntryTime, Id128, JournalWriter, SeqnumSource, WriterOptions};
use serde_json::Value;

use crate::common::{Outcome, SCTL, have_real_tools, run};

/// Sun 2026-11-15 11:00:00 UTC
const START: u64 = 1_794_740_400_000_000;
const SECOND: u64 = 1_000_000;

fn id(n: u8) -> Id128 {
    format!("{:032x}", 0xb007_0000_u64 + u64::from(n))
        .parse()
        .unwrap()
}

/// A new file of a journal, for one boot.
fn writer(folder: &Path, boot: u8) -> JournalWriter {
    let options = WriterOptions::new(id(99), id(boot));
    let numbers = SeqnumSource {
        id: id(50),
        next: u64::from(boot) * 1000,
    };
    let path = folder.join(format!("system{boot}.journal"));
    JournalWriter::create(&path, &options, numbers).unwrap()
}

/// A journal of two boots: several units, levels, transports, long and binary messages.
fn journal() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for boot in 1..=2_u8 {
        let boot_id = id(boot);
        let mut writer = writer(folder.path(), boot);
        for n in 0..60_u64 {
            let monotonic = (n + 1) * SECOND / 2 + n % 7;
            let time = EntryTime {
                realtime: START + u64::from(boot) * 3600 * SECOND + monotonic,
                monotonic,
                boot_id,
            };
            let fields = fields(n, boot_id);
            writer.append(time, &fields).unwrap();
        }
        writer.close().unwrap();
    }
    folder
}

fn fields(n: u64, boot: Id128) -> Vec<Vec<u8>> {
    let unit = ["a.service", "b.service", "c.service"][usize::try_from(n % 3).unwrap()];
    let mut fields: Vec<Vec<u8>> = [
        format!("_BOOT_ID={boot}"),
        "_MACHINE_ID=00000000000000000000000000000063".to_owned(),
        "_HOSTNAME=host".to_owned(),
        format!("PRIORITY={}", n % 8),
        // The manager's own lines are those of process 1 to journalctl.
        format!("_PID={}", if n % 10 == 8 { 1 } else { 100 + n % 5 }),
        "_UID=0".to_owned(),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect();
    let mut add = |text: &str| fields.push(text.as_bytes().to_vec());
    match n % 10 {
        7 => {
            add("_TRANSPORT=kernel");
            add("SYSLOG_IDENTIFIER=kernel");
            add("MESSAGE=usb 1-1: new device");
        }
        8 => {
            add("_TRANSPORT=journal");
            add("SYSLOG_IDENTIFIER=muster-core");
            add(&format!("UNIT={unit}"));
            add(&format!("MESSAGE=Started {unit}."));
        }
        _ => {
            add("_TRANSPORT=stdout");
            add(&format!("_SYSTEMD_UNIT={unit}"));
            add(&format!("SYSLOG_IDENTIFIER=prog{}", n % 2));
            add("TAG=one");
            add("TAG=two");
            match n % 6 {
                1 => add("MESSAGE=first line\nsecond line\n\tthird line"),
                2 => fields.push(b"MESSAGE=a\x01b\xff".to_vec()),
                3 => add(&format!("MESSAGE={}", "long ".repeat(60).trim_end())),
                _ => add(&format!("MESSAGE=Hello number {n}")),
            }
        }
    }
    fields
}

fn both(folder: &Path, words: &[&str]) -> (Outcome, Outcome) {
    let place = format!("--directory={}", folder.display());
    let mut theirs = vec!["--no-pager", place.as_str()];
    theirs.extend(words);
    let mut ours = vec!["logs", place.as_str()];
    ours.extend(words);
    (run("journalctl", &theirs, folder), run(SCTL, &ours, folder))
}

#[test]
fn entries_are_printed_as_journalctl_prints_them() {
    if !have_real_tools() {
        println!("entries_are_printed_as_journalctl_prints_them: systemd 252 is not installed");
        return;
    }
    let journal = journal();
    let boot = id(1).to_string();
    for words in [
        &[][..],
        &["-n", "7"],
        &["-n", "all", "-r"],
        &["-r", "-n", "4"],
        &["-u", "a.service"],
        &["-u", "a", "-u", "b", "-n", "5"],
        &["-t", "prog0"],
        &["-p", "err"],
        &["-p", "2..warning", "-n", "9"],
        &["-b"],
        &["-b", "-1", "-n", "3"],
        &["-b", boot.as_str(), "-n", "3"],
        &["-k", "-b", "all"],
        &["-g", "number 1"],
        &["-g", "NUMBER", "-b"],
        &["-g", "Hello|usb", "-n", "5"],
        &["-S", "2026-11-15 12:00:10", "-U", "2026-11-15 12:00:20"],
        &["-S", "2026-11-15 13:00:10"],
        &["-U", "2026-11-15 12:00:05"],
        &["--no-hostname", "-n", "2"],
        &["-o", "cat", "-n", "20"],
        &["-o", "short-iso", "-n", "20"],
        &["-o", "short-precise", "-n", "20"],
        &["-o", "short-full", "-n", "3"],
        &["-o", "short-unix", "-n", "3"],
        &["-o", "short-monotonic", "-n", "3"],
        &["-o", "verbose", "-n", "20"],
        &["-o", "export", "-n", "20"],
        &["_TRANSPORT=kernel"],
        &["_TRANSPORT=kernel", "+", "PRIORITY=3"],
        &["PRIORITY=1", "PRIORITY=2", "_PID=101"],
        &["--show-cursor", "-n", "1"],
        &["-u", "nothing"],
        &["--list-boots"],
        &["-a", "-n", "10"],
    ] {
        let (theirs, ours) = both(journal.path(), words);
        assert_eq!(ours.stdout, theirs.stdout, "{words:?}\n{}", ours.stderr);
    }
}

#[test]
fn json_has_the_values_that_journalctl_has() {
    if !have_real_tools() {
        println!("json_has_the_values_that_journalctl_has: systemd 252 is not installed");
        return;
    }
    let journal = journal();
    let values = |text: &str| -> Vec<Value> {
        serde_json::Deserializer::from_str(text)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    for words in [
        &["-o", "json"][..],
        &["-o", "json-pretty", "-n", "5"],
        &["-o", "json", "--output-fields=MESSAGE,_PID", "-n", "8"],
    ] {
        let (theirs, ours) = both(journal.path(), words);
        assert_eq!(values(&ours.stdout), values(&theirs.stdout), "{words:?}");
    }
    for words in [&["-F", "_SYSTEMD_UNIT"][..], &["-F", "PRIORITY"], &["-N"]] {
        let (theirs, ours) = both(journal.path(), words);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(lines(&ours.stdout), lines(&theirs.stdout), "{words:?}");
    }
}

#[test]
fn cursors_are_exchangeable() {
    if !have_real_tools() {
        println!("cursors_are_exchangeable: systemd 252 is not installed");
        return;
    }
    let journal = journal();
    let (theirs, ours) = both(journal.path(), &["-n", "15", "-o", "json"]);
    let cursor = |text: &str| -> String {
        let first = text.lines().next().unwrap();
        let value: Value = serde_json::from_str(first).unwrap();
        value["__CURSOR"].as_str().unwrap().to_owned()
    };
    for cursor in [cursor(&theirs.stdout), cursor(&ours.stdout)] {
        for option in ["--cursor", "--after-cursor"] {
            for extra in [&[][..], &["-n", "3"], &["-u", "b.service"]] {
                // journalctl 252 drops the first entry of the unit here, for it takes it for the cursor's.
                if option == "--after-cursor" && extra.contains(&"-u") {
                    continue;
                }
                let mut words = vec![option, cursor.as_str()];
                words.extend(extra);
                let (theirs, ours) = both(journal.path(), &words);
                assert_eq!(ours.stdout, theirs.stdout, "{words:?}");
            }
        }
    }
    let file = journal.path().join("cursor");
    let option = format!("--cursor-file={}", file.display());
    let place = format!("--directory={}", journal.path().display());
    let ask = || {
        run(
            SCTL,
            &["logs", &place, &option, "-o", "cat", "-q"],
            journal.path(),
        )
    };
    assert!(!ask().stdout.is_empty());
    assert_eq!(ask().stdout, "", "everything was read");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let journal = journal();
    let place = format!("--directory={}", journal.path().display());
    for (words, remark) in [
        (&["-S", "nonsense"][..], "Failed to parse timestamp"),
        (&["-S", "2026-11-15", "-U", "2026-11-14"], "must be before"),
        (&["-p", "loud"], "Unknown log level"),
        (&["-g", "("], "Failed to compile pattern"),
        (&["-g", "(a{1000}){1000}"], "Failed to compile pattern"),
        (&["--cursor", "x"], "Failed to parse cursor"),
        (&["-b", "-7"], "No boot"),
        (&["-n", "x"], "Failed to parse lines"),
        (&["-f", "-r"], "not both"),
        (&["nonsense"], "is not a match"),
        (&["+"], "between terms"),
        (&["--facility", "loud"], "Unknown facility"),
    ] {
        let mut all = vec!["logs", place.as_str()];
        all.extend(words);
        let outcome = run(SCTL, &all, journal.path());
        assert_eq!(outcome.code, 1, "{words:?}: {outcome:?}");
        assert!(outcome.stderr.contains(remark), "{words:?}: {outcome:?}");
    }
    let missing = run(SCTL, &["logs", "-D", "/nonexistent"], Path::new("/"));
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("/nonexistent"), "{missing:?}");
}

#[test]
fn following_shows_what_is_appended_and_ends_with_its_reader() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let journal = journal();
    let mut child = Command::new(SCTL)
        .args(["logs", "-f", "-n", "1", "-o", "cat", "-D"])
        .arg(journal.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(!line.is_empty(), "the last entry comes first");
    let boot_id = id(3);
    let mut writer = writer(journal.path(), 3);
    for n in 0..3_u64 {
        let time = EntryTime {
            realtime: START + 100_000 * SECOND + n,
            monotonic: n + 1,
            boot_id,
        };
        let boot = format!("_BOOT_ID={boot_id}");
        writer
            .append(time, &[format!("MESSAGE=new {n}"), boot])
            .unwrap();
        writer.notify_readers().unwrap();
        line.clear();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, format!("new {n}\n"));
    }
    drop(reader);
    let status = child.wait().unwrap();
    assert!(status.code().is_some(), "it ends by itself: {status:?}");
    writer.close().unwrap();
}
