//! What an init hands to the one that takes its place under the same pid.
//!
//! A magic number, a version, then records: tag, length, content; all little-endian. Descriptors are kept open
//! and named by their numbers. Records that are not known are skipped, and none ever changes its meaning, so a
//! newer init reads what an older one wrote and the reverse.

use std::ffi::CString;
use std::os::fd::RawFd;

use muster_handover::{MAX_NAME, Outcome};

const MAGIC: &[u8; 8] = b"MUSTINIT";
const VERSION: u32 = 1;

const END: u16 = 0;
const KEPT: u16 = 1;
const FIRST_EXIT: u16 = 2;
const EXIT: u16 = 3;
const CORE_PATH: u16 = 4;
const WANTED_PATH: u16 = 5;
const GOOD_CORE: u16 = 6;
const SIGNALS: u16 = 7;
const REFUSED: u16 = 8;

/// The state of an init between two cores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// The kept descriptors.
    pub kept: Vec<(String, RawFd)>,
    /// The number of the first of `exits`, or that the next one gets.
    pub first_exit: u64,
    /// Exits that no core has acknowledged.
    pub exits: Vec<(i32, Outcome)>,
    /// The path of core; without it, the new init looks for one itself.
    pub core_path: Option<CString>,
    /// The path that the upgrade asked for.
    pub wanted_path: Option<CString>,
    /// The file of the core that worked last.
    pub good_core: Option<RawFd>,
    /// Signals that core has not been told.
    pub signals: u64,
    /// Descriptors that could not be kept, and core does not know.
    pub refused: u32,
}

/// What is wrong with a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// It is something else.
    #[error("the state was not written by muster-init")]
    NotAState,
    /// It ends before its end.
    #[error("the state is cut off at byte {at}")]
    CutOff {
        /// Where.
        at: usize,
    },
    /// A record has content that it cannot have.
    #[error("a record of the state with the tag {tag} is damaged")]
    BadRecord {
        /// Its tag.
        tag: u16,
    },
}

impl State {
    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(64 * (1 + self.kept.len())));
        out.0.extend(MAGIC);
        out.0.extend(VERSION.to_le_bytes());
        out.record(FIRST_EXIT, &[&self.first_exit.to_le_bytes()]);
        for (pid, outcome) in &self.exits {
            out.record(EXIT, &[&pid.to_le_bytes(), &outcome.raw.to_le_bytes()]);
        }
        if let Some(path) = &self.core_path {
            out.record(CORE_PATH, &[path.as_bytes()]);
        }
        if let Some(path) = &self.wanted_path {
            out.record(WANTED_PATH, &[path.as_bytes()]);
        }
        if let Some(descriptor) = self.good_core {
            out.record(GOOD_CORE, &[&descriptor.to_le_bytes()]);
        }
        out.record(SIGNALS, &[&self.signals.to_le_bytes()]);
        out.record(REFUSED, &[&self.refused.to_le_bytes()]);
        for (name, descriptor) in &self.kept {
            out.record(KEPT, &[&descriptor.to_le_bytes(), name.as_bytes()]);
        }
        out.record(END, &[]);
        out.0
    }

    /// Reads it. What could be read before a fault is returned along with that: a machine whose services run
    /// is better off with most of the state than with none.
    pub fn decode(bytes: &[u8]) -> (Self, Option<StateError>) {
        let mut state = Self::default();
        let Some(records) = bytes.strip_prefix(MAGIC).and_then(|rest| rest.get(4..)) else {
            return (state, Some(StateError::NotAState));
        };
        let mut fault = None;
        let mut rest = records;
        loop {
            let Some((tag, content, next)) = split_record(rest) else {
                let at = bytes.len() - rest.len();
                return (state, fault.or(Some(StateError::CutOff { at })));
            };
            if tag == END {
                return (state, fault);
            }
            if state.take(tag, content).is_none() {
                fault = fault.or(Some(StateError::BadRecord { tag }));
            }
            rest = next;
        }
    }

    /// None if the content is not as it must be. Bytes behind the known fields are a newer init's.
    fn take(&mut self, tag: u16, content: &[u8]) -> Option<()> {
        match tag {
            KEPT => {
                let (descriptor, name) = content.split_first_chunk()?;
                let name = std::str::from_utf8(name).ok()?;
                if name.is_empty() || name.len() > MAX_NAME {
                    return None;
                }
                self.kept
                    .push((name.to_owned(), RawFd::from_le_bytes(*descriptor)));
            }
            FIRST_EXIT => self.first_exit = u64::from_le_bytes(*content.first_chunk()?),
            EXIT => {
                let (pid, rest) = content.split_first_chunk()?;
                let raw = i32::from_le_bytes(*rest.first_chunk()?);
                self.exits.push((i32::from_le_bytes(*pid), Outcome { raw }));
            }
            CORE_PATH => self.core_path = Some(path(content)?),
            WANTED_PATH => self.wanted_path = Some(path(content)?),
            GOOD_CORE => self.good_core = Some(RawFd::from_le_bytes(*content.first_chunk()?)),
            SIGNALS => self.signals = u64::from_le_bytes(*content.first_chunk()?),
            REFUSED => self.refused = u32::from_le_bytes(*content.first_chunk()?),
            _ => {}
        }
        Some(())
    }

    /// The descriptors that belong to it.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let kept = self.kept.iter().map(|(_, descriptor)| *descriptor);
        kept.chain(self.good_core)
    }
}

