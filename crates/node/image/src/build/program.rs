//! Whether a program can be an image of its own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::BuildError;
use crate::folders::OnDisk;

/// The entry of a program's table that names its dynamic linker.
const PT_INTERP: u32 = 3;

/// Refuses what an image with nothing else in it could not run. Links are followed.
pub(super) fn check(program: &Path) -> Result<(), BuildError> {
    let refuse = |reason| {
        Err(BuildError::Unpackable {
            path: program.to_owned(),
            reason,
        })
    };
    let found = fs::metadata(program)
        .on_disk("look at", program)
        .map_err(BuildError::Disk)?;
    if !found.is_file() {
        return refuse("a program is a regular file");
    }
    let asks = File::open(program).and_then(|file| {
        let read = |at, buffer: &mut [u8]| file.read_at(buffer, at);
        asks_for_linker(read)
    });
    match asks.on_disk("read", program).map_err(BuildError::Disk)? {
        true => refuse(
            "it is linked dynamically, and an image of one program has no linker and no libraries; \
             link it statically, or pack a folder that has them",
        ),
        false => Ok(()),
    }
}

/// Where the table of segments is.
struct Table {
    start: u64,
    entry: u64,
    count: u64,
    is_big_endian: bool,
}

/// Whether what is read is an ELF file with a dynamic linker. One that is cut off is left to the kernel to judge.
fn asks_for_linker(mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>) -> io::Result<bool> {
    let mut head = [0; 64];
    let mut filled = 0;
    while filled < head.len() {
        match read(filled as u64, &mut head[filled..])? {
            0 => break,
            length => filled += length,
        }
    }
    let Some(table) = Table::of(&head[..filled]) else {
        return Ok(false);
    };
    for number in 0..table.count {
        let mut kind = [0; 4];
        let Some(at) = table.start.checked_add(number * table.entry) else {
            return Ok(false);
        };
        if read(at, &mut kind)? < kind.len() {
            return Ok(false);
        }
        let kind = match table.is_big_endian {
            true => u32::from_be_bytes(kind),
            false => u32::from_le_bytes(kind),
        };
        if kind == PT_INTERP {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Table {
    fn of(head: &[u8]) -> Option<Self> {
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let is_big_endian = *head.get(5)? == 2;
        let number = |at: usize, length: usize| {
            let bytes = head.get(at..at + length)?.iter();
            let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
            Some(match is_big_endian {
                true => bytes.fold(0, join),
                false => bytes.rev().fold(0, join),
            })
        };
        let (start, entry, count) = match head.get(4)? {
            1 => (number(28, 4)?, number(42, 2)?, number(44, 2)?),
            _ => (number(32, 8)?, number(54, 2)?, number(56, 2)?),
        };
        Some(Self {
            start,
            entry,
            count,
            is_big_endian,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asks(bytes: &[u8]) -> bool {
        let read = |at: u64, buffer: &mut [u8]| {
            let rest = bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..);
            let rest = rest.unwrap_or_default();
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        };
        asks_for_linker(read).unwrap()
    }

    /// A header and a table with these kinds.
    fn elf(is_64: bool, is_big_endian: bool, kinds: &[u32]) -> Vec<u8> {
        let put = |to: &mut [u8], number: u64| {
            let length = to.len();
            match is_big_endian {
                true => to.copy_from_slice(&number.to_be_bytes()[8 - length..]),
                false => to.copy_from_slice(&number.to_le_bytes()[..length]),
            }
        };
        let (header, entry) = if is_64 { (64, 56) } else { (52, 32) };
        let mut bytes = vec![0; header + entry * kinds.len()];
        bytes[..4].copy_from_slice(b"\x7fELF");
        bytes[4] = if is_64 { 2 } else { 1 };
        bytes[5] = if is_big_endian { 2 } else { 1 };
        let (start, size, count) = match is_64 {
            true => (32..40, 54..56, 56..58),
            false => (28..32, 42..44, 44..46),
        };
        put(&mut bytes[start], header as u64);
        put(&mut bytes[size], entry as u64);
        put(&mut bytes[count], kinds.len() as u64);
        for (number, kind) in kinds.iter().enumerate() {
            let at = header + number * entry;
            put(&mut bytes[at..at + 4], u64::from(*kind));
        }
        bytes
    }

    #[test]
    fn programs_with_a_dynamic_linker_are_told_from_others() {
        for is_64 in [false, true] {
            for is_big_endian in [false, true] {
                assert!(asks(&elf(is_64, is_big_endian, &[6, PT_INTERP, 1])));
                // One that is only laid out for any address has a dynamic section and no linker.
                assert!(!asks(&elf(is_64, is_big_endian, &[6, 1, 2])));
                assert!(!asks(&elf(is_64, is_big_endian, &[])));
            }
        }
        assert!(!asks(b"#!/bin/sh\n"));
        assert!(!asks(b""));
    }

    proptest! {
        #[test]
        fn whatever_a_file_has_is_read_to_an_end(
            behind in proptest::collection::vec(any::<u8>(), 0..200))
        {
            asks(&[b"\x7fELF", &behind[..]].concat());
        }
    }
}
