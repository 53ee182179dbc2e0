//! systemd's own daemon and reader beside this crate's.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use muster_journal::{Cursor, Journal, Matches, SeqnumSource, WriterOptions};

use crate::support::*;

/// An entry with all that both readers say about it.
type Whole = BTreeSet<Vec<u8>>;

/// Parses journalctl's export format.
fn parse_export(mut bytes: &[u8]) -> Vec<Whole> {
    let mut entries = Vec::new();
    let mut entry = Whole::new();
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        bytes = rest;
        if line.is_empty() {
            entries.push(std::mem::take(&mut entry));
        } else if line.starts_with(b"__SEQNUM") {
            // Of newer readers only; it is part of the cursor, which all have.
        } else if line.contains(&b'=') {
            entry.insert(line.to_vec());
        } else {
            // A value with line breaks or control characters: its length, then its bytes.
            let (length, rest) = bytes.split_first_chunk::<8>().expect("a length");
            let length = usize::try_from(u64::from_le_bytes(*length)).expect("a length");
            entry.insert([line, b"=", &rest[..length]].concat());
            bytes = &rest[length + 1..];
        }
    }
    if !entry.is_empty() {
        entries.push(entry);
    }
    entries
}

fn theirs(dir: &Path, args: &[&str]) -> Vec<Whole> {
    let output = Command::new("journalctl")
        .arg("-D")
        .arg(dir)
        .args(["--no-pager", "--quiet", "-o", "export"])
        .args(args)
        .output()
        .expect("journalctl of the package systemd");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    parse_export(&output.stdout)
}

fn whole(entry: &muster_journal::Entry) -> Whole {
    let mut whole: Whole = entry.fields().expect("fields").into_iter().collect();
    for line in [
        format!("__CURSOR={}", entry.cursor()),
        format!("__REALTIME_TIMESTAMP={}", entry.realtime()),
        format!("__MONOTONIC_TIMESTAMP={}", entry.monotonic()),
        format!("_BOOT_ID={}", entry.boot_id()),
    ] {
        whole.insert(line.into_bytes());
    }
    whole
}

fn forward(journal: &mut Journal) -> Vec<Whole> {
    let mut entries = Vec::new();
    while let Some(entry) = journal.next_entry().expect("read") {
        entries.push(whole(&entry));
    }
    entries
}

fn backward(journal: &mut Journal) -> Vec<Whole> {
    let mut entries = Vec::new();
    while let Some(entry) = journal.previous_entry().expect("read") {
        entries.push(whole(&entry));
    }
    entries
}

