//! Starting a prepared process.

mod own;
mod shared;

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use muster_cgroup::SpawnTarget;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::fs::{Mode as FileMode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use crate::child::{Birth, Failure, LAST_SIGNAL, Outcome, Report, start};
use crate::clone::{CloneArgs, clone3};
use crate::prepared::{PrepareError, Prepared};
use crate::slot::Slot;
use crate::step::Step;
use crate::window::Window;

use self::own::OwnSettings;
use self::shared::{PATIENCE, Shared, Undisturbed};

/// Enough for the child's few calls, also without optimisation.
const STACK: usize = 128 << 10;
/// Below the stack, so that an overflow is a fault and not a corrupted manager.
const GUARD: usize = 4 << 10;

/// The first descriptor that is no standard stream.
const FIRST_OTHER: RawFd = 3;

const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// The file system of process descriptors since 6.9, in which each process has an inode of its own.
const PIDFS_MAGIC: u64 = 0x5049_4446;

/// Whose child the new process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parent {
    /// The caller's.
    #[default]
    Own,
    /// The caller's parent's, who reaps it.
    Same,
}

/// Circumstances of one start that are not part of how the process runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Launch<'a> {
    /// The group it gets into; `None` leaves it in the caller's.
    pub cgroup: Option<&'a SpawnTarget>,
    /// Lists of processes of further groups that it gets into, open for writing.
    pub joins: &'a [OwnedFd],
    /// Whose child it is.
    pub parent: Parent,
}

/// A process that runs.
#[derive(Debug)]
pub struct Spawned {
    /// Its number.
    pub pid: Pid,
    /// A descriptor of it.
    pub pidfd: OwnedFd,
    /// What tells it from every other process while the machine is up; 0 where the kernel has no such thing.
    pub pidfd_inode: u64,
}

/// A process could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct SpawnError {
    /// The step that failed.
    pub step: Step,
    /// The system's error number; 0 where there was none.
    pub errno: i32,
    /// What was tried, with the object.
    pub detail: Box<str>,
    /// The process that ended without executing anything. With [`Parent::Same`] whoever reaps will hear of it.
    pub pid: Option<Pid>,
    /// Why.
    #[source]
    pub source: io::Error,
}

impl SpawnError {
    /// The exit code that stands for the step.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.step.exit_code()
    }

    fn new(step: Step, errno: Errno, detail: String, pid: Option<Pid>) -> Self {
        Self {
            step,
            errno: errno.raw_os_error(),
            detail: detail.into(),
            pid,
            source: errno.into(),
        }
    }
}

