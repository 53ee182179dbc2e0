//! The output of a service.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_control::feed::Stream;
use rustix::io::Errno;

use super::InputError;
use crate::entry::Fields;
use crate::faults;
use crate::parse::lines::{LineBreak, More, next_line};
use crate::parse::priority::{Level, split_level};
use crate::recorder::{Item, Recorder, Routing, Speaker, UnitOrigin};
use crate::state::{ClaimSlotError, Progress, SlotIndex};
use crate::sys::{self, Sender};

const NAME: &str = "a service's output";

/// Whether a stream goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamState {
    /// Something was there, and more may be.
    Open,
    /// Nothing was there; more may come.
    Empty,
    /// The last writer has closed it; everything is recorded.
    Ended,
}

/// One run's standard output and error.
#[derive(Debug)]
pub struct StreamSource {
    descriptor: OwnedFd,
    slot: SlotIndex,
    lines: Lines,
    /// How many bytes were read.
    taken: u64,
}

/// How lines of a stream become entries.
#[derive(Debug)]
struct Lines {
    identifier: Box<str>,
    facility: u8,
    level: Level,
    level_max: Level,
    level_prefix: bool,
    routing: Routing,
    stream_id: Box<str>,
    /// The unit by the manager's word; none for a client that came by itself.
    unit: Option<UnitOrigin>,
    /// Who wrote what is pending.
    sender: Option<Sender>,
    fields: Fields,
}

impl Lines {
    fn of(stream: &Stream) -> Self {
        Self {
            identifier: stream.identifier.clone(),
            facility: stream.facility,
            level: Level::new(stream.priority).unwrap_or(Level::INFO),
            level_max: stream
                .level_max
                .and_then(Level::new)
                .unwrap_or(Level::DEBUG),
            level_prefix: stream.level_prefix,
            routing: Routing {
                journal: stream.to_journal,
                console: stream.to_console,
                kmsg: stream.to_kmsg,
            },
            stream_id: stream.id.clone(),
            unit: UnitOrigin::of(stream),
            sender: None,
            fields: Fields::default(),
        }
    }

    /// Records the complete lines that are pending.
    fn record(&mut self, slot: SlotIndex, more: More, recorder: &mut Recorder) {
        loop {
            let pending = recorder.ledger.slot(slot);
            let Some(line) = next_line(pending.pending(), recorder.config.line_max, more) else {
                return;
            };
            let progress = Progress::Slot(slot, pending.after(line.taken));
            let text = without_trailing_blanks(line.text);
            let (level, text) = match self.level_prefix {
                true => split_level(text),
                false => (None, text),
            };
            let level = level.unwrap_or(self.level);
            if text.is_empty() || level > self.level_max {
                recorder.skip(Some(progress));
                continue;
            }
            let fields = &mut self.fields;
            fields.clear();
            fields.push("MESSAGE", text);
            fields.push("PRIORITY", level.digit());
            if self.facility > 0 {
                fields.push_number("SYSLOG_FACILITY", u64::from(self.facility));
            }
            if !self.identifier.is_empty() {
                fields.push("SYSLOG_IDENTIFIER", self.identifier.as_bytes());
            }
            fields.push("_TRANSPORT", "stdout");
            fields.push("_STREAM_ID", self.stream_id.as_bytes());
            fields.push_some("_LINE_BREAK", line.ended_by.field());
            recorder.record(&Item {
                progress: Some(progress),
                level,
                fields,
                sender: self.sender,
                unit: self.unit.as_ref(),
                routing: self.routing,
                speaker: Speaker::Client,
            });
        }
    }
}

/// The line without blanks at its end; one of nothing but blanks stays as it is.
fn without_trailing_blanks(line: &[u8]) -> &[u8] {
    let last = line.iter().rposition(|byte| !b" \t\r".contains(byte));
    last.map_or(line, |last| &line[..=last])
}