/// Asks both readers the same questions about a directory.
fn assert_same_answers(dir: &Path) -> usize {
    let mut journal = Journal::open_dir(dir).expect("open");
    assert_eq!(journal.skipped().count(), 0);
    let all = forward(&mut journal);
    assert_eq!(all, theirs(dir, &[]));
    journal.seek_tail().expect("seek");
    assert_eq!(backward(&mut journal), theirs(dir, &["--reverse"]));

    // Conditions, as journalctl takes them: `+` is an alternative.
    for args in [
        vec!["SYSLOG_IDENTIFIER=one"],
        vec!["SYSLOG_IDENTIFIER=one", "SYSLOG_IDENTIFIER=two"],
        vec!["SYSLOG_IDENTIFIER=one", "PRIORITY=6"],
        vec![
            "SYSLOG_IDENTIFIER=one",
            "PRIORITY=3",
            "+",
            "SYSLOG_IDENTIFIER=two",
        ],
        vec!["SYSLOG_IDENTIFIER=nobody"],
    ] {
        let mut matches = Matches::new();
        for arg in &args {
            match *arg {
                "+" => matches.or(),
                value => matches.add(value.as_bytes()),
            };
        }
        journal.set_matches(matches);
        journal.seek_head();
        assert_eq!(forward(&mut journal), theirs(dir, &args), "{args:?}");
        journal.seek_tail().expect("seek");
        let mut last = backward(&mut journal);
        last.truncate(5);
        last.reverse();
        assert_eq!(
            last,
            theirs(dir, &[&args[..], &["-n", "5"]].concat()),
            "{args:?}"
        );
    }
    journal.set_matches(Matches::new());

    // Cursors, both ways: ours for journalctl, journalctl's for us.
    for place in [0, all.len() / 3, all.len() / 2, all.len() - 1] {
        let text = all[place]
            .iter()
            .find_map(|field| field.strip_prefix(b"__CURSOR="));
        let text = String::from_utf8(text.expect("a cursor").to_vec()).expect("text");
        let cursor: Cursor = text.parse().expect("a cursor");
        assert_eq!(cursor.to_string(), text);
        journal.seek_cursor(&cursor).expect("seek");
        assert_eq!(forward(&mut journal), theirs(dir, &["--cursor", &text]));
        journal.seek_after_cursor(&cursor).expect("seek");
        assert_eq!(
            forward(&mut journal),
            theirs(dir, &["--after-cursor", &text])
        );
        // The same without the number, as if the entry came from another source.
        let elsewhere = Cursor {
            seqnum_id: None,
            seqnum: None,
            ..cursor
        };
        journal.seek_cursor(&elsewhere).expect("seek");
        assert_eq!(
            forward(&mut journal),
            theirs(dir, &["--cursor", &elsewhere.to_string()])
        );
    }

    // Values, names, boots.
    for name in [
        "SYSLOG_IDENTIFIER",
        "PRIORITY",
        "_BOOT_ID",
        "_PID",
        "NOTHING",
    ] {
        let mut values = BTreeSet::new();
        journal
            .each_value(name.as_bytes(), |value| {
                assert!(
                    values.insert(String::from_utf8(value.to_vec()).expect("text")),
                    "twice"
                );
                true
            })
            .expect("values");
        let shown = journalctl(&["-D", dir.to_str().expect("text"), "-F", name]);
        assert_eq!(values, shown.lines().map(str::to_owned).collect(), "{name}");
    }
    let names: BTreeSet<String> = journal
        .field_names()
        .expect("names")
        .into_iter()
        .map(|name| String::from_utf8(name).expect("text"))
        .collect();
    let shown = journalctl(&["-D", dir.to_str().expect("text"), "--fields"]);
    assert_eq!(names, shown.lines().map(str::to_owned).collect());
    let boots: Vec<String> = journal
        .boots()
        .expect("boots")
        .iter()
        .map(|boot| boot.id.to_string())
        .collect();
    let shown = journalctl(&["-D", dir.to_str().expect("text"), "--list-boots"]);
    let shown: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(boots, shown);
    all.len()
}

/// Runs journald alone in namespaces of its own, lets it take lines, and copies its files to `$OUT`.
const JOURNALD: &str = r#"
set -eu
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/log
mount --bind /dev/null /dev/kmsg
mkdir -p /run/systemd/journal /var/log/journal
/usr/lib/systemd/systemd-journald &
journald=$!
while ! [ -S /run/systemd/journal/stdout ]; do :; done
say() { seq -f "$2 %g" "$3" | systemd-cat -t "$1" -p "$4"; }
say one 'line of one' 200 info
say two 'line of two' 100 err
head -c 6000 /dev/zero | tr '\0' 'x' | systemd-cat -t long
journalctl --sync
journalctl --rotate
say one 'later line of one' 150 err
say two 'later line of two' 50 info
printf 'one\033two\n' | systemd-cat -t one
journalctl --sync
kill "$journald"
wait "$journald" || true
cp -r /var/log/journal /run/log/journal "$OUT" 2>/dev/null || cp -r /var/log/journal "$OUT"
"#;

fn journald_files(out: &Path, environment: &[(&str, &str)]) {
    let output = Command::new("unshare")
        .args([
            "-mpf",
            "--mount-proc",
            "--propagation",
            "private",
            "sh",
            "-c",
            JOURNALD,
        ])
        .env("OUT", out)
        .envs(environment.iter().copied())
        .output()
        .expect("unshare of the package util-linux");
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
}

