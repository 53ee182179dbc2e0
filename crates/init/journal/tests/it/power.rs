//! Power cuts: what was synchronised is readable, whatever else of the file reached the disk.

use std::path::Path;

use muster_journal::{
    Journal, JournalWriter, NotContinuable, OpenWriterError, SeqnumSource, WriterOptions,
};
use muster_lab::powercut::{Ack, CheckFailure, CutTest, ack, reexec, role};
use proptest::prelude::*;

use crate::support::*;

const PAGE: usize = 4096;

fn append(writer: &mut JournalWriter, lines: std::ops::Range<u64>) {
    for n in lines {
        let unit = u32::try_from(n % 7).expect("small");
        let mut fields = line(unit, &format!("line {n}"));
        fields.push(
            format!(
                "LONG={}",
                "z".repeat(600 + usize::try_from(n).expect("small"))
            )
            .into_bytes(),
        );
        writer.append(at(n), &fields).expect("append");
    }
}

fn small(compact: bool) -> WriterOptions {
    WriterOptions {
        compact,
        max_size: 2 << 20,
        ..options()
    }
}

/// The messages up to the first that is missing, read in both directions and by unit.
fn assert_readable(path: &Path, synced: u64) {
    let mut journal = Journal::open_files(&[path]).expect("open");
    let read = messages_forward_lossy(&mut journal);
    let expected: Vec<String> = (0..synced).map(|n| format!("line {n}")).collect();
    assert!(
        read.len() >= expected.len(),
        "{} of {synced} lines",
        read.len()
    );
    assert_eq!(read[..expected.len()], expected);
    journal.seek_tail().expect("seek");
    let mut backward = messages_backward_lossy(&mut journal);
    backward.reverse();
    assert!(
        backward.len() >= expected.len(),
        "{} of {synced} lines backward",
        backward.len()
    );
    assert_eq!(backward[..expected.len()], expected);
}

fn lossy(entry: &muster_journal::Entry) -> Option<String> {
    let (fields, _) = entry.fields_lossy();
    let message = fields
        .iter()
        .find_map(|field| field.strip_prefix(b"MESSAGE="))?;
    String::from_utf8(message.to_vec()).ok()
}

fn messages_forward_lossy(journal: &mut Journal) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(entry) = journal.next_entry().expect("read") {
        messages.extend(lossy(&entry));
    }
    messages
}

fn messages_backward_lossy(journal: &mut Journal) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(entry) = journal.previous_entry().expect("read") {
        messages.extend(lossy(&entry));
    }
    messages
}

proptest! {
    #![proptest_config(ProptestConfig { cases: muster_lab::rounds(60, 3000), ..ProptestConfig::default() })]

    /// Every page of the file is as it was when it was synchronised, or as it was when the power went.
    #[test]
    fn any_mixture_of_old_and_new_pages_keeps_what_was_synced(
        compact in any::<bool>(),
        synced in 1_u64..60,
        more in 1_u64..60,
        survives in prop::collection::vec(any::<bool>(), 64),
    ) {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("system.journal");
        let numbers = SeqnumSource { id: boot(9), next: 1 };
        let mut writer = JournalWriter::create(&path, &small(compact), numbers).expect("create");
        append(&mut writer, 0..synced);
        writer.sync().expect("sync");
        let old = std::fs::read(&path).expect("read");
        append(&mut writer, synced..synced + more);
        let new = std::fs::read(&path).expect("read");
        let mut mixed = new.clone();
        for (index, page) in mixed.chunks_mut(PAGE).enumerate() {
            if !survives[index % survives.len()] {
                let start = index * PAGE;
                let kept = old.get(start..(start + PAGE).min(old.len())).unwrap_or(&[]);
                page.fill(0);
                page[..kept.len()].copy_from_slice(kept);
            }
        }
        // The mark that a writer is at work is on disk before anything is changed.
        mixed[16] = 1;
        let cut = dir.path().join("cut.journal");
        std::fs::write(&cut, &mixed).expect("write");
        assert_readable(&cut, synced);

        // In the next boot nobody writes to it.
        let mut next_boot = small(compact);
        next_boot.boot_id = boot(2);
        let refused = JournalWriter::open(&cut, &next_boot);
        prop_assert!(matches!(
            refused,
            Err(OpenWriterError::NotContinuable { reason: NotContinuable::Unclean, .. })
        ), "{refused:?}");
    }
}

/// The program under test: acknowledges what it has synchronised.
fn write_lines(folder: &Path) {
    let numbers = SeqnumSource {
        id: boot(9),
        next: 1,
    };
    let path = folder.join("system.journal");
    let mut writer = JournalWriter::create(&path, &small(true), numbers).expect("create");
    ack("made").expect("the rig listens");
    for step in 0..8 {
        append(&mut writer, step * 10..step * 10 + 10);
        writer.sync().expect("sync");
        ack(&format!("synced {}", step * 10 + 10)).expect("the rig listens");
    }
    append(&mut writer, 80..90);
    writer.archive().expect("archive");
    std::fs::rename(&path, folder.join("system@1.journal")).expect("rename");
    ack("synced 90").expect("the rig listens");
}

fn check_lines(folder: &Path, acks: &[Ack]) -> Result<(), CheckFailure> {
    if acks.is_empty() {
        return Ok(());
    }
    let synced = acks
        .iter()
        .filter_map(|ack| ack.text.strip_prefix("synced ")?.parse().ok())
        .max();
    let synced: u64 = synced.unwrap_or(0);
    let files = muster_journal::list_files(folder)?;
    let [file] = files.as_slice() else {
        return Err(format!("{} files", files.len()).into());
    };
    let mut journal = Journal::open_files(&[&file.path])?;
    let read = messages_forward_lossy(&mut journal);
    let expected: Vec<String> = (0..synced).map(|n| format!("line {n}")).collect();
    if read.len() < expected.len() || read[..expected.len()] != expected {
        return Err(format!("{} of {synced} lines", read.len()).into());
    }
    Ok(())
}

#[test]
fn synced_lines_survive_a_power_cut() {
    if let Some(role) = role() {
        return write_lines(&role.folder);
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let first = muster_lab::seed();
    for round in 0..muster_lab::rounds(2, 50) {
        let seed = first.wrapping_add(u64::from(round) * 1000);
        let run = |mount: &Path| reexec("power::synced_lines_survive_a_power_cut", "writer", mount);
        let report = CutTest::new(run, check_lines).rounds(20).seed(seed).run();
        assert_eq!(report.expect("nothing synced is lost").acks.len(), 10);
    }
}
