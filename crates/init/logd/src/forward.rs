//! Lines that also go to the console or into the kernel's log.
//!
//! Neither is waited for: what they do not take is counted.

use std::collections::VecDeque;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::parse::priority::Level;

/// The kernel's log takes no longer record.
const KMSG_MAX: usize = 900;
/// How many lines that went to the kernel's log are remembered, to be recognised when they come back.
const REMEMBERED_MAX: usize = 1024;

/// A line on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded<'a> {
    /// How severe it is.
    pub level: Level,
    /// The facility, for the kernel's log.
    pub facility: u8,
    /// Who says it.
    pub identifier: &'a [u8],
    /// Its process, if known.
    pub pid: Option<u32>,
    /// What it says.
    pub message: &'a [u8],
}

/// Where lines go besides the journal.
#[derive(Debug)]
pub struct Forwarder {
    console: Outlet,
    kmsg: Outlet,
    sent_to_kernel: VecDeque<u64>,
    lost: u64,
}

#[derive(Debug)]
struct Outlet {
    path: PathBuf,
    open: Option<File>,
}

impl Outlet {
    fn write(&mut self, line: &[u8]) -> bool {
        if self.open.is_none() {
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let opened = File::options()
                .write(true)
                .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
                .open(&self.path);
            self.open = opened.ok();
        }
        let Some(file) = &mut self.open else {
            return false;
        };
        match file.write_all(line) {
            Ok(()) => true,
            Err(error) => {
                // A terminal that hung up is opened anew for the next line; one that is full is kept.
                if error.kind() != std::io::ErrorKind::WouldBlock {
                    self.open = None;
                }
                false
            }
        }
    }
}

impl Forwarder {
    /// Forwards to these devices, which are opened when the first line goes there.
    #[must_use]
    pub fn new(console: &Path, kmsg: &Path) -> Self {
        let outlet = |path: &Path| Outlet {
            path: path.to_owned(),
            open: None,
        };
        Self {
            console: outlet(console),
            kmsg: outlet(kmsg),
            sent_to_kernel: VecDeque::new(),
            lost: 0,
        }
    }

    /// Writes a line to the console.
    pub fn to_console(&mut self, line: &Forwarded<'_>) {
        let mut text = said_by(line);
        text.extend_from_slice(line.message);
        text.push(b'\n');
        if !self.console.write(&text) {
            self.lost += 1;
        }
    }

    /// Writes a line to the kernel's log.
    pub fn to_kernel(&mut self, line: &Forwarded<'_>) {
        let mut text = said_by(line);
        let room = KMSG_MAX.saturating_sub(text.len());
        text.extend_from_slice(&line.message[..line.message.len().min(room)]);
        let number = u16::from(line.facility) << 3 | u16::from(line.level.number());
        let mut record = format!("<{number}>").into_bytes();
        record.extend_from_slice(&text);
        // The kernel waits for more of a record that does not end in a newline.
        record.push(b'\n');
        if !self.kmsg.write(&record) {
            self.lost += 1;
            return;
        }
        if self.sent_to_kernel.len() >= REMEMBERED_MAX {
            self.sent_to_kernel.pop_front();
        }
        self.sent_to_kernel.push_back(fingerprint(&text));
    }

    /// Whether a record of the kernel's log is one that came from here; it is in the journal already.
    pub fn is_own_record(&mut self, identifier: &[u8], pid: Option<&[u8]>, message: &[u8]) -> bool {
        if self.sent_to_kernel.is_empty() {
            return false;
        }
        let text = said_by(&Forwarded {
            level: Level::INFO,
            facility: 0,
            identifier,
            pid: pid.and_then(|pid| std::str::from_utf8(pid).ok()?.parse().ok()),
            message,
        });
        let print = fingerprint(&[&text, message].concat());
        let at = self.sent_to_kernel.iter().position(|sent| *sent == print);
        at.and_then(|at| self.sent_to_kernel.remove(at)).is_some()
    }

    /// How many lines a device did not take.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// `identifier[pid]: `
fn said_by(line: &Forwarded<'_>) -> Vec<u8> {
    let mut text = line.identifier.to_vec();
    if let Some(pid) = line.pid {
        text.extend_from_slice(format!("[{pid}]").as_bytes());
    }
    if !text.is_empty() {
        text.extend_from_slice(b": ");
    }
    text
}

fn fingerprint(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Forwarded<'_> = Forwarded {
        level: Level::WARNING,
        facility: 3,
        identifier: b"prog",
        pid: Some(7),
        message: b"hello",
    };

    #[test]
    fn lines_are_written_with_their_origin() {
        let folder = tempfile::tempdir().expect("a folder");
        let (console, kmsg) = (folder.path().join("console"), folder.path().join("kmsg"));
        std::fs::write(&console, "").expect("made");
        std::fs::write(&kmsg, "").expect("made");
        let mut forwarder = Forwarder::new(&console, &kmsg);
        forwarder.to_console(&LINE);
        forwarder.to_kernel(&LINE);
        assert_eq!(std::fs::read(&console).expect("text"), b"prog[7]: hello\n");
        assert_eq!(std::fs::read(&kmsg).expect("text"), b"<28>prog[7]: hello\n");
        assert_eq!(forwarder.lost(), 0);
        assert!(!forwarder.is_own_record(b"prog", Some(b"8"), b"hello"));
        assert!(forwarder.is_own_record(b"prog", Some(b"7"), b"hello"));
        assert!(!forwarder.is_own_record(b"prog", Some(b"7"), b"hello"));
    }

    #[test]
    fn what_is_not_taken_is_counted() {
        let mut forwarder = Forwarder::new(Path::new("/nonexistent"), Path::new("/dev/full"));
        forwarder.to_console(&LINE);
        forwarder.to_kernel(&LINE);
        assert_eq!(forwarder.lost(), 2);
    }
}
