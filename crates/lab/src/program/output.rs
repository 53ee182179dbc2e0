//! What a program printed: the latest lines, within bounds, and whoever waits for one.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionread};

/// Lines kept per run; older ones are dropped and counted.
pub(super) const LINES_KEPT: usize = 20_000;
/// A longer line is cut into pieces of this many bytes.
const LINE_LENGTH: usize = 16 * 1024;
/// Most that is read at once.
const CHUNK: usize = 16 * 1024;

/// Where a line was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line that a program printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it was printed.
    pub stream: Stream,
    /// The line without its end; bytes that are not UTF-8 are replaced.
    pub text: String,
}

/// Shared by the threads that read and whoever waits.
#[derive(Debug, Default)]
pub(super) struct Output {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Line>,
    dropped: u64,
    open_streams: u32,
    /// The same pipes that are read, to see whether they are empty.
    pipes: Vec<OwnedFd>,
}

/// Why [`Output::wait_for`] returned without a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLine {
    /// The time is up.
    TimeUp,
    /// Nobody can print any more.
    Closed,
}

impl Output {
    /// Starts a thread that reads `source`, a pipe, to its end.
    pub(super) fn capture(
        self: &Arc<Self>,
        stream: Stream,
        source: impl Read + AsFd + Send + 'static,
    ) -> std::io::Result<()> {
        let pipe = source.as_fd().try_clone_to_owned()?;
        {
            let mut state = self.lock();
            state.open_streams += 1;
            state.pipes.push(pipe);
        }
        let output = Arc::clone(self);
        let reading = std::thread::Builder::new()
            .name("lab-output".to_owned())
            .spawn(move || output.read_to_end(stream, source));
        if reading.is_err() {
            self.lock().open_streams -= 1;
        }
        reading.map(drop)
    }

    /// Waits outside of the lock, reads and keeps inside of it: whoever has the lock and sees an empty pipe has all that was printed.
    fn read_to_end(&self, stream: Stream, mut source: impl Read + AsFd) {
        let mut chunk = vec![0; CHUNK];
        let mut line = Vec::new();
        loop {
            match poll(&mut [PollFd::new(&source, PollFlags::IN)], None) {
                Err(Errno::INTR) => continue,
                // What cannot be waited for is closed: there is nobody to tell.
                Err(_) => break,
                Ok(_) => {}
            }
            let mut state = self.lock();
            match source.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    for &byte in &chunk[..count] {
                        if byte != b'\n' {
                            line.push(byte);
                        }
                        if byte == b'\n' || line.len() == LINE_LENGTH {
                            state.push(stream, &mut line);
                        }
                    }
                    self.changed.notify_all();
                }
            }
        }
        let mut state = self.lock();
        if !line.is_empty() {
            state.push(stream, &mut line);
        }
        state.open_streams -= 1;
        self.changed.notify_all();
    }

    /// The first line numbered `from` or later that `wanted` accepts.
    pub(super) fn wait_for(
        &self,
        from: u64,
        within: Duration,
        mut wanted: impl FnMut(&Line) -> bool,
    ) -> Result<Line, NoLine> {
        let until = Instant::now() + within;
        let mut next = from;
        let mut state = self.lock();
        loop {
            let skipped = usize::try_from(next.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
            if let Some(line) = state.lines.iter().skip(skipped).find(|line| wanted(line)) {
                return Ok(line.clone());
            }
            next = next.max(state.count());
            if state.open_streams == 0 {
                return Err(NoLine::Closed);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NoLine::TimeUp);
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Waits until nobody can print any more; false when somebody still can.
    pub(super) fn wait_closed(&self, within: Duration) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), within, |state| state.open_streams > 0)
            .unwrap_or_else(PoisonError::into_inner);
        state.open_streams == 0
    }

    /// Waits until everything that was printed before this call is kept, however long the threads that read have to wait for a
    /// processor; false when the time is up.
    pub(super) fn wait_drained(&self, within: Duration) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), within, |state| !state.is_drained())
            .unwrap_or_else(PoisonError::into_inner);
        state.is_drained()
    }

    /// How many lines were printed so far, dropped ones included.
    pub(super) fn count(&self) -> u64 {
        self.lock().count()
    }

    /// How many lines were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// The lines kept, oldest first.
    pub(super) fn lines(&self) -> Vec<Line> {
        self.lock().lines.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Keeps the line, and begins a new one.
    fn push(&mut self, stream: Stream, line: &mut Vec<u8>) {
        if self.lines.len() == LINES_KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
        let text = String::from_utf8_lossy(line).into_owned();
        self.lines.push_back(Line { stream, text });
        line.clear();
    }

    fn is_drained(&self) -> bool {
        let is_empty = |pipe: &OwnedFd| ioctl_fionread(pipe).is_ok_and(|bytes| bytes == 0);
        self.open_streams == 0 || self.pipes.iter().all(is_empty)
    }

    fn count(&self) -> u64 {
        self.dropped + u64::try_from(self.lines.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(text: impl Into<Vec<u8>>) -> Arc<Output> {
        let output = Arc::new(Output::default());
        let (source, mut printer) = std::io::pipe().unwrap();
        output.capture(Stream::Stdout, source).unwrap();
        printer.write_all(&text.into()).unwrap();
        drop(printer);
        assert!(output.wait_closed(Duration::from_secs(30)));
        output
    }

    #[test]
    fn what_was_printed_is_there_although_somebody_could_print_more() {
        let output = Arc::new(Output::default());
        let (source, mut printer) = std::io::pipe().unwrap();
        output.capture(Stream::Stdout, source).unwrap();
        for round in 1..=200 {
            printer.write_all(b"a line\n").unwrap();
            assert!(output.wait_drained(Duration::from_secs(30)));
            assert_eq!(output.count(), round);
        }
        assert!(!output.wait_closed(Duration::ZERO));
    }

    fn texts(output: &Output) -> Vec<String> {
        output.lines().into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn last_line_needs_no_end_and_bad_bytes_are_replaced() {
        assert_eq!(texts(&read(*b"a\n\n\xffb")), ["a", "", "\u{fffd}b"]);
    }

    #[test]
    fn memory_is_bounded_and_losses_are_counted() {
        let output = read("x\n".repeat(LINES_KEPT + 5) + "last\n");
        assert_eq!(output.dropped(), 6);
        assert_eq!(output.lines().len(), LINES_KEPT);
        assert_eq!(output.count(), u64::try_from(LINES_KEPT).unwrap() + 6);
        let line = output
            .wait_for(0, Duration::ZERO, |line| line.text == "last")
            .unwrap();
        assert_eq!(line.text, "last");

        let long = read("y".repeat(40_000));
        let lengths: Vec<_> = long.lines().iter().map(|line| line.text.len()).collect();
        assert_eq!(lengths, [16_384, 16_384, 7_232]);
    }

    #[test]
    fn only_lines_from_the_mark_on_are_searched() {
        let output = read("ready\nready again\n");
        let found =
            |from| output.wait_for(from, Duration::ZERO, |line| line.text.contains("ready"));
        assert_eq!(found(0).unwrap().text, "ready");
        assert_eq!(found(1).unwrap().text, "ready again");
        assert_eq!(found(2), Err(NoLine::Closed));
    }
}
