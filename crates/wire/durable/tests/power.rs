//! Power cuts: what was said to be done is done, and a file is whole whenever the power went. And the proof that the tests would
//! notice: with any one flush left out, they find the loss.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io;
use std::path::Path;

use muster_durable::testing::{Flush, leave_out};
use muster_lab::powercut::{
    Ack, CheckFailure, CutReport, CutTest, CutTestError, ack, reexec, role,
};

/// What is done last. On ext4 a flush of any file or folder makes all earlier names durable, so only the last one tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Replace,
    Remove,
    MakeFolder,
}

const TIMES: usize = 3;
/// For each disk that can be looked at.
const MOST_TRIES: u32 = 6;

/// Large enough to be written apart from what says where it is.
fn content(number: usize) -> Vec<u8> {
    format!("{number:08}").repeat(2000).into_bytes()
}

fn prepare(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("state"), content(0))?;
    fs::write(folder.join("doomed"), "")
}

/// The program under test: acknowledges what it has done.
fn carry_out(work: Work, folder: &Path) {
    match work {
        Work::Replace => {
            for number in 1..=TIMES {
                muster_durable::write(&folder.join("state"), &content(number), 0o600).unwrap();
                ack(&number.to_string()).expect("the rig listens");
            }
            return;
        }
        Work::Remove => muster_durable::remove(&folder.join("doomed")).unwrap(),
        Work::MakeFolder => muster_durable::make_folder(&folder.join("a/b/c")).unwrap(),
    }
    ack("done").expect("the rig listens");
}

fn check(work: Work, folder: &Path, acks: &[Ack]) -> Result<(), CheckFailure> {
    match work {
        Work::Replace => {
            let acknowledged = acks
                .last()
                .map_or(Ok(0), |last| last.text.parse::<usize>())?;
            let found = fs::read(folder.join("state"))?;
            // The next one may be there before anybody is told.
            if !(acknowledged..=TIMES).any(|number| found == content(number)) {
                let start = String::from_utf8_lossy(&found[..found.len().min(8)]).into_owned();
                return Err(
                    format!("{} bytes, {start:?}, after {acknowledged}", found.len()).into(),
                );
            }
        }
        Work::Remove if !acks.is_empty() && folder.join("doomed").exists() => {
            return Err("what was removed is there".into());
        }
        Work::MakeFolder if !acks.is_empty() && !folder.join("a/b/c").is_dir() => {
            return Err("the folder that was made is not there".into());
        }
        Work::Remove | Work::MakeFolder => {}
    }
    Ok(())
}

fn cut(test: &'static str, work: Work, seed: u64) -> Result<CutReport, CutTestError> {
    let program = |mount: &Path| reexec(test, &format!("{work:?}"), mount);
    let check = |folder: &Path, acks: &[Ack]| check(work, folder, acks);
    let test = CutTest::new(program, check).rounds(12).seed(seed);
    test.run_prepared(prepare)
}

/// Plays the program, if this process was started for that.
fn plays(left_out: Option<Flush>) -> bool {
    let Some(role) = role() else {
        return false;
    };
    if let Some(flush) = left_out {
        leave_out(flush);
    }
    let all = [Work::Replace, Work::Remove, Work::MakeFolder];
    let work = all
        .into_iter()
        .find(|work| format!("{work:?}") == role.name);
    carry_out(work.expect("one of them"), &role.folder);
    true
}

/// Cuts the power again and again. The first loss, if there is one.
fn first_loss(test: &'static str, work: Work) -> Option<String> {
    let wanted = muster_lab::rounds(3, 50);
    let mut sound = 0;
    // The disk tears blocks; every now and then that is the file system's own first block, and such a disk says nothing.
    for attempt in 0..wanted * MOST_TRIES {
        let seed = muster_lab::seed().wrapping_add(u64::from(attempt) * 1000);
        match cut(test, work, seed) {
            Ok(_) => sound += 1,
            Err(CutTestError::Unmountable(..)) => {}
            Err(CutTestError::Lost(cut, loss)) => {
                return Some(format!("seed {seed}: {cut}: {loss}"));
            }
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
        if sound == wanted {
            return None;
        }
    }
    panic!("only {sound} disks of {wanted} could be looked at");
}

fn assert_found(test: &'static str, work: Work, left_out: Flush) {
    if plays(Some(left_out)) {
        return;
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let loss = first_loss(test, work).expect("a loss is found");
    println!("found: {loss}");
}

#[test]
fn what_was_said_to_be_done_survives_a_power_cut_and_files_are_whole() {
    if plays(None) {
        return;
    }
    muster_lab::require!(Root, Fuse, LoopDevice, Tool("mkfs.ext4"));
    let test = "what_was_said_to_be_done_survives_a_power_cut_and_files_are_whole";
    for work in [Work::Replace, Work::Remove, Work::MakeFolder] {
        assert_eq!(first_loss(test, work), None, "{work:?}");
    }
}

#[test]
fn content_that_is_not_flushed_is_found() {
    assert_found(
        "content_that_is_not_flushed_is_found",
        Work::Replace,
        Flush::Content,
    );
}

#[test]
fn a_new_name_that_is_not_flushed_is_found() {
    assert_found(
        "a_new_name_that_is_not_flushed_is_found",
        Work::Replace,
        Flush::Name,
    );
}

#[test]
fn a_removal_that_is_not_flushed_is_found() {
    assert_found(
        "a_removal_that_is_not_flushed_is_found",
        Work::Remove,
        Flush::Name,
    );
}

#[test]
fn a_folder_that_is_not_flushed_is_found() {
    assert_found(
        "a_folder_that_is_not_flushed_is_found",
        Work::MakeFolder,
        Flush::Name,
    );
}
