//! Init's own messages: to the kernel's log, or to the standard error.
//!
//! A message is put together in a buffer on the stack and written at once, so that nothing is allocated and
//! lines of several writers do not mix.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};

/// Longer messages are cut.
const LONGEST: usize = 900;

static KERNEL_LOG: OnceLock<OwnedFd> = OnceLock::new();

/// How bad it is, as syslog numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Something does not work.
    Error = 3,
    /// Something works less well.
    Warning = 4,
    /// Something that an administrator wants to know.
    Notice = 5,
}

/// From now on messages go to the kernel's log, if it can be opened.
pub fn use_kernel_log() {
    let opened = rustix::fs::open(
        c"/dev/kmsg",
        OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY,
        Mode::empty(),
    );
    if let Ok(descriptor) = opened {
        // If it was opened before, one of them is enough.
        let _ = KERNEL_LOG.set(descriptor);
    }
}

/// Writes a message. There is nobody to tell if that fails.
pub fn say(level: Level, message: fmt::Arguments<'_>) {
    let mut line = Line::default();
    let kernel_log = KERNEL_LOG.get();
    if kernel_log.is_some() {
        let _ = write!(line, "<{}>", level as u8);
    }
    let _ = write!(line, "muster-init: {message}");
    let bytes = line.finish();
    match kernel_log {
        Some(descriptor) => write_if_possible(descriptor.as_fd(), bytes),
        None => write_if_possible(std::io::stderr().as_fd(), bytes),
    }
}

/// A terminal that is held, or a pipe that nobody reads, must not stop init: the message is lost then.
fn write_if_possible(target: BorrowedFd<'_>, bytes: &[u8]) {
    let mut polled = [PollFd::from_borrowed_fd(target, PollFlags::OUT)];
    let is_ready = poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
    if is_ready && polled[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(target, bytes);
    }
}

/// An error with all its causes, for a message.
pub fn chain(error: &dyn Error) -> impl fmt::Display {
    fmt::from_fn(move |formatter| {
        write!(formatter, "{error}")?;
        let mut cause = error.source();
        while let Some(error) = cause {
            write!(formatter, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    })
}

/// A message that is being put together.
struct Line {
    bytes: [u8; LONGEST + 1],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; LONGEST + 1],
            length: 0,
        }
    }
}

impl Line {
    fn finish(&mut self) -> &[u8] {
        self.bytes[self.length] = b'\n';
        &self.bytes[..=self.length]
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST - self.length;
        let taken = text.floor_char_boundary(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipe_that_nobody_reads_stops_nothing() {
        let (reader, writer) = std::io::pipe().unwrap();
        // Far more than a pipe holds.
        for _ in 0..10_000 {
            write_if_possible(writer.as_fd(), &[b'x'; LONGEST]);
        }
        drop(reader);
        write_if_possible(writer.as_fd(), b"nobody is there");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let mut line = Line::default();
        write!(line, "a{}", "ä".repeat(LONGEST)).unwrap();
        let bytes = line.finish();
        assert_eq!(bytes.len(), LONGEST);
        assert!(std::str::from_utf8(bytes).unwrap().ends_with("ä\n"));
    }
}