impl From<PrepareError> for SpawnError {
    fn from(error: PrepareError) -> Self {
        Self {
            step: error.step(),
            errno: libc::EINVAL,
            detail: "cannot describe the process to the kernel".into(),
            pid: None,
            source: io::Error::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

/// What starting processes needs could not be had.
#[derive(Debug, thiserror::Error)]
pub enum SpawnerError {
    /// No memory for the stack.
    #[error("cannot map a stack for new processes")]
    Stack {
        /// Why.
        #[source]
        source: Errno,
    },
    /// Nothing to connect streams to, or no descriptors left.
    #[error("cannot open /dev/null")]
    Null {
        /// Why.
        #[source]
        source: Errno,
    },
}

/// Starts processes, one at a time.
///
/// # A trap of the kernel's
/// Once a group was killed through `cgroup.kill`, a process that is born in it (or in a group below it that existed then)
/// is killed before it runs (seen from 6.1 to 6.18). The new process reports how far it came, so this is noticed, and
/// it is started once more, joining the group instead of being born there.
///
/// # Whoever keeps a new process from going on
/// A group can be frozen by whom it was handed to, and a process that has become somebody's can be stopped by that somebody.
/// So a process that has not executed its program after four seconds is killed, and its start has failed.
#[derive(Debug)]
pub struct Spawner {
    stack: NonNull<c_void>,
    null: OwnedFd,
    window: Window,
    /// Numbers of descriptors in the window.
    numbers: Vec<RawFd>,
    /// Signals that the caller ignores: a new process inherits that, and is not to.
    ignored: u64,
    /// Whether pidfds have inodes that name processes; not known before the first.
    named: Option<bool>,
}

impl Spawner {
    /// Gets what every start needs. Descriptors for new processes are reserved, so it is made before many others are
    /// open; and signals that the caller wants to ignore are ignored by now.
    ///
    /// # Errors
    /// There is no memory, or no `/dev/null`.
    #[expect(unsafe_code, reason = "mapping memory is unsafe by nature")]
    pub fn new() -> Result<Self, SpawnerError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        // Not among the standard streams, even if the caller has none: connecting one must not replace it.
        let null = rustix::fs::open("/dev/null", flags, FileMode::empty())
            .and_then(|null| rustix::io::fcntl_dupfd_cloexec(null, FIRST_OTHER))
            .map_err(|source| SpawnerError::Null { source })?;
        let failed = |source| SpawnerError::Stack { source };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let stack = unsafe {
            let anywhere = std::ptr::null_mut();
            rustix::mm::mmap_anonymous(anywhere, GUARD + STACK, access, MapFlags::PRIVATE)
        };
        let stack = NonNull::new(stack.map_err(failed)?).ok_or(failed(Errno::NOMEM))?;
        let window = Window::new(&null).map_err(|source| SpawnerError::Null { source })?;
        let spawner = Self {
            stack,
            null,
            window,
            numbers: Vec::new(),
            ignored: ignored_signals(),
            named: None,
        };
        // SAFETY: the lowest page of the mapping above, which nobody uses.
        let guarded = unsafe {
            rustix::mm::mprotect(stack.as_ptr(), GUARD, rustix::mm::MprotectFlags::empty())
        };
        guarded.map_err(failed)?;
        Ok(spawner)
    }

    /// Starts a process. The slot holds its pid before it first runs; whoever cares which action that pid belongs to
    /// calls [`Slot::begin`] before.
    ///
    /// # Errors
    /// A step failed; nothing was executed.
    pub fn spawn(
        &mut self,
        prepared: &mut Prepared<'_>,
        launch: &Launch<'_>,
        slot: &mut Slot,
    ) -> Result<Spawned, SpawnError> {
        match launch.cgroup {
            Some(SpawnTarget::Born(folder)) => {
                let born = Group::Born(folder.as_fd());
                match self.attempt(prepared, launch, born, slot)? {
                    Attempt::Runs(spawned) => Ok(spawned),
                    Attempt::NeverRan(_) => self.joining(prepared, launch, folder, slot),
                }
            }
            Some(SpawnTarget::Joins(file)) => {
                let joins = Group::Joins(file.as_fd());
                self.once(prepared, launch, joins, slot)
            }
            Some(SpawnTarget::Recorded) | None => self.once(prepared, launch, Group::Stays, slot),
        }
    }

    fn joining(
        &mut self,
        prepared: &mut Prepared<'_>,
        launch: &Launch<'_>,
        folder: &OwnedFd,
        slot: &mut Slot,
    ) -> Result<Spawned, SpawnError> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, "cgroup.procs", flags, FileMode::empty());
        let file = file.map_err(|error| {
            let detail = "cannot open the list of processes of the cgroup".to_owned();
            SpawnError::new(Step::Cgroup, error, detail, None)
        })?;
        self.once(prepared, launch, Group::Joins(file.as_fd()), slot)
    }

    fn once(
        &mut self,
        prepared: &mut Prepared<'_>,
        launch: &Launch<'_>,
        group: Group<'_>,
        slot: &mut Slot,
    ) -> Result<Spawned, SpawnError> {
        match self.attempt(prepared, launch, group, slot)? {
            Attempt::Runs(spawned) => Ok(spawned),
            Attempt::NeverRan(pid) => {
                let program = &prepared.context.program;
                let detail = format!("{program} was killed before it could be executed");
                Err(SpawnError::new(
                    Step::Exec,
                    Errno::CANCELED,
                    detail,
                    Some(pid),
                ))
            }
        }
    }

    fn attempt(
        &mut self,
        prepared: &mut Prepared<'_>,
        launch: &Launch<'_>,
        group: Group<'_>,
        slot: &mut Slot,
    ) -> Result<Attempt, SpawnError> {
        let own = OwnSettings::before(prepared);
        let report = Report::default();
        let cloned = self.clone(prepared, launch, group, slot, &report);
        own.restore();
        let newborn = cloned.map_err(|error| {
            let program = &prepared.context.program;
            let detail = format!("cannot make a process for {program}");
            SpawnError::new(Step::Memory, error, detail, None)
        })?;
        let Newborn {
            pid,
            pidfd,
            is_in_time,
        } = newborn;
        let outcome = report.outcome();
        if !(is_in_time && outcome == Outcome::Executed) && launch.parent == Parent::Own {
            reap(&pidfd);
        }
        if !is_in_time {
            return Err(given_up(prepared, pid));
        }
        match outcome {
            Outcome::Executed => Ok(Attempt::Runs(Spawned {
                pid,
                pidfd_inode: self.inode_of(&pidfd),
                pidfd,
            })),
            Outcome::NeverRan => Ok(Attempt::NeverRan(pid)),
            Outcome::Failed(failure) => {
                let errno = Errno::from_raw_os_error(failure.errno);
                let detail = describe(prepared, failure);
                Err(SpawnError::new(failure.step, errno, detail, Some(pid)))
            }
        }
    }

