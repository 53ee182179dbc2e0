//! A machine that was booted.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use super::group::Group;
use super::processes::{MachineProcess, is_alive, processes_of};
use super::{MachineBuilder, MachineError, SEARCH_PATH};
use crate::program::{Line, Process, Program, Stream};
use crate::try_poll_for;

/// How long a command may take that was given no time of its own.
const COMMAND_TIME: Duration = Duration::from_secs(60);
/// What unshare(1) of util-linux 2.38 says when its child was killed by SIGKILL: it fails to end the same way.
const UNSHARE_STUMBLES: &str = "unshare: sigprocmask unblock failed";
/// How much of the console an error shows.
const TAIL_LINES: usize = 40;

/// How a machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its init switched it off.
    PowerOff,
    /// Its init asked for a restart.
    Reboot,
    /// Its init ended by itself, with this status.
    Exited(i32),
    /// Its init was killed, by this signal.
    Killed(i32),
}

impl From<ExitStatus> for Ended {
    /// In a PID namespace, reboot(2) ends the first process by a signal that says what was asked for.
    fn from(status: ExitStatus) -> Self {
        match (status.signal(), status.code()) {
            (Some(signal), _) if signal == Signal::INT.as_raw() => Self::PowerOff,
            (Some(signal), _) if signal == Signal::HUP.as_raw() => Self::Reboot,
            (Some(signal), _) => Self::Killed(signal),
            (None, code) => Self::Exited(code.unwrap_or_default()),
        }
    }
}

/// What a command in a machine printed, and how it ended.
#[derive(Debug, Clone)]
pub struct CommandOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A machine that was booted. Dropping it ends it.
#[derive(Debug)]
pub struct Machine {
    // In this order: the processes end before their group goes, and that before the folder.
    process: Process,
    first: i32,
    group: Option<Group>,
    folder: TempDir,
    /// What it shows may be needed until it ends.
    _kept: Vec<Arc<TempDir>>,
}

impl Machine {
    /// A machine with nothing but its standard units.
    pub fn builder() -> MachineBuilder {
        MachineBuilder::new()
    }

    pub(super) fn new(
        process: Process,
        first: i32,
        group: Option<Group>,
        folder: TempDir,
        kept: Vec<Arc<TempDir>>,
    ) -> Self {
        Self {
            process,
            first,
            group,
            folder,
            _kept: kept,
        }
    }

    /// The number of its process 1 on the host.
    pub fn host_pid(&self) -> i32 {
        self.first
    }

    /// Its control group on the host, if it has one.
    pub fn cgroup(&self) -> Option<&Path> {
        self.group.as_ref().map(Group::path)
    }

    /// How the host reaches a file of the machine, for as long as the machine runs.
    pub fn path(&self, inside: impl AsRef<Path>) -> PathBuf {
        let inside = inside.as_ref();
        let root = PathBuf::from(format!("/proc/{}/root", self.first));
        root.join(inside.strip_prefix("/").unwrap_or(inside))
    }

    /// The folder of the host that is the machine's `/etc/systemd/system`; it stays when the machine has ended. A machine with
    /// [another root](MachineBuilder::root) has copied its files instead.
    pub fn unit_folder(&self) -> PathBuf {
        self.folder.path().join("units")
    }

