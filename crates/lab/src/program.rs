//! Programs under test: started, watched, hurt, and gone when the test is.
//!
//! [`Program`] says what to run, [`Program::start`] gives a [`Process`]. Each runs in a session of its
//! own; its output is captured line by line. Dropping the [`Process`] kills it together with everything
//! it started, and prints the end of its output if the test is panicking. When the test process itself
//! is killed, the kernel kills the program, and a guardian process what the program had started (all
//! that kept the environment it was given).

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::thread::{Gid, Uid};

pub use self::output::{Line, Stream};
use self::output::{NoLine, Output};
use self::sweep::Family;
use crate::net::Host;

mod output;
pub(crate) mod spawner;
mod sweep;

/// How much of the output an error or a panic shows.
const TAIL_LINES: usize = 50;
/// For what the kernel does at once, on a machine that may be busy.
const KERNEL_TIME: Duration = Duration::from_secs(10);

/// What went wrong with a program under test.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system reported.
        #[source]
        source: std::io::Error,
    },
    /// It could not be signalled, watched or reaped.
    #[error("cannot {operation} {} (pid {pid})", program.display())]
    Control {
        /// What was to be done.
        operation: &'static str,
        /// The program.
        program: PathBuf,
        /// Its process.
        pid: i32,
        /// What the system reported.
        #[source]
        source: std::io::Error,
    },
    /// It did not print what was waited for.
    #[error("{} did not print {wanted} within {within:?} ({outcome})\n{tail}", program.display())]
    NoSuchLine {
        /// The program.
        program: PathBuf,
        /// What was waited for.
        wanted: String,
        /// For how long.
        within: Duration,
        /// Whether it runs, or how it ended.
        outcome: String,
        /// The end of its output.
        tail: String,
    },
    /// It did not end.
    #[error("{} did not end within {within:?}\n{tail}", program.display())]
    StillRunning {
        /// The program.
        program: PathBuf,
        /// For how long it was waited for.
        within: Duration,
        /// The end of its output.
        tail: String,
    },
}

/// What to run, and where.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    clear_env: bool,
    cwd: Option<PathBuf>,
    stdin: Option<Vec<u8>>,
    user: Option<(Uid, Gid)>,
    network: Option<Arc<OwnedFd>>,
}

impl Program {
    /// A program by its path: for a binary of the crate under test, `env!("CARGO_BIN_EXE_<name>")`.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            stdin: None,
            user: None,
            network: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Passes nothing of the test's own environment on. What the lab needs to find the program's
    /// children again is set nevertheless.
    #[must_use]
    pub fn env_clear(mut self) -> Self {
        self.clear_env = true;
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Self {
        self.cwd = Some(dir.as_ref().to_owned());
        self
    }

    /// Gives the program `bytes` on its standard input, then the end of it. Without this, the input is
    /// empty.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Runs it as another user, without supplementary groups. Needs root.
    #[must_use]
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        self.user = Some((Uid::from_raw(uid), Gid::from_raw(gid)));
        self
    }

    /// Runs it on a host of a [`Net`](crate::net::Net).
    #[must_use]
    pub fn on(mut self, host: &Host) -> Self {
        self.network = Some(host.namespace());
        self
    }

