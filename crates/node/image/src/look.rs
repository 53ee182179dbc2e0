//! Looking at one blob or layer: whole, damaged, or not to be seen at the moment.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use muster_api::domain::Digest;
use rustix::io::Errno;

use crate::hash::Hasher;
use crate::inventory::LayerRecord;
use crate::seal::{self, Pace};
use crate::store::Inner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Blob,
    Layer,
}

/// Something that was taken out of the inventory.
#[derive(Debug, Clone)]
pub(crate) enum Suspect {
    Blob(u64),
    Layer(LayerRecord),
}

impl Suspect {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Blob(bytes) => *bytes,
            Self::Layer(layer) => layer.bytes,
        }
    }
}

/// What a look shows.
#[derive(Debug)]
pub(crate) enum Sight {
    Whole,
    Damaged,
    /// Nothing, for a reason that says nothing about what is there.
    Unseen(io::Error),
}

impl Sight {
    fn of(found: io::Result<bool>) -> Self {
        match found {
            Ok(true) => Self::Whole,
            Ok(false) => Self::Damaged,
            Err(error) if is_damage(&error) => Self::Damaged,
            Err(error) => Self::Unseen(error),
        }
    }
}

/// Whether an error is about what is on the disk. All others (no descriptor or memory left, an interruption, a refusal) are about
/// whoever looks, and what is held to be damaged for them would be got anew for nothing.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    /// The medium failed, the file system is inconsistent or its checksum wrong, or something of another kind has the name.
    const DAMAGE: [Errno; 7] = [
        Errno::IO,
        Errno::UCLEAN,
        Errno::BADMSG,
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
    ];
    match Errno::from_io_error(error) {
        Some(errno) => DAMAGE.contains(&errno),
        None => matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
        ),
    }
}

impl Inner {
    pub(crate) fn look(&self, digest: &Digest, known: &Suspect, pace: &mut dyn Pace) -> Sight {
        Sight::of(match known {
            Suspect::Blob(_) => {
                hash_file(&self.folders.blob(digest), digest, pace).map(|found| found == *digest)
            }
            Suspect::Layer(layer) => {
                seal::seal(&self.folders.layer(digest), pace).map(|found| found.seal == layer.seal)
            }
        })
    }
}

fn hash_file(path: &Path, digest: &Digest, pace: &mut dyn Pace) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::like(digest);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            length => {
                hasher.update(&buffer[..length]);
                pace.read(length)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_the_disk_is_damage() {
        let damaged = |error: io::Error| matches!(Sight::of(Err(error)), Sight::Damaged);
        for errno in [
            Errno::IO,
            Errno::NOENT,
            Errno::UCLEAN,
            Errno::BADMSG,
            Errno::NOTDIR,
        ] {
            assert!(damaged(errno.into()), "{errno}");
        }
        assert!(damaged(io::ErrorKind::UnexpectedEof.into()));
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::INTR,
            Errno::AGAIN,
            Errno::ACCESS,
            Errno::PERM,
            Errno::STALE,
        ] {
            assert!(!damaged(errno.into()), "{errno}");
        }
        assert!(matches!(Sight::of(Ok(false)), Sight::Damaged));
        assert!(matches!(Sight::of(Ok(true)), Sight::Whole));
    }
}
