//! A few low descriptors through which a new process gets its own.
//!
//! A manager has thousands of descriptors, and a new process wants a handful. Copying the table for every start, only to
//! close all of the copy, would make each start as expensive as there are services. So the new process first shares the
//! table (`CLONE_FILES`), and its first act is to leave it with a copy of only the lowest part
//! (`close_range` with `CLOSE_RANGE_UNSHARE`). What it is to get is put there before: into the window.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::{DupFlags, Errno, dup3, fcntl_dupfd_cloexec};

/// Descriptors that a process can be given through the window. One that wants more gets a copy of the whole table.
const WIDTH: usize = 24;

/// Reserved numbers. Between starts all of them are `/dev/null`.
#[derive(Debug)]
pub(crate) struct Window {
    slots: Vec<OwnedFd>,
}

/// Descriptors are in the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    /// The first number that a new process leaves behind: all of the window, and `/dev/null`, lie below it.
    pub(crate) end: u32,
}

impl Window {
    /// Reserves the lowest numbers that are free; so it is to be made before many others are open.
    pub(crate) fn new(null: &OwnedFd) -> Result<Self, Errno> {
        let slots: Result<Vec<OwnedFd>, Errno> =
            (0..WIDTH).map(|_| fcntl_dupfd_cloexec(null, 3)).collect();
        Ok(Self { slots: slots? })
    }

    /// Puts descriptors into the window; `numbers` are those that they have there. `None` if they do not fit.
    pub(crate) fn load(
        &mut self,
        null: &OwnedFd,
        sources: &[BorrowedFd<'_>],
        numbers: &mut Vec<RawFd>,
    ) -> Result<Option<Loaded>, Errno> {
        if sources.len() > self.slots.len() {
            return Ok(None);
        }
        numbers.clear();
        for (source, slot) in sources.iter().zip(&mut self.slots) {
            dup3(source, slot, DupFlags::CLOEXEC)?;
            numbers.push(slot.as_raw_fd());
        }
        let reserved = self.slots.iter().chain([null]).map(AsRawFd::as_raw_fd);
        let end = reserved.max().unwrap_or(0) + 1;
        let end = u32::try_from(end).map_err(|_| Errno::BADF)?;
        Ok(Some(Loaded { end }))
    }

    /// Lets go of what was put in: a stream whose last end hides in the window would never end.
    pub(crate) fn unload(&mut self, null: &OwnedFd, count: usize) {
        for slot in self.slots.iter_mut().take(count) {
            // Replacing an open descriptor by another takes no memory and does not fail.
            let _ = dup3(null, slot, DupFlags::CLOEXEC);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_was_put_in_is_let_go() {
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null");
        let null: OwnedFd = null.unwrap().into();
        let mut window = Window::new(&null).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut numbers = Vec::new();
        let loaded = window.load(&null, &[writer.as_fd()], &mut numbers).unwrap();
        let end = i32::try_from(loaded.unwrap().end).unwrap();
        assert!(numbers[0] < end && null.as_raw_fd() < end);
        drop(writer);
        window.unload(&null, 1);
        assert_eq!(
            reader.read(&mut [0]).unwrap(),
            0,
            "nobody holds the other end"
        );
        let many = vec![null.as_fd(); WIDTH + 1];
        assert!(window.load(&null, &many, &mut numbers).unwrap().is_none());
    }
}
