//! The syslog socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::datagram::{DatagramSocket, Front};
use super::{InputError, TURN_MAX, Taken};
use crate::entry::Fields;
use crate::parse::syslog::parse_syslog;
use crate::recorder::{Item, Recorder, Routing, Speaker};
use crate::state::Mark;
use crate::sys::Received;

/// `/dev/log`.
#[derive(Debug)]
pub struct SyslogSource {
    socket: DatagramSocket,
    fields: Fields,
}

impl SyslogSource {
    /// Takes the socket over.
    ///
    /// # Errors
    /// If it is not a datagram socket.
    pub fn new(descriptor: OwnedFd, recorder: &mut Recorder) -> Result<Self, InputError> {
        let ledger = &mut recorder.ledger;
        Ok(Self {
            socket: DatagramSocket::new(descriptor, "the syslog socket", Mark::Syslog, ledger)?,
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
                Front::TooLarge => recorder.counters.refused += 1,
                Front::Message(received) if received.length == 0 => {
                    self.socket.consume_empty(&mut recorder.ledger)?;
                    continue;
                }
                Front::Message(received) => self.record(&received, recorder),
            }
            self.socket.consume(&mut recorder.ledger)?;
        }
        Ok(Taken::Some)
    }

    fn record(&mut self, received: &Received, recorder: &mut Recorder) {
        if self.socket.done(&recorder.ledger) > 0 {
            return;
        }
        let bytes = self.socket.bytes(received);
        let parsed = parse_syslog(bytes);
        let fields = &mut self.fields;
        fields.clear();
        fields.push("MESSAGE", parsed.message);
        fields.push("PRIORITY", parsed.priority.level.digit());
        if parsed.priority.facility > 0 {
            fields.push_number("SYSLOG_FACILITY", u64::from(parsed.priority.facility));
        }
        fields.push_some("SYSLOG_IDENTIFIER", parsed.identifier);
        fields.push_some("SYSLOG_PID", parsed.pid);
        // The blank at its end is part of what journald stores.
        let stamp = parsed.timestamp.map(|stamp| [stamp, b" "].concat());
        fields.push_some("SYSLOG_TIMESTAMP", stamp);
        fields.push_some("SYSLOG_RAW", parsed.raw);
        fields.push("_TRANSPORT", "syslog");
        if let Some(sent) = received.sent_us {
            fields.push_number("_SOURCE_REALTIME_TIMESTAMP", sent);
        }
        recorder.record(&Item {
            progress: Some(self.socket.progress(1)),
            level: parsed.priority.level,
            fields,
            sender: received.sender,
            unit: None,
            routing: Routing::USUAL,
            speaker: Speaker::Client,
        });
    }
}

impl AsFd for SyslogSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
