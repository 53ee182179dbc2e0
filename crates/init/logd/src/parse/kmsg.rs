//! Records of `/dev/kmsg`.
//!
//! `PRI,SEQ,USEC,FLAGS[,...];message\n KEY=value\n KEY=value\n`, with bytes that are not printable
//! written as `\xNN`.

use std::borrow::Cow;

use super::priority::{Level, Priority, decimal};
use super::syslog::split_identifier;

/// One record of the kernel's ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRecord<'a> {
    /// Severity and facility; 0 is the kernel itself, others were written to `/dev/kmsg` by programs.
    pub priority: Priority,
    /// Its number since boot.
    pub sequence: u64,
    /// When it was made, in microseconds of the monotonic clock.
    pub monotonic_us: u64,
    /// Who wrote it, if not the kernel.
    pub identifier: Option<Cow<'a, [u8]>>,
    /// The process that it claims to be, if not the kernel.
    pub pid: Option<&'a [u8]>,
    /// The text.
    pub message: Cow<'a, [u8]>,
    /// The kernel's subsystem.
    pub subsystem: Option<Cow<'a, [u8]>>,
    /// The kernel's name of the device: `b8:0`, `c1:3`, `n5` or `+pci:0000:00:01.0`.
    pub device: Option<Cow<'a, [u8]>>,
}

/// Takes a record apart; `None` if it is not one.
#[must_use]
pub fn parse_kmsg(record: &[u8]) -> Option<KernelRecord<'_>> {
    let semicolon = record.iter().position(|byte| *byte == b';')?;
    let mut header = record[..semicolon].split(|byte| *byte == b',');
    let number = decimal(header.next()?)?;
    let sequence = decimal(header.next()?)?;
    let monotonic_us = decimal(header.next()?)?;
    let priority = Priority {
        level: Level::new(u8::try_from(number & 7).ok()?)?,
        facility: u8::try_from(number >> 3).ok()?,
    };
    let mut lines = record[semicolon + 1..].split(|byte| *byte == b'\n');
    let text = lines.next().unwrap_or_default();
    let (identifier, pid, message) = if priority.facility == 0 {
        (None, None, text)
    } else {
        split_identifier(text)
    };
    let mut parsed = KernelRecord {
        priority,
        sequence,
        monotonic_us,
        identifier: identifier.map(unescape),
        pid,
        message: unescape(message),
        subsystem: None,
        device: None,
    };
    for line in lines {
        if let Some(value) = line.strip_prefix(b" SUBSYSTEM=") {
            parsed.subsystem = Some(unescape(value));
        } else if let Some(value) = line.strip_prefix(b" DEVICE=") {
            parsed.device = Some(unescape(value));
        }
    }
    Some(parsed)
}

/// Puts the bytes back that the kernel wrote as `\xNN`.
fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'\\')
            .then(|| after.strip_prefix(b"x"))
            .flatten()
            .and_then(|digits| digits.split_first_chunk::<2>())
            .and_then(|(digits, after)| Some((hex(digits[0])? << 4 | hex(digits[1])?, after)));
        match escaped {
            Some((byte, after)) => {
                out.push(byte);
                rest = after;
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    Cow::Owned(out)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_of_the_kernel_names_its_device() {
        let record =
            b"4,707,2341,-;ata1: link \\xe2\\x9c\\x93 \\q\n SUBSYSTEM=scsi\n DEVICE=+scsi:1\n";
        let parsed = parse_kmsg(record).expect("a record");
        assert_eq!((parsed.sequence, parsed.monotonic_us), (707, 2341));
        assert_eq!(
            (parsed.priority.level, parsed.priority.facility),
            (Level::WARNING, 0)
        );
        assert_eq!(&*parsed.message, "ata1: link \u{2713} \\q".as_bytes());
        assert_eq!(parsed.subsystem.as_deref(), Some(&b"scsi"[..]));
        assert_eq!(parsed.device.as_deref(), Some(&b"+scsi:1"[..]));
        assert_eq!(parsed.identifier, None);
    }

    #[test]
    fn a_record_of_a_program_names_it() {
        let parsed = parse_kmsg(b"30,1,2,c,caller=T1;prog[12]: up").expect("a record");
        assert_eq!(parsed.identifier.as_deref(), Some(&b"prog"[..]));
        assert_eq!(parsed.pid, Some(&b"12"[..]));
        assert_eq!(&*parsed.message, b"up");
        assert_eq!(parsed.priority.facility, 3);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for text in ["", "6,1,2,-", "x,1,2;m", "6,1;m", ";m", "99999,1,2,-;m"] {
            assert_eq!(parse_kmsg(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(record in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(parsed) = parse_kmsg(&record) {
                prop_assert!(parsed.message.len() <= record.len());
            }
        }
    }
}
