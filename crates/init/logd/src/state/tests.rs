use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

const BOOT: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("a pair")
}

fn open(folder: &tempfile::TempDir, last_sequence: u64) -> Ledger {
    open_boot(folder, BOOT, last_sequence)
}

fn open_boot(folder: &tempfile::TempDir, boot: u128, last_sequence: u64) -> Ledger {
    let file = LedgerFile::lock(&folder.path().join("ledger")).expect("a file");
    Ledger::open(file, boot, last_sequence).expect("a ledger")
}

fn receive(ledger: &mut Ledger, index: SlotIndex, socket: &OwnedFd) -> usize {
    let slot = ledger.slot_mut(index);
    let received = sys::receive(socket.as_fd(), slot.room(), false).expect("bytes");
    received.length
}

#[test]
fn a_stream_given_again_finds_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (writer, reader) = pair();
    rustix::io::write(&writer, b"half a li").expect("sent");
    let mut ledger = open(&folder, 0);
    let (index, known) = ledger.claim(reader.as_fd()).expect("a slot");
    assert!(!known);
    ledger.describe(index, b"who");
    let length = receive(&mut ledger, index, &reader);
    ledger.slot_mut(index).received(length);
    rustix::io::write(&writer, b"ne\nnext").expect("sent");
    // Received into the memory, and killed before the position was stored.
    receive(&mut ledger, index, &reader);
    drop(ledger);

    let mut ledger = open(&folder, 0);
    assert_eq!(ledger.left_slots(), [index]);
    assert_eq!(ledger.slot(index).description(), b"who");
    let (again, known) = ledger.claim(reader.as_fd()).expect("a slot");
    assert_eq!((again, known), (index, true));
    assert_eq!(ledger.slot(index).pending(), b"half a line\nnext");
    ledger.release(index);
    assert!(ledger.left_slots().is_empty());
    drop(ledger);
    assert!(open(&folder, 0).left_slots().is_empty());
}

#[test]
fn a_note_is_carried_out_exactly_if_its_entry_is_there() {
    for (last_sequence, rest) in [(6, &b"one\ntwo\n"[..]), (7, b"two\n"), (8, b"two\n")] {
        let folder = tempfile::tempdir().expect("a folder");
        let (writer, reader) = pair();
        rustix::io::write(&writer, b"one\ntwo\n").expect("sent");
        let mut ledger = open(&folder, 0);
        let (index, _) = ledger.claim(reader.as_fd()).expect("a slot");
        let length = receive(&mut ledger, index, &reader);
        ledger.slot_mut(index).received(length);
        let position = ledger.slot(index).after(4);
        ledger.intend(Progress::Slot(index, position), 7);
        drop(ledger);

        let ledger = open(&folder, last_sequence);
        assert_eq!(ledger.slot(index).pending(), rest, "{last_sequence}");
        drop(ledger);
        // It is carried out once.
        assert_eq!(open(&folder, 100).slot(index).pending(), rest);
    }
}

#[test]
fn marks_move_with_their_entries() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledger = open(&folder, 0);
    ledger.advance(Progress::Mark(Mark::Kernel, 5));
    ledger.intend(Progress::Mark(Mark::Kernel, 6), 1);
    drop(ledger);
    let mut ledger = open(&folder, 0);
    assert_eq!(ledger.mark(Mark::Kernel), 5);
    ledger.intend(Progress::Mark(Mark::Kernel, 6), 1);
    drop(ledger);
    let mut ledger = open(&folder, 1);
    assert_eq!(ledger.mark(Mark::Kernel), 6);
    ledger.intend(Progress::Mark(Mark::Syslog, 3), 2);
    ledger.settle();
    ledger.intend(Progress::Mark(Mark::Syslog, 9), 3);
    ledger.drop_intent();
    drop(ledger);
    let ledger = open(&folder, 100);
    assert_eq!((ledger.mark(Mark::Syslog), ledger.mark(Mark::Feed)), (3, 0));
}

