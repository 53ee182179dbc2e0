//! What a program printed: the latest lines, within bounds, and whoever waits for one.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines kept per run; older ones are dropped and counted.
pub(super) const LINES_KEPT: usize = 20_000;
/// A longer line is cut into pieces of this many bytes.
const LINE_LENGTH: u64 = 16 * 1024;

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
    /// Starts a thread that reads `source` to its end.
    pub(super) fn capture(
        self: &Arc<Self>,
        stream: Stream,
        source: impl Read + Send + 'static,
    ) -> std::io::Result<()> {
        self.lock().open_streams += 1;
        let output = Arc::clone(self);
        let reading = std::thread::Builder::new()
            .name("lab-output".to_owned())
            .spawn(move || output.read_to_end(stream, source));
        if reading.is_err() {
            self.lock().open_streams -= 1;
        }
        reading.map(drop)
    }

    fn read_to_end(&self, stream: Stream, source: impl Read) {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        // An unreadable pipe is a closed one: there is nobody to tell, and nothing more will come.
        while let Ok(1..) = source
            .by_ref()
            .take(LINE_LENGTH)
            .read_until(b'\n', &mut line)
        {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            self.push(Line {
                stream,
                text: String::from_utf8_lossy(text).into_owned(),
            });
            line.clear();
        }
        self.lock().open_streams -= 1;
        self.changed.notify_all();
    }

    fn push(&self, line: Line) {
        let mut state = self.lock();
        if state.lines.len() == LINES_KEPT {
            state.lines.pop_front();
            state.dropped += 1;
        }
        state.lines.push_back(line);
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
    fn count(&self) -> u64 {
        self.dropped + u64::try_from(self.lines.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: impl Into<Vec<u8>>) -> Arc<Output> {
        let output = Arc::new(Output::default());
        output
            .capture(Stream::Stdout, std::io::Cursor::new(text.into()))
            .unwrap();
        assert!(output.wait_closed(Duration::from_secs(30)));
        output
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
