//! The socket of `sd_journal_send(3)`.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use super::datagram::{DatagramSocket, Front};
use super::{InputError, TURN_MAX, Taken};
use crate::entry::Fields;
use crate::parse::native::{NativeField, parse_native};
use crate::parse::priority::Level;
use crate::recorder::{Item, Recorder, Routing, Speaker};
use crate::state::{Mark, Progress};
use crate::sys::Received;

/// A message that comes in a file is not longer than this.
const FILE_MAX: u64 = 64 << 20;

/// `/run/systemd/journal/socket`.
#[derive(Debug)]
pub struct NativeSource {
    socket: DatagramSocket,
    fields: Fields,
}

impl NativeSource {
    /// Takes the socket over.
    ///
    /// # Errors
    /// If it is not a datagram socket.
    pub fn new(descriptor: OwnedFd, recorder: &mut Recorder) -> Result<Self, InputError> {
        let ledger = &mut recorder.ledger;
        Ok(Self {
            socket: DatagramSocket::new(descriptor, "the native socket", Mark::Native, ledger)?,
            fields: Fields::default(),
        })
    }

    /// Takes what is there, up to one turn's worth.
    ///
    /// # Errors
    /// If the socket cannot be read.
    pub fn turn(&mut self, recorder: &mut Recorder) -> Result<Taken, InputError> {
        for _ in 0..TURN_MAX {
            match self.socket.look()? {
                Front::Empty | Front::Closed => return Ok(Taken::All),
                Front::TooLarge => {
                    recorder.counters.refused += 1;
                    self.socket.consume(&mut recorder.ledger)?;
                }
                Front::Message(received) if received.length == 0 => {
                    self.record_file(&received, recorder);
                    self.socket.consume_empty(&mut recorder.ledger)?;
                    let no_file = Progress::Mark(Mark::NativeFile, 0);
                    recorder.ledger.advance(no_file);
                }
                Front::Message(received) => {
                    let bytes = self.socket.bytes(&received);
                    record_all(bytes, &received, &self.socket, &mut self.fields, recorder);
                    self.socket.consume(&mut recorder.ledger)?;
                }
            }
        }
        Ok(Taken::Some)
    }

    /// Records the message that a file brings. The file is copied before it is looked at: a client that
    /// changes or cuts it meanwhile harms nobody but itself.
    fn record_file(&mut self, received: &Received, recorder: &mut Recorder) {
        let Some(file) = received.descriptors.first() else {
            return;
        };
        let Some((inode, bytes)) = read_file(file) else {
            recorder.counters.refused += 1;
            return;
        };
        if recorder.ledger.mark(Mark::NativeFile) != inode {
            recorder.ledger.advance(self.socket.progress(0));
            recorder
                .ledger
                .advance(Progress::Mark(Mark::NativeFile, inode));
        }
        record_all(&bytes, received, &self.socket, &mut self.fields, recorder);
    }
}

/// The content of a regular file, if it is not too large.
fn read_file(descriptor: &OwnedFd) -> Option<(u64, Vec<u8>)> {
    let file = File::from(descriptor.try_clone().ok()?);
    let meta = file.metadata().ok()?;
    if !meta.is_file() || meta.len() > FILE_MAX {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(meta.len()).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some((meta.ino(), bytes))
}

/// Records the entries of a message that are not in the journal yet.
fn record_all(
    bytes: &[u8],
    received: &Received,
    socket: &DatagramSocket,
    fields: &mut Fields,
    recorder: &mut Recorder,
) {
    let parsed = parse_native(bytes);
    recorder.counters.refused += u64::from(parsed.refused) + u64::from(parsed.broken);
    let done = socket.done(&recorder.ledger);
    for (index, entry) in parsed.entries.iter().enumerate().skip(done) {
        fields.clear();
        let mut level = Level::INFO;
        for NativeField { name, value } in entry {
            let Ok(name) = std::str::from_utf8(name) else {
                continue;
            };
            if name == "PRIORITY"
                && let [digit @ b'0'..=b'7'] = value
            {
                level = Level::new(digit - b'0').unwrap_or(level);
            }
            fields.push(name, value);
        }
        fields.push("_TRANSPORT", "journal");
        if let Some(sent) = received.sent_us {
            fields.push_number("_SOURCE_REALTIME_TIMESTAMP", sent);
        }
        recorder.record(&Item {
            progress: Some(socket.progress(index + 1)),
            level,
            fields,
            sender: received.sender,
            unit: None,
            routing: Routing::USUAL,
            speaker: Speaker::Client,
        });
    }
}

impl AsFd for NativeSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
