//! The record: a snapshot of everything, then the events since, in a file that survives this process.
//!
//! Layout: eight bytes of magic, then frames of length (u32), CRC-32 (u32) and payload. The first frame is core's own
//! [`Memory`] as JSON, the second the engine's state as it encodes itself, all others are [`Entry`]s. A frame that is cut
//! off or damaged ends the log: what was not recorded was not acted upon either. Damage in the first two frames is an error,
//! and the state is rebuilt from what runs.
//!
//! The file is a memfd that `muster-init` keeps: appending costs one `write`, takes no memory of this process and outlives
//! it. It does not outlive the machine, and need not: nothing in it is true after a boot.

use muster_engine::ids::ActionId;
use muster_engine::{EngineState, Event};
use serde::{Deserialize, Serialize};

use crate::memory::Memory;

const MAGIC: [u8; 8] = *b"MUSTER\x00\x01";
const HEADER: usize = 8;
/// No single frame is larger; a length beyond it is damage.
const MAX_FRAME: usize = 256 << 20;

/// What a core writes before it tries to go on from a record. The snapshot that ends a recovery removes it.
const ATTEMPT: &[u8] = b"attempt";

/// One event of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Every action up to this one was carried out when the entry was written.
    #[serde(rename = "d")]
    pub done: ActionId,
    /// The action that this event is the outcome of.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ActionId>,
    /// What happened.
    #[serde(rename = "e")]
    pub event: Event,
}

/// What a record held.
#[derive(Debug)]
pub struct Recorded {
    /// Core's own memory at the snapshot.
    pub memory: Memory,
    /// The engine's state at the snapshot.
    pub engine: EngineState,
    /// Events since, in order.
    pub entries: Vec<Entry>,
    /// How many cores tried to go on from it and did not get through.
    pub attempts: usize,
    /// Bytes at the end that are no complete entry.
    pub torn: usize,
}

/// A record could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadRecordError {
    /// It does not begin as a record does.
    #[error("the record does not begin with the mark of this program")]
    Foreign,
    /// The snapshot is cut off or damaged.
    #[error("the {part} of the record's snapshot is damaged")]
    Damaged {
        /// Which part.
        part: &'static str,
    },
    /// Core's own part cannot be read.
    #[error("the manager's own memory in the record cannot be read")]
    Memory(#[source] serde_json::Error),
    /// Core after core died of it.
    #[error("{attempts} managers in a row did not get through what it says")]
    Deadly {
        /// How many.
        attempts: usize,
    },
    /// The engine's part cannot be read.
    #[error("the engine's state in the record cannot be read")]
    Engine(#[source] muster_engine::state::DecodeStateError),
    /// An entry is whole but means nothing.
    #[error("event {index} of the record cannot be read")]
    Event {
        /// Its place in the log.
        index: usize,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

/// Adds a frame to `out`.
fn frame(payload: &[u8], out: &mut Vec<u8>) {
    // A frame of four gigabytes would be a state of a million units; the length is checked when it is read.
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
    out.extend_from_slice(payload);
}

/// The beginning of a record: everything as it is now.
#[must_use]
pub fn snapshot(memory: &Memory, engine: &EngineState) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    frame(&to_json(memory), &mut out);
    frame(&engine.encode(), &mut out);
    out
}

/// An entry as it is appended.
pub fn entry(entry: &Entry, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; HEADER]);
    // Writing into memory does not fail, and every part of an event can be written as JSON.
    serde_json::to_writer(&mut *out, entry).expect("every part of an event can be written as JSON");
    let length = u32::try_from(out.len() - HEADER).unwrap_or(u32::MAX);
    let crc = crc32fast::hash(&out[HEADER..]);
    out[..4].copy_from_slice(&length.to_le_bytes());
    out[4..HEADER].copy_from_slice(&crc.to_le_bytes());
}

/// The mark of an attempt to go on from a record.
#[must_use]
pub fn attempt() -> Vec<u8> {
    let mut out = Vec::new();
    frame(ATTEMPT, &mut out);
    out
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("every part of the memory can be written as JSON")
}

