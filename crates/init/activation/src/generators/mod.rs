//! Generators: programs that write unit files when units are loaded.
//!
//! [`GeneratorRun::start`] runs all of them at once and returns. The run is one descriptor for the caller's event loop;
//! [`GeneratorRun::advance`] is called when it is readable, and [`GeneratorRun::finish`] when everything has ended. A
//! caller that has nothing else to do uses [`GeneratorRun::wait_at_most`].
//!
//! # Invariants
//!
//! - Generators write into new folders. Only [`GeneratorRun::finish`] puts those in place of the old, each in one step:
//!   until then, and if a run is given up, what the last run made stays.
//! - A file that comes out as it was before is the same file as before, so that a reload does not read it again.
//! - A generator that takes too long is killed with everything in its process group; so are those that still run when
//!   a run is dropped.
//! - What a generator prints is kept up to a limit, and the rest is counted.

mod output;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use thiserror::Error;

use output::Staging;
pub use output::{OutputFolders, ReplaceOutputError};

/// Generators that are run; more in one folder are a mistake.
const MAX_GENERATORS: usize = 1024;
/// What is kept of a generator's output.
const MAX_OUTPUT: usize = 16 << 10;
/// Stands for the deadline among the numbers of the generators.
const DEADLINE: u64 = u64::MAX;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct GeneratorSettings {
    /// Where generators are looked for; a name in an earlier folder hides the same name in later ones.
    pub folders: Vec<PathBuf>,
    /// What they are given as arguments, and where their files end up.
    pub output: OutputFolders,
    /// Their whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// How long all of them together may take.
    pub time_limit: Duration,
}

/// How a generator ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeneratorOutcome {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// It took too long and was killed.
    TimedOut,
    /// It could not be started.
    NotStarted(io::ErrorKind),
}

impl GeneratorOutcome {
    /// Whether it went well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        *self == Self::Exited(0)
    }

    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Killed(signal.unwrap_or(0)),
        }
    }
}

/// What became of a generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorReport {
    /// The program.
    pub program: PathBuf,
    /// How it ended.
    pub outcome: GeneratorOutcome,
    /// What it printed, on either stream.
    pub printed: String,
    /// Bytes that it printed beyond what is kept.
    pub lost: u64,
}

/// Why generators cannot be run.
#[derive(Debug, Error)]
pub enum RunGeneratorsError {
    /// The new folders cannot be prepared.
    #[error("cannot prepare the generators' folder {}", path.display())]
    Prepare {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no descriptor to be had.
    #[error("cannot wait for generators")]
    Wait {
        /// Why.
        #[source]
        source: Errno,
    },
}

/// The programs that would be run, in the order of their names. A name that stands for an empty file, a link to
/// `/dev/null` or something that is not executable is masked.
#[must_use]
pub fn find_generators(folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(folder) else {
            continue;
        };
        for entry in entries.filter_map(Result::ok).take(MAX_GENERATORS) {
            let name = entry.file_name();
            if !name.as_encoded_bytes().starts_with(b".") {
                found.entry(name).or_insert_with(|| entry.path());
            }
        }
    }
    let runnable = |path: &PathBuf| {
        let metadata = fs::metadata(path);
        metadata.is_ok_and(|file| {
            file.is_file() && file.len() > 0 && file.permissions().mode() & 0o111 != 0
        })
    };
    found
        .into_values()
        .filter(runnable)
        .take(MAX_GENERATORS)
        .collect()
}

/// Generators that run.
#[derive(Debug)]
pub struct GeneratorRun {
    epoll: OwnedFd,
    timer: OwnedFd,
    generators: Vec<Generator>,
    running: usize,
    staging: Staging,
}

#[derive(Debug)]
struct Generator {
    program: PathBuf,
    state: State,
    printed: Vec<u8>,
    lost: u64,
}

#[derive(Debug)]
enum State {
    Running {
        child: Child,
        /// Gone once it can print no more: an end that hung up would be readable for ever.
        pipe: Option<OwnedFd>,
        /// Readable when it has ended.
        #[expect(dead_code, reason = "kept open for the event loop")]
        pidfd: OwnedFd,
        killed: bool,
    },
    Ended(GeneratorOutcome),
}

impl GeneratorRun {
    /// Starts all generators.
    ///
    /// # Errors
    /// Their folders cannot be prepared. A generator that cannot be started is not an error of the run.
    pub fn start(settings: &GeneratorSettings) -> Result<Self, RunGeneratorsError> {
        let staging = Staging::prepare(&settings.output)?;
        let wait = |source| RunGeneratorsError::Wait { source };
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(wait)?;
        let timer = deadline(settings.time_limit).map_err(wait)?;
        epoll::add(&epoll, &timer, EventData::new_u64(DEADLINE), EventFlags::IN).map_err(wait)?;
        let mut run = Self {
            epoll,
            timer,
            generators: Vec::new(),
            running: 0,
            staging,
        };
        for program in find_generators(&settings.folders) {
            let state = match run.spawn(&program, settings) {
                Ok(state) => {
                    run.running += 1;
                    state
                }
                Err(error) => State::Ended(GeneratorOutcome::NotStarted(error.kind())),
            };
            run.generators.push(Generator {
                program,
                state,
                printed: Vec::new(),
                lost: 0,
            });
        }
        Ok(run)
    }

