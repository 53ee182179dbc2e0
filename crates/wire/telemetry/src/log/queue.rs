//! A bounded queue of log lines and the thread that writes them.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The longest line; what is longer is cut.
const MAX_LINE: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The thread has taken lines that it has not written yet.
    writing: bool,
    lost: u64,
    /// How much of `lost` the log itself has said.
    told: u64,
}

/// What the log thread has to do next.
enum Work {
    Lines(VecDeque<Vec<u8>>),
    TellLost(u64),
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    limit: usize,
}

impl Queue {
    /// A queue of `limit` bytes that a new thread writes to `output`; `announce` makes the line that
    /// says how many were lost.
    pub(super) fn start(
        limit: usize,
        announce: impl Fn(u64) -> String + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            limit,
        });
        let writer = Arc::clone(&queue);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || writer.write(announce, output))?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if state.bytes + line.len() > self.limit {
            state.lost += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        self.changed.notify_all();
    }

    pub(super) fn lost(&self) -> u64 {
        self.lock().lost
    }

    pub(super) fn flush(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let mut state = self.lock();
        while state.writing || !state.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn next(&self) -> Work {
        let mut state = self.lock();
        state.writing = false;
        self.changed.notify_all();
        loop {
            if !state.lines.is_empty() {
                state.writing = true;
                state.bytes = 0;
                return Work::Lines(std::mem::take(&mut state.lines));
            }
            // Only when the output has caught up: before, the message would itself be in the way.
            if state.lost > state.told {
                let lost = state.lost - state.told;
                state.told = state.lost;
                state.writing = true;
                return Work::TellLost(lost);
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The thread's life. An output that fails loses lines, and that is counted like a full queue.
    fn write(&self, announce: impl Fn(u64) -> String, mut output: impl Write) {
        loop {
            let failed = match self.next() {
                Work::Lines(lines) => lines
                    .iter()
                    .filter(|line| output.write_all(line).is_err())
                    .count(),
                Work::TellLost(lost) => {
                    // Whether this one line gets through changes nothing about what was lost.
                    let _told = output.write_all(announce(lost).as_bytes());
                    0
                }
            };
            if failed > 0 {
                let failed = u64::try_from(failed).unwrap_or(u64::MAX);
                let mut state = self.lock();
                state.lost = state.lost.saturating_add(failed);
                state.told = state.told.saturating_add(failed);
            }
        }
    }
}

/// Makes one buffer per event, which becomes one line of the queue.
#[derive(Debug)]
pub(super) struct LineMaker {
    queue: Arc<Queue>,
    with_priority: bool,
}

impl LineMaker {
    /// `with_priority`: each line begins with its syslog priority, as `<3>`, which a journal takes off and keeps.
    pub(super) fn new(queue: Arc<Queue>, with_priority: bool) -> Self {
        Self {
            queue,
            with_priority,
        }
    }
}

/// What a journal takes for a level.
fn priority(level: &Level) -> &'static [u8] {
    match *level {
        Level::ERROR => b"<3>",
        Level::WARN => b"<4>",
        Level::INFO => b"<6>",
        _ => b"<7>",
    }
}

impl<'a> MakeWriter<'a> for LineMaker {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line {
            queue: &self.queue,
            bytes: Vec::new(),
        }
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line<'a> {
        let mut line = self.make_writer();
        if self.with_priority {
            line.bytes.extend_from_slice(priority(event.level()));
        }
        line
    }
}

/// One line; queued when it is dropped.
pub(super) struct Line<'a> {
    queue: &'a Queue,
    bytes: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_LINE.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.bytes.is_empty() {
            return;
        }
        if self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
        self.queue.push(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// An output that waits for permission before each line.
    struct Gate {
        open: Receiver<()>,
        written: SyncSender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.open.recv().map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.written.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn announce(lost: u64) -> String {
        format!("lost {lost}\n")
    }

    fn log(queue: &Arc<Queue>, text: &str) {
        let maker = LineMaker::new(Arc::clone(queue), false);
        maker.make_writer().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn a_stalled_output_costs_lines_that_are_counted_and_told_but_never_waits() {
        let (open, gate) = sync_channel(100);
        let (written, lines) = sync_channel(100);
        let output = Gate {
            open: gate,
            written,
        };
        let queue = Queue::start(40, announce, output).unwrap();
        for _ in 0..20 {
            log(&queue, "0123456789\n");
        }
        let lost = queue.lost();
        // Three lines fit; the thread may have taken some before the queue was full.
        assert!((14..=17).contains(&lost), "{lost}");
        assert!(
            !queue.flush(Duration::from_millis(10)),
            "the output is stalled"
        );
        for _ in 0..30 {
            open.send(()).unwrap();
        }
        let mut kept = 0;
        let told = loop {
            let line = lines.recv_timeout(Duration::from_secs(10)).unwrap();
            if line.contains("lost") {
                break line;
            }
            kept += 1;
        };
        assert_eq!(told, announce(lost));
        assert_eq!(kept + lost, 20, "every line was written or counted");
        assert!(queue.flush(Duration::from_secs(10)));
    }

    #[test]
    fn lines_that_the_output_refuses_are_counted() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = Queue::start(1000, announce, Broken).unwrap();
        log(&queue, "a");
        log(&queue, "b");
        let deadline = Instant::now() + Duration::from_secs(10);
        while queue.lost() < 2 && Instant::now() < deadline {
            thread::yield_now();
        }
        assert_eq!(queue.lost(), 2);
    }

    #[test]
    fn a_line_is_cut_at_its_limit_and_ends_in_a_newline() {
        let (open, gate) = sync_channel(100);
        let (written, lines) = sync_channel(100);
        let queue = Queue::start(
            1 << 20,
            announce,
            Gate {
                open: gate,
                written,
            },
        )
        .unwrap();
        open.send(()).unwrap();
        log(&queue, &"x".repeat(2 * MAX_LINE));
        let line = lines.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(line.len(), MAX_LINE + 1);
        assert!(line.ends_with("x\n"));
    }
}
