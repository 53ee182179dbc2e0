//! How one process is run, as a value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sandbox::{Keyring, Sandbox};

/// How one process is run. Descriptors are named by their index in the list that [`Prepared::new`] is given beside it, so
/// that the value can be stored and sent.
///
/// [`Prepared::new`]: crate::Prepared::new
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecContext {
    /// The program's absolute path; with [`Sandbox::program_folders`], its name may do.
    pub program: Box<str>,
    /// Its arguments, the zeroth included.
    pub argv: Vec<Box<str>>,
    /// Its whole environment, as `NAME=value`. `LISTEN_FDS` and its siblings are added for passed descriptors.
    pub environment: Vec<Box<str>>,
    /// Names of variables that are to hold the process's own pid, which nobody knows before it runs.
    pub pid_variables: Vec<Box<str>>,
    /// Where it starts; `/` if nothing is said.
    pub working_directory: Option<WorkingDirectory>,
    /// Whose rights it has; `None` leaves the caller's.
    pub identity: Option<Identity>,
    /// File mode mask.
    pub umask: u16,
    /// The mode of files that are made for standard streams, where they are missing.
    pub stream_mode: u16,
    /// Resource limits that differ from the caller's.
    pub limits: Vec<Limit>,
    /// Nice level.
    pub nice: Option<i8>,
    /// Scheduling policy.
    pub scheduler: Option<Scheduler>,
    /// Processors, by number; empty leaves the caller's.
    pub processors: Vec<u16>,
    /// I/O priority.
    pub io_priority: Option<IoPriority>,
    /// Which memory goes into a core dump.
    pub coredump_filter: Option<u64>,
    /// How late timers may be, in nanoseconds.
    pub timer_slack: Option<u64>,
    /// SIGPIPE is ignored rather than deadly.
    pub ignore_sigpipe: bool,
    /// Executing a program never gives it more rights.
    pub no_new_privileges: bool,
    /// It leads a session of its own.
    pub new_session: bool,
    /// Files of its streams may be where nobody answers: `muster-exec` opens them, so that the caller does not wait.
    pub waits_for_files: bool,
    /// Descriptor 0.
    pub stdin: Stream,
    /// Descriptor 1.
    pub stdout: Stream,
    /// Descriptor 2.
    pub stderr: Stream,
    /// Descriptors from 3 on.
    pub passed: Vec<PassedFd>,
    /// What [`Stream::Terminal`] stands for.
    pub terminal: Option<Terminal>,
    /// Which kernel keyring it gets, as far as the kernel has any. A sandbox says that itself, for whom it may have to ask.
    pub keyring: Keyring,
    /// Which run of its unit it belongs to: found under `invocation_id` in a keyring of its own.
    pub invocation: Option<[u8; 16]>,
    /// What only `muster-exec` can set up; `None` is a process that is executed at once.
    pub sandbox: Option<Box<Sandbox>>,
    /// Where a sandbox's own network namespace is kept: both ends of a pair of datagram sockets, by their places in the
    /// list. The first process that is given the pair makes the namespace, and all others share it.
    pub network_store: Option<[u16; 2]>,
    /// Where a sandbox's own namespace of queues is kept, likewise.
    pub ipc_store: Option<[u16; 2]>,
    /// The group that the process is put into may open files on some file systems only, which holds for the program, but not
    /// for what sets it up: the place of [`bpf::exemptions`](crate::bpf::exemptions) in the list.
    pub exemptions: Option<u16>,
}

impl Default for ExecContext {
    fn default() -> Self {
        Self {
            program: "".into(),
            argv: Vec::new(),
            environment: Vec::new(),
            pid_variables: Vec::new(),
            working_directory: None,
            identity: None,
            umask: 0o022,
            stream_mode: 0o644,
            limits: Vec::new(),
            nice: None,
            scheduler: None,
            processors: Vec::new(),
            io_priority: None,
            coredump_filter: None,
            timer_slack: None,
            ignore_sigpipe: true,
            no_new_privileges: false,
            new_session: true,
            waits_for_files: false,
            stdin: Stream::Null,
            stdout: Stream::Null,
            stderr: Stream::Null,
            passed: Vec::new(),
            terminal: None,
            keyring: Keyring::Inherit,
            invocation: None,
            sandbox: None,
            network_store: None,
            ipc_store: None,
            exemptions: None,
        }
    }
}