    /// Starts it.
    pub fn start(&self) -> Result<Process, ProgramError> {
        let failed = |source| ProgramError::Start {
            program: self.path.clone(),
            source,
        };
        let (variable, value) = spawner::new_marker();
        let mut command = self.command();
        command.env(variable, &value);
        let mut child = spawner::spawn(command).map_err(failed)?;

        let pid = Pid::from_child(&child);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on the child has an owner that ends it, whatever fails below.
        let process = Process {
            program: self.clone(),
            pid,
            state: State::Unreaped(child),
            family: Family::new(format!("{variable}={value}")),
            output: Arc::default(),
        };
        if let Some(stdout) = stdout {
            process
                .output
                .capture(Stream::Stdout, stdout)
                .map_err(failed)?;
        }
        if let Some(stderr) = stderr {
            process
                .output
                .capture(Stream::Stderr, stderr)
                .map_err(failed)?;
        }
        if let (Some(mut stdin), Some(bytes)) = (stdin, self.stdin.clone()) {
            // A thread, since the program may print more than a pipe holds before it reads this.
            std::thread::Builder::new()
                .name("lab-stdin".to_owned())
                // A program that does not read all of its input is not at fault.
                .spawn(move || drop(stdin.write_all(&bytes)))
                .map_err(failed)?;
        }
        Ok(process)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if self.clear_env {
            command.env_clear();
        }
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(if self.stdin.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        if let Some(namespace) = &self.network {
            crate::net::enter_before_exec(&mut command, Arc::clone(namespace));
        }
        if let Some((uid, gid)) = self.user {
            become_user_before_exec(&mut command, uid, gid);
        }
        command
    }
}

/// Not [`Command::uid`]: that takes effect before the network namespace is entered, which needs root.
#[expect(unsafe_code, reason = "Command::pre_exec is unsafe by nature")]
fn become_user_before_exec(command: &mut Command, uid: Uid, gid: Gid) {
    // SAFETY: the closure makes system calls only, in a child that has one thread.
    unsafe {
        command.pre_exec(move || {
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_gid(gid, gid, gid)?;
            rustix::thread::set_thread_res_uid(uid, uid, uid)?;
            Ok(())
        });
    }
}

#[derive(Debug)]
enum State {
    /// The pid belongs to the program, running or dead.
    Unreaped(Child),
    Ended(ExitStatus),
}

/// A program that was started. Dropping it ends it, and all that it started.
#[derive(Debug)]
pub struct Process {
    program: Program,
    pid: Pid,
    state: State,
    family: Family,
    output: Arc<Output>,
}

/// A point in a program's output, from [`Process::mark`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u64);

impl Process {
    /// The program's pid. It is the program's own as long as this handle has not seen it end.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether it runs (stopped counts).
    pub fn is_running(&mut self) -> Result<bool, ProgramError> {
        Ok(self.try_wait(Duration::ZERO)?.is_none())
    }

    /// Waits for a line, printed since the start, that contains `text`.
    pub fn wait_for_line(&mut self, text: &str, within: Duration) -> Result<Line, ProgramError> {
        self.wait_for_line_after(Mark(0), text, within)
    }

    /// Waits for a line, printed after `mark`, that contains `text`.
    pub fn wait_for_line_after(
        &mut self,
        mark: Mark,
        text: &str,
        within: Duration,
    ) -> Result<Line, ProgramError> {
        let wanted = |line: &Line| line.text.contains(text);
        self.wait_for_line_where(mark, &format!("{text:?}"), within, wanted)
    }

    /// Waits for a line, printed after `mark`, that `wanted` accepts; `what` describes it in the error.
    pub fn wait_for_line_where(
        &mut self,
        mark: Mark,
        what: &str,
        within: Duration,
        wanted: impl FnMut(&Line) -> bool,
    ) -> Result<Line, ProgramError> {
        self.output
            .wait_for(mark.0, within, wanted)
            .or_else(|missing| {
                let outcome = match (self.try_wait(Duration::ZERO)?, missing) {
                    (Some(status), _) => format!("it ended with {status}"),
                    (None, NoLine::TimeUp) => "it still runs".to_owned(),
                    (None, NoLine::Closed) => "it closed its output".to_owned(),
                };
                Err(ProgramError::NoSuchLine {
                    program: self.program.path.clone(),
                    wanted: what.to_owned(),
                    within,
                    outcome,
                    tail: self.tail(),
                })
            })
    }

    /// The present end of the output, for [`wait_for_line_after`](Self::wait_for_line_after).
    pub fn mark(&self) -> Mark {
        Mark(self.output.count())
    }

    /// The lines kept, oldest first. After the program has ended these are all, up to the bound.
    pub fn lines(&self) -> Vec<Line> {
        self.output.lines()
    }

    /// What was printed on one of the streams, as one text.
    pub fn text(&self, stream: Stream) -> String {
        let mut text = String::new();
        for line in self.lines().iter().filter(|line| line.stream == stream) {
            text.push_str(&line.text);
            text.push('\n');
        }
        text
    }

    /// How many lines were lost to the bound on memory.
    pub fn dropped_lines(&self) -> u64 {
        self.output.dropped()
    }

    /// Sends a signal to the program's main process. One that has ended is left alone.
    pub fn signal(&mut self, signal: Signal) -> Result<(), ProgramError> {
        let State::Unreaped(_) = self.state else {
            return Ok(());
        };
        let sent = self
            .pidfd()
            .and_then(|process| match pidfd_send_signal(process, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
                Err(error) => Err(error.into()),
            });
        sent.map_err(|source| self.failed("signal", source))
    }

