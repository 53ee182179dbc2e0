//! What the manager says: streams to read, and lines of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use muster_control::feed::{FeedMessage, LogLine, Stream};

use super::datagram::{DatagramSocket, Front};
use super::{InputError, TURN_MAX, Taken};
use crate::entry::Fields;
use crate::parse::native::is_field_name;
use crate::parse::priority::Level;
use crate::recorder::{FACILITY_DAEMON, Item, Recorder, Routing, Speaker};
use crate::state::Mark;
use crate::sys::Sender;

/// What the daemon has to do about a message.
#[derive(Debug)]
pub enum FeedEvent {
    /// The manager is there and will give all living streams.
    Hello,
    /// A stream is to be read.
    Stream(OwnedFd, Box<Stream>),
    /// Everything is to be written out.
    Sync,
    /// The manager has closed the feed for good.
    Closed,
}

/// The feed.
#[derive(Debug)]
pub struct FeedSource {
    socket: DatagramSocket,
    fields: Fields,
}

impl FeedSource {
    /// Takes the feed over.
    ///
    /// # Errors
    /// If it is not a packet socket.
    pub fn new(descriptor: OwnedFd, recorder: &mut Recorder) -> Result<Self, InputError> {
        let ledger = &mut recorder.ledger;
        Ok(Self {
            socket: DatagramSocket::new(descriptor, "the manager's feed", Mark::Feed, ledger)?,
            fields: Fields::default(),
        })
    }

    /// Takes what is there, up to one turn's worth; `act` does what the daemon has to do.
    ///
    /// # Errors
    /// If the feed cannot be read.
    pub fn turn(
        &mut self,
        recorder: &mut Recorder,
        mut act: impl FnMut(FeedEvent, &mut Recorder),
    ) -> Result<Taken, InputError> {
        for _ in 0..TURN_MAX {
            let mut received = match self.socket.look()? {
                Front::Empty => return Ok(Taken::All),
                Front::Closed => {
                    act(FeedEvent::Closed, recorder);
                    return Ok(Taken::All);
                }
                Front::TooLarge => {
                    recorder.counters.refused += 1;
                    self.socket.consume(&mut recorder.ledger)?;
                    continue;
                }
                Front::Message(received) if received.length == 0 => {
                    self.socket.consume_empty(&mut recorder.ledger)?;
                    continue;
                }
                Front::Message(received) => received,
            };
            match serde_json::from_slice(self.socket.bytes(&received)) {
                Ok(FeedMessage::Hello { .. }) => act(FeedEvent::Hello, recorder),
                Ok(FeedMessage::Sync) => act(FeedEvent::Sync, recorder),
                Ok(FeedMessage::Stream(stream)) => match received.descriptors.pop() {
                    Some(descriptor) => act(FeedEvent::Stream(descriptor, stream), recorder),
                    None => {
                        recorder.counters.refused += 1;
                        let message = format!(
                            "The output of {} came without a descriptor (too many open files?)",
                            stream.unit
                        );
                        recorder.say(Level::ERR, &message, &[("UNIT", &stream.unit)]);
                    }
                },
                Ok(FeedMessage::Log(line)) => self.record(&line, received.sender, recorder),
                Ok(FeedMessage::Lost { count }) => {
                    recorder.counters.lost_by_manager += count;
                    let message = format!("The manager could not hand {count} messages over");
                    recorder.say(Level::ERR, &message, &[("N_DROPPED", &count.to_string())]);
                }
                Err(_) => recorder.counters.refused += 1,
            }
            self.socket.consume(&mut recorder.ledger)?;
        }
        Ok(Taken::Some)
    }

    fn record(&mut self, line: &LogLine, by: Option<Sender>, recorder: &mut Recorder) {
        if self.socket.done(&recorder.ledger) > 0 {
            return;
        }
        let level = Level::new(line.priority).unwrap_or(Level::INFO);
        let fields = &mut self.fields;
        fields.clear();
        fields.push("MESSAGE", line.message.as_bytes());
        fields.push("PRIORITY", level.digit());
        fields.push_number("SYSLOG_FACILITY", u64::from(FACILITY_DAEMON));
        fields.push("SYSLOG_IDENTIFIER", line.identifier.as_bytes());
        fields.push_some("UNIT", line.unit.as_deref());
        fields.push_some("INVOCATION_ID", line.invocation.as_deref());
        for field in &line.fields {
            if field
                .split_once('=')
                .is_some_and(|(name, _)| is_field_name(name.as_bytes()))
            {
                fields.push_whole(field.as_bytes());
            }
        }
        fields.push("_TRANSPORT", "journal");
        if line.real > 0 {
            fields.push_number("_SOURCE_REALTIME_TIMESTAMP", line.real);
        }
        if line.monotonic > 0 {
            fields.push_number("_SOURCE_MONOTONIC_TIMESTAMP", line.monotonic);
        }
        // The manager also speaks for its parent. Both are of one user: its own, or, for what was sent before
        // this daemon could ask for senders, that of this daemon.
        let by = by.filter(|by| by.pid > 0);
        let sender = Sender {
            pid: i32::try_from(line.pid).unwrap_or(0),
            uid: by.map_or(rustix::process::getuid().as_raw(), |by| by.uid),
            gid: by.map_or(rustix::process::getgid().as_raw(), |by| by.gid),
        };
        recorder.record(&Item {
            progress: Some(self.socket.progress(1)),
            level,
            fields,
            sender: Some(sender),
            unit: None,
            routing: Routing::USUAL,
            speaker: Speaker::Manager,
        });
    }
}

impl AsFd for FeedSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
