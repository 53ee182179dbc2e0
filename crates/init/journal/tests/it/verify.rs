//! The verifier finds what journalctl's finds, and says where it is.

use std::path::Path;
use std::process::Command;

use muster_journal::{JournalWriter, ReadError, SeqnumSource, VerifyError, WriterOptions, verify};

use crate::support::*;

/// A file of a hundred lines, cut to its used part.
fn sample(path: &Path, compact: bool) -> Vec<u8> {
    let options = WriterOptions {
        compact,
        max_size: 512 << 10,
        ..options()
    };
    let numbers = SeqnumSource {
        id: boot(9),
        next: 1,
    };
    let mut writer = JournalWriter::create(path, &options, numbers).expect("create");
    for n in 0..100 {
        let mut fields = line(u32::try_from(n % 5).expect("small"), &format!("line {n}"));
        fields.push(format!("LONG={}", "x".repeat(700)).into_bytes());
        writer.append(at(n), &fields).expect("append");
    }
    writer.archive().expect("archive");
    std::fs::read(path).expect("read")
}

/// What journalctl's verifier objects to.
fn journalctl_objects(path: &Path) -> Option<String> {
    let output = Command::new("journalctl")
        .args(["--verify", "--quiet", "--file"])
        .arg(path)
        .output()
        .expect("journalctl of the package systemd");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Where a text stands in the file.
fn find(bytes: &[u8], text: &[u8]) -> usize {
    bytes
        .windows(text.len())
        .position(|window| window == text)
        .expect("it is there")
}

/// What is wrong with the file, and where.
fn damage(path: &Path) -> (&'static str, u64, &'static str) {
    match verify(path) {
        Err(VerifyError::Content(ReadError::Damaged {
            offset,
            object,
            problem,
            ..
        })) => (object, offset, problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_is_named_with_its_place() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a.journal");
    let bytes = sample(&path, true);
    let with = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        std::fs::write(&path, bytes).expect("write");
        damage(&path)
    };
    let message = find(&bytes, b"MESSAGE=line 42");
    // The payload of a compact data object starts 72 bytes into it.
    let object = message - 72;
    let (kind, offset, problem) = with(message + 13, b"9");
    assert_eq!((kind, offset), ("data", object as u64));
    assert!(problem.contains("hash"), "{problem}");
    let (kind, offset, _) = with(object + 56, &7_u64.to_le_bytes());
    assert_eq!(
        (kind, offset),
        ("data", object as u64),
        "a value that counts its entries wrongly"
    );
    let (kind, offset, _) = with(object, &[0xee]);
    assert_eq!(
        (kind, offset),
        ("object", object as u64),
        "an object of no type"
    );
    for (at, what) in [
        (144, "objects"),
        (152, "entries"),
        (208, "values"),
        (216, "names"),
        (232, "arrays"),
    ] {
        let (kind, _, problem) = with(at, &77_u64.to_le_bytes());
        assert_eq!(kind, "header");
        assert!(problem.contains(what) || at == 152, "{problem}");
    }
    std::fs::write(&path, &bytes[..bytes.len() - 8]).expect("write");
    let (kind, _, problem) = damage(&path);
    assert_eq!(kind, "header");
    assert!(problem.contains("larger than it is"), "{problem}");
}

#[test]
fn whatever_journalctl_finds_is_found() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("a.journal");
    let mut random = muster_lab::seed() | 1;
    let mut next = |bound: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % u64::try_from(bound).expect("fits")).expect("fits")
    };
    let mut found = 0;
    for compact in [true, false] {
        let _ = std::fs::remove_file(&path);
        let bytes = sample(&path, compact);
        assert_eq!(journalctl_objects(&path), None);
        verify(&path).expect("in order");
        // Most of the file are empty buckets; the objects begin behind them.
        let objects = bytes.len() - find(&bytes, b"MESSAGE=line 0");
        for round in 0..muster_lab::rounds(60, 2000) {
            let mut damaged = bytes.clone();
            let at = match round % 4 {
                // Behind the flags, of which one version knows more than another.
                0 => 16 + next(256),
                _ => bytes.len() - 1 - next(objects),
            };
            damaged[at] ^= 1 << next(8);
            std::fs::write(&path, &damaged).expect("write");
            if let Some(objection) = journalctl_objects(&path) {
                found += 1;
                let verdict = verify(&path);
                assert!(
                    verdict.is_err(),
                    "offset {at}, compact {compact}: {objection}"
                );
            }
        }
    }
    assert!(found > 30, "{found}");
}