    /// Stops the main process, as if the scheduler had forgotten it, until [`sigcont`](Self::sigcont).
    pub fn sigstop(&mut self) -> Result<(), ProgramError> {
        self.signal(Signal::STOP)
    }

    /// Lets a stopped main process go on.
    pub fn sigcont(&mut self) -> Result<(), ProgramError> {
        self.signal(Signal::CONT)
    }

    /// Kills the main process, and it alone: what it started lives on, as after a crash.
    pub fn kill9(&mut self) -> Result<ExitStatus, ProgramError> {
        self.signal(Signal::KILL)?;
        self.wait(KERNEL_TIME)
    }

    /// Kills the main process and everything that it started.
    pub fn kill_all(&mut self) -> Result<ExitStatus, ProgramError> {
        let unreaped = match self.state {
            State::Unreaped(_) => Some(self.pid),
            State::Ended(_) => None,
        };
        self.family
            .kill_all(unreaped, KERNEL_TIME)
            .map_err(|source| self.failed("kill all of", source))?;
        self.wait(KERNEL_TIME)
    }

    /// Asks the program to end, and waits. One that does not end within `grace` is killed with all
    /// that it started, and reported as [`ProgramError::StillRunning`].
    pub fn terminate(&mut self, grace: Duration) -> Result<ExitStatus, ProgramError> {
        self.signal(Signal::TERM)?;
        let outcome = self.wait(grace);
        if let Err(ProgramError::StillRunning { .. }) = outcome {
            self.kill_all()?;
        }
        outcome
    }

    /// Waits for the program to end by itself.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus, ProgramError> {
        self.try_wait(within)?
            .ok_or_else(|| ProgramError::StillRunning {
                program: self.program.path.clone(),
                within,
                tail: self.tail(),
            })
    }

    /// Starts the program again, the same way; if it runs, its main process is killed first. What it
    /// had started lives on, and still ends with this handle. The output begins anew.
    pub fn restart(&mut self) -> Result<(), ProgramError> {
        self.kill9()?;
        let mut old = self.program.start()?;
        std::mem::swap(self, &mut old);
        self.family.adopt(&mut old.family);
        Ok(())
    }

    fn try_wait(&mut self, within: Duration) -> Result<Option<ExitStatus>, ProgramError> {
        let child = match &mut self.state {
            State::Ended(status) => return Ok(Some(*status)),
            State::Unreaped(child) => child,
        };
        let family = &mut self.family;
        let pid = self.pid;
        let mut wait = || {
            let process = pidfd_open(pid, PidfdFlags::empty())?;
            if !sweep::wait_ended(&process, within)? {
                return Ok(None);
            }
            family.remember(pid)?;
            child.wait().map(Some)
        };
        let ended = wait().map_err(|source| self.failed("wait for", source))?;
        if let Some(status) = ended {
            self.state = State::Ended(status);
            // Its last words may still be in the pipe. Others may hold that open, so its end is not waited for long; what is in it
            // is read, however busy the machine is.
            if !self.output.wait_closed(Duration::from_millis(200)) {
                self.output.wait_drained(Duration::from_secs(60));
            }
        }
        Ok(ended)
    }

    fn pidfd(&self) -> std::io::Result<OwnedFd> {
        Ok(pidfd_open(self.pid, PidfdFlags::empty())?)
    }

    fn tail(&self) -> String {
        let lines = self.lines();
        let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        let mut tail = format!("last {} of {} lines:", shown.len(), self.output.count());
        for line in shown {
            let stream = match line.stream {
                Stream::Stdout => "out",
                Stream::Stderr => "err",
            };
            tail.push_str(&format!("\n  {stream}| {}", line.text));
        }
        tail
    }

    fn failed(&self, operation: &'static str, source: std::io::Error) -> ProgramError {
        ProgramError::Control {
            operation,
            program: self.program.path.clone(),
            pid: self.pid(),
            source,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{} (pid {}), {}",
                self.program.path.display(),
                self.pid(),
                self.tail()
            );
        }
        if let Err(error) = self.kill_all() {
            eprintln!("cannot clean up: {error}");
        }
    }
}

#[cfg(test)]
mod tests;