    #[expect(unsafe_code, reason = "a process that shares memory is made")]
    fn clone(
        &mut self,
        prepared: &mut Prepared<'_>,
        launch: &Launch<'_>,
        group: Group<'_>,
        slot: &mut Slot,
        report: &Report,
    ) -> Result<Newborn, Errno> {
        let mut sources = prepared.descriptors().to_vec();
        let own = sources.len();
        sources.extend(group.joins());
        sources.extend(launch.joins.iter().map(AsFd::as_fd));
        let numbers = &mut self.numbers;
        let loaded = self.window.load(&self.null, &sources, numbers)?;
        let numbers = loaded.is_some().then_some(&*self.numbers);
        let plan = prepared.plan(numbers);
        let joins: Vec<RawFd> = match numbers {
            Some(numbers) => numbers.iter().skip(own).copied().collect(),
            None => sources.iter().skip(own).map(AsRawFd::as_raw_fd).collect(),
        };
        let mut birth = Birth {
            plan: &plan,
            report,
            joins: &joins,
            null: self.null.as_raw_fd(),
            shares_below: loaded.as_ref().map(|loaded| loaded.end),
            ignored: self.ignored,
        };
        let mut pidfd: RawFd = -1;
        let mut flags = CLONE_CLEAR_SIGHAND
            | flag(libc::CLONE_PIDFD)
            | flag(libc::CLONE_PARENT_SETTID)
            | flag(libc::CLONE_CHILD_CLEARTID)
            | flag(libc::CLONE_VM);
        if loaded.is_some() {
            flags |= flag(libc::CLONE_FILES);
        }
        let exit_signal = match launch.parent {
            Parent::Own => libc::SIGCHLD,
            // The kernel gives it the caller's, and insists on none being named.
            Parent::Same => {
                flags |= flag(libc::CLONE_PARENT);
                0
            }
        };
        let mut cgroup = 0;
        if let Group::Born(folder) = group {
            flags |= CLONE_INTO_CGROUP;
            cgroup = u64::try_from(folder.as_raw_fd()).map_err(|_| Errno::BADF)?;
        }
        let shared = Shared::new();
        let mut args = CloneArgs {
            flags,
            pidfd: (&raw mut pidfd) as u64,
            child_tid: shared.address(),
            parent_tid: slot.pid_address() as u64,
            exit_signal: u64::try_from(exit_signal).map_err(|_| Errno::INVAL)?,
            stack: self.stack.as_ptr() as u64 + GUARD as u64,
            stack_size: STACK as u64,
            cgroup,
            ..CloneArgs::default()
        };
        let argument = (&raw mut birth).cast();
        let undisturbed = Undisturbed::begin();
        // SAFETY: this thread, which no signal disturbs, does nothing but wait below while the child uses `birth`, `plan`,
        // `report` and the stack, which only one thread can use through `&mut self`. With CLONE_FILES it takes a copy of the
        // table before it touches it. The stack's top is page-aligned. `pidfd`, `shared` and the slot live longer than that.
        let cloned = unsafe { clone3(&mut args, start, argument) };
        let cloned = cloned.map(|pid| {
            // SAFETY: the kernel has just opened it for us.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let is_in_time = shared.is_left_in_time();
            if !is_in_time {
                // Also who was stopped or frozen can be killed. If it has ended just now, that is as good.
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                shared.is_left();
            }
            (pid, pidfd, is_in_time)
        });
        drop(undisturbed);
        if loaded.is_some() {
            self.window.unload(&self.null, sources.len());
        }
        let (pid, pidfd, is_in_time) = cloned?;
        Ok(Newborn {
            pid: Pid::from_raw(pid).ok_or(Errno::SRCH)?,
            pidfd,
            is_in_time,
        })
    }
}

