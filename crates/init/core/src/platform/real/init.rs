//! The link to `muster-init`, and the record that it keeps.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use muster_handover::FromInit;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::io::write;

use super::RealPlatform;

/// States that could not be read are kept for whoever looks into it, so many and no more.
const MOST_SET_ASIDE: u32 = 5;

/// What a record holds. Its descriptor is left at its end, where the next entry goes.
pub(super) fn read_record(fd: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = File::from(fd.try_clone()?);
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A new record that begins with `bytes`.
pub(super) fn new_record(bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = memfd_create(c"muster-state", MemfdFlags::CLOEXEC)?;
    fcntl_setfl(&fd, OFlags::APPEND)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    Ok(file.into())
}

/// Adds an entry. It is whole or it is cut off, and what is cut off is passed over by whoever reads it.
pub(super) fn append(record: Option<&OwnedFd>, bytes: &[u8]) -> io::Result<()> {
    let fd = record.ok_or(io::ErrorKind::NotFound)?;
    let mut left = bytes;
    while !left.is_empty() {
        let written = write(fd, left)?;
        left = &left[written..];
    }
    Ok(())
}

/// Leaves only the first bytes. The descriptor appends, so what is written next stands right behind them.
pub(super) fn cut(record: Option<&OwnedFd>, length: usize) -> io::Result<()> {
    let fd = record.ok_or(io::ErrorKind::NotFound)?;
    let length = u64::try_from(length).map_err(io::Error::other)?;
    rustix::fs::ftruncate(fd, length)?;
    Ok(())
}

/// Writes what cannot be understood into the runtime folder.
pub(super) fn set_aside(runtime: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in 1..=MOST_SET_ASIDE {
        let path = runtime.join(format!("state-set-aside-{number}"));
        let file = File::options().write(true).create_new(true).open(&path);
        match file {
            Ok(mut file) => {
                file.write_all(bytes)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::QuotaExceeded,
        "there are several already",
    ))
}

impl RealPlatform {
    pub(super) fn hear(&mut self, took: &mut Vec<FromInit>) -> io::Result<()> {
        self.link
            .receive(&mut |message| took.push(message))
            .map_err(io::Error::other)
    }

    /// Hands over descriptors to be kept, what need not be kept any more, and the last acknowledgement.
    pub(super) fn hand_over(&mut self) -> io::Result<()> {
        let sent =
            |result: Result<(), muster_handover::SendError>| result.map_err(io::Error::other);
        // A name that is let go and then used again in the same round is used.
        for name in self.release.drain(..) {
            sent(if name.ends_with(':') {
                self.link.drop_prefix(&name)
            } else {
                self.link.drop_name(&name)
            })?;
        }
        if !self.keep.is_empty() {
            let named: Vec<(&str, BorrowedFd<'_>)> = self
                .keep
                .iter()
                .map(|(name, fd)| (name.as_str(), fd.as_fd()))
                .collect();
            sent(self.link.store(&named))?;
            self.keep.clear();
        }
        if let Some(sequence) = self.acknowledge.take() {
            sent(self.link.ack(sequence))?;
        }
        Ok(())
    }
}