impl fmt::Debug for ExecContext {
    /// Values of variables and arguments may be secrets, so only names and what is peculiar are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.environment.iter();
        let names: Vec<&str> = names.filter_map(|text| text.split('=').next()).collect();
        f.debug_struct("ExecContext")
            .field("program", &self.program)
            .field("arguments", &self.argv.len())
            .field("variables", &names)
            .field("working_directory", &self.working_directory)
            .field("identity", &self.identity)
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .field("passed", &self.passed)
            .finish_non_exhaustive()
    }
}

/// Where a process starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingDirectory {
    /// The folder.
    pub path: Box<str>,
    /// `/` takes its place if it cannot be entered.
    pub optional: bool,
}

/// Whose rights a process has. Names were looked up beforehand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// A number that means "leave it as it is" to the kernel, if there is one: the process would keep the caller's rights.
    pub(crate) fn meaningless(&self) -> Option<u32> {
        let numbers = [self.uid, self.gid];
        numbers.into_iter().find(|number| *number == u32::MAX)
    }
}

/// A resource limit; `u64::MAX` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The kernel's number of the resource (`RLIMIT_NOFILE` ...).
    pub resource: u32,
    /// What the process gets.
    pub soft: u64,
    /// How far it may raise that.
    pub hard: u64,
}

/// A scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduler {
    /// The kernel's number of the policy (`SCHED_FIFO` ...).
    pub policy: i32,
    /// Priority within it.
    pub priority: u8,
    /// Children get the normal policy.
    pub reset_on_fork: bool,
}

/// An I/O priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoPriority {
    /// The kernel's number of the class.
    pub class: u8,
    /// Priority within it.
    pub level: u8,
}

/// What a standard stream is connected to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Nothing.
    #[default]
    Null,
    /// A descriptor of the list.
    Fd(u16),
    /// A file, opened with the caller's rights.
    File {
        /// Its path.
        path: Box<str>,
        /// How it is opened.
        access: FileAccess,
    },
    /// The terminal of the context.
    Terminal,
    /// The same as a stream with a lower number.
    Same(u8),
}

/// How a file is opened for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileAccess {
    /// To read. It must exist.
    Read,
    /// To read and write, from its beginning; made if missing.
    ReadWrite,
    /// To write, from its beginning; made if missing.
    Write,
    /// To write at its end; made if missing.
    Append,
    /// To write, emptied first; made if missing.
    Truncate,
}

/// A descriptor that the process gets at 3 or later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedFd {
    /// Its index in the list.
    pub fd: u16,
    /// Its name in `LISTEN_FDNAMES`.
    pub name: Box<str>,
    /// Whether reads and writes may wait; `None` leaves that as it is.
    pub nonblocking: Option<bool>,
}

/// A terminal for a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terminal {
    /// The device.
    pub path: Box<str>,
    /// Whether it becomes the session's controlling terminal.
    pub control: TakeControl,
    /// Sane settings first, whatever it is used for.
    pub reset: bool,
    /// Everybody else is disconnected first.
    pub hang_up: bool,
    /// The screen is cleared first.
    pub clear: bool,
    /// Height and width, where they are to be set.
    pub size: Option<(u16, u16)>,
}

/// Whether a terminal becomes the controlling one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TakeControl {
    /// It does not.
    No,
    /// If no other session has it; otherwise the start fails.
    IfFree,
    /// As soon as no other session has it. Only `muster-exec` waits.
    Wait,
    /// From another session, if need be.
    Force,
}