    /// Reads a file of the machine.
    pub fn read(&self, inside: impl AsRef<Path>) -> Result<String, MachineError> {
        let bytes = fs::read(self.path(&inside)).map_err(|source| MachineError::File {
            operation: "read",
            path: inside.as_ref().to_owned(),
            source,
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Puts a file of the machine there whole, for whoever may look at any moment.
    pub fn replace(
        &self,
        inside: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
    ) -> Result<(), MachineError> {
        let mut beside = inside.as_ref().as_os_str().to_owned();
        beside.push(".beside");
        self.write(&beside, content)?;
        fs::rename(self.path(&beside), self.path(&inside)).map_err(|source| MachineError::File {
            operation: "replace",
            path: inside.as_ref().to_owned(),
            source,
        })
    }

    /// Writes a file of the machine, and the folders above it.
    pub fn write(
        &self,
        inside: impl AsRef<Path>,
        content: impl AsRef<[u8]>,
    ) -> Result<(), MachineError> {
        let path = self.path(&inside);
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, content))
            .map_err(|source| MachineError::File {
                operation: "write",
                path: inside.as_ref().to_owned(),
                source,
            })
    }

    /// Waits until a file of any kind exists in the machine.
    pub fn wait_for_path(
        &self,
        inside: impl AsRef<Path>,
        within: Duration,
    ) -> Result<(), MachineError> {
        let path = self.path(&inside);
        // A machine that has ended has no files either, and nothing more to wait for.
        let found = try_poll_for(within, || {
            let exists = path.symlink_metadata().is_ok();
            (exists || !is_alive(self.first)).then_some(exists)
        });
        if found == Some(true) {
            return Ok(());
        }
        Err(MachineError::NoSuchPath {
            path: inside.as_ref().to_owned(),
            within,
            console: self.tail(),
        })
    }

    /// A program to be started inside the machine, as root, with `PATH` as its environment.
    pub fn program(&self, argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Program {
        Program::new("nsenter")
            .arg(format!("--target={}", self.first))
            .args(["--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup"])
            .args(["--root", "--wdns=/", "--"])
            .args(argv)
            .env_clear()
            .env("PATH", SEARCH_PATH)
    }

    /// Runs a command inside the machine to its end, however it ends.
    pub fn run(
        &self,
        argv: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<CommandOutput, MachineError> {
        self.run_within(COMMAND_TIME, argv)
    }

    /// As [`run`](Self::run), with a time of its own.
    pub fn run_within(
        &self,
        within: Duration,
        argv: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<CommandOutput, MachineError> {
        let argv: Vec<OsString> = argv
            .into_iter()
            .map(|word| word.as_ref().to_owned())
            .collect();
        let run = || {
            let mut process = self.program(&argv).start()?;
            let status = process.wait(within)?;
            Ok((status, process))
        };
        let (status, process) = run().map_err(|source| MachineError::Command {
            command: argv.join(OsStr::new(" ")).to_string_lossy().into_owned(),
            source: Box::new(source),
        })?;
        Ok(CommandOutput {
            status,
            stdout: process.text(Stream::Stdout),
            stderr: process.text(Stream::Stderr),
        })
    }

    /// The processes in it, commands that were run in it included, by their numbers inside.
    pub fn processes(&self) -> Result<Vec<MachineProcess>, MachineError> {
        processes_of(self.first).map_err(MachineError::Processes)
    }

    /// What its init printed so far.
    pub fn console(&self) -> Vec<Line> {
        self.process.lines()
    }

    /// Waits for a line of its init that contains `text`.
    pub fn wait_for_line(&mut self, text: &str, within: Duration) -> Result<Line, MachineError> {
        self.process
            .wait_for_line(text, within)
            .map_err(MachineError::Init)
    }

    /// Sends its process 1 a signal. As with a container, only those that it handles and SIGKILL arrive.
    pub fn signal(&self, signal: Signal) -> Result<(), MachineError> {
        let sent = Pid::from_raw(self.first)
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
            .and_then(|process| pidfd_send_signal(process, signal));
        sent.map_err(|source| MachineError::Processes(source.into()))
    }

    /// Waits for it to end by itself.
    pub fn wait_ended(&mut self, within: Duration) -> Result<Ended, MachineError> {
        let status = self.process.wait(within).map_err(MachineError::Init)?;
        let stumbled = || {
            self.console()
                .iter()
                .any(|line| line.text.starts_with(UNSHARE_STUMBLES))
        };
        if status.code() == Some(1) && stumbled() {
            return Ok(Ended::Killed(Signal::KILL.as_raw()));
        }
        Ok(Ended::from(status))
    }

    /// Switches it off in the middle of whatever it does.
    pub fn kill9(&mut self) -> Result<(), MachineError> {
        self.process
            .kill_all()
            .map(drop)
            .map_err(MachineError::Init)
    }

    fn tail(&self) -> String {
        let lines = self.console();
        let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        let mut tail = format!("last {} of {} lines of its init:", shown.len(), lines.len());
        for line in shown {
            tail.push_str("\n  | ");
            tail.push_str(&line.text);
        }
        tail
    }
}