fn path(content: &[u8]) -> Option<CString> {
    CString::new(content).ok().filter(|path| !path.is_empty())
}

fn split_record(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (content, rest) = rest.split_at_checked(length)?;
    Some((u16::from_le_bytes(*tag), content, rest))
}

struct Writer(Vec<u8>);

impl Writer {
    fn record(&mut self, tag: u16, content: &[&[u8]]) {
        let length: usize = content.iter().map(|part| part.len()).sum();
        // Names and paths are the longest, and they are bounded.
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.0.extend(tag.to_le_bytes());
        self.0.extend(length.to_le_bytes());
        for part in content {
            self.0.extend(*part);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_state() -> impl Strategy<Value = State> {
        let kept = prop::collection::vec(("[a-z:.ä]{1,40}", 3_i32..9999), 0..40);
        let exits = prop::collection::vec((any::<i32>(), any::<i32>()), 0..40);
        let wanted = prop::option::of("/[a-z]{1,9}");
        (
            kept,
            any::<u64>(),
            exits,
            prop::option::of("/[a-z]{1,9}"),
            wanted,
            prop::option::of(3_i32..99),
            any::<u64>(),
            any::<u32>(),
        )
            .prop_map(
                |(kept, first_exit, exits, core, wanted, good_core, signals, refused)| State {
                    kept,
                    first_exit,
                    exits: exits
                        .into_iter()
                        .map(|(pid, raw)| (pid, Outcome { raw }))
                        .collect(),
                    core_path: core.map(|path| CString::new(path).unwrap()),
                    wanted_path: wanted.map(|path| CString::new(path).unwrap()),
                    good_core,
                    signals,
                    refused,
                },
            )
    }

    /// Written by version 1, with a record and a field that no version has yet.
    #[test]
    fn state_of_version_one_is_read_for_ever() {
        let bytes: Vec<u8> = [
            b"MUSTINIT\x01\0\0\0".as_slice(),
            b"\x02\0\x08\0\0\0\x09\0\0\0\0\0\0\0",
            b"\x03\0\x08\0\0\0\x2a\0\0\0\0\x01\0\0",
            b"\x04\0\x02\0\0\0/c",
            b"\x05\0\x02\0\0\0/d",
            b"\x06\0\x04\0\0\0\x07\0\0\0",
            b"\x07\0\x08\0\0\0\0\x40\0\0\0\0\0\0",
            b"\x08\0\x05\0\0\0\x03\0\0\0\xff",
            b"\xfe\xff\x03\0\0\0new",
            b"\x01\0\x09\0\0\0\x0c\0\0\0state",
            b"\0\0\0\0\0\0",
        ]
        .concat();
        let expected = State {
            kept: vec![("state".to_owned(), 12)],
            first_exit: 9,
            exits: vec![(42, Outcome { raw: 256 })],
            core_path: Some(c"/c".to_owned()),
            wanted_path: Some(c"/d".to_owned()),
            good_core: Some(7),
            signals: 1 << 14,
            refused: 3,
        };
        assert_eq!(State::decode(&bytes), (expected, None));
    }

    proptest! {
        #[test]
        fn state_is_read_as_written(state in any_state()) {
            prop_assert_eq!(State::decode(&state.encode()), (state, None));
        }

        #[test]
        fn what_stands_before_a_cut_is_read(state in any_state(), cut in 0_usize..2000) {
            let bytes = state.encode();
            let cut = cut.min(bytes.len() - 1);
            let (read, fault) = State::decode(&bytes[..cut]);
            prop_assert!(fault.is_some());
            prop_assert_eq!(&read.kept[..], &state.kept[..read.kept.len()]);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut state = MAGIC.to_vec();
            state.extend(bytes);
            let _ = State::decode(&state);
        }
    }
}
