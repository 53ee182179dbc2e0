//! The probe as a child process that never outlives the test.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The longest that anything in these tests may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Probe {
    child: Child,
    lines: Option<Receiver<String>>,
}

/// The command that starts the probe in one of its modes.
pub(crate) fn command(mode: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "probe::probe", "--nocapture", "--test-threads=1"])
        .env("MUSTER_PROBE", mode)
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .env_remove("WATCHDOG_PID")
        .env_remove("JOURNAL_STREAM")
        .env_remove("MUSTER_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

impl Probe {
    /// Starts the probe and reads its standard error line by line.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut probe = Self::start_unread(command);
        let stderr = probe.child.stderr.take().expect("it is piped");
        let (send, lines) = sync_channel(100_000);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        probe.lines = Some(lines);
        probe
    }

    /// Starts the probe; nobody reads its standard error.
    pub(crate) fn start_unread(command: &mut Command) -> Self {
        Self {
            child: command.spawn().expect("start the probe"),
            lines: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("signal the probe");
    }

    /// The next line that contains `text`; lines before it are dropped.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let lines = self.lines.as_ref().expect("its lines are read");
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with {text:?} in {seen:#?}"),
            }
        }
    }

    /// Every line up to the end of the process.
    pub(crate) fn rest(&self) -> Vec<String> {
        self.lines
            .as_ref()
            .expect("its lines are read")
            .iter()
            .collect()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("wait for the probe") {
                return status;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the probe did not end in {PATIENCE:?}");
    }

    /// Reads standard error from now on, to its end.
    pub(crate) fn read_all(&mut self) -> String {
        let mut stderr: ChildStderr = self.child.stderr.take().expect("nobody has read it");
        let mut text = String::new();
        stderr.read_to_string(&mut text).expect("the log is text");
        text
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // It may have ended already.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}
