//! Extended headers: records of `LENGTH KEY=VALUE\n`. Pure.

use crate::error::Rule;
use crate::options::Limits;
use crate::sparse::{SparsePieces, parse_decimal};

/// A moment, in seconds since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Xattr {
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// What extended headers say about one entry, or, as a global header, about all that follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Moment>,
    pub(crate) xattrs: Vec<Xattr>,
    pub(crate) sparse: PaxSparse,
}

/// What they say about a sparse file, in any of the three forms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PaxSparse {
    /// Version of the form; only 1.0 has one.
    pub(crate) version: (Option<u64>, Option<u64>),
    pub(crate) name: Option<Vec<u8>>,
    /// The file's size with its holes: `GNU.sparse.size` or `GNU.sparse.realsize`.
    pub(crate) size: Option<u64>,
    /// How many pieces the map has; the older forms say so.
    pub(crate) count: Option<u64>,
    /// The map itself, unless it is in the content.
    pub(crate) pieces: SparsePieces,
    /// A piece of form 0.0 of which only the offset has been seen.
    offset: Option<u64>,
}

const XATTR: &[u8] = b"SCHILY.xattr.";

impl Pax {
    pub(crate) fn parse(mut bytes: &[u8], limits: &Limits) -> Result<Self, Rule> {
        let mut pax = Self::default();
        let mut seen = Vec::new();
        let mut xattr_bytes = 0;
        while !bytes.is_empty() {
            let (key, value, rest) = record(bytes).ok_or(Rule::PaxRecord)?;
            bytes = rest;
            if let Some(name) = key.strip_prefix(XATTR) {
                xattr_bytes += name.len() + value.len();
                pax.add_xattr(name, value, xattr_bytes, limits)?;
            } else if let Some(known) = known(key) {
                if !repeats(known) {
                    if seen.contains(&known) {
                        return Err(Rule::PaxTwice(known.to_owned()));
                    }
                    seen.push(known);
                }
                // An empty value stands for none.
                if !value.is_empty() {
                    pax.set(known, value, limits)?;
                }
            }
        }
        if pax.sparse.offset.is_some() {
            return Err(Rule::SparseMap);
        }
        Ok(pax)
    }

    fn add_xattr(
        &mut self,
        name: &[u8],
        value: &[u8],
        bytes: usize,
        limits: &Limits,
    ) -> Result<(), Rule> {
        if self.xattrs.len() == limits.xattrs {
            return Err(Rule::XattrCount {
                limit: limits.xattrs,
            });
        }
        if bytes > limits.xattr_bytes {
            return Err(Rule::XattrBytes {
                limit: limits.xattr_bytes,
            });
        }
        if self.xattrs.iter().any(|xattr| xattr.name == name) {
            return Err(Rule::PaxTwice(
                [XATTR, name].concat().escape_ascii().to_string(),
            ));
        }
        self.xattrs.push(Xattr {
            name: name.to_vec(),
            value: value.to_vec(),
        });
        Ok(())
    }