    fn spawn(&self, program: &Path, settings: &GeneratorSettings) -> io::Result<State> {
        let (pipe, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let mut child = Command::new(program)
            .args(self.staging.arguments())
            .env_clear()
            .envs(
                settings
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(write_end.try_clone()?)
            .stderr(write_end)
            .process_group(0)
            .spawn()?;
        let watch = || {
            let number = u64::try_from(self.generators.len()).unwrap_or(DEADLINE) * 2;
            let pidfd = pidfd_open(pid_of(&child)?, PidfdFlags::empty())?;
            let events = EventFlags::IN;
            epoll::add(&self.epoll, &pidfd, EventData::new_u64(number), events)?;
            epoll::add(&self.epoll, &pipe, EventData::new_u64(number + 1), events)?;
            Ok(pidfd)
        };
        match watch() {
            Ok(pidfd) => Ok(State::Running {
                child,
                pipe: Some(pipe),
                pidfd,
                killed: false,
            }),
            Err(error) => {
                let error: Errno = error;
                end(&mut child);
                Err(error.into())
            }
        }
    }

    /// Takes what has happened, without waiting. Whether everything has ended.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub fn advance(&mut self) -> Result<bool, RunGeneratorsError> {
        self.turn(Some(&Timespec::default()))?;
        Ok(self.running == 0)
    }

    /// Waits until everything has ended, but not longer than this. Whether everything has.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub fn wait_at_most(&mut self, patience: Duration) -> Result<bool, RunGeneratorsError> {
        let until = Instant::now().checked_add(patience);
        while self.running > 0 {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            self.turn(timeout.as_ref())?;
        }
        Ok(true)
    }

    fn turn(&mut self, timeout: Option<&Timespec>) -> Result<(), RunGeneratorsError> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(64);
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout,
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(RunGeneratorsError::Wait { source }),
        }
        for event in events {
            match event.data.u64() {
                DEADLINE => self.time_is_up(),
                number => {
                    let index = usize::try_from(number / 2).unwrap_or(usize::MAX);
                    let ended = number % 2 == 0;
                    if let Some(generator) = self.generators.get_mut(index)
                        && generator.advance(ended)
                    {
                        self.running -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn time_is_up(&mut self) {
        let _ = epoll::delete(&self.epoll, &self.timer);
        for generator in &mut self.generators {
            if let State::Running { child, killed, .. } = &mut generator.state {
                *killed = true;
                kill_group(child);
            }
        }
    }

    /// Puts what the generators wrote in place and tells what became of each. Those that still run are killed first.
    ///
    /// # Errors
    /// A folder cannot be replaced; what the last run made stays there.
    pub fn finish(mut self) -> Result<Vec<GeneratorReport>, ReplaceOutputError> {
        for generator in &mut self.generators {
            if let State::Running { child, .. } = &mut generator.state {
                end(child);
                generator.state = State::Ended(GeneratorOutcome::TimedOut);
            }
        }
        self.staging.replace()?;
        let generators = std::mem::take(&mut self.generators);
        Ok(generators.into_iter().map(Generator::report).collect())
    }
}

impl AsFd for GeneratorRun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Drop for GeneratorRun {
    fn drop(&mut self) {
        for generator in &mut self.generators {
            if let State::Running { child, .. } = &mut generator.state {
                end(child);
            }
        }
    }
}

impl Generator {
    /// Takes output and, if `ended` says so, the end. Whether it has ended by this.
    fn advance(&mut self, ended: bool) -> bool {
        self.read();
        let State::Running { child, killed, .. } = &mut self.state else {
            return false;
        };
        if !ended {
            return false;
        }
        let outcome = match child.try_wait() {
            Ok(None) => return false,
            _ if *killed => GeneratorOutcome::TimedOut,
            Ok(Some(status)) => GeneratorOutcome::of(status),
            Err(error) => GeneratorOutcome::NotStarted(error.kind()),
        };
        // Dropping the descriptors takes them out of the set that is waited on.
        self.state = State::Ended(outcome);
        true
    }

    fn read(&mut self) {
        let State::Running {
            pipe: slot @ Some(_),
            ..
        } = &mut self.state
        else {
            return;
        };
        let mut chunk = [0u8; 4096];
        // A bounded number of times: one that prints without end must not keep us from the others.
        for _ in 0..64 {
            let Some(pipe) = slot.as_ref() else {
                return;
            };
            match rustix::io::read(pipe, &mut chunk) {
                Err(Errno::AGAIN) => return,
                Ok(0) => *slot = None,
                Ok(length) => {
                    let room = MAX_OUTPUT - self.printed.len();
                    let kept = length.min(room);
                    self.printed.extend_from_slice(&chunk[..kept]);
                    self.lost += (length - kept) as u64;
                }
                Err(Errno::INTR) => {}
                Err(_) => *slot = None,
            }
        }
    }

    fn report(self) -> GeneratorReport {
        let outcome = match self.state {
            State::Ended(outcome) => outcome,
            State::Running { .. } => GeneratorOutcome::TimedOut,
        };
        GeneratorReport {
            program: self.program,
            outcome,
            printed: String::from_utf8_lossy(&self.printed).into_owned(),
            lost: self.lost,
        }
    }
}

fn pid_of(child: &Child) -> Result<Pid, Errno> {
    let raw = i32::try_from(child.id()).map_err(|_| Errno::SRCH)?;
    Pid::from_raw(raw).ok_or(Errno::SRCH)
}

fn kill_group(child: &Child) {
    if let Ok(pid) = pid_of(child) {
        // It leads a process group of its own, so its children are killed with it.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// Kills and reaps.
fn end(child: &mut Child) {
    kill_group(child);
    let _ = child.wait();
}

fn deadline(after: Duration) -> Result<OwnedFd, Errno> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    let at = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec {
            tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            // Zero would mean never.
            tv_nsec: after.subsec_nanos().max(1).into(),
        },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &at)?;
    Ok(timer)
}
