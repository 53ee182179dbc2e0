//! A datagram socket from which each message is taken once, whatever happens.
//!
//! A message stays in the socket until it is in the journal, so a kill cannot lose it. That it is not taken
//! twice rests on two marks, one on each side of the moment at which it leaves the socket:
//!
//! | step | ledger's mark | socket's peek offset |
//! |---|---|---|
//! | looked at | 0 | -1 |
//! | n of its entries are in the journal | n | -1 |
//! | all of them are: [`DatagramSocket::consume`] | n, then 0 | 1 |
//! | it has left the socket | 0 | 0: the kernel lowers it in the same step |
//! | ready for the next | 0 | -1 |
//!
//! An empty message does not lower the offset. Such a message only brings a descriptor, by which its source
//! recognises it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::InputError;
use crate::faults;
use crate::state::{Ledger, Mark, Progress};
use crate::sys::{self, Received};

const USUAL_SIZE: usize = 64 << 10;
/// No message is longer; one that is, is refused.
const SIZE_MAX: usize = 16 << 20;

/// A socket and the message that is at its front.
#[derive(Debug)]
pub struct DatagramSocket {
    descriptor: OwnedFd,
    name: &'static str,
    mark: Mark,
    buffer: Vec<u8>,
}

/// The message at the front of a socket.
#[derive(Debug)]
pub enum Front {
    /// There is none.
    Empty,
    /// The other side has closed the connection.
    Closed,
    /// It is too large to be taken.
    TooLarge,
    /// It is in the buffer, so many bytes long.
    Message(Received),
}

impl DatagramSocket {
    /// Takes a socket over, where an earlier process has left it.
    ///
    /// # Errors
    /// If it is not a datagram or packet socket.
    pub fn new(
        descriptor: OwnedFd,
        name: &'static str,
        mark: Mark,
        ledger: &mut Ledger,
    ) -> Result<Self, InputError> {
        let socket = Self {
            descriptor,
            name,
            mark,
            buffer: vec![0; USUAL_SIZE],
        };
        let fd = socket.descriptor.as_fd();
        sys::want_sender_and_time(fd)
            .map_err(|error| socket.failed("ask for senders of", error))?;
        let offset = sys::peek_offset(fd).map_err(|error| socket.failed("look at", error))?;
        if offset >= 0 {
            ledger.advance(Progress::Mark(mark, 0));
        }
        if offset > 0 {
            socket.drop_front()?;
        }
        socket.set_offset(-1)?;
        Ok(socket)
    }