    fn set(&mut self, key: &'static str, value: &[u8], limits: &Limits) -> Result<(), Rule> {
        let invalid = || Rule::PaxValue(key.to_owned());
        let number = || parse_decimal(value).ok_or_else(invalid);
        let sparse = &mut self.sparse;
        match key {
            "path" => self.path = Some(value.to_vec()),
            "linkpath" => self.link = Some(value.to_vec()),
            "size" => self.size = Some(number()?),
            "uid" => self.uid = Some(number()?),
            "gid" => self.gid = Some(number()?),
            "mtime" => self.mtime = Some(parse_moment(value).ok_or_else(invalid)?),
            "GNU.sparse.major" => sparse.version.0 = Some(number()?),
            "GNU.sparse.minor" => sparse.version.1 = Some(number()?),
            "GNU.sparse.name" => sparse.name = Some(value.to_vec()),
            "GNU.sparse.size" | "GNU.sparse.realsize" => match sparse.size {
                Some(_) => return Err(Rule::PaxTwice(key.to_owned())),
                None => sparse.size = Some(number()?),
            },
            "GNU.sparse.numblocks" => sparse.count = Some(number()?),
            "GNU.sparse.offset" => {
                let unfinished = sparse.offset.replace(number()?);
                if unfinished.is_some() {
                    return Err(Rule::SparseMap);
                }
            }
            "GNU.sparse.numbytes" => {
                let offset = sparse.offset.take().ok_or(Rule::SparseMap)?;
                sparse.pieces.push(offset, number()?, limits)?;
            }
            "GNU.sparse.map" => {
                let mut numbers = value.split(|byte| *byte == b',').map(parse_decimal);
                while let Some(offset) = numbers.next() {
                    let (Some(offset), Some(Some(length))) = (offset, numbers.next()) else {
                        return Err(invalid());
                    };
                    sparse.pieces.push(offset, length, limits)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// As a global header: only what may hold for many entries.
    pub(crate) fn into_global(self) -> Result<Self, Rule> {
        let Self {
            uid, gid, mtime, ..
        } = self;
        let global = Self {
            uid,
            gid,
            mtime,
            ..Self::default()
        };
        let of_one_entry = [
            ("path", self.path.is_some()),
            ("linkpath", self.link.is_some()),
            ("size", self.size.is_some()),
            ("SCHILY.xattr", !self.xattrs.is_empty()),
            ("GNU.sparse", self.sparse != PaxSparse::default()),
        ];
        match of_one_entry.iter().find(|(_, present)| *present) {
            Some((key, _)) => Err(Rule::PaxGlobal((*key).to_owned())),
            None => Ok(global),
        }
    }
}

const KNOWN: [&str; 15] = [
    "path",
    "linkpath",
    "size",
    "uid",
    "gid",
    "mtime",
    "GNU.sparse.major",
    "GNU.sparse.minor",
    "GNU.sparse.name",
    "GNU.sparse.size",
    "GNU.sparse.realsize",
    "GNU.sparse.numblocks",
    "GNU.sparse.map",
    "GNU.sparse.offset",
    "GNU.sparse.numbytes",
];

fn known(key: &[u8]) -> Option<&'static str> {
    KNOWN.into_iter().find(|known| known.as_bytes() == key)
}

/// Form 0.0 of sparse files gives its map in many records.
fn repeats(key: &str) -> bool {
    matches!(key, "GNU.sparse.offset" | "GNU.sparse.numbytes")
}

/// Splits the first record off.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(parse_decimal(&bytes[..blank])?).ok()?;
    let (record, rest) = bytes.split_at_checked(length)?;
    let body = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&body[..equals], &body[equals + 1..]);
    (!key.is_empty() && !key.contains(&0)).then_some((key, value, rest))
}

/// Decimal seconds with a sign and a fraction.
fn parse_moment(text: &[u8]) -> Option<Moment> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(parse_decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(9);
    let nanoseconds = digits.fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    Some(match (negative, nanoseconds) {
        (false, _) => Moment {
            seconds,
            nanoseconds,
        },
        (true, 0) => Moment {
            seconds: -seconds,
            nanoseconds,
        },
        // One and a half seconds before the epoch is two before and a half after that.
        (true, _) => Moment {
            seconds: -seconds - 1,
            nanoseconds: 1_000_000_000 - nanoseconds,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &[u8]) -> Result<Pax, Rule> {
        Pax::parse(text, &Limits::default())
    }

    #[test]
    fn records_are_read_by_their_length() {
        let pax = parse(b"9 path=a\n18 linkpath=b=\n\n\n\n12 uid=4711\n20 comment=whatever\n");
        let pax = pax.unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"a"[..]));
        assert_eq!(pax.link.as_deref(), Some(&b"b=\n\n\n"[..]));
        assert_eq!(pax.uid, Some(4711));
    }

    #[test]
    fn malformed_records_are_refused() {
        let cases: [&[u8]; 10] = [
            b"path=a\n",
            b"99 path=a\n",
            b"8 path=a\n",
            b"9 path=ab",
            b"0 \n",
            b"1 \n",
            b"-9 path=a\n",
            b"8 path a\n",
            b"5 =a\n",
            b"99999999999999999999999999 path=a\n",
        ];
        for case in cases {
            assert_eq!(parse(case), Err(Rule::PaxRecord), "{}", case.escape_ascii());
        }
    }

    #[test]
    fn times_before_the_epoch_round_down() {
        let at = |text: &[u8]| parse_moment(text).map(|at| (at.seconds, at.nanoseconds));
        assert_eq!(at(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(at(b"12.0000000019"), Some((12, 1)));
        assert_eq!(at(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(at(b"-3"), Some((-3, 0)));
        for wrong in [
            &b""[..],
            b"-",
            b"1e5",
            b"1.-5",
            b"--1",
            b"9999999999999999999",
        ] {
            assert_eq!(at(wrong), None, "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn a_global_header_says_nothing_about_one_entry() {
        assert!(parse(b"12 uid=4711\n").unwrap().into_global().is_ok());
        let path = parse(b"9 path=a\n").unwrap().into_global();
        assert_eq!(path, Err(Rule::PaxGlobal("path".to_owned())));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_value_is_read_back(value in proptest::collection::vec(any::<u8>(), 1..300)) {
            let mut record = format!("{} path=", value.len() + 10).into_bytes();
            // The length counts itself.
            while !record.starts_with(format!("{} ", record.len() + value.len() + 1).as_bytes()) {
                record = format!("{} path=", record.len() + value.len() + 1).into_bytes();
            }
            record.extend_from_slice(&value);
            record.push(b'\n');
            prop_assert_eq!(parse(&record).unwrap().path, Some(value));
        }
    }
}