impl Spawner {
    /// The inode of a pidfd, where that names its process; 0 elsewhere.
    fn inode_of(&mut self, pidfd: &OwnedFd) -> u64 {
        let named = *self.named.get_or_insert_with(|| {
            let magic = rustix::fs::fstatfs(pidfd).map(|stat| stat.f_type);
            magic.is_ok_and(|magic| u64::try_from(magic) == Ok(PIDFS_MAGIC))
        });
        if !named {
            return 0;
        }
        rustix::fs::fstat(pidfd).map_or(0, |stat| stat.st_ino)
    }
}

/// The signals that this process ignores, as a mask.
#[expect(unsafe_code, reason = "no safe function asks for this")]
fn ignored_signals() -> u64 {
    let mut ignored = 0;
    for signal in 1..=LAST_SIGNAL {
        let mut action = [0usize; 4];
        // SAFETY: the structure has the kernel's size and layout on both supported machines.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                std::ptr::null::<usize>(),
                action.as_mut_ptr(),
                size_of::<u64>(),
            )
        };
        if result == 0 && action[0] == libc::SIG_IGN {
            ignored |= 1 << (signal - 1);
        }
    }
    ignored
}

impl Drop for Spawner {
    #[expect(unsafe_code, reason = "unmapping memory is unsafe by nature")]
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no process uses it, since starts are over when they return.
        let unmapped = unsafe { rustix::mm::munmap(self.stack.as_ptr(), GUARD + STACK) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// How one attempt gets into its group.
#[derive(Clone, Copy)]
enum Group<'a> {
    Born(BorrowedFd<'a>),
    Joins(BorrowedFd<'a>),
    Stays,
}

impl<'a> Group<'a> {
    fn joins(self) -> Option<BorrowedFd<'a>> {
        match self {
            Self::Joins(file) => Some(file),
            Self::Born(_) | Self::Stays => None,
        }
    }
}

/// A process that has left its parent's memory.
struct Newborn {
    pid: Pid,
    pidfd: OwnedFd,
    /// If not, it was killed.
    is_in_time: bool,
}

enum Attempt {
    Runs(Spawned),
    NeverRan(Pid),
}

fn flag(flag: libc::c_int) -> u64 {
    u64::from(flag.cast_unsigned())
}

/// Takes the status of a process that ended without executing anything.
fn reap(pidfd: &OwnedFd) {
    let wait = || waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    while matches!(wait(), Err(Errno::INTR)) {}
}

fn given_up(prepared: &Prepared<'_>, pid: Pid) -> SpawnError {
    let detail = format!(
        "{} was not executed within {PATIENCE:?}: its cgroup is frozen, or it was stopped",
        prepared.context.program
    );
    SpawnError::new(Step::Exec, Errno::TIMEDOUT, detail, Some(pid))
}

/// What a step was about to do, with its object.
fn describe(prepared: &Prepared<'_>, failure: Failure) -> String {
    let context = prepared.context;
    let stream = |stream: &crate::Stream, name: &str| match stream {
        crate::Stream::File { path, .. } => format!("cannot open {path} for {name}"),
        crate::Stream::Terminal => {
            let path = context
                .terminal
                .as_ref()
                .map_or("", |terminal| &terminal.path);
            format!("cannot use the terminal {path} for {name}")
        }
        _ => format!("cannot connect {name}"),
    };
    let identity = context.identity.as_ref();
    match failure.step {
        Step::Exec => format!("cannot execute {}", context.program),
        Step::Chdir => {
            let folder = context.working_directory.as_ref();
            let folder = folder.map_or("/", |folder| &folder.path);
            format!("cannot enter the working directory {folder}")
        }
        Step::Stdin => stream(&context.stdin, "standard input"),
        Step::Stdout => stream(&context.stdout, "standard output"),
        Step::Stderr => stream(&context.stderr, "standard error"),
        Step::Group => match identity {
            Some(identity) => format!("cannot change to group {}", identity.gid),
            None => "cannot change the group".to_owned(),
        },
        Step::User => match identity {
            Some(identity) => format!("cannot change to user {}", identity.uid),
            None => "cannot change the user".to_owned(),
        },
        Step::Limits => {
            let index = usize::try_from(failure.index).unwrap_or(usize::MAX);
            match context.limits.get(index) {
                Some(limit) => format!("cannot set resource limit number {}", limit.resource),
                None => "cannot set a resource limit".to_owned(),
            }
        }
        Step::Cgroup => "cannot join the cgroup".to_owned(),
        Step::Fds => "cannot pass descriptors".to_owned(),
        step => format!("cannot set {} for {}", step.word(), context.program),
    }
}
