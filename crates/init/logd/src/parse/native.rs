//! Datagrams of `sd_journal_send(3)` and its relatives.
//!
//! A datagram holds entries, separated by empty lines; an entry holds fields. A field is either
//! `NAME=value` on one line, or `NAME` on a line of its own, then the length as eight bytes, least
//! significant first, the value, and a newline. Lines that begin with `#` or `.` are ignored.

/// The most fields that one entry may have; the others are counted as lost.
pub const FIELDS_MAX: usize = 1024;
/// The longest name of a field that a journal file takes.
pub const NAME_MAX: usize = 64;

/// A field that a client sent: a name it may use, and any bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeField<'a> {
    /// The name: capital letters, digits and underscores, not beginning with a digit or underscore.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
}

/// What a datagram holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeDatagram<'a> {
    /// The entries that have at least one field, in their order.
    pub entries: Vec<Vec<NativeField<'a>>>,
    /// How many fields were left out: names that a client may not use, or more than [`FIELDS_MAX`].
    pub refused: u32,
    /// The end of the datagram could not be understood.
    pub broken: bool,
}

/// Whether a client may use this name.
#[must_use]
pub fn is_client_name(name: &[u8]) -> bool {
    is_field_name(name) && name[0] != b'_'
}

/// Whether a journal file takes this name, logd's own fields included.
#[must_use]
pub fn is_field_name(name: &[u8]) -> bool {
    let usable = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    name.len() <= NAME_MAX
        && name.first().is_some_and(|first| !first.is_ascii_digit())
        && name.iter().all(usable)
}

/// Takes a datagram apart.
#[must_use]
pub fn parse_native(datagram: &[u8]) -> NativeDatagram<'_> {
    let mut parsed = NativeDatagram::default();
    let mut entry = Vec::new();
    let mut rest = datagram;
    while !rest.is_empty() {
        let (line, after) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => {
                parsed.broken = true;
                break;
            }
        };
        rest = after;
        if line.is_empty() {
            parsed.finish(&mut entry);
            continue;
        }
        if matches!(line[0], b'#' | b'.') {
            continue;
        }
        let field = match line.iter().position(|byte| *byte == b'=') {
            Some(at) => NativeField {
                name: &line[..at],
                value: &line[at + 1..],
            },
            None => match split_binary(rest) {
                Some((value, after)) => {
                    rest = after;
                    NativeField { name: line, value }
                }
                None => {
                    parsed.broken = true;
                    break;
                }
            },
        };
        if is_client_name(field.name) && entry.len() < FIELDS_MAX {
            entry.push(field);
        } else {
            parsed.refused = parsed.refused.saturating_add(1);
        }
    }
    parsed.finish(&mut entry);
    parsed
}

impl<'a> NativeDatagram<'a> {
    fn finish(&mut self, entry: &mut Vec<NativeField<'a>>) {
        if !entry.is_empty() {
            self.entries.push(std::mem::take(entry));
        }
    }
}

/// A value with its length in front and a newline behind it, and what follows.
fn split_binary(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let value = rest.get(..length)?;
    (rest.get(length) == Some(&b'\n')).then(|| (value, &rest[length + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(entry: &[NativeField<'_>]) -> Vec<String> {
        entry
            .iter()
            .map(|field| String::from_utf8_lossy(field.name).into_owned())
            .collect()
    }

    #[test]
    fn text_and_binary_fields_make_an_entry() {
        let mut datagram = b"MESSAGE=hello\nDATA\n".to_vec();
        datagram.extend_from_slice(&4u64.to_le_bytes());
        datagram.extend_from_slice(b"a\nb\0\nPRIORITY=3\n\nMESSAGE=second\n");
        let parsed = parse_native(&datagram);
        assert!(!parsed.broken);
        assert_eq!(parsed.entries.len(), 2);
        assert_eq!(names(&parsed.entries[0]), ["MESSAGE", "DATA", "PRIORITY"]);
        assert_eq!(parsed.entries[0][1].value, b"a\nb\0");
        assert_eq!(parsed.entries[1][0].value, b"second");
    }

    #[test]
    fn a_client_cannot_use_the_names_of_the_trusted_fields() {
        let parsed = parse_native(b"_PID=1\n__CURSOR=x\nlower=1\n9A=1\n=1\nOK=1\nA B=1\n");
        assert_eq!(names(&parsed.entries[0]), ["OK"]);
        assert_eq!(parsed.refused, 6);
    }

    #[test]
    fn a_length_beyond_the_datagram_ends_it() {
        let mut datagram = b"OK=1\nDATA\n".to_vec();
        datagram.extend_from_slice(&u64::MAX.to_le_bytes());
        datagram.extend_from_slice(b"abc\n");
        let parsed = parse_native(&datagram);
        assert!(parsed.broken);
        assert_eq!(names(&parsed.entries[0]), ["OK"]);
        assert!(parse_native(b"OK=1\nCUT=of").broken);
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        let datagram: Vec<u8> = (0..FIELDS_MAX + 5)
            .flat_map(|_| b"A=1\n".to_vec())
            .collect();
        let parsed = parse_native(&datagram);
        assert_eq!(parsed.entries[0].len(), FIELDS_MAX);
        assert_eq!(parsed.refused, 5);
    }

    proptest! {
        #[test]
        fn any_bytes_give_only_allowed_names(datagram in proptest::collection::vec(any::<u8>(), 0..400)) {
            let parsed = parse_native(&datagram);
            for field in parsed.entries.iter().flatten() {
                prop_assert!(is_client_name(field.name));
            }
        }

        #[test]
        fn what_is_written_is_read(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 1..20)) {
            let mut datagram = Vec::new();
            for value in &values {
                datagram.extend_from_slice(b"FIELD\n");
                datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
                datagram.extend_from_slice(value);
                datagram.push(b'\n');
            }
            let parsed = parse_native(&datagram);
            let read: Vec<&[u8]> = parsed.entries[0].iter().map(|field| field.value).collect();
            prop_assert_eq!(read, values.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }
}
