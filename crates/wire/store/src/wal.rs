//! Telling a write-ahead log's torn end from damage in its middle. Pure: bytes in, verdict out.
//!
//! SQLite reads its log up to the first frame whose checksum does not fit and silently ignores the
//! rest. At the end of the log that is right: a power cut tears the transaction that was being
//! written, and nobody was told that it is safe. In the middle it would drop transactions that were
//! acknowledged. The two can be told apart, because with `synchronous=FULL` a transaction is written
//! only after the one before it is on disk: when two commits of the same generation follow a bad
//! frame, the first of them had been flushed, and the bad frame with it.

use std::io::{self, Read};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const MAGIC_LITTLE: u32 = 0x377f_0682;
const MAGIC_BIG: u32 = 0x377f_0683;
const COMMITS_THAT_PROVE_DAMAGE: u32 = 2;

/// What a write-ahead log holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WalState {
    /// Nothing that SQLite would read, and nothing that was ever acknowledged.
    Empty,
    /// Whole frames, possibly followed by a transaction that was never finished.
    Sound,
    /// Acknowledged frames follow one (counted from 0) that SQLite would stop at. `None`: it would
    /// already stop at the header.
    Damaged {
        /// The first bad frame.
        frame: Option<u64>,
    },
}

struct Header {
    big_endian: bool,
    page_size: usize,
    salt: [u8; 8],
    checksum: (u32, u32),
    intact: bool,
}

/// Reads a log from its start to its end.
pub(crate) fn examine(mut log: impl Read) -> io::Result<WalState> {
    let mut bytes = [0; HEADER];
    if !fill(&mut log, &mut bytes)? {
        return Ok(WalState::Empty);
    }
    let Some(header) = Header::parse(&bytes) else {
        return Ok(WalState::Empty);
    };

    let mut checksum = header.checksum;
    let mut salt = header.intact.then_some(header.salt);
    let mut bad_frame = (!header.intact).then_some(None);
    let mut commits_after_bad = 0;
    let mut frame = vec![0; FRAME_HEADER + header.page_size];
    let mut index = 0;
    while fill(&mut log, &mut frame)? {
        // Without a readable header, the first frame says which generation the log is of. Frames of
        // an older one lie behind the end of every log that has been started over.
        let current = &frame[8..16] == salt.get_or_insert_with(|| salt_of(&frame));
        if bad_frame.is_none() {
            checksum = sum(header.big_endian, checksum, &frame[..8]);
            checksum = sum(header.big_endian, checksum, &frame[FRAME_HEADER..]);
            if !current || checksum != (u32_at(&frame, 16), u32_at(&frame, 20)) {
                bad_frame = Some(Some(index));
            }
        }
        let is_commit = u32_at(&frame, 4) != 0;
        if let Some(bad) = bad_frame
            && current
            && is_commit
        {
            commits_after_bad += 1;
            if commits_after_bad >= COMMITS_THAT_PROVE_DAMAGE {
                return Ok(WalState::Damaged { frame: bad });
            }
        }
        index += 1;
    }
    Ok(if index == 0 || bad_frame == Some(Some(0)) {
        WalState::Empty
    } else {
        WalState::Sound
    })
}

impl Header {
    /// `None` when the bytes are too far from a header to say where frames would be.
    fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let page_size = usize::try_from(u32_at(bytes, 8)).ok()?;
        if !(512..=65_536).contains(&page_size) || !page_size.is_power_of_two() {
            return None;
        }
        let magic = u32_at(bytes, 0);
        let big_endian = magic == MAGIC_BIG;
        let checksum = sum(big_endian, (0, 0), &bytes[..24]);
        let intact = (big_endian || magic == MAGIC_LITTLE)
            && checksum == (u32_at(bytes, 24), u32_at(bytes, 28));
        let mut salt = [0; 8];
        salt.copy_from_slice(&bytes[16..24]);
        Some(Self {
            big_endian,
            page_size,
            salt,
            checksum,
            intact,
        })
    }
}

fn salt_of(frame: &[u8]) -> [u8; 8] {
    let mut salt = [0; 8];
    salt.copy_from_slice(&frame[8..16]);
    salt
}

/// The log's running checksum over a multiple of eight bytes.
fn sum(big_endian: bool, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    let word = |at: &[u8]| {
        let word = [at[0], at[1], at[2], at[3]];
        if big_endian {
            u32::from_be_bytes(word)
        } else {
            u32::from_le_bytes(word)
        }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Whether the buffer could be filled; an unfinished frame at the end does not count.
fn fill(log: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match log.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