    /// Looks at the message at the front.
    ///
    /// # Errors
    /// If the socket cannot be read.
    pub fn look(&mut self) -> Result<Front, InputError> {
        loop {
            let received = match sys::receive(self.descriptor.as_fd(), &mut self.buffer, true) {
                Ok(received) => received,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.shrink();
                    return Ok(Front::Empty);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.failed("read", error)),
            };
            if received.length > SIZE_MAX {
                return Ok(Front::TooLarge);
            }
            if received.length > self.buffer.len() {
                self.buffer.resize(received.length, 0);
                continue;
            }
            // A packet socket reads nothing at all when its other end is closed; a datagram without
            // bytes at least says who sent it.
            let is_closed = received.length == 0
                && received.sender.is_none()
                && received.descriptors.is_empty();
            return Ok(if is_closed {
                Front::Closed
            } else {
                Front::Message(received)
            });
        }
    }

    /// The bytes of the message that was looked at.
    #[must_use]
    pub fn bytes(&self, received: &Received) -> &[u8] {
        &self.buffer[..received.length.min(self.buffer.len())]
    }

    /// How many entries of the message at the front are in the journal already.
    #[must_use]
    pub fn done(&self, ledger: &Ledger) -> usize {
        usize::try_from(ledger.mark(self.mark)).unwrap_or(0)
    }

    /// What it moves forward that `count` entries of the message are in the journal.
    #[must_use]
    pub fn progress(&self, count: usize) -> Progress {
        Progress::Mark(self.mark, count as u64)
    }

    /// Takes the message at the front away: it is in the journal, or not worth it.
    ///
    /// # Errors
    /// If the socket refuses.
    pub fn consume(&mut self, ledger: &mut Ledger) -> Result<(), InputError> {
        muster_fault::hit(faults::DATAGRAM_KEPT);
        self.set_offset(1)?;
        muster_fault::hit(faults::DATAGRAM_ARMED);
        ledger.advance(Progress::Mark(self.mark, 0));
        self.drop_front()?;
        muster_fault::hit(faults::DATAGRAM_CONSUMED);
        self.set_offset(-1)
    }

    /// Takes an empty message away, without the socket's help in remembering that.
    ///
    /// # Errors
    /// If the socket refuses.
    pub fn consume_empty(&mut self, ledger: &mut Ledger) -> Result<(), InputError> {
        self.drop_front()?;
        ledger.advance(Progress::Mark(self.mark, 0));
        Ok(())
    }

    fn drop_front(&self) -> Result<(), InputError> {
        match sys::receive(self.descriptor.as_fd(), &mut [], false) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    fn set_offset(&self, offset: i32) -> Result<(), InputError> {
        sys::set_peek_offset(self.descriptor.as_fd(), offset)
            .map_err(|error| self.failed("mark", error))
    }

    /// Gives the memory of an unusually large message back.
    fn shrink(&mut self) {
        if self.buffer.len() > USUAL_SIZE {
            self.buffer.truncate(USUAL_SIZE);
            self.buffer.shrink_to_fit();
        }
    }

    fn failed(&self, operation: &'static str, source: std::io::Error) -> InputError {
        InputError {
            operation,
            source_name: self.name,
            source,
        }
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::state::LedgerFile;

    struct Rig {
        dir: tempfile::TempDir,
        writer: OwnedFd,
        reader: OwnedFd,
    }

    impl Rig {
        fn new(kind: SocketType) -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let (writer, reader) =
                socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a pair");
            for text in [&b"one"[..], b"two", b"three"] {
                rustix::io::write(&writer, text).expect("sent");
            }
            Self {
                dir,
                writer,
                reader,
            }
        }

        /// As a process would find things after another was killed.
        fn start(&self, last_sequence: u64) -> (Ledger, DatagramSocket) {
            let file = LedgerFile::lock(&self.dir.path().join("ledger")).expect("a file");
            let mut ledger = Ledger::open(file, 1, last_sequence).expect("a ledger");
            let reader = self.reader.try_clone().expect("a descriptor");
            let socket = DatagramSocket::new(reader, "test", Mark::Syslog, &mut ledger);
            (ledger, socket.expect("a socket"))
        }
    }

    fn front(socket: &mut DatagramSocket) -> String {
        match socket.look().expect("readable") {
            Front::Message(received) => {
                String::from_utf8_lossy(socket.bytes(&received)).into_owned()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn each_message_is_taken_once_wherever_the_process_is_killed() {
        for kind in [SocketType::DGRAM, SocketType::SEQPACKET] {
            let rig = Rig::new(kind);
            let (mut ledger, mut socket) = rig.start(0);
            assert_eq!(front(&mut socket), "one");
            // Killed before anything was kept.
            drop((ledger, socket));
            (ledger, socket) = rig.start(0);
            assert_eq!(
                (front(&mut socket).as_str(), socket.done(&ledger)),
                ("one", 0)
            );
            // Killed when its entry was in the journal.
            ledger.intend(socket.progress(1), 1);
            drop((ledger, socket));
            (ledger, socket) = rig.start(1);
            assert_eq!(
                (front(&mut socket).as_str(), socket.done(&ledger)),
                ("one", 1)
            );
            // Killed when it was marked.
            socket.set_offset(1).expect("marked");
            drop((ledger, socket));
            (ledger, socket) = rig.start(1);
            assert_eq!(
                (front(&mut socket).as_str(), socket.done(&ledger)),
                ("two", 0)
            );
            // Killed when it had left the socket.
            ledger.advance(socket.progress(1));
            socket.set_offset(1).expect("marked");
            ledger.advance(socket.progress(0));
            socket.drop_front().expect("dropped");
            drop((ledger, socket));
            (ledger, socket) = rig.start(2);
            assert_eq!(
                (front(&mut socket).as_str(), socket.done(&ledger)),
                ("three", 0)
            );
            ledger.advance(socket.progress(1));
            socket.consume(&mut ledger).expect("consumed");
            assert_eq!(
                (front(&mut socket).as_str(), socket.done(&ledger)),
                ("Empty", 0)
            );
        }
    }

    #[test]
    fn large_messages_are_taken_and_the_end_is_seen() {
        let rig = Rig::new(SocketType::SEQPACKET);
        let (mut ledger, mut socket) = rig.start(0);
        for _ in 0..3 {
            socket.consume(&mut ledger).expect("consumed");
        }
        let large = vec![b'x'; 2 * USUAL_SIZE];
        rustix::io::write(&rig.writer, &large).expect("sent");
        assert_eq!(front(&mut socket).len(), large.len());
        socket.consume(&mut ledger).expect("consumed");
        assert_eq!(front(&mut socket), "Empty");
        assert_eq!(socket.buffer.len(), USUAL_SIZE);
        drop(rig.writer);
        assert_eq!(front(&mut socket), "Closed");
    }
}
