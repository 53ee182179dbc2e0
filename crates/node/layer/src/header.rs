//! One block of 512 bytes as a tar header. Pure.

use crate::error::Rule;
use crate::pipe::BLOCK;

/// A header's fields, before extended headers have their say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) type_flag: u8,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    /// Major and minor number; of devices only, where others leave anything in the field.
    pub(crate) device: (u32, u32),
}

const NAME: std::ops::Range<usize> = 0..100;
const MODE: std::ops::Range<usize> = 100..108;
const UID: std::ops::Range<usize> = 108..116;
const GID: std::ops::Range<usize> = 116..124;
const SIZE: std::ops::Range<usize> = 124..136;
const MTIME: std::ops::Range<usize> = 136..148;
const CHECKSUM: std::ops::Range<usize> = 148..156;
const TYPE_FLAG: usize = 156;
const LINK: std::ops::Range<usize> = 157..257;
const MAGIC: std::ops::Range<usize> = 257..263;
const DEVICE_MAJOR: std::ops::Range<usize> = 329..337;
const DEVICE_MINOR: std::ops::Range<usize> = 337..345;
/// Only after the magic of POSIX; GNU has other things there.
const PREFIX: std::ops::Range<usize> = 345..500;

/// Parses a block that is not all zeros.
pub(crate) fn parse(block: &[u8; BLOCK]) -> Result<Header, Rule> {
    check_sum(block)?;
    let type_flag = block[TYPE_FLAG];
    let mut name = text(&block[NAME]).to_vec();
    if &block[MAGIC] == b"ustar\0" {
        let prefix = text(&block[PREFIX]);
        if !prefix.is_empty() {
            name = [prefix, b"/", &name].concat();
        }
    }
    let device = if matches!(type_flag, b'3' | b'4') {
        (
            unsigned(&block[DEVICE_MAJOR], "device number")?,
            unsigned(&block[DEVICE_MINOR], "device number")?,
        )
    } else {
        (0, 0)
    };
    Ok(Header {
        name,
        link: text(&block[LINK]).to_vec(),
        type_flag,
        // Some programs leave the file type in the upper bits.
        mode: unsigned::<u32>(&block[MODE], "mode")? & 0o7777,
        uid: unsigned(&block[UID], "user id")?,
        gid: unsigned(&block[GID], "group id")?,
        size: unsigned(&block[SIZE], "size")?,
        mtime: number(&block[MTIME])
            .and_then(|seconds| i64::try_from(seconds).ok())
            .ok_or(Rule::Number("modification time"))?,
        device,
    })
}

/// The sum of all bytes, the checksum's own taken as blanks. Some old programs added signed bytes.
fn check_sum(block: &[u8; BLOCK]) -> Result<(), Rule> {
    let (mut unsigned_sum, mut signed_sum) = (0_i128, 0_i128);
    for (at, byte) in block.iter().enumerate() {
        let byte = if CHECKSUM.contains(&at) { b' ' } else { *byte };
        unsigned_sum += i128::from(byte);
        signed_sum += i128::from(byte.cast_signed());
    }
    match number(&block[CHECKSUM]) {
        Some(sum) if sum == unsigned_sum || sum == signed_sum => Ok(()),
        _ => Err(Rule::Checksum),
    }
}

/// A field up to its first NUL.
pub(crate) fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number that cannot be negative.
pub(crate) fn unsigned<T: TryFrom<i128>>(field: &[u8], what: &'static str) -> Result<T, Rule> {
    number(field)
        .and_then(|value| T::try_from(value).ok())
        .ok_or(Rule::Number(what))
}

/// Octal digits between blanks and NULs, or, with the first bit set, a big-endian two's complement number.
fn number(field: &[u8]) -> Option<i128> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Bit 6 is the sign. The longest field has 95 bits, so nothing overflows.
        let sign = i128::from(first & 0x40 != 0);
        let start = i128::from(first & 0x3f) - (sign << 6);
        return Some(
            rest.iter()
                .fold(start, |value, byte| (value << 8) | i128::from(*byte)),
        );
    }
    let field = field.trim_ascii_start();
    let digits = field
        .iter()
        .take_while(|byte| matches!(byte, b'0'..=b'7'))
        .count();
    let (digits, rest) = field.split_at(digits);
    if !rest.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |value, digit| (value << 3) | i128::from(digit - b'0')),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        let cases: [(&[u8], Option<i128>); 14] = [
            (b"0000644\0", Some(0o644)),
            (b"    644 ", Some(0o644)),
            (b"644 \0\0\0\0", Some(0o644)),
            (b"77777777", Some(0o7777_7777)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"-000001\0", None),
            (b"0000648\0", None),
            (b"644\x00645\0", None),
            (b"0x10\0\0\0\0", None),
            (b"\x80\0\0\0\0\0\x01\x02", Some(0x102)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff", Some(-1)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", Some(-2)),
            (
                b"\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                Some((1 << 94) - 1),
            ),
        ];
        for (field, value) in cases {
            assert_eq!(number(field), value, "{}", field.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn any_block_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), BLOCK)) {
            let mut block: [u8; BLOCK] = bytes.try_into().unwrap();
            let _ = parse(&block);
            let sum: u32 = block.iter().enumerate()
                .map(|(at, byte)| u32::from(if CHECKSUM.contains(&at) { b' ' } else { *byte })).sum();
            block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            prop_assert_ne!(parse(&block), Err(Rule::Checksum));
        }
    }
}