/// Takes the first frame off `bytes`; `None` if it is cut off or damaged.
fn take<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let length = u32::from_le_bytes(header[..4].try_into().ok()?);
    let crc = u32::from_le_bytes(header[4..].try_into().ok()?);
    let length = usize::try_from(length).ok().filter(|n| *n <= MAX_FRAME)?;
    let (payload, rest) = rest.split_at_checked(length)?;
    if crc32fast::hash(payload) != crc {
        return None;
    }
    *bytes = rest;
    Some(payload)
}

/// Reads a record.
///
/// # Errors
/// If there is no whole snapshot at its beginning, or an entry that is whole cannot be understood.
pub fn read(bytes: &[u8]) -> Result<Recorded, ReadRecordError> {
    let mut rest = bytes.strip_prefix(&MAGIC).ok_or(ReadRecordError::Foreign)?;
    let damaged = |part| ReadRecordError::Damaged { part };
    let memory = take(&mut rest).ok_or(damaged("manager's part"))?;
    let memory = serde_json::from_slice(memory).map_err(ReadRecordError::Memory)?;
    let engine = take(&mut rest).ok_or(damaged("engine's part"))?;
    let engine = EngineState::decode(engine).map_err(ReadRecordError::Engine)?;
    let (mut entries, mut attempts) = (Vec::new(), 0);
    while let Some(payload) = take(&mut rest) {
        if payload == ATTEMPT {
            attempts += 1;
            continue;
        }
        let index = entries.len();
        let entry = serde_json::from_slice(payload)
            .map_err(|source| ReadRecordError::Event { index, source })?;
        entries.push(entry);
    }
    Ok(Recorded {
        memory,
        engine,
        entries,
        attempts,
        torn: rest.len(),
    })
}

#[cfg(test)]
mod tests {
    use muster_engine::event::What;
    use muster_engine::ids::{Clock, InvocationId};
    use proptest::prelude::*;

    use super::*;

    fn some(n: u64) -> Entry {
        Entry {
            done: ActionId(n),
            cause: n.is_multiple_of(2).then_some(ActionId(n)),
            event: Event {
                clock: Clock::default(),
                entropy: InvocationId(u128::from(n)),
                what: What::Tick,
            },
        }
    }

    fn written(count: u64) -> Vec<u8> {
        let mut bytes = snapshot(&Memory::default(), &EngineState::new());
        let mut buffer = Vec::new();
        for n in 0..count {
            entry(&some(n), &mut buffer);
            bytes.extend_from_slice(&buffer);
        }
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let recorded = read(&written(5)).expect("reads");
        assert_eq!(recorded.entries, (0..5).map(some).collect::<Vec<_>>());
        assert_eq!(recorded.torn, 0);
    }

    #[test]
    fn attempts_are_counted_and_are_no_events() {
        let mut bytes = written(2);
        for _ in 0..3 {
            bytes.extend_from_slice(&attempt());
        }
        let recorded = read(&bytes).expect("reads");
        assert_eq!((recorded.entries.len(), recorded.attempts), (2, 3));
    }

    #[test]
    fn a_record_of_another_program_is_refused() {
        assert!(matches!(read(b"hello"), Err(ReadRecordError::Foreign)));
        assert!(matches!(read(&MAGIC), Err(ReadRecordError::Damaged { .. })));
    }

    proptest! {
        /// A log that is cut anywhere gives a prefix of its entries, and never something else.
        #[test]
        fn a_cut_log_is_a_prefix(cut in 0usize..600) {
            let bytes = written(6);
            let snapshot_only = written(0).len();
            let end = bytes.len().saturating_sub(cut).max(snapshot_only);
            let recorded = read(&bytes[..end]).expect("the snapshot is whole");
            let expected: Vec<Entry> = (0..6).map(some).take(recorded.entries.len()).collect();
            prop_assert_eq!(recorded.entries, expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), flip in 0usize..200) {
            let _ = read(&bytes);
            let mut damaged = written(2);
            let at = flip % damaged.len();
            damaged[at] ^= 0x40;
            let _ = read(&damaged);
        }
    }
}