#[test]
fn a_ledger_of_another_boot_or_kind_is_begun_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger");
    let mut ledger = open(&folder, 0);
    ledger.advance(Progress::Mark(Mark::Kernel, 5));
    drop(ledger);
    let ledger = open_boot(&folder, BOOT + 1, 0);
    assert_eq!(ledger.mark(Mark::Kernel), 0);
    drop(ledger);
    std::fs::write(&path, vec![0xff; 500_000]).expect("written");
    let ledger = open(&folder, 0);
    assert_eq!(ledger.mark(Mark::Kernel), 0);
    assert!(ledger.left_slots().is_empty());
}

#[test]
fn two_processes_cannot_share_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = open(&folder, 0);
    let second = LedgerFile::lock(&folder.path().join("ledger"));
    assert!(
        matches!(second, Err(OpenLedgerError::InUse { .. })),
        "{second:?}"
    );
}

#[test]
fn what_is_no_stream_socket_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledger = open(&folder, 0);
    let file = std::fs::File::open("/dev/null").expect("a file");
    assert!(matches!(
        ledger.claim(file.as_fd()),
        Err(ClaimSlotError::NotCounted { .. })
    ));
}

#[test]
fn memory_of_a_burst_is_given_back() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let (writer, reader) = pair();
    let mut ledger = open(&folder, 0);
    let (index, _) = ledger.claim(reader.as_fd()).expect("a slot");
    for _ in 0..2 {
        rustix::io::write(&writer, &[b'x'; 60_000]).expect("sent");
        let length = receive(&mut ledger, index, &reader);
        ledger.slot_mut(index).received(length);
    }
    ledger.trim(index);
    assert_eq!(
        ledger.slot(index).pending().len(),
        120_000,
        "what is needed stays"
    );
    let blocks = || {
        std::fs::metadata(folder.path().join("ledger"))
            .expect("a file")
            .blocks()
    };
    let before = blocks();
    let position = ledger.slot(index).after(120_000);
    ledger.advance(Progress::Slot(index, position));
    ledger.trim(index);
    assert!(blocks() + 100 < before, "{} of {before} blocks", blocks());
    rustix::io::write(&writer, b"more").expect("sent");
    let length = receive(&mut ledger, index, &reader);
    ledger.slot_mut(index).received(length);
    assert_eq!(ledger.slot(index).pending(), b"more");
}

#[test]
fn places_are_used_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledger = open(&folder, 0);
    let pairs: Vec<_> = (0..20).map(|_| pair()).collect();
    for (_, reader) in &pairs {
        let (index, _) = ledger.claim(reader.as_fd()).expect("a slot");
        ledger.release(index);
    }
    let length = std::fs::metadata(folder.path().join("ledger"))
        .expect("a file")
        .len();
    assert_eq!(length, place_offset(1));
}

#[test]
fn a_place_that_is_used_again_has_nothing_of_who_had_it() {
    use std::os::unix::fs::MetadataExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let mut ledger = open(&folder, 0);
    let file = || std::fs::metadata(folder.path().join("ledger")).expect("a file");
    let pairs: Vec<_> = (0..3 * READY_MAX).map(|_| pair()).collect();
    for round in 0..2 {
        let mut claimed = Vec::new();
        for (writer, reader) in &pairs {
            let (index, was_there) = ledger.claim(reader.as_fd()).expect("a slot");
            assert!(!was_there, "round {round}");
            let slot = ledger.slot(index);
            assert!(slot.pending().is_empty() && slot.description().is_empty());
            ledger.describe(index, b"a stream");
            rustix::io::write(writer, &[b'x'; 10_000]).expect("sent");
            let length = receive(&mut ledger, index, reader);
            ledger.slot_mut(index).received(length);
            claimed.push(index);
        }
        for index in claimed {
            ledger.release(index);
        }
        // The ledger's own page, and one in which the file system notes where they are.
        let kept = HEADER_BYTES as u64 * (2 + READY_MAX as u64);
        assert!(file().blocks() * 512 <= kept, "{} blocks", file().blocks());
    }
    assert_eq!(file().len(), place_offset(pairs.len()));
    // Nobody's place is left to whoever begins anew.
    drop(ledger);
    assert!(open(&folder, 0).left_slots().is_empty());
}
