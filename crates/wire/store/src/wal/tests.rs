use std::fs;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;

/// A log of `commits` transactions as SQLite writes it, and the page size in it.
fn real_log(commits: usize) -> (Vec<u8>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "PRAGMA page_size=512; PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;
         CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB);
         PRAGMA wal_checkpoint(TRUNCATE);",
    )
    .unwrap();
    for _ in 0..commits {
        db.execute("INSERT INTO t (body) VALUES (randomblob(1500))", [])
            .unwrap();
    }
    let log = fs::read(folder.path().join("x.db-wal")).unwrap();
    (log, 512)
}

/// Offsets of the frames that end a transaction.
fn commit_frames(log: &[u8], page: usize) -> Vec<usize> {
    let step = FRAME_HEADER + page;
    (HEADER..=log.len() - step)
        .step_by(step)
        .filter(|at| u32_at(log, at + 4) != 0)
        .collect()
}

#[test]
fn what_sqlite_writes_is_sound() {
    let (log, page) = real_log(5);
    assert_eq!(commit_frames(&log, page).len(), 5);
    assert_eq!(examine(&log[..]).unwrap(), WalState::Sound);
}

#[test]
fn nothing_is_empty() {
    assert_eq!(examine(&[][..]).unwrap(), WalState::Empty);
    assert_eq!(examine(&[0; 31][..]).unwrap(), WalState::Empty);
    assert_eq!(examine(&[0; 100_000][..]).unwrap(), WalState::Empty);
    assert_eq!(examine(&[0xff; 100_000][..]).unwrap(), WalState::Empty);
    let (log, _) = real_log(1);
    assert_eq!(examine(&log[..HEADER]).unwrap(), WalState::Empty);
}

#[test]
fn a_torn_last_transaction_is_no_damage() {
    let (mut log, page) = real_log(4);
    let last = *commit_frames(&log, page).last().unwrap();
    log[last + FRAME_HEADER + 7] ^= 1;
    assert_eq!(examine(&log[..]).unwrap(), WalState::Sound);
    log.truncate(last + 100);
    assert_eq!(examine(&log[..]).unwrap(), WalState::Sound);
}

#[test]
fn a_bad_header_before_commits_is_damage() {
    let (mut log, _) = real_log(4);
    log[26] ^= 0x10;
    assert_eq!(
        examine(&log[..]).unwrap(),
        WalState::Damaged { frame: None }
    );
}

#[test]
fn frames_of_an_older_generation_do_not_count() {
    let (mut log, page) = real_log(6);
    let commits = commit_frames(&log, page);
    log[commits[1] + FRAME_HEADER] ^= 1;
    let step = FRAME_HEADER + page;
    for at in (commits[1] + step..log.len()).step_by(step) {
        log[at + 8] ^= 0x55;
    }
    assert_eq!(examine(&log[..]).unwrap(), WalState::Sound);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One flipped bit anywhere but in the last two transactions is found, wherever it is.
    #[test]
    fn damage_before_acknowledged_commits_is_found(at in 0.0..1.0_f64, bit in 0..8_u8) {
        let (mut log, page) = real_log(6);
        let commits = commit_frames(&log, page);
        let step = FRAME_HEADER + page;
        let end = commits[3] + step;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss,
                 clippy::cast_precision_loss, reason = "a position inside a small buffer")]
        let position = HEADER + ((end - HEADER) as f64 * at) as usize;
        log[position] ^= 1 << bit;
        let frame = u64::try_from((position - HEADER) / step).unwrap();
        prop_assert_eq!(examine(&log[..]).unwrap(), WalState::Damaged { frame: Some(frame) });
    }

    #[test]
    fn any_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        examine(&bytes[..]).unwrap();
    }

    /// Cutting the log short never looks like damage: the rest was never written.
    #[test]
    fn a_prefix_is_never_damage(length in 0..8000_usize) {
        let (log, _) = real_log(3);
        let prefix = &log[..length.min(log.len())];
        let damaged = matches!(examine(prefix).unwrap(), WalState::Damaged { .. });
        prop_assert!(!damaged);
    }
}
