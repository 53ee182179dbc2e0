//! The protocol between a program under test and the rig: a line of text, then one byte back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Longest acknowledgement that the rig takes.
const MAX_LINE: u64 = 64 * 1024;
const NOTED: &[u8] = b"+";

/// Tells the rig that something is durable now, and waits until it has noted that.
///
/// Called by a program that [`CutTest`](super::CutTest) runs: its standard input is the rig's
/// socket. Returns an error when the rig is gone; the program should end then.
pub fn ack(text: &str) -> io::Result<()> {
    ack_on(io::stdin().as_fd(), text)
}

/// As [`ack`], over another descriptor that leads to the rig.
pub fn ack_on(rig: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    if text.contains('\n') || text.len() as u64 >= MAX_LINE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an acknowledgement is one line, shorter than 64 KiB",
        ));
    }
    let mut stream = UnixStream::from(rig.try_clone_to_owned()?);
    stream.write_all(format!("{text}\n").as_bytes())?;
    stream.read_exact(&mut [0])
}

/// The rig's side: reads acknowledgements and holds the program until [`AckSource::release`].
#[derive(Debug)]
pub(super) struct AckSource {
    lines: BufReader<UnixStream>,
}

impl AckSource {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self {
            lines: BufReader::new(stream),
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        self.lines.get_ref()
    }

    /// The next acknowledgement, or `None` when the program has closed its side.
    pub(super) fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = String::new();
        (&mut self.lines).take(MAX_LINE).read_line(&mut line)?;
        match line.strip_suffix('\n') {
            Some(text) => Ok(Some(text.to_owned())),
            None if line.is_empty() => Ok(None),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "an acknowledgement was cut off or is longer than 64 KiB",
            )),
        }
    }

    /// Lets the program go on after the acknowledgement last read.
    pub(super) fn release(&mut self) -> io::Result<()> {
        self.lines.get_mut().write_all(NOTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_waits_until_the_rig_has_noted() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let program = std::thread::spawn(move || {
            ack_on(theirs.as_fd(), "one")?;
            ack_on(theirs.as_fd(), "two")
        });
        let mut acks = AckSource::new(ours);
        assert_eq!(acks.next().unwrap().as_deref(), Some("one"));
        acks.stream()
            .set_read_timeout(Some(std::time::Duration::from_millis(50)))
            .unwrap();
        assert!(
            acks.next().is_err(),
            "the second line came before the first was released"
        );
        acks.stream().set_read_timeout(None).unwrap();
        acks.release().unwrap();
        assert_eq!(acks.next().unwrap().as_deref(), Some("two"));
        acks.release().unwrap();
        program.join().unwrap().unwrap();
        assert_eq!(acks.next().unwrap(), None);
    }

    #[test]
    fn an_ack_fails_when_the_rig_is_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert!(ack_on(theirs.as_fd(), "one").is_err());
    }

    #[test]
    fn an_endless_or_unfinished_line_is_refused() {
        for text in ["no line end".to_owned(), "x".repeat(70 * 1024)] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let writer = std::thread::spawn(move || theirs.write_all(text.as_bytes()));
            let mut acks = AckSource::new(ours);
            let error = acks.next().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            drop(acks);
            // Whether the writer still got all of it out depends on the socket's buffer.
            let _ = writer.join().unwrap();
        }
    }

    #[test]
    fn an_ack_is_one_line() {
        let (_ours, theirs) = UnixStream::pair().unwrap();
        let error = ack_on(theirs.as_fd(), "a\nb").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