impl StreamSource {
    /// Takes a stream over; one that an earlier process had is continued where that one was.
    ///
    /// # Errors
    /// If it is not a stream socket, or there is no memory.
    pub fn new(
        descriptor: OwnedFd,
        stream: &Stream,
        recorder: &mut Recorder,
    ) -> Result<Self, ClaimSlotError> {
        let not_counted = |source| ClaimSlotError::NotCounted { source };
        sys::want_sender(descriptor.as_fd()).map_err(not_counted)?;
        let (slot, _) = recorder.ledger.claim(descriptor.as_fd())?;
        describe(slot, stream, recorder);
        let mut source = Self {
            descriptor,
            slot,
            lines: Lines::of(stream),
            taken: 0,
        };
        source.lines.record(slot, More::Possible, recorder);
        Ok(source)
    }

    /// How many bytes were read so far.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// How many bytes wait to be read; a client decides how many there can be.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.descriptor).unwrap_or(0)
    }

    /// The stream's place in the ledger, which is its name in this process.
    #[must_use]
    pub fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// Takes what the manager says about the stream now.
    pub fn describe_again(&mut self, stream: &Stream, recorder: &mut Recorder) {
        let sender = self.lines.sender;
        self.lines = Lines::of(stream);
        self.lines.sender = sender;
        describe(self.slot, stream, recorder);
    }

    /// Takes what is there, up to one turn's worth: what one read gives.
    ///
    /// # Errors
    /// If the stream cannot be read; then it is to be given up.
    pub fn turn(&mut self, recorder: &mut Recorder) -> Result<StreamState, InputError> {
        let failed = |source| InputError {
            operation: "read",
            source_name: NAME,
            source,
        };
        recorder
            .ledger
            .refresh_count(self.slot, self.descriptor.as_fd())
            .map_err(failed)?;
        let room = recorder.ledger.slot_mut(self.slot).room();
        let received = match sys::receive(self.descriptor.as_fd(), room, false) {
            Ok(received) => received,
            Err(error) => {
                return match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => Ok(StreamState::Empty),
                    Some(Errno::INTR) => Ok(StreamState::Open),
                    // The ledger's file system is full.
                    Some(Errno::FAULT) => recorder
                        .ledger
                        .leave_file(self.slot)
                        .map(|()| StreamState::Open)
                        .map_err(|_| failed(error)),
                    // The writer was killed with something unread on its side.
                    Some(Errno::CONNRESET) => Ok(self.end(recorder)),
                    _ => Err(failed(error)),
                };
            }
        };
        if received.length == 0 {
            return Ok(self.end(recorder));
        }
        muster_fault::hit(faults::RECEIVED);
        self.taken += received.length as u64;
        let sender = received.sender.filter(|sender| sender.pid > 0);
        let is_other = |last: Sender| sender.is_some_and(|sender| sender.pid != last.pid);
        if self.lines.sender.is_some_and(is_other) {
            let rest = More::No(LineBreak::PidChange);
            self.lines.record(self.slot, rest, recorder);
        }
        self.lines.sender = sender.or(self.lines.sender);
        recorder
            .ledger
            .slot_mut(self.slot)
            .received(received.length);
        self.lines.record(self.slot, More::Possible, recorder);
        recorder.ledger.trim(self.slot);
        Ok(StreamState::Open)
    }

    /// Records what is left and gives the place back.
    fn end(&mut self, recorder: &mut Recorder) -> StreamState {
        self.lines
            .record(self.slot, More::No(LineBreak::Eof), recorder);
        StreamState::Ended
    }
}

impl AsFd for StreamSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn describe(slot: SlotIndex, stream: &Stream, recorder: &mut Recorder) {
    // Without a description, what is left of a stream that never comes back is kept without its origin.
    let description = serde_json::to_vec(stream).unwrap_or_default();
    recorder.ledger.describe(slot, &description);
    recorder
        .origins
        .learn_invocation(&stream.unit, &stream.invocation);
}

/// Records what an earlier process has received from a stream that did not come back, and frees its place.
pub fn record_orphan(slot: SlotIndex, recorder: &mut Recorder) {
    let description = recorder.ledger.slot(slot).description();
    // Without a description at least the text is kept.
    let stream = serde_json::from_slice(description).unwrap_or_else(|_| Stream {
        priority: Level::INFO.number(),
        facility: crate::recorder::FACILITY_DAEMON,
        to_journal: true,
        ..Stream::default()
    });
    Lines::of(&stream).record(slot, More::No(LineBreak::Eof), recorder);
    recorder.ledger.release(slot);
}