fn compare_journald(environment: &[(&str, &str)]) {
    let out = tempfile::tempdir().expect("dir");
    journald_files(out.path(), environment);
    let dir = out.path().join("journal");
    let lines = assert_same_answers(&dir);
    assert!(lines > 500, "{lines} lines");
    for machine in std::fs::read_dir(&dir).expect("list") {
        let files = muster_journal::list_files(&machine.expect("entry").path()).expect("list");
        assert!(files.len() >= 2, "journald rotated");
        for file in files {
            muster_journal::verify(&file.path).expect("in order");
        }
    }
}

#[test]
fn journalds_files_read_as_journalctl_reads_them() {
    muster_lab::require!(
        Root,
        Tool("unshare"),
        File("/usr/lib/systemd/systemd-journald")
    );
    compare_journald(&[]);
}

#[test]
fn journalds_files_of_older_layouts_read_as_journalctl_reads_them() {
    muster_lab::require!(
        Root,
        Tool("unshare"),
        File("/usr/lib/systemd/systemd-journald")
    );
    compare_journald(&[
        ("SYSTEMD_JOURNAL_COMPACT", "0"),
        ("SYSTEMD_JOURNAL_KEYED_HASH", "0"),
    ]);
}

#[test]
fn files_of_several_boots_read_as_journalctl_reads_them() {
    let dir = tempfile::tempdir().expect("dir");
    for compact in [true, false] {
        let dir = dir.path().join(format!("{compact}"));
        std::fs::create_dir(&dir).expect("dir");
        let mut rotating = Rotating::new(
            &dir,
            WriterOptions {
                compact,
                ..options()
            },
        );
        for n in 0..900_u64 {
            let boot = boot(u8::try_from(n / 250).expect("small"));
            let mut when = at(n * 1000);
            when.boot_id = boot;
            when.monotonic = 5000 + n % 250 * 1000;
            let mut fields = line_of_boot(
                boot,
                u32::try_from(n % 11).expect("small"),
                &format!("line {n}"),
            );
            fields[3] = ["one", "two", "three"][usize::try_from(n % 3).expect("small")]
                .as_bytes()
                .to_vec();
            fields[3].splice(0..0, *b"SYSLOG_IDENTIFIER=");
            if n % 4 == 0 {
                fields[1] = b"PRIORITY=3".to_vec();
            }
            fields.push(b"BINARY=\x00\x01\n\xff".to_vec());
            fields.push(
                format!("LONG={}", "y".repeat(usize::try_from(n).expect("small"))).into_bytes(),
            );
            rotating.append(when, &fields);
            if n % 200 == 199 {
                rotating.rotate();
            }
        }
        rotating.writer.close().expect("close");
        assert_eq!(assert_same_answers(&dir), 900);
        for file in muster_journal::list_files(&dir).expect("list") {
            assert_verified(&file.path);
        }
        let by_unit = journalctl(&["-D", dir.to_str().expect("text"), "-u", "u3", "-o", "cat"]);
        assert_eq!(by_unit.lines().count(), 900_usize.div_ceil(11).min(82));
    }
}

/// Two writers at once, as a system's and a user's journal: numbers of different sources.
#[test]
fn files_of_different_sources_merge_as_journalctl_merges_them() {
    let dir = tempfile::tempdir().expect("dir");
    let mut writers: Vec<_> = (0..3_u8)
        .map(|n| {
            let numbers = SeqnumSource {
                id: boot(20 + n),
                next: 1 + 1000 * u64::from(n),
            };
            let path = dir.path().join(format!("user-{n}.journal"));
            muster_journal::JournalWriter::create(&path, &options(), numbers).expect("create")
        })
        .collect();
    for n in 0..300_u64 {
        let writer = usize::try_from(n * 7 % 3).expect("small");
        writers[writer]
            .append(at(n * 10), &line(1, &format!("line {n}")))
            .expect("append");
    }
    for writer in writers {
        writer.close().expect("close");
    }
    assert_eq!(assert_same_answers(dir.path()), 300);
    let expected: Vec<String> = (0..300).map(|n| format!("line {n}")).collect();
    assert_eq!(
        messages_forward(&mut Journal::open_dir(dir.path()).expect("open")),
        expected
    );
}
