//! Checksums, and the files that distributions publish them in.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256, Sha512};

/// The largest file of checksums that is read.
pub(crate) const LARGEST_LIST: usize = 4 << 20;

/// How a checksum is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Sha256,
    Sha512,
}

impl Kind {
    pub(crate) fn hasher(self) -> Hasher {
        match self {
            Self::Sha256 => Hasher::Sha256(Box::default()),
            Self::Sha512 => Hasher::Sha512(Box::default()),
        }
    }
}

/// A checksum of an image, `sha256:` or `sha512:` and hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checksum {
    kind: Kind,
    digits: String,
}

/// A text that is no checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a checksum: `sha256:` or `sha512:`, and its hexadecimal digits")]
pub(crate) struct NoChecksum(String);

impl Checksum {
    /// By the number of digits, which differs.
    fn from_digits(digits: &str) -> Option<Self> {
        let kind = match digits.len() {
            64 => Kind::Sha256,
            128 => Kind::Sha512,
            _ => return None,
        };
        let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        hexadecimal.then(|| Self {
            kind,
            digits: digits.to_ascii_lowercase(),
        })
    }

    /// A name for a file with this content.
    pub(crate) fn file_name(&self) -> String {
        self.to_string().replace(':', "-")
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn hasher(&self) -> Hasher {
        self.kind.hasher()
    }

    /// The checksum of a file in a list of them: `DIGITS  NAME`, `DIGITS *NAME` or `SHA256 (NAME) = DIGITS`, by line.
    pub(crate) fn find(list: &str, name: &str) -> Option<Self> {
        list.lines().find_map(|line| {
            let line = line.trim();
            if let Some((head, digits)) = line.rsplit_once(") = ") {
                let (_, found) = head.split_once(" (")?;
                return (found == name).then(|| Self::from_digits(digits))?;
            }
            let (digits, found) = line.split_once(char::is_whitespace)?;
            let found = found.trim_start();
            let found = found.strip_prefix('*').unwrap_or(found);
            let found = found.strip_prefix("./").unwrap_or(found);
            (found == name).then(|| Self::from_digits(digits))?
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Sha256 => "sha256",
            Kind::Sha512 => "sha512",
        };
        write!(f, "{kind}:{}", self.digits)
    }
}

impl FromStr for Checksum {
    type Err = NoChecksum;

    fn from_str(text: &str) -> Result<Self, NoChecksum> {
        let refused = || NoChecksum(text.chars().take(160).collect());
        let (_, digits) = text.split_once(':').ok_or_else(refused)?;
        let checksum = Self::from_digits(digits).ok_or_else(refused)?;
        match checksum.to_string().eq_ignore_ascii_case(text) {
            true => Ok(checksum),
            false => Err(refused()),
        }
    }
}

/// Makes a checksum, piece by piece.
#[derive(Debug, Clone)]
pub(crate) enum Hasher {
    Sha256(Box<Sha256>),
    Sha512(Box<Sha512>),
}

impl Hasher {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(piece),
            Self::Sha512(hash) => hash.update(piece),
        }
    }

    pub(crate) fn finish(self) -> Checksum {
        match self {
            Self::Sha256(hash) => Checksum {
                kind: Kind::Sha256,
                digits: hex::encode(hash.finalize()),
            },
            Self::Sha512(hash) => Checksum {
                kind: Kind::Sha512,
                digits: hex::encode(hash.finalize()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_a_list_is_read() {
        let (short, long) = ("ab".repeat(32), "cd".repeat(64));
        let list = format!(
            "# Fedora: 1 bytes\n\n{short} *noble.img\n{long}  bookworm.qcow2\nSHA256 (rocky.qcow2) = {short}\n{long} ./trixie.qcow2\nnot a line\n"
        );
        let find = |name| Checksum::find(&list, name).map(|it| it.to_string());
        assert_eq!(find("noble.img"), Some(format!("sha256:{short}")));
        assert_eq!(find("bookworm.qcow2"), Some(format!("sha512:{long}")));
        assert_eq!(find("rocky.qcow2"), Some(format!("sha256:{short}")));
        assert_eq!(find("trixie.qcow2"), Some(format!("sha512:{long}")));
        assert_eq!(find("a line"), None);
        assert_eq!(find("none"), None);
    }

    #[test]
    fn a_checksum_reads_back_and_is_what_others_make() {
        let mut hasher = "sha256:".to_owned() + &"0".repeat(64);
        let none: Checksum = hasher.parse().unwrap();
        let mut hash = none.hasher();
        hash.update(b"ab");
        hash.update(b"c");
        let abc = hash.finish();
        assert_eq!(
            abc.to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(abc.to_string().parse(), Ok(abc.clone()));
        assert_ne!(abc, none);
        hasher.replace_range(..6, "sha512");
        for wrong in ["", "sha256:", "sha256:zz", hasher.as_str()] {
            assert!(wrong.parse::<Checksum>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_list_makes_it_panic(list in "([0-9a-f]{64}|SHA256|[ ()=*\n./a-z])*", name in "[a-z ()]{0,5}") {
            let _ = Checksum::find(&list, &name);
        }
    }
}
